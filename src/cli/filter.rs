//! Which tests `kaudit test --run` selects.

use regex::Regex;

use crate::rego::analysis::builtins::regexes;

/// Which tests are run: `--run`, with the meaning that it has for `opa test` and for `gator verify`.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    parts: Vec<Regex>,
}

impl Filter {
    /// Reads `REGEX`, or `REGEX//REGEX` for tests and cases of suites.
    ///
    /// # Errors
    /// When one of them is no regular expression, or there are more than two.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split("//").collect();
        if parts.len() > 2 {
            return Err("at most one // may stand in it, between the test and the case".into());
        }
        Ok(Self { parts: parts.into_iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Whether a test of a suite is run with all of its cases.
    pub(crate) fn takes_test(&self, test: &str) -> bool {
        match &self.parts[..] {
            [] => true,
            [regex] => regex.is_match(test),
            [test_regex, case_regex, ..] => case_regex.as_str().is_empty() && test_regex.is_match(test),
        }
    }

    /// Whether a case of a suite is to be run.
    pub(crate) fn takes_case(&self, test: &str, case: &str) -> bool {
        match &self.parts[..] {
            [] => true,
            [regex] => regex.is_match(test) || regex.is_match(case),
            [test_regex, case_regex, ..] => test_regex.is_match(test) && case_regex.is_match(case),
        }
    }

    /// Whether a rule is to be run, by its full name.
    pub(crate) fn takes_rule(&self, name: &str) -> bool {
        match &self.parts[..] {
            [] => true,
            [regex] => regex.is_match(name),
            // Only suites have cases.
            _ => false,
        }
    }
}

/// Reads a regular expression of a user, in the syntax of the tools that have the same options and files.
///
/// # Errors
/// Returns what is wrong with it, without the pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let reason = |text: &str| text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    regexes::in_go_syntax(pattern).map_err(|why| reason(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_mean_what_they_mean_elsewhere() {
        let takes = |filter: &str, name: &str| Filter::parse(filter).unwrap().takes_rule(name);
        assert!(Filter::default().takes_rule("data.a.test_b"));
        assert!(takes("a.*b", "data.a.test_b") && !takes("^a", "data.a.test_b") && !takes("a//b", "data.a.test_b"));
        assert!(Filter::parse("a//b//c").is_err());
        assert_eq!(Filter::parse("(").unwrap_err(), "unclosed group");
    }
}
