//! What a result is recognised by from one audit to another: in baselines, in the formats of CI systems, on the command line.
//!
//! The same policy and rule, the same object by name, and the same evidence. What differs from run to run is no part of it:
//! uid, API version, line, and the numbers in a message.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use crate::model::{digest::Digest, object::ObjectRef, verdict::Finding};

/// Identifies a result from one audit to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Returns that of a finding about an object. With an `owner`, which is the topmost, names below it are generated: that
    /// of the owner takes their place.
    pub fn of(finding: &Finding, object: &ObjectRef, owner: Option<&ObjectRef>) -> Self {
        let ObjectRef { kind, namespace, name, .. } = object;
        let namespace = namespace.as_deref().unwrap_or_default();
        let name = match owner {
            Some(owner) => format!("{}.{}/{}", owner.kind, owner.group(), owner.name),
            None => name.to_string(),
        };
        let texts = evidence(&finding.message, finding.details.as_deref(), object, owner);
        let [message, details] = texts.map(|text| without_numbers(&text, |_, _| true));
        Self::of_parts([
            &*finding.rule.policy,
            &finding.rule.name,
            object.group(),
            kind,
            namespace,
            &name,
            &message,
            &details,
        ])
    }

    /// Returns that of the evidence alone, numbers included. Only the indexes of lists, as in `rules[0]`, are left out: they
    /// change when something else is added.
    pub fn of_evidence(message: &str, details: &Details, object: &ObjectRef, owner: Option<&ObjectRef>) -> Self {
        let details = (!details.is_empty()).then_some(details);
        let texts = evidence(message, details, object, owner);
        Self::of_parts(texts.each_ref().map(|text| without_numbers(text, is_index)).each_ref().map(|text| &**text))
    }

    fn of_parts<const N: usize>(parts: [&str; N]) -> Self {
        Self((Digest::of_parts(u64::to_be_bytes, parts).half() >> 64) as u64)
    }

    /// Returns one for the same result in one of several files.
    #[must_use]
    pub fn in_file(self, file: &str) -> Self {
        Self::of_parts([&*self.to_string(), file])
    }

    /// Reads 16 hex digits, as [`Display`](fmt::Display) writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = (text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)?;
        u64::from_str_radix(digits, 16).ok().map(Self)
    }
}

/// Shows 16 hex digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

type Details = Map<String, Value>;

/// Returns message and details, with the name of the owner in place of the generated one.
fn evidence(message: &str, details: Option<&Details>, object: &ObjectRef, owner: Option<&ObjectRef>) -> [String; 2] {
    // A fix is not part of the evidence.
    let without_fix = |details: &Details| -> Details {
        let is_evidence = |key: &str| !["fix", "patch"].contains(&key);
        details.iter().filter(|(key, _)| is_evidence(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let details = details.map(|details| Value::from(without_fix(details)).to_string()).unwrap_or_default();
    match owner {
        Some(owner) => [message, &details].map(|text| text.replace(&*object.name, &owner.name)),
        None => [message.to_owned(), details],
    }
}

/// Whether a number between two texts is the index of a list. In JSON, a bracket after a name is part of a path.
fn is_index(before: &str, after: &str) -> bool {
    let path = before.strip_suffix('[').and_then(|path| path.chars().next_back());
    path.is_some_and(|last| last.is_alphanumeric() || matches!(last, '_' | ']')) && after.starts_with(']')
}

/// Returns a text in which each separate number is replaced by `#` if `may` holds for the text before and after it. Digits in
/// a name (`web-1a`, `c2`, `500m`) are not a number.
fn without_numbers(text: &str, may: impl Fn(&str, &str) -> bool) -> String {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(word) {
        let (before, from) = rest.split_at(start);
        let (token, after) = from.split_at(from.find(|c| !word(c)).unwrap_or(from.len()));
        out.push_str(before);
        let is_number = token.bytes().all(|byte| byte.is_ascii_digit());
        let is_left_out = is_number && may(&text[..text.len() - from.len()], after);
        out.push_str(if is_left_out { "#" } else { token });
        rest = after;
    }
    out + rest
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is no id of 16 hex digits")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(message: &str, change: impl FnOnce(&mut ObjectRef)) -> Fingerprint {
        let mut object = ObjectRef {
            cluster: None,
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: Some("n".into()),
            name: "a".into(),
            uid: "u".into(),
        };
        change(&mut object);
        Fingerprint::of(&Finding::sample(message), &object, None)
    }

    #[test]
    fn generated_names_are_those_of_the_owner() {
        let object = |kind: &str, name: &str| ObjectRef {
            cluster: None,
            api_version: "v1".into(),
            kind: kind.into(),
            namespace: Some("n".into()),
            name: name.into(),
            uid: "u".into(),
        };
        let of = |pod: &str, owner: &str| {
            let finding = Finding::sample(&format!("Pod {pod} runs as root"));
            Fingerprint::of(&finding, &object("Pod", pod), Some(&object("Deployment", owner)))
        };
        assert_eq!(of("web-5d8f-x2k4p", "web"), of("web-77c9-q8w1z", "web"));
        assert_ne!(of("web-5d8f-x2k4p", "web"), of("web-5d8f-x2k4p", "api"));
        let finding = Finding::sample("Pod web-5d8f-x2k4p runs as root");
        assert_ne!(of("web-5d8f-x2k4p", "web"), Fingerprint::of(&finding, &object("Pod", "web-5d8f-x2k4p"), None));
    }

    #[test]
    fn numbers_that_stand_alone_are_no_evidence() {
        for (text, want) in [
            ("has 3 replicas, not 2", "has # replicas, not #"),
            ("container c2 of web-1-2 uses app:1.20", "container c2 of web-1-2 uses app:#.#"),
            ("500m", "500m"),
            ("ä1 1", "ä1 #"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(text, |_, _| true), want);
        }
    }

    #[test]
    fn indexes_are_no_values() {
        for (text, want) in [
            ("rules[0] opens port 80", "rules[#] opens port 80"),
            ("a[0][1].b_[2]", "a[#][#].b_[#]"),
            (r#"{"ports":[80],"all":[[1],[2]]}"#, r#"{"ports":[80],"all":[[1],[2]]}"#),
            ("opens [80] a[b] a[0", "opens [80] a[b] a[0"),
        ] {
            assert_eq!(without_numbers(text, is_index), want);
        }
    }

    #[test]
    fn details_that_differ_between_runs_are_left_out() {
        let first = fingerprint("has 3 of 4", |_| {});
        assert_eq!(first, fingerprint("has 5 of 6", |object| object.uid = "other".into()));
        assert_eq!(first, fingerprint("has 5 of 6", |object| object.api_version = "apps/v1beta1".into()));
        for other in [
            fingerprint("has c of 4", |_| {}),
            fingerprint("has 3 of 4", |object| object.api_version = "v1".into()),
            fingerprint("has 3 of 4", |object| object.namespace = None),
            fingerprint("has 3 of 4", |object| object.name = "b".into()),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!(Fingerprint::parse(&first.to_string()), Some(first));
        assert_eq!((Fingerprint::parse("+000000000000001"), Fingerprint::parse("1")), (None, None));
    }
}
