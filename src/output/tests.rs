use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::*;
use crate::{
    audit::{
        ledger::Lifecycle,
        result::{About, AuditResult, Entry, PolicySummary, Summary},
    },
    judge::excusable::Excusability,
    model::{
        coverage::{Coverage, State},
        object::{Location, ObjectRef},
        verdict::{Finding, Outcome, RuleDescriptor, Severity, Source},
    },
};

pub(super) fn resource(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    let namespace = (!namespace.is_empty()).then(|| namespace.into());
    ObjectRef {
        cluster: None,
        api_version: api_version.into(),
        kind: kind.into(),
        namespace,
        name: name.into(),
        uid: "".into(),
    }
}

pub(super) fn entry(resource: ObjectRef, policy: &str, rule: &str, outcome: Outcome, message: &str) -> Entry {
    let source = Source { file: Arc::from("policies/image.rego"), line: 7 };
    let rule = RuleDescriptor { source, ..RuleDescriptor::named(policy, rule) };
    let finding = Finding { rule: Arc::new(rule), outcome, ..Finding::sample(message) };
    Entry::new(&finding, &resource.into(), None, None)
}

pub(super) fn coverage(
    group: &str,
    kind: &str,
    resource: &str,
    state: State,
    objects: usize,
    message: &str,
) -> Coverage {
    Coverage {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        resource: resource.into(),
        state,
        objects,
        inactive: 0,
        message: message.into(),
    }
}

fn policy(name: &str, dialect: &str, rules: &[&str]) -> PolicySummary {
    PolicySummary {
        name: name.into(),
        dialect: dialect.into(),
        source: "policies/image.rego".into(),
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        about: About::default(),
        about_rules: BTreeMap::new(),
        objects: BTreeMap::new(),
        texts: BTreeMap::new(),
        excusable: rules.iter().map(|rule| ((*rule).to_owned(), Excusability::Always)).collect(),
    }
}

/// Builds a result with counts that match its entries.
pub(super) fn audit(results: Vec<Entry>, coverage: Vec<Coverage>, pass: usize) -> AuditResult {
    let of = |outcome| results.iter().filter(|entry| entry.result == outcome).count();
    AuditResult {
        complete: of(Outcome::Error) == 0 && !coverage.iter().any(Coverage::is_gap),
        summary: Summary {
            objects: coverage.iter().map(|kind| kind.objects).sum(),
            pass,
            fail: of(Outcome::Fail),
            warn: of(Outcome::Warn),
            error: of(Outcome::Error),
            skip: of(Outcome::Skip),
            covered: 0,
        },
        coverage,
        policies: vec![
            policy("image", "conftest", &["deny_latest", "warn_size"]),
            policy("K8sOwner", "gatekeeper", &["owner"]),
        ],
        results,
        ..AuditResult::sample(0)
    }
}

pub(super) fn manifests() -> AuditResult {
    let at = |line| Some(Location { file: Arc::from("examples/web.yaml"), line });
    let web = resource("apps/v1", "Deployment", "shop", "web");
    let mut latest = entry(
        web.clone(),
        "image",
        "deny_latest",
        Outcome::Fail,
        "image \"nginx:latest\" has no fixed tag, so nobody can tell what runs after the next restart of the Pod",
    );
    latest.severity = Some(Severity::Critical);
    latest.details.insert("container".into(), "web".into());
    let mut size =
        entry(web, "image", "warn_size", Outcome::Warn, "image is large:\n  - nginx: 1.2 GB\n  - side: 900 MB");
    size.severity = Some(Severity::Low);
    let claim = resource("v1", "PersistentVolumeClaim", "shop", "data");
    let owner = entry(claim.clone(), "K8sOwner", "owner", Outcome::Error, "policies/owner.yaml:31: division by zero");
    let skip = entry(claim, "image", "deny_latest", Outcome::Skip, "excepted by image.exception");
    let namespace = resource("v1", "Namespace", "", "shop");
    let long = "a_package.with.quite_a_long.path.of.its_own";
    let namespaced = entry(namespace, long, "deny_without_labels", Outcome::Fail, "label owner is missing");
    let mut results = vec![size, latest, owner, skip, namespaced];
    for (entry, line) in results.iter_mut().zip([12, 12, 40, 40, 1]) {
        entry.location = at(line);
    }
    let kinds = vec![
        coverage("", "Namespace", "namespaces", State::Synced, 1, ""),
        coverage("", "PersistentVolumeClaim", "persistentvolumeclaims", State::Synced, 1, ""),
        coverage("apps", "Deployment", "deployments", State::Synced, 1, ""),
    ];
    audit(results, kinds, 120)
}

pub(super) fn cluster_with_gaps() -> AuditResult {
    let core = resource("v1", "Service", "shop", "web");
    let knative = resource("serving.knative.dev/v1", "Service", "shop", "web");
    let results = vec![
        entry(core, "image", "deny_latest", Outcome::Fail, "one"),
        entry(knative, "image", "deny_latest", Outcome::Fail, "two"),
    ];
    let kinds = vec![
        coverage("", "Event", "events", State::Excluded, 0, ""),
        coverage("", "Secret", "secrets", State::Forbidden, 0, "secrets is forbidden: User \"ci\" cannot list"),
        coverage("", "Service", "services", State::Synced, 1, ""),
        coverage("custom.metrics.k8s.io", "*", "*", State::Failed, 0, "the server is currently unable"),
        coverage("example.com", "Widget", "widgets", State::TimedOut, 12, ""),
        coverage("serving.knative.dev", "Service", "services", State::Synced, 1, ""),
    ];
    audit(results, kinds, 1)
}

/// Returns a result with texts that could confuse a terminal or a reader, as policies or users could create.
pub(super) fn hostile() -> AuditResult {
    let object = resource("v1", "ConfigMap", "shop", "a\u{1b}[2Jb\u{202e}c\nDeployment shop/innocent");
    let messages = [
        "\u{1b}]0;title\u{7} red: \u{1b}[31mtext\u{1b}[0m \u{9b}31m",
        "turned: \u{202e}desrever\u{202c} \u{2066}x\u{2069} \u{200f}",
        "line one\r\nline two\rover\tit\u{2028}",
        "in\u{200b}vi\u{feff}si\u{e0041}ble",
        "wide: 日本語のメッセージ and a family 👨‍👩‍👧",
        "\u{0}",
        "  \n ",
        "a pipeline's log\n::error::is not\n  ##[group]to obey",
    ];
    let rules = messages.iter().map(|text| entry(object.clone(), "p\u{1b}[1m", "deny", Outcome::Fail, text));
    audit(rules.collect(), vec![coverage("", "ConfigMap", "configmaps", State::Synced, 1, "")], 0)
}

pub(super) fn empty() -> AuditResult {
    audit(vec![], vec![coverage("", "Pod", "pods", State::Synced, 2, "")], 6)
}

pub(super) fn shown(format: Format, result: &AuditResult, options: &RenderOptions) -> String {
    let mut out = Vec::new();
    render(format, result, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn text(result: &AuditResult, width: usize) -> String {
    shown(Format::Text, result, &RenderOptions { color: false, width, ..RenderOptions::default() })
}

#[test]
fn text_is_for_people() {
    insta::assert_snapshot!("text_unwrapped", text(&manifests(), usize::MAX));
    insta::assert_snapshot!("text_100_columns", text(&manifests(), 100));
    insta::assert_snapshot!("text_60_columns", text(&manifests(), 60));
    insta::assert_snapshot!("text_gaps", text(&cluster_with_gaps(), 100));
    insta::assert_snapshot!("text_clean", text(&empty(), 100));
    // Any width works.
    for width in 0..20 {
        text(&manifests(), width);
    }
}

#[test]
fn text_names_unreadable_exceptions_as_the_cause_of_errors() {
    let mut finding = Finding::sample("no tag");
    finding.withhold("forbidden");
    let withheld = Entry::new(&finding, &resource("v1", "Pod", "shop", "web").into(), None, None);
    let kinds = vec![
        coverage("", "Pod", "pods", State::Synced, 1, ""),
        coverage("kaudit.dev", "PolicyException", "policyexceptions", State::Forbidden, 0, "no"),
    ];
    let text = text(&audit(vec![withheld], kinds, 0), usize::MAX);
    let lines = "\n\nnot read: policyexceptions.kaudit.dev (forbidden: no)\n  Grant list and watch on \
                 policyexceptions.kaudit.dev: until then, violations that may be excused are errors\n\n1 error";
    assert!(text.contains(lines), "{text}");
}

#[test]
fn text_in_colour_says_the_same() {
    let options = RenderOptions { color: true, width: 100, ..RenderOptions::default() };
    for result in [manifests(), cluster_with_gaps(), empty()] {
        let colored = shown(Format::Text, &result, &options);
        assert_eq!(anstream::adapter::strip_str(&colored).to_string(), text(&result, 100));
    }
    insta::assert_snapshot!("text_colour", shown(Format::Text, &manifests(), &options).replace('\u{1b}', "ESC"));
}

#[test]
fn text_output_escapes_foreign_text() {
    let text = text(&hostile(), 100);
    let kept: BTreeSet<char> = text.chars().filter(|c| c.is_control()).collect();
    assert_eq!(kept, BTreeSet::from(['\n']));
    insta::assert_snapshot!("text_hostile", text);
}

#[test]
fn json_formats_are_complete() {
    for (name, result) in [("manifests", manifests()), ("gaps", cluster_with_gaps()), ("empty", empty())] {
        insta::assert_snapshot!(format!("json_{name}"), shown(Format::Json, &result, &RenderOptions::default()));
        insta::assert_snapshot!(format!("ndjson_{name}"), shown(Format::Ndjson, &result, &RenderOptions::default()));
    }
    for line in shown(Format::Ndjson, &hostile(), &RenderOptions::default()).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn streams_have_one_line_for_each_change() {
    let time: jiff::Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
    let mut out = Vec::new();
    for (format, color) in [(Format::Text, false), (Format::Text, true), (Format::Ndjson, false), (Format::Json, false)]
    {
        let options = RenderOptions { color, width: 40, ..RenderOptions::default() };
        for (event, result) in [
            (Lifecycle::Appeared, manifests()),
            (Lifecycle::Resolved, manifests()),
            (Lifecycle::Happened, manifests()),
            (Lifecycle::Appeared, hostile()),
        ] {
            stream_line(format, event, &result.results[0], time, &options, &mut out).unwrap();
        }
    }
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.lines().count(), 12);
    insta::assert_snapshot!(out.replace('\u{1b}', "ESC"));
}

#[test]
fn exit_codes_follow_the_most_severe_result() {
    let code = |(fail, warn, error, skip, complete), fail_on| {
        let mut result = empty();
        result.summary = Summary { fail, warn, error, skip, ..result.summary };
        let counts = [(fail, Outcome::Fail), (warn, Outcome::Warn), (error, Outcome::Error), (skip, Outcome::Skip)];
        for (count, outcome) in counts {
            let one = entry(resource("v1", "Pod", "shop", "web"), "image", "deny", outcome, "bad");
            result.results.extend(std::iter::repeat_n(one, count));
        }
        result.complete = complete;
        (exit_code(&result, fail_on, true), exit_code(&result, fail_on, false))
    };
    for (counts, on_fail, on_warn, on_none) in [
        ((0, 0, 0, 0, true), 0, 0, 0),
        ((0, 0, 0, 5, true), 0, 0, 0),
        ((1, 0, 0, 0, true), 1, 1, 0),
        ((0, 1, 0, 0, true), 0, 1, 0),
        ((1, 0, 1, 0, false), 1, 1, 3),
        ((0, 1, 0, 0, false), 3, 1, 3),
        ((0, 0, 1, 0, true), 3, 3, 3),
        ((0, 0, 0, 0, false), 3, 3, 3),
    ] {
        let codes = [FailOn::Fail, FailOn::Warn, FailOn::None].map(|fail_on| code(counts, fail_on));
        let unrecorded = |code| (code, if code == 0 { 3 } else { code });
        assert_eq!(codes, [on_fail, on_warn, on_none].map(unrecorded), "{counts:?}");
    }
}

#[test]
fn files_are_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let target = Target { format: Format::Json, file: Some(path.clone()) };
    std::fs::write(&path, "old").unwrap();
    write_all(std::slice::from_ref(&target), &empty(), clap::ColorChoice::Always, &RenderOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), shown(Format::Json, &empty(), &RenderOptions::default()));
    let names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["out.json"]);

    let nowhere = Target { format: Format::Json, file: Some(folder.path().join("none/out.json")) };
    let error = write_all(&[nowhere], &empty(), clap::ColorChoice::Auto, &RenderOptions::default()).unwrap_err();
    assert!(format!("{error:#}").contains("none/out.json: "), "{error:#}");
}

#[cfg(unix)]
#[test]
fn devices_and_links_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let target = |path: &std::path::Path| Target { format: Format::Text, file: Some(path.to_owned()) };
    let null = std::path::Path::new("/dev/null");
    write_all(&[target(&link), target(null)], &empty(), clap::ColorChoice::Auto, &RenderOptions::default()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&file).unwrap().contains("clean"));
    assert!(!std::fs::metadata(null).unwrap().is_file());
    // A link to a file that does not exist yet.
    std::fs::remove_file(&file).unwrap();
    write_all(&[target(&link)], &empty(), clap::ColorChoice::Auto, &RenderOptions::default()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink() && file.exists());
}

#[test]
fn a_watch_appends_to_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("violations.ndjson");
    let targets = [Target { format: Format::Ndjson, file: Some(path.clone()) }];
    for event in [Lifecycle::Appeared, Lifecycle::Resolved] {
        let mut streams = Streams::open(&targets, clap::ColorChoice::Auto).unwrap();
        assert!(streams.line(event, &manifests().results[0], jiff::Timestamp::UNIX_EPOCH).unwrap());
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
}
