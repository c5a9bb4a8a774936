//! Webhooks: a JSON document with the whole batch, or a body rendered by a template.

use std::borrow::Cow;

use http::HeaderValue;
use hyper::body::Bytes;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use crate::record::notify::{
    http::{Message, json},
    notification::{AuditIdentity, Batch, Notification},
};
use crate::{cluster::identity::API_VERSION, model::text::shortened};

const JSON: &str = "application/json";
/// How much of a body is shown that is not JSON, in bytes.
const BODY_BYTES: usize = 400;
/// The name of the one template.
const TEMPLATE: &str = "body";

/// A webhook.
#[derive(Debug, Default)]
pub(crate) struct Webhook {
    /// Renders the body; without a template, the body is the JSON document.
    template: Option<Box<WebhookTemplate>>,
}

#[derive(Debug)]
struct WebhookTemplate {
    environment: Environment<'static>,
    content_type: Cow<'static, str>,
}

/// The JSON document, which is also the input of a template.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    audit: &'a AuditIdentity,
    #[serde(flatten)]
    batch: &'a Batch,
}

impl Webhook {
    /// Creates a webhook whose bodies are rendered by a Jinja template. If the content type is JSON, which is the default, a
    /// value in the template is written as JSON, so a string has its quotes; otherwise it is written as it is.
    ///
    /// # Errors
    /// If the template is invalid, names an unknown field, or does not produce JSON although that is the content type;
    /// the error names the line. If the content type cannot be the value of a header.
    pub(crate) fn with_template(template: String, content_type: Option<String>) -> Result<Self, String> {
        let content_type = content_type.map_or(Cow::Borrowed(JSON), Cow::Owned);
        HeaderValue::from_str(&content_type)
            .map_err(|_| format!("the content type {content_type:?} has characters that are not allowed in headers"))?;
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let escape = if is_json(&content_type) { AutoEscape::Json } else { AutoEscape::None };
        environment.set_auto_escape_callback(move |_| escape.clone());
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| shown(&error))?);
        environment.add_template_owned(TEMPLATE, template).map_err(|error| shown(&error))?;
        let webhook = Self { template: Some(Box::new(WebhookTemplate { environment, content_type })) };
        let audit = AuditIdentity { namespace: "kaudit".to_owned(), name: "kaudit".to_owned(), cluster: None };
        let samples = Notification::samples();
        let alone = samples.iter().map(std::slice::from_ref);
        for (notifications, left_out) in alone.zip(0..).chain([(&samples[..], 7)]) {
            let notifications = notifications.iter().cloned().map(Into::into).collect();
            webhook.body(&Batch { notifications, left_out }, &audit)?;
        }
        Ok(webhook)
    }

    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        let body = self.body(batch, audit)?;
        let (id, notifications) = (batch.name(), batch.notifications.len());
        let content_type = self.template.as_ref().map_or(Cow::Borrowed(JSON), |template| template.content_type.clone());
        Ok(vec![Message { id, content_type, headers: Vec::new(), body, notifications }])
    }

    fn body(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Bytes, String> {
        let document = WebhookBody { api_version: API_VERSION, kind: "Notifications", audit, batch };
        let Some(template) = &self.template else { return json(&document) };
        let WebhookTemplate { environment, content_type } = &**template;
        let rendered = environment.get_template(TEMPLATE).and_then(|template| template.render(Serde(&document)));
        let body = rendered.map_err(|error| shown(&error))?;
        if is_json(content_type) {
            serde_json::from_str::<serde::de::IgnoredAny>(&body).map_err(|error| {
                let body = shortened(&body, BODY_BYTES);
                format!(
                    "the template does not produce JSON, which the content type {content_type} needs ({error}): {body}"
                )
            })?;
        }
        Ok(Bytes::from(body))
    }
}

/// Whether a content type is JSON or a format of JSON, such as `application/problem+json`.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == JSON || essence.ends_with("+json")
}

/// Shows an error with the line of the template.
fn shown(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    error.line().map_or_else(|| format!("template: {what}"), |line| format!("line {line} of the template: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::ledger::Lifecycle;

    #[test]
    fn the_document_has_every_field_of_every_notification() {
        let messages = Webhook::default().messages(&Batch::sample(), &AuditIdentity::sample()).unwrap();
        assert_eq!((messages.len(), messages[0].notifications), (1, 3));
        let document: serde_json::Value = serde_json::from_slice(&messages[0].body).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
    }

    #[test]
    fn the_id_of_a_message_depends_on_its_notifications() {
        let name = |batch: &Batch| Webhook::default().messages(batch, &AuditIdentity::sample()).unwrap()[0].id.clone();
        let one = Notification::sample(Lifecycle::Appeared, "a");
        let alone = Batch { notifications: vec![one.clone().into()], left_out: 0 };
        assert_eq!(name(&alone), one.id);
        assert_eq!(name(&Batch::sample()), name(&Batch::sample()));
        assert_ne!(name(&Batch::sample()), one.id);
    }

    #[test]
    fn a_template_makes_the_body() {
        let template = "{\"text\": [{% for n in notifications %}{{ n.resource.name ~ ': ' ~ n.message }}\
                        {% if not loop.last %}, {% endif %}{% endfor %}], \"more\": {{ leftOut }}}";
        let webhook = Webhook::with_template(template.to_owned(), None).unwrap();
        let hostile = Notification::sample(Lifecycle::Appeared, "\"}, {\"a\": \"\\");
        let batch = Batch { notifications: vec![hostile.into()], left_out: 2 };
        let body = &webhook.messages(&batch, &AuditIdentity::sample()).unwrap()[0].body;
        let value: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(value, serde_json::json!({"text": ["api: \"}, {\"a\": \"\\"], "more": 2}));
    }

    #[test]
    fn a_body_of_another_content_type_is_plain() {
        let content_type = Some("text/plain; charset=utf-8".to_owned());
        let template = "{% for n in notifications %}{{ n.message }}\n{% endfor %}".to_owned();
        let webhook = Webhook::with_template(template.clone(), content_type).unwrap();
        let notification = Notification::sample(Lifecycle::Appeared, "\"quoted\" & <tag>");
        let batch = Batch { notifications: vec![notification.into()], left_out: 0 };
        let message = &webhook.messages(&batch, &AuditIdentity::sample()).unwrap()[0];
        assert_eq!(
            (&*message.body, &*message.content_type),
            (&b"\"quoted\" & <tag>\n"[..], "text/plain; charset=utf-8")
        );
        let why =
            Webhook::with_template(template.clone(), Some("application/ld+json".to_owned())).map(drop).unwrap_err();
        assert!(why.contains("the content type application/ld+json needs"), "{why}");
        let why = Webhook::with_template(template, Some("text\n".to_owned())).map(drop).unwrap_err();
        assert!(why.contains("not allowed in headers"), "{why}");
    }

    #[test]
    fn a_body_that_is_not_json_is_never_sent() {
        // It is JSON with the samples that are rendered at the start.
        let template = "{% if notifications[0].message == 'bad' %}}{% else %}1{% endif %}";
        let webhook = Webhook::with_template(template.to_owned(), None).unwrap();
        let batch = |message| {
            let notification = Notification::sample(Lifecycle::Appeared, message);
            Batch { notifications: vec![notification.into()], left_out: 0 }
        };
        assert!(webhook.messages(&batch("good"), &AuditIdentity::sample()).is_ok());
        let why = webhook.messages(&batch("bad"), &AuditIdentity::sample()).unwrap_err();
        assert!(why.contains("does not produce JSON"), "{why}");
    }

    #[test]
    fn a_template_that_cannot_work_is_refused_when_it_is_read() {
        let why = |template: &str| Webhook::with_template(template.to_owned(), None).map(drop).unwrap_err();
        insta::assert_snapshot!(
            [
                "{{ notification.message }}",
                "[\n{% for n in notifications %}{{ n.mesage }}{% endfor %}]",
                "{% for n in notifications %}",
                "{\"text\": \"{{ notifications[0].message }}\"}",
                "{% if notifications[0].owner %}1{% endif %}",
            ]
            .map(why)
            .join("\n")
        );
    }
}
