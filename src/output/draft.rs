//! Drafts of exceptions for the current violations.
//!
//! The user must add a reason: a draft without one is rejected.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::safe::{shown_line, to_yaml};
use crate::{
    audit::{
        exceptions::MOST_ITEMS,
        result::{AuditResult, Entry},
    },
    cluster::identity::{API_VERSION, EXCEPTION_KIND},
    model::digest::Digest,
    source::selection::KindPattern,
};

/// How long a drafted exception is valid.
const TERM: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The comment above a draft that only the operator of kaudit can use.
const FOR_OPERATOR: &str = "# Only for --exceptions: a namespace cannot excuse this\n";
/// Maximum length of the readable part of a name, in bytes; the rest of the 253 allowed by the API server is left for a
/// hash.
const READABLE_NAME_BYTES: usize = 200;

/// The scope of one draft, without the names of the objects. It has exactly one kind, because an exception with several
/// kinds and names covers every combination of them, including objects that do not exist yet.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DraftScope<'a> {
    policy: &'a str,
    rule: &'a str,
    namespace: Option<&'a str>,
    kind: String,
    /// The namespace may not excuse this violation, so the draft only works in a file of the operator.
    for_operator: bool,
}

impl<'a> DraftScope<'a> {
    fn of(entry: &'a Entry, result: &AuditResult) -> Self {
        let group = entry.resource.group();
        let kind = entry.resource.kind.to_lowercase();
        Self {
            policy: &entry.policy,
            rule: &entry.rule,
            namespace: entry.resource.namespace.as_deref(),
            kind: format!("{kind}.{}", if group.is_empty() { "core" } else { group }),
            for_operator: !result.may_be_excused(entry),
        }
    }

    /// Returns a name that is a valid RFC 1123 subdomain and unique to these objects, so that applying one draft does
    /// not replace another.
    fn name(&self, objects: &BTreeSet<&str>) -> String {
        let parts = [self.policy, self.rule, self.namespace.unwrap_or_default(), &self.kind];
        let hash = Digest::of_parts(u64::to_be_bytes, parts.into_iter().chain(objects.iter().copied())).half();
        let kind = self.kind.split('.').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let readable = format!("{}-{}-{kind}", self.policy, self.rule);
        let readable: String = readable.chars().map(plain).take(READABLE_NAME_BYTES).collect();
        let readable = readable.trim_matches('-');
        let readable = if readable.is_empty() { "exception" } else { readable };
        format!("{readable}-{:08x}", hash >> 96)
    }

    /// Returns the exception for these objects as YAML.
    fn draft(&self, objects: &BTreeSet<&str>, last_day: &str) -> anyhow::Result<String> {
        if self.kind.parse::<KindPattern>().is_err() {
            // One invalid exception would make the whole file unusable.
            let Self { policy, rule, kind, .. } = self;
            let note = format!("# No draft for {policy}/{rule}: {kind:?} is not a valid kind");
            return Ok(shown_line(&note) + "\n");
        }
        let mut metadata = json!({"name": self.name(objects)});
        if let Some(namespace) = self.namespace {
            metadata["namespace"] = namespace.into();
        }
        let document = json!({
            "apiVersion": API_VERSION,
            "kind": EXCEPTION_KIND,
            "metadata": metadata,
            "spec": {
                "policies": [{"name": self.policy, "rules": [self.rule]}],
                "match": {"kinds": [self.kind], "names": objects},
                "reason": "",
                "expiresAt": last_day,
            },
        });
        let note = if self.for_operator { FOR_OPERATOR } else { "" };
        Ok(format!("{note}{}", to_yaml(&document)?))
    }
}

/// Returns one exception per rule, namespace and kind as YAML documents, valid for 30 days from `now`. A comment marks
/// those that only the operator can use.
///
/// # Errors
/// If the YAML cannot be serialized, which no result causes.
pub(crate) fn drafts(result: &AuditResult, entries: &[&Entry], now: Timestamp) -> anyhow::Result<String> {
    let mut scopes: BTreeMap<DraftScope<'_>, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries {
        scopes.entry(DraftScope::of(entry, result)).or_default().insert(&entry.resource.name);
    }
    let last_day = now.saturating_add(TERM)?.strftime("%Y-%m-%d").to_string();
    let mut documents = Vec::new();
    for (scope, objects) in &scopes {
        // The CRD rejects an exception with more names.
        let objects: Vec<_> = objects.iter().copied().collect();
        for part in objects.chunks(MOST_ITEMS) {
            documents.push(scope.draft(&part.iter().copied().collect(), &last_day)?);
        }
    }
    Ok(documents.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::{
            exceptions::Exceptions,
            result::{About, PolicySummary},
        },
        judge::excusable::Excusability,
        rego::analysis::yaml,
    };

    fn entry(policy: &str, rule: &str, kind: &str, name: &str) -> Entry {
        let resource = json!({"apiVersion": "apps/v1", "kind": kind, "namespace": "shop", "name": name});
        let entry = json!({
            "id": "0".repeat(16), "policy": policy, "rule": rule, "result": "fail", "message": "m", "resource": resource,
            "details": {}, "source": {"file": "p.rego", "line": 1},
        });
        serde_json::from_value(entry).unwrap()
    }

    /// Returns the documents drafted for all entries.
    fn documents(entries: &[&Entry]) -> Vec<serde_json::Value> {
        let text = drafts(&AuditResult::sample(0), entries, Timestamp::UNIX_EPOCH).unwrap();
        let documents = text.split("---\n").filter(|document| !document.starts_with("# No draft"));
        documents.map(|document| yaml::from_str(document).unwrap()).collect()
    }

    #[test]
    fn drafts_respect_the_maximum_number_of_names_of_an_exception() {
        let entries: Vec<_> = (0..250).map(|number| entry("p", "deny", "Pod", &format!("{number:03}"))).collect();
        let drafts = documents(&entries.iter().collect::<Vec<_>>());
        let names: Vec<_> = drafts.iter().map(|draft| draft["spec"]["match"]["names"].as_array().unwrap()).collect();
        assert_eq!(names.iter().map(|names| names.len()).collect::<Vec<_>>(), [100, 100, 50]);
        assert_eq!(names.into_iter().flatten().filter_map(|name| name.as_str()).collect::<BTreeSet<_>>().len(), 250);
    }

    #[test]
    fn drafts_have_unique_names() {
        let long = "x".repeat(300);
        let longer = format!("{long}y");
        let policies = ["a.b", "a_b", "A.b", "политика", "規則", &long, &longer, "a"];
        let (rules, kinds, objects) = (["deny_x", "deny-x", "b-deny_x"], ["Deployment", "StatefulSet"], ["one", "two"]);
        let mut entries = Vec::new();
        for policy in policies {
            for rule in rules {
                for kind in kinds {
                    entries.extend(objects.map(|name| entry(policy, rule, kind, name)));
                }
            }
        }
        let mut names = BTreeSet::new();
        let alone = entries.iter().flat_map(|entry| documents(&[entry]));
        let together = documents(&entries.iter().collect::<Vec<_>>());
        let number = entries.len() + together.len();
        for document in alone.chain(together) {
            let name = document["metadata"]["name"].as_str().unwrap().to_owned();
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.len() <= 253 && name.chars().all(is_plain), "{name}");
            assert!(!name.starts_with('-') && !name.ends_with('-'), "{name}");
            names.insert(name);
        }
        assert_eq!(names.len(), number);
        assert_eq!(documents(&[&entries[0]]), documents(&[&entries[0]]), "the same again");
    }

    #[test]
    fn only_objects_that_exist_are_excused() {
        let entries = [("Deployment", "erp-batch"), ("StatefulSet", "erp-db"), ("Deployment", "erp-print")];
        let entries = entries.map(|(kind, name)| entry("p", "deny", kind, name));
        let matches: Vec<_> =
            documents(&entries.each_ref()).iter().map(|draft| draft["spec"]["match"].clone()).collect();
        let wanted = [
            json!({"kinds": ["deployment.apps"], "names": ["erp-batch", "erp-print"]}),
            json!({"kinds": ["statefulset.apps"], "names": ["erp-db"]}),
        ];
        assert_eq!(matches, wanted);
    }

    #[test]
    fn drafts_for_the_operator_only_are_marked() {
        let entries = [("open", "a"), ("fixed", "b")].map(|(policy, name)| entry(policy, "deny", "Pod", name));
        let summary = |name: &str, excusable| PolicySummary {
            name: name.to_owned(),
            dialect: "conftest".to_owned(),
            source: "p.rego".to_owned(),
            rules: vec!["deny".to_owned()],
            about: About::default(),
            about_rules: BTreeMap::new(),
            objects: BTreeMap::new(),
            texts: BTreeMap::new(),
            excusable: [("deny".to_owned(), excusable)].into(),
        };
        let policies = vec![summary("open", Excusability::Always), summary("fixed", Excusability::Never)];
        let result = AuditResult { policies, ..AuditResult::sample(0) };
        let text = drafts(&result, &entries.each_ref(), Timestamp::UNIX_EPOCH).unwrap();
        let (fixed, open) = text.split_once("---\n").unwrap();
        assert!(fixed.starts_with(FOR_OPERATOR) && fixed.contains("name: fixed\n"), "{text}");
        assert!(!open.contains('#') && open.contains("name: open\n"), "{text}");
        // A cluster-scoped object cannot be excused by a PolicyException in a namespace.
        let mut node = entry("open", "deny", "Node", "a");
        node.resource =
            std::sync::Arc::new(crate::model::object::ObjectRef { namespace: None, ..(*node.resource).clone() });
        assert!(!result.may_be_excused(&node) && result.may_be_excused(&entries[0]));
    }

    #[test]
    fn hidden_characters_in_a_name_are_escaped_and_preserved() {
        let name = "we\u{202e}b\u{e0041}\u{200b}";
        let entry = entry("p\u{2066}", "deny\u{feff}", "Pod", name);
        let text = drafts(&AuditResult::sample(0), &[&entry], Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.contains(r#""we\u202Eb\U000E0041\u200B""#) && text.is_ascii(), "{text}");
        let [draft] = &documents(&[&entry])[..] else { panic!("{text}") };
        assert_eq!(draft["spec"]["match"]["names"], json!([name]));
        assert_eq!(draft["spec"]["policies"], json!([{"name": "p\u{2066}", "rules": ["deny\u{feff}"]}]));
    }

    #[test]
    fn an_invalid_kind_does_not_spoil_other_drafts() {
        let entries = [entry("p", "deny", "Pod", "a"), entry("p", "deny", "no kind\nat all", "b")];
        let text = drafts(&AuditResult::sample(0), &entries.each_ref(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.lines().any(|line| line.starts_with("# No draft for p/deny: ")), "{text}");
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        std::fs::write(file.path(), text.replace("reason: ''", "reason: r").replace("reason: \"\"", "reason: r"))
            .unwrap();
        Exceptions::load(&[file.path().to_owned()]).unwrap();
    }
}
