//! The subject of a NATS message or the topic of a Kafka record, from a template such as `kaudit.{cluster}.{event}`.

use crate::{
    audit::ledger::Lifecycle,
    model::{text::shortened, verdict::Severity},
    record::notify::notification::{AuditIdentity, Notification},
};

/// The longest name of a topic that Kafka allows, in bytes.
const TOPIC_BYTES: usize = 249;
/// Replaces a character that a bus does not allow, and a value that is empty.
const REPLACEMENT: char = '_';
/// The event of the record that counts notifications that were left out.
const LEFT_OUT: &str = "leftout";

/// A value of a notification that a template names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressField {
    Cluster,
    Namespace,
    Kind,
    Policy,
    Rule,
    Severity,
    Result,
    Event,
}

impl AddressField {
    const ALL: [(&str, Self); 8] = [
        ("cluster", Self::Cluster),
        ("namespace", Self::Namespace),
        ("kind", Self::Kind),
        ("policy", Self::Policy),
        ("rule", Self::Rule),
        ("severity", Self::Severity),
        ("result", Self::Result),
        ("event", Self::Event),
    ];

    /// Whether it can change during the life of a violation.
    fn can_change(self) -> bool {
        matches!(self, Self::Severity | Self::Result | Self::Event)
    }

    fn value<'a>(self, notification: Option<&'a Notification>, audit: &'a AuditIdentity) -> &'a str {
        let Some(notification) = notification else {
            return match self {
                Self::Cluster => audit.cluster.as_deref().unwrap_or_default(),
                Self::Event => LEFT_OUT,
                _ => "",
            };
        };
        match self {
            Self::Cluster => audit.cluster.as_deref().unwrap_or_default(),
            Self::Namespace => notification.resource.namespace.as_deref().unwrap_or_default(),
            Self::Kind => &notification.resource.kind,
            Self::Policy => &notification.policy,
            Self::Rule => &notification.rule,
            Self::Severity => notification.severity.map_or("", Severity::word),
            Self::Result => notification.result.word(),
            Self::Event => Lifecycle::word(notification.event),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AddressPart {
    Text(String),
    Field(AddressField),
}

/// A subject or topic with placeholders.
#[derive(Debug, Clone)]
pub(crate) struct BusTemplate {
    parts: Vec<AddressPart>,
    /// Whether a character of a value is kept.
    allows: fn(char) -> bool,
    max_bytes: usize,
}

impl BusTemplate {
    /// Parses the template of a NATS subject, whose tokens are separated by dots.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub(crate) fn subject(text: &str) -> Result<Self, String> {
        let parts = parse(text)?;
        let literal = |c: char| c != '*' && c != '>' && !c.is_whitespace() && !c.is_control();
        for part in &parts {
            if let AddressPart::Text(text) = part
                && let Some(c) = text.chars().find(|c| !literal(*c))
            {
                return Err(format!("{text:?} contains {c:?}, which NATS does not allow in the subject of a message"));
            }
        }
        let allows = |c: char| !matches!(c, '*' | '>' | '.') && !c.is_whitespace() && !c.is_control();
        let template = Self { parts, allows, max_bytes: usize::MAX };
        if template.sample().split('.').any(str::is_empty) {
            return Err(format!("{text:?} has an empty token: separate tokens by single dots"));
        }
        Ok(template)
    }

    /// Parses the template of a Kafka topic.
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub(crate) fn topic(text: &str) -> Result<Self, String> {
        let parts = parse(text)?;
        let allows = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        for part in &parts {
            match part {
                AddressPart::Text(text) if !text.chars().all(allows) => {
                    return Err(format!(
                        "{text:?} is not allowed in a topic: use letters, digits, '.', '_' and '-' of ASCII"
                    ));
                }
                AddressPart::Field(field) if field.can_change() => {
                    return Err(format!(
                        "{} would spread the changes of one violation over several topics, so that their order is lost: \
                         use cluster, namespace, kind, policy or rule",
                        placeholder(*field)
                    ));
                }
                AddressPart::Text(_) | AddressPart::Field(_) => {}
            }
        }
        let template = Self { parts, allows, max_bytes: TOPIC_BYTES };
        let sample = template.sample();
        if matches!(sample.as_str(), "" | "." | "..") {
            return Err(format!("{text:?} is not a name that Kafka allows for a topic"));
        }
        Ok(template)
    }

    /// Returns the address of a notification, or of the record that counts those that were left out.
    pub(super) fn render(&self, notification: Option<&Notification>, audit: &AuditIdentity) -> String {
        self.rendered(|field| field.value(notification, audit))
    }

    fn rendered<'v>(&self, value: impl Fn(AddressField) -> &'v str) -> String {
        let mut address = String::new();
        for part in &self.parts {
            match part {
                AddressPart::Text(text) => address.push_str(text),
                AddressPart::Field(field) => match value(*field) {
                    "" => address.push(REPLACEMENT),
                    value => address.extend(value.chars().map(|c| if (self.allows)(c) { c } else { REPLACEMENT })),
                },
            }
        }
        if address.len() > self.max_bytes {
            address = shortened(&address, self.max_bytes).chars().filter(|c| (self.allows)(*c)).collect();
        }
        address
    }

    /// Returns an address in which each value is one character.
    fn sample(&self) -> String {
        self.rendered(|_| "")
    }
}

fn placeholder(field: AddressField) -> String {
    let name = AddressField::ALL.iter().find(|(_, known)| *known == field).map_or("", |(name, _)| name);
    format!("{{{name}}}")
}

fn parse(text: &str) -> Result<Vec<AddressPart>, String> {
    if text.is_empty() {
        return Err("is empty".into());
    }
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (before, after) = rest.split_once('{').unwrap_or((rest, ""));
        if before.contains('}') {
            return Err(format!("{text:?} has a '}}' without a '{{' before it"));
        }
        if !before.is_empty() {
            parts.push(AddressPart::Text(before.to_owned()));
        }
        if before.len() == rest.len() {
            break;
        }
        let (name, after) = after.split_once('}').ok_or_else(|| format!("{text:?} has a '{{' without a '}}'"))?;
        let known = AddressField::ALL.iter().find(|(known, _)| *known == name);
        let (_, field) = known.ok_or_else(|| {
            let names = AddressField::ALL.map(|(name, _)| name).join(", ");
            format!("{{{name}}} is unknown: use one of {names}")
        })?;
        parts.push(AddressPart::Field(*field));
        rest = after;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(template: &BusTemplate, change: fn(&mut Notification)) -> String {
        let mut notification = Notification::sample(Lifecycle::Appeared, "m");
        change(&mut notification);
        template.render(Some(&notification), &AuditIdentity::sample())
    }

    #[test]
    fn values_never_add_tokens_or_wildcards_to_a_subject() {
        let template = BusTemplate::subject("kaudit.{cluster}.{namespace}.{policy}.{event}").unwrap();
        assert_eq!(address(&template, |_| {}), "kaudit.prod.shop.pod_security_baseline.appeared");
        let hostile = address(&template, |notification| notification.policy = "a.>\n*\tb c".into());
        assert_eq!(hostile, "kaudit.prod.shop.a_____b_c.appeared");
        let bare = AuditIdentity { cluster: None, ..AuditIdentity::sample() };
        assert_eq!(template.render(None, &bare), "kaudit._._._.leftout");
    }

    #[test]
    fn values_are_names_that_kafka_allows() {
        let template = BusTemplate::topic("kaudit-{namespace}.{policy}").unwrap();
        assert_eq!(address(&template, |_| {}), "kaudit-shop.pod_security.baseline");
        assert_eq!(address(&template, |notification| notification.policy = "ä/b".into()), "kaudit-shop.__b");
        let long = address(&template, |notification| notification.policy = "p".repeat(400).into());
        assert!(long.len() <= TOPIC_BYTES && long.starts_with("kaudit-shop.ppp"), "{long}");
    }

    #[test]
    fn mistakes_in_templates_are_named() {
        let subject = |text| BusTemplate::subject(text).unwrap_err();
        let topic = |text| BusTemplate::topic(text).unwrap_err();
        let errors = [
            subject(""),
            subject("kaudit..{event}"),
            subject("kaudit.{event}."),
            subject("kaudit.>"),
            subject("kau dit"),
            subject("kaudit.{name}"),
            subject("kaudit.{event"),
            subject("kaudit.event}"),
            topic("kaudit/{cluster}"),
            topic("kaudit.{event}"),
            topic("."),
        ];
        insta::assert_snapshot!(errors.join("\n"));
    }
}
