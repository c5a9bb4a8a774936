//! What each kind of receiver is sent: a batch of notifications becomes requests.

pub(super) mod alertmanager;
pub(super) mod cloudevents;
pub(super) mod slack;
pub(super) mod webhook;

use self::{alertmanager::Alertmanager, cloudevents::CloudEvents, slack::Slack, webhook::Webhook};
use super::{
    http::Message,
    notification::{Batch, Teller},
};

/// What a receiver understands.
#[derive(Debug)]
pub(super) enum Format {
    Webhook(Webhook),
    CloudEvents(CloudEvents),
    Slack(Slack),
    Alertmanager(Alertmanager),
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
            Self::Slack(slack) => slack.messages(batch, teller),
            Self::Alertmanager(alertmanager) => alertmanager.messages(batch, teller),
        }
    }
}
