//! Values in the receiver file: plain texts, and secrets. Secrets are kept in files or environment variables and read
//! whenever they are needed, so that a rotated one is used at once. They are never shown.

use std::{cmp::Reverse, collections::BTreeSet, env, fmt, fs, path::PathBuf};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};

/// Replaces a secret.
const HIDDEN: &str = "[***]";

/// A text, or where it is read from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Text {
    /// Given in the receiver file itself.
    Plain(String),
    /// A secret, which is read from elsewhere.
    Secret(ReceiverCredential),
}

/// Where a secret is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReceiverCredential {
    /// A file, such as that of a mounted Secret; trailing whitespace is removed.
    File(PathBuf),
    /// An environment variable.
    Env(String),
}

impl Text {
    /// Returns the text.
    ///
    /// # Errors
    /// When it cannot be read, and what to do.
    pub(crate) fn read(&self) -> Result<String, String> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Secret(credential) => credential.read(),
        }
    }

    /// Whether it is a secret, which may not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self, Self::Secret(_))
    }
}

impl ReceiverCredential {
    /// Returns the secret.
    ///
    /// # Errors
    /// When it cannot be read, and what to do.
    pub(crate) fn read(&self) -> Result<String, String> {
        let text = match self {
            Self::File(path) => {
                fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
            }
            Self::Env(name) => {
                env::var(name).map_err(|_| format!("the environment variable {name} is not set, or is not valid UTF-8"))
            }
        }?;
        match text.trim_end() {
            "" => Err(format!("{self} is empty")),
            text => Ok(text.to_owned()),
        }
    }
}

/// Shows where the secret is kept, never its value.
impl fmt::Display for ReceiverCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "the environment variable {name}"),
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => write!(f, "{text:?}"),
            Self::Secret(credential) => write!(f, "{credential:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { may_be_plain: true })
    }
}

impl<'de> Deserialize<'de> for ReceiverCredential {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(TextVisitor { may_be_plain: false })? {
            Text::Secret(credential) => Ok(credential),
            Text::Plain(_) => Err(de::Error::custom(INLINE)),
        }
    }
}

/// The error about a secret in the receiver file itself.
const INLINE: &str = "do not put secrets in this file: use {file: PATH} or {env: NAME}";

/// Texts that may not be shown.
#[derive(Default)]
pub(crate) struct Redaction {
    /// The longest first, so that replacing a part of a secret does not keep the rest of it visible.
    texts: BTreeSet<(Reverse<usize>, String)>,
}

impl Redaction {
    /// Adds a secret, and each run of letters and digits in it: those look the same where the rest is escaped for a URL
    /// or JSON.
    pub(crate) fn add(&mut self, secret: &str) {
        self.add_whole(secret);
        secret.split(|c: char| !c.is_ascii_alphanumeric()).for_each(|part| self.add_whole(part));
    }

    pub(crate) fn add_whole(&mut self, text: &str) {
        // Shorter texts are not secrets, and would be found anywhere.
        if text.len() > 3 {
            self.texts.insert((Reverse(text.len()), text.to_owned()));
        }
    }

    /// Removes the secrets from a text.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, (_, secret)| text.replace(secret.as_str(), HIDDEN))
    }
}

struct TextVisitor {
    may_be_plain: bool,
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.may_be_plain {
            "a text, {file: PATH} or {env: NAME}"
        } else {
            "{file: PATH} or {env: NAME}"
        })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
        if self.may_be_plain { Ok(Text::Plain(text.to_owned())) } else { Err(E::custom(INLINE)) }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
        let Some((key, value)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::custom("expected {file: PATH} or {env: NAME}"));
        };
        let credential = match key.as_str() {
            "file" => ReceiverCredential::File(value.into()),
            "env" => ReceiverCredential::Env(value),
            _ => return Err(de::Error::unknown_field(&key, &["file", "env"])),
        };
        if map.next_key::<String>()?.is_some() {
            return Err(de::Error::custom("expected only one of file and env"));
        }
        Ok(Text::Secret(credential))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_kept_elsewhere_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "hidden\n").unwrap();
        let text: Text = serde_json::from_value(serde_json::json!({"file": path})).unwrap();
        assert_eq!(text.read().unwrap(), "hidden");
        assert!(text.is_secret() && !format!("{text:?}").contains("hidden"));
        // A mounted Secret is updated while the Pod runs.
        fs::write(&path, "other").unwrap();
        assert_eq!(text.read().unwrap(), "other");
        fs::write(&path, " \n").unwrap();
        assert!(text.read().unwrap_err().ends_with("token is empty"));
        fs::remove_file(&path).unwrap();
        assert!(text.read().unwrap_err().starts_with("cannot read "));
        assert_eq!(serde_json::from_str::<Text>(r#""plain""#).unwrap().read().unwrap(), "plain");
        let why = serde_json::from_str::<ReceiverCredential>(r#""hidden""#).unwrap_err().to_string();
        assert!(why.contains("do not put secrets in this file") && !why.contains("hidden"), "{why}");
        for wrong in ["{}", r#"{"path": "a"}"#, r#"{"file": "a", "env": "b"}"#] {
            assert!(serde_json::from_str::<Text>(wrong).is_err(), "{wrong}");
        }
    }
}
