//! Names of properties as identifiers: `a-b` is `a__dash__b` in expressions.

use std::borrow::Cow;

/// Words of the language, which cannot be names.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name is a word of the language.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Returns the identifier for the name of a property; `None` if there is none.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let (mut escaped, mut rest) = (String::with_capacity(name.len()), name);
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match first {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            _ if first.is_ascii_alphanumeric() || first == '_' => escaped.push(first),
            _ => return None,
        }
        rest = &rest[first.len_utf8()..];
    }
    Some(escaped)
}

/// Returns the name of a property for an identifier; `None` if it has an unknown escape sequence.
pub fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let (mut name, mut rest) = (String::with_capacity(identifier.len()), identifier);
    while let Some(first) = rest.chars().next() {
        let Some((word, after)) = sequence(rest) else {
            name.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        match word {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            _ if is_reserved(word) && word.len() + 4 == identifier.len() => name.push_str(word),
            _ => return None,
        }
        rest = after;
    }
    Some(Cow::Owned(name))
}

/// Returns the word of the escape sequence that a text begins with, and the rest.
fn sequence(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix("__")?;
    let end = inside.find('_').filter(|end| *end > 0)?;
    let (word, rest) = inside.split_at(end);
    Some((word, rest.strip_prefix("__")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_unescaped() {
        for (name, escaped) in [
            ("plain", "plain"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("a__b", "a__underscores__b"),
            ("_a_", "_a_"),
            ("namespace", "__namespace__"),
            ("a___b", "a__underscores___b"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(escaped));
            assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
        }
        for name in ["", "1a", "a b", "é", "$ref"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__other__b"), None);
        assert_eq!(unescape("a__if__"), None);
        assert_eq!(unescape("if").as_deref(), Some("if"));
    }
}
