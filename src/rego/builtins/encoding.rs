//! Texts that hold values: JSON, YAML, tokens.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use regorus::Value;
use serde::de::IgnoredAny;
use serde_saphyr::Error as YamlError;

use super::{
    budget,
    call::{Answer, Builtin, Fault, failed, refused, string},
    natives::native,
    uri,
};
use crate::rego::{value, yaml};

pub(super) const TABLE: &[Builtin] = &[
    ("base64.is_valid", 1, base64_is_valid),
    ("io.jwt.decode", 1, decode_token),
    ("json.is_valid", 1, json_is_valid),
    ("json.marshal", 1, json_marshal),
    ("json.unmarshal", 1, json),
    ("semver.compare", 2, |arguments| version("semver.compare", arguments)),
    ("semver.is_valid", 1, |arguments| version("semver.is_valid", arguments)),
    ("urlquery.decode", 1, |arguments| query_decoded("urlquery.decode", arguments)),
    ("urlquery.decode_object", 1, |arguments| query_decoded("urlquery.decode_object", arguments)),
    ("urlquery.encode", 1, |arguments| query_encoded("urlquery.encode", arguments)),
    ("urlquery.encode_object", 1, |arguments| query_encoded("urlquery.encode_object", arguments)),
    ("uuid.parse", 1, uuid),
    ("yaml.is_valid", 1, yaml_is_valid),
    ("yaml.unmarshal", 1, yaml),
];

/// The longest text that is read, in bytes: longer than what an object can hold. Each character may become a value.
const LONGEST_READ: usize = 2 << 20;

/// How often a token may lie in a token.
const DEEPEST_TOKEN: usize = 16;

// regorus reads a key that stands for numbers of any size; see `value`.

fn json(arguments: &[Value]) -> Answer {
    let text = readable("json.unmarshal", string(arguments, 0)?)?;
    let tree = value::from_json(text.as_bytes()).or_else(|error| match error.to_string() {
        // OPA reads numbers of any size, and any depth.
        why if why.contains("number out of range") || why.contains("recursion limit") => {
            refused(format!("json.unmarshal: {why}"))
        }
        why => failed(why),
    })?;
    budget::charge_tree("json.unmarshal", &tree)?;
    Ok(tree)
}

fn readable<'a>(name: &str, text: &'a str) -> Result<&'a str, Fault> {
    if text.len() > LONGEST_READ {
        return refused(format!("{name}: the text is longer than {} MiB", LONGEST_READ >> 20));
    }
    Ok(text)
}

fn json_is_valid(arguments: &[Value]) -> Answer {
    let valid = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    Ok(Value::from(string(arguments, 0).is_ok_and(valid)))
}

fn yaml(arguments: &[Value]) -> Answer {
    let tree = yaml_document("yaml.unmarshal", string(arguments, 0)?)?;
    budget::charge_tree("yaml.unmarshal", &tree)?;
    Ok(tree)
}

fn yaml_is_valid(arguments: &[Value]) -> Answer {
    let Ok(text) = string(arguments, 0) else { return Ok(Value::from(false)) };
    match yaml_document("yaml.is_valid", text) {
        Err(Fault::Failed(_)) => Ok(Value::from(false)),
        read => read.map(|_| Value::from(true)),
    }
}

fn yaml_document(name: &str, text: &str) -> Answer {
    value::from_yaml(readable(name, text)?).or_else(|error| match yaml::cause(&error) {
        YamlError::MultipleDocuments { .. } => refused(format!("{name}: more than one document")),
        _ if yaml::is_too_much(&error) => refused(format!("{name}: {}", yaml::reason(&error))),
        _ => failed(error.to_string()),
    })
}

fn base64_is_valid(arguments: &[Value]) -> Answer {
    if let Value::String(_) = &arguments[0] { native("base64.is_valid", arguments) } else { Ok(Value::from(false)) }
}

/// Go escapes what HTML would read.
fn json_marshal(arguments: &[Value]) -> Answer {
    budget::check_whole("json.marshal", &arguments[0])?;
    let json = native("json.marshal", arguments)?;
    let Some(text) = value::text(&json) else { return failed("json.marshal: not a string") };
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => escaped.push(c),
        }
    }
    Ok(Value::from(escaped))
}

/// A `v` may stand before a version.
fn version(name: &str, arguments: &[Value]) -> Answer {
    if let ("semver.is_valid", Err(_)) = (name, string(arguments, 0)) {
        return Ok(Value::from(false));
    }
    let plain = |argument: &Value| match argument {
        Value::String(text) => Value::from(text.strip_prefix('v').unwrap_or(text)),
        other => other.clone(),
    };
    native(name, &arguments.iter().map(plain).collect::<Vec<_>>())
}

fn query_decoded(name: &str, arguments: &[Value]) -> Answer {
    uri::escapes(string(arguments, 0)?)?;
    native(name, arguments)
}

/// regorus encodes by the rules of HTML forms, where the tilde is encoded and the star is not.
fn query_encoded(name: &str, arguments: &[Value]) -> Answer {
    budget::check_whole(name, &arguments[0])?;
    match native(name, arguments)? {
        Value::String(text) => Ok(Value::from(text.replace("%7E", "~").replace('*', "%2A"))),
        other => Ok(other),
    }
}

/// Go takes any two bytes around it for braces.
fn uuid(arguments: &[Value]) -> Answer {
    let text = string(arguments, 0)?;
    match text.get(1..37) {
        Some(inner) if text.len() == 38 => native("uuid.parse", &[Value::from(inner)]),
        _ => native("uuid.parse", arguments),
    }
}

/// Header, payload and signature of a token, nothing of it verified.
fn decode_token(arguments: &[Value]) -> Answer {
    let mut token = string(arguments, 0)?.to_owned();
    for _ in 0..DEEPEST_TOKEN {
        let parts: Vec<&str> = token.split('.').collect();
        let [header, payload, signature] = parts[..] else {
            return match parts.len() {
                1 => failed("encoded JWT had no period separators"),
                found => failed(format!("encoded JWT must have 3 sections, found {found}")),
            };
        };
        let header = object(&base64url("header", header)?)?;
        if header["enc"] != Value::Undefined {
            return failed("JWT is a JWE object, which is not supported");
        }
        let payload = base64url("payload", payload)?;
        if header["cty"] == Value::from("JWT") {
            let inner = String::from_utf8_lossy(&payload).trim_matches(['"', '\'']).to_owned();
            token = inner;
            continue;
        }
        let signature = HEXLOWER.encode(&base64url("signature", signature)?);
        return Ok(Value::from(vec![header, object(&payload)?, Value::from(signature)]));
    }
    failed("tokens in tokens")
}

fn object(json: &[u8]) -> Answer {
    match value::from_json(json) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => failed("decoded JSON type was not an Object"),
        Err(error) => failed(format!("invalid JSON: {error}")),
    }
}

fn base64url(part: &str, text: &str) -> Result<Vec<u8>, Fault> {
    let mut lenient = BASE64URL_NOPAD.specification();
    // Go does not look at the bits that are left over.
    lenient.check_trailing_bits = false;
    let decoded =
        lenient.encoding().ok().and_then(|encoding| encoding.decode(text.trim_end_matches('=').as_bytes()).ok());
    decoded.map_or_else(|| failed(format!("JWT {part} had invalid encoding")), Ok)
}
