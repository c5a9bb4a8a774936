//! The two report APIs, and how results look in them.
//!
//! Fields are used the way Policy Reporter reads them (`pkg/openreports` in its source): one resource a result, or else the
//! report's scope; the source on each result.

use std::sync::Arc;

use clap::ValueEnum;
use jiff::Timestamp;
use kube::api::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    audit::ledger::{Id, Violation},
    cluster::identity::CONTROLLER,
    model::{
        object::ObjectKey,
        verdict::{Finding, Outcome, Severity, Source},
    },
};

/// Label of everything that kaudit writes.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label that tells the reports of one kaudit from those of another.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// Longest message, in bytes; with the longest names a result stays far below a shard's size.
const MESSAGE_BYTES: usize = 4_096;
/// Longest name of a policy, rule or category, in bytes.
const NAME_BYTES: usize = 512;
/// What is listed; passes are counted in metrics, exceptions in the status.
const LISTED: [Outcome; 3] = [Outcome::Fail, Outcome::Warn, Outcome::Error];

/// Which report API is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Choice {
    /// openreports.io if the cluster serves it, else wgpolicyk8s.io, else none
    Auto,
    /// Report and ClusterReport of openreports.io
    #[allow(clippy::doc_markdown, reason = "help is not Markdown")]
    OpenReports,
    /// PolicyReport and ClusterPolicyReport of wgpolicyk8s.io
    #[allow(clippy::doc_markdown, reason = "help is not Markdown")]
    WgPolicy,
    /// No reports
    None,
}

impl Choice {
    /// Returns the APIs that may be written, the first of them that is there.
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
    /// One resource, named by its uid, for tools that want it
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
    /// What has to be allowed on its kinds; nothing else is asked of them.
    pub const VERBS: [&'static str; 4] = ["list", "create", "patch", "delete"];
    /// Both, the better first.
    pub(super) const ALL: [Self; 2] = [Self::OpenReports, Self::WgPolicy];

    /// Returns `group/version`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::OpenReports => "openreports.io/v1alpha1",
            Self::WgPolicy => "wgpolicyk8s.io/v1alpha2",
        }
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
        let (group, version) = self.api_version().split_once('/').unwrap_or_default();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version().to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

/// The object that results are about: an `ObjectReference`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subject {
    #[serde(default)]
    pub(super) api_version: String,
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<Arc<str>>,
    #[serde(default)]
    pub(super) name: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(super) uid: Arc<str>,
}

impl Subject {
    pub(super) fn new(object: &ObjectKey, uid: &Arc<str>) -> Self {
        Self {
            api_version: object.kind.api_version(),
            kind: object.kind.kind.clone(),
            namespace: object.namespace.clone(),
            name: Arc::clone(&object.name),
            uid: Arc::clone(uid),
        }
    }

    /// Returns what it is told apart by: the uid, which only objects of odd aggregated APIs lack.
    pub(super) fn identity(&self) -> String {
        if !self.uid.is_empty() {
            return self.uid.to_string();
        }
        let group = self.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        format!("{group}/{}/{}/{}", self.kind, self.namespace.as_deref().unwrap_or_default(), self.name)
    }

    /// Returns the name of a report about it alone.
    pub(super) fn report_name(&self) -> String {
        let identity = self.identity();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = identity.as_bytes();
        let is_name = bytes.len() <= 63
            && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
            && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(|byte| plain(*byte)));
        if is_name { identity } else { format!("{CONTROLLER}-{}", hex(&digest(identity.as_bytes()))) }
    }
}

/// Which reports are ours, and how they are called.
#[derive(Debug, Clone)]
pub struct Instance(String);

impl Instance {
    /// Names the reports of the kaudit whose `Audit` object has this name, which may be too long for a label.
    pub fn new(audit_name: &str) -> Self {
        let short = audit_name.len() <= 63;
        Self(if short {
            audit_name.to_owned()
        } else {
            format!("{CONTROLLER}-{}", hex(&digest(audit_name.as_bytes())))
        })
    }

    /// Returns how the names of reports on namespaces begin.
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// Returns the label selector of our reports.
    pub(super) fn selector(&self) -> String {
        format!("{MANAGED_BY}={CONTROLLER},{INSTANCE}={}", self.0)
    }

    fn labels(&self) -> Value {
        json!({MANAGED_BY: CONTROLLER, INSTANCE: self.0})
    }
}

/// What reports of one kaudit have in common.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) layout: Layout,
    pub(super) instance: Instance,
}

impl Form {
    /// Draws up a report; the results are in order and about one namespace, or about one resource.
    pub(super) fn report<'a>(
        &self,
        api: Api,
        name: &str,
        results: impl Iterator<Item = (&'a Subject, &'a Violation)> + Clone,
    ) -> Value {
        let first = results.clone().next().map(|(subject, _)| subject);
        let namespace = first.and_then(|subject| subject.namespace.as_deref());
        let mut report = json!({
            "apiVersion": api.api_version(),
            "kind": api.kind(namespace.is_some()).0,
            "metadata": {"name": name, "labels": self.instance.labels()},
        });
        if let Some(namespace) = namespace {
            report["metadata"]["namespace"] = namespace.into();
        }
        if let Some(subject) = first.filter(|_| self.layout == Layout::Resource) {
            report["scope"] = json!(subject);
            if !subject.uid.is_empty() {
                report["metadata"]["ownerReferences"] = json!([{"apiVersion": subject.api_version,
                    "kind": subject.kind, "name": subject.name, "uid": subject.uid}]);
            }
        }
        if api == Api::OpenReports {
            report["source"] = CONTROLLER.into();
            report["configuration"] = json!({"limits": {"statusFilter": LISTED.map(Outcome::word)}});
        }
        // Passes and exceptions are not listed, so a number of them would be a guess.
        let count = |outcome| results.clone().filter(|(_, violation)| violation.finding.outcome == outcome).count();
        report["summary"] = LISTED
            .iter()
            .map(|outcome| (outcome.word().to_owned(), count(*outcome).into()))
            .collect::<Map<_, _>>()
            .into();
        report["results"] = results.map(|(subject, violation)| self.result(subject, violation)).collect();
        report
    }

    /// Draws up one result.
    pub(super) fn result(&self, subject: &Subject, violation: &Violation) -> Value {
        let Violation { id, finding, since } = violation;
        let mut result = json!({
            "source": CONTROLLER,
            "policy": cut(&finding.policy, NAME_BYTES),
            "rule": cut(&finding.rule, NAME_BYTES),
            "result": finding.outcome.word(),
            "message": cut(&finding.message, MESSAGE_BYTES),
            "timestamp": {"seconds": since.as_second(), "nanos": since.subsec_nanosecond()},
            "properties": {"resultID": id.to_string()},
        });
        // A warning does not count, which is what the API calls not scored; that is the default.
        if finding.outcome != Outcome::Warn {
            result["scored"] = true.into();
        }
        if let Some(severity) = finding.severity {
            result["severity"] = severity.word().into();
        }
        if let Some(category) = &finding.category {
            result["category"] = cut(category, NAME_BYTES).into();
        }
        if self.layout == Layout::Namespace {
            result["resources"] = json!([subject]);
        }
        result
    }
}

/// Whether a result is listed in reports.
pub(super) fn is_listed(violation: &Violation) -> bool {
    LISTED.contains(&violation.finding.outcome)
}

/// Reads the results of one of our reports; what somebody else has put there is left out.
pub(super) fn read(report: &Value) -> Vec<(Subject, Violation)> {
    let scope = Subject::deserialize(&report["scope"]).ok();
    let results = report["results"].as_array().into_iter().flatten();
    results
        .filter_map(|result| {
            let subject = Subject::deserialize(&result["resources"][0]).ok().or_else(|| scope.clone())?;
            let text = |key: &str| result[key].as_str();
            let finding = Finding {
                policy: text("policy")?.into(),
                rule: text("rule")?.into(),
                outcome: LISTED.into_iter().find(|outcome| Some(outcome.word()) == text("result"))?,
                severity: text("severity").and_then(Severity::from_word),
                category: text("category").map(Arc::from),
                message: text("message").unwrap_or_default().into(),
                details: None,
                source: Source { file: "".into(), line: 0 },
            };
            let (seconds, nanos) = (&result["timestamp"]["seconds"], &result["timestamp"]["nanos"]);
            let nanos = nanos.as_i64().and_then(|nanos| i32::try_from(nanos).ok())?;
            let since = Timestamp::new(seconds.as_i64()?, nanos).ok()?;
            let id = result["properties"]["resultID"].as_str().and_then(Id::parse);
            let id = id.unwrap_or_else(|| Id::new(&subject.uid, &finding));
            Some((subject, Violation { id, finding, since }))
        })
        .collect()
}

/// A digest of what we say in a report, whatever server and others add to it.
pub(super) fn content(report: &Value) -> [u8; 16] {
    let labels = &report["metadata"]["labels"];
    let ours = ["scope", "source", "configuration", "summary", "results"].map(|field| &report[field]);
    let owners = &report["metadata"]["ownerReferences"];
    let all = json!({"labels": [&labels[MANAGED_BY], &labels[INSTANCE]], "owners": owners, "report": ours});
    digest(all.to_string().as_bytes())
}

/// Returns half of a SHA-256.
pub(super) fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&Sha256::digest(bytes)[..16]);
    half
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Cuts at a character and says so.
fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes { text.to_owned() } else { format!("{}…", &text[..text.floor_char_boundary(bytes)]) }
}
