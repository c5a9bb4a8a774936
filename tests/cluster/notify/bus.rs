//! What the tests of event buses share.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use cloudevents::{AttributesReader as _, Data, Event};
use serde_json::{Value, json};

use crate::{
    events::Scene,
    support::{PATIENCE, Running, denies_marked, wait_for},
};

/// A record that a bus has stored.
#[derive(Debug)]
pub(super) struct Stored {
    /// The subject or topic.
    pub(super) address: String,
    /// The id by which the bus drops repetitions, or the key.
    pub(super) id: String,
    pub(super) event: Event,
}

impl Stored {
    /// Returns the notification, or the count of those that were left out.
    pub(super) fn data(&self) -> &Value {
        match self.event.data() {
            Some(Data::Json(data)) => data,
            other => panic!("{other:?}"),
        }
    }

    /// Returns `name event`, such as `a appeared`.
    pub(super) fn change(&self) -> String {
        let event = self.event.ty().rsplit('.').next().unwrap();
        format!("{} {event}", self.data()["resource"]["name"].as_str().unwrap())
    }
}

/// Returns the changes of each object in their order, without repetitions of one event.
pub(super) fn changes(stored: &[Stored]) -> BTreeMap<String, Vec<String>> {
    let mut seen = std::collections::BTreeSet::new();
    let mut changes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for stored in stored.iter().filter(|stored| seen.insert(stored.event.id().to_owned())) {
        let change = stored.change();
        let (name, event) = change.split_once(' ').unwrap();
        changes.entry(name.to_owned()).or_default().push(event.to_owned());
    }
    changes
}

/// Returns a receiver that is retried soon.
pub(super) fn receiver(name: &str, kind: &str, settings: &Value) -> Value {
    let mut settings = settings.clone();
    settings["timeout"] = "3s".into();
    json!({"name": name, kind: settings, "batch": {"maxWait": "100ms"}})
}

/// Waits until a receiver was retried at least once more.
pub(super) async fn until_retried(kaudit: &Running, receiver: &str) {
    let series = format!("kaudit_recorder_retries_total{{recorder=\"notify/{receiver}\"}}");
    let retries = || kaudit.metric(&series).unwrap_or_default();
    let before = retries();
    wait_for(&format!("a retry of {receiver}; log:\n{}", kaudit.log()), || async {
        (retries() > before).then_some(())
    })
    .await;
}

/// Waits until the log has a text.
pub(super) async fn until_logged(kaudit: &Running, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !kaudit.log().contains(text) {
        assert!(Instant::now() < deadline, "waited in vain for {text:?} in the log:\n{}", kaudit.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns how many notifications of a receiver were dropped for a reason.
pub(super) fn drops(kaudit: &Running, receiver: &str, reason: &str) -> Option<usize> {
    kaudit.metric(&format!("kaudit_recorder_drops_total{{recorder=\"notify/{receiver}\",reason=\"{reason}\"}}"))
}

/// Makes the message about an object that is marked `big` longer than 3,000 bytes.
pub(super) fn lengthen_messages(scene: &Scene) {
    let policy = denies_marked(&scene.namespace).replace(
        "msg := sprintf(\"marked %v\", [value])",
        "padding := concat(\"\", [\"0123456789\" | value == \"big\"; some _ in numbers.range(1, 300)])\n    \
         msg := sprintf(\"marked %v%v\", [value, padding])",
    );
    std::fs::write(scene.policies.path().join("marked.rego"), policy).unwrap();
}
