//! The two report APIs, and how results look in them.
//!
//! Fields are used the way Policy Reporter reads them (`pkg/openreports` in its source): one resource per result, or
//! else the report's scope; the source on each result.

use std::{collections::BTreeMap, sync::Arc};

use clap::ValueEnum;
use jiff::Timestamp;
use kube::api::ApiResource;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::{
    audit::ledger::{Id, Violation},
    cluster::identity::{CONTROLLER, MANAGED_BY},
    model::{
        digest::Digest,
        exception::Excuse,
        object::ObjectRef,
        text::shortened,
        verdict::{Excused, Finding, Outcome, RuleDescriptor, RuleInfo, Severity},
    },
};

/// The property with the count of dependents' results that a result covers.
const DEPENDENTS: &str = "dependents";
/// The property of a result with the names of the receivers that were sent its appearance, separated by commas.
const RECEIVERS: &str = "receivers";
/// The recommended label for the name of an instance: that of the `Audit` object.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// Label with the namespace of that; both together distinguish the reports of one kaudit from those of another.
const AUDIT_NAMESPACE: &str = "kaudit.dev/audit-namespace";
/// Longest value of a label, and longest part of a report's name that identifies the instance.
const LABEL_BYTES: usize = 63;
/// Longest message, in bytes; with the longest names a result stays far below the size of a partition.
const MESSAGE_BYTES: usize = 4_096;
/// Longest name of a policy, rule or category, and longest title, in bytes.
const NAME_BYTES: usize = 512;
/// The outcomes that are listed; passes are counted in metrics.
const LISTED: [Outcome; 4] = [Outcome::Fail, Outcome::Warn, Outcome::Error, Outcome::Skip];

/// The properties with title and id of a rule, and where its category is.
const TITLE: &str = "title";
const RULE_ID: &str = "ruleId";
/// The property with the field of the object that a result is about.
const FIELD: &str = "field";
const CATEGORY: &str = "category";

/// Which report API is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Choice {
    /// openreports.io if the cluster serves it, else wgpolicyk8s.io, else none
    Auto,
    /// Report and ClusterReport of openreports.io
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    OpenReports,
    /// PolicyReport and ClusterPolicyReport of wgpolicyk8s.io
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    WgPolicy,
    /// No reports
    None,
}

impl Choice {
    /// Returns the APIs that may be written; the first that is served is.
    pub fn apis(self) -> &'static [Api] {
        match self {
            Self::Auto => &Api::ALL,
            Self::OpenReports => &[Api::OpenReports],
            Self::WgPolicy => &[Api::WgPolicy],
            Self::None => &[],
        }
    }
}

/// What a report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// A namespace, or a part of one where it has many results
    Namespace,
    /// One resource, named after its uid and owned by it, for tools that want that
    Resource,
}

/// A report API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// `openreports.io/v1alpha1`.
    OpenReports,
    /// `wgpolicyk8s.io/v1alpha2`.
    WgPolicy,
}

impl Api {
    /// The verbs that kaudit needs on its kinds.
    pub const VERBS: [&'static str; 4] = ["list", "create", "patch", "delete"];
    /// All of them, the preferred first.
    pub(super) const ALL: [Self; 2] = [Self::OpenReports, Self::WgPolicy];

    /// Returns `group/version`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::OpenReports => "openreports.io/v1alpha1",
            Self::WgPolicy => "wgpolicyk8s.io/v1alpha2",
        }
    }

    /// Returns the API group.
    pub fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns kind and plural of the reports on namespaced objects or on cluster-scoped ones.
    pub fn kind(self, namespaced: bool) -> (&'static str, &'static str) {
        match (self, namespaced) {
            (Self::OpenReports, true) => ("Report", "reports"),
            (Self::OpenReports, false) => ("ClusterReport", "clusterreports"),
            (Self::WgPolicy, true) => ("PolicyReport", "policyreports"),
            (Self::WgPolicy, false) => ("ClusterPolicyReport", "clusterpolicyreports"),
        }
    }

    pub(super) fn resource(self, namespaced: bool) -> ApiResource {
        let (kind, plural) = self.kind(namespaced);
        let version = self.api_version().rsplit('/').next().unwrap_or_default();
        ApiResource {
            group: self.group().to_owned(),
            version: version.to_owned(),
            api_version: self.api_version().to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

/// Which kaudit this is, in the labels and names of its reports.
#[derive(Debug, Clone)]
pub struct Instance {
    namespace: String,
    label: String,
    name: String,
}

impl Instance {
    /// Creates it from namespace and name of the `Audit` object. A name that is too long for a label is hashed.
    pub fn new(namespace: &str, audit_name: &str) -> Self {
        let bounded = |text: String| {
            let short = text.len() <= LABEL_BYTES;
            if short { text } else { format!("{CONTROLLER}-{:032x}", Digest::of(&text).half()) }
        };
        Self {
            namespace: namespace.to_owned(),
            label: bounded(audit_name.to_owned()),
            // A namespace has no dot, so that no other pair has this name.
            name: bounded(format!("{audit_name}.{namespace}")),
        }
    }

    /// Returns the instance for the reports of a single check; no running kaudit takes them for its own.
    pub(super) fn of_check(name: Option<&str>) -> Self {
        let name = name.map_or_else(|| format!("{CONTROLLER}-check"), str::to_owned);
        Self { namespace: String::new(), label: name.clone(), name }
    }

    /// Returns the part of report names that no other kaudit uses.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the label selector of this kaudit's reports.
    pub(super) fn selector(&self) -> String {
        format!("{},{AUDIT_NAMESPACE}={}", self.selector_of_all(), self.namespace)
    }

    /// Returns the label selector of the reports of all kaudits whose `Audit` has this name; [`Self::owns`] decides
    /// which of them belong to this one.
    pub(super) fn selector_of_all(&self) -> String {
        format!("{MANAGED_BY}={CONTROLLER},{INSTANCE}={}", self.label)
    }

    /// Whether a report of [`Self::selector_of_all`] is this kaudit's. Earlier versions gave theirs no label with the
    /// namespace; each such report is taken over by the kaudit of that name which finds it first.
    pub(super) fn owns(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        labels.and_then(|labels| labels.get(AUDIT_NAMESPACE)).is_none_or(|namespace| *namespace == self.namespace)
    }

    fn labels(&self) -> Value {
        let mut labels = json!({MANAGED_BY: CONTROLLER, INSTANCE: self.label});
        if !self.namespace.is_empty() {
            labels[AUDIT_NAMESPACE] = self.namespace.as_str().into();
        }
        labels
    }
}

/// What the reports of one kaudit have in common.
#[derive(Debug, Clone)]
pub(super) struct ReportFormat {
    pub(super) layout: Layout,
    pub(super) instance: Instance,
    /// Whether results have the time when they were first seen.
    pub(super) dated: bool,
}

impl ReportFormat {
    /// Returns a report as JSON; the results are in order and about one namespace, or about one resource.
    pub(super) fn report<'a>(
        &self,
        api: Api,
        name: &str,
        results: impl Iterator<Item = (&'a ObjectRef, &'a Violation)> + Clone,
    ) -> Value {
        let first = results.clone().next().map(|(object, _)| object);
        let namespace = first.and_then(|object| object.namespace.as_deref());
        let mut report = json!({
            "apiVersion": api.api_version(),
            "kind": api.kind(namespace.is_some()).0,
            "metadata": {"name": name, "labels": self.instance.labels()},
        });
        if let Some(namespace) = namespace {
            report["metadata"]["namespace"] = namespace.into();
        }
        let scope = first.filter(|_| self.layout == Layout::Resource);
        if let Some(object) = scope {
            report["scope"] = json!(object);
            if !object.uid.is_empty() {
                report["metadata"]["ownerReferences"] = json!([{"apiVersion": object.api_version,
                    "kind": object.kind, "name": object.name, "uid": object.uid}]);
            }
        }
        if api == Api::OpenReports {
            report["source"] = CONTROLLER.into();
            report["configuration"] = json!({"limits": {"statusFilter": LISTED.map(Outcome::word)}});
        }
        // Passes are not listed, so their count is unknown.
        let count = |outcome| results.clone().filter(|(_, violation)| violation.finding.outcome == outcome).count();
        report["summary"] = LISTED
            .iter()
            .map(|outcome| (outcome.word().to_owned(), count(*outcome).into()))
            .collect::<Map<_, _>>()
            .into();
        report["results"] = results.map(|(object, violation)| self.result(object, violation, scope)).collect();
        report
    }

    /// Returns one result as JSON, with its object unless that is the `scope` of the report.
    pub(super) fn result(&self, object: &ObjectRef, violation: &Violation, scope: Option<&ObjectRef>) -> Value {
        let Violation { id, fingerprint, finding, since, dependents, notified, recorded_field, .. } = violation;
        let mut result = json!({
            "source": CONTROLLER,
            "policy": shortened(&finding.rule.policy, NAME_BYTES),
            "rule": shortened(&finding.rule.name, NAME_BYTES),
            "result": finding.outcome.word(),
            "message": shortened(&finding.message, MESSAGE_BYTES),
            "properties": {"resultID": id.to_string()},
        });
        if self.dated {
            result["timestamp"] = json!({"seconds": since.as_second(), "nanos": since.subsec_nanosecond()});
        }
        if *dependents > 0 {
            result["properties"][DEPENDENTS] = dependents.to_string().into();
        }
        if let Some(receivers) = notified {
            result["properties"][RECEIVERS] = receivers.as_ref().into();
        }
        if fingerprint != id {
            result["properties"]["fingerprint"] = fingerprint.to_string().into();
        }
        if let Some(Excused { excuse, .. }) = &finding.excused {
            let properties = &mut result["properties"];
            properties["excusedBy"] = excuse.by.as_ref().into();
            properties["reason"] = shortened(&excuse.reason, MESSAGE_BYTES).into();
            if let Some(expires) = excuse.expires {
                properties["expiresAt"] = format!("{expires:.0}").into();
            }
        }
        // Results that do not count are "not scored" in the API, which is the default.
        if !matches!(finding.outcome, Outcome::Warn | Outcome::Skip) {
            result["scored"] = true.into();
        }
        if let Some(severity) = finding.severity {
            result["severity"] = severity.word().into();
        }
        if let Some(field) = finding.field().or(recorded_field.as_deref()) {
            result["properties"][FIELD] = shortened(field, NAME_BYTES).into();
        }
        let about = RuleInfo::clone(&finding.rule.info);
        let about = [(TITLE, about.title), (RULE_ID, about.id), (CATEGORY, about.category)];
        for (name, text) in about.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            let of = if name == CATEGORY { &mut result } else { &mut result["properties"] };
            of[name] = shortened(&text, NAME_BYTES).into();
        }
        if scope != Some(object) {
            result["resources"] = json!([object]);
        }
        result
    }
}

/// Returns the prefix of the name of a report about a single object: its uid, if that is a valid name.
pub(super) fn report_name(object: &ObjectRef) -> String {
    let identity = object.uid_or_name();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = identity.as_bytes();
    let is_name = bytes.len() <= 63
        && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
        && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(|byte| plain(*byte)));
    if is_name { identity } else { format!("{CONTROLLER}-{:032x}", Digest::of(identity).half()) }
}

/// Whether a result is listed in reports.
pub(super) fn is_listed(violation: &Violation) -> bool {
    LISTED.contains(&violation.finding.outcome)
}

/// Reads the results of one of our reports; entries that others have added are left out.
pub(super) fn read(report: &Value) -> Vec<(ObjectRef, Violation)> {
    let scope = ObjectRef::deserialize(&report["scope"]).ok();
    let results = report["results"].as_array().into_iter().flatten();
    results
        .filter_map(|result| {
            let object = ObjectRef::deserialize(&result["resources"][0]).ok().or_else(|| scope.clone())?;
            let text = |key: &str| result[key].as_str();
            let outcome = LISTED.into_iter().find(|outcome| Some(outcome.word()) == text("result"))?;
            let property = |name: &str| result["properties"][name].as_str().map(Arc::from);
            let about =
                RuleInfo { title: property(TITLE), id: property(RULE_ID), category: text(CATEGORY).map(Arc::from) };
            let rule = RuleDescriptor { info: about.into(), ..RuleDescriptor::named(text("policy")?, text("rule")?) };
            let finding = Finding {
                rule: rule.into(),
                outcome,
                severity: text("severity").and_then(Severity::from_word),
                message: text("message").unwrap_or_default().into(),
                details: None,
                excused: if outcome == Outcome::Skip { excused(&result["properties"]) } else { None },
            };
            let (seconds, nanos) = (&result["timestamp"]["seconds"], &result["timestamp"]["nanos"]);
            let nanos = nanos.as_i64().and_then(|nanos| i32::try_from(nanos).ok())?;
            let since = Timestamp::new(seconds.as_i64()?, nanos).ok()?;
            let id = result_id(result).unwrap_or_else(|| Id::new(&object, &finding));
            let fingerprint = id_property(result, "fingerprint").unwrap_or(id);
            let dependents =
                result["properties"][DEPENDENTS].as_str().and_then(|number| number.parse().ok()).unwrap_or(0);
            let notified = result["properties"][RECEIVERS].as_str().map(Arc::from);
            let recorded_field = property(FIELD);
            let known = Violation::new(&object, finding, since);
            Some((object, Violation { id, fingerprint, notified, recorded_field, dependents, ..known }))
        })
        .collect()
}

/// Reads which exception excuses a result. A report does not have the outcome without the exception; `Fail` is assumed.
fn excused(properties: &Value) -> Option<Excused> {
    let text = |key: &str| properties[key].as_str();
    let excuse = Excuse {
        by: text("excusedBy")?.into(),
        reason: text("reason").unwrap_or_default().into(),
        expires: text("expiresAt").and_then(|end| end.parse().ok()),
    };
    Some(Excused { excuse: Arc::new(excuse), otherwise: Outcome::Fail })
}

/// Returns the id of a result in a report.
pub(super) fn result_id(result: &Value) -> Option<Id> {
    id_property(result, "resultID")
}

fn id_property(result: &Value, name: &str) -> Option<Id> {
    result["properties"][name].as_str().and_then(Id::parse)
}

/// Returns the digest of what we write into a report, whatever the server and others add to it.
pub(super) fn content_digest(report: &Value) -> Digest {
    let labels = &report["metadata"]["labels"];
    let ours = ["scope", "source", "configuration", "summary", "results"].map(|field| &report[field]);
    let owners = &report["metadata"]["ownerReferences"];
    let labels = [MANAGED_BY, INSTANCE, AUDIT_NAMESPACE].map(|label| &labels[label]);
    let all = json!({"labels": labels, "owners": owners, "report": ours});
    Digest::of(all.to_string())
}
