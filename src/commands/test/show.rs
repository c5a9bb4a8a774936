//! Values and source as explanations show them: values as Rego, source on one line.

use std::{borrow::Cow, fmt::Write as _, sync::LazyLock};

use regex::{Captures, Regex};
use regorus::{
    Value,
    unstable::{Expr, Span, Token},
};

use super::masking::{SecretMask, is_secret};
use crate::rego::tokens;

/// Characters of a value that are shown.
const VALUE: usize = 160;
/// Characters of a piece of source that are shown.
const CODE: usize = 100;

/// Writes a value as Rego, uncut.
pub(super) fn literal(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text, usize::MAX, None);
    text
}

/// Writes a value as Rego, without secrets if there is a mask, and cut after [`VALUE`] characters.
pub(super) fn value(value: &Value, mask: Option<&SecretMask>) -> String {
    let mut text = String::new();
    write(value, &mut text, VALUE, mask);
    cut(text, VALUE)
}

/// Writes source on one line, cut after [`CODE`] characters.
pub(super) fn code(text: &str) -> String {
    cut(text.split_whitespace().collect::<Vec<_>>().join(" "), CODE)
}

fn cut(mut text: String, longest: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(longest) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Writes a value; stops somewhere behind `enough` bytes.
fn write(value: &Value, text: &mut String, enough: usize, mask: Option<&SecretMask>) {
    match value {
        Value::Array(items) => list(items.iter(), ('[', ']'), text, enough, mask),
        Value::Set(items) if items.is_empty() => text.push_str("set()"),
        Value::Set(items) => list(items.iter(), ('{', '}'), text, enough, mask),
        Value::Object(fields) => {
            text.push('{');
            for (index, (key, value)) in fields.iter_sorted().enumerate() {
                if text.len() > enough {
                    return;
                }
                text.push_str(if index == 0 { "" } else { ", " });
                write(key, text, enough, mask);
                text.push_str(": ");
                match value {
                    Value::String(_) if mask.is_some() && is_secret(fields, key) => text.push_str("\"***\""),
                    value => write(value, text, enough, mask),
                }
            }
            text.push('}');
        }
        Value::Undefined => text.push_str("undefined"),
        Value::String(shown) if mask.is_some() => {
            let shown = mask.map_or(Cow::from(&**shown), |mask| mask.text(shown));
            let _ = write!(text, "{}", Value::from(&*shown));
        }
        scalar => {
            // Scalars are written alike in JSON and in Rego.
            let _ = write!(text, "{scalar}");
        }
    }
}

fn list<'v>(
    items: impl Iterator<Item = &'v Value>,
    (open, close): (char, char),
    text: &mut String,
    enough: usize,
    mask: Option<&SecretMask>,
) {
    text.push(open);
    for (index, item) in items.enumerate() {
        if text.len() > enough {
            return;
        }
        text.push_str(if index == 0 { "" } else { ", " });
        write(item, text, enough, mask);
    }
    text.push(close);
}

/// Returns a piece of source as the user wrote it: the evaluator gets full names for imports, and new names for variables
/// that shadow others or hold what was taken out of a statement; `statements` assign these. `None` if that fails.
pub(super) fn as_written(piece: &str, written: &str, statements: &[String]) -> Option<String> {
    static NAMES: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b(?:data(?:\.\w+)+|([A-Za-z_]\w*?)__\d+\b)").ok());
    let mut made_up = false;
    let shorter = |captures: &Captures<'_>| {
        let whole = &captures[0];
        if written.contains(whole) {
            return whole.to_owned();
        }
        let Some(base) = captures.get(1).map(|base| base.as_str()) else {
            let short = whole.match_indices('.').map(|(at, _)| &whole[at + 1..]).find(|short| written.contains(short));
            return short.unwrap_or(whole).to_owned();
        };
        let value = statements.iter().find_map(|statement| statement.strip_prefix(whole)?.strip_prefix(" := "));
        match value.and_then(|value| as_written(value, written, &[])) {
            _ if mentions(written, base) => base.to_owned(),
            Some(value) => value,
            None => {
                made_up = true;
                String::new()
            }
        }
    };
    let text = NAMES.as_ref().map_or_else(|| piece.to_owned(), |names| names.replace_all(piece, shorter).into_owned());
    // The evaluator gets a statement behind a loop that ends a body.
    let text = if written.contains("true") { text } else { text.replace("; true]", "]").replace("; true}", "}") };
    (!made_up).then(|| infix(&code(&text)))
}

/// Returns a term with operators in place of the functions of OPA that the rewritten modules call for them.
fn infix(text: &str) -> String {
    const OPERATORS: [(&str, &str); 4] =
        [("internal.plus(", "+"), ("internal.minus(", "-"), ("internal.mul(", "*"), ("internal.div(", "/")];
    let found = OPERATORS.iter().filter_map(|(call, operator)| Some((text.find(call)?, call, operator))).min();
    let Some((start, call, operator)) = found else { return text.to_owned() };
    let (before, rest) = (&text[..start], &text[start + call.len()..]);
    let Some((left, right, after)) = two_arguments(rest) else { return text.to_owned() };
    // Only a comparison or the end of the term may stand beside it without brackets.
    let operand = |term: &str| {
        let shown = infix(term.trim());
        let is_operation = OPERATORS.iter().any(|(call, _)| term.trim_start().starts_with(call));
        if is_operation { format!("({shown})") } else { shown }
    };
    let shown = match (*operator, left.trim()) {
        ("-", "0") => format!("-{}", operand(right)),
        _ => format!("{} {operator} {}", operand(left), operand(right)),
    };
    format!("{before}{shown}{}", infix(after))
}

/// Splits a text at the comma between the first argument of a call and the second, and behind the bracket that ends it.
fn two_arguments(text: &str) -> Option<(&str, &str, &str)> {
    let (mut depth, mut comma, mut quote) = (0_u32, None, None);
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some('"'), '\\') => drop(characters.next()),
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '`') => quote = Some(character),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')') if depth == 0 => {
                let comma: usize = comma?;
                return Some((&text[..comma], &text[comma + 1..at], &text[at + 1..]));
            }
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => comma = comma.or(Some(at)),
            _ => {}
        }
    }
    None
}

/// Whether a name stands in a text as a word.
fn mentions(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

/// The text of one module, piece by piece.
///
/// The spans of the syntax tree leave out quotes and some brackets, so pieces are cut at the bounds of tokens.
pub(in crate::commands) struct ModuleText<'a> {
    text: &'a str,
    tokens: &'a [Token],
}

impl<'a> ModuleText<'a> {
    pub(super) fn new(text: &'a str, tokens: &'a [Token]) -> Self {
        Self { text, tokens }
    }

    /// Returns everything before a place.
    pub(super) fn before(&self, span: &Span) -> &'a str {
        self.text.get(..span.start as usize).unwrap_or_default()
    }

    /// Returns the source of a span.
    pub(in crate::commands) fn span(&self, span: &Span) -> &'a str {
        self.between(span.start, span.end)
    }

    /// Returns the source of an expression with all its parts.
    pub(in crate::commands) fn expr(&self, expr: &Expr) -> &'a str {
        let (mut start, mut end) = (expr.span().start, expr.span().end);
        bounds(expr, &mut start, &mut end);
        self.between(start, end)
    }

    /// Whether a name stands somewhere in a span.
    pub(super) fn mentions(&self, span: &Span, name: &str) -> bool {
        let inside = |token: &&Token| token.1.start >= span.start && token.1.end <= span.end;
        self.tokens.iter().filter(inside).any(|token| token.1.text() == name)
    }

    /// Returns what stands between two places, with the brackets that belong to it.
    pub(super) fn between(&self, start: u32, end: u32) -> &'a str {
        let mut first = self.tokens.partition_point(|token| token.1.start < start);
        let mut behind = self.tokens.partition_point(|token| tokens::begin(token) < end.max(start + 1));
        let (mut open, mut missing) = (0_usize, 0_usize);
        for token in self.tokens.get(first..behind).unwrap_or_default() {
            match tokens::text(token) {
                "(" | "[" | "{" | "set(" => open += 1,
                ")" | "]" | "}" if open > 0 => open -= 1,
                ")" | "]" | "}" => missing += 1,
                _ => {}
            }
        }
        while missing > 0 && first > 0 {
            first -= 1;
            match tokens::text(&self.tokens[first]) {
                "(" | "[" | "{" | "set(" => missing -= 1,
                ")" | "]" | "}" => missing += 1,
                _ => {}
            }
        }
        while open > 0 && behind < self.tokens.len() {
            match tokens::text(&self.tokens[behind]) {
                "(" | "[" | "{" | "set(" => open += 1,
                ")" | "]" | "}" => open -= 1,
                _ => {}
            }
            behind += 1;
        }
        let (Some(first), Some(last)) =
            (self.tokens.get(first), behind.checked_sub(1).and_then(|at| self.tokens.get(at)))
        else {
            return "";
        };
        self.text.get(tokens::begin(first) as usize..tokens::end(last) as usize).unwrap_or_default()
    }
}

/// Widens bounds to all parts of an expression.
fn bounds(expr: &Expr, start: &mut u32, end: &mut u32) {
    let span = expr.span();
    (*start, *end) = ((*start).min(span.start), (*end).max(span.end));
    match expr {
        Expr::RefDot { refr, field, .. } => {
            *end = (*end).max(field.0.end);
            bounds(refr, start, end);
        }
        Expr::RefBrack { refr, index, .. } => {
            bounds(refr, start, end);
            bounds(index, start, end);
        }
        Expr::Call { fcn, params, .. } => {
            bounds(fcn, start, end);
            for param in params {
                bounds(param, start, end);
            }
        }
        Expr::UnaryExpr { expr, .. } => bounds(expr, start, end),
        Expr::BinExpr { lhs, rhs, .. }
        | Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::AssignExpr { lhs, rhs, .. } => {
            bounds(lhs, start, end);
            bounds(rhs, start, end);
        }
        Expr::Membership { key, value, collection, .. } => {
            key.iter().chain([value, collection]).for_each(|part| bounds(part, start, end));
        }
        // Literals and comprehensions are spanned by their brackets.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_user() {
        let written = "not a.ok(x) with input as y";
        for (piece, want) in [
            ("data.lib.a.ok(x__2)", Some("a.ok(x)")),
            ("x", Some("x")),
            ("data.lib.b", Some("data.lib.b")),
            ("value__1", None),
            ("internal.mul(internal.minus(big.replicas, 1), 2)", Some("(big.replicas - 1) * 2")),
            ("internal.plus(count([1, \"a,)\"]), i) > internal.minus(0, x)", Some("count([1, \"a,)\"]) + i > -x")),
            (
                "count([x | some x in y; true]) == {a | some a in b; true}",
                Some("count([x | some x in y]) == {a | some a in b}"),
            ),
            ("f(taken__1)", Some("f(data.lib.a.list)")),
        ] {
            let hoisted = ["taken__1 := data.lib.a.list".to_owned()];
            assert_eq!(as_written(piece, written, &hoisted).as_deref(), want, "{piece}");
        }
    }

    #[test]
    fn values_are_written_as_rego() {
        let value = Value::from_json_str(r#"{"b": [1, "x\"y"], "a": null}"#).unwrap();
        assert_eq!(literal(&value), r#"{"a": null, "b": [1, "x\"y"]}"#);
        assert_eq!(literal(&Value::new_set()), "set()");
        let long = Value::from((0..100).map(Value::from).collect::<Vec<_>>());
        let shown = super::value(&long, None);
        assert!(shown.starts_with("[0, 1, 2") && shown.ends_with('…') && shown.chars().count() == VALUE + 1, "{shown}");
    }
}
