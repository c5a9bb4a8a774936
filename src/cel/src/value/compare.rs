//! Equality and order of values.

use std::cmp::Ordering;

use super::{CelList, CelValue, Map, typed};
use crate::error::{EvalError, failed, no_overload};

impl CelValue<'_> {
    /// Whether two values are equal; `None` if they cannot be compared.
    pub fn equals(&self, other: &Self) -> Option<bool> {
        Some(match (self, other) {
            (Self::Null, _) | (_, Self::Null) => matches!((self, other), (Self::Null, Self::Null)),
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                numbers(self, other) == Some(Ordering::Equal)
            }
            (Self::String(one), Self::String(other)) => **one == **other,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Timestamp(one), Self::Timestamp(other)) => (one.seconds, one.nanos) == (other.seconds, other.nanos),
            (Self::List(one), Self::List(other)) => lists(one, other),
            (Self::Map(one), Self::Map(other)) => maps(one, other),
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Optional(one), Self::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => return one.equals(other),
                (one, other) => one.is_none() && other.is_none(),
            },
            // A computed quantity on the right side has a type of its own in the API server.
            (Self::Quantity(one), Self::Quantity(other)) if !other.is_computed() => one.equals(other),
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one.to_string() == other.to_string(),
            (Self::Image(one), Self::Image(other)) => one.written() == other.written(),
            (Self::Semver(one), Self::Semver(other)) => one.compare(other).is_eq(),
            (Self::Format(one), Self::Format(other)) => one == other,
            (Self::Variables, Self::Variables) => true,
            (
                Self::Quantity(_)
                | Self::Ip(_)
                | Self::Cidr(_)
                | Self::Url(_)
                | Self::Semver(_)
                | Self::Format(_)
                | Self::Image(_)
                | Self::Variables,
                _,
            ) => return None,
            _ => false,
        })
    }

    /// Whether two values are equal and can be compared.
    pub fn is_equal(&self, other: &Self) -> bool {
        self.equals(other) == Some(true)
    }

    /// Returns the order of two values.
    ///
    /// # Errors
    /// If values of these types have no order, or a number is NaN.
    pub(crate) fn order(&self, other: &Self) -> Result<Ordering, EvalError> {
        match (self, other) {
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                match numbers(self, other) {
                    Some(order) => Ok(order),
                    None => failed("NaN values cannot be ordered"),
                }
            }
            (Self::Double(value), _) if value.is_nan() => failed("NaN values cannot be ordered"),
            (Self::String(one), Self::String(other)) => Ok((**one).cmp(&**other)),
            (Self::Bool(one), Self::Bool(other)) => Ok(one.cmp(other)),
            (Self::Bytes(one), Self::Bytes(other)) => Ok(one.cmp(other)),
            (Self::Duration(one), Self::Duration(other)) => Ok(one.cmp(other)),
            (Self::Timestamp(one), Self::Timestamp(other)) => {
                Ok((one.seconds, one.nanos).cmp(&(other.seconds, other.nanos)))
            }
            _ => no_overload(),
        }
    }

    /// Whether values of this type have an order.
    pub(crate) fn is_comparable(&self) -> bool {
        matches!(
            self,
            Self::Bool(_)
                | Self::Int(_)
                | Self::Uint(_)
                | Self::Double(_)
                | Self::String(_)
                | Self::Bytes(_)
                | Self::Duration(_)
                | Self::Timestamp(_)
        )
    }
}

/// Returns the order of numbers; `None` if one is NaN.
#[expect(clippy::cast_precision_loss, reason = "as the API server does")]
fn numbers(one: &CelValue<'_>, other: &CelValue<'_>) -> Option<Ordering> {
    match (one, other) {
        (CelValue::Int(one), CelValue::Int(other)) => Some(one.cmp(other)),
        (CelValue::Uint(one), CelValue::Uint(other)) => Some(one.cmp(other)),
        (CelValue::Double(one), CelValue::Double(other)) => one.partial_cmp(other),
        (CelValue::Int(one), CelValue::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (CelValue::Uint(one), CelValue::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (CelValue::Double(one), CelValue::Int(other)) => int_order(*one, *other),
        (CelValue::Int(one), CelValue::Double(other)) => int_order(*other, *one).map(Ordering::reverse),
        (CelValue::Double(one), CelValue::Uint(other)) => one.partial_cmp(&(*other as f64)),
        (CelValue::Uint(one), CelValue::Double(other)) => (*one as f64).partial_cmp(other),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "as the API server does")]
fn int_order(one: f64, other: i64) -> Option<Ordering> {
    if one < i64::MIN as f64 {
        return Some(Ordering::Less);
    }
    if one > i64::MAX as f64 {
        return Some(Ordering::Greater);
    }
    one.partial_cmp(&(other as f64))
}

/// Elements that cannot be compared count as equal, as in the API server.
fn lists(one: &CelList<'_>, other: &CelList<'_>) -> bool {
    if let Some(schema) = one.schema() {
        return schema.equals(one, other);
    }
    one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| one.equals(&other) != Some(false))
}

fn maps<'v>(one: &Map<'v>, other: &Map<'v>) -> bool {
    if let Map::Typed { entries, schema } = one {
        return typed::maps(entries, schema, one, other);
    }
    let same = |(key, value): (CelValue<'v>, CelValue<'v>)| match other.find(&key) {
        Some(found) => value.equals(&found) != Some(false),
        None => false,
    };
    one.len() == other.len() && one.entries().into_iter().all(same)
}
