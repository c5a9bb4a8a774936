//! Event buses: receivers that store each notification as one record, a `CloudEvent`, and acknowledge it.
//!
//! In: a batch of notifications. Out: records that are published until each is acknowledged. A record that was
//! acknowledged is not published again, whatever happens to the others of its batch.

mod connection;
pub(super) mod kafka;
pub(super) mod nats;
mod partition;
pub(super) mod record;
pub(super) mod template;

use self::{kafka::Kafka, nats::Nats, record::BusRecord};
use super::{
    http::RequestError,
    notification::{AuditIdentity, Batch},
};

/// An event bus.
#[derive(Debug)]
pub(super) enum Bus {
    Nats(Nats),
    Kafka(Kafka),
}

impl Bus {
    /// Returns the records of a batch, in groups that are published one after the other.
    ///
    /// # Errors
    /// If a notification cannot be formatted; a retry would fail again.
    pub(super) fn groups(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Vec<BusRecord>>, String> {
        match self {
            Self::Nats(nats) => nats.groups(batch, audit),
            Self::Kafka(kafka) => kafka.groups(batch, audit),
        }
    }

    /// Makes one attempt to publish the records that are not acknowledged yet.
    pub(super) async fn publish(&self, records: &[BusRecord]) -> Result<(), RequestError> {
        match self {
            Self::Nats(nats) => nats.publish(records).await,
            Self::Kafka(kafka) => kafka.publish(records).await,
        }
    }
}
