//! `regex.*`: Go's syntax and matching rules, on the `regex` crate.
//!
//! Both are of the RE2 family, so translating the syntax is enough. Compiled expressions are cached per thread:
//! evaluation uses the same few repeatedly, and this way it needs neither locks nor copies.

mod syntax;

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use regex::{Captures, Regex, RegexBuilder};
use regorus::Value;

use super::{
    budget::{self, MOST_ELEMENTS},
    call::{Builtin, BuiltinFault, BuiltinResult, failed, integer, refused, string},
};

pub(super) const TABLE: &[Builtin] = &[
    ("re_match", 2, matches),
    ("regex.find_all_string_submatch_n", 3, find_submatches),
    ("regex.find_n", 3, find),
    ("regex.is_valid", 1, is_valid),
    ("regex.match", 2, matches),
    ("regex.replace", 3, replace),
    ("regex.split", 2, split),
    ("regex.template_match", 4, template_match),
];

/// The number of compiled expressions that a thread caches.
const KEPT: usize = 100;

/// The largest size of a compiled expression, in bytes.
const LARGEST: usize = 4 << 20;

thread_local! {
    static COMPILED: RefCell<HashMap<Box<str>, Rc<Regex>>> = RefCell::default();
}

/// Returns the cached expression for a key, or compiles it; `pattern` returns it in Rust's syntax.
pub(super) fn compiled(
    key: &str,
    pattern: impl FnOnce() -> Result<String, BuiltinFault>,
) -> Result<Rc<Regex>, BuiltinFault> {
    if let Some(known) = COMPILED.with_borrow(|compiled| compiled.get(key).cloned()) {
        return Ok(known);
    }
    let pattern = pattern()?;
    let regex = match RegexBuilder::new(&pattern).size_limit(LARGEST).dfa_size_limit(LARGEST).build() {
        Ok(regex) => Rc::new(regex),
        Err(regex::Error::CompiledTooBig(_)) => {
            return refused("the regular expression is too large to be compiled");
        }
        Err(error) => return failed(format!("error parsing regexp: {error}")),
    };
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.insert(key.into(), Rc::clone(&regex));
    });
    Ok(regex)
}

/// Compiles a pattern in Go's syntax.
///
/// # Errors
/// Returns why the pattern is invalid.
pub fn in_go_syntax(pattern: &str) -> Result<Regex, String> {
    let translated = syntax::translate(pattern).map_err(|fault| fault.to_string())?;
    Regex::new(&translated).map_err(|error| error.to_string())
}

fn compiled_pattern(pattern: &str, text: &str) -> Result<Rc<Regex>, BuiltinFault> {
    if !text.is_ascii() && pattern.contains(r"\B") {
        return refused(r"\B in a regular expression is only supported for ASCII text");
    }
    compiled(pattern, || syntax::translate(pattern))
}

fn matches(arguments: &[Value]) -> BuiltinResult {
    let (pattern, text) = (string(arguments, 0)?, string(arguments, 1)?);
    Ok(Value::from(compiled_pattern(pattern, text)?.is_match(text)))
}

fn is_valid(arguments: &[Value]) -> BuiltinResult {
    match &arguments[0] {
        Value::String(pattern) => match compiled_pattern(pattern, "") {
            Err(BuiltinFault::Failed(_)) => Ok(Value::from(false)),
            answer => answer.map(|_| Value::from(true)),
        },
        _ => Ok(Value::from(false)),
    }
}

/// Returns the number of matches to find; a negative number means all.
fn most(arguments: &[Value], index: usize) -> Result<usize, BuiltinFault> {
    Ok(usize::try_from(integer(arguments, index)?).unwrap_or(usize::MAX).min(MOST_ELEMENTS))
}

fn find(arguments: &[Value]) -> BuiltinResult {
    let (pattern, text) = (string(arguments, 0)?, string(arguments, 1)?);
    let (most, regex) = (most(arguments, 2)?, compiled_pattern(pattern, text)?);
    Ok(Value::from(regex.find_iter(text).take(most).map(|found| Value::from(found.as_str())).collect::<Vec<_>>()))
}

fn find_submatches(arguments: &[Value]) -> BuiltinResult {
    let (pattern, text) = (string(arguments, 0)?, string(arguments, 1)?);
    let (most, regex) = (most(arguments, 2)?, compiled_pattern(pattern, text)?);
    let groups = |found: Captures| {
        let texts = found.iter().map(|group| Value::from(group.map_or("", |group| group.as_str())));
        Value::from(texts.collect::<Vec<_>>())
    };
    let mut all = Vec::new();
    let mut elements = 0;
    for found in regex.captures_iter(text).take(most) {
        elements += found.len();
        budget::check_elements("regex.find_all_string_submatch_n", elements)?;
        all.push(groups(found));
    }
    let all = Value::from(all);
    budget::charge_tree("regex.find_all_string_submatch_n", &all)?;
    Ok(all)
}

fn split(arguments: &[Value]) -> BuiltinResult {
    let (pattern, text) = (string(arguments, 0)?, string(arguments, 1)?);
    let regex = compiled_pattern(pattern, text)?;
    if !pattern.is_empty() && text.is_empty() {
        return Ok(Value::from(vec![Value::from("")]));
    }
    let mut parts = Vec::new();
    let (mut from, mut end) = (0, 0);
    for found in regex.find_iter(text) {
        end = found.start();
        // An empty match at the beginning has nothing before it.
        if found.end() != 0 {
            parts.push(Value::from(&text[from..end]));
            budget::check_elements("regex.split", parts.len())?;
        }
        from = found.end();
    }
    if end != text.len() {
        parts.push(Value::from(&text[from..]));
    }
    Ok(Value::from(parts))
}

fn replace(arguments: &[Value]) -> BuiltinResult {
    let (text, pattern, new) = (string(arguments, 0)?, string(arguments, 1)?, string(arguments, 2)?);
    let regex = compiled_pattern(pattern, text)?;
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for found in regex.captures_iter(text) {
        let whole = found.get_match();
        out.push_str(&text[end..whole.start()]);
        expand(&mut out, new, &found);
        end = whole.end();
        budget::check_text("regex.replace", out.len())?;
    }
    out.push_str(&text[end..]);
    Ok(Value::from(out))
}

/// Appends a replacement: `$1`, `${1}`, `$name`, `${name}`, and `$$` for the sign itself. A name extends as far as
/// possible; one that no group has is replaced by nothing.
fn expand(out: &mut String, template: &str, found: &Captures) {
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let braced = rest.starts_with('{');
        let inner = &rest[usize::from(braced)..];
        let length = inner.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(inner.len());
        let (name, after) = inner.split_at(length);
        let after = if braced { after.strip_prefix('}') } else { Some(after) };
        let (Some(after), false) = (after, name.is_empty()) else {
            out.push('$');
            continue;
        };
        rest = after;
        let number = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        let group = if number { name.parse().ok().and_then(|number| found.get(number)) } else { found.name(name) };
        out.push_str(group.map_or("", |group| group.as_str()));
    }
    out.push_str(rest);
}

/// Matches a template such as `urn:{.*}:x`, with expressions between the delimiters.
fn template_match(arguments: &[Value]) -> BuiltinResult {
    let (template, text) = (string(arguments, 0)?, string(arguments, 1)?);
    let (open, close) = (delimiter(arguments, 2, "start")?, delimiter(arguments, 3, "end")?);
    let key = format!("{open}{close}\u{0}template\u{0}{template}");
    let regex = compiled(&key, || template_pattern(template, open, close))?;
    Ok(Value::from(regex.is_match(text)))
}

fn delimiter(arguments: &[Value], index: usize, which: &str) -> Result<char, BuiltinFault> {
    let text = string(arguments, index)?;
    match (text.chars().next(), text.len()) {
        (Some(c), 1) => Ok(c),
        (_, length) => failed(format!("{which} delimiter has to be exactly one character long but is {length} long")),
    }
}

fn template_pattern(template: &str, open: char, close: char) -> Result<String, BuiltinFault> {
    let unbalanced = || BuiltinFault::Failed(format!("unbalanced braces in {template:?}"));
    let mut pattern = String::from("^");
    let (mut level, mut literal, mut begin) = (0_usize, 0, 0);
    for (at, c) in template.char_indices() {
        // As in OPA, a delimiter that both opens and closes always opens.
        if c == open {
            level += 1;
            if level == 1 {
                begin = at;
            }
        } else if c == close {
            level = level.checked_sub(1).ok_or_else(unbalanced)?;
            if level == 0 {
                pattern.push_str(&regex::escape(&template[literal..begin]));
                let inner = syntax::translate(&template[begin + 1..at])?;
                pattern.push_str(&format!("({inner})"));
                literal = at + 1;
            }
        }
    }
    if level != 0 {
        return Err(unbalanced());
    }
    Ok(pattern + &regex::escape(&template[literal..]) + "$")
}
