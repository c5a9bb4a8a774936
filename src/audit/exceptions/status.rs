//! The status of a `PolicyException`, which kaudit writes for the team that owns the exception.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::object::{Object, ObjectRef};

/// The type of the only condition.
const ACCEPTED: &str = "Accepted";

/// The metadata and the status of a `PolicyException` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceptionObject {
    /// The object; without a namespace for a manifest that names none.
    pub reference: ObjectRef,
    /// `metadata.generation`; `None` for manifests.
    pub generation: Option<i64>,
    /// The status that it has.
    pub status: Option<ExceptionStatus>,
}

/// The status as kaudit writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceptionStatus {
    /// Whether it is in force.
    pub accepted: bool,
    /// The reason of the condition.
    pub reason: String,
    /// The message of the condition; may be empty.
    pub message: String,
    /// The generation of the object that the status describes.
    pub observed_generation: i64,
    /// When `accepted` last changed.
    pub transition: String,
    /// How many results it excuses.
    pub results: usize,
    /// When it ends.
    pub expires_at: Option<String>,
    /// The days left, within the last two weeks.
    pub days_left: Option<i64>,
}

impl ExceptionObject {
    /// Reads it from an object. A status that cannot be read counts as none.
    pub(super) fn of(object: &Object) -> Self {
        #[derive(Default, Deserialize)]
        struct StatusMetadata {
            generation: Option<i64>,
        }
        #[derive(Default, Deserialize)]
        struct StatusDocument {
            #[serde(default)]
            metadata: StatusMetadata,
            #[serde(default)]
            status: Value,
        }
        let document = object.body.json().ok().and_then(|json| serde_json::from_slice(&json).ok());
        let StatusDocument { metadata: StatusMetadata { generation }, status } = document.unwrap_or_default();
        Self { reference: ObjectRef::new(&object.key, &object.uid), generation, status: ExceptionStatus::read(&status) }
    }

    /// Whether both have the same specification: the API server counts its changes.
    pub(super) fn has_same_spec(&self, other: &Self) -> bool {
        self.generation.is_some() && self.generation == other.generation && self.reference.uid == other.reference.uid
    }
}

impl ExceptionStatus {
    /// Reads a status of the server; `None` if it has no condition of kaudit's.
    fn read(status: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let condition = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == ACCEPTED)?;
        Some(Self {
            accepted: condition["status"] == "True",
            reason: text(&condition["reason"])?,
            message: text(&condition["message"])?,
            observed_generation: condition["observedGeneration"].as_i64()?,
            transition: text(&condition["lastTransitionTime"])?,
            results: usize::try_from(status["results"].as_u64()?).ok()?,
            expires_at: text(&status["expiresAt"]),
            days_left: status["daysLeft"].as_i64(),
        })
    }

    /// Returns it as it is written.
    pub fn json(&self) -> Value {
        let mut status = json!({
            "conditions": [{
                "type": ACCEPTED,
                "status": if self.accepted { "True" } else { "False" },
                "reason": self.reason,
                "message": self.message,
                "observedGeneration": self.observed_generation,
                "lastTransitionTime": self.transition,
            }],
            "results": self.results,
        });
        if let Some(end) = &self.expires_at {
            status["expiresAt"] = end.as_str().into();
        }
        if let Some(days) = self.days_left {
            status["daysLeft"] = days.into();
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_status_is_read_again_unchanged() {
        let status = ExceptionStatus {
            accepted: false,
            reason: "NotExcusable".to_owned(),
            message: "rules of policy images cannot be excused by a namespace".to_owned(),
            observed_generation: 3,
            transition: "2027-01-01T00:00:00Z".to_owned(),
            results: 7,
            expires_at: Some("2027-02-01T00:00:00Z".to_owned()),
            days_left: Some(12),
        };
        let without_end = ExceptionStatus { expires_at: None, days_left: None, accepted: true, ..status.clone() };
        for status in [status, without_end] {
            assert_eq!(ExceptionStatus::read(&status.json()), Some(status));
        }
    }

    #[test]
    fn a_status_without_the_condition_of_kaudit_counts_as_none() {
        for status in
            [json!(null), json!([]), json!({}), json!({"conditions": 7}), json!({"conditions": [{"type": "Ready"}]})]
        {
            assert_eq!(ExceptionStatus::read(&status), None, "{status}");
        }
    }
}
