//! Values as text.

use std::fmt;

use super::CelValue;
use crate::library::limits;

/// A text that differs for values of different types, with sorted entries of maps. A value with very many others in it is
/// only described.
impl fmt::Display for CelValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !limits::is_shown(self) {
            return write!(f, "a {} with very many values", self.type_name());
        }
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}u"),
            Self::Double(value) => double(f, *value),
            Self::String(text) => f.write_str(&quoted(text)),
            Self::Bytes(bytes) => write!(f, "b{}", data_encoding::HEXLOWER.encode(bytes)),
            Self::Duration(nanos) => write!(f, "duration({nanos})"),
            Self::Timestamp(time) => write!(f, "timestamp({}, {})", time.seconds, time.nanos),
            Self::List(list) => {
                let parts: Vec<_> = list.iter().map(|value| value.to_string()).collect();
                write!(f, "[{}]", parts.join(", "))
            }
            Self::Map(map) => {
                let mut parts: Vec<_> = map.entries().iter().map(|(key, value)| format!("{key}: {value}")).collect();
                parts.sort();
                write!(f, "{{{}}}", parts.join(", "))
            }
            Self::Type(name) => write!(f, "type({name})"),
            Self::Optional(Some(value)) => write!(f, "optional.of({value})"),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Quantity(quantity) => write!(f, "quantity({quantity})"),
            Self::Ip(ip) => write!(f, "ip({})", crate::library::ip::text(ip)),
            Self::Cidr(cidr) => write!(f, "cidr({cidr})"),
            Self::Url(url) => write!(f, "url({url})"),
            Self::Semver(version) => write!(f, "semver({version})"),
            Self::Image(image) => write!(f, "image({})", image.written()),
            Self::Format(format) => write!(f, "format({})", format.name()),
            Self::Variables => f.write_str("variables"),
        }
    }
}

fn double(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "Inf" } else { "-Inf" });
    }
    write!(f, "double({})", crate::library::floats::exponent(value, None))
}

/// Returns a text in quotes, as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
