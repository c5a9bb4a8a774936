//! Kafka: each record is acknowledged by all in-sync replicas of its partition.
//!
//! The key is the id of the violation, and the records of a partition are one request, so the changes of a violation
//! keep their order. The client repeats nothing by itself: whatever fails is an attempt that the worker retries.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use rskafka::{
    BackoffConfig,
    chrono::DateTime,
    client::{
        Client, ClientBuilder, Credentials, SaslConfig,
        error::{Error, ProtocolError},
        partition::{Compression, PartitionClient, UnknownTopicHandling},
    },
    record::Record,
};
use tokio::{sync::Mutex, time::timeout};

use super::{
    connection::ConnectionSlot,
    partition::partition,
    record::{BusRecord, RecordMode, records},
    template::BusTemplate,
};
use crate::{
    bus::{
        credential::{ReceiverCredential, Redaction},
        tls::ClientTls,
    },
    model::text::shortened,
    record::notify::{
        formats::cloudevents::CloudEventsMode,
        http::RequestError,
        notification::{AuditIdentity, Batch},
    },
};

const CLIENT_ID: &str = "kaudit";
/// The prefix of attributes in headers.
const HEADER_PREFIX: &str = "ce_";
/// The most partitions whose connections are kept: each has its own.
const MAX_PARTITIONS: usize = 64;
/// The largest answer of a broker, which lists all topics.
const ANSWER_BYTES: usize = 32 << 20;
/// The longest reason that is shown, in bytes.
const REASON_BYTES: usize = 400;

/// A cluster of Kafka.
#[derive(Debug)]
pub(crate) struct Kafka {
    /// `host:port` of brokers, which name the others.
    pub(crate) brokers: Vec<String>,
    pub(crate) topic: BusTemplate,
    pub(crate) mode: CloudEventsMode,
    pub(crate) sasl: Option<KafkaSasl>,
    /// Without it, connections are not encrypted.
    pub(crate) tls: Option<ClientTls>,
    pub(crate) timeout: Duration,
    connection: ConnectionSlot<KafkaConnection>,
}

/// How kaudit authenticates to brokers.
#[derive(Debug, Clone)]
pub(crate) struct KafkaSasl {
    pub(crate) mechanism: SaslMechanism,
    pub(crate) username: String,
    pub(crate) password: ReceiverCredential,
}

/// A mechanism of SASL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub(crate) enum SaslMechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

struct KafkaConnection {
    client: Client,
    /// The number of partitions of each topic.
    topics: HashMap<String, usize>,
    partitions: Mutex<HashMap<(String, usize), Arc<PartitionClient>>>,
    hidden: Redaction,
}

impl fmt::Debug for KafkaConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KafkaConnection")
    }
}

impl Kafka {
    pub(crate) fn new(
        brokers: Vec<String>,
        topic: BusTemplate,
        mode: CloudEventsMode,
        (sasl, tls): (Option<KafkaSasl>, Option<ClientTls>),
        timeout: Duration,
    ) -> Self {
        Self { brokers, topic, mode, sasl, tls, timeout, connection: ConnectionSlot::default() }
    }

    /// Checks that all secrets and files can be read and used.
    ///
    /// # Errors
    /// What cannot be read or used.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.builder().map(drop)
    }

    /// Returns one group: the records of a partition are stored together or not at all.
    pub(super) fn groups(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Vec<BusRecord>>, String> {
        let mode = RecordMode { events: self.mode, prefix: HEADER_PREFIX };
        Ok(vec![records(batch, audit, &self.topic, mode)?])
    }

    /// Makes one attempt to publish the records that are not acknowledged yet.
    pub(super) async fn publish(&self, records: &[BusRecord]) -> Result<(), RequestError> {
        let attempt = async {
            let connection = self.connection.get(|_| true, self.connect()).await?;
            connection.publish(records).await
        };
        let no_answer = || RequestError::Later(Duration::ZERO, "did not respond in time".into());
        let published = timeout(self.timeout, attempt).await.unwrap_or_else(|_| Err(no_answer()));
        if matches!(published, Err(RequestError::Later(..))) {
            // The leader or the number of partitions may have changed, or a password.
            self.connection.close().await;
        }
        published
    }

    async fn connect(&self) -> Result<KafkaConnection, RequestError> {
        let later = |why| RequestError::Later(Duration::ZERO, why);
        let (builder, hidden) = self.builder().map_err(later)?;
        let unreachable = |error: &Error| later(format!("cannot be reached: {}", reason(error, &hidden)));
        let client = builder.build().await.map_err(|error| unreachable(&error))?;
        let topics = client.list_topics().await.map_err(|error| unreachable(&error))?;
        let topics = topics.into_iter().map(|topic| (topic.name, topic.partitions.len())).collect();
        Ok(KafkaConnection { client, topics, partitions: Mutex::default(), hidden })
    }

    /// Reads the secrets and files.
    fn builder(&self) -> Result<(ClientBuilder, Redaction), String> {
        // The deadline is reached by the first failure.
        let once = BackoffConfig { deadline: Some(Duration::ZERO), ..BackoffConfig::default() };
        let builder = ClientBuilder::new(self.brokers.clone());
        let mut builder = builder.client_id(CLIENT_ID).max_message_size(ANSWER_BYTES).backoff_config(once);
        let mut hidden = Redaction::default();
        if let Some(KafkaSasl { mechanism, username, password }) = &self.sasl {
            let password = password.read()?;
            hidden.add(&password);
            let credentials = Credentials::new(username.clone(), password);
            builder = builder.sasl_config(match mechanism {
                SaslMechanism::Plain => SaslConfig::Plain(credentials),
                SaslMechanism::ScramSha256 => SaslConfig::ScramSha256(credentials),
                SaslMechanism::ScramSha512 => SaslConfig::ScramSha512(credentials),
            });
        }
        if let Some(tls) = &self.tls {
            builder = builder.tls_config(Arc::new(tls.config().map_err(|error| format!("{error:#}"))?));
        }
        Ok((builder, hidden))
    }
}

impl KafkaConnection {
    async fn publish(&self, records: &[BusRecord]) -> Result<(), RequestError> {
        let mut partitions: BTreeMap<(&str, usize), Vec<&BusRecord>> = BTreeMap::new();
        for record in records.iter().filter(|record| !record.is_acknowledged()) {
            let topic = record.address.as_str();
            let count = self.topics.get(topic).copied().filter(|count| *count > 0).ok_or_else(|| {
                let why = format!("has no topic {topic} that this user may write to: create it, or allow it");
                RequestError::Later(Duration::ZERO, why)
            })?;
            partitions.entry((topic, partition(record.key.as_bytes(), count))).or_default().push(record);
        }
        let requests = partitions.into_iter().map(|((topic, index), records)| self.produce(topic, index, records));
        let mut failed = Ok(());
        for result in join_all(requests).await {
            // An error that a retry can resolve comes first: the other will be found again.
            failed = match (failed, result) {
                (Err(RequestError::Refused(_)), Err(later @ RequestError::Later(..))) => Err(later),
                (Ok(()), result) => result,
                (failed, _) => failed,
            };
        }
        failed
    }

    /// Publishes the records of one partition.
    async fn produce(&self, topic: &str, index: usize, records: Vec<&BusRecord>) -> Result<(), RequestError> {
        let sent = async {
            let client = self.partition(topic, index).await?;
            let produced = records.iter().map(|record| record_of(record)).collect();
            client.produce(produced, Compression::NoCompression).await
        };
        match sent.await {
            Ok(_) => {
                for record in records {
                    record.acknowledge();
                }
                Ok(())
            }
            Err(error) => {
                let why = format!("did not store a record in the topic {topic}: {}", reason(&error, &self.hidden));
                Err(if is_final(&error) {
                    RequestError::Refused(why)
                } else {
                    RequestError::Later(Duration::ZERO, why)
                })
            }
        }
    }

    async fn partition(&self, topic: &str, index: usize) -> Result<Arc<PartitionClient>, Error> {
        let key = (topic.to_owned(), index);
        if let Some(known) = self.partitions.lock().await.get(&key) {
            return Ok(Arc::clone(known));
        }
        let number = i32::try_from(index).unwrap_or(i32::MAX);
        let client = self.client.partition_client(topic, number, UnknownTopicHandling::Error).await?;
        let client = Arc::new(client);
        let mut partitions = self.partitions.lock().await;
        if partitions.len() >= MAX_PARTITIONS {
            partitions.clear();
        }
        partitions.insert(key, Arc::clone(&client));
        Ok(client)
    }
}

fn record_of(record: &BusRecord) -> Record {
    Record {
        key: Some(record.key.clone().into_bytes()),
        value: Some(record.body.to_vec()),
        headers: record.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect(),
        timestamp: DateTime::from_timestamp_millis(record.time.as_millisecond()).unwrap_or_default(),
    }
}

/// Whether the broker would refuse the same records again.
fn is_final(error: &Error) -> bool {
    let Error::ServerError { protocol_error, .. } = error else { return false };
    matches!(
        protocol_error,
        ProtocolError::MessageTooLarge
            | ProtocolError::RecordListTooLarge
            | ProtocolError::InvalidRecord
            | ProtocolError::InvalidTopicException
            | ProtocolError::UnsupportedForMessageFormat
            | ProtocolError::PolicyViolation
    )
}

/// Shows an error without the client's words about retries.
fn reason(error: &Error, hidden: &Redaction) -> String {
    let text = match error {
        Error::ServerError { protocol_error, error_message: Some(message), .. } => {
            format!("{protocol_error:?}: {message}")
        }
        Error::ServerError { protocol_error, .. } => format!("{protocol_error:?}"),
        Error::RetryFailed(rskafka::BackoffError::DeadlineExceded { source, .. })
        | Error::Connection(rskafka::ConnectionError::RetryFailed(rskafka::BackoffError::DeadlineExceded {
            source,
            ..
        })) => source.to_string(),
        error => error.to_string(),
    };
    shortened(&hidden.redact(&text), REASON_BYTES).into_owned()
}

#[cfg(test)]
mod tests {
    use rskafka::client::error::RequestContext;

    use super::*;

    #[test]
    fn a_record_that_is_too_large_is_not_sent_again() {
        let request = || RequestContext::Topic("t".to_owned());
        let is_final = |protocol_error| {
            is_final(&Error::ServerError {
                protocol_error,
                error_message: None,
                request: request(),
                response: None,
                is_virtual: false,
            })
        };
        assert!(is_final(ProtocolError::MessageTooLarge));
        assert!(!is_final(ProtocolError::NotEnoughReplicas) && !is_final(ProtocolError::TopicAuthorizationFailed));
    }
}
