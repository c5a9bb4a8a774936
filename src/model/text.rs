//! Texts within the limits that Kubernetes sets them, which count bytes.

/// Returns the beginning of a text, at most `bytes` long and cut at a character.
pub fn truncate(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_a_character() {
        assert_eq!(truncate(&"ä".repeat(600), 1_023).len(), 1_022);
        assert_eq!(truncate("short", 1_024), "short");
    }
}
