//! NATS `JetStream`: each record is a message that a stream has stored and acknowledged.
//!
//! `Nats-Msg-Id` is the id of the event, so a stream drops a message that it got twice. Nothing is published while there
//! is no connection: a message that waits inside the client would be sent at an unknown time.

use std::{
    error::Error as _,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, ServerAddr,
    connection::State,
    jetstream::{
        self, ErrorCode,
        context::{Context, ContextBuilder, PublishError, PublishErrorKind},
        message::PublishMessage,
    },
};
use nkeys::KeyPair;
use tokio::time::timeout;

use super::{
    connection::ConnectionSlot,
    record::{BusRecord, RecordMode, groups_of_distinct_keys, records},
    template::BusTemplate,
    tls::ClientTls,
};
use crate::{
    cluster::error::reasons,
    record::notify::{
        credential::{ReceiverCredential, Redaction},
        formats::cloudevents::CloudEventsMode,
        http::RequestError,
        notification::{AuditIdentity, Batch},
    },
};

/// The name of the connection, which servers show.
const CLIENT_NAME: &str = "kaudit";
/// The most messages that wait inside the client.
const CLIENT_CAPACITY: usize = 256;

/// A `JetStream` of NATS.
#[derive(Debug)]
pub(crate) struct Nats {
    pub(crate) servers: Vec<ServerAddr>,
    pub(crate) subject: BusTemplate,
    pub(crate) login: NatsLogin,
    /// Without it, the connection uses TLS only if the server requires it.
    pub(crate) tls: Option<ClientTls>,
    pub(crate) timeout: Duration,
    connection: ConnectionSlot<NatsConnection>,
}

/// How kaudit authenticates to the server.
#[derive(Debug, Clone)]
pub(crate) enum NatsLogin {
    /// Not, or by the client's certificate.
    Anonymous,
    Password(String, ReceiverCredential),
    Token(ReceiverCredential),
    /// The seed of an nkey.
    Nkey(ReceiverCredential),
    /// A credentials file: a JWT and the seed of its nkey.
    Credentials(ReceiverCredential),
}

struct NatsConnection {
    client: Client,
    context: Context,
    /// What the server reported last, such as a missing permission: it is not in the answer to a message.
    reported: Arc<Mutex<Option<String>>>,
    hidden: Redaction,
}

impl fmt::Debug for NatsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NatsConnection")
    }
}

impl Nats {
    pub(crate) fn new(
        servers: Vec<ServerAddr>,
        subject: BusTemplate,
        login: NatsLogin,
        tls: Option<ClientTls>,
        timeout: Duration,
    ) -> Self {
        Self { servers, subject, login, tls, timeout, connection: ConnectionSlot::default() }
    }

    /// Checks that all secrets and files can be read and used.
    ///
    /// # Errors
    /// What cannot be read or used.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.options().map(drop)
    }

    /// Returns groups in which each violation occurs once: the messages of a group are published without waiting for
    /// each other, so one that fails must not be overtaken.
    pub(super) fn groups(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Vec<BusRecord>>, String> {
        // The binding for NATS has no binary mode.
        let mode = RecordMode { events: CloudEventsMode::Structured, prefix: "" };
        Ok(groups_of_distinct_keys(records(batch, audit, &self.subject, mode)?))
    }

    /// Makes one attempt to publish the records that are not acknowledged yet.
    pub(super) async fn publish(&self, records: &[BusRecord]) -> Result<(), RequestError> {
        let is_usable = |connection: &NatsConnection| connection.client.connection_state() == State::Connected;
        let connected = self.connection.get(is_usable, self.connect());
        let no_answer = || RequestError::Later(Duration::ZERO, "cannot be reached: it did not respond in time".into());
        let connection = timeout(self.timeout, connected).await.map_err(|_| no_answer())??;
        let published = timeout(self.timeout, connection.publish(records)).await;
        let published = published.unwrap_or_else(|_| Err(PublishFailure::NoAnswer));
        let Err(failure) = published else { return Ok(()) };
        if matches!(failure, PublishFailure::NoAnswer) {
            self.connection.close().await;
        }
        Err(connection.explain(failure))
    }

    async fn connect(&self) -> Result<NatsConnection, RequestError> {
        let later = |why| RequestError::Later(Duration::ZERO, why);
        let (options, hidden) = self.options().map_err(later)?;
        let reported = Arc::<Mutex<Option<String>>>::default();
        let reports = Arc::clone(&reported);
        let options = options.event_callback(move |event| {
            if let Event::ServerError(error) = event {
                *reports.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
            std::future::ready(())
        });
        let client = options
            .connect(&self.servers[..])
            .await
            .map_err(|error| later(format!("cannot be reached: {}", hidden.redact(&reasons(&error)))))?;
        let context = ContextBuilder::new().timeout(self.timeout).build(client.clone());
        Ok(NatsConnection { client, context, reported, hidden })
    }

    /// Reads the secrets and files.
    fn options(&self) -> Result<(ConnectOptions, Redaction), String> {
        let mut hidden = Redaction::default();
        let mut secret = |credential: &ReceiverCredential| {
            let text = credential.read()?;
            text.lines().for_each(|line| hidden.add(line));
            Ok::<_, String>(text)
        };
        let options =
            ConnectOptions::new().name(CLIENT_NAME).client_capacity(CLIENT_CAPACITY).connection_timeout(self.timeout);
        let mut options = match &self.login {
            NatsLogin::Anonymous => options,
            NatsLogin::Password(user, password) => options.user_and_password(user.clone(), secret(password)?),
            NatsLogin::Token(token) => options.token(secret(token)?),
            NatsLogin::Nkey(seed) => {
                let text = secret(seed)?;
                KeyPair::from_seed(&text).map_err(|_| format!("{seed} has no seed of an nkey, such as SU…"))?;
                options.nkey(text)
            }
            NatsLogin::Credentials(credentials) => {
                // The parser needs the end of the last line.
                let text = secret(credentials)? + "\n";
                options.credentials(&text).map_err(|_| {
                    format!("{credentials} is not a credentials file: it needs a user JWT and the seed of its nkey")
                })?
            }
        };
        if let Some(tls) = &self.tls {
            let config = tls.config().map_err(|error| format!("{error:#}"))?;
            options = options.require_tls(true).tls_client_config(config);
        }
        Ok((options, hidden))
    }
}

/// Why messages are not published.
enum PublishFailure {
    /// The server did not answer, or the connection is closed.
    NoAnswer,
    Publish(String, PublishError),
}

impl NatsConnection {
    async fn publish(&self, records: &[BusRecord]) -> Result<(), PublishFailure> {
        let (mut acknowledgements, mut failed) = (Vec::new(), Ok(()));
        for record in records.iter().filter(|record| !record.is_acknowledged()) {
            let subject = record.address.clone();
            match self.context.send_publish(subject, message(record)).await {
                Ok(acknowledgement) => acknowledgements.push((record, acknowledgement)),
                Err(error) => {
                    failed = Err(PublishFailure::new(record, error));
                    break;
                }
            }
        }
        for (record, acknowledgement) in acknowledgements {
            match acknowledgement.await {
                Ok(_) => record.acknowledge(),
                Err(error) => failed = failed.and(Err(PublishFailure::new(record, error))),
            }
        }
        failed
    }

    fn explain(&self, failure: PublishFailure) -> RequestError {
        let later = |why: String| RequestError::Later(Duration::ZERO, self.hidden.redact(&why));
        let (subject, error) = match failure {
            PublishFailure::NoAnswer => {
                let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner).take();
                let reported = reported.map(|what| format!(": the server reported {what}")).unwrap_or_default();
                return later(format!("did not acknowledge a message in time{reported}"));
            }
            PublishFailure::Publish(subject, error) => (subject, error),
        };
        match (error.kind(), answer(&error)) {
            (PublishErrorKind::StreamNotFound, _) => {
                later(format!("has no stream with the subject {subject}: add the subject to a stream"))
            }
            (_, Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)) | (PublishErrorKind::MaxPayloadExceeded, _) => {
                RequestError::Refused(
                    self.hidden.redact(&format!("refused a message that is too large: {}", reasons(&error))),
                )
            }
            (_, Some(_)) => later(format!("did not store a message: {}", reasons(&error))),
            (_, None) => later(format!("was not sent a message: {}", reasons(&error))),
        }
    }
}

impl PublishFailure {
    fn new(record: &BusRecord, error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => Self::NoAnswer,
            _ => Self::Publish(record.address.clone(), error),
        }
    }
}

/// Returns the code in the server's answer, if the server answered.
fn answer(error: &PublishError) -> Option<ErrorCode> {
    error.source()?.downcast_ref::<jetstream::Error>().map(jetstream::Error::error_code)
}

fn message(record: &BusRecord) -> PublishMessage {
    let mut headers = HeaderMap::new();
    for (name, value) in &record.headers {
        headers.insert(name.as_str(), value.as_str());
    }
    PublishMessage::build().payload(record.body.clone()).headers(headers).message_id(&record.id)
}
