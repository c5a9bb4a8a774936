//! A record of an event bus: one `CloudEvent` with its address.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hyper::body::Bytes;
use jiff::Timestamp;

use super::template::BusTemplate;
use crate::record::notify::{
    formats::cloudevents::{CloudEventsMode, ReportedEvent, events},
    notification::{AuditIdentity, Batch},
};

/// A message of NATS, a record of Kafka.
#[derive(Debug, Clone)]
pub(crate) struct BusRecord {
    /// The id of the event: the same when it is published again.
    pub(crate) id: String,
    /// Records with the same key must keep their order: the id of the violation.
    pub(crate) key: String,
    /// The subject or topic.
    pub(crate) address: String,
    pub(crate) time: Timestamp,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// Whether it is a notification; the other kind of record counts notifications that were left out.
    pub(crate) is_notification: bool,
    /// Shared by all copies of the record.
    acknowledged: Arc<AtomicBool>,
}

impl BusRecord {
    /// Notes that the bus has stored the record.
    pub(super) fn acknowledge(&self) {
        self.acknowledged.store(true, Ordering::Relaxed);
    }

    /// Whether the bus has stored the record.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acknowledged.load(Ordering::Relaxed)
    }
}

/// Returns the records of a batch in this mode, in order.
///
/// # Errors
/// If an event cannot be formatted.
pub(super) fn records(
    batch: &Batch,
    audit: &AuditIdentity,
    template: &BusTemplate,
    mode: RecordMode,
) -> Result<Vec<BusRecord>, String> {
    let record = |reported: ReportedEvent| {
        let (headers, body) = reported.content(mode.events, mode.prefix)?;
        let ReportedEvent { notification, .. } = &reported;
        Ok(BusRecord {
            id: reported.id().to_owned(),
            key: notification.as_ref().map_or(reported.id(), |notification| &notification.violation).to_owned(),
            address: template.render(notification.as_deref(), audit),
            time: reported.time,
            headers,
            body,
            is_notification: notification.is_some(),
            acknowledged: Arc::default(),
        })
    };
    events(batch, audit)?.into_iter().map(record).collect()
}

/// How events become records.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordMode {
    pub(super) events: CloudEventsMode,
    /// The prefix of the names of headers in binary mode.
    pub(super) prefix: &'static str,
}

/// Splits records into groups in which no key occurs twice. The order of records of one key is kept.
pub(super) fn groups_of_distinct_keys(records: Vec<BusRecord>) -> Vec<Vec<BusRecord>> {
    let mut groups: Vec<Vec<BusRecord>> = Vec::new();
    let mut keys = HashSet::new();
    for record in records {
        if !keys.insert(record.key.clone()) {
            keys = HashSet::from([record.key.clone()]);
            groups.push(Vec::new());
        }
        match groups.last_mut() {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{audit::ledger::Lifecycle, record::notify::notification::Notification};

    #[test]
    fn two_changes_of_a_violation_are_in_two_groups() {
        let notification = |message: &str, event| Arc::new(Notification::sample(event, message));
        let notifications = vec![
            notification("a", Lifecycle::Appeared),
            notification("b", Lifecycle::Appeared),
            notification("a", Lifecycle::Resolved),
            notification("c", Lifecycle::Appeared),
        ];
        let batch = Batch { notifications, left_out: 0 };
        let template = BusTemplate::subject("s").unwrap();
        let mode = RecordMode { events: CloudEventsMode::Structured, prefix: "" };
        let records = records(&batch, &AuditIdentity::sample(), &template, mode).unwrap();
        assert_eq!(records[0].key, records[2].key);
        assert_ne!(records[0].id, records[2].id);
        let groups = groups_of_distinct_keys(records);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        let copy = groups[0][0].clone();
        copy.acknowledge();
        assert!(groups[0][0].is_acknowledged() && !groups[0][1].is_acknowledged());
    }
}
