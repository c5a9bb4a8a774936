//! Renders each sample in each format, and checks what consumers of the format require.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    audit::result::{About, AuditResult, Entry},
    judge::metadata::RelatedResource,
    model::{
        coverage::State,
        object::Location,
        verdict::{Outcome, Severity},
    },
    output::{
        Format, Place, RenderOptions, render,
        tests::{audit, cluster_with_gaps, coverage, empty, entry, hostile, manifests, resource},
    },
    rego::Problem,
};

mod markup;
mod programs;
mod sarif;

/// The formats of this module.
const FORMS: [Format; 7] =
    [Format::Sarif, Format::Junit, Format::Github, Format::Gitlab, Format::Markdown, Format::Html, Format::Openreport];

/// Manifests, a rule with all annotations, a refused file, and two results with the same fingerprint.
fn described() -> AuditResult {
    let mut result = manifests();
    let link = |url: &str| RelatedResource { reference: url.into(), description: None };
    result.policies[0].about = About {
        title: Some("Images".into()),
        description: Some("An image reference should always mean the same image.".into()),
        severity: Some(Severity::Medium),
        id: Some("IMG-01".into()),
        category: Some("supply chain".into()),
        links: vec![link("javascript:alert(1)"), link("https://example.com/images?a=b&c=_d_#tags")],
        ..About::default()
    };
    result.policies[0].about_rules =
        [("warn_size".to_owned(), About { severity: Some(Severity::Info), ..About::default() })].into();
    result.refused = vec![Problem::refused(&"policies/broken.rego".into(), "no such function: nope")];
    result.complete = false;
    let mut again = result.results[1].clone();
    again.location = Some(Location { file: "examples/overlay/web.yaml".into(), line: 3 });
    result.results.push(again);
    result.summary.fail += 1;
    result
}

/// Returns this many results of all outcomes and severities, with the most severe neither first nor last.
fn large(number: usize) -> AuditResult {
    let outcomes = [Outcome::Warn, Outcome::Fail, Outcome::Skip, Outcome::Error, Outcome::Fail];
    let severities = [None, Some(Severity::Low), Some(Severity::Critical), Some(Severity::High), Some(Severity::Info)];
    let result = |index: usize| -> Entry {
        let pod = resource("v1", "Pod", &format!("team-{}", index % 7), &format!("web-{index}"));
        let message = format!("container \"app\" of {index} runs as root, a | b, see #{index} or ask @team");
        let mut entry = entry(pod, "image", "deny_latest", outcomes[index % 5], &message);
        entry.severity = severities[index % 7 % 5];
        entry
    };
    audit((0..number).map(result).collect(), vec![coverage("", "Pod", "pods", State::Synced, number, "")], number)
}

/// Returns a result in which every text field is this text.
fn with_text(text: &str) -> AuditResult {
    let mut object = resource(text, text, text, text);
    object.uid = text.into();
    let mut entries = Vec::new();
    for outcome in [Outcome::Fail, Outcome::Warn, Outcome::Error, Outcome::Skip] {
        let mut entry = entry(object.clone(), text, text, outcome, text);
        entry.category = Some(text.into());
        entry.source.file = text.into();
        entries.push(entry);
    }
    entries[1].location = Some(Location { file: text.into(), line: 1 });
    let mut result = audit(entries, vec![coverage(text, text, text, State::Failed, 0, text)], 0);
    let link = |url: String| RelatedResource { reference: url.into(), description: Some(text.into()) };
    let about = About {
        title: Some(text.into()),
        description: Some(text.into()),
        severity: Some(Severity::High),
        id: Some(text.into()),
        category: Some(text.into()),
        frameworks: [(text.into(), vec![text.into()])].into(),
        links: vec![link(text.to_owned()), link(format!("https://example.com/{text}"))],
        recommended_action: Some(text.into()),
        long_id: Some(text.into()),
        aliases: vec![text.into()],
        example: None,
    };
    result.policies[0].name = text.to_owned();
    result.policies[0].source = text.to_owned();
    result.policies[0].about_rules = [(text.to_owned(), about.clone())].into();
    result.policies[0].about = about;
    result.refused = vec![Problem::refused(&Arc::from(text), text)];
    result
}

fn shown_for(format: Format, result: &AuditResult, place: Place) -> String {
    let mut out = Vec::new();
    render(format, result, &RenderOptions { place, ..RenderOptions::default() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn shown(format: Format, result: &AuditResult) -> String {
    shown_for(format, result, Place::Summary)
}

#[test]
fn formats_are_as_their_consumers_require() {
    for (name, result) in
        [("manifests", described()), ("cluster", cluster_with_gaps()), ("clean", empty()), ("hostile", hostile())]
    {
        for format in FORMS {
            let text = shown(format, &result).replace(env!("CARGO_PKG_VERSION"), "VERSION");
            insta::assert_snapshot!(format!("{}_{name}", format.name()), text);
        }
    }
}

#[test]
fn formats_depend_only_on_the_result() {
    for format in FORMS {
        assert_eq!(shown(format, &described()), shown(format, &described()), "{}", format.name());
    }
}

#[test]
fn the_page_file_has_the_most_severe_results_and_counts_the_rest() {
    let page = shown(Format::Html, &large(10_070));
    assert_eq!(page.matches("<li data-namespace=").count(), 10_000);
    assert!(page.contains("70 of 10070 results were left out, the least severe first, and the numbers below are without them; use -o json for all."));
    assert!(page.len() < 8_000_000, "{}", page.len());
    assert!(!shown(Format::Html, &large(10_000)).contains("left out"));
}

#[test]
fn reports_have_the_same_counts_as_other_formats() {
    let report: serde_json::Value = serde_json::from_str(&shown(Format::Openreport, &described())).unwrap();
    let reports = report["items"].as_array().unwrap().iter();
    let fails: u64 = reports.clone().map(|report| report["summary"]["fail"].as_u64().unwrap()).sum();
    assert_eq!(fails, described().summary.fail as u64);
    let ids = reports.flat_map(|report| report["results"].as_array().unwrap());
    let ids: Vec<&str> = ids.map(|result| result["properties"]["resultID"].as_str().unwrap()).collect();
    assert_eq!(doubles(ids), [""; 0]);
}

/// Returns the items that occur more than once.
fn doubles<T: Ord + Clone>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.into_iter().filter(|one| !seen.insert(one.clone())).collect()
}
