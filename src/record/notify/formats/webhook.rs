//! Webhooks: a JSON document with the whole batch, or a body rendered by a template.

use hyper::body::Bytes;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

use crate::cluster::identity::API_VERSION;
use crate::record::notify::{
    http::{Message, json},
    notification::{AuditIdentity, Batch, Notification},
};

const JSON: &str = "application/json";
/// The name of the one template.
const TEMPLATE: &str = "body";

/// A webhook.
#[derive(Debug, Default)]
pub(crate) struct Webhook {
    /// Renders the body; without a template, the body is the JSON document.
    template: Option<Environment<'static>>,
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
    /// Creates a webhook whose bodies are rendered by a Jinja template. A value in it is written as JSON, so a string
    /// has its quotes.
    ///
    /// # Errors
    /// If the template is invalid, names an unknown field, or does not produce JSON; the error names the line.
    pub(crate) fn with_template(template: String) -> Result<Self, String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::Json);
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| shown(&error))?);
        environment.add_template_owned(TEMPLATE, template).map_err(|error| shown(&error))?;
        let webhook = Self { template: Some(environment) };
        let audit = AuditIdentity { namespace: "kaudit".to_owned(), name: "kaudit".to_owned(), cluster: None };
        let samples = Notification::samples();
        let alone = samples.iter().map(std::slice::from_ref);
        for (notifications, left_out) in alone.zip(0..).chain([(&samples[..], 7)]) {
            let notifications = notifications.iter().cloned().map(Into::into).collect();
            let body = webhook.body(&Batch { notifications, left_out }, &audit)?;
            serde_json::from_slice::<serde::de::IgnoredAny>(&body).map_err(|error| {
                format!("the template does not produce JSON ({error}): {}", String::from_utf8_lossy(&body))
            })?;
        }
        Ok(webhook)
    }

    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        let body = self.body(batch, audit)?;
        let (id, notifications) = (batch.name(), batch.notifications.len());
        Ok(vec![Message { id, content_type: JSON, headers: Vec::new(), body, notifications }])
    }

    fn body(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Bytes, String> {
        let document = WebhookBody { api_version: API_VERSION, kind: "Notifications", audit, batch };
        let Some(environment) = &self.template else { return json(&document) };
        let rendered = environment.get_template(TEMPLATE).and_then(|template| template.render(Serde(&document)));
        rendered.map(Bytes::from).map_err(|error| shown(&error))
    }
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
        let webhook = Webhook::with_template(template.to_owned()).unwrap();
        let hostile = Notification::sample(Lifecycle::Appeared, "\"}, {\"a\": \"\\");
        let batch = Batch { notifications: vec![hostile.into()], left_out: 2 };
        let body = &webhook.messages(&batch, &AuditIdentity::sample()).unwrap()[0].body;
        let value: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(value, serde_json::json!({"text": ["api: \"}, {\"a\": \"\\"], "more": 2}));
    }

    #[test]
    fn a_template_that_cannot_work_is_refused_when_it_is_read() {
        let why = |template: &str| Webhook::with_template(template.to_owned()).map(drop).unwrap_err();
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
