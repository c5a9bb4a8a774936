//! Shortening of texts to the limits of Kubernetes, which count bytes, and texts and formats that several modules use.

use std::{borrow::Cow, time::Duration};

/// Marks omitted text.
const ELLIPSIS: &str = "…";

/// Returns the beginning of a text, at most `bytes` long and cut at a character boundary.
pub fn truncate(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns a text of at most `bytes`, with an ellipsis at the end if it was cut.
pub fn shortened(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{ELLIPSIS}", truncate(text, bytes.saturating_sub(ELLIPSIS.len()))))
}

/// Returns the displayed number of dependents that a result of an owner covers.
pub fn dependents(count: usize) -> String {
    format!("{count} dependent{}", if count == 1 { "" } else { "s" })
}

/// Parses a duration that has a unit and is not zero.
///
/// # Errors
/// Describes the expected form.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let form = "expected a duration such as 500ms, 60s, 2m or 1h";
    if text.trim().chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(format!("a unit is missing: {form}"));
    }
    let signed: jiff::SignedDuration = text.trim().parse().map_err(|_| form.to_owned())?;
    match Duration::try_from(signed) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("must be greater than zero".into()),
    }
}

/// Whether a number is zero; serde skips such fields.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_text_is_marked() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("too long", 6), "too…");
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        assert_eq!(truncate(&"ä".repeat(600), 1_023).len(), 1_022);
        assert_eq!(truncate("short", 1_024), "short");
    }
}
