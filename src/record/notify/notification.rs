//! Notifications for receivers: one for each Event that would be written.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::{
    audit::{
        ledger::{Delta, Lifecycle, Violation, dependents::Labels},
        queue::Lane,
    },
    model::{
        object::ObjectRef,
        text::{dependents, shortened},
        verdict::{Excused, Finding, Outcome, RuleInfo, Severity},
    },
    record::message_name::{lifecycle_name, message_name},
};

/// Longest message of a policy that is passed on, in bytes.
const MESSAGE_BYTES: usize = 4 * 1024;

/// A change of a violation, as receivers get it. Every field is always present, so that templates can rely on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Notification {
    /// The name of the Event about the same change; receivers can use it to detect duplicates.
    pub(super) id: String,
    pub(super) event: Lifecycle,
    /// When it happened.
    pub(super) time: Timestamp,
    /// The same for all notifications about one violation.
    pub(super) violation: String,
    /// When the violation appeared.
    pub(super) since: Timestamp,
    pub(super) policy: Arc<str>,
    pub(super) rule: Arc<str>,
    pub(super) result: Outcome,
    pub(super) severity: Option<Severity>,
    /// Title, id and category come from the METADATA of the rule.
    pub(super) title: Option<Arc<str>>,
    pub(super) rule_id: Option<Arc<str>>,
    pub(super) category: Option<Arc<str>>,
    pub(super) message: String,
    /// How many results of dependents it covers.
    pub(super) dependents: usize,
    #[serde(serialize_with = "resource")]
    pub(super) resource: Arc<ObjectRef>,
    /// The topmost object that controls it.
    #[serde(serialize_with = "owner")]
    pub(super) owner: Option<Arc<ObjectRef>>,
    /// Which exception excuses it, why and until when, if it is resolved without a fix.
    pub(super) excused: Option<String>,
    /// The labels that receivers select by: those of the owner, or of the object if it has no owner.
    #[serde(skip)]
    pub(super) labels: Option<Labels>,
    #[serde(skip)]
    pub(super) lane: Lane,
}

/// An object as notifications show it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownObject<'o> {
    api_version: &'o str,
    kind: &'o str,
    namespace: Option<&'o str>,
    name: &'o str,
    uid: &'o str,
}

impl<'o> From<&'o ObjectRef> for ShownObject<'o> {
    fn from(object: &'o ObjectRef) -> Self {
        let ObjectRef { api_version, kind, namespace, name, uid, .. } = object;
        Self { api_version, kind, namespace: namespace.as_deref(), name, uid }
    }
}

fn resource<S: Serializer>(object: &Arc<ObjectRef>, serializer: S) -> Result<S::Ok, S::Error> {
    ShownObject::from(&**object).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn owner<S: Serializer>(object: &Option<Arc<ObjectRef>>, serializer: S) -> Result<S::Ok, S::Error> {
    object.as_deref().map(ShownObject::from).serialize(serializer)
}

impl Notification {
    /// Returns the notifications of a delta, each with its violation.
    pub(super) fn of(delta: &Delta, time: Timestamp) -> impl Iterator<Item = (Self, &Violation)> {
        delta.changes().map(move |(event, violation)| (Self::new(event, violation, delta, time), violation))
    }

    /// Returns notifications that report all open violations of a delta as appeared, for a resend.
    pub(super) fn open(delta: &Delta, time: Timestamp) -> Vec<Self> {
        delta.results.iter().map(|violation| Self::new(Lifecycle::Appeared, violation, delta, time)).collect()
    }

    fn new(event: Lifecycle, violation: &Violation, delta: &Delta, time: Timestamp) -> Self {
        let Finding { rule, outcome, severity, message, excused, .. } = &violation.finding;
        let RuleInfo { title, id: rule_id, category } = RuleInfo::clone(&rule.info);
        Self {
            id: lifecycle_name(event, violation),
            event,
            time,
            violation: violation.id.to_string(),
            since: violation.since,
            policy: Arc::clone(&rule.policy),
            rule: Arc::clone(&rule.name),
            result: *outcome,
            severity: *severity,
            title,
            rule_id,
            category,
            message: shortened(message, MESSAGE_BYTES).into_owned(),
            dependents: violation.dependents,
            resource: Arc::clone(&delta.object),
            owner: delta.owner.clone(),
            excused: excused.as_ref().map(|Excused { excuse, .. }| excuse.to_string()),
            labels: delta.labels.clone(),
            lane: delta.lane,
        }
    }

    /// Returns `policy/rule`.
    pub(super) fn rule_path(&self) -> String {
        format!("{}/{}", self.policy, self.rule)
    }

    /// Returns the URL of the object's view on the page.
    pub(super) fn page(&self, external_url: &str) -> String {
        let object = format!("{}/{}", self.resource.kind_with_group(), self.resource.path());
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("object", &object).finish();
        format!("{}/?{query}", external_url.trim_end_matches('/'))
    }

    /// Returns the message as an Event has it: with the count of dependents, if it has any.
    pub(super) fn text(&self) -> String {
        let Self { message, dependents: number, .. } = self;
        if *number == 0 { message.clone() } else { format!("{message} (and {})", dependents(*number)) }
    }
}

#[cfg(test)]
impl Notification {
    /// A notification with every optional field set, for tests.
    pub(crate) fn sample(event: Lifecycle, message: &str) -> Self {
        Self::samples().remove(0).with(event, message)
    }

    pub(crate) fn with(self, event: Lifecycle, message: &str) -> Self {
        let violation = Violation::sample(message);
        let (id, violation) = (lifecycle_name(event, &violation), violation.id.to_string());
        Self { id, event, violation, message: message.to_owned(), ..self }
    }
}

impl Notification {
    /// Returns notifications to check templates with: one with every optional field, one with almost none, and one
    /// about a transition.
    pub(super) fn samples() -> Vec<Self> {
        let time = Timestamp::UNIX_EPOCH;
        let object = |api_version: &str, kind: &str, namespace: Option<&str>| {
            Arc::new(ObjectRef {
                cluster: None,
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(Arc::from),
                name: "api".into(),
                uid: "0b9f6a1c-7e1f-4a2b-9c3d-00ff10e2a9d4".into(),
            })
        };
        let whole = Self {
            id: "kaudit-601d5476e2ccfe2c87a2bba7a3226597".to_owned(),
            event: Lifecycle::Appeared,
            time,
            violation: "601d5476e2ccfe2c87a2bba7a3226597".to_owned(),
            since: time,
            policy: "pod_security.baseline".into(),
            rule: "deny_privileged".into(),
            result: Outcome::Fail,
            severity: Some(Severity::High),
            title: Some("Privileged containers".into()),
            rule_id: Some("KPS-B03".into()),
            category: Some("Pod Security".into()),
            message: "container \"api\" runs <privileged> & more".to_owned(),
            dependents: 3,
            resource: object("apps/v1", "ReplicaSet", Some("shop")),
            owner: Some(object("apps/v1", "Deployment", Some("shop"))),
            excused: None,
            labels: None,
            lane: Lane::Change,
        };
        let bare = Self {
            event: Lifecycle::Resolved,
            result: Outcome::Warn,
            severity: None,
            title: None,
            rule_id: None,
            category: None,
            dependents: 0,
            resource: object("v1", "Namespace", None),
            owner: None,
            excused: Some("excused by shop/legacy until 2027-01-31T00:00:00Z: replaced in spring".to_owned()),
            ..whole.clone()
        };
        let passing = Self { event: Lifecycle::Happened, ..whole.clone() };
        vec![whole, bare, passing]
    }
}

/// The notifications of one request.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Batch {
    pub(super) notifications: Vec<Arc<Notification>>,
    /// How many were left out before these, because the queue was full.
    pub(super) left_out: u64,
}

impl Batch {
    /// Returns the id of a message with the whole batch, which is the same when it is sent again.
    pub(super) fn name(&self) -> String {
        let ids: Vec<&str> = self.notifications.iter().map(|notification| notification.id.as_str()).collect();
        // A batch of one has the id of its notification.
        if let [one] = ids[..] { one.to_owned() } else { message_name(&ids) }
    }
}

/// The `Audit` object that sends notifications, and its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AuditIdentity {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The name of the cluster, if the receiver file has one.
    pub(super) cluster: Option<Arc<str>>,
}

#[cfg(test)]
impl Batch {
    /// A batch with every kind of notification, after two that were left out.
    pub(super) fn sample() -> Self {
        Self { notifications: Notification::samples().into_iter().map(Into::into).collect(), left_out: 2 }
    }
}

#[cfg(test)]
impl AuditIdentity {
    pub(super) fn sample() -> Self {
        Self { namespace: "kaudit".to_owned(), name: "kaudit".to_owned(), cluster: Some("prod".into()) }
    }
}
