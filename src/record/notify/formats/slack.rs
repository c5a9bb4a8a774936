//! Incoming webhooks of Slack and compatible services: Mattermost, Rocket.Chat and others.
//!
//! One text in Slack's `mrkdwn`, as not all of them support blocks. `&`, `<` and `>` are escaped as Slack requires, so
//! nothing in a message becomes a link or a mention; `@` is escaped for services where it mentions someone without
//! brackets. The only links are those to kaudit's own page. Symbols are characters rather than names of emoji, which
//! differ between services.

use serde_json::json;

use crate::record::notify::{
    http::{Message, json},
    notification::{AuditIdentity, Batch, Notification},
};
use crate::{
    audit::ledger::Lifecycle,
    model::{text::shortened, verdict::Severity},
};

/// Slack shows longer texts badly, and truncates those of more than 40,000 characters.
const TEXT_BYTES: usize = 4_000;
/// Longest line, so that one message does not take the room of all others.
const LINE_BYTES: usize = 600;
/// Longest URL in a line; an object with a longer one is not linked.
const URL_BYTES: usize = 500;

/// A chat.
#[derive(Debug, Default)]
pub(crate) struct Slack {
    /// The URL of the page, to which objects are linked.
    pub(crate) external_url: Option<String>,
}

impl Slack {
    /// Returns the one request that carries a batch.
    pub(super) fn messages(&self, batch: &Batch, audit: &AuditIdentity) -> Result<Vec<Message>, String> {
        let text = text(batch, audit, self.external_url.as_deref());
        let body = json(&json!({"text": text, "unfurl_links": false, "unfurl_media": false}))?;
        let (id, notifications) = (batch.name(), batch.notifications.len());
        Ok(vec![Message { id, content_type: "application/json".into(), headers: Vec::new(), body, notifications }])
    }
}

/// Returns the counts, then as many notifications as fit, the most severe first.
fn text(batch: &Batch, audit: &AuditIdentity, external_url: Option<&str>) -> String {
    let mut notifications: Vec<&Notification> =
        batch.notifications.iter().map(|notification| &**notification).collect();
    let rank = |notification: &Notification| {
        (notification.event == Lifecycle::Resolved, notification.severity.is_none(), notification.severity)
    };
    notifications.sort_by_key(|notification| rank(notification));
    let count = |event| notifications.iter().filter(|notification| notification.event == event).count();
    let counts =
        [Lifecycle::Appeared, Lifecycle::Happened, Lifecycle::Resolved].map(|event| (count(event), event.word()));
    let counts = counts.iter().filter(|(number, _)| *number > 0).enumerate().map(|(place, (number, word))| {
        let violations = if *number == 1 { "violation" } else { "violations" };
        if place == 0 { format!("{number} {violations} {word}") } else { format!("{number} {word}") }
    });
    let place = audit.cluster.as_ref().map_or(String::new(), |cluster| format!(" in {}", escaped(cluster)));
    let mut text = format!("*{}*{place}", counts.collect::<Vec<_>>().join(", "));
    let left_out =
        |number: u64| if number == 0 { String::new() } else { format!("\n_and {number} more were left out_") };
    let mut shown = 0;
    for notification in &notifications {
        let line = line(notification, external_url);
        // Room for the last two lines.
        if text.len() + line.len() + 100 > TEXT_BYTES {
            break;
        }
        text.push_str(&line);
        shown += 1;
    }
    if shown < notifications.len() {
        let more = format!("\n_and {} more_", notifications.len() - shown);
        text.push_str(&more);
    }
    text + &left_out(batch.left_out)
}

fn line(notification: &Notification, external_url: Option<&str>) -> String {
    let sign = match notification.event {
        Lifecycle::Resolved if notification.excused.is_some() => "\u{2611}\u{fe0f} excused:",
        Lifecycle::Resolved => "\u{2705} resolved:",
        Lifecycle::Appeared | Lifecycle::Happened => sign(notification.severity),
    };
    let severity = notification.severity.map_or(String::new(), |severity| format!(" *{}*", severity.word()));
    let title = notification.resource.to_string();
    let object = match external_url.map(|url| notification.page(url)).filter(|url| url.len() <= URL_BYTES) {
        Some(url) => format!("<{}|{}>", escaped(&url), escaped(&title)),
        None => escaped(&title),
    };
    let why = notification.excused.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    let words = format!("{}: {}{why}", notification.rule_path(), notification.text());
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = shortened(&words, LINE_BYTES.saturating_sub(title.len()));
    format!("\n{sign}{severity} {object}: {}", escaped(&words))
}

/// Returns a circle in the colour of a severity.
fn sign(severity: Option<Severity>) -> &'static str {
    match severity {
        Some(Severity::Critical) => "\u{1f534}",
        Some(Severity::High) => "\u{1f7e0}",
        Some(Severity::Medium) => "\u{1f7e1}",
        Some(Severity::Low) => "\u{1f535}",
        Some(Severity::Info) => "\u{26aa}",
        None => "\u{26ab}",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('@', "@\u{200b}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::verdict::Severity;

    fn sent(batch: &Batch) -> String {
        let slack = Slack { external_url: Some("https://kaudit.example.com/".to_owned()) };
        let message = &slack.messages(batch, &AuditIdentity::sample()).unwrap()[0];
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        body["text"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_message_counts_and_lists() {
        insta::assert_snapshot!(sent(&Batch::sample()));
    }

    #[test]
    fn nothing_in_a_message_is_markup() {
        let hostile =
            Notification::sample(Lifecycle::Appeared, "<!channel> & @all <https://example.com|click>\nsecond");
        let text = sent(&Batch { notifications: vec![hostile.into()], left_out: 0 });
        let link = "<https://kaudit.example.com/?object=ReplicaSet.apps%2Fshop%2Fapi|ReplicaSet shop/api>";
        let rest = text.replace(link, "");
        assert!(!rest.contains(['<', '>']) && !text.contains("@all"), "{text}");
        assert!(text.contains("&lt;!channel&gt; &amp; @\u{200b}all"), "{text}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn each_severity_has_a_colour_and_without_a_page_there_is_no_link() {
        let of = |severity| Notification { severity, ..Notification::sample(Lifecycle::Appeared, "a") };
        let severities = Severity::ALL.map(Some).into_iter().chain([None]);
        let notifications = severities.map(|severity| of(severity).into()).collect();
        let audit = AuditIdentity { cluster: None, ..AuditIdentity::sample() };
        insta::assert_snapshot!(text(&Batch { notifications, left_out: 0 }, &audit, None));
    }

    #[test]
    fn a_text_is_bounded_and_begins_with_the_most_severe() {
        let mut notifications: Vec<Arc<Notification>> = (0..1_000)
            .map(|number| Notification::sample(Lifecycle::Appeared, &format!("{number} &&&&")).into())
            .collect();
        let worst = Notification::sample(Lifecycle::Appeared, &"&".repeat(10_000));
        notifications.push(Notification { severity: Some(Severity::Critical), ..worst }.into());
        let text = sent(&Batch { notifications, left_out: 12 });
        assert!(text.len() < TEXT_BYTES, "{}", text.len());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "*1001 violations appeared* in prod");
        assert!(lines[1].starts_with("\u{1f534} *critical*"), "{}", lines[1]);
        assert!(lines[lines.len() - 2].ends_with(" more_"));
        assert_eq!(lines[lines.len() - 1], "_and 12 more were left out_");
    }
}
