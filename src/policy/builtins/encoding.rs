//! Texts that hold values: JSON, YAML, tokens.

use data_encoding::BASE64URL_NOPAD;
use regorus::Value;
use serde::de::IgnoredAny;

use super::{super::value, Answer, Builtin, Fault, digests::hexadecimal, failed, native, refused, string};

pub(super) const TABLE: &[Builtin] = &[
    ("io.jwt.decode", 1, decode_token),
    ("json.is_valid", 1, json_is_valid),
    ("json.unmarshal", 1, json),
    ("uuid.parse", 1, uuid),
    ("yaml.is_valid", 1, yaml_is_valid),
    ("yaml.unmarshal", 1, yaml),
];

/// How often a token may lie in a token.
const DEEPEST_TOKEN: usize = 16;

// The evaluator reads a key that stands for numbers of any size; see `value`.

fn json(arguments: &[Value]) -> Answer {
    value::from_json(string(arguments, 0)?.as_bytes()).or_else(|error| match error.to_string() {
        // OPA has numbers of any size.
        why if why.contains("number out of range") => refused(format!("json.unmarshal: {why}")),
        why => failed(why),
    })
}

fn json_is_valid(arguments: &[Value]) -> Answer {
    let valid = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    Ok(Value::from(string(arguments, 0).is_ok_and(valid)))
}

fn yaml(arguments: &[Value]) -> Answer {
    value::from_yaml(string(arguments, 0)?).or_else(|error| failed(error.to_string()))
}

fn yaml_is_valid(arguments: &[Value]) -> Answer {
    let Ok(text) = string(arguments, 0) else { return Ok(Value::from(false)) };
    let valid = value::from_yaml(text).is_ok();
    if !valid && value::is_yaml(text) {
        return refused("yaml.is_valid: more than one document");
    }
    Ok(Value::from(valid))
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
        let signature = hexadecimal(&base64url("signature", signature)?);
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
