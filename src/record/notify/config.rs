//! The receiver file, checked as a whole before anything starts; errors name their line and column.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ::http::HeaderName;
use anyhow::Context as _;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_saphyr::Spanned;

use super::{
    credential::{ReceiverCredential, Text},
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
use crate::{model::text, rego::analysis::yaml};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
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
    external_url: Option<Spanned<String>>,
    cluster: Option<Spanned<String>>,
    receivers: Spanned<Vec<ReceiverDocument>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ReceiverDocument {
    name: Spanned<String>,
    webhook: Option<WebhookDocument>,
    cloud_events: Option<CloudEventsDocument>,
    slack: Option<SlackDocument>,
    alertmanager: Option<AlertmanagerDocument>,
    file: Option<Spanned<FileDocument>>,
    http: Option<Spanned<HttpDocument>>,
    #[serde(default, rename = "match")]
    matching: NotificationMatch,
    #[serde(default)]
    batch: BatchDocument,
    max_queued: Option<PositiveCount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WebhookDocument {
    url: Spanned<Text>,
    signing_secret: Option<ReceiverCredential>,
    template: Option<Spanned<Text>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CloudEventsDocument {
    url: Spanned<Text>,
    #[serde(default)]
    mode: CloudEventsMode,
    signing_secret: Option<ReceiverCredential>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackDocument {
    url: Spanned<ReceiverCredential>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AlertmanagerDocument {
    url: Spanned<Text>,
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

/// A duration such as `10s`.
struct Period(Duration);

/// The same, or 0.
struct Wait(Duration);

/// A number of bytes such as `100Mi`.
struct Size(u64);

/// A count of at least 1.
struct PositiveCount(usize);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let period = String::deserialize(deserializer)?;
        text::duration(&period).map(Self).map_err(|why| D::Error::custom(format!("{period:?}: {why}")))
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wait = String::deserialize(deserializer)?;
        if wait.trim() == "0" {
            return Ok(Self(Duration::ZERO));
        }
        text::duration(&wait).map(Self).map_err(|why| D::Error::custom(format!("{wait:?}: {why}")))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let size = String::deserialize(deserializer)?;
        let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1_u64 << 30), ("", 1)];
        let parse = |(unit, bytes): &(&str, u64)| size.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*bytes);
        let bytes = units.iter().find_map(parse).filter(|bytes| *bytes > 0);
        bytes
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("{size:?}: expected a size such as 512Ki, 100Mi or 1Gi")))
    }
}

impl<'de> Deserialize<'de> for PositiveCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match usize::deserialize(deserializer)? {
            0 => Err(D::Error::custom("must be at least 1")),
            count => Ok(Self(count)),
        }
    }
}

/// What is wrong in the file, and where.
struct Mistake {
    line: u64,
    column: u64,
    what: String,
}

impl Mistake {
    fn at<T>(place: &Spanned<T>, what: impl fmt::Display) -> Self {
        Self { line: place.referenced.line(), column: place.referenced.column(), what: what.to_string() }
    }
}

impl NotifyConfig {
    /// Reads the receiver file, and checks the files and variables that it names.
    ///
    /// # Errors
    /// What is wrong, where, and what to do.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading receivers from {}", path.display()))?;
        Self::parse(&text).map_err(|Mistake { line, column, what }| {
            let place = if line == 0 { String::new() } else { format!(":{line}:{column}") };
            anyhow::anyhow!("{}{place}: {what}", path.display())
        })
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

    fn parse(text: &str) -> Result<Self, Mistake> {
        let document: NotifyDocument =
            serde_saphyr::from_str_with_options(text, yaml::as_opa_short()).map_err(|error| {
                let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
                Mistake { line, column, what: yaml::reason(&error) }
            })?;
        if document.receivers.value.is_empty() {
            return Err(Mistake::at(&document.receivers, "has no receivers: add at least one"));
        }
        let external_url = document.external_url.as_ref();
        let external_url = external_url
            .map(|url| {
                http::url(&url.value)
                    .map(|_| url.value.clone())
                    .map_err(|why| Mistake::at(url, format!("externalURL: {why}")))
            })
            .transpose()?;
        let cluster = document.cluster.map(cluster_name).transpose()?;
        let mut names = BTreeSet::new();
        let mut receivers = Vec::new();
        for receiver in document.receivers.value {
            check_name(&receiver.name, &mut names)?;
            receivers.push(Arc::new(receiver.into_receiver(external_url.as_ref())?));
        }
        Ok(Self { cluster, receivers })
    }
}

/// Checks the name of the cluster, which becomes a label and part of a line.
fn cluster_name(name: Spanned<String>) -> Result<Arc<str>, Mistake> {
    let is_valid = (1..=CLUSTER_BYTES).contains(&name.value.len()) && !name.value.contains(char::is_control);
    if is_valid {
        return Ok(name.value.into());
    }
    let what = format!("cluster: expected a name of 1 to {CLUSTER_BYTES} bytes on one line");
    Err(Mistake::at(&name, what))
}

fn check_name(name: &Spanned<String>, names: &mut BTreeSet<String>) -> Result<(), Mistake> {
    let text = &name.value;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || text.len() > 63 || !text.bytes().all(is_plain) || text.starts_with('-') || text.ends_with('-')
    {
        let what = format!(
            "name: {text:?} must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or digit"
        );
        return Err(Mistake::at(name, what));
    }
    if !names.insert(text.clone()) {
        return Err(Mistake::at(name, format!("name: {text} is used by two receivers")));
    }
    Ok(())
}

/// The part of a receiver that depends on its kind, if it is reached by HTTP.
struct ReceiverKind<'a> {
    format: ReceiverFormat,
    url: Spanned<Text>,
    path: &'static str,
    signing: Option<ReceiverCredential>,
    batching: Batching,
    /// Its key in the receiver file, for errors.
    place: &'a str,
}

const FOR_PROGRAMS: Batching = Batching { items: MAX_ITEMS, wait: MAX_WAIT, queued: MAX_QUEUED };
const FOR_PEOPLE: Batching = Batching { items: MAX_ITEMS_FOR_PEOPLE, wait: MAX_WAIT_FOR_PEOPLE, queued: MAX_QUEUED };

impl ReceiverDocument {
    fn into_receiver(mut self, external_url: Option<&String>) -> Result<Receiver, Mistake> {
        let name = self.name.clone();
        let at_name = |what: String| Mistake::at(&name, format!("receiver {}: {what}", name.value));
        let kinds = [
            ("webhook", self.webhook.is_some()),
            ("cloudEvents", self.cloud_events.is_some()),
            ("slack", self.slack.is_some()),
            ("alertmanager", self.alertmanager.is_some()),
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
        let (target, batching) = match (self.file.take(), self.kind(external_url)?) {
            (Some(file), _) => (file_target(&file, self.http.as_ref())?, FOR_PROGRAMS),
            (None, Some(kind)) => {
                let batching = kind.batching;
                (http_target(kind, self.http.as_ref(), &at_name)?, batching)
            }
            (None, None) => return Err(at_name("has no destination".into())),
        };
        let BatchDocument { max_items, max_wait } = self.batch;
        let batching = Batching {
            items: max_items.map_or(batching.items, |PositiveCount(items)| items),
            wait: max_wait.map_or(batching.wait, |Wait(wait)| wait),
            queued: self.max_queued.map_or(batching.queued, |PositiveCount(items)| items),
        };
        Ok(Receiver { name: name.value, matching: self.matching, batching, target })
    }

    /// Returns the part that depends on the kind; `None` for a file.
    fn kind(&mut self, external_url: Option<&String>) -> Result<Option<ReceiverKind<'static>>, Mistake> {
        let kind =
            |place, format, url| ReceiverKind { format, url, path: "", signing: None, batching: FOR_PROGRAMS, place };
        if let Some(WebhookDocument { url, signing_secret, template }) = self.webhook.take() {
            let webhook = template.map_or(Ok(Webhook::default()), |template| {
                let made = template.value.read().and_then(Webhook::with_template);
                made.map_err(|why| Mistake::at(&template, format!("webhook.template: {why}")))
            })?;
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
            let url = Spanned::new(Text::Secret(url.value), url.referenced, url.defined);
            let slack = Slack { external_url: external_url.cloned() };
            return Ok(Some(ReceiverKind { batching: FOR_PEOPLE, ..kind("slack", ReceiverFormat::Slack(slack), url) }));
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

fn file_target(file: &Spanned<FileDocument>, http: Option<&Spanned<HttpDocument>>) -> Result<ReceiverTarget, Mistake> {
    if let Some(http) = http {
        return Err(Mistake::at(http, "http: has no effect on a file receiver: remove it"));
    }
    let FileDocument { path, max_size, max_files } = &file.value;
    let rotated = RotatedFile {
        path: path.clone(),
        max_bytes: max_size.as_ref().map_or(MAX_FILE_BYTES, |Size(bytes)| *bytes),
        max_files: max_files.as_ref().map_or(MAX_FILES, |PositiveCount(files)| *files),
    };
    // Fails now if the file cannot be written, not when the first violation appears.
    let writable = fs::OpenOptions::new().append(true).create(true).open(path);
    writable.map_err(|error| Mistake::at(file, format!("file.path: cannot write {}: {error}", path.display())))?;
    Ok(ReceiverTarget::File(Arc::new(rotated)))
}

fn http_target(
    kind: ReceiverKind<'_>,
    http: Option<&Spanned<HttpDocument>>,
    at_name: &impl Fn(String) -> Mistake,
) -> Result<ReceiverTarget, Mistake> {
    let ReceiverKind { format, url, path, signing, place, .. } = kind;
    let at_http = |what: String| http.map_or_else(|| at_name(what.clone()), |http| Mistake::at(http, &what));
    let settings = http.map(|http| &http.value);
    let timeout = settings.and_then(|http| http.timeout.as_ref()).map_or(TIMEOUT, |Period(timeout)| *timeout);
    let ca_file = settings.and_then(|http| http.ca_file.as_ref());
    let client = http::client(timeout, ca_file).map_err(|why| at_http(format!("http.caFile: {why:#}")))?;
    let credentials = settings.map_or(Ok(HttpCredentials::default()), credentials).map_err(&at_http)?;
    // Errors about the URL name its own line.
    url.value
        .read()
        .and_then(|text| http::url(&text))
        .map_err(|why| Mistake::at(&url, format!("{place}.url: {why}")))?;
    let endpoint = Endpoint { url: url.value, path, credentials, signing, client };
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
