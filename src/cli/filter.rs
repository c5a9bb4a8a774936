//! Selection of tests by `kaudit test --run`.

use regex::Regex;

use crate::rego::analysis::builtins::regexes;

/// The value of `--run`, which selects tests as in `opa test` and `gator verify`.
#[derive(Debug, Clone, Default)]
pub struct TestFilter {
    parts: Vec<Regex>,
}

impl TestFilter {
    /// Parses `REGEX`, or `REGEX//REGEX` for tests and cases of suites.
    ///
    /// # Errors
    /// If a part is not a regular expression, or there are more than two.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split("//").collect();
        if parts.len() > 2 {
            return Err("expected at most one //, between the test and the case".into());
        }
        Ok(Self { parts: parts.into_iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Whether a test of a suite is selected with all of its cases.
    pub(crate) fn selects_test(&self, test: &str) -> bool {
        match &self.parts[..] {
            [] => true,
            [regex] => regex.is_match(test),
            [test_regex, case_regex, ..] => case_regex.as_str().is_empty() && test_regex.is_match(test),
        }
    }

    /// Whether a case of a suite is selected.
    pub(crate) fn selects_case(&self, test: &str, case: &str) -> bool {
        match &self.parts[..] {
            [] => true,
            [regex] => regex.is_match(test) || regex.is_match(case),
            [test_regex, case_regex, ..] => test_regex.is_match(test) && case_regex.is_match(case),
        }
    }

    /// Whether a rule is selected, by its full name.
    pub(crate) fn selects_rule(&self, name: &str) -> bool {
        match &self.parts[..] {
            [] => true,
            [regex] => regex.is_match(name),
            // Only suites have cases.
            _ => false,
        }
    }
}

/// Compiles a regular expression in Go's syntax, which the other tools use for the same options and files.
///
/// # Errors
/// With the reason why it is invalid, without the pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let reason = |text: &str| text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    regexes::in_go_syntax(pattern).map_err(|why| reason(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_select_as_in_opa_and_gator() {
        let takes = |filter: &str, name: &str| TestFilter::parse(filter).unwrap().selects_rule(name);
        assert!(TestFilter::default().selects_rule("data.a.test_b"));
        assert!(takes("a.*b", "data.a.test_b") && !takes("^a", "data.a.test_b") && !takes("a//b", "data.a.test_b"));
        assert!(TestFilter::parse("a//b//c").is_err());
        assert_eq!(TestFilter::parse("(").unwrap_err(), "unclosed group");
    }
}
