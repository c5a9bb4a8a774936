//! Incoming webhooks of Slack, and of what takes the same: Mattermost, Rocket.Chat and others.
//!
//! One text in Slack's `mrkdwn`, as not all of them know blocks. `&`, `<` and `>` are escaped as Slack demands, so nothing in
//! a message becomes a link or a mention, and `@` does not reach anybody where it does without brackets.

use serde_json::json;

use crate::record::notify::{
    http::{Message, json},
    notification::{Batch, Notification},
};
use crate::{model::text::shortened, record::lifecycle::Lifecycle};

/// Slack shows longer texts badly, and cuts those of more than 40,000 characters.
const TEXT_BYTES: usize = 4_000;
/// Longest line, so that one message does not take the place of all others.
const LINE_BYTES: usize = 600;

/// Returns the one request that tells a batch.
pub(super) fn messages(batch: &Batch) -> Result<Vec<Message>, String> {
    let body = json(&json!({"text": text(batch), "unfurl_links": false, "unfurl_media": false}))?;
    let (id, tells) = (batch.name(), batch.notifications.len());
    Ok(vec![Message { id, content_type: "application/json", headers: Vec::new(), body, tells }])
}

/// Returns the counts, then as many notifications as fit, the worst first.
fn text(batch: &Batch) -> String {
    let mut notifications: Vec<&Notification> = batch.notifications.iter().map(|told| &**told).collect();
    let rank = |told: &Notification| (told.event == Lifecycle::Resolved, told.severity.is_none(), told.severity);
    notifications.sort_by_key(|told| rank(told));
    let count = |event| notifications.iter().filter(|told| told.event == event).count();
    let counts =
        [Lifecycle::Appeared, Lifecycle::Transient, Lifecycle::Resolved].map(|event| (count(event), event.word()));
    let counts = counts.iter().filter(|(number, _)| *number > 0).enumerate().map(|(place, (number, word))| {
        let violations = if *number == 1 { "violation" } else { "violations" };
        if place == 0 { format!("{number} {violations} {word}") } else { format!("{number} {word}") }
    });
    let mut text = format!("*{}*", counts.collect::<Vec<_>>().join(", "));
    let left_out =
        |number: u64| if number == 0 { String::new() } else { format!("\n_and {number} more were left out_") };
    let mut shown = 0;
    for told in &notifications {
        let line = line(told);
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

fn line(told: &Notification) -> String {
    let sign = match told.event {
        Lifecycle::Resolved if told.excused.is_some() => ":white_circle: excused:",
        Lifecycle::Resolved => ":white_check_mark: resolved:",
        Lifecycle::Appeared | Lifecycle::Transient => ":red_circle:",
    };
    let severity = told.severity.map_or(String::new(), |severity| format!(" *{}*", severity.word()));
    let what = format!("{}: {}: {}", told.resource.title(), told.rule_path(), told.text());
    let why = told.excused.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    let words = format!("{what}{why}").split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\n{sign}{severity} {}", escaped(&shortened(&words, LINE_BYTES)))
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
        let message = &messages(batch).unwrap()[0];
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
        assert!(!text.contains(['<', '>']) && !text.contains("@all"), "{text}");
        assert!(text.contains("&lt;!channel&gt; &amp; @\u{200b}all"), "{text}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn a_text_is_as_long_as_fits_and_begins_with_the_worst() {
        let mut notifications: Vec<Arc<Notification>> = (0..1_000)
            .map(|number| Notification::sample(Lifecycle::Appeared, &format!("{number} &&&&")).into())
            .collect();
        let worst = Notification::sample(Lifecycle::Appeared, &"&".repeat(10_000));
        notifications.push(Notification { severity: Some(Severity::Critical), ..worst }.into());
        let text = sent(&Batch { notifications, left_out: 12 });
        assert!(text.len() < TEXT_BYTES, "{}", text.len());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "*1001 violations appeared*");
        assert!(lines[1].starts_with(":red_circle: *critical*"), "{}", lines[1]);
        assert!(lines[lines.len() - 2].ends_with(" more_"));
        assert_eq!(lines[lines.len() - 1], "_and 12 more were left out_");
    }
}
