//! Alertmanager's API v2: an alert for each violation, which fires as long as the violation is open.
//!
//! An alert is sent at intervals ([`Alertmanager::resend_every`]), each time with an end some intervals ahead, as
//! Prometheus does: it ends by itself when kaudit does not run any more. Its labels stay the same for as long as it
//! fires.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use crate::record::notify::{
    http::{Message, json},
    notification::{AuditIdentity, Batch, Notification},
};
use crate::{
    audit::ledger::Lifecycle,
    model::{text::shortened, verdict::Severity},
};

/// The number of intervals after which an alert ends that was not sent again.
const RESENDS: u32 = 4;
/// Longest value of a label or of an annotation, in bytes.
const VALUE_BYTES: usize = 1_024;

/// An Alertmanager.
#[derive(Debug)]
pub(crate) struct Alertmanager {
    pub(crate) resend_every: Duration,
    /// Labels of every alert.
    pub(crate) labels: BTreeMap<String, String>,
    /// The URL of the page, which shows the violation.
    pub(crate) external_url: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Alert {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<&'static str, String>,
    starts_at: String,
    ends_at: String,
    #[serde(rename = "generatorURL", skip_serializing_if = "Option::is_none")]
    generator_url: Option<String>,
}

impl Alertmanager {
    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        let now = Timestamp::now();
        let alerts: Vec<Alert> =
            batch.notifications.iter().map(|notification| self.alert(notification, audit, now)).collect();
        let (id, notifications) = (batch.name(), batch.notifications.len());
        let body = json(&alerts)?;
        Ok(vec![Message { id, content_type: "application/json".into(), headers: Vec::new(), body, notifications }])
    }

    fn alert(&self, notification: &Notification, audit: &AuditIdentity, now: Timestamp) -> Alert {
        let starts = if notification.event == Lifecycle::Happened { notification.time } else { notification.since };
        let ends = match notification.event {
            Lifecycle::Resolved => notification.time,
            // A violation of a transition is never resolved.
            Lifecycle::Appeared | Lifecycle::Happened => now.saturating_add(self.resend_every * RESENDS).unwrap_or(now),
        };
        Alert {
            labels: self.labels(notification, audit),
            annotations: annotations(notification),
            starts_at: starts.to_string(),
            // The API refuses an alert that ends before it starts, as happens with clocks that differ.
            ends_at: ends.max(starts).to_string(),
            generator_url: self.external_url.as_ref().map(|url| notification.page(url)),
        }
    }

    fn labels(&self, notification: &Notification, audit: &AuditIdentity) -> BTreeMap<String, String> {
        let own = [
            ("alertname", "PolicyViolation"),
            ("audit", &format!("{}/{}", audit.namespace, audit.name)),
            ("kind", &notification.resource.kind),
            ("name", &notification.resource.name),
            ("namespace", notification.resource.namespace.as_deref().unwrap_or_default()),
            ("policy", &notification.policy),
            ("result", notification.result.word()),
            ("rule", &notification.rule),
            ("severity", notification.severity.map_or("", Severity::word)),
            // Distinguishes two violations of one rule by one object; stays the same when the message is reworded and
            // after restarts.
            ("violation", &notification.violation),
        ];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (name.to_owned(), shortened(value, VALUE_BYTES).into_owned()));
        // The receiver's own labels take precedence over the name of the cluster.
        let cluster = audit.cluster.iter().map(|name| ("cluster".to_owned(), name.to_string()));
        cluster.chain(self.labels.clone()).chain(own).collect()
    }
}

fn annotations(notification: &Notification) -> BTreeMap<&'static str, String> {
    let owner = notification.owner.as_ref().map(ToString::to_string);
    let all = [
        ("summary", Some(format!("{} violates {}", notification.resource, notification.rule_path()))),
        ("description", Some(notification.text())),
        ("owner", owner),
        ("excused", notification.excused.clone()),
    ];
    let given = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.map(|(name, value)| (name, shortened(&value, VALUE_BYTES).into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_fires_until_its_violation_is_resolved() {
        let alertmanager = Alertmanager {
            resend_every: Duration::from_mins(1),
            labels: [("team".to_owned(), "platform".to_owned())].into(),
            external_url: Some("https://kaudit.example.com/".to_owned()),
        };
        let before = Timestamp::now();
        let message = alertmanager.messages(&Batch::sample(), &AuditIdentity::sample()).unwrap().remove(0);
        let mut alerts: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        for (alert, fires) in [(0, true), (1, false), (2, true)] {
            let ends: Timestamp = alerts[alert]["endsAt"].as_str().unwrap().parse().unwrap();
            assert_eq!(ends > before, fires, "{alert}");
            if fires {
                assert!(ends <= Timestamp::now() + Duration::from_mins(4));
                alerts[alert]["endsAt"] = "in four minutes".into();
            }
        }
        insta::assert_snapshot!(serde_json::to_string_pretty(&alerts).unwrap());
    }

    #[test]
    fn labels_of_the_receiver_replace_the_name_of_the_cluster() {
        let labels = [("cluster".to_owned(), "own".to_owned())].into();
        let alertmanager = Alertmanager { resend_every: Duration::from_mins(1), labels, external_url: None };
        let notification = Notification::sample(Lifecycle::Appeared, "a");
        assert_eq!(alertmanager.labels(&notification, &AuditIdentity::sample())["cluster"], "own");
    }

    #[test]
    fn no_alert_ends_before_it_begins() {
        let alertmanager =
            Alertmanager { resend_every: Duration::from_mins(1), labels: BTreeMap::new(), external_url: None };
        let notification = Notification::sample(Lifecycle::Resolved, "a");
        let notification = Notification { since: notification.time + Duration::from_secs(9), ..notification };
        let alert = alertmanager.alert(&notification, &AuditIdentity::sample(), Timestamp::now());
        assert_eq!(alert.starts_at, alert.ends_at);
    }
}
