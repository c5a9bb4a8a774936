//! Requests to receivers: where they go, with which credentials, and how responses are classified.
//!
//! Secrets are never shown: neither URLs, which are secrets of chats, nor what a receiver repeats of them, in whatever
//! encoding.

use std::{borrow::Cow, path::PathBuf, time::Duration};

use data_encoding::BASE64;
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use hyper::body::Bytes;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use reqwest::{Client, Url};
use ring::hmac;
use serde::Serialize;

pub(super) use crate::cluster::http_client::RequestError;
use crate::{
    bus::credential::{ReceiverCredential, Redaction, Text},
    cluster::{
        error::reasons,
        http_client::{self, REASON_BYTES, one_line, retry_after},
    },
};

/// How much of it is read: enough more that no secret is cut within the part that is shown.
const READ_BYTES: usize = 16 * 1024;
/// Prefix of a secret of <https://www.standardwebhooks.com>; base64 follows.
const SECRET_PREFIX: &str = "whsec_";

/// One request, independent of its destination.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    /// The same for the same message, also when it is sent again.
    pub(super) id: String,
    pub(super) content_type: Cow<'static, str>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
    /// How many notifications it contains.
    pub(super) notifications: usize,
}

/// Returns a body of JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Bytes, String> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| error.to_string())
}

/// Where requests go, and what they are sent with.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) url: Text,
    /// What follows the path of the URL.
    pub(super) path: &'static str,
    pub(super) credentials: HttpCredentials,
    /// What bodies are signed with.
    pub(super) signing: Option<ReceiverCredential>,
    pub(super) client: Client,
}

/// What authenticates kaudit to a receiver.
#[derive(Debug, Default)]
pub(super) struct HttpCredentials {
    pub(super) headers: Vec<(HeaderName, Text)>,
    pub(super) bearer: Option<ReceiverCredential>,
    pub(super) basic: Option<(String, ReceiverCredential)>,
}

/// Makes a client.
///
/// # Errors
/// When the file of certificates cannot be used.
pub(super) fn client(timeout: Duration, ca_file: Option<&PathBuf>) -> anyhow::Result<Client> {
    let client = http_client::builder(timeout, ca_file)?;
    http_client::build(client)
}

/// Parses a URL, which must be http or https and have no credentials.
///
/// # Errors
/// What is wrong, without showing the URL.
pub(super) fn url(text: &str) -> Result<Url, String> {
    let is_usable = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let url = Url::parse(text).ok().filter(is_usable).ok_or("must be a URL that begins with https:// or http://")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain credentials: use http.basicAuth or http.bearerToken".into());
    }
    Ok(url)
}

impl Endpoint {
    /// Checks that all secrets and settings can be read and used.
    ///
    /// # Errors
    /// What cannot be read or used.
    pub(super) fn check(&self) -> Result<(), String> {
        let secrets = RequestSecrets::read(self)?;
        url(&secrets.url)?;
        secrets.headers()?;
        self.signing.iter().try_for_each(|_| signature(&secrets.signing, "", 0, b"").map(drop))
    }

    /// Makes one attempt to send a message.
    pub(super) async fn post(&self, message: &Message) -> Result<(), RequestError> {
        let misconfigured = |why| RequestError::Later(Duration::ZERO, why);
        let secrets = RequestSecrets::read(self).map_err(misconfigured)?;
        let (url, mut headers) = (url(&secrets.url).map_err(misconfigured)?, secrets.headers().map_err(misconfigured)?);
        let time = Timestamp::now().as_second();
        let mut own =
            vec![("webhook-id".to_owned(), message.id.clone()), ("webhook-timestamp".to_owned(), time.to_string())];
        if self.signing.is_some() {
            let signature = signature(&secrets.signing, &message.id, time, &message.body).map_err(misconfigured)?;
            own.push(("webhook-signature".to_owned(), signature));
        }
        for (name, value) in own.iter().chain(&message.headers) {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
                headers.insert(name, value);
            }
        }
        let content_type =
            HeaderValue::from_str(&message.content_type).map_err(|error| misconfigured(error.to_string()))?;
        headers.insert(CONTENT_TYPE, content_type);
        let sent = self.client.post(url).headers(headers).body(message.body.clone()).send().await;
        match sent {
            Ok(answer) => judge(answer, &secrets).await,
            Err(error) if error.is_timeout() => {
                Err(RequestError::Later(Duration::ZERO, "did not respond in time".into()))
            }
            Err(error) => {
                let why = secrets.hidden.redact(&reasons(&error.without_url()));
                Err(RequestError::Later(Duration::ZERO, format!("cannot be reached: {why}")))
            }
        }
    }
}

/// Classifies a response.
async fn judge(mut answer: reqwest::Response, secrets: &RequestSecrets) -> Result<(), RequestError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let mut text = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        text.extend_from_slice(&chunk);
        if text.len() > READ_BYTES {
            break;
        }
    }
    let line = one_line(&text);
    let line = crate::model::text::shortened(&secrets.hidden.redact(&line), REASON_BYTES).into_owned();
    let why = if line.is_empty() { format!("responded {status}") } else { format!("responded {status}: {line}") };
    let again = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    if again {
        return Err(RequestError::Later(retry_after(answer.headers()), why));
    }
    if status.is_redirection() {
        return Err(RequestError::Refused(format!(
            "responded {status}: redirects are not followed; configure the URL that they lead to"
        )));
    }
    Err(RequestError::Refused(why))
}

/// The settings and secrets read for one request.
struct RequestSecrets {
    url: String,
    /// Name and value, and whether the value is a secret.
    headers: Vec<(HeaderName, String, bool)>,
    authorization: Option<String>,
    signing: String,
    /// Removes secrets from what is shown.
    hidden: Redaction,
}

impl RequestSecrets {
    fn read(endpoint: &Endpoint) -> Result<Self, String> {
        let Endpoint { url: address, path, credentials, signing, .. } = endpoint;
        let mut url = address.read()?;
        let mut hidden = Redaction::default();
        if address.is_secret() {
            hidden.add_whole(&url);
        }
        // With some receivers the path is a secret, so it is hidden although the host is shown. A receiver may repeat
        // it decoded.
        if let Ok(url) = Url::parse(&url) {
            for part in [url.path(), url.query().unwrap_or_default()] {
                hidden.add(part);
                hidden.add(&percent_decode_str(part).decode_utf8_lossy());
            }
        }
        if !path.is_empty() {
            url = format!("{}{path}", url.trim_end_matches('/'));
        }
        let mut headers = Vec::new();
        for (name, text) in &credentials.headers {
            let value = text.read()?;
            if text.is_secret() {
                hidden.add(&value);
            }
            headers.push((name.clone(), value, text.is_secret()));
        }
        let mut authorization = None;
        if let Some(token) = &credentials.bearer {
            let token = token.read()?;
            authorization = Some(format!("Bearer {token}"));
            hidden.add(&token);
        }
        if let Some((user, password)) = &credentials.basic {
            let password = password.read()?;
            let both = BASE64.encode(format!("{user}:{password}").as_bytes());
            authorization = Some(format!("Basic {both}"));
            hidden.add(&both);
            hidden.add(&password);
        }
        let signing = signing.as_ref().map(ReceiverCredential::read).transpose()?.unwrap_or_default();
        hidden.add(&signing);
        Ok(Self { url, headers, authorization, signing, hidden })
    }

    fn headers(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let value = |name: &HeaderName, text: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| format!("the value of the header {name} has characters that are not allowed in headers"))
        };
        for (name, text, is_secret) in &self.headers {
            let mut value = value(name, text)?;
            value.set_sensitive(*is_secret);
            headers.insert(name, value);
        }
        if let Some(text) = &self.authorization {
            let mut value = value(&AUTHORIZATION, text)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

/// Signs a body as specified by <https://www.standardwebhooks.com>, with each of the secrets, so that they can be
/// rotated.
fn signature(secrets: &str, id: &str, time: i64, body: &[u8]) -> Result<String, String> {
    let sign = |secret: &str| {
        let key = match secret.strip_prefix(SECRET_PREFIX) {
            Some(text) => BASE64.decode(text.as_bytes()).map_err(|_| {
                format!("the signing secret begins with {SECRET_PREFIX}, but the rest is not valid base64")
            })?,
            None => secret.as_bytes().to_vec(),
        };
        let mut signed = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &key));
        signed.update(format!("{id}.{time}.").as_bytes());
        signed.update(body);
        Ok(format!("v1,{}", BASE64.encode(signed.sign().as_ref())))
    };
    Ok(secrets.split_whitespace().map(sign).collect::<Result<Vec<_>, String>>()?.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_signed_as_specified() {
        // The example of the specification's own libraries.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signed = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both = signature(&format!("{secret}\nanother"), "a", 1, b"").unwrap();
        assert_eq!(both.split(' ').count(), 2);
        assert!(signature("whsec_%", "a", 1, b"").unwrap_err().contains("not valid base64"));
    }

    #[test]
    fn no_part_of_a_secret_is_shown_in_whatever_encoding() {
        let folder = tempfile::tempdir().unwrap();
        let url = "https://hooks.example.com/services/T0001/B0+Chan/XyZSecret9f%2Ftail%41lpha%5Abeta?token=Qu3ryToken&a=%47amma";
        let (token, password) = ("bearer/with-slash+AndMore==", "p4ss word\"quoted\"");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            ReceiverCredential::File(path)
        };
        let endpoint = |url: Text| Endpoint {
            url,
            path: "",
            credentials: HttpCredentials {
                headers: vec![(HeaderName::from_static("x-key"), Text::Secret(file("key", "h34der;value")))],
                bearer: Some(file("token", token)),
                basic: Some(("kaudit".to_owned(), file("password", password))),
            },
            signing: Some(file("signing", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
            client: client(Duration::from_secs(1), None).unwrap(),
        };
        let both = BASE64.encode(format!("kaudit:{password}").as_bytes());
        let secrets = [url, token, password, &both, "h34der;value", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
        for endpoint in [endpoint(Text::Secret(file("url", url))), endpoint(Text::Plain(url.to_owned()))] {
            let hidden = RequestSecrets::read(&endpoint).unwrap().hidden;
            for secret in secrets.into_iter().chain(url.strip_prefix("https://hooks.example.com")) {
                let json = serde_json::to_string(secret).unwrap();
                let percent = secret.replace('/', "%2F").replace('=', "%3D").replace('+', "%2b").replace(' ', "%20");
                let decoded = percent_decode_str(secret).decode_utf8_lossy().into_owned();
                let escaped = secret.replace('+', "\\u002b");
                for answer in [secret.to_owned(), json.replace('/', "\\/"), json, percent, escaped, decoded] {
                    let shown = hidden.redact(&format!("no route {answer} here"));
                    for part in [
                        "T0001",
                        "Chan",
                        "XyZSecret9f",
                        "tail",
                        "lpha",
                        "beta",
                        "amma",
                        "Qu3ry",
                        "slash",
                        "AndMore",
                        "p4ss",
                        "quoted",
                        "h34der",
                        "MfKQ",
                        &both[..8],
                    ] {
                        assert!(!shown.contains(part), "{part} of {answer}: {shown}");
                    }
                    assert!(shown.starts_with("no route "), "{shown}");
                }
            }
            assert_eq!(hidden.redact("invalid payload"), "invalid payload");
        }
    }

    #[test]
    fn urls_with_credentials_are_refused_without_showing_them() {
        assert!(url("https://example.com/hook").is_ok());
        for wrong in ["https://user:hidden@example.com", "ftp://example.com/hidden", "hidden", "https://"] {
            let why = url(wrong).unwrap_err();
            assert!(!why.contains("hidden"), "{why}");
        }
    }
}
