//! Words that people misspell: the names of settings, formats and policies.

/// Returns the candidate that `word` was probably meant to be; `None` if nothing comes near.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Words that differ only in how they are joined (failOn, fail_on) are near whatever their length.
    let plain =
        |text: &str| -> String { text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase() };
    let word = plain(word);
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&word, &plain(candidate)), candidate))
        .filter(|(near, _)| *near > 0.75)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}
