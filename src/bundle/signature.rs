//! `.signatures.json`: the signature of an OPA bundle, a JWT over the digests of its files.
//!
//! The format is defined in <https://www.openpolicyagent.org/docs/management-bundles#signing>; where that is silent, this
//! follows OPA's code.

use std::collections::BTreeMap;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use super::{archive::Files, key::VerificationKey, manifest::MANIFEST};
use crate::rego::{
    Limits,
    analysis::yaml::{self, YamlDialect},
};

/// The name of the file.
const SIGNATURES: &str = ".signatures.json";
/// Files that are hashed by their values, whatever their white space and the order of their keys.
const STRUCTURED: [&str; 3] = ["data.json", "data.yaml", MANIFEST];
/// The maximum nesting of values that are hashed.
const DEEPEST: usize = 128;

#[derive(Deserialize)]
struct Signatures {
    #[serde(default)]
    signatures: Vec<String>,
    #[serde(default)]
    plugin: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    files: Vec<SignedFile>,
    #[serde(default)]
    scope: String,
}

#[derive(Deserialize)]
struct SignedFile {
    name: String,
    hash: String,
    #[serde(default)]
    algorithm: String,
}

fn is_signature(path: &[String]) -> bool {
    path.last().is_some_and(|name| name == SIGNATURES)
}

/// Whether a bundle has a signature by any key.
pub(super) fn is_signed(files: &Files) -> bool {
    files.keys().any(|path| is_signature(path))
}

/// Checks that a bundle is signed by a key, for a scope, and that it has exactly the signed files.
///
/// # Errors
/// With the reason, if it is not.
pub(super) fn verify(files: &Files, key: &VerificationKey, scope: &str) -> Result<(), String> {
    let mut found = files.iter().filter(|(path, _)| is_signature(path));
    let (Some((_, text)), None) = (found.next(), found.next()) else {
        return Err(format!("has more than one {SIGNATURES}"));
    };
    let Signatures { signatures, plugin } =
        serde_json::from_slice(text).map_err(|error| format!("{SIGNATURES}: {error}"))?;
    if !plugin.is_empty() && plugin != "_default" {
        return Err(format!("{SIGNATURES}: requires verification by the OPA plugin {plugin:?}"));
    }
    let [token] = &signatures[..] else {
        return Err(format!("{SIGNATURES}: has {} signatures, but must have exactly one", signatures.len()));
    };
    let payload = payload(token, key)?;
    if payload.scope != scope {
        return Err(format!("is signed for the scope {:?}, not for {scope:?}", payload.scope));
    }
    let limit = Limits::default().file_bytes;
    let mut signed: BTreeMap<&str, &SignedFile> =
        payload.files.iter().map(|file| (file.name.trim_start_matches('/'), file)).collect();
    for (path, content) in files.iter().filter(|(path, _)| !is_signature(path)) {
        let name = path.join("/");
        let file = signed.remove(name.as_str()).ok_or_else(|| format!("{name} is not in the signature"))?;
        let structured = path.last().is_some_and(|last| STRUCTURED.contains(&last.as_str()));
        // Parsing takes time for content that is not verified yet; larger files would not be read later anyway.
        if structured && content.len() as u64 > limit {
            return Err(format!("{name} has {} bytes, more than the limit of {limit}", content.len()));
        }
        let digest = digest(&file.algorithm, content, structured).map_err(|why| format!("{name}: {why}"))?;
        if HEXLOWER_PERMISSIVE.decode(file.hash.as_bytes()).ok().as_deref() != Some(&digest[..]) {
            return Err(format!("{name} does not match the signature"));
        }
    }
    match signed.first_key_value() {
        Some((name, _)) => Err(format!("{name} was signed but is missing")),
        None => Ok(()),
    }
}

/// Returns the payload of a JWT.
///
/// # Errors
/// If it is invalid, or not signed by the key.
fn payload(token: &str, key: &VerificationKey) -> Result<Payload, String> {
    let broken = || format!("{SIGNATURES}: the signature is not a JWT");
    let (signed, signature) = token.rsplit_once('.').ok_or_else(broken)?;
    let (header, payload) = signed.split_once('.').ok_or_else(broken)?;
    let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| broken());
    let Header { alg } = serde_json::from_slice(&decode(header)?).map_err(|_| broken())?;
    key.verify_jwt(&alg, signed.as_bytes(), &decode(signature)?)?;
    serde_json::from_slice(&decode(payload)?)
        .map_err(|error| format!("{SIGNATURES}: the payload of the signature is invalid: {error}"))
}

fn digest(algorithm: &str, content: &[u8], structured: bool) -> Result<Vec<u8>, String> {
    let canonical = if structured { Some(canonical(content)?) } else { None };
    let content = canonical.as_deref().unwrap_or(content);
    Ok(match algorithm {
        "SHA-224" => Sha224::digest(content).to_vec(),
        "SHA-256" => Sha256::digest(content).to_vec(),
        "SHA-384" => Sha384::digest(content).to_vec(),
        "SHA-512" => Sha512::digest(content).to_vec(),
        "SHA-512-224" => Sha512_224::digest(content).to_vec(),
        "SHA-512-256" => Sha512_256::digest(content).to_vec(),
        other => return Err(format!("uses an unsupported digest algorithm: {other:?}")),
    })
}

/// Returns JSON, or YAML converted to it, with sorted keys and without white space; numbers stay as they are written.
fn canonical(content: &[u8]) -> Result<Vec<u8>, String> {
    let mut written = Vec::with_capacity(content.len());
    if let Ok(value) = serde_json::from_slice::<&RawValue>(content) {
        write(value.get(), 0, &mut written)?;
        return Ok(written);
    }
    let text = std::str::from_utf8(content).map_err(|error| error.to_string())?;
    let value = yaml::single(text, YamlDialect::Opa).map_err(|error| error.why)?.json();
    write(&value.to_string(), 0, &mut written)?;
    Ok(written)
}

/// Writes JSON in its canonical form.
fn write(json: &str, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("is nested deeper than {DEEPEST} levels"));
    }
    let wrong = |error: serde_json::Error| error.to_string();
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            let values: BTreeMap<String, &RawValue> = serde_json::from_str(json).map_err(wrong)?;
            out.push(b'{');
            for (index, (key, value)) in values.iter().enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                out.extend_from_slice(text(key).as_bytes());
                out.push(b':');
                write(value.get(), depth + 1, out)?;
            }
            out.push(b'}');
        }
        Some(b'[') => {
            let values: Vec<&RawValue> = serde_json::from_str(json).map_err(wrong)?;
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                write(value.get(), depth + 1, out)?;
            }
            out.push(b']');
        }
        Some(b'"') => out.extend_from_slice(text(&serde_json::from_str::<String>(json).map_err(wrong)?).as_bytes()),
        _ => out.extend_from_slice(json.as_bytes()),
    }
    Ok(())
}

/// Writes a string as Go does, which also escapes the line separators of JavaScript.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use ring::hmac;

    use super::*;

    fn secret() -> VerificationKey {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "shared").unwrap();
        VerificationKey::read(file.path()).unwrap()
    }

    fn signed(payload: &str) -> String {
        let parts = [r#"{"alg":"HS256","typ":"JWT"}"#, payload].map(|part| BASE64URL_NOPAD.encode(part.as_bytes()));
        let text = parts.join(".");
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"shared"), text.as_bytes());
        format!(r#"{{"signatures": ["{text}.{}"]}}"#, BASE64URL_NOPAD.encode(tag.as_ref()))
    }

    fn files(files: &[(&str, &str)]) -> Files {
        let path = |name: &str| name.split('/').map(str::to_owned).collect();
        files.iter().map(|(name, text)| (path(name), text.as_bytes().to_vec())).collect()
    }

    fn verified(signatures: &str, others: &[(&str, &str)]) -> Result<(), String> {
        let mut all = files(others);
        all.extend(files(&[(SIGNATURES, signatures)]));
        verify(&all, &secret(), "")
    }

    #[test]
    fn structured_files_are_hashed_by_their_values() {
        let text = br#" { "b" : [1.0, 1e5, "x"], "a": {"d": null, "c": "\u0041\n<\u2028>"} } "#;
        let want = "{\"a\":{\"c\":\"A\\n<\\u2028>\",\"d\":null},\"b\":[1.0,1e5,\"x\"]}";
        assert_eq!(String::from_utf8(canonical(text).unwrap()).unwrap(), want);
        assert_eq!(canonical(b"a: [1, x]").unwrap(), b"{\"a\":[1,\"x\"]}");
        assert!(canonical("[".repeat(1_000).as_bytes()).is_err());
    }

    #[test]
    fn long_structured_files_are_refused_before_they_are_parsed() {
        let blanks = " ".repeat(1 << 20);
        let long = format!("{{}}{blanks}");
        for (name, hashed, is_refused) in
            [("a/data.json", "{}", true), ("data.yaml", "{}", true), (MANIFEST, "{}", true), ("a.rego", &*long, false)]
        {
            let hash = crate::model::digest::Digest::of(hashed);
            let payload = format!(r#"{{"files": [{{"name": "{name}", "hash": "{hash}", "algorithm": "SHA-256"}}]}}"#);
            let outcome = verified(&signed(&payload), &[(name, &long)]);
            assert_eq!(outcome.is_err_and(|why| why.contains("more than the limit of 1048576")), is_refused, "{name}");
            assert_eq!(verified(&signed(&payload), &[(name, hashed)]), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_bundle_must_be_signed_completely() {
        let hash = |text: &str| crate::model::digest::Digest::of(text).to_string();
        let module = "package a";
        let file = |name: &str| format!(r#"{{"name": "{name}", "hash": "{}", "algorithm": "SHA-256"}}"#, hash(module));
        let good = signed(&format!(r#"{{"files": [{}]}}"#, file("a.rego")));
        assert_eq!(verified(&good, &[("a.rego", module)]), Ok(()));
        for (files, want) in [
            (&[("a.rego", "package b")][..], "a.rego does not match the signature"),
            (&[("a.rego", module), ("b.rego", module)], "b.rego is not in the signature"),
            (&[], "a.rego was signed but is missing"),
        ] {
            assert_eq!(verified(&good, files).unwrap_err(), want);
        }
        for (signatures, want) in [
            (good.replacen("ey", "ez", 1), "not a JWT"),
            (r#"{"signatures": []}"#.to_owned(), "0 signatures"),
            (r#"{"signatures": ["a"]}"#.to_owned(), "not a JWT"),
            (r#"{"signatures": ["a.b.c"], "plugin": "own"}"#.to_owned(), "plugin"),
            ("[]".to_owned(), SIGNATURES),
            (signed(r#"{"scope": "write", "files": []}"#), "the scope \"write\""),
            (signed(r#"{"files": [{"name": "a.rego", "hash": "", "algorithm": "MD5"}]}"#), "unsupported"),
        ] {
            let why = verified(&signatures, &[("a.rego", module)]).unwrap_err();
            assert!(why.contains(want), "{signatures}: {why}");
        }
    }
}
