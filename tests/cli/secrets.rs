//! Values of Secrets in manifests are never written: all output is searched for them.

use std::{fs, path::Path};

use clap::ValueEnum as _;
use data_encoding::BASE64;
use kaudit::output::Format;
use kaudit_test_support::secrets::leak;

use crate::kaudit;

/// The secret value; invalid manifests contain it unquoted, so that it could end up in parse errors.
const CANARY: &str = "Canary-7f3a91c0d2";

/// Reports everything it can read, in every way possible.
const TELLTALE: &str = r#"package telltale

deny_message contains sprintf("%v", [input])

warn_details contains {"msg": "details", "details": {"all": input, "others": data.kubernetes}} if print(input)

deny_printed contains json.marshal(data.inventory)

deny_conflict contains x if x := conflict

conflict := input

conflict := 1

deny_failing contains x if x := to_number(input.stringData.password)

exception contains [["excepted"]] if input.data.password == "x"
"#;

const ADMISSION: &str = r#"package review

deny contains sprintf("%v", [input.request])
"#;

fn assert_clean(what: &str, bytes: &[u8]) {
    if let Some(part) = leak(&String::from_utf8_lossy(bytes), CANARY) {
        panic!("{what} shows a secret: …{part}…");
    }
}

fn encoded() -> String {
    BASE64.encode(CANARY.as_bytes())
}

/// Returns valid Secrets, in each form that manifests have.
fn secrets() -> Vec<(&'static str, String)> {
    let encoded = encoded();
    let applied = format!(r#"{{"kind":"Secret","data":{{"password":"{encoded}"}},"stringData":{{"b":"{CANARY}"}}}}"#);
    let quoted = serde_json::to_string(&applied).unwrap();
    let json = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{name}","namespace":"shop","annotations":{{"kubectl.kubernetes.io/last-applied-configuration":{quoted},"kapp.k14s.io/original":{quoted},"objectset.rio.cattle.io/applied":"{encoded}","banzaicloud.com/last-applied":"{encoded}","keep":"me"}}}},"data":{{"password":"{encoded}"}},"stringData":{{"password":"{CANARY}"}}}}"#
        )
    };
    let leaky = format!(
        r#"{{"apiVersion":"v1","kind":"Secret","type":"{CANARY}","metadata":{{"name":"leaky","labels":{{"a":"{CANARY}","keep":"me"}},"annotations":{{"openshift.io/token-secret.value":"{CANARY}","kopf.zalando.org/last-handled-configuration":{quoted},"meta.helm.sh/release-name":"{encoded}"}},"password":"{CANARY}"}},"data":{{"password":"{encoded}"}}}}"#
    );
    let applied = serde_json::to_string(&format!(r#"{{"kind":"Template","objects":[{leaky}]}}"#)).unwrap();
    let template = format!(
        r#"{{"apiVersion":"template.openshift.io/v1","kind":"Template","metadata":{{"name":"keep","annotations":{{"kubectl.kubernetes.io/last-applied-configuration":{applied}}}}},"objects":[{leaky},{{"kind":"List","items":[{leaky}]}}]}}"#
    );
    let bare = json("bare").replace(r#""apiVersion":"v1","kind":"Secret","#, "");
    vec![
        (
            "plain.yaml",
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: plain}}\ndata:\n  password: {encoded}\n"),
        ),
        (
            "string.yaml",
            format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: string\nstringData:\n  password: {CANARY}\n"),
        ),
        (
            "block.yaml",
            format!(
                "kind: Secret\napiVersion: v1\nmetadata:\n  name: block\nstringData:\n  file: |\n    a: {CANARY}\n"
            ),
        ),
        ("object.json", json("object")),
        ("leaky.json", leaky),
        ("template.json", template),
        ("list.json", format!(r#"{{"apiVersion":"v1","kind":"List","items":[{},{}]}}"#, json("one"), json("two"))),
        ("typed.json", format!(r#"{{"apiVersion":"v1","kind":"SecretList","items":[{bare}]}}"#)),
        ("array.json", format!("[{}]", json("in-array"))),
        (
            "review.json",
            format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"1","operation":"UPDATE","object":{},"oldObject":{}}}}}"#,
                json("new"),
                json("new")
            ),
        ),
        (
            "deleted.json",
            format!(
                r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"1","operation":"DELETE","object":null,"oldObject":{}}}}}"#,
                json("old")
            ),
        ),
        (
            "misplaced.yaml",
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: misplaced}}\ndata:\npassword: {CANARY}\n"),
        ),
        (
            "no_map.yaml",
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: no-map}}\ndata: {CANARY}\nstringData: [{CANARY}]\n"
            ),
        ),
        (
            "nested.yaml",
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: nested}}\ndata: {{a: {{b: {CANARY}}}}}\n"),
        ),
    ]
}

/// Returns invalid Secrets.
fn broken() -> Vec<(&'static str, String)> {
    let head = "apiVersion: v1\nkind: Secret\nmetadata: {name: broken}\nstringData:\n";
    vec![
        ("alias.yaml", format!("{head}  password: *{CANARY}\n")),
        ("tag.yaml", format!("{head}  password: !{CANARY} 1\n")),
        ("long_tag.yaml", format!("{head}  password: !!{CANARY} 1\n")),
        ("directive.yaml", format!("{head}  password: %{CANARY}\n")),
        ("at.yaml", format!("{head}  password: @{CANARY}\n")),
        ("backtick.yaml", format!("{head}  password: `{CANARY}`\n")),
        ("quote.yaml", format!("{head}  password: \"{CANARY}\n")),
        ("escape.yaml", format!("{head}  password: \"\\{CANARY}\"\n")),
        ("brace.yaml", format!("{head}  password: {{{CANARY}\n")),
        ("colon.yaml", format!("{head}  password: a: {CANARY}\n")),
        ("indent.yaml", format!("{head}  password: a\n {CANARY}\n")),
        ("twice.yaml", format!("{head}  a: {CANARY}\n  a: {CANARY}\n")),
        ("tab.yaml", format!("{head}\tpassword: {CANARY}\n")),
        ("number.yaml", format!("{head}  password: !!int {CANARY}\n")),
        ("anchor.yaml", format!("{head}  password: &{CANARY} &{CANARY} x\n")),
        ("merge.yaml", format!("{head}  <<: {CANARY}\n")),
        ("cut.json", format!(r#"{{"apiVersion":"v1","kind":"Secret","stringData":{{"password":"{CANARY}"#)),
        (
            "comma.json",
            format!(r#"{{"apiVersion":"v1","kind":"Secret","stringData":{{"password":"{CANARY}" "b": 1}}}}"#),
        ),
        ("bare.json", format!(r#"{{"apiVersion":"v1","kind":"Secret","stringData":{{"password":{CANARY}}}}}"#)),
        ("no_name.yaml", format!("{head}  password: {CANARY}\n").replace("{name: broken}", "{}")),
        ("meta.yaml", format!("{head}  password: {CANARY}\n").replace("{name: broken}", CANARY)),
        ("typed.yaml", format!("apiVersion: v1\nkind: SecretList\nitems: {CANARY}\n")),
        ("typed_items.yaml", format!("apiVersion: v1\nkind: SecretList\nitems: [{CANARY}]\n")),
        ("review.yaml", format!("apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest: {CANARY}\n")),
    ]
}

/// Checks one file with every format and the most verbose log; returns the results as JSON.
fn search(folder: &Path, name: &str, more: &[&str]) -> Vec<u8> {
    let formats: Vec<String> = Format::value_variants()
        .iter()
        .map(|format| format!("{0}=out.{0}", format.name()))
        .chain(["json".to_owned()])
        .collect();
    let output = formats.join(",");
    let arguments = ["check", "-p", "policies", "-f", name, "-o", &output, "--log-level=trace"];
    let ended = kaudit(folder, &[&arguments, more].concat()).env("RUST_BACKTRACE", "full").output().unwrap();
    assert!(matches!(ended.status.code(), Some(1..=3)), "{name}: {ended:?}");
    if more.is_empty() {
        assert_clean(&format!("{name}: standard output"), &ended.stdout);
        assert_clean(&format!("{name}: standard error"), &ended.stderr);
        for format in Format::value_variants().iter().map(|format| format.name()) {
            if let Ok(written) = fs::read(folder.join(format!("out.{format}"))) {
                assert_clean(&format!("{name}: {format}"), &written);
            }
        }
    }
    ended.stdout
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("policies")).unwrap();
    fs::write(folder.path().join("policies/telltale.rego"), TELLTALE).unwrap();
    fs::write(folder.path().join("policies/review.rego"), ADMISSION).unwrap();
    folder
}

#[test]
fn values_of_secrets_in_manifests_never_leak() {
    let folder = folder();
    for (name, text) in secrets() {
        fs::write(folder.path().join(name), text).unwrap();
        let stdout = search(folder.path(), name, &[]);
        // Other values are in the output, so the test can fail.
        let results: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        assert!(results["results"].as_array().unwrap().len() > 2, "{name}: {results}");
        assert!(name == "plain.yaml" || !name.ends_with("json") || String::from_utf8_lossy(&stdout).contains("keep"));
        let full = search(folder.path(), name, &["--secrets=full"]);
        assert!(leak(&String::from_utf8_lossy(&full), CANARY).is_some(), "{name}");
    }
}

#[test]
fn values_of_invalid_secrets_never_leak() {
    for (name, text) in broken() {
        let folder = folder();
        fs::write(folder.path().join(name), text).unwrap();
        // Together with a valid one.
        fs::write(folder.path().join("good.yaml"), &secrets()[0].1).unwrap();
        search(folder.path(), ".", &[]);
    }
}

#[test]
fn values_of_secrets_on_standard_input_never_leak() {
    let folder = folder();
    for (name, text) in secrets().into_iter().chain(broken()) {
        fs::write(folder.path().join(name), text).unwrap();
        let file = fs::File::open(folder.path().join(name)).unwrap();
        let mut command = kaudit(folder.path(), &["check", "-p", "policies", "-f", "-", "--log-level=trace"]);
        let ended = command.stdin(file).output().unwrap();
        assert_clean(name, &[ended.stdout, ended.stderr].concat());
    }
}
