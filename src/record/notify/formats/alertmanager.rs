//! Alertmanager's API v2: an alert for each violation, which fires as long as the violation stands.
//!
//! An alert is sent again and again ([`Alertmanager::resend_every`]), each time with an end some resends ahead, as Prometheus
//! does: it ends by itself if kaudit does not run any more. Its labels stay the same for as long as it fires.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use crate::record::notify::{
    http::{Message, json},
    notification::{Batch, Notification, Resource, Teller},
};
use crate::{
    audit::ledger::Lifecycle,
    model::{text::shortened, verdict::Severity},
};

/// Resends after which an alert ends that was not sent again.
const RESENDS: u32 = 4;
/// Longest value of a label or of an annotation, in bytes.
const VALUE_BYTES: usize = 1_024;

/// An Alertmanager.
#[derive(Debug)]
pub(crate) struct Alertmanager {
    pub(crate) resend_every: Duration,
    /// Labels of every alert.
    pub(crate) labels: BTreeMap<String, String>,
    /// Where the page is that shows the violation.
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
    pub(super) fn messages(&self, batch: &Batch, teller: &Teller) -> Result<Vec<Message>, String> {
        let now = Timestamp::now();
        let alerts: Vec<Alert> = batch.notifications.iter().map(|told| self.alert(told, teller, now)).collect();
        let (id, tells) = (batch.name(), batch.notifications.len());
        let body = json(&alerts)?;
        Ok(vec![Message { id, content_type: "application/json", headers: Vec::new(), body, tells }])
    }

    fn alert(&self, told: &Notification, teller: &Teller, now: Timestamp) -> Alert {
        let starts = if told.event == Lifecycle::Happened { told.time } else { told.since };
        let ends = match told.event {
            Lifecycle::Resolved => told.time,
            // A transition has no end of its own.
            Lifecycle::Appeared | Lifecycle::Happened => now.saturating_add(self.resend_every * RESENDS).unwrap_or(now),
        };
        Alert {
            labels: self.labels(told, teller),
            annotations: annotations(told),
            starts_at: starts.to_string(),
            // The API takes no alert that ends before it begins, as one does by clocks that differ.
            ends_at: ends.max(starts).to_string(),
            generator_url: self.external_url.as_ref().map(|url| told.page(url)),
        }
    }

    fn labels(&self, told: &Notification, teller: &Teller) -> BTreeMap<String, String> {
        let own = [
            ("alertname", "PolicyViolation"),
            ("audit", &format!("{}/{}", teller.namespace, teller.name)),
            ("kind", &told.resource.kind),
            ("name", &told.resource.name),
            ("namespace", told.resource.namespace.as_deref().unwrap_or_default()),
            ("policy", &told.policy),
            ("result", told.result.word()),
            ("rule", &told.rule),
            ("severity", told.severity.map_or("", Severity::word)),
            // Tells two violations of one rule by one object from each other, over other words and restarts.
            ("violation", &told.violation),
        ];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (name.to_owned(), shortened(value, VALUE_BYTES).into_owned()));
        // The receiver's own labels take precedence over the name of the cluster.
        let cluster = teller.cluster.iter().map(|name| ("cluster".to_owned(), name.to_string()));
        cluster.chain(self.labels.clone()).chain(own).collect()
    }
}

fn annotations(told: &Notification) -> BTreeMap<&'static str, String> {
    let owner = told.owner.as_ref().map(Resource::title);
    let all = [
        ("summary", Some(format!("{} violates {}", told.resource.title(), told.rule_path()))),
        ("description", Some(told.text())),
        ("owner", owner),
        ("excused", told.excused.clone()),
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
        let message = alertmanager.messages(&Batch::sample(), &Teller::sample()).unwrap().remove(0);
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
        let told = Notification::sample(Lifecycle::Appeared, "a");
        assert_eq!(alertmanager.labels(&told, &Teller::sample())["cluster"], "own");
    }

    #[test]
    fn no_alert_ends_before_it_begins() {
        let alertmanager =
            Alertmanager { resend_every: Duration::from_mins(1), labels: BTreeMap::new(), external_url: None };
        let told = Notification::sample(Lifecycle::Resolved, "a");
        let told = Notification { since: told.time + Duration::from_secs(9), ..told };
        let alert = alertmanager.alert(&told, &Teller::sample(), Timestamp::now());
        assert_eq!(alert.starts_at, alert.ends_at);
    }
}
