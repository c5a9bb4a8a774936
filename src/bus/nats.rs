//! Connections to NATS: servers, logins and TLS, and errors that show no secret.

use std::{
    error::Error,
    fmt,
    iter::successors,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, Event, ServerAddr,
    connection::State,
    jetstream::context::{Context, ContextBuilder, RequestError, RequestErrorKind},
};
use nkeys::KeyPair;

use super::{
    credential::{ReceiverCredential, Redaction},
    tls::ClientTls,
};
use crate::cluster::error::reasons;

/// The name of the connection, which servers show.
const CLIENT_NAME: &str = "kaudit";
/// How often a client tries to connect again before it gives up. Its users then make a new one, which reads the secrets
/// again.
const RECONNECTS: usize = 8;
/// The most messages that wait inside the client.
const CLIENT_CAPACITY: usize = 256;

/// The servers of a NATS, and how kaudit connects to them.
#[derive(Debug, Clone)]
pub(crate) struct NatsServers {
    pub(crate) addresses: Vec<ServerAddr>,
    pub(crate) login: NatsLogin,
    /// Without it, the connection uses TLS only if the server requires it.
    pub(crate) tls: Option<ClientTls>,
    /// How long a connection and each request may take.
    pub(crate) timeout: Duration,
    /// The prefix of the subjects of answers; `None` is that of all clients, `_INBOX`.
    pub(crate) inbox: Option<String>,
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

/// A connection, which reconnects by itself.
pub(crate) struct NatsConnection {
    pub(crate) context: Context,
    client: Client,
    /// What the server reported last, such as a missing permission: it is not in the answer to a message.
    reported: Arc<Mutex<Option<String>>>,
    hidden: Redaction,
}

impl fmt::Debug for NatsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NatsConnection")
    }
}

impl NatsServers {
    /// Parses the address of a server; `logins` are the settings that take credentials.
    ///
    /// # Errors
    /// What it must be. The error does not show the address, which may have a password.
    pub(crate) fn address(text: &str, logins: &str) -> Result<ServerAddr, String> {
        let address = text.parse::<ServerAddr>().ok();
        let is_usable = |address: &ServerAddr| matches!(address.scheme(), "nats" | "tls") && !address.host().is_empty();
        let address =
            address.filter(is_usable).ok_or("must be URLs such as nats://nats.example.com:4222 or tls://…")?;
        if address.has_user_pass() { Err(format!("must not contain credentials: use {logins}")) } else { Ok(address) }
    }

    /// Checks that all secrets and files can be read and used.
    ///
    /// # Errors
    /// What cannot be read or used.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.options().map(drop)
    }

    /// Reads the secrets and files, and connects.
    ///
    /// # Errors
    /// What cannot be read or used, or why no server can be reached.
    pub(crate) async fn connect(&self) -> Result<NatsConnection, String> {
        let (options, hidden) = self.options()?;
        let reported = Arc::<Mutex<Option<String>>>::default();
        let reports = Arc::clone(&reported);
        let options = options.event_callback(move |event| {
            if let Event::ServerError(error) = event {
                *reports.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
            std::future::ready(())
        });
        let client = options
            .connect(&self.addresses[..])
            .await
            .map_err(|error| format!("cannot be reached: {}", hidden.redact(&reasons(&error))))?;
        let context = ContextBuilder::new().timeout(self.timeout).build(client.clone());
        Ok(NatsConnection { context, client, reported, hidden })
    }

    /// Reads the secrets and files.
    fn options(&self) -> Result<(ConnectOptions, Redaction), String> {
        let mut hidden = Redaction::default();
        let mut secret = |credential: &ReceiverCredential| {
            let text = credential.read()?;
            // Sentences in a credentials file are no secrets, and their words occur in messages.
            let is_sentence = |line: &str| matches!(self.login, NatsLogin::Credentials(_)) && line.contains(' ');
            text.lines().filter(|line| !is_sentence(line)).for_each(|line| hidden.add(line));
            Ok::<_, String>(text)
        };
        let options =
            ConnectOptions::new().name(CLIENT_NAME).client_capacity(CLIENT_CAPACITY).connection_timeout(self.timeout);
        let options = options.max_reconnects(RECONNECTS);
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
        if let Some(prefix) = &self.inbox {
            options = options.custom_inbox_prefix(prefix.clone());
        }
        if let Some(tls) = &self.tls {
            let config = tls.config().map_err(|error| format!("{error:#}"))?;
            options = options.require_tls(true).tls_client_config(config);
        }
        Ok((options, hidden))
    }
}

impl NatsConnection {
    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns how often it has been connected.
    pub(crate) fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Returns what the server reported since the last call, such as a missing permission.
    pub(crate) fn take_reported(&self) -> Option<String> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Removes the secrets from a text.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.hidden.redact(text)
    }
}

/// Returns the causes of an error of `JetStream` in one line, and says so if `JetStream` is not enabled: the client only
/// reports then that a resource does not exist.
pub(crate) fn jetstream_reasons(error: &(dyn Error + 'static)) -> String {
    let no_one_answers = successors(Some(error), |error| (*error).source()).any(|cause| {
        cause.downcast_ref::<RequestError>().is_some_and(|error| error.kind() == RequestErrorKind::NoResponders)
    });
    if no_one_answers { "JetStream is not enabled there, or not for this user".to_owned() } else { reasons(error) }
}
