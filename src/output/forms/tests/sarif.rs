//! Checks SARIF against its schema, and the further requirements of code scanning.

use std::{fs, path::Path};

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::Value;

use super::{cluster_with_gaps, described, doubles, empty, hostile, large, shown, with_text};
use crate::{audit::result::AuditResult, output::Format};

fn schema() -> Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas/sarif-2.1.0.json");
    let mut schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    // The pattern has an unmatched bracket, and kaudit does not write this field.
    for part in ["run", "toolComponent"] {
        schema["definitions"][part]["properties"]["language"].as_object_mut().unwrap().remove("pattern").unwrap();
    }
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

fn texts<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        _ => {}
    }
}

/// Returns the run of a log, after checking that GitHub would accept the upload.
fn run(schema: &Validator, what: &str, result: &AuditResult) -> Value {
    let log: Value = serde_json::from_str(&shown(Format::Sarif, result)).unwrap();
    let wrong: Vec<String> =
        schema.iter_errors(&log).map(|error| format!("{}: {error}", error.instance_path())).take(5).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    let mut found = Vec::new();
    texts(&log, &mut found);
    assert!(found.iter().all(|text| !text.trim().is_empty()), "{what}: an empty text");
    let run = log["runs"][0].clone();
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for rule in rules {
        assert!(rule["fullDescription"]["text"].as_str().unwrap().chars().count() <= 1_024, "{what}");
        assert!(rule["help"]["text"].is_string() && rule["shortDescription"]["text"].is_string(), "{what}");
    }
    let results = run["results"].as_array().unwrap();
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"], "{what}");
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().unwrap() > 0, "{what}");
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.starts_with("./") && !uri.contains('\\'), "{what}: {uri}");
        assert!(!result["message"]["text"].as_str().unwrap().contains("]("), "{what}");
    }
    let prints =
        results.iter().map(|result| result["partialFingerprints"]["primaryLocationLineHash"].as_str().unwrap());
    assert_eq!(doubles(prints), Vec::<&str>::new(), "{what}");
    run
}

fn notifications(run: &Value) -> Vec<&str> {
    let all = run["invocations"][0]["toolExecutionNotifications"].as_array().unwrap();
    all.iter().map(|one| one["message"]["text"].as_str().unwrap()).collect()
}

#[test]
fn sarif_is_valid() {
    let schema = schema();
    assert!(!schema.is_valid(&serde_json::json!({"version": "2.1.0"})), "the schema refuses nothing");
    for (what, result) in [("described", described()), ("gaps", cluster_with_gaps()), ("hostile", hostile())] {
        run(&schema, what, &result);
    }
    let clean = run(&schema, "clean", &empty());
    assert_eq!(clean["results"], serde_json::json!([]));
    assert_eq!(clean["invocations"][0]["executionSuccessful"], true);
    for result in [described(), cluster_with_gaps()] {
        assert_eq!(run(&schema, "incomplete", &result)["invocations"][0]["executionSuccessful"], false);
    }
}

#[test]
fn the_least_severe_results_are_cut_and_counted() {
    let schema = schema();
    let all = large(10_000);
    let violations = all.results.iter().filter(|entry| entry.result.is_violation()).count();
    assert_eq!(violations, 6_000);
    let run = run(&schema, "large", &all);
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 5_000);
    let errors = results.iter().filter(|result| result["level"] == "error").count();
    assert_eq!(errors, 4_000, "a warning is left in for an error that is left out");
    let ranks =
        |severity: &Value| ["critical", "high", "medium", "low", "info"].iter().position(|word| severity == word);
    let severities: Vec<usize> =
        results[..errors].iter().map(|result| ranks(&result["properties"]["severity"]).unwrap_or(usize::MAX)).collect();
    assert!(severities.is_sorted());
    assert!(notifications(&run)[0].starts_with("1000 of 6000 results were left out"), "{:?}", notifications(&run)[0]);
    // Of 2,000 errors and 2,000 excused results, some are named and the others counted.
    let counted = notifications(&run).iter().filter(|text| **text == "and 1900 more notifications").count();
    assert_eq!(counted, 2);
}

#[test]
fn excused_results_open_no_alert() {
    let run = run(&schema(), "described", &described());
    let results = run["results"].as_array().unwrap();
    assert!(results.iter().all(|result| !result["message"]["text"].as_str().unwrap().contains("excused")));
    assert!(notifications(&run).iter().any(|text| text.contains("is excused")));
}

#[test]
fn live_objects_point_to_the_rule_and_manifests_to_their_own_line() {
    let schema = schema();
    let place = |result: &AuditResult| {
        let run = run(&schema, "places", result);
        let place = &run["results"][0]["locations"][0];
        let (file, name) = (&place["physicalLocation"]["artifactLocation"]["uri"], &place["logicalLocations"][0]);
        format!("{file} {} {}", place["physicalLocation"]["region"]["startLine"], name["fullyQualifiedName"])
    };
    assert_eq!(place(&cluster_with_gaps()), r#""policies/image.rego" 7 "Service/shop/web""#);
    assert_eq!(place(&described()), r#""examples/web.yaml" 12 "apps/Deployment/shop/web""#);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sarif_is_valid_for_arbitrary_texts(text in prop_oneof![any::<String>(), "[ -~\n\t]{0,20}", Just(String::new())]) {
        thread_local! {
            static SCHEMA: Validator = schema();
        }
        SCHEMA.with(|schema| run(schema, &format!("{text:?}"), &with_text(&text)));
    }
}
