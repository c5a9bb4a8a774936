//! Signatures made by OPA and by keys.

use std::{fs, path::Path};

use data_encoding::BASE64;
use kaudit_controlplane::{Tool, require_tool, tool};
use kaudit_test_support::files::write;
use serde_json::json;

use super::{
    artifact::{FakeRegistry, payload, statement},
    program::{check, policy, run},
    server::digest,
};

/// Builds a signed bundle with OPA.
fn sign(directory: &Path, algorithm: &str, more: &[&str]) {
    let arguments = ["build", "-b", "source", "-o", "bundle.tar.gz", "--signing-alg", algorithm];
    let built = run(tool(Tool::Opa).unwrap(), directory, &[], &[&arguments, more].concat());
    assert_eq!(built.code, 0, "{algorithm}: {}", built.err);
}

/// Generates a key pair with `openssl`; returns false if it is not installed.
pub(crate) fn keys(directory: &Path, name: &str, arguments: &[&str]) -> bool {
    let (private, public) = (format!("{name}.key"), format!("{name}.pub"));
    let run = |arguments: &[&str]| {
        let command = std::process::Command::new("openssl").args(arguments).current_dir(directory).output();
        command.is_ok_and(|output| output.status.success())
    };
    run(&[&["genpkey", "-out", &private], arguments].concat())
        && run(&["pkey", "-in", &private, "-pubout", "-out", &public])
}

#[test]
fn bundles_signed_by_opa_are_verified_as_by_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at, &[("source/own.rego", &policy("signed")), ("source/data.json", "{\"n\": [1.50, 1e2, \"<\\u2028é\"]}")]);
    write(at, &[("shared", "a secret"), ("other", "another secret")]);
    sign(at, "HS512", &["--signing-key", "shared"]);
    let checked = check(at, &[], "bundle.tar.gz", &["--verification-key", "shared"]);
    assert_eq!(checked.messages(), ["signed"], "{}", checked.err);
    assert_eq!(checked.json()["bundles"][0]["verified"], true);
    for (more, want) in [
        (&[][..], "is signed, but there is no key"),
        (&["--verification-key", "other"], "is not signed by the given key"),
        (&["--verification-key", "shared", "--verification-scope", "write"], "the scope"),
        (&["--verification-key", "missing"], "cannot read missing"),
    ] {
        let refused = check(at, &[], "bundle.tar.gz", more);
        assert_eq!(refused.code, 2, "{more:?}");
        assert!(refused.err.contains(want), "{more:?}: {}", refused.err);
    }
    // OPA reports the same for a signed bundle without a key.
    let opa = run(tool(Tool::Opa).unwrap(), at, &[], &["run", "-b", "bundle.tar.gz"]);
    assert!(
        opa.code != 0 && (opa.out.clone() + &opa.err).contains("verification key not provided"),
        "{} {}",
        opa.out,
        opa.err
    );

    let unsigned = run(tool(Tool::Opa).unwrap(), at, &[], &["build", "-b", "source", "-o", "bundle.tar.gz"]);
    assert_eq!(unsigned.code, 0, "{}", unsigned.err);
    let refused = check(at, &[], "bundle.tar.gz", &["--verification-key", "shared"]);
    assert!(refused.code == 2 && refused.err.contains("is not signed"), "{}", refused.err);
}

#[test]
fn each_kind_of_key_verifies_what_it_signs_and_nothing_else() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at, &[("source/own.rego", &policy("signed"))]);
    let kinds = [
        ("rsa", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"][..]),
        ("p256", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
        ("p384", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]),
        ("ed25519", &["-algorithm", "ED25519"]),
    ];
    if !kinds.iter().all(|(name, of)| keys(at, name, of) && keys(at, &format!("another-{name}"), of)) {
        assert!(std::env::var_os("CI").is_none(), "no openssl");
        return;
    }
    for (algorithm, key) in [
        ("RS256", "rsa"),
        ("RS384", "rsa"),
        ("PS256", "rsa"),
        ("PS512", "rsa"),
        ("ES256", "p256"),
        ("ES384", "p384"),
        ("EdDSA", "ed25519"),
    ] {
        let (private, public) = (format!("{key}.key"), format!("{key}.pub"));
        sign(at, algorithm, &["--signing-key", &private]);
        let checked = check(at, &[], "bundle.tar.gz", &["--verification-key", &public]);
        assert_eq!(checked.code, 1, "{algorithm}: {}", checked.err);
        let same_kind = format!("another-{key}.pub");
        let other_kind = if key == "rsa" { "p256.pub" } else { "rsa.pub" };
        for (other, want) in [(&*same_kind, "is not signed by the given key"), (other_kind, "is signed with")] {
            let refused = check(at, &[], "bundle.tar.gz", &["--verification-key", other]);
            assert!(refused.code == 2 && refused.err.contains(want), "{algorithm}, {other}: {}", refused.err);
        }
    }
    let private = check(at, &[], "bundle.tar.gz", &["--verification-key", "rsa.key"]);
    assert!(private.err.contains("give the PUBLIC KEY"), "{}", private.err);
    fs::remove_file(at.join("bundle.tar.gz")).unwrap();
    let gone = check(at, &[], "bundle.tar.gz", &[]);
    assert!(gone.code == 2 && gone.err.contains("bundle.tar.gz: no such file"), "{}", gone.err);
}

/// Signs with a private key, as `cosign sign --key` does: the SHA-256 digest, or with Ed25519 the message itself.
pub(crate) fn signed(at: &Path, key: &str, message: &[u8]) -> String {
    fs::write(at.join("message"), message).unwrap();
    let made =
        run("openssl", at, &[], &["pkeyutl", "-sign", "-rawin", "-inkey", key, "-in", "message", "-out", "signature"]);
    assert_eq!(made.code, 0, "{}", made.err);
    BASE64.encode(&fs::read(at.join("signature")).unwrap())
}

#[test]
fn signatures_by_a_cosign_key_are_verified() {
    verify_attached(&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]);
}

#[test]
fn signatures_by_cosign_with_an_ed25519_key_are_verified() {
    verify_attached(&["-algorithm", "ED25519"]);
}

/// Checks an artifact with attached signatures by two keys, which `openssl` generates with these arguments.
fn verify_attached(kind: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    if !keys(at, "own", kind) || !keys(at, "other", kind) {
        assert!(std::env::var_os("CI").is_none(), "no openssl");
        return;
    }
    let registry = FakeRegistry::new();
    let own = registry.artifact.digest.clone();
    let image = "cosign container image signature";
    let (sign, provenance) = ("https://sigstore.dev/cosign/sign/v1", "https://slsa.dev/provenance/v1");
    let simple = |key: &str, payload: &str| {
        let annotations = json!({"dev.cosignproject.cosign/signature": signed(at, key, payload.as_bytes())});
        registry.artifact.annotated(payload, &annotations)
    };
    let bundle = |key: &str, digest_of_subject: &str, predicate: &str| {
        let statement = statement(digest_of_subject, predicate);
        let kind = "application/vnd.in-toto+json";
        let message = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
        let envelope = json!({"payloadType": kind, "payload": BASE64.encode(statement.as_bytes()),
            "signatures": [{"sig": signed(at, key, message.as_bytes())}]});
        registry.artifact.referred(&json!({"dsseEnvelope": envelope}).to_string())
    };
    for (signatures, accepted) in [
        (simple("own.key", &payload(&own, image)), true),
        (simple("other.key", &payload(&own, image)), false),
        (simple("own.key", &payload(&digest(b"another"), image)), false),
        (simple("own.key", &payload(&own, "something else")), false),
        (bundle("own.key", &own, sign), true),
        (bundle("other.key", &own, sign), false),
        (bundle("own.key", &digest(b"another"), sign), false),
        // A provenance attestation by the same key does not count as a signature.
        (bundle("own.key", &own, provenance), false),
        (vec![], false),
    ] {
        registry.attach(signatures);
        let said = check(at, &[], &registry.reference(), &["--verification-key", "own.pub"]);
        assert_eq!(said.code, if accepted { 1 } else { 2 }, "{}", said.err);
        assert!(accepted || said.err.contains("signed"), "{}", said.err);
    }
}
