//! The receiver file, checked as a whole before anything starts; errors name their line and column.

mod bus;
mod values;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ::http::HeaderName;
use anyhow::Context as _;
use serde::Deserialize;

use self::{
    bus::{KafkaDocument, NatsDocument},
    values::{Period, PositiveCount, Size, TIMEOUT, Wait},
};
use super::{
    bus::Bus,
    file::RotatedFile,
    formats::{
        ReceiverFormat,
        alertmanager::Alertmanager,
        cloudevents::{CloudEvents, CloudEventsMode},
        slack::Slack,
        webhook::Webhook,
    },
    http::{self, Endpoint, HttpCredentials},
    queue::Batching,
    receiver::{Receiver, ReceiverTarget},
    route::NotificationMatch,
};
use crate::{
    bus::credential::{ReceiverCredential, Text},
    rego::analysis::yaml::{self, YamlDialect, YamlError, YamlNode},
};

/// How long the first notification of a batch waits for others.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The same for chats, where people prefer one message to two.
const MAX_WAIT_FOR_PEOPLE: Duration = Duration::from_secs(5);
/// The most notifications in one message.
const MAX_ITEMS: usize = 100;
/// The same for chats: such a message counts what it does not list.
const MAX_ITEMS_FOR_PEOPLE: usize = 1_000;
/// The most notifications that wait: about 20 MB.
const MAX_QUEUED: usize = 10_000;
/// How often alerts are sent again.
const RESEND_EVERY: Duration = Duration::from_mins(1);
/// Longest name of a cluster.
const CLUSTER_BYTES: usize = 253;
/// The largest size of a notification file, and how many are kept.
const MAX_FILE_BYTES: u64 = 100 << 20;
const MAX_FILES: usize = 5;

/// The receivers of notifications.
#[derive(Debug)]
pub struct NotifyConfig {
    cluster: Option<Arc<str>>,
    receivers: Vec<Arc<Receiver>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotifyDocument {
    #[serde(default, rename = "externalURL")]
    external_url: Option<String>,
    cluster: Option<String>,
    receivers: Vec<ReceiverDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ReceiverDocument {
    name: String,
    webhook: Option<WebhookDocument>,
    cloud_events: Option<CloudEventsDocument>,
    slack: Option<SlackDocument>,
    alertmanager: Option<AlertmanagerDocument>,
    nats: Option<NatsDocument>,
    kafka: Option<KafkaDocument>,
    file: Option<FileDocument>,
    http: Option<HttpDocument>,
    #[serde(default, rename = "match")]
    matching: NotificationMatch,
    #[serde(default)]
    batch: BatchDocument,
    max_queued: Option<PositiveCount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WebhookDocument {
    url: Text,
    signing_secret: Option<ReceiverCredential>,
    template: Option<Text>,
    content_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CloudEventsDocument {
    url: Text,
    #[serde(default)]
    mode: CloudEventsMode,
    signing_secret: Option<ReceiverCredential>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackDocument {
    url: ReceiverCredential,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AlertmanagerDocument {
    url: Text,
    resend_every: Option<Period>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileDocument {
    path: PathBuf,
    max_size: Option<Size>,
    max_files: Option<PositiveCount>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HttpDocument {
    headers: BTreeMap<String, Text>,
    bearer_token: Option<ReceiverCredential>,
    basic_auth: Option<BasicAuth>,
    ca_file: Option<PathBuf>,
    timeout: Option<Period>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BasicAuth {
    username: String,
    password: ReceiverCredential,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct BatchDocument {
    max_items: Option<PositiveCount>,
    max_wait: Option<Wait>,
}

impl NotifyConfig {
    /// Reads the receiver file, and checks the files and variables that it names.
    ///
    /// # Errors
    /// What is wrong, where, and what to do.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading receivers from {}", path.display()))?;
        Self::parse(&text)
            .map_err(|YamlError { at, why, .. }| anyhow::anyhow!("{}:{}:{}: {why}", path.display(), at.line, at.column))
    }

    /// Returns the label keys by which receivers select.
    pub fn label_keys(&self) -> BTreeSet<String> {
        self.receivers.iter().flat_map(|receiver| receiver.matching.label_keys()).cloned().collect()
    }

    /// Returns the name of the cluster, if the file has one.
    pub(super) fn cluster(&self) -> Option<Arc<str>> {
        self.cluster.clone()
    }

    pub(super) fn receivers(&self) -> &[Arc<Receiver>] {
        &self.receivers
    }

    fn parse(text: &str) -> Result<Self, YamlError> {
        let root = yaml::single(text, YamlDialect::Opa)?;
        let NotifyDocument { external_url, cluster, receivers } = root.deserialize()?;
        let nodes = root.get("receivers");
        if receivers.is_empty() {
            return Err(nodes.error("has no receivers: add at least one"));
        }
        if let Some(url) = &external_url {
            http::url(url).map_err(|why| root.get("externalURL").error(format!("externalURL: {why}")))?;
        }
        if let Some(name) = &cluster
            && !is_cluster_name(name)
        {
            let what = format!("cluster: expected a name of 1 to {CLUSTER_BYTES} bytes on one line");
            return Err(root.get("cluster").error(what));
        }
        let mut names = BTreeSet::new();
        let read = receivers.into_iter().zip(nodes.items()).map(|(receiver, node)| {
            check_name(&receiver.name, &mut names).map_err(|why| node.get("name").error(format!("name: {why}")))?;
            receiver.into_receiver(node, external_url.as_ref()).map(Arc::new)
        });
        Ok(Self { cluster: cluster.map(Arc::from), receivers: read.collect::<Result<_, _>>()? })
    }
}

/// Whether the text can be the name of the cluster, which becomes a label and part of a line.
fn is_cluster_name(name: &str) -> bool {
    (1..=CLUSTER_BYTES).contains(&name.len()) && !name.contains(char::is_control)
}

fn check_name(name: &str, names: &mut BTreeSet<String>) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 63 || !name.bytes().all(is_plain) || name.starts_with('-') || name.ends_with('-')
    {
        return Err(format!(
            "{name:?} must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit"
        ));
    }
    if !names.insert(name.to_owned()) {
        return Err(format!("{name} is used by two receivers"));
    }
    Ok(())
}

/// The part of a receiver that depends on its kind, if it is reached by HTTP.
struct ReceiverKind<'a> {
    format: ReceiverFormat,
    url: Text,
    path: &'static str,
    signing: Option<ReceiverCredential>,
    batching: Batching,
    /// Its key in the receiver file, for errors.
    place: &'a str,
}

const FOR_PROGRAMS: Batching = Batching { items: MAX_ITEMS, wait: MAX_WAIT, queued: MAX_QUEUED };
const FOR_PEOPLE: Batching = Batching { items: MAX_ITEMS_FOR_PEOPLE, wait: MAX_WAIT_FOR_PEOPLE, queued: MAX_QUEUED };

impl ReceiverDocument {
    /// Converts the receiver that `node` contains.
    fn into_receiver(mut self, node: &YamlNode, external_url: Option<&String>) -> Result<Receiver, YamlError> {
        let name = self.name.clone();
        let at_name = |what: String| node.get("name").error(format!("receiver {name}: {what}"));
        let kinds = [
            ("webhook", self.webhook.is_some()),
            ("cloudEvents", self.cloud_events.is_some()),
            ("slack", self.slack.is_some()),
            ("alertmanager", self.alertmanager.is_some()),
            ("nats", self.nats.is_some()),
            ("kafka", self.kafka.is_some()),
            ("file", self.file.is_some()),
        ];
        let given: Vec<&str> = kinds.iter().filter_map(|(kind, given)| given.then_some(*kind)).collect();
        match given[..] {
            [_] => {}
            [] => {
                let known = kinds.map(|(kind, _)| kind).join(", ");
                return Err(at_name(format!("has no destination: add one of {known}")));
            }
            _ => {
                return Err(at_name(format!(
                    "has several destinations, {}: define one receiver for each",
                    given.join(" and ")
                )));
            }
        }
        if self.alertmanager.is_some() && !self.matching.events.is_empty() {
            return Err(at_name(
                "match.events cannot be set: an alert fires as long as its violation is open, so Alertmanager needs all events".into(),
            ));
        }
        let (target, batching) = if let Some(kind) = self.kind(node, external_url)? {
            let batching = kind.batching;
            (http_target(kind, self.http.as_ref(), node, &at_name)?, batching)
        } else {
            let other = self.other_target(node)?;
            (other.ok_or_else(|| at_name("has no destination".into()))?, FOR_PROGRAMS)
        };
        let BatchDocument { max_items, max_wait } = self.batch;
        let batching = Batching {
            items: max_items.map_or(batching.items, |PositiveCount(items)| items),
            wait: max_wait.map_or(batching.wait, |Wait(wait)| wait),
            queued: self.max_queued.map_or(batching.queued, |PositiveCount(items)| items),
        };
        Ok(Receiver { name, matching: self.matching, batching, target })
    }

    /// Returns the target of a receiver that is not reached by HTTP.
    fn other_target(&mut self, node: &YamlNode) -> Result<Option<ReceiverTarget>, YamlError> {
        let (place, target) = if let Some(file) = self.file.take() {
            ("a file receiver: remove it", file_target(file, node)?)
        } else if let Some(nats) = self.nats.take() {
            (
                "a receiver of type nats: use the fields of nats",
                ReceiverTarget::Bus(Box::new(Bus::Nats(nats.into_nats(node.get("nats"))?))),
            )
        } else if let Some(kafka) = self.kafka.take() {
            (
                "a receiver of type kafka: use the fields of kafka",
                ReceiverTarget::Bus(Box::new(Bus::Kafka(kafka.into_kafka(node.get("kafka"))?))),
            )
        } else {
            return Ok(None);
        };
        let http = node.get("http");
        if http.is_null() { Ok(Some(target)) } else { Err(http.error(format!("http: has no effect on {place}"))) }
    }

    /// Returns the part that depends on the kind; `None` for a receiver that is not reached by HTTP.
    fn kind(
        &mut self,
        node: &YamlNode,
        external_url: Option<&String>,
    ) -> Result<Option<ReceiverKind<'static>>, YamlError> {
        let kind =
            |place, format, url| ReceiverKind { format, url, path: "", signing: None, batching: FOR_PROGRAMS, place };
        if let Some(WebhookDocument { url, signing_secret, template, content_type }) = self.webhook.take() {
            let at = |key: &str, why: String| node.at(&["webhook", key]).error(format!("webhook.{key}: {why}"));
            let webhook = match template {
                Some(template) => {
                    let made = template.read().and_then(|template| Webhook::with_template(template, content_type));
                    made.map_err(|why| at("template", why))?
                }
                None if content_type.is_some() => {
                    return Err(at("contentType", "has no effect without a template: remove it".into()));
                }
                None => Webhook::default(),
            };
            return Ok(Some(ReceiverKind {
                signing: signing_secret,
                ..kind("webhook", ReceiverFormat::Webhook(webhook), url)
            }));
        }
        if let Some(CloudEventsDocument { url, mode, signing_secret }) = self.cloud_events.take() {
            let format = ReceiverFormat::CloudEvents(CloudEvents { mode });
            return Ok(Some(ReceiverKind { signing: signing_secret, ..kind("cloudEvents", format, url) }));
        }
        if let Some(SlackDocument { url }) = self.slack.take() {
            let slack = ReceiverFormat::Slack(Slack { external_url: external_url.cloned() });
            return Ok(Some(ReceiverKind { batching: FOR_PEOPLE, ..kind("slack", slack, Text::Secret(url)) }));
        }
        let Some(AlertmanagerDocument { url, resend_every, labels }) = self.alertmanager.take() else {
            return Ok(None);
        };
        let resend_every = resend_every.map_or(RESEND_EVERY, |Period(every)| every);
        let format =
            ReceiverFormat::Alertmanager(Alertmanager { resend_every, labels, external_url: external_url.cloned() });
        Ok(Some(ReceiverKind { path: "/api/v2/alerts", ..kind("alertmanager", format, url) }))
    }
}

fn file_target(file: FileDocument, node: &YamlNode) -> Result<ReceiverTarget, YamlError> {
    let FileDocument { path, max_size, max_files } = file;
    // Fails now if the file cannot be written, not when the first violation appears.
    let writable = fs::OpenOptions::new().append(true).create(true).open(&path);
    let refused = |error| node.get("file").error(format!("file.path: cannot write {}: {error}", path.display()));
    writable.map_err(refused)?;
    let max_bytes = max_size.map_or(MAX_FILE_BYTES, |Size(bytes)| bytes);
    let max_files = max_files.map_or(MAX_FILES, |PositiveCount(files)| files);
    Ok(ReceiverTarget::File(Arc::new(RotatedFile { path, max_bytes, max_files })))
}

fn http_target(
    kind: ReceiverKind<'_>,
    http: Option<&HttpDocument>,
    node: &YamlNode,
    at_name: &impl Fn(String) -> YamlError,
) -> Result<ReceiverTarget, YamlError> {
    let ReceiverKind { format, url, path, signing, place, .. } = kind;
    let at_http = |what: String| if http.is_some() { node.get("http").error(what) } else { at_name(what) };
    let timeout = http.and_then(|http| http.timeout.as_ref()).map_or(TIMEOUT, |Period(timeout)| *timeout);
    let ca_file = http.and_then(|http| http.ca_file.as_ref());
    let client = http::client(timeout, ca_file).map_err(|why| at_http(format!("http.caFile: {why:#}")))?;
    let credentials = http.map_or(Ok(HttpCredentials::default()), credentials).map_err(&at_http)?;
    // Errors about the URL name its own line.
    let checked = url.read().and_then(|text| http::url(&text));
    checked.map_err(|why| node.at(&[place, "url"]).error(format!("{place}.url: {why}")))?;
    let endpoint = Endpoint { url, path, credentials, signing, client };
    endpoint.check().map_err(at_name)?;
    Ok(ReceiverTarget::Http(Box::new((endpoint, format))))
}

fn credentials(http: &HttpDocument) -> Result<HttpCredentials, String> {
    if http.bearer_token.is_some() && http.basic_auth.is_some() {
        return Err("http: bearerToken and basicAuth cannot be combined: remove one of them".into());
    }
    let header = |(name, text): (&String, &Text)| {
        let parsed = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("http.headers: {name:?} is not a valid header name"));
        Ok((parsed?, text.clone()))
    };
    Ok(HttpCredentials {
        headers: http.headers.iter().map(header).collect::<Result<_, String>>()?,
        bearer: http.bearer_token.clone(),
        basic: http.basic_auth.as_ref().map(|basic| (basic.username.clone(), basic.password.clone())),
    })
}

#[cfg(test)]
mod tests;
