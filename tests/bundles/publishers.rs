//! kaudit reads what other tools publish, and they read what kaudit publishes.

use std::{fs, path::Path};

use kaudit_controlplane::{Tool, require_tool, tool};
use kaudit_test_support::{files::write, registry::Registry};

use super::program::{POD, ProgramOutput, check, kaudit, policy, run};

/// Checks the Pod with conftest; returns the messages.
fn conftest(directory: &Path, policies: &str) -> Vec<String> {
    fs::write(directory.join("pod.yaml"), POD).unwrap();
    let arguments = ["test", "--all-namespaces", "-o", "json", "-p", policies, "-d", policies, "pod.yaml"];
    let json = run(tool(Tool::Conftest).unwrap(), directory, &[], &arguments).json();
    let failures =
        json.as_array().unwrap().iter().flat_map(|file| file["failures"].as_array().cloned().unwrap_or_default());
    failures.map(|failure| failure["msg"].as_str().unwrap().to_owned()).collect()
}

const WITH_DATA: &str =
    "package own\n\ndeny contains msg if {\n\tmsg := sprintf(\"%v is not allowed\", [data.lists.denied[_]])\n}\n";
const DATA: &str = r#"{"denied": ["web"]}"#;

#[test]
fn conftest_and_opa_read_what_kaudit_pushes() {
    if !require_tool(Tool::Registry) || !require_tool(Tool::Conftest) || !require_tool(Tool::Opa) {
        return;
    }
    let (registry, directory) = (Registry::guarded(), tempfile::tempdir().unwrap());
    let at = directory.path();
    write(
        at,
        &[("policies/a/own.rego", WITH_DATA), ("policies/lists/data.json", DATA), ("policies/notes.txt", "none")],
    );
    let reference = registry.artifact("team/policies:v1");
    let (login, authority) = (registry.login(), registry.authority());
    let (login, authority) = (login.to_str().unwrap(), authority.to_str().unwrap());
    let trusted = ["--bundle-ca", authority];
    let push = ["push", &reference, "policies", trusted[0], trusted[1]];

    let unknown = kaudit(at, &[], &push);
    assert_eq!(unknown.code, 2, "{}", unknown.err);
    assert!(unknown.err.contains("401") && unknown.err.contains("docker login"), "{}", unknown.err);
    let untrusted = kaudit(at, &[("DOCKER_CONFIG", login)], &push[..3]);
    assert_eq!(untrusted.code, 2, "{}", untrusted.err);

    let pushed = kaudit(at, &[("DOCKER_CONFIG", login)], &push);
    assert_eq!(pushed.code, 0, "{}", pushed.err);
    let pinned = pushed.out.trim();
    assert!(pinned.starts_with(&registry.artifact("team/policies@sha256:")), "{pinned}");
    assert_eq!(kaudit(at, &[("DOCKER_CONFIG", login)], &push).out.trim(), pinned, "the same files, another artifact");

    for policies in [&*reference, pinned] {
        let checked = check(at, &[("DOCKER_CONFIG", login)], policies, &trusted);
        assert_eq!((checked.code, checked.messages()), (1, vec!["web is not allowed".to_owned()]), "{}", checked.err);
        let bundle = &checked.json()["bundles"][0];
        assert_eq!(bundle["source"], policies);
        assert!(pinned.ends_with(bundle["digest"].as_str().unwrap()));
        assert_eq!((&bundle["pinned"], &bundle["verified"]), (&(policies == pinned).into(), &false.into()));
    }

    let name = format!("oci://{}", reference.trim_start_matches("oci://"));
    let variables = [("DOCKER_CONFIG", login), ("SSL_CERT_FILE", authority)];
    let pulled = run(tool(Tool::Conftest).unwrap(), at, &variables, &["pull", &name, "-p", "pulled", "--tls"]);
    let pulled = if pulled.code == 0 {
        pulled
    } else {
        run(tool(Tool::Conftest).unwrap(), at, &variables, &["pull", &name, "-p", "pulled"])
    };
    assert_eq!(pulled.code, 0, "{}", pulled.err);
    assert_eq!(fs::read_to_string(at.join("pulled/a/own.rego")).unwrap(), WITH_DATA);
    assert_eq!(conftest(at, "pulled"), ["web is not allowed"]);
}

#[test]
fn opa_reads_what_kaudit_pushes() {
    if !require_tool(Tool::Registry) || !require_tool(Tool::Opa) {
        return;
    }
    let (registry, directory) = (Registry::open(), tempfile::tempdir().unwrap());
    let at = directory.path();
    write(at, &[("policies/a/own.rego", WITH_DATA), ("policies/lists/data.json", DATA)]);
    let pushed = kaudit(at, &[], &["push", &registry.artifact("policies:v1"), "policies"]);
    assert_eq!(pushed.code, 0, "{}", pushed.err);
    let settings = format!(
        "services: {{r: {{url: \"http://{0}\", type: oci}}}}\nbundles: {{b: {{service: r, resource: \"{0}/policies:v1\", \
         polling: {{min_delay_seconds: 60, max_delay_seconds: 61}}}}}}\npersistence_directory: {1}/opa\n",
        registry.host,
        at.display()
    );
    write(at, &[("opa.yaml", &settings)]);
    let ended = run(
        tool(Tool::Opa).unwrap(),
        at,
        &[],
        &["exec", "--config-file", "opa.yaml", "--decision", "own/deny", "policies/lists/data.json"],
    );
    assert!(ended.out.contains("web is not allowed"), "{} {}", ended.out, ended.err);
}

#[test]
fn policies_pushed_by_conftest_are_evaluated_as_by_conftest() {
    if !require_tool(Tool::Registry) || !require_tool(Tool::Conftest) {
        return;
    }
    let (registry, directory) = (Registry::open(), tempfile::tempdir().unwrap());
    let at = directory.path();
    write(at, &[("policy/own.rego", &policy("by conftest"))]);
    let target = format!("{}/policies:v1", registry.host);
    let pushed = run(tool(Tool::Conftest).unwrap(), at, &[], &["push", &target, "-p", "policy"]);
    assert_eq!(pushed.code, 0, "{}", pushed.err);
    let checked = check(at, &[], &registry.artifact("policies:v1"), &[]);
    assert_eq!(checked.messages(), conftest(at, "policy"));
    let missing = check(at, &[], &registry.artifact("policies:v2"), &[]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("has no v2 of policies"), "{}", missing.err);
}

/// Builds a bundle with OPA; returns its output.
fn build(directory: &Path, more: &[&str]) -> ProgramOutput {
    run(tool(Tool::Opa).unwrap(), directory, &[], &[&["build", "-b", "source", "-o", "bundle.tar.gz"], more].concat())
}

#[test]
fn bundles_of_opa_are_read_as_by_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(
        at,
        &[
            (
                "source/own.rego",
                "package own\n\nimport data.lists\n\ndeny contains \"denied\" if \"web\" in lists.denied\n",
            ),
            ("source/lists/data.json", DATA),
        ],
    );
    let built = build(at, &["-r", "rev-1"]);
    assert_eq!(built.code, 0, "{}", built.err);
    let checked = check(at, &[], "bundle.tar.gz", &[]);
    assert_eq!(checked.messages(), ["denied"], "{}", checked.err);
    assert_eq!(checked.json()["bundles"][0]["revision"], "rev-1");
    let listed = kaudit(at, &[], &["policies", "bundle.tar.gz"]);
    assert!(
        listed.out.contains("bundle bundle.tar.gz: sha256:") && listed.out.contains("revision rev-1"),
        "{}",
        listed.out
    );

    // The declared version counts: this policy has another meaning in each.
    write(at, &[("source/own.rego", "package own\n\ndeny[msg] {\n\tmsg := \"v0\"\n}\n")]);
    let built = build(at, &["--v0-compatible"]);
    assert_eq!(built.code, 0, "{}", built.err);
    assert_eq!(check(at, &[], "bundle.tar.gz", &[]).messages(), ["v0"]);

    let built = build(at, &["--v0-compatible", "-t", "wasm", "-e", "own/deny"]);
    assert_eq!(built.code, 0, "{}", built.err);
    let wasm = check(at, &[], "bundle.tar.gz", &[]);
    assert_eq!(wasm.code, 2);
    assert!(wasm.err.contains("compiled to WebAssembly"), "{}", wasm.err);
}

#[test]
fn roots_are_enforced_as_by_opa() {
    if !require_tool(Tool::Opa) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let archive = |name: &str, package: &str, roots: &str| {
        let module = format!("package {package}\n\ndeny contains \"{name}\" if true\n");
        write(at, &[("pack/.manifest", &format!(r#"{{"roots": {roots}}}"#)), ("pack/own.rego", &module)]);
        let packed = run("tar", at, &[], &["-czf", name, "-C", "pack", ".manifest", "own.rego"]);
        assert_eq!(packed.code, 0, "{}", packed.err);
    };
    let opa = |bundles: &[&str]| {
        let names = bundles.iter().flat_map(|bundle| ["-b", bundle]);
        let arguments: Vec<&str> = ["eval", "--format", "raw"].into_iter().chain(names).chain(["data"]).collect();
        run(tool(Tool::Opa).unwrap(), at, &[], &arguments)
    };
    archive("a.tar.gz", "team.a", r#"["team/a"]"#);
    archive("b.tar.gz", "team.b", r#"["team/b"]"#);
    archive("c.tar.gz", "team.a.c", r#"["team/a/c"]"#);
    archive("d.tar.gz", "team.a", r#"["team/b"]"#);
    for (bundles, accepted) in [
        (&["a.tar.gz"][..], true),
        (&["a.tar.gz", "b.tar.gz"], true),
        (&["a.tar.gz", "c.tar.gz"], false),
        (&["d.tar.gz"], false),
    ] {
        assert_eq!(opa(bundles).code == 0, accepted, "{bundles:?}: {}", opa(bundles).err);
        let more: Vec<&str> = bundles[1..].iter().flat_map(|bundle| ["-p", bundle]).collect();
        let checked = check(at, &[], bundles[0], &more);
        assert_eq!(checked.code, if accepted { 1 } else { 2 }, "{bundles:?}: {}", checked.err);
    }
}
