//! Decides which rules of a library are not evaluated, and why: they need inputs of Kubescape that are not objects of
//! the cluster.

use super::document::RuleMetadata;
use crate::rego::Problem;

/// Functions that Kubescape adds to OPA, and what they need.
const BUILTINS: [(&str, &str); 4] = [
    ("cosign.verify", "the signatures of images"),
    ("cosign.has_signature", "the signatures of images"),
    ("image.parse_normalized_name", "Kubescape's parser of image names"),
    ("http.send", "the network"),
];

/// The sources of dynamically matched inputs, by a part of their API group.
const EXTERNAL: [(&str, &str); 6] = [
    ("hostdata.kubescape.cloud", "data of Kubescape's host scanner about the nodes"),
    ("apiserverinfo.kubescape.cloud", "data of Kubescape's host scanner about the API server"),
    ("vuln", "image scans"),
    ("amazonaws.com", "cluster metadata of the cloud provider"),
    ("googleapis.com", "cluster metadata of the cloud provider"),
    ("azure.com", "cluster metadata of the cloud provider"),
];

/// Returns why a rule is not evaluated; `None` if it is.
pub(crate) fn why_unjudged(rule: &RuleMetadata, has_module: bool) -> Option<String> {
    if !rule.rule_language.is_empty() && !rule.rule_language.eq_ignore_ascii_case("rego") {
        return Some(format!("it is not written in Rego, but in {:?}", rule.rule_language));
    }
    if !has_module {
        return Some("its raw.rego is missing".to_owned());
    }
    if let Some(until) = rule.attribute("useUntilKubescapeVersion") {
        return Some(format!("it is for versions of Kubescape before {until}"));
    }
    let groups = rule.dynamic_match.iter().flat_map(|external| &external.api_groups);
    let needs = groups.filter_map(|group| EXTERNAL.iter().find(|(part, _)| group.contains(part)));
    if let Some((_, needs)) = needs.clone().next() {
        return Some(format!("it needs {needs}"));
    }
    if !rule.dynamic_match.is_empty() {
        return Some("it needs objects that are not in the cluster (dynamicMatch)".to_owned());
    }
    if rule.attribute("hostSensorRule").is_some_and(|word| word == "true") {
        return Some(format!("it needs {}", EXTERNAL[0].1));
    }
    if rule.attribute("actionRequired") == Some("manual review") {
        return Some("it requires a manual review".to_owned());
    }
    let nothing = rule.matching.iter().all(|one| one.kind_names().is_some_and(|names| names.is_empty()));
    nothing.then(|| "its match selects no kind".to_owned())
}

/// Returns why a rule is not evaluated if it was refused because of a function that only Kubescape provides.
pub(crate) fn needs_builtin(problems: &[Problem]) -> Option<String> {
    let mut refused = problems.iter().filter(|problem| problem.is_refusal());
    let of = |problem: &Problem| BUILTINS.iter().find(|(name, _)| problem.message.contains(name));
    let (name, needs) = refused.find_map(of)?;
    Some(format!("it calls {name}, which needs {needs}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_and_another_language_are_different_reasons() {
        let why = |language: &str, has_module| {
            let metadata = format!(r#"{{"name": "a", "ruleLanguage": "{language}"}}"#);
            why_unjudged(&serde_json::from_str(&metadata).unwrap(), has_module)
        };
        assert_eq!(why("Rego", false).as_deref(), Some("its raw.rego is missing"));
        assert_eq!(why("CEL", false).as_deref(), Some("it is not written in Rego, but in \"CEL\""));
    }
}
