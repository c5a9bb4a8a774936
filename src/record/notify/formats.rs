//! What each kind of receiver is sent: a batch of notifications becomes requests.

pub(super) mod alertmanager;
pub(super) mod cloudevents;
pub(super) mod slack;
pub(super) mod webhook;

use hyper::body::Bytes;
use serde::Serialize;

use self::{alertmanager::Alertmanager, cloudevents::CloudEvents, slack::Slack, webhook::Webhook};
use super::{http::Message, notification::Batch};
use crate::record::lifecycle::message_name;

/// What a receiver understands.
#[derive(Debug)]
pub(super) enum Format {
    Webhook(Webhook),
    CloudEvents(CloudEvents),
    Slack(Slack),
    Alertmanager(Alertmanager),
}

/// Who tells: the `Audit` object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Teller {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Format {
    /// Returns the requests that tell a batch.
    ///
    /// # Errors
    /// When the batch cannot be told, ever.
    pub(super) fn messages(&self, batch: &Batch, teller: &Teller) -> Result<Vec<Message>, String> {
        match self {
            Self::Webhook(webhook) => webhook.messages(batch, teller),
            Self::CloudEvents(cloud_events) => cloud_events.messages(batch, teller),
            Self::Slack(slack) => slack.messages(batch),
            Self::Alertmanager(alertmanager) => alertmanager.messages(batch, teller),
        }
    }
}

/// Returns the name of a message that tells a whole batch, which is the same when it is sent again.
fn batch_name(batch: &Batch) -> String {
    let ids: Vec<&str> = batch.notifications.iter().map(|notification| notification.id.as_str()).collect();
    // A batch of one is known by the same name as what it tells.
    if let [one] = ids[..] { one.to_owned() } else { message_name(&ids) }
}

fn json(value: &impl Serialize) -> Result<Bytes, String> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{super::notification::Notification, *};

    /// A batch with every kind of notification, some before which were left out.
    pub(super) fn batch() -> Batch {
        Batch { notifications: Notification::samples().into_iter().map(Into::into).collect(), left_out: 2 }
    }

    pub(super) fn teller() -> Teller {
        Teller { namespace: "kaudit".to_owned(), name: "kaudit".to_owned() }
    }
}
