//! `glob.*`: the patterns of OPA's glob library, translated into regular expressions.

use std::{iter::Peekable, str::Chars};

use regorus::Value;

use super::{
    call::{Builtin, BuiltinFault, BuiltinResult, array, failed, string, wrong_type},
    regexes,
};

pub(super) const TABLE: &[Builtin] = &[("glob.match", 3, matches), ("glob.quote_meta", 1, quote)];

/// The largest compiled pattern of [`glob`], in bytes.
const GLOB_BYTES: usize = 128 << 10;

/// Compiles a pattern without separators.
///
/// # Errors
/// When the pattern is invalid or too large.
pub fn glob(pattern: &str) -> Result<regex::Regex, String> {
    let translated = translate(pattern, "").map_err(|fault| fault.to_string())?;
    let regex = regex::RegexBuilder::new(&translated).size_limit(GLOB_BYTES).build();
    regex.map_err(|error| error.to_string())
}

fn matches(arguments: &[Value]) -> BuiltinResult {
    let pattern = string(arguments, 0)?;
    let separators: String = match &arguments[1] {
        Value::Null => String::new(),
        Value::Array(_) => separators(arguments)?,
        other => return wrong_type(2, "one of {array, null}", other),
    };
    let text = string(arguments, 2)?;
    let key = format!("\u{0}glob\u{0}{separators}\u{0}{pattern}");
    let regex = regexes::compiled(&key, || translate(pattern, &separators))?;
    Ok(Value::from(regex.is_match(text)))
}

fn separators(arguments: &[Value]) -> Result<String, BuiltinFault> {
    let mut separators = String::new();
    for item in array(arguments, 1)? {
        match item {
            Value::String(text) if text.chars().count() == 1 => separators.push_str(text),
            _ => return failed("operand 2 must be array of one-character strings"),
        }
    }
    Ok(if separators.is_empty() { ".".to_owned() } else { separators })
}

fn quote(arguments: &[Value]) -> BuiltinResult {
    let mut quoted = String::new();
    for c in string(arguments, 0)?.chars() {
        if matches!(c, '*' | '?' | '\\' | '[' | ']' | '{' | '}') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    Ok(Value::from(quoted))
}

/// Translates a pattern into a regular expression: `*` and `?` do not match separators, `**` matches everything;
/// `[abc]`, `[!a-c]`, nested `{a,b}`, and a backslash that escapes the next character.
fn translate(pattern: &str, separators: &str) -> Result<String, BuiltinFault> {
    let one = if separators.is_empty() {
        r"(?s:.)".to_owned()
    } else {
        format!("[^{}]", separators.chars().map(|c| regex::escape(&c.to_string())).collect::<String>())
    };
    let mut out = String::from("^(?:");
    let mut open = 0_usize;
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '*' if rest.next_if_eq(&'*').is_some() => out.push_str("(?s:.)*"),
            '*' => out.push_str(&format!("{one}*")),
            '?' => out.push_str(&one),
            '[' => out.push_str(&class(&mut rest)?),
            '{' => {
                open += 1;
                out.push_str("(?:");
            }
            ',' if open > 0 => out.push('|'),
            '}' if open > 0 => {
                open -= 1;
                out.push(')');
            }
            '\\' => match rest.next() {
                Some(c) => out.push_str(&regex::escape(&c.to_string())),
                None => return failed("glob: trailing backslash"),
            },
            _ => out.push_str(&regex::escape(&c.to_string())),
        }
    }
    if open > 0 { failed("glob: unclosed `{`") } else { Ok(out + ")$") }
}

/// Translates a range `a-c`, or characters up to the closing bracket.
fn class(rest: &mut Peekable<Chars>) -> Result<String, BuiltinFault> {
    let unclosed = || BuiltinFault::Failed("glob: unclosed `[`".to_owned());
    let not = if rest.next_if_eq(&'!').is_some() { "^" } else { "" };
    let mut ahead = rest.clone();
    if let (Some(low), Some('-')) = (ahead.next(), ahead.next()) {
        let (high, close) = (ahead.next().ok_or_else(unclosed)?, ahead.next().ok_or_else(unclosed)?);
        if close != ']' || high < low {
            return failed("glob: could not parse range");
        }
        *rest = ahead;
        return Ok(format!("[{not}{}-{}]", regex::escape(&low.to_string()), regex::escape(&high.to_string())));
    }
    let mut characters = String::new();
    loop {
        match rest.next().ok_or_else(unclosed)? {
            ']' if characters.is_empty() => return failed("glob: could not parse range"),
            ']' => return Ok(format!("[{not}{characters}]")),
            '\\' => characters.push_str(&regex::escape(&rest.next().ok_or_else(unclosed)?.to_string())),
            c => characters.push_str(&regex::escape(&c.to_string())),
        }
    }
}
