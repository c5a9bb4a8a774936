//! Finds the field to change: the only path in the input that the conditions of a body read.
//!
//! If conditions read several paths, or a value that cannot be traced to one, there is none. A value returned by a
//! helper is located by equality: an object or array that occurs exactly once.

use std::collections::BTreeSet;

use regorus::Value;

use super::{
    Tracer,
    model::{TracedBody, TracedPart, TracedStatement},
};
use crate::{
    program::SourceLocation,
    syntax::{Branch, Expr, ExprKind, Key, Statement, StatementNode, SyntaxBody},
};

/// The most references that are followed from one to the next.
const LONGEST: usize = 8;

/// A body that holds, with its trace.
struct FollowedBody<'b> {
    body: &'b SyntaxBody,
    traced: &'b TracedBody,
    text: &'b str,
    /// The object in the input, and the keys that lead to it.
    object: (&'b Value, &'b [Value]),
}

impl Tracer<'_> {
    /// Returns the paths in the input that the conditions of a branch read; `None` if they are not certain. The branch
    /// must hold. `object` are the keys that lead to the object in the input.
    pub fn places(
        &self,
        definition: SourceLocation,
        branch: usize,
        traced: &TracedBody,
        object: &[Value],
    ) -> Option<BTreeSet<Vec<Value>>> {
        let rule = self.definition(definition)?;
        let branch: &Branch = std::iter::once(&rule.first).chain(&rule.others).nth(branch)?;
        let own = object.iter().try_fold(self.input, |value, key| match value {
            Value::Object(fields) => fields.get(key),
            _ => None,
        });
        let text = &*self.files[definition.module].text;
        let body = branch.body.as_ref()?;
        FollowedBody { body, traced, text, object: (own.unwrap_or(&Value::Undefined), object) }.places()
    }
}

impl FollowedBody<'_> {
    fn places(&self) -> Option<BTreeSet<Vec<Value>>> {
        let mut places = BTreeSet::new();
        for (statement, traced) in self.statements() {
            let condition = match &statement.kind {
                StatementNode::Every { .. } => return None,
                StatementNode::Some(_)
                | StatementNode::SomeIn { .. }
                | StatementNode::Expr(Expr { kind: ExprKind::Binary(":=" | "=", ..), .. }) => {
                    continue;
                }
                StatementNode::Expr(expr) | StatementNode::Not(expr) => expr,
            };
            let mut references = Vec::new();
            if !statement.with.is_empty() || !collect(condition, &mut references) {
                return None;
            }
            for reference in references {
                places.insert(self.place(reference, traced, 0)?);
            }
        }
        Some(places)
    }

    fn statements(&self) -> impl Iterator<Item = (&Statement, &TracedStatement)> {
        let written = |traced: &TracedStatement| self.body.iter().find(|statement| statement.at == traced.at);
        self.traced.statements.iter().filter_map(move |traced| Some((written(traced)?, traced)))
    }

    /// Returns the path in the input to which a reference leads.
    fn place(&self, reference: &Expr, traced: &TracedStatement, followed: usize) -> Option<Vec<Value>> {
        if followed > LONGEST {
            return None;
        }
        match &reference.kind {
            ExprKind::Ref(head, keys) => {
                let mut path = self.place(head, traced, followed)?;
                for key in keys {
                    path.push(match key {
                        Key::Dot(name) => Value::from(&**name),
                        Key::Index(index) => self.value(index, traced)?,
                    });
                }
                Some(path)
            }
            ExprKind::Name(name) if &**name == "input" => Some(Vec::new()),
            ExprKind::Name(name) => self.variable(name, followed),
            _ => None,
        }
    }

    /// Returns the path in the input from which the value of a variable comes.
    fn variable(&self, name: &str, followed: usize) -> Option<Vec<Value>> {
        let is_it = |expr: &Expr| expr.as_name().is_some_and(|own| **own == *name);
        for (statement, traced) in self.statements() {
            match &statement.kind {
                StatementNode::Expr(Expr { kind: ExprKind::Binary(":=", left, right), .. }) if is_it(left) => {
                    let is_reference = matches!(right.kind, ExprKind::Name(_) | ExprKind::Ref(..));
                    let place = if is_reference { self.place(right, traced, followed + 1) } else { None };
                    return place.or_else(|| self.only_place_of(&self.value(left, traced)?));
                }
                StatementNode::SomeIn { value, .. } if is_it(value) => {
                    return self.only_place_of(&self.value(value, traced)?);
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the value of an expression in the attempt in which the body holds.
    fn value(&self, expr: &Expr, traced: &TracedStatement) -> Option<Value> {
        if let ExprKind::Scalar(text) = &expr.kind {
            return Value::from_json_str(text).ok();
        }
        let text = match expr.span.of(self.text) {
            "" => expr.as_name()?,
            text => text,
        };
        // A wildcard has a different value each time.
        if text.starts_with('_') {
            return None;
        }
        let is_it = |part: &&TracedPart| part.text == text;
        let found = traced.hidden.iter().chain(&traced.held).find(is_it).map(|part| part.value.clone());
        found.filter(|value| *value != Value::Undefined)
    }

    /// Returns the path of an array or object that occurs only once in the object.
    fn only_place_of(&self, wanted: &Value) -> Option<Vec<Value>> {
        if !matches!(wanted, Value::Array(_) | Value::Object(_)) {
            return None;
        }
        let (object, prefix) = self.object;
        let (mut path, mut found) = (Vec::new(), Vec::new());
        search(object, wanted, &mut path, &mut found);
        let [only] = &mut found[..] else { return None };
        Some(prefix.iter().cloned().chain(std::mem::take(only)).collect())
    }
}

/// Collects the references in a condition; `false` if anything else in it may read documents.
fn collect<'e>(expr: &'e Expr, found: &mut Vec<&'e Expr>) -> bool {
    match &expr.kind {
        ExprKind::Scalar(_) => true,
        ExprKind::Name(_) | ExprKind::Ref(..) => {
            found.push(expr);
            true
        }
        ExprKind::Array(items) | ExprKind::Set(items) | ExprKind::Call(_, items) => {
            items.iter().all(|item| collect(item, found))
        }
        ExprKind::Minus(inner) => collect(inner, found),
        ExprKind::Binary(_, left, right) => collect(left, found) && collect(right, found),
        ExprKind::In { key: None, value, collection } => collect(value, found) && collect(collection, found),
        _ => false,
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
