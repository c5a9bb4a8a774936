//! Conversions between types.

use std::sync::Arc;

use super::{EvaluatedValue, Table, argument, cidr, floats, ip, time};
use crate::{
    error::failed,
    value::{CelValue, Timestamp},
};

pub(super) const TABLE: Table = &[
    ("bool_to_bool", identity),
    ("string_to_bool", |values| to_bool(argument(values, 0)?)),
    ("bytes_to_bytes", identity),
    ("string_to_bytes", |values| to_bytes(argument(values, 0)?)),
    ("double_to_double", identity),
    ("int64_to_double", |values| to_double(argument(values, 0)?)),
    ("string_to_double", |values| to_double(argument(values, 0)?)),
    ("uint64_to_double", |values| to_double(argument(values, 0)?)),
    ("duration_to_duration", identity),
    ("int64_to_duration", |values| to_duration(argument(values, 0)?)),
    ("string_to_duration", |values| to_duration(argument(values, 0)?)),
    ("int64_to_int64", identity),
    ("double_to_int64", |values| to_int(argument(values, 0)?)),
    ("duration_to_int64", |values| to_int(argument(values, 0)?)),
    ("string_to_int64", |values| to_int(argument(values, 0)?)),
    ("timestamp_to_int64", |values| to_int(argument(values, 0)?)),
    ("uint64_to_int64", |values| to_int(argument(values, 0)?)),
    ("string_to_string", identity),
    ("bool_to_string", |values| to_string(argument(values, 0)?)),
    ("bytes_to_string", |values| to_string(argument(values, 0)?)),
    ("double_to_string", |values| to_string(argument(values, 0)?)),
    ("duration_to_string", |values| to_string(argument(values, 0)?)),
    ("int64_to_string", |values| to_string(argument(values, 0)?)),
    ("timestamp_to_string", |values| to_string(argument(values, 0)?)),
    ("uint64_to_string", |values| to_string(argument(values, 0)?)),
    ("ip_to_string", |values| to_string(argument(values, 0)?)),
    ("cidr_to_string", |values| to_string(argument(values, 0)?)),
    ("timestamp_to_timestamp", identity),
    ("int64_to_timestamp", |values| to_timestamp(argument(values, 0)?)),
    ("string_to_timestamp", |values| to_timestamp(argument(values, 0)?)),
    ("uint64_to_uint64", identity),
    ("double_to_uint64", |values| to_uint(argument(values, 0)?)),
    ("int64_to_uint64", |values| to_uint(argument(values, 0)?)),
    ("string_to_uint64", |values| to_uint(argument(values, 0)?)),
];

pub(super) fn identity<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    argument(values, 0).cloned()
}

pub(super) fn type_of<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    Ok(CelValue::Type(argument(values, 0)?.type_name().into()))
}

fn impossible<'v>(value: &CelValue<'_>, to: &str) -> EvaluatedValue<'v> {
    failed(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn to_bool<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    match value.as_str() {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(CelValue::Bool(true)),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(CelValue::Bool(false)),
        _ => impossible(value, "bool"),
    }
}

fn to_bytes<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    match value.as_str() {
        Some(text) => Ok(CelValue::Bytes(Arc::from(text.as_bytes()))),
        None => impossible(value, "bytes"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as the API server does")]
fn to_double<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    match value {
        CelValue::Int(value) => Ok(CelValue::Double(*value as f64)),
        CelValue::Uint(value) => Ok(CelValue::Double(*value as f64)),
        CelValue::String(text) => match floats::parse(text) {
            Some(number) => Ok(CelValue::Double(number)),
            None => impossible(value, "double"),
        },
        _ => impossible(value, "double"),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked before")]
fn to_int<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    match value {
        CelValue::Double(value) => {
            let is_inside = *value > -9_223_372_036_854_775_808.0 && *value < 9_223_372_036_854_775_808.0;
            if is_inside { Ok(CelValue::Int(*value as i64)) } else { failed("integer overflow") }
        }
        CelValue::Duration(nanos) => Ok(CelValue::Int(*nanos)),
        CelValue::Timestamp(time) => Ok(CelValue::Int(time.seconds)),
        CelValue::Uint(value) => {
            i64::try_from(*value).map_or_else(|_| failed("integer overflow"), |int| Ok(CelValue::Int(int)))
        }
        CelValue::String(text) => match text.parse() {
            Ok(int) => Ok(CelValue::Int(int)),
            Err(_) => impossible(value, "int"),
        },
        _ => impossible(value, "int"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn to_uint<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    match value {
        CelValue::Double(value) => {
            let is_inside = (0.0..18_446_744_073_709_551_616.0).contains(value);
            if is_inside { Ok(CelValue::Uint(*value as u64)) } else { failed("unsigned integer overflow") }
        }
        CelValue::Int(value) => {
            u64::try_from(*value).map_or_else(|_| failed("unsigned integer overflow"), |uint| Ok(CelValue::Uint(uint)))
        }
        CelValue::String(text) => match text.parse().ok().filter(|_| !text.starts_with('+')) {
            Some(uint) => Ok(CelValue::Uint(uint)),
            None => impossible(value, "uint"),
        },
        _ => impossible(value, "uint"),
    }
}

/// Converts text such as `1h30m`; numbers cannot be converted.
pub(crate) fn to_duration<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    match value.as_str().and_then(time::parse_duration) {
        Some(nanos) => Ok(CelValue::Duration(nanos)),
        None => impossible(value, "google.protobuf.Duration"),
    }
}

/// Converts text of RFC 3339, or seconds since 1970.
pub(crate) fn to_timestamp<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    let time = match value {
        CelValue::Int(seconds) => Timestamp { seconds: *seconds, nanos: 0, offset: 0 },
        CelValue::String(text) => match time::parse_timestamp(text) {
            Some(time) => time,
            None => return impossible(value, "google.protobuf.Timestamp"),
        },
        _ => return impossible(value, "google.protobuf.Timestamp"),
    };
    time::checked(time)
}

pub(super) fn to_string<'v>(value: &CelValue<'v>) -> EvaluatedValue<'v> {
    Ok(CelValue::from(match value {
        CelValue::Bool(value) => value.to_string(),
        CelValue::Int(value) => value.to_string(),
        CelValue::Uint(value) => value.to_string(),
        CelValue::Double(value) => floats::general(*value),
        CelValue::Bytes(bytes) => match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return failed("invalid UTF-8 in bytes, cannot convert to string"),
        },
        CelValue::Duration(nanos) => time::duration_text(*nanos),
        CelValue::Timestamp(time) => time::timestamp_text(*time),
        CelValue::Ip(address) => ip::text(address),
        CelValue::Cidr(network) => cidr::Cidr::to_string(network),
        CelValue::Type(name) => name.to_string(),
        CelValue::Null => "null".to_owned(),
        CelValue::String(text) => text.to_string(),
        _ => return impossible(value, "string"),
    }))
}
