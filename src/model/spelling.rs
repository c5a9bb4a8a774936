//! Suggestions for misspelt words: the names of settings, formats and policies.

/// The longest word that is compared, in bytes: the time grows with the length.
const LONGEST_WORD: usize = 100;

/// Returns the candidate that `word` was probably meant to be; `None` if none is similar.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST_WORD {
        return None;
    }
    // Words that differ only in how their parts are joined (failOn, fail_on) are similar whatever their length.
    let plain =
        |text: &str| -> String { text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase() };
    let word = plain(word);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST_WORD)
        .map(|candidate| (strsim::jaro_winkler(&word, &plain(candidate)), candidate))
        .filter(|(near, _)| *near > 0.75)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_not_compared() {
        assert_eq!(nearest("fail_on", ["failOn", "format"]), Some("failOn"));
        for candidate in ["x".repeat(1_300_000), "policy".to_owned()] {
            assert_eq!(nearest(&"x".repeat(1_300_000), [&*candidate]), None);
            assert_eq!(nearest("policies", [&*candidate]).is_some(), candidate == "policy");
        }
        let (longest, longer) = ("x".repeat(LONGEST_WORD), "x".repeat(LONGEST_WORD + 1));
        assert!(nearest(&longest, [&*longest]).is_some());
        assert!(nearest(&longer, [&*longest]).is_none() && nearest(&longest, [&*longer]).is_none());
    }
}
