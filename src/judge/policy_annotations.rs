//! Reads annotations of policies that are Kubernetes objects as metadata: those of Gatekeeper's and Kyverno's libraries,
//! and our own.

use std::sync::Arc;

use serde_json::Map;

use super::{
    metadata::{Metadata, RelatedResource},
    policy_document::{PolicyDocument, warning},
};
use crate::{
    model::verdict::{RuleInfo, Severity},
    rego::{Problem, analysis::yaml::YamlNode},
};

/// Prefix of our own annotations.
const OWN: &str = "policy.kaudit.dev/";

/// Prefix of Kyverno's annotations.
const KYVERNO: &str = "policies.kyverno.io/";

/// Reads title, description, severity, id, category and links. An unknown severity is a warning.
pub(crate) fn read(document: &PolicyDocument<'_>, problems: &mut Vec<Problem>) -> Metadata {
    let metadata = document.node.get("metadata");
    let annotation = |name: &str| metadata.get("annotations").get(name).text();
    let own = |name: &str| annotation(&format!("{OWN}{name}"));
    let of_kyverno = |name: &str| annotation(&format!("{KYVERNO}{name}"));
    let shared = |text: &str| Arc::<str>::from(text.trim());
    let severity = severity(metadata);
    if let Some(node) = severity.filter(|node| node.text().and_then(Severity::from_word).is_none()) {
        let message = format!("unknown severity {}", node.json());
        problems.push(warning(document.problem(node, message)).help("use critical, high, medium, low or info"));
    }
    let links = own("links").unwrap_or_default().split([',', ' ', '\n']).filter(|link| !link.is_empty());
    let version = annotation("metadata.gatekeeper.sh/version");
    Metadata {
        info: Arc::new(RuleInfo {
            title: own("title").or(annotation("metadata.gatekeeper.sh/title")).or(of_kyverno("title")).map(shared),
            id: own("id").map(shared),
            category: own("category").or(of_kyverno("category")).map(shared),
        }),
        description: own("description").or(annotation("description")).or(of_kyverno("description")).map(shared),
        severity: severity.and_then(YamlNode::text).and_then(Severity::from_word),
        related_resources: links.map(|link| RelatedResource { reference: link.into(), description: None }).collect(),
        entrypoint: false,
        custom: version
            .map(|version| ("version".to_owned(), version.into()))
            .into_iter()
            .chain(own("excusable").map(|text| ("excusable".to_owned(), (text.trim() == "true").into())))
            .collect::<Map<_, _>>(),
    }
}

/// Finds the severity: our own annotation or label, then a plain `severity`, then Kyverno's.
fn severity(metadata: &YamlNode) -> Option<&YamlNode> {
    let [own, of_kyverno] = [OWN, KYVERNO].map(|prefix| format!("{prefix}severity"));
    [own.as_str(), "severity", of_kyverno.as_str()]
        .into_iter()
        .flat_map(|name| ["annotations", "labels"].map(|place| metadata.get(place).get(name)))
        .find(|node| !node.is_null())
}
