//! Mistakes of users: exit code and both streams of each command line, one golden for each group.

use std::{
    fmt::Write as _,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Stdio},
};

use kaudit_test_support::files;

use crate::kaudit;

/// Number of lines kept of a stream: help is tested elsewhere.
const LINES: usize = 12;

const POLICY: &str = "\
package p

# METADATA
# title: Labels
# custom: {id: P-01, severity: high}
deny contains \"no label\" if not input.metadata.labels
";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  containers: [{name: c, image: a}]\n";

/// Returns a kubeconfig with one cluster and one user.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\ncontexts: [{{name: t, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {user}}}]\n"
    )
}

fn folder() -> tempfile::TempDir {
    let server = "{server: 'https://127.0.0.1:1'}";
    let exec = |command: &str, arguments: &str| {
        format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {command}, args: [{arguments}], interactiveMode: Never}}}}"
        )
    };
    let object = |metadata: &str| format!("apiVersion: v1\nkind: Pod\nmetadata:\n  {metadata}\nspec: {{}}\n");
    let exception = |spec: &str| {
        format!("apiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {{name: e}}\nspec:\n{spec}")
    };
    let folder = files::folder(&[
        ("policies/p.rego", POLICY),
        ("policies/lib.rego", "package lib\n"),
        ("a.yaml", POD),
        ("b.yaml", &POD.replace("web", "api")),
        ("m/a.yaml", POD),
        ("empty/.keep", ""),
        ("nothing.yaml", ""),
        ("comment.yaml", "# later\n"),
        ("text.yaml", "Hello, this is not a manifest.\n"),
        ("tab.yaml", &POD.replace("  name", "\tname")),
        ("indent.yaml", &POD.replace("  namespace", "    namespace")),
        ("twice.yaml", &POD.replace("kind: Pod\n", "kind: Pod\nkind: Service\n")),
        ("boolean.yaml", &object("name: n")),
        ("boolean_namespace.yaml", &object("name: a\n  namespace: n")),
        ("number.yaml", &object("name: 123")),
        ("labels.yaml", &object("name: a\n  labels: {on: yes}")),
        ("typo.yaml", "apiVersion: apps/v1\nkind: Deploymnet\nmetadata: {name: a}\n"),
        ("nameless.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {}\n"),
        ("untyped.yaml", "kind: Pod\nmetadata: {name: a}\n"),
        ("cut.json", "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\":"),
        ("result.json", "{\"apiVersion\": \"kaudit.dev/v1alpha1\", \"kind\": \"AuditResult\", \"results\": []}\n"),
        ("baseline.json", "{\"apiVersion\": \"kaudit.dev/v1alpha1\", \"kind\": \"Baseline\"}\n"),
        ("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("chart/templates/a.yaml", "kind: Pod\nmetadata:\n  name: {{ .Values.name }}\n"),
        ("chart/templates/b.yaml", "{{- range .Values.list }}\n{{- end }}\n"),
        (
            "kustomize/kustomization.yaml",
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n",
        ),
        ("values.kc", "a: [\n"),
        ("empty.kc", ""),
        ("down.kc", &kubeconfig(server, "{token: a}")),
        ("ca.kc", &kubeconfig("{server: 'https://127.0.0.1:1', certificate-authority: nowhere.crt}", "{token: a}")),
        ("missing_plugin.kc", &kubeconfig(server, &exec("cloud-login", "token"))),
        ("failing_plugin.kc", &kubeconfig(server, &exec("sh", "-c, 'echo no session >&2; exit 1'"))),
        ("gcp.kc", &kubeconfig(server, "{auth-provider: {name: gcp}}")),
        ("spelling.yaml.cfg", "failOn: warn\n"),
        ("type.cfg", "namespace: 5\n"),
        ("duration.cfg", "sync-timeout: 60\n"),
        ("brace/p.rego", "package p\n\ndeny contains \"x\" if {\n\tinput.kind == \"Pod\"\n"),
        ("function/p.rego", "package p\n\ndeny contains spritnf(\"%v\", [input.kind])\n"),
        ("unsafe/p.rego", "package p\n\ndeny contains msg if input.kind == \"Pod\"\n"),
        ("denny/p.rego", "package p\n\ndenny contains \"x\" if input.kind == \"Pod\"\n"),
        ("allow/p.rego", "package p\n\ndefault allow := false\n"),
        ("date.ex.yaml", &exception("  reason: later\n  policies: [{name: p}]\n  expiresAt: 31.12.2027\n")),
        ("reason.ex.yaml", &exception("  reason: ''\n  policies: [{name: p}]\n  expiresAt: '2100-01-01T00:00:00Z'\n")),
        (
            "kind.ex.yaml",
            &exception(
                "  reason: later\n  policies: [{name: p}]\n  expiresAt: '2100-01-01T00:00:00Z'\n  match: {kinds: [Deploymnet]}\n",
            ),
        ),
        ("key.ex.yaml", &exception("  reason: later\n  policies: [{name: p}]\n  expires: '2100-01-01T00:00:00Z'\n")),
    ]);
    fs::write(folder.path().join("binary.yaml"), [0x89, 0x50, 0xff, 0x00, 0x0a]).unwrap();
    symlink("loop", folder.path().join("loop")).unwrap();
    folder
}

/// Runs a command line, split at spaces, without standard input; returns the line, the exit code and both streams.
fn transcript(folder: &tempfile::TempDir, line: &str, variables: &[(&str, &str)]) -> String {
    let arguments: Vec<&str> =
        line.split(' ').filter(|word| !word.is_empty()).map(|word| word.trim_matches('\'')).collect();
    let mut command: Command = kaudit(folder.path(), &arguments);
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    let ended = command.output().unwrap();
    let mut text = String::from("$ ");
    for (name, value) in variables {
        write!(text, "{name}={value} ").unwrap();
    }
    writeln!(text, "kaudit {line}\nexit code {}", ended.status.code().unwrap()).unwrap();
    for (name, stream) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        let stream = String::from_utf8_lossy(stream).replace(&*folder.path().to_string_lossy(), "…");
        let lines: Vec<&str> = stream.lines().collect();
        if !lines.is_empty() {
            writeln!(text, "{name}:").unwrap();
        }
        lines.iter().take(LINES).for_each(|line| writeln!(text, "  {line}").unwrap());
        if lines.len() > LINES {
            writeln!(text, "  … {} more lines", lines.len() - LINES).unwrap();
        }
    }
    text
}

fn transcripts(lines: &[&str]) -> String {
    let folder = folder();
    let all: Vec<String> = lines.iter().map(|line| transcript(&folder, line, &[])).collect();
    all.join("\n")
}

#[test]
fn of_the_command_line() {
    insta::assert_snapshot!(transcripts(&[
        "help",
        "version",
        "scan",
        "verify",
        "chekc",
        "polices",
        "check a.yaml b.yaml",
        "check -f",
        "check -R -f m",
        "check -k m",
        "check m -l app==",
        "check -A --once --kubeconfig down.kc",
        "check m --debug",
        "check m --format json",
        "check m --policy policies",
        "check m --exit-code 1",
        "check m --severity high",
        "check m --min-severity hihg",
        "check m --fail-on hgih",
        "check m --exclude kube-system",
        "check m --ignore P-01",
        "check m --skip-rule P-02",
        "check m -n '!shop'",
        "check m -n 'sh*'",
        "check m -n Shop",
        "check m --namespaces shop",
        "check m --data x",
        "check m --no-color",
        "check m --no-fail",
        "check m --dry-run",
        "check --watch",
        "test -p policies",
        "explain -f a.yaml -n shop pod/web P-01",
        "explain -f a.yaml pod shop/web P-02",
        "explain -f a.yaml pod shop/wbe P-01",
        "check m --sync-timeout 60",
        "check --listen 8080",
        "check --listen-ui 0.0.0.0:8082",
        "check --once --listen-ui 127.0.0.1:8082",
        "check --once --record all",
        "check -o json",
        "check m -o yaml",
        "check m -o json -o sarif",
        "check m -o json=nowhere/a.json",
        "diff nowhere.json a.json",
    ]));
}

#[test]
fn of_manifests() {
    insta::assert_snapshot!(transcripts(&[
        "check a.yaml -n nope",
        "check a.yaml --exclude '*'",
        "check a.yaml --exclude-namespace shop",
        "check result.json",
        "check baseline.json",
        "check a.yaml --baseline result.json",
        "check empty",
        "check nothing.yaml",
        "check comment.yaml",
        "check -f -",
        "check manifest",
        "check loop",
        "check binary.yaml",
        "check text.yaml",
        "check tab.yaml",
        "check indent.yaml",
        "check twice.yaml",
        "check boolean.yaml",
        "check boolean_namespace.yaml",
        "check number.yaml",
        "check labels.yaml",
        "check typo.yaml",
        "check nameless.yaml",
        "check untyped.yaml",
        "check cut.json",
        "check chart",
        "check kustomize",
        "check a.yaml a.yaml",
    ]));
}

#[test]
fn of_clusters() {
    insta::assert_snapshot!(transcripts(&[
        "check --once",
        "check --once --kubeconfig nowhere.kc",
        "check --once --kubeconfig values.kc",
        "check --once --kubeconfig empty.kc",
        "check --once --kubeconfig down.kc --context prod",
        "check --once --kubeconfig down.kc --context t,prod",
        "check --once --kubeconfig empty.kc --all-contexts",
        "check --once --kubeconfig down.kc --all-contexts --context t",
        "check --once --kubeconfig down.kc --all-contexts --record events",
        "check --kubeconfig down.kc --all-contexts",
        "check --once --kubeconfig ca.kc",
        "check --once --kubeconfig down.kc",
        "check --once --kubeconfig missing_plugin.kc",
        "check --once --kubeconfig failing_plugin.kc",
        "check --once --kubeconfig gcp.kc",
    ]));
}

#[test]
fn of_settings_policies_and_exceptions() {
    let folder = folder();
    let variables = [
        transcript(&folder, "check m", &[("KAUDIT_FAIL_ON", "hgih")]),
        transcript(&folder, "check m", &[("KAUDIT_FAILON", "none")]),
    ];
    let others = transcripts(&[
        "check m --config spelling.yaml.cfg",
        "check m --config type.cfg",
        "check m --config duration.cfg",
        "check m --config nowhere.cfg",
        "check m -p brace",
        "check m -p function",
        "check m -p unsafe",
        "check m -p denny",
        "check m -p allow",
        "check m -p bultin",
        "check m -p builtin:rback",
        "check m -p rbac",
        "check m -p m",
        "check m --exceptions date.ex.yaml",
        "check m --exceptions reason.ex.yaml",
        "check m --exceptions kind.ex.yaml",
        "check m --exceptions key.ex.yaml",
        "check m --exceptions comment.yaml",
    ]);
    insta::assert_snapshot!(format!("{}\n{others}", variables.join("\n")));
}

#[test]
fn unreadable_files_are_named() {
    let folder = folder();
    fs::set_permissions(folder.path().join("a.yaml"), Permissions::from_mode(0o000)).unwrap();
    // Root reads everything.
    if fs::read(folder.path().join("a.yaml")).is_err() {
        assert!(transcript(&folder, "check a.yaml", &[]).contains("a.yaml: Permission denied"));
    }
}
