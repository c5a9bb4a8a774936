//! Strings that encode values: JSON, YAML, tokens.

use std::collections::BTreeMap;

use data_encoding::{BASE64, BASE64URL, BASE64URL_NOPAD, Encoding, HEXLOWER};
use regorus::Value;
use serde::de::IgnoredAny;

use super::{
    budget,
    call::{Builtin, BuiltinFault, BuiltinResult, failed, refused, string},
    natives::native,
    uri,
};
use crate::{
    order, value,
    yaml::{self, YamlDialect},
};

pub(super) const TABLE: &[Builtin] = &[
    ("base64.decode", 1, |arguments| base64_decode(string(arguments, 0)?, &BASE64)),
    ("base64.is_valid", 1, base64_is_valid),
    ("base64url.decode", 1, base64url_decode),
    ("io.jwt.decode", 1, decode_token),
    ("json.is_valid", 1, json_is_valid),
    ("json.marshal", 1, json_marshal),
    ("json.marshal_with_options", 2, json_marshal_with_options),
    ("json.unmarshal", 1, json),
    ("semver.compare", 2, |arguments| version("semver.compare", arguments)),
    ("semver.is_valid", 1, |arguments| version("semver.is_valid", arguments)),
    ("urlquery.decode", 1, |arguments| Ok(Value::from(query_text(string(arguments, 0)?)?))),
    ("urlquery.decode_object", 1, query_object),
    ("urlquery.encode", 1, |arguments| query_encoded("urlquery.encode", arguments)),
    ("urlquery.encode_object", 1, |arguments| query_encoded("urlquery.encode_object", arguments)),
    ("uuid.parse", 1, uuid),
    ("yaml.is_valid", 1, yaml_is_valid),
    ("yaml.unmarshal", 1, yaml),
];

/// The longest string that is parsed, in bytes: longer than any field of an object. Each character may become a value.
const LONGEST_READ: usize = 2 << 20;

/// The deepest nesting of tokens in tokens.
const DEEPEST_TOKEN: usize = 16;

/// Parses JSON with [`value`], as regorus reads objects with a certain key as numbers of any size.
fn json(arguments: &[Value]) -> BuiltinResult {
    let text = readable("json.unmarshal", string(arguments, 0)?)?;
    let tree = value::from_json(text.as_bytes()).or_else(|error| match error.to_string() {
        // OPA accepts numbers of any size and any depth.
        why if why.contains("number out of range") || why.contains("recursion limit") => {
            refused(format!("json.unmarshal: {why}"))
        }
        why => failed(why),
    })?;
    budget::charge_tree("json.unmarshal", &tree)?;
    Ok(tree)
}

fn readable<'a>(name: &str, text: &'a str) -> Result<&'a str, BuiltinFault> {
    if text.len() > LONGEST_READ {
        return refused(format!("{name}: the text is longer than {} MiB", LONGEST_READ >> 20));
    }
    Ok(text)
}

fn json_is_valid(arguments: &[Value]) -> BuiltinResult {
    let valid = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    Ok(Value::from(string(arguments, 0).is_ok_and(valid)))
}

fn yaml(arguments: &[Value]) -> BuiltinResult {
    let tree = yaml_document("yaml.unmarshal", string(arguments, 0)?)?;
    budget::charge_tree("yaml.unmarshal", &tree)?;
    Ok(tree)
}

fn yaml_is_valid(arguments: &[Value]) -> BuiltinResult {
    let Ok(text) = string(arguments, 0) else { return Ok(Value::from(false)) };
    match yaml_document("yaml.is_valid", text) {
        Err(BuiltinFault::Failed(_)) => Ok(Value::from(false)),
        read => read.map(|_| Value::from(true)),
    }
}

fn yaml_document(name: &str, text: &str) -> BuiltinResult {
    // As in OPA, only the first document counts, but the others must be valid.
    match yaml::stream(readable(name, text)?, YamlDialect::Opa) {
        Ok(documents) => Ok(documents.first().map_or(Value::Null, |document| document.root.value())),
        Err(error) if error.is_excessive => refused(format!("{name}: {}", error.why)),
        Err(error) => failed(error.to_string()),
    }
}

fn base64_is_valid(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(string(arguments, 0).is_ok_and(|text| base64_bytes(text, &BASE64).is_some())))
}

/// Decodes base64 as Go does: ignoring line breaks and any trailing bits.
fn base64_bytes(text: &str, strict: &Encoding) -> Option<Vec<u8>> {
    let text = text.replace(['\r', '\n'], "");
    let mut lenient = strict.specification();
    lenient.check_trailing_bits = false;
    // Nothing may follow the padding.
    let whole = !text.trim_end_matches('=').contains('=');
    lenient.encoding().ok().filter(|_| whole)?.decode(text.as_bytes()).ok()
}

fn base64_decode(text: &str, strict: &Encoding) -> BuiltinResult {
    base64_bytes(text, strict).map_or_else(|| failed("illegal base64 data"), |bytes| Ok(Value::from(go_text(&bytes))))
}

/// Decodes base64url; the padding may be missing completely, but not partly.
fn base64url_decode(arguments: &[Value]) -> BuiltinResult {
    let text = string(arguments, 0)?;
    let padding = match text.len() % 4 {
        _ if text.ends_with('=') => "",
        0 => "",
        2 => "==",
        3 => "=",
        _ => return failed("illegal base64url string"),
    };
    base64_decode(&format!("{text}{padding}"), &BASE64URL)
}

/// Returns bytes as a string, with a replacement character for each invalid byte.
fn go_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Writes a value as JSON and escapes the characters that are special in HTML, as Go does.
fn json_marshal(arguments: &[Value]) -> BuiltinResult {
    budget::check_whole("json.marshal", &arguments[0])?;
    let json = native("json.marshal", &[order::document(&arguments[0])])?;
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

fn json_marshal_with_options(arguments: &[Value]) -> BuiltinResult {
    budget::check_whole("json.marshal_with_options", &arguments[0])?;
    native("json.marshal_with_options", &[order::document(&arguments[0]), arguments[1].clone()])
}

/// Calls regorus' builtin after removing a leading `v` from the versions.
fn version(name: &str, arguments: &[Value]) -> BuiltinResult {
    if let ("semver.is_valid", Err(_)) = (name, string(arguments, 0)) {
        return Ok(Value::from(false));
    }
    let plain = |argument: &Value| match argument {
        Value::String(text) => Value::from(text.strip_prefix('v').unwrap_or(text)),
        other => other.clone(),
    };
    native(name, &arguments.iter().map(plain).collect::<Vec<_>>())
}

/// Decodes a part of a query: `%2F` is a slash, and `+` a space.
fn query_text(text: &str) -> Result<String, BuiltinFault> {
    let spaced = text.replace('+', " ");
    uri::unescape(&spaced, uri::UrlPart::Path).map(|bytes| go_text(&bytes))
}

fn query_object(arguments: &[Value]) -> BuiltinResult {
    let mut fields: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    for pair in string(arguments, 0)?.split('&').filter(|pair| !pair.is_empty()) {
        if pair.contains(';') {
            return failed("invalid semicolon separator in query");
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        fields.entry(Value::from(query_text(key)?)).or_default().push(Value::from(query_text(value)?));
    }
    Ok(Value::from(fields.into_iter().map(|(key, values)| (key, Value::from(values))).collect::<BTreeMap<_, _>>()))
}

/// Encodes a query as Go does. regorus follows the rules of HTML forms, which encode the tilde and leave the star.
fn query_encoded(name: &str, arguments: &[Value]) -> BuiltinResult {
    budget::check_whole(name, &arguments[0])?;
    match native(name, arguments)? {
        Value::String(text) => Ok(Value::from(text.replace("%7E", "~").replace('*', "%2A"))),
        other => Ok(other),
    }
}

/// Parses a UUID. Go accepts any two bytes around it in place of braces.
fn uuid(arguments: &[Value]) -> BuiltinResult {
    let text = string(arguments, 0)?;
    match text.get(1..37) {
        Some(inner) if text.len() == 38 => native("uuid.parse", &[Value::from(inner)]),
        _ => native("uuid.parse", arguments),
    }
}

/// Decodes header, payload and signature of a token, without verifying anything.
fn decode_token(arguments: &[Value]) -> BuiltinResult {
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
    failed("tokens are nested too deeply")
}

fn object(json: &[u8]) -> BuiltinResult {
    match value::from_json(json) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => failed("decoded JSON type was not an Object"),
        Err(error) => failed(format!("invalid JSON: {error}")),
    }
}

fn base64url(part: &str, text: &str) -> Result<Vec<u8>, BuiltinFault> {
    let decoded = base64_bytes(text.trim_end_matches('='), &BASE64URL_NOPAD);
    decoded.map_or_else(|| failed(format!("JWT {part} had invalid encoding")), Ok)
}
