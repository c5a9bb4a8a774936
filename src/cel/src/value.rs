//! Values of expressions; those of objects are borrowed.

mod compare;
mod display;
mod map;
pub(crate) mod typed;

use std::{fmt, net::IpAddr, ops::Deref, sync::Arc};

use serde_json::Value as Json;

pub use self::map::{Map, MapKey};
pub(crate) use self::map::{exact_int, exact_uint};
use crate::{
    library::{
        cidr::Cidr, image::ImageReference, limits, named::NamedFormat, quantity::Quantity, semver::Semver, url::Url,
    },
    schema::ListSchema,
};

/// The value of an expression.
#[derive(Clone, Debug)]
pub enum CelValue<'v> {
    /// `null`.
    Null,
    /// True or false.
    Bool(bool),
    /// 64 bits with a sign.
    Int(i64),
    /// 64 bits without a sign.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(CelText<'v>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A length of time in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A list.
    List(CelList<'v>),
    /// A map.
    Map(Map<'v>),
    /// A type, by its name.
    Type(Arc<str>),
    /// A value that may be missing.
    Optional(Option<Arc<Self>>),
    /// A quantity of Kubernetes, such as `100Mi`.
    Quantity(Arc<Quantity>),
    /// An IP address.
    Ip(IpAddr),
    /// A network.
    Cidr(Cidr),
    /// A URL.
    Url(Arc<Url>),
    /// A semantic version.
    Semver(Arc<Semver>),
    /// A named format of strings.
    Format(NamedFormat),
    /// The reference of an image.
    Image(Arc<ImageReference>),
    /// The variables of a policy; each is evaluated when it is read.
    Variables,
}

/// Text, borrowed where possible.
#[derive(Clone, Debug)]
pub enum CelText<'v> {
    /// Of an object or of the expression.
    Borrowed(&'v str),
    /// Computed.
    Shared(Arc<str>),
}

impl Deref for CelText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

/// A list, borrowed where possible.
#[derive(Clone, Debug)]
pub enum CelList<'v> {
    /// Of an object.
    Json(&'v [Json]),
    /// Of an object with a schema.
    #[expect(private_interfaces, reason = "only this crate reads schemas of lists")]
    Typed {
        /// As they are in the object.
        elements: &'v [Json],
        /// The type of the list.
        schema: &'v ListSchema,
    },
    /// A list that was added to one with a schema.
    #[expect(private_interfaces, reason = "only this crate reads schemas of lists")]
    Merged {
        /// Computed.
        elements: Arc<Vec<CelValue<'v>>>,
        /// The type of the list.
        schema: &'v ListSchema,
    },
    /// Computed.
    Shared(Arc<Vec<CelValue<'v>>>),
}

impl<'v> CelList<'v> {
    /// Returns the schema of the list; `None` if it has none.
    pub(crate) fn schema(&self) -> Option<&'v ListSchema> {
        match self {
            Self::Typed { schema, .. } | Self::Merged { schema, .. } => Some(schema),
            Self::Json(_) | Self::Shared(_) => None,
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(elements) | Self::Typed { elements, .. } => elements.len(),
            Self::Merged { elements, .. } | Self::Shared(elements) => elements.len(),
        }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an element.
    pub fn get(&self, index: usize) -> Option<CelValue<'v>> {
        match self {
            Self::Json(elements) => elements.get(index).map(CelValue::from),
            Self::Typed { elements, schema } => elements.get(index).map(|element| schema.items.value(element)),
            Self::Merged { elements, .. } | Self::Shared(elements) => elements.get(index).cloned(),
        }
    }

    /// Returns the elements.
    pub fn iter(&self) -> impl Iterator<Item = CelValue<'v>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// A point in time, and the offset of the time zone that it is displayed in.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
    /// Seconds east of UTC.
    pub offset: i32,
}

impl<'v> From<&'v Json> for CelValue<'v> {
    fn from(json: &'v Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(CelText::Borrowed(text)),
            Json::Array(elements) => Self::List(CelList::Json(elements)),
            Json::Object(entries) => Self::Map(Map::Json(entries)),
        }
    }
}

impl From<bool> for CelValue<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for CelValue<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<String> for CelValue<'_> {
    fn from(text: String) -> Self {
        Self::String(CelText::Shared(text.into()))
    }
}

impl From<&str> for CelValue<'_> {
    fn from(text: &str) -> Self {
        Self::String(CelText::Shared(text.into()))
    }
}

impl From<Vec<Self>> for CelValue<'_> {
    fn from(elements: Vec<Self>) -> Self {
        Self::List(CelList::Shared(Arc::new(elements)))
    }
}

impl<'v> CelValue<'v> {
    /// Returns an optional value.
    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Returns a number for a length.
    pub(crate) fn length(length: usize) -> Self {
        Self::Int(i64::try_from(length).unwrap_or(i64::MAX))
    }

    /// Returns a constant of an expression without copying its text.
    pub(crate) fn borrowed(&'v self) -> Self {
        match self {
            Self::String(text) => Self::String(CelText::Borrowed(text)),
            other => other.clone(),
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of its type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Image(_) => "kyverno.image",
            Self::Variables => "kubernetes.variables",
        }
    }

    /// Returns the size that costs are computed with: code points of strings, bytes, elements of lists and maps; 1 for
    /// everything else.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::String(text) => code_points(text) as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(cidr) => u64::from(cidr.bits()).div_ceil(8),
            Self::Optional(Some(value)) => value.cost_size(),
            _ => 1,
        }
    }

    /// Whether its type is one of Kubernetes' libraries.
    pub(crate) fn is_of_kubernetes(&self) -> bool {
        matches!(
            self,
            Self::Quantity(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Url(_)
                | Self::Semver(_)
                | Self::Format(_)
                | Self::Image(_)
        )
    }

    /// Whether `optional.ofNonZeroValue` has no value for it.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Bool(false) | Self::Int(0) | Self::Uint(0) | Self::Duration(0) => true,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            // The first moment that Go knows.
            Self::Timestamp(time) => time.seconds == -62_135_596_800 && time.nanos == 0,
            _ => false,
        }
    }

    /// Returns how error messages show a value: texts without quotes. A value with very many others in it is described.
    pub fn plain(&self) -> String {
        if !limits::is_shown(self) {
            return self.to_string();
        }
        match self {
            Self::String(text) => text.to_string(),
            Self::Uint(value) => value.to_string(),
            Self::Double(value) => crate::library::floats::general(*value),
            Self::List(list) => {
                let parts: Vec<_> = list.iter().map(|value| value.plain()).collect();
                format!("[{}]", parts.join(", "))
            }
            Self::Optional(Some(value)) => format!("optional({})", value.plain()),
            Self::Map(map) => {
                let entries = map.entries();
                let parts: Vec<_> =
                    entries.iter().map(|(key, value)| format!("{}: {}", key.plain(), value.plain())).collect();
                format!("{{{}}}", parts.join(", "))
            }
            other => other.to_string(),
        }
    }
}

/// Returns the number of code points.
pub(crate) fn code_points(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

impl fmt::Display for CelText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
