//! Buckets of NATS, as the clusters that own them read and write them.
//!
//! Neither needs a consumer, so the credentials of a cluster need no right to create one: with that right, a client can
//! make the server deliver messages to the subjects of others.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_nats::{
    HeaderMap,
    header::NATS_MESSAGE_TTL,
    jetstream::{
        ErrorCode,
        context::{CreateKeyValueErrorKind, GetStreamError, GetStreamErrorKind, PublishError, PublishErrorKind},
        kv,
        message::PublishMessage,
        stream::{DirectGetErrorKind, DiscardPolicy, RetentionPolicy, Stream},
    },
};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::BoxFuture, stream};
use jiff::Timestamp;
use tokio::time::timeout;

use super::{
    bucket::{BucketServer, BucketWrite, ClusterBucket, Kept, MARKS, WriteError},
    keys,
};
use crate::{
    bus::nats::{NatsConnection, NatsServers, jetstream_reasons},
    cluster::error::reasons,
};

/// How many requests wait for their answers.
const AT_ONCE: usize = 32;
/// The header that makes a message the deletion of a key.
const OPERATION: &str = "KV-Operation";
const DELETION: &str = "DEL";

/// The bucket of a cluster.
struct NatsBucket {
    connection: Arc<NatsConnection>,
    stream: Stream,
    /// The subject of a key without the key.
    prefix: String,
    timeout: Duration,
}

/// Returns a write as a message.
fn message(write: &BucketWrite) -> PublishMessage {
    let mut headers = HeaderMap::new();
    if write.value.is_none() {
        headers.insert(OPERATION, DELETION);
    }
    if let Some(after) = write.expires {
        headers.insert(NATS_MESSAGE_TTL, format!("{}s", after.as_secs()));
    }
    let message = PublishMessage::build().payload(write.value.clone().unwrap_or_default().into()).headers(headers);
    match write.replaces {
        Some(sequence) => message.expected_last_subject_sequence(sequence),
        None => message,
    }
}

impl BucketServer for NatsServers {
    fn open<'s>(&'s self, cluster: &'s str) -> BoxFuture<'s, Result<Box<dyn ClusterBucket>, String>> {
        let open = async move {
            let connection = Arc::new(self.connect().await.map_err(|why| format!("NATS {why}"))?);
            Ok(Box::new(NatsBucket::open(connection, cluster, self.timeout).await?) as Box<dyn ClusterBucket>)
        };
        open.boxed()
    }
}

impl ClusterBucket for NatsBucket {
    fn values(&self) -> BoxFuture<'_, Result<BTreeMap<String, Kept>, String>> {
        let values = async move {
            let keys = self.keys().await?;
            let read = |key: String| async move { Ok::<_, String>(self.read(&key).await?.map(|kept| (key, kept))) };
            let values = stream::iter(keys).map(read).buffer_unordered(AT_ONCE);
            values.try_filter_map(|kept| async move { Ok(kept) }).try_collect().await
        };
        values.boxed()
    }

    fn value<'s>(&'s self, key: &'s str) -> BoxFuture<'s, Result<Option<Kept>, String>> {
        self.read(key).boxed()
    }

    fn write<'s>(&'s self, writes: &'s [BucketWrite]) -> BoxFuture<'s, Result<Vec<u64>, WriteError>> {
        self.store(writes).boxed()
    }
}

impl NatsBucket {
    /// Opens the bucket of a cluster, and creates it if there is none.
    ///
    /// # Errors
    /// Why it cannot be opened or created, and what to do.
    async fn open(connection: Arc<NatsConnection>, cluster: &str, timeout: Duration) -> Result<Self, String> {
        let (name, stream) = (keys::bucket(cluster), keys::stream(cluster));
        let stream = match within(timeout, &connection, connection.context.get_stream(&stream)).await? {
            Ok(stream) => stream,
            Err(error) if is_missing(&error) => Self::create(&connection, &name, timeout).await?,
            Err(error) => {
                return Err(
                    connection.redact(&format!("the bucket {name} cannot be opened: {}", jetstream_reasons(&error)))
                );
            }
        };
        let config = &stream.cached_info().config;
        let keeps_all = config.retention == RetentionPolicy::Limits
            && config.max_age.is_zero()
            && config.discard == DiscardPolicy::New;
        if !config.allow_direct || !config.allow_message_ttl || !keeps_all {
            return Err(format!(
                "the bucket {name} needs other settings: nats stream edit KV_{name} --allow-direct --allow-msg-ttl \
                 --max-age 0 --discard new, and the retention policy Limits"
            ));
        }
        Ok(Self { prefix: format!("$KV.{name}."), connection, stream, timeout })
    }

    async fn create(connection: &NatsConnection, name: &str, timeout: Duration) -> Result<Stream, String> {
        let config = kv::Config {
            bucket: name.to_owned(),
            description: "The state of a cluster, written by kaudit".to_owned(),
            history: 1,
            limit_markers: Some(MARKS),
            ..kv::Config::default()
        };
        let created = within(timeout, connection, connection.context.create_key_value(config)).await;
        let failed = |why: String| {
            connection.redact(&format!(
                "there is no bucket {name}, and it cannot be created: {why}; create it, or allow the user to publish to \
                 $JS.API.INFO and $JS.API.STREAM.CREATE.KV_{name}"
            ))
        };
        match created {
            Ok(Ok(store)) => Ok(store.stream),
            Ok(Err(error)) if error.kind() == CreateKeyValueErrorKind::LimitMarkersNotSupported => {
                Err("the server is too old: nats-server 2.11 or newer is needed".into())
            }
            Ok(Err(error)) => Err(failed(jetstream_reasons(&error))),
            Err(why) => Err(failed(why)),
        }
    }

    /// Returns all keys, those with a mark that they were deleted, too.
    async fn keys(&self) -> Result<Vec<String>, String> {
        let subjects = format!("{}>", self.prefix);
        let read = async {
            let subjects =
                self.stream.info_with_subjects(&subjects).await.map_err(|error| jetstream_reasons(&error))?;
            subjects
                .map_ok(|(subject, _)| subject)
                .try_collect::<Vec<_>>()
                .await
                .map_err(|error| jetstream_reasons(&error))
        };
        let subjects = within(self.timeout, &self.connection, read).await?;
        let subjects = subjects.map_err(|why| self.failed("keys cannot be listed", &why))?;
        Ok(subjects.iter().filter_map(|subject| subject.strip_prefix(&self.prefix)).map(str::to_owned).collect())
    }

    async fn read(&self, key: &str) -> Result<Option<Kept>, String> {
        let read = self.stream.direct_get_last_for_subject(format!("{}{key}", self.prefix));
        match within(self.timeout, &self.connection, read).await? {
            Ok(message) if message.headers.get(OPERATION).is_some() => Ok(None),
            Ok(message) => {
                let at = Timestamp::from_second(message.time.unix_timestamp()).unwrap_or_default();
                Ok(Some(Kept { sequence: message.sequence, value: message.payload, at }))
            }
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("a value cannot be read", &jetstream_reasons(&error))),
        }
    }

    async fn store(&self, writes: &[BucketWrite]) -> Result<Vec<u64>, WriteError> {
        let (mut sequences, mut too_large) = (Vec::new(), None);
        for writes in writes.chunks(AT_ONCE) {
            let mut acknowledgements = Vec::new();
            for write in writes {
                // What a value replaces is not deleted before that is written.
                if write.value.is_none() && too_large.is_some() {
                    continue;
                }
                let sent =
                    self.connection.context.send_publish(format!("{}{}", self.prefix, write.key), message(write));
                match within(self.timeout, &self.connection, sent).await.map_err(WriteError::Failed)? {
                    Ok(sent) => acknowledgements.push(sent),
                    Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => too_large = Some(write),
                    Err(error) => return Err(self.write_failed(&error)),
                }
            }
            for acknowledgement in acknowledgements {
                let stored = within(self.timeout, &self.connection, acknowledgement.into_future()).await;
                let stored = stored.map_err(WriteError::Failed)?.map_err(|error| self.write_failed(&error))?;
                sequences.push(stored.sequence);
            }
        }
        too_large.map_or(Ok(sequences), |write| {
            let bytes = write.value.as_ref().map_or(0, Vec::len);
            Err(WriteError::Failed(format!(
                "the value of {} has {bytes} bytes, more than max_payload of the server, which has to be raised",
                write.key
            )))
        })
    }

    fn write_failed(&self, error: &PublishError) -> WriteError {
        match error.kind() {
            PublishErrorKind::WrongLastSequence => WriteError::Replaced,
            PublishErrorKind::StreamNotFound => WriteError::Failed("the bucket was deleted".into()),
            _ => WriteError::Failed(self.failed("a value cannot be written", &reasons(error))),
        }
    }

    fn failed(&self, what: &str, why: &str) -> String {
        self.connection.redact(&format!("{what}: {why}"))
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Waits for an answer; the error names what the server reported meanwhile, such as a missing permission.
async fn within<T>(limit: Duration, connection: &NatsConnection, answer: impl Future<Output = T>) -> Result<T, String> {
    timeout(limit, answer).await.map_err(|_late| {
        let reported = connection.take_reported().map(|what| format!(": the server reported {what}"));
        connection.redact(&format!("the server did not answer in time{}", reported.unwrap_or_default()))
    })
}
