//! Texts: within the limits that Kubernetes sets them, which count bytes.

use std::borrow::Cow;

/// Stands for what is left out.
const ELLIPSIS: &str = "…";

/// Returns the beginning of a text, at most `bytes` long and cut at a character.
pub fn truncate(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns a text of at most `bytes`, with an ellipsis at the end if that is not all of it.
pub fn shortened(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{ELLIPSIS}", truncate(text, bytes.saturating_sub(ELLIPSIS.len()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_shows() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("too long", 6), "too…");
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        assert_eq!(truncate(&"ä".repeat(600), 1_023).len(), 1_022);
        assert_eq!(truncate("short", 1_024), "short");
    }
}
