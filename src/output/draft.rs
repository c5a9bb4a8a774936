//! Drafts of exceptions for the violations that there are.
//!
//! What is left to write is the reason: a draft without one is refused.

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

/// How long a draft is for.
const TERM: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Above the draft of an exception that only the operator of kaudit can make.
const FOR_OPERATOR: &str = "# Only for --exceptions: a namespace cannot excuse this\n";
/// Longest readable part of a name, in bytes: the rest of the 253 that the API server takes is for a hash.
const READABLE_NAME_BYTES: usize = 200;

/// What one draft is about, apart from the names of the objects: never several kinds, as an exception for kinds and names is
/// for every pair of them, also for objects that do not exist yet.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct DraftScope<'a> {
    policy: &'a str,
    rule: &'a str,
    namespace: Option<&'a str>,
    kind: String,
    /// The namespace may not excuse it, so that the draft applies only as a file of the operator's.
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

    /// Returns a name that the API server takes, an RFC 1123 subdomain, and that no draft about other objects has: applying
    /// one must not replace another.
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

    /// Returns the exception for some objects as YAML.
    fn draft(&self, objects: &BTreeSet<&str>, last_day: &str) -> anyhow::Result<String> {
        if self.kind.parse::<KindPattern>().is_err() {
            // One exception that cannot be read would make the whole file unusable.
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

/// Returns an exception for each rule, namespace and kind of results, as YAML documents, valid for 30 days from `now`. Those
/// that the namespace may not make itself say so.
///
/// # Errors
/// When it cannot be written as YAML, which no result makes happen.
pub(crate) fn drafts(result: &AuditResult, entries: &[&Entry], now: Timestamp) -> anyhow::Result<String> {
    let mut scopes: BTreeMap<DraftScope<'_>, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries {
        scopes.entry(DraftScope::of(entry, result)).or_default().insert(&entry.resource.name);
    }
    let last_day = now.saturating_add(TERM)?.strftime("%Y-%m-%d").to_string();
    let mut documents = Vec::new();
    for (scope, objects) in &scopes {
        // One with more names is invalid in a cluster.
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
    };

    fn entry(policy: &str, rule: &str, kind: &str, name: &str) -> Entry {
        let resource = json!({"apiVersion": "apps/v1", "kind": kind, "namespace": "shop", "name": name});
        let entry = json!({
            "id": "0".repeat(16), "policy": policy, "rule": rule, "result": "fail", "message": "m", "resource": resource,
            "details": {}, "source": {"file": "p.rego", "line": 1},
        });
        serde_json::from_value(entry).unwrap()
    }

    /// The documents of one draft of all entries.
    fn documents(entries: &[&Entry]) -> Vec<serde_json::Value> {
        let text = drafts(&AuditResult::sample(0), entries, Timestamp::UNIX_EPOCH).unwrap();
        let documents = text.split("---\n").filter(|document| !document.starts_with("# No draft"));
        documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
    }

    #[test]
    fn a_draft_has_as_many_names_as_an_exception_of_a_cluster_may_have() {
        let entries: Vec<_> = (0..250).map(|number| entry("p", "deny", "Pod", &format!("{number:03}"))).collect();
        let drafts = documents(&entries.iter().collect::<Vec<_>>());
        let names: Vec<_> = drafts.iter().map(|draft| draft["spec"]["match"]["names"].as_array().unwrap()).collect();
        assert_eq!(names.iter().map(|names| names.len()).collect::<Vec<_>>(), [100, 100, 50]);
        assert_eq!(names.into_iter().flatten().filter_map(|name| name.as_str()).collect::<BTreeSet<_>>().len(), 250);
    }

    #[test]
    fn no_draft_replaces_another() {
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
    fn drafts_that_a_namespace_cannot_apply_say_so() {
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
        // What is in no namespace is excused by no object of one.
        let mut node = entry("open", "deny", "Node", "a");
        node.resource =
            std::sync::Arc::new(crate::model::object::ObjectRef { namespace: None, ..(*node.resource).clone() });
        assert!(!result.may_be_excused(&node) && result.may_be_excused(&entries[0]));
    }

    #[test]
    fn what_is_hidden_in_a_name_is_shown_and_stays_the_same() {
        let name = "we\u{202e}b\u{e0041}\u{200b}";
        let entry = entry("p\u{2066}", "deny\u{feff}", "Pod", name);
        let text = drafts(&AuditResult::sample(0), &[&entry], Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.contains(r#""we\u202Eb\U000E0041\u200B""#) && text.is_ascii(), "{text}");
        let [draft] = &documents(&[&entry])[..] else { panic!("{text}") };
        assert_eq!(draft["spec"]["match"]["names"], json!([name]));
        assert_eq!(draft["spec"]["policies"], json!([{"name": "p\u{2066}", "rules": ["deny\u{feff}"]}]));
    }

    #[test]
    fn a_kind_that_is_none_spoils_no_other_draft() {
        let entries = [entry("p", "deny", "Pod", "a"), entry("p", "deny", "no kind\nat all", "b")];
        let text = drafts(&AuditResult::sample(0), &entries.each_ref(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.lines().any(|line| line.starts_with("# No draft for p/deny: ")), "{text}");
        let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
        std::fs::write(file.path(), text.replace("reason: ''", "reason: r").replace("reason: \"\"", "reason: r"))
            .unwrap();
        Exceptions::load(&[file.path().to_owned()]).unwrap();
    }
}
