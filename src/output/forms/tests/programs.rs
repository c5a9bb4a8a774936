//! Requirements of GitHub, GitLab and report viewers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{cluster_with_gaps, described, doubles, empty, hostile, large, shown, with_text};
use crate::{audit::result::AuditResult, output::Format};

/// A workflow command as the runner parses it.
struct Command {
    level: String,
    properties: BTreeMap<String, String>,
    message: String,
}

/// Parses a line of a log as `ActionCommand.TryParseV2` of the runner does.
fn command(line: &str) -> Option<Command> {
    let unescape = |text: &str| text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%");
    let (head, data) = line.trim_start().strip_prefix("::")?.split_once("::")?;
    let (level, properties) = head.split_once(' ').unwrap_or((head, ""));
    let property = |text: &str| {
        let (key, value) = text.split_once('=')?;
        Some((key.to_owned(), unescape(&value.replace("%3A", ":").replace("%2C", ","))))
    };
    Some(Command {
        level: level.to_owned(),
        properties: properties.split(',').filter_map(property).collect(),
        message: unescape(data),
    })
}

fn commands(result: &AuditResult) -> Vec<Command> {
    shown(Format::Github, result).lines().filter_map(command).collect()
}

#[test]
fn annotations_are_valid_workflow_commands() {
    let annotations = commands(&described());
    let Command { level, properties, message } = &annotations[0];
    assert_eq!(level, "error");
    assert_eq!(properties["file"], "examples/web.yaml");
    assert_eq!(properties["line"], "12");
    assert_eq!(properties["title"], "image/deny_latest (critical)");
    assert!(message.starts_with("Deployment shop/web: image \"nginx:latest\""), "{message}");
    let size = annotations.iter().find(|one| one.message.contains("image is large")).unwrap();
    assert!(size.message.contains("\n  - nginx: 1.2 GB\n"), "{}", size.message);
    let all = "a:b,c=d%0A%25\n::error::e";
    let odd = commands(&with_text(all));
    assert_eq!(odd.len(), 4, "two errors, a warning, and one about gaps");
    for one in odd.iter().filter(|one| one.properties.contains_key("file")) {
        assert!(one.properties["title"].starts_with("a:b,c=d%0A%25\\n::error::e/"), "{}", one.properties["title"]);
        assert!(one.message.contains(all), "{}", one.message);
    }
}

#[test]
fn at_most_ten_annotations_of_a_level_are_written() {
    let annotations = commands(&large(1_000));
    for (level, more) in [("error", "and 591 more errors"), ("warning", "and 191 more warnings")] {
        let of: Vec<_> = annotations.iter().filter(|one| one.level == level).collect();
        assert_eq!((of.len(), of[9].message.as_str()), (10, more));
        assert!(of[0].properties["title"].ends_with("(critical)"));
    }
    let ten = |number| commands(&large(number)).iter().filter(|one| one.level == "warning").count();
    assert_eq!((ten(50), ten(51)), (10, 10));
    assert!(!commands(&large(50)).iter().any(|one| one.message == "and 2 more warnings"));
    assert!(commands(&empty()).is_empty());
}

#[test]
fn gitlab_issues_have_unique_fingerprints() {
    for (what, result) in [
        ("described", described()),
        ("gaps", cluster_with_gaps()),
        ("clean", empty()),
        ("hostile", hostile()),
        ("large", large(6_000)),
        ("odd", with_text("./\n")),
        ("nothing", with_text("")),
    ] {
        let text = shown(Format::Gitlab, &result);
        let issues: Vec<Value> = serde_json::from_str(&text).unwrap();
        let prints = issues.iter().map(|issue| issue["fingerprint"].as_str().unwrap());
        assert_eq!(doubles(prints), Vec::<&str>::new(), "{what}");
        for issue in &issues {
            for field in ["description", "check_name"] {
                assert!(!issue[field].as_str().unwrap().is_empty(), "{what}: {issue}");
            }
            let severity = issue["severity"].as_str().unwrap();
            assert!(["info", "minor", "major", "critical", "blocker"].contains(&severity), "{what}: {issue}");
            let path = issue["location"]["path"].as_str().unwrap();
            assert!(!path.is_empty() && !path.starts_with("./"), "{what}: {issue}");
            assert!(issue["location"]["lines"]["begin"].as_u64().unwrap() > 0, "{what}: {issue}");
        }
        let gaps = issues.iter().filter(|issue| issue["check_name"] == "kaudit/coverage").count();
        let open = result.summary.fail + result.summary.warn + result.summary.error;
        assert_eq!(issues.len(), open + gaps, "{what}");
    }
}

#[test]
fn reports_list_all_results_in_parts_of_bounded_size() {
    for (result, parts) in [(empty(), 0), (described(), 2), (large(5_000), 7)] {
        let list: Value = serde_json::from_str(&shown(Format::Openreport, &result)).unwrap();
        let items = list["items"].as_array().unwrap();
        assert!(items.len() >= parts, "{}", items.len());
        let results: Vec<&Value> = items.iter().flat_map(|item| item["results"].as_array().unwrap()).collect();
        assert_eq!(results.len(), result.results.len());
        let ids = results.iter().map(|result| result["properties"]["resultID"].as_str().unwrap());
        assert_eq!(doubles(ids), Vec::<&str>::new());
        let names = items.iter().map(|item| item["metadata"].to_string());
        assert_eq!(doubles(names), Vec::<String>::new());
        for item in items {
            assert!(item.to_string().len() <= 64 * 1_024);
            let namespaced = item["metadata"]["namespace"].is_string();
            assert_eq!(item["kind"], if namespaced { "Report" } else { "ClusterReport" });
        }
    }
}
