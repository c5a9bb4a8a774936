//! Errors of policies as structured data; regorus reports locations and reasons only as text.

/// The location and reason of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// File, line, column; `None` if there is no location.
    pub place: Option<(String, u32, u32)>,
    /// The reason without the location, on one line.
    pub reason: String,
}

impl PolicyError {
    /// Parses location and reason from the text of a regorus error.
    pub(crate) fn new(error: &anyhow::Error) -> Self {
        Self::parse(&format!("{error:#}"))
    }

    /// Parses a regorus error: `--> file:line:column`, an excerpt, `error: reason`, sometimes followed by further
    /// errors in the same form.
    fn parse(text: &str) -> Self {
        let place = text.lines().find_map(|line| line.strip_prefix("--> ")).and_then(|place| {
            let (rest, column) = place.rsplit_once(':')?;
            let (file, line) = rest.rsplit_once(':')?;
            Some((file.to_owned(), line.parse().ok()?, column.parse().ok()?))
        });
        let reason = text
            .lines()
            .find_map(|line| line.strip_prefix("error: "))
            .or_else(|| text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("-->")))
            .unwrap_or("no reason given");
        // The dumps of internal state that follow some reasons are of no use.
        let reason = reason.split(" (path [").next().unwrap_or(reason).trim().trim_end_matches('.');
        Self { place, reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_and_first_reason_are_parsed() {
        let text = "\n--> dir/a:b.rego:7:3\n  |\n7 | x\n  |   ^\nerror: var x is unsafe (path [\"a\"], scopes [])";
        let place = Some(("dir/a:b.rego".to_owned(), 7, 3));
        let parsed = PolicyError::parse(text);
        assert_eq!(parsed, PolicyError { place: place.clone(), reason: "var x is unsafe".to_owned() });
        let nested = format!("{text}\n--> b.rego:1:1\nerror: of another.");
        assert_eq!(PolicyError::parse(&nested).place, place);
        assert_eq!(PolicyError::parse("plain."), PolicyError { place: None, reason: "plain".to_owned() });
    }
}
