//! Keyless signatures: kaudit verifies them as sigstore-go does.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use kaudit_controlplane::{Tool, require_tool, tool};
use kaudit_test_support::{child::ChildGuard, files::write};
use serde_json::{Value, json};

use super::{
    artifact::{FakeRegistry, Things, payload, statement},
    program::{ProgramOutput, check, kaudit},
    server::digest,
};

pub(crate) const FORMS: [&str; 3] = ["annotations", "bundle", "tiles"];
pub(crate) const SUBJECT: &str = "https://ci.example.com/team/policies/.ci/release.yml@refs/heads/main";
pub(crate) const ISSUER: &str = "https://ci.example.com";
/// The types that `cosign sign` writes: of its payload and of its statement.
const SIGNATURE: (&str, &str) = ("cosign container image signature", "https://sigstore.dev/cosign/sign/v1");

/// The test tool, which runs its own Sigstore instances.
pub(crate) struct Sigstore {
    _child: ChildGuard,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A signature in one of the formats.
#[derive(Clone)]
pub(crate) struct Signature {
    /// The trusted root to verify it with.
    pub(crate) root: Value,
    pub(crate) payload: String,
    /// Annotations of cosign 2; otherwise `bundle` is the bundle of cosign 3.
    pub(crate) annotations: Option<Value>,
    pub(crate) bundle: Option<Value>,
}

impl Signature {
    /// Returns it as stored in a registry.
    pub(crate) fn beside(&self, registry: &FakeRegistry) -> Things {
        match &self.annotations {
            Some(annotations) => registry.artifact.annotated(&self.payload, annotations),
            None => registry.artifact.referred(&self.bundle.clone().unwrap().to_string()),
        }
    }
}

impl Sigstore {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(tool(Tool::Sigstore).unwrap());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (requests, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { _child: ChildGuard(child), requests, answers: BufReader::new(answers) }
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Signs a digest, with the deviations given by `how`.
    pub(crate) fn sign(&mut self, form: &str, digest: &str, how: &Value) -> Signature {
        let text = match form {
            "annotations" => payload(digest, SIGNATURE.0),
            _ => statement(digest, SIGNATURE.1),
        };
        let mut request =
            json!({"instance": "own", "form": form, "subject": SUBJECT, "issuer": ISSUER, "payload": text});
        for (key, value) in how.as_object().unwrap() {
            request[key] = value.clone();
        }
        let mut answer = self.ask(&json!({"sign": request}));
        let payload = request["payload"].as_str().unwrap().to_owned();
        let mut taken = |key: &str| answer.get_mut(key).map(Value::take);
        Signature { root: taken("root").unwrap(), payload, annotations: taken("annotations"), bundle: taken("bundle") }
    }

    /// Returns why sigstore-go refuses a signature; empty if it approves.
    pub(crate) fn refusal(&mut self, signature: &Signature, digest: &str, wanted: &Wanted) -> String {
        let Signature { root, payload, annotations, bundle } = signature;
        let mut request = json!({"root": root, "digest": digest, "payload": payload});
        request["annotations"] = annotations.clone().into();
        request["bundle"] = bundle.clone().into();
        for (option, value) in wanted {
            let key = option.replace("certificate-", "").replace("oidc-", "").replace("identity", "subject");
            request[key.replace('-', "_")] = (*value).into();
        }
        let answer = self.ask(&json!({"verify": request}));
        answer.get("refused").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// cosign options and their values.
pub(crate) type Wanted<'a> = [(&'a str, &'a str)];

pub(crate) const EXACT: &Wanted = &[("certificate-identity", SUBJECT), ("certificate-oidc-issuer", ISSUER)];

/// Returns the options as passed to kaudit.
fn options(wanted: &Wanted) -> Vec<String> {
    let options = wanted.iter().map(|(option, value)| format!("--{option}={value}"));
    options.chain(["--trusted-root=root.json".to_owned()]).collect()
}

/// Checks with the policies of the artifact, with a signature attached to it.
fn checked(at: &Path, registry: &FakeRegistry, signature: &Signature, wanted: &Wanted) -> ProgramOutput {
    registry.attach(signature.beside(registry));
    fs::write(at.join("root.json"), signature.root.to_string()).unwrap();
    let options = options(wanted);
    check(at, &[], &registry.reference(), &options.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn the_signer_is_verified_as_by_sigstore_go() {
    if !require_tool(Tool::Sigstore) {
        return;
    }
    let (mut sigstore, registry, directory) = (Sigstore::start(), FakeRegistry::new(), tempfile::tempdir().unwrap());
    let own = registry.artifact.digest.clone();
    for form in FORMS {
        let signature = sigstore.sign(form, &own, &json!({}));
        let by_mail = sigstore.sign(form, &own, &json!({"subject": "dev@example.com"}));
        let mail: &Wanted = &[("certificate-identity", "dev@example.com"), EXACT[1]];
        let cases: [(&Signature, &Wanted, bool); 12] = [
            (&signature, EXACT, true),
            (&by_mail, mail, true),
            (&by_mail, EXACT, false),
            (&signature, &[("certificate-identity", &SUBJECT[..SUBJECT.len() - 1]), EXACT[1]], false),
            (&signature, &[EXACT[0], ("certificate-oidc-issuer", "https://ci.example.com/")], false),
            // A regular expression may match any part.
            (&signature, &[("certificate-identity-regexp", "team/policies/"), EXACT[1]], true),
            (&signature, &[("certificate-identity-regexp", "^team/policies/"), EXACT[1]], false),
            (&signature, &[("certificate-identity-regexp", r"@refs/heads/\pL+$"), EXACT[1]], true),
            (&signature, &[EXACT[0], ("certificate-oidc-issuer-regexp", r"^https://[a-z]+\.example\.com$")], true),
            (&signature, &[EXACT[0], ("certificate-oidc-issuer-regexp", "^http://")], false),
            (&signature, &[("certificate-identity-regexp", "."), ("certificate-oidc-issuer-regexp", ".")], true),
            (&signature, &[("certificate-identity-regexp", "."), ("certificate-oidc-issuer-regexp", "other")], false),
        ];
        for (signature, wanted, accepted) in cases {
            let refusal = sigstore.refusal(signature, &own, wanted);
            assert_eq!(refusal.is_empty(), accepted, "{form} {wanted:?}: sigstore-go: {refusal}");
            let output = checked(directory.path(), &registry, signature, wanted);
            assert_eq!(output.code, if accepted { 1 } else { 2 }, "{form} {wanted:?}: {}", output.err);
            if accepted {
                assert_eq!(output.json()["bundles"][0]["verified"], true);
            } else {
                assert!(output.err.contains("is not signed by the given identity"), "{}", output.err);
                assert!(output.err.contains("a signature is by \""), "{}", output.err);
            }
        }
    }
}

#[test]
fn an_identity_that_matches_everyone_is_refused() {
    if !require_tool(Tool::Sigstore) {
        return;
    }
    let (mut sigstore, registry, directory) = (Sigstore::start(), FakeRegistry::new(), tempfile::tempdir().unwrap());
    let own = registry.artifact.digest.clone();
    let anybody: &Wanted = &[("certificate-identity-regexp", ".*"), ("certificate-oidc-issuer-regexp", ".*")];
    for form in FORMS {
        for how in [json!({"subject": ""}), json!({"issuer": ""})] {
            let signature = sigstore.sign(form, &own, &how);
            let refusal = sigstore.refusal(&signature, &own, anybody);
            assert_eq!(refusal.is_empty(), how["issuer"] == "", "{form} {how}: sigstore-go: {refusal}");
            let output = checked(directory.path(), &registry, &signature, anybody);
            assert!(
                output.code == 2 && output.err.contains("without an identity or without its issuer"),
                "{form} {how}: {}",
                output.err
            );
        }
    }
}

#[test]
fn certificates_and_logs_are_verified_as_by_sigstore_go() {
    if !require_tool(Tool::Sigstore) {
        return;
    }
    let (mut sigstore, registry, directory) = (Sigstore::start(), FakeRegistry::new(), tempfile::tempdir().unwrap());
    let own = registry.artifact.digest.clone();
    let another = digest(b"another");
    for form in FORMS {
        let text = |digest: &str, kind: (&str, &str)| match form {
            "annotations" => payload(digest, kind.0),
            _ => statement(digest, kind.1),
        };
        let (elsewhere, provenance) =
            (text(&another, SIGNATURE), text(&own, ("other", "https://slsa.dev/provenance/v1")));
        let is_tiles = form == "tiles";
        for (how, accepted) in [
            (json!({}), true),
            // The log also proves the time, except in Rekor v2.
            (json!({"without": ["timestamp"]}), !is_tiles),
            (json!({"without": ["entry"]}), false),
            (json!({"without": ["sct"]}), false),
            (json!({"other": ["sct"]}), false),
            (json!({"other": ["certificate"]}), false),
            (json!({"other": ["entry"]}), false),
            (json!({"other": ["timestamp"], "without": ["promise"]}), false),
            // The certificate had expired.
            (json!({"late": true}), false),
            (json!({"late": true, "without": ["timestamp"]}), false),
            (json!({"payload": elsewhere}), false),
            (json!({"payload": provenance}), false),
            (json!({"payload": "no JSON"}), false),
            // cosign 2 stores the promise; a bundle must contain the proof.
            (json!({"without": ["proof"]}), form == "annotations"),
            (json!({"without": ["promise"]}), true),
            (json!({"without": ["promise", "timestamp"]}), form == "annotations"),
        ] {
            // cosign 2 stores nothing but the promise; other invalid parts are covered in `altered.rs`.
            if form == "annotations" && how["other"][0] == "timestamp" {
                continue;
            }
            let signature = sigstore.sign(form, &own, &how);
            let refusal = sigstore.refusal(&signature, &own, EXACT);
            assert_eq!(refusal.is_empty(), accepted, "{form} {how}: sigstore-go: {refusal}");
            let output = checked(directory.path(), &registry, &signature, EXACT);
            assert_eq!(output.code, if accepted { 1 } else { 2 }, "{form} {how}: {}", output.err);
        }
        // Authorities and logs of another instance.
        let mut signature = sigstore.sign(form, &own, &json!({}));
        signature.root = sigstore.sign(form, &own, &json!({"instance": "other"})).root;
        assert_ne!(sigstore.refusal(&signature, &own, EXACT), "");
        assert_eq!(checked(directory.path(), &registry, &signature, EXACT).code, 2);
    }
}

#[test]
fn unverifiable_bundles_are_refused() {
    let (registry, directory) = (FakeRegistry::new(), tempfile::tempdir().unwrap());
    let at = directory.path();
    write(at, &[("own.tar.gz", "none"), ("root.json", "{}"), ("text.json", "none")]);
    let given = options(EXACT);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let text = [&given[..2], &["--trusted-root=text.json"]].concat();
    let (missing, empty) = ([&given[..2], &["--trusted-root=missing.json"]].concat(), registry.reference());
    for (policies, options, want) in [
        ("own.tar.gz", &given[..2], "--trusted-root"),
        ("own.tar.gz", &given[1..], "--certificate-identity"),
        ("own.tar.gz", &[given[0], given[2]], "--certificate-oidc-issuer"),
        ("own.tar.gz", &[&given[..], &["--verification-key=own.pub"]].concat(), "cannot be used with"),
        ("own.tar.gz", &[&given[..], &["--certificate-identity-regexp=x"]].concat(), "cannot be used with"),
        ("own.tar.gz", &["--certificate-identity-regexp=("], "invalid value '('"),
        ("own.tar.gz", &["--certificate-identity-regexp="], "every name"),
        (&empty, &missing, "cannot read missing.json"),
        (&empty, &text, "text.json is not a trusted root of Sigstore"),
        (&empty, &given, "root.json is not a trusted root of Sigstore"),
    ] {
        let output = check(at, &[], policies, options);
        assert!(output.code == 2 && output.err.contains(want), "{policies} {options:?}: {}", output.err);
    }
}

#[test]
fn only_artifacts_can_have_keyless_signatures() {
    if !require_tool(Tool::Sigstore) {
        return;
    }
    let (mut sigstore, registry, directory) = (Sigstore::start(), FakeRegistry::new(), tempfile::tempdir().unwrap());
    let at = directory.path();
    let signature = sigstore.sign("bundle", &registry.artifact.digest, &json!({}));
    write(at, &[("own.tar.gz", "none"), ("root.json", &signature.root.to_string())]);
    let given = options(EXACT);
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    for archive in ["own.tar.gz", "https://bundles.example.com/own.tar.gz", "http://bundles.example.com/own.tar.gz"] {
        let output = check(at, &[], archive, &given);
        let want = "requires a keyless signature, which only an artifact in a registry has";
        assert!(output.code == 2 && output.err.contains(want) && output.err.contains(archive), "{}", output.err);
    }
    let unsigned = check(at, &[], &registry.reference(), &given);
    assert!(
        unsigned.code == 2 && unsigned.err.contains("is not signed, and --certificate-identity"),
        "{}",
        unsigned.err
    );

    // Options from the environment; cached bundles are verified again.
    let variables = [
        ("KAUDIT_CERTIFICATE_IDENTITY", SUBJECT),
        ("KAUDIT_CERTIFICATE_OIDC_ISSUER", ISSUER),
        ("KAUDIT_TRUSTED_ROOT", "root.json"),
        ("KAUDIT_BUNDLE_CACHE", "cache"),
    ];
    registry.attach(signature.beside(&registry));
    let output = kaudit(at, &variables, &["policies", &registry.reference()]);
    assert!(output.code == 0 && output.out.contains(", signature verified"), "{} {}", output.out, output.err);
    registry.go_down();
    let cached = check(at, &variables, &registry.reference(), &[]);
    assert_eq!(cached.messages(), ["signed"], "{}", cached.err);
    assert_eq!(cached.json()["bundles"][0]["verified"], true);
    let other = check(at, &variables[1..], &registry.reference(), &["--certificate-identity=dev@example.com"]);
    assert!(other.code == 2 && other.err.contains("The bundle in the cache is refused"), "{}", other.err);
}
