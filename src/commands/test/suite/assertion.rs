//! Assertions of a case: how many violations there are, and with which messages.

use regex::Regex;

use crate::{
    cli::filter::compile,
    rego::analysis::yaml::{YamlContent, YamlNode},
};

/// One entry of `assertions`.
pub(super) struct Assertion {
    count: ViolationCount,
    /// Only violations whose message matches this are counted.
    message: Option<Regex>,
}

enum ViolationCount {
    Some,
    None,
    Exactly(u64),
}

impl Assertion {
    /// Reads `{violations, message}`; without `violations` there must be some.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(super) fn read(node: &YamlNode) -> Result<Self, String> {
        let count = match &node.get("violations").content {
            YamlContent::Null => Some(ViolationCount::Some),
            YamlContent::Text(text) if text == "yes" => Some(ViolationCount::Some),
            YamlContent::Text(text) if text == "no" => Some(ViolationCount::None),
            YamlContent::Number(number) => number.as_u64().map(ViolationCount::Exactly),
            _ => None,
        };
        let count = count.ok_or("violations of an assertion must be yes, no or an integer of at least 0")?;
        let message = node.get("message").text().map(compile).transpose();
        let message =
            message.map_err(|why| format!("the message of an assertion is not a valid regular expression: {why}"))?;
        Ok(Self { count, message })
    }

    /// Returns why it does not hold, in gator's words; `None` if it holds.
    pub(super) fn broken(&self, messages: &[&str]) -> Option<String> {
        let counts = |message: &&&str| self.message.as_ref().is_none_or(|regex| regex.is_match(message));
        let found = messages.iter().filter(counts).count() as u64;
        let want = match self.count {
            ViolationCount::Some if found == 0 => "at least 1".to_owned(),
            ViolationCount::None if found > 0 => "none".to_owned(),
            ViolationCount::Exactly(want) if found != want => format!("exactly {want}"),
            _ => return None,
        };
        let containing =
            self.message.as_ref().map(|regex| format!(" containing {:?}", regex.as_str())).unwrap_or_default();
        let mut text = format!("unexpected number of violations: got {found} violations{containing} but want {want}");
        text.push_str(if messages.is_empty() { "; there are none" } else { "; all messages:" });
        for message in messages {
            text.push_str("\n  ");
            text.push_str(&message.replace('\n', " "));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rego::analysis::yaml::{self, YamlDialect};

    fn read(yaml: &str) -> Result<Assertion, String> {
        Assertion::read(&yaml::single(yaml, YamlDialect::Opa).unwrap())
    }

    #[test]
    fn counts_are_words_or_numbers() {
        for (yaml, holds) in [
            ("{}", [false, true, true]),
            ("violations: yes", [false, true, true]),
            ("violations: \"yes\"", [false, true, true]),
            ("violations: no", [true, false, false]),
            ("violations: 0", [true, false, false]),
            ("violations: 1", [false, true, false]),
            ("message: b", [false, false, true]),
            ("violations: 1\nmessage: ^.$", [false, true, true]),
            ("violations: no\nmessage: z", [true, true, true]),
        ] {
            let assertion = read(yaml).unwrap();
            let found = [&[][..], &["a"], &["a", "ab"]].map(|messages| assertion.broken(messages).is_none());
            assert_eq!(found, holds, "{yaml}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        for yaml in ["violations: true", "violations: -1", "violations: 1.5", "violations: \"1\"", "message: ("] {
            assert!(read(yaml).is_err(), "{yaml}");
        }
    }
}
