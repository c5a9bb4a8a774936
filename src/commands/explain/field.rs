//! The field to mend: the one place in the object that the conditions which hold look at.
//!
//! Where conditions look at several places, or at what cannot be followed to one, nothing is said. What only chooses the
//! object (its kind and name) is no place to mend. A value that came from a helper is followed by what it is: an object or
//! list that stands in exactly one place.

use std::{collections::BTreeSet, fmt::Write as _};

use regorus::{
    Value,
    unstable::{AssignOp, Expr, Literal, Query},
};

use crate::{
    commands::test::explain::{Explainer, ways},
    judge::evaluate::Question,
};

/// What chooses an object.
const CHOOSING: [&str; 4] = ["apiVersion", "kind", "metadata.name", "metadata.namespace"];

/// Returns the field that the conditions of a body look at, which holds; `None` if that is not sure.
pub(super) fn mended(explainer: &Explainer<'_>, query: &Query, question: &Question<'_>) -> Option<String> {
    let body = Body { explainer, query, way: ways(&explainer.pieces(), query), question };
    let mut fields = BTreeSet::new();
    for statement in &query.stmts {
        let condition = match &statement.literal {
            Literal::SomeVars { .. } | Literal::SomeIn { .. } => continue,
            Literal::Every { .. } => return None,
            Literal::Expr { expr, .. } if matches!(&**expr, Expr::AssignExpr { .. }) => continue,
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => expr,
        };
        let mut references = Vec::new();
        if !statement.with_mods.is_empty() || !collect(condition, &mut references) {
            return None;
        }
        for reference in references {
            let path = body.place(reference, 0)?;
            // What is beside the object, as parameters are, is not in it.
            if let Some(path) = below(&path, question.object) {
                fields.insert(shown(path));
            }
        }
    }
    fields.retain(|field| !field.is_empty() && !CHOOSING.contains(&field.as_str()));
    if fields.len() == 1 { fields.pop_first() } else { None }
}

/// Collects the references in a condition; `false` if there is something else in it that looks at documents.
fn collect<'e>(expr: &'e Expr, found: &mut Vec<&'e Expr>) -> bool {
    match expr {
        Expr::String { .. } | Expr::RawString { .. } | Expr::Number { .. } | Expr::Bool { .. } | Expr::Null { .. } => {
            true
        }
        Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
            found.push(expr);
            true
        }
        Expr::Array { items, .. } | Expr::Set { items, .. } | Expr::Call { params: items, .. } => {
            items.iter().all(|item| collect(item, found))
        }
        Expr::UnaryExpr { expr, .. } => collect(expr, found),
        Expr::BinExpr { lhs, rhs, .. } | Expr::BoolExpr { lhs, rhs, .. } | Expr::ArithExpr { lhs, rhs, .. } => {
            collect(lhs, found) && collect(rhs, found)
        }
        Expr::Membership { key: None, value, collection, .. } => collect(value, found) && collect(collection, found),
        _ => false,
    }
}

/// A body that holds.
struct Body<'a> {
    explainer: &'a Explainer<'a>,
    query: &'a Query,
    way: Vec<String>,
    question: &'a Question<'a>,
}

/// References that are followed from one to the next.
const LONGEST: usize = 8;

impl Body<'_> {
    /// Returns the path in the input that a reference leads to.
    fn place(&self, reference: &Expr, followed: usize) -> Option<Vec<Value>> {
        if followed > LONGEST {
            return None;
        }
        match reference {
            Expr::RefDot { refr, field, .. } => {
                let mut path = self.place(refr, followed)?;
                path.push(Value::from(field.0.text()));
                Some(path)
            }
            Expr::RefBrack { refr, index, .. } => {
                let mut path = self.place(refr, followed)?;
                path.push(self.value(index)?);
                Some(path)
            }
            Expr::Var { span, .. } if span.text() == "input" => Some(Vec::new()),
            Expr::Var { span, .. } => self.variable(span.text(), reference, followed),
            _ => None,
        }
    }

    /// Follows a variable to where its value comes from.
    fn variable(&self, name: &str, expr: &Expr, followed: usize) -> Option<Vec<Value>> {
        let is_it = |expr: &Expr| matches!(expr, Expr::Var { span, .. } if span.text() == name);
        for statement in &self.query.stmts {
            match &statement.literal {
                Literal::Expr { expr: assigned, .. } => {
                    if let Expr::AssignExpr { op: AssignOp::ColEq, lhs, rhs, .. } = &**assigned
                        && is_it(lhs)
                    {
                        let is_reference =
                            matches!(&**rhs, Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. });
                        let place = if is_reference { self.place(rhs, followed + 1) } else { None };
                        return place.or_else(|| self.only_place_of(&self.value(expr)?));
                    }
                }
                Literal::SomeIn { value, .. } if is_it(value) => return self.only_place_of(&self.value(expr)?),
                _ => {}
            }
        }
        None
    }

    /// Returns the value of an expression in the first way in which the body holds.
    fn value(&self, expr: &Expr) -> Option<Value> {
        let text = self.explainer.pieces().expr(expr).to_owned();
        // A wildcard has another value each time.
        if text.starts_with('_') {
            return None;
        }
        self.explainer.ask_value(&self.way, &text, "")
    }

    /// Returns the only path in the object where a list or an object stands.
    fn only_place_of(&self, wanted: &Value) -> Option<Vec<Value>> {
        if !matches!(wanted, Value::Array(_) | Value::Object(_)) {
            return None;
        }
        let (mut path, mut found) = (Vec::new(), Vec::new());
        let object = self.question.object.iter().fold(self.question.input.clone(), |value, key| value[*key].clone());
        search(&object, wanted, &mut path, &mut found);
        let [only] = &mut found[..] else { return None };
        let prefix = self.question.object.iter().map(|key| Value::from(*key));
        Some(prefix.chain(std::mem::take(only)).collect())
    }
}

fn search(value: &Value, wanted: &Value, path: &mut Vec<Value>, found: &mut Vec<Vec<Value>>) {
    if value == wanted {
        found.push(path.clone());
        return;
    }
    let children: Vec<(Value, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(index, item)| (Value::from(index), item)).collect(),
        Value::Object(fields) => fields.iter_sorted().map(|(key, value)| (key.clone(), value)).collect(),
        _ => return,
    };
    for (key, child) in children {
        path.push(key);
        search(child, wanted, path, found);
        path.pop();
    }
}

/// Returns what of a path is below keys.
fn below<'p>(path: &'p [Value], keys: &[&str]) -> Option<&'p [Value]> {
    let starts = path.len() >= keys.len() && path.iter().zip(keys).all(|(part, key)| *part == Value::from(*key));
    starts.then(|| &path[keys.len()..])
}

/// Writes a path as `kubectl` writes fields: `spec.containers[0].image`.
fn shown(path: &[Value]) -> String {
    let mut text = String::new();
    for part in path {
        match part {
            Value::String(name) if name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') => {
                text.push_str(if text.is_empty() { "" } else { "." });
                text.push_str(name);
            }
            other => {
                let _ = write!(text, "[{other}]");
            }
        }
    }
    text
}
