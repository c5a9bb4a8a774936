//! The settings of receivers that are event buses.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

use super::{
    super::{
        bus::{
            kafka::{Kafka, KafkaSasl, SaslMechanism},
            nats::Nats,
            template::BusTemplate,
        },
        formats::cloudevents::CloudEventsMode,
    },
    values::{Period, TIMEOUT},
};
use crate::{
    bus::{
        credential::ReceiverCredential,
        nats::{NatsLogin, NatsServers},
        tls::ClientTls,
    },
    rego::analysis::yaml::{YamlError, YamlNode},
};

/// The subject of a notification without one in the receiver file.
const SUBJECT: &str = "kaudit.{cluster}.{namespace}.{event}";
/// The topic of a notification without one in the receiver file.
const TOPIC: &str = "kaudit";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NatsDocument {
    servers: Vec<String>,
    subject: Option<String>,
    basic_auth: Option<LoginDocument>,
    token: Option<ReceiverCredential>,
    nkey: Option<ReceiverCredential>,
    credentials: Option<ReceiverCredential>,
    tls: Option<TlsDocument>,
    timeout: Option<Period>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct KafkaDocument {
    brokers: Vec<String>,
    topic: Option<String>,
    #[serde(default)]
    mode: CloudEventsMode,
    sasl: Option<SaslDocument>,
    tls: Option<TlsDocument>,
    timeout: Option<Period>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginDocument {
    username: String,
    password: ReceiverCredential,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaslDocument {
    mechanism: SaslMechanism,
    username: String,
    password: ReceiverCredential,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TlsDocument {
    #[serde(rename = "caFile")]
    authority: Option<PathBuf>,
    #[serde(rename = "certFile")]
    certificate: Option<PathBuf>,
    #[serde(rename = "keyFile")]
    key: Option<PathBuf>,
}

impl NatsDocument {
    /// Converts the settings at `node`.
    pub(super) fn into_nats(self, node: &YamlNode) -> Result<Nats, YamlError> {
        let at = |key: &str, why: String| node.get(key).error(format!("nats.{key}: {why}"));
        if self.servers.is_empty() {
            return Err(at("servers", "has no servers: add at least one".into()));
        }
        let addresses = self.servers.iter().map(|server| NatsServers::address(server, "nats.basicAuth or nats.token"));
        let addresses = addresses.collect::<Result<Vec<_>, _>>().map_err(|why| at("servers", why))?;
        let subject =
            BusTemplate::subject(self.subject.as_deref().unwrap_or(SUBJECT)).map_err(|why| at("subject", why))?;
        let logins = [
            self.basic_auth.map(|LoginDocument { username, password }| NatsLogin::Password(username, password)),
            self.token.map(NatsLogin::Token),
            self.nkey.map(NatsLogin::Nkey),
            self.credentials.map(NatsLogin::Credentials),
        ];
        let mut logins = logins.into_iter().flatten();
        let login = logins.next().unwrap_or(NatsLogin::Anonymous);
        if logins.next().is_some() {
            let why = "nats: basicAuth, token, nkey and credentials exclude each other: keep one of them";
            return Err(node.error(why));
        }
        let tls = self.tls.map(TlsDocument::into_tls).transpose().map_err(|why| at("tls", why))?;
        let servers = NatsServers { addresses, login, tls, timeout: timeout(self.timeout), inbox: None };
        servers.check().map_err(|why| node.error(format!("nats: {why}")))?;
        Ok(Nats::new(servers, subject))
    }
}

impl KafkaDocument {
    /// Converts the settings at `node`.
    pub(super) fn into_kafka(self, node: &YamlNode) -> Result<Kafka, YamlError> {
        let at = |key: &str, why: String| node.get(key).error(format!("kafka.{key}: {why}"));
        if self.brokers.is_empty() {
            return Err(at("brokers", "has no brokers: add at least one".into()));
        }
        if let Some(broker) = self.brokers.iter().find(|broker| !is_host_and_port(broker)) {
            return Err(at("brokers", format!("{broker:?} must be a host and a port, such as kafka.example.com:9092")));
        }
        let topic = BusTemplate::topic(self.topic.as_deref().unwrap_or(TOPIC)).map_err(|why| at("topic", why))?;
        if self.mode == CloudEventsMode::Batched {
            return Err(at("mode", "Kafka has no batched events: use structured or binary".into()));
        }
        let sasl =
            self.sasl.map(|SaslDocument { mechanism, username, password }| KafkaSasl { mechanism, username, password });
        let tls = self.tls.map(TlsDocument::into_tls).transpose().map_err(|why| at("tls", why))?;
        let kafka = Kafka::new(self.brokers, topic, self.mode, (sasl, tls), timeout(self.timeout));
        kafka.check().map_err(|why| node.error(format!("kafka: {why}")))?;
        Ok(kafka)
    }
}

impl TlsDocument {
    fn into_tls(self) -> Result<ClientTls, String> {
        let client = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("certFile and keyFile belong together: add the other one".into()),
        };
        Ok(ClientTls { ca_file: self.authority, client })
    }
}

fn timeout(timeout: Option<Period>) -> Duration {
    timeout.map_or(TIMEOUT, |Period(timeout)| timeout)
}

fn is_host_and_port(broker: &str) -> bool {
    let is_host = |host: &str| !host.is_empty() && !host.contains([':', '/', '@', ' ']);
    broker.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
}
