//! Checks of a single module that OPA makes before it compares modules: most of them in its parser, beyond the grammar.
//!
//! A module without a declared version that fails here in version 1 may still be valid in version 0.

use super::{
    lexer::SyntaxError,
    tree::{Expr, ExprKind, Import, Key, Module, Name, Piece, Position, Statement, StatementNode, SyntaxRule},
};
use crate::builtins::declarations;

/// Names of documents, which rules, variables and imports must not use.
const DOCUMENTS: [&str; 2] = ["data", "input"];
const KEYWORDS: &[&str] = &[
    "as", "contains", "default", "else", "every", "false", "if", "import", "in", "not", "null", "package", "some",
    "true", "with",
];

type CheckResult = Result<(), SyntaxError>;

/// Returns the first error. The module is not changed.
pub(super) fn module(module: &mut Module) -> CheckResult {
    keys_are_strings(&module.package, "write the package as names and strings: `package a.b[\"c-d\"]`")?;
    for import in &module.imports {
        self::import(import)?;
    }
    for rule in &mut module.rules {
        head(rule)?;
        let mut wrong = Vec::new();
        rule.each_expr(&mut |expr| wrong.extend(expression(expr).err()));
        rule.each_body(&mut |body| wrong.extend(body.iter().filter_map(|statement| self::statement(statement).err())));
        wrong.into_iter().min_by_key(|wrong| wrong.at).map_or(Ok(()), Err)?;
    }
    if module.is_v1() { version_1(module) } else { Ok(()) }
}

fn refused(at: Position, why: impl Into<String>, help: &'static str) -> CheckResult {
    Err(SyntaxError::refused(at, why, help))
}

fn keys_are_strings(path: &Expr, help: &'static str) -> CheckResult {
    let string = |key: &Key| match key {
        Key::Dot(_) => true,
        Key::Index(index) => matches!(&index.kind, ExprKind::Scalar(text) if text.starts_with(['"', '`'])),
    };
    match &path.kind {
        ExprKind::Name(_) => Ok(()),
        ExprKind::Ref(head, keys) if head.as_name().is_some() && keys.iter().all(string) => Ok(()),
        _ => refused(path.at, "rego_parse_error: expected a path of names and strings", help),
    }
}

fn import(import: &Import) -> CheckResult {
    keys_are_strings(&import.path, "write the path as names and strings: `import data.a[\"b-c\"]`")?;
    let path = import.path.path().unwrap_or_default();
    let (Some(first), Some(last)) = (path.first(), path.last()) else { return Ok(()) };
    if !DOCUMENTS.iter().chain(&["future", "rego"]).any(|root| *root == &**first) {
        let why = format!("rego_parse_error: unexpected import path {first}");
        return refused(import.path.at, why, "an import begins with data or input");
    }
    let document = DOCUMENTS.contains(&&**first);
    match &import.alias {
        Some(alias) if DOCUMENTS.contains(&&**alias) => {
            refused(import.at, format!("rego_parse_error: an import cannot be called {alias}"), "give it another name")
        }
        None if document && KEYWORDS.contains(&&**last) => refused(
            import.at,
            format!("rego_parse_error: an import cannot be called {last}, which is a keyword"),
            "give it another name: `import … as name`",
        ),
        _ => Ok(()),
    }
}

fn head(rule: &SyntaxRule) -> CheckResult {
    if rule.default {
        return default(rule);
    }
    let is_bare = rule.parameters.is_some() && rule.first.value.is_none() && rule.first.body.is_none();
    let name = rule.name.path().unwrap_or_default().join(".");
    if is_bare && declarations::declaration(&name).is_some() {
        let help = "write conditions in the body of a rule";
        return refused(rule.at, "rego_parse_error: rule name conflicts with built-in function", help);
    }
    if is_bare && rule.parameters.as_ref().is_some_and(Vec::is_empty) {
        let help = "give the function a parameter, or the rule a value or a body";
        return refused(rule.at, "rego_parse_error: rule argument list must take at least one argument", help);
    }
    if rule.contains.is_some() && rule.parameters.is_some() {
        let help = "a function has one value: write `:=` and the set";
        return refused(rule.at, "rego_parse_error: a function cannot use contains", help);
    }
    let Some(other) = rule.others.first() else { return Ok(()) };
    let keys = match &rule.name.kind {
        ExprKind::Ref(_, keys) => keys.as_slice(),
        _ => &[],
    };
    if keys.iter().any(Key::is_variable) {
        let help = "write a rule for each case, with the conditions of the others negated";
        return refused(other.at, "rego_parse_error: else cannot follow a rule with variables in its head", help);
    }
    // Without `if`, OPA parses `p[x]` as an element of a set, and `p.x := y` as an entry of an object, but not longer
    // paths.
    if rule.contains.is_some() || rule.parameters.is_none() && keys.len() == 1 && !rule.first.conditional {
        let help = "write a rule for each element";
        return refused(other.at, "rego_parse_error: else cannot follow a rule that defines a set", help);
    }
    Ok(())
}

/// Checks that a default can be determined without evaluation.
fn default(rule: &SyntaxRule) -> CheckResult {
    let help = "a default is a constant; write a rule with a negated condition for anything else";
    let Some((_, value)) = &rule.first.value else {
        // Without a value it is true, unless it is parsed as an element of a set.
        return match &rule.name.kind {
            ExprKind::Ref(_, keys) if keys.len() == 1 => {
                refused(rule.at, "rego_parse_error: illegal default rule (must have a value)", help)
            }
            _ => Ok(()),
        };
    };
    if let Some(part) = evaluated_part(value) {
        return refused(rule.at, format!("rego_parse_error: illegal default rule (value cannot contain {part})"), help);
    }
    let mut seen: Vec<&Name> = Vec::new();
    for parameter in rule.parameters.iter().flatten() {
        let help = "the parameters of a default are different variables: `default f(_) := false`";
        match parameter.as_name() {
            None => {
                return refused(rule.at, "rego_parse_error: illegal default rule (arguments must be variables)", help);
            }
            Some(name) if seen.contains(&name) => {
                let why = format!("rego_parse_error: illegal default rule (arguments cannot be repeated {name})");
                return refused(rule.at, why, help);
            }
            Some(name) if &**name != "_" => seen.push(name),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns the part of a value that needs evaluation; `None` for a constant. Comprehensions are allowed as values.
fn evaluated_part(value: &Expr) -> Option<&'static str> {
    match &value.kind {
        ExprKind::Scalar(_) | ExprKind::Comprehension(_) => None,
        ExprKind::Template(pieces) => {
            let exprs = pieces.iter().filter_map(|piece| match piece {
                Piece::Statement(statement) => Some(&statement.kind),
                Piece::Text(_) => None,
            });
            exprs
                .into_iter()
                .find_map(|node| if let StatementNode::Expr(expr) = node { evaluated_part(expr) } else { None })
        }
        ExprKind::Name(name) if DOCUMENTS.contains(&&**name) => Some("ref"),
        ExprKind::Name(_) => Some("var"),
        ExprKind::Ref(..) => Some("ref"),
        ExprKind::Call(..) | ExprKind::Binary(..) | ExprKind::In { .. } | ExprKind::Minus(_) => Some("call"),
        ExprKind::Array(items) | ExprKind::Set(items) => items.iter().find_map(evaluated_part),
        ExprKind::Object(fields) => {
            fields.iter().find_map(|(key, value)| evaluated_part(key).or_else(|| evaluated_part(value)))
        }
    }
}

fn statement(statement: &Statement) -> CheckResult {
    if matches!(statement.kind, StatementNode::Some(_)) && !statement.with.is_empty() {
        return refused(
            statement.at,
            "rego_parse_error: unexpected with keyword",
            "`some` without `in` only declares variables",
        );
    }
    for with in &statement.with {
        let path = match &with.target.kind {
            ExprKind::Name(_) => true,
            ExprKind::Ref(head, _) => head.as_name().is_some(),
            _ => false,
        };
        if !path {
            return refused(
                with.target.at,
                "rego_parse_error: expected with target path",
                "replace input, data or a function",
            );
        }
    }
    Ok(())
}

fn expression(expr: &Expr) -> CheckResult {
    let ExprKind::Ref(head, _) = &expr.kind else { return Ok(()) };
    let head_kind = match head.kind {
        ExprKind::Scalar(_) => "a scalar",
        ExprKind::Ref(..) => "a reference in parentheses",
        ExprKind::Template(_) => "a string",
        _ => return Ok(()),
    };
    refused(
        expr.at,
        format!("rego_parse_error: illegal ref (head cannot be {head_kind})"),
        "assign the value to a variable first",
    )
}

/// Checks what version 1 no longer allows.
fn version_1(module: &mut Module) -> CheckResult {
    let mut names: Vec<Name> = Vec::new();
    for import in &module.imports {
        let Some(name) = import.name() else { continue };
        if names.contains(&name) {
            let why = format!("rego_compile_error: import must not shadow another one called {name}");
            return refused(import.at, why, "give one of them another name: `import … as name`");
        }
        names.push(name);
    }
    let help = "use another name";
    for rule in &module.rules {
        if rule.first_name().is_some_and(|name| &**name == "contains") {
            let why = "rego_parse_error: contains keyword cannot be used for rule name";
            return refused(rule.at, why, help);
        }
        if let Some(name) = rule.first_name().filter(|name| DOCUMENTS.contains(&&***name)) {
            return refused(rule.at, format!("rego_compile_error: rules must not shadow {name}"), help);
        }
    }
    names.extend(module.rules.iter().filter_map(SyntaxRule::first_name).cloned());
    let mut wrong = Vec::new();
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| match &expr.kind {
            ExprKind::Binary(":=", left, _) => {
                if let Some(name) = left.as_name().filter(|name| DOCUMENTS.contains(&&***name)) {
                    let why = format!("rego_compile_error: variables must not shadow {name}");
                    wrong.extend(refused(expr.at, why, help).err());
                }
            }
            ExprKind::Call(function, _) => {
                let path = function.path().unwrap_or_default();
                let name = path.join(".");
                if path.first().is_some_and(|first| !names.contains(first)) && declarations::is_deprecated(&name) {
                    let why = format!("rego_type_error: deprecated built-in function calls in expression: {name}");
                    wrong.extend(
                        refused(expr.at, why, "use the replacement named in OPA's list of deprecated built-ins").err(),
                    );
                }
            }
            _ => {}
        });
    }
    wrong.into_iter().min_by_key(|wrong| wrong.at).map_or(Ok(()), Err)
}
