//! Heads: what OPA computes as part of the body is written into the body.

use super::{outline::Package, scopes::Fresh};
use crate::rego::syntax::{
    Branch, Comprehension, Expr, Key, Kind, Module, Rule, Statement, SyntaxError, Version, path,
};

/// `f("x")` without value and body is true.
pub(super) fn bare_functions(module: &mut Module) {
    for rule in &mut module.rules {
        let first = &mut rule.first;
        if rule.parameters.is_some() && first.value.is_none() && first.body.is_none() {
            first.value = Some((":=", Expr::scalar(first.at, "true")));
        }
    }
}

/// Keys that iterate, as in `p contains x[_]`: regorus fails where there is nothing to iterate over.
pub(super) fn keys(module: &mut Module, fresh: &mut Fresh) {
    for rule in module.rules.iter_mut().filter(|rule| !rule.default) {
        let keys = match &mut rule.name.kind {
            Kind::Ref(_, keys) => keys.as_mut_slice(),
            _ => &mut [],
        };
        let indices = keys.iter_mut().filter_map(|key| match key {
            Key::Index(index) => Some(index),
            Key::Dot(_) => None,
        });
        for key in indices.chain(&mut rule.contains) {
            if iterates(key) {
                bind(key, &mut rule.first.body, fresh, "key");
                rule.first.conditional |= module.version == Version::V1;
            }
        }
        // Values, too, of sets of objects and functions alike.
        let Branch { value, body, conditional, .. } = &mut rule.first;
        if let Some((_, value)) = value
            && iterates(value)
        {
            bind(value, body, fresh, "value");
            *conditional |= module.version == Version::V1;
        }
    }
}

/// Terms of comprehensions that iterate.
pub(super) fn terms(module: &mut Module, fresh: &mut Fresh) {
    for rule in &mut module.rules {
        rule.each_expr(&mut |expr| {
            let Kind::Comprehension(comprehension) = &mut expr.kind else { return };
            let Comprehension { key, term, body, .. } = &mut **comprehension;
            for term in key.iter_mut().chain([term]) {
                if !iterates(term) {
                    continue;
                }
                let name = Expr::name(term.at, &fresh.name("term"));
                let value = std::mem::replace(term, name.clone());
                body.push(Statement::plain(Expr::binary(":=", name, value)));
            }
        });
    }
}

/// The values of rules with `else`: one that is undefined makes OPA go on to the next branch, regorus stop.
pub(super) fn values_before_else(module: &mut Module, fresh: &mut Fresh) {
    for rule in module.rules.iter_mut().filter(|rule| !rule.others.is_empty()) {
        for branch in rule.branches() {
            let Branch { value, body, conditional, .. } = branch;
            if let Some((_, value)) = value
                && !matches!(value.kind, Kind::Scalar(_))
            {
                bind(value, body, fresh, "value");
                *conditional |= module.version == Version::V1;
            }
        }
    }
}

/// `p.b := 1` beside `p[x] := 2`: regorus asks only the first for `p.b`. Below one name all keys become variables.
pub(super) fn beside_variables(module: &mut Module, package: &Package, fresh: &mut Fresh) -> Result<(), SyntaxError> {
    for rule in module.rules.iter_mut().filter(|rule| rule.parameters.is_none()) {
        let at = rule.at;
        let Kind::Ref(head, keys) = &mut rule.name.kind else { continue };
        let beside =
            |place: &usize| path(head, &keys[..*place]).is_some_and(|path| package.before_variables.contains(&path));
        let Some(place) = (0..keys.len()).find(beside).filter(|place| !keys[*place].is_variable()) else { continue };
        if rule.default || !rule.others.is_empty() {
            let what = if rule.default { "a default" } else { "else" };
            let why = format!("{what} for one key, beside rules with a variable key, is not supported");
            let help = "write rules with conditions that exclude each other";
            return Err(SyntaxError::refused(at, why, help));
        }
        let mut key = match &keys[place] {
            Key::Dot(name) => Expr::scalar(at, &format!("\"{name}\"")),
            Key::Index(key) => key.clone(),
        };
        bind(&mut key, &mut rule.first.body, fresh, "key");
        keys[place] = Key::Index(key);
        rule.first.conditional |= module.version == Version::V1;
    }
    Ok(())
}

/// `p[x].y := …` and `p[x] contains y`: without any `x`, `p` is an empty object to OPA and undefined to regorus, unless
/// there is a definition of the simple form too.
pub(super) fn empty_documents(module: &mut Module, fresh: &mut Fresh) {
    let mut added: Vec<Rule> = Vec::new();
    for rule in module.rules.iter().filter(|rule| !rule.default && rule.parameters.is_none()) {
        let Kind::Ref(head, keys) = &rule.name.kind else { continue };
        let Some(first) = keys.iter().position(Key::is_variable) else { continue };
        if first + 1 == keys.len() && rule.contains.is_none() {
            continue;
        }
        let at = rule.at;
        let key = Expr::name(at, &fresh.name("key"));
        let mut keys = keys[..first].to_vec();
        keys.push(Key::Index(key.clone()));
        let never = vec![
            Statement::plain(Expr::binary(":=", key, Expr::scalar(at, "0"))),
            Statement::plain(Expr::scalar(at, "false")),
        ];
        let value = Some((":=", Expr::scalar(at, "null")));
        let first = Branch { at, value, conditional: module.version == Version::V1, body: Some(never) };
        let name = Expr::new(at, Kind::Ref(head.clone(), keys));
        added.push(Rule {
            at,
            default: false,
            name,
            parameters: None,
            contains: None,
            first,
            others: Vec::new(),
            last_line: at.line,
        });
    }
    module.rules.append(&mut added);
}

/// Moves an expression into a body, as the value of a variable.
fn bind(expr: &mut Expr, body: &mut Option<Vec<Statement>>, fresh: &mut Fresh, base: &str) {
    let name = Expr::name(expr.at, &fresh.name(base));
    let value = std::mem::replace(expr, name.clone());
    let body = body.get_or_insert_default();
    // The head's place is before the body's: the statement takes the place that comes next.
    body.push(Statement::plain(Expr::binary(":=", name, value)));
}

/// Whether an expression has a key that may be a variable.
fn iterates(expr: &mut Expr) -> bool {
    let mut found = match &expr.kind {
        Kind::Ref(_, keys) => keys.iter().any(Key::is_variable),
        _ => false,
    };
    expr.parts(&mut |part| found |= iterates(part));
    found
}
