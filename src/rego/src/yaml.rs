//! Reading YAML as kubectl or as OPA does, within limits, and its errors in one line.

use serde_saphyr::{DuplicateKeyPolicy, Error, Options, budget::BudgetBreach};

/// As deep as JSON is read.
const DEEPEST: usize = 127;

/// As kubectl reads manifests: by YAML 1.1, where `yes` is true and `010` is eight.
pub fn as_kubectl() -> Options {
    options(false, 200_000)
}

/// As OPA reads data: `yes` is a text, `010` is eight.
pub fn as_opa() -> Options {
    options(true, 200_000)
}

/// As OPA reads what is short: annotations, and texts that rules unmarshal, where nothing can stop the reader once it expands
/// aliases of aliases.
pub fn as_opa_short() -> Options {
    options(true, 20_000)
}

/// As OPA's `yaml.unmarshal` reads a text: of several entries with one key, the last one counts.
pub fn as_opa_text() -> Options {
    let mut options = as_opa_short();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options
}

/// The size of a text is for its reader to bound (a `List` of a whole cluster is one document). Bounded here is what
/// outgrows the text, which is what anchors and aliases stand for (`most` values), or the stack.
fn options(strict_booleans: bool, most: usize) -> Options {
    serde_saphyr::options! {
        strict_booleans: strict_booleans,
        legacy_octal_numbers: true,
        strict_indentation: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: most },
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            // The scanner looks ahead by up to 1,024 brackets.
            flow_nesting_limit: 2_000,
            max_recorded_anchor_events: most,
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_anchors: usize::MAX,
            max_aliases: usize::MAX,
            max_merge_keys: usize::MAX,
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// Returns the error inside those that only add its place.
pub fn cause(mut error: &Error) -> &Error {
    while let Error::WithSnippet { error: inner, .. } | Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// Whether a text was not read because it exceeds a limit of ours; it may well be YAML.
pub(crate) fn is_too_much(error: &Error) -> bool {
    matches!(cause(error), Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. })
}

/// Says in one line what is wrong with a text, without the place.
pub fn reason(error: &Error) -> String {
    match cause(error) {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => format!("nested deeper than {DEEPEST} levels"),
        error if is_too_much(error) => "its anchors and aliases stand for too many values".into(),
        other => {
            let text = other.to_string();
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            // The place is at either end.
            let line = line.split_once(": ").filter(|(at, _)| at.starts_with("line ")).map_or(line, |it| it.1);
            line.rsplit_once(" at line ").map_or(line, |it| it.0).to_owned()
        }
    }
}

/// Reads YAML with what kubectl forgives: further lines of a quoted text that are indented no deeper than their key. Such a
/// line is moved to the right, which changes nothing but its own columns.
pub fn forgiving<T>(
    yaml: &str,
    read: impl Fn(&str) -> Result<T, serde_saphyr::Error>,
) -> Result<T, serde_saphyr::Error> {
    const MOVED: &str = "                                                                ";
    let mut moved: Option<String> = None;
    loop {
        let text = moved.as_deref().unwrap_or(yaml);
        let error = match read(text) {
            Err(error) if error.to_string().contains("invalid indentation in multiline quoted scalar") => error,
            other => return other,
        };
        let line = error.location().and_then(|place| usize::try_from(place.line()).ok()).unwrap_or(0);
        let Some(line) = text.split_inclusive('\n').nth(line.saturating_sub(1)) else { return Err(error) };
        let offset = (line.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        if line.starts_with(MOVED) || !text.is_char_boundary(offset) {
            return Err(error);
        }
        moved = Some(format!("{}{MOVED}{}", &text[..offset], &text[offset..]));
    }
}
