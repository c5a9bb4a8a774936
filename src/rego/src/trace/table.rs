//! Table tests: `test_x[case] if …`. The keys after the name are the case.

use std::collections::BTreeSet;

use regorus::Value;

use super::{
    Tracer,
    instrument::Instrument,
    model::{TracedBranch, TracedCase},
    parts,
};
use crate::{
    program::SourceLocation,
    syntax::{Expr, ExprKind, Key, Name, Position, Statement, SyntaxBody, SyntaxRule},
    value,
};

impl Tracer<'_> {
    /// Returns the keys of all cases that a table evaluates, whether they hold or not. The first `names` keys of its
    /// head belong to the test itself.
    ///
    /// As in OPA, a case counts as evaluated once the statements that bind its keys hold.
    pub fn cases(&self, definition: SourceLocation, names: usize) -> Vec<TracedCase> {
        let Some(rule) = self.definition(definition) else { return Vec::new() };
        let keys = keys(rule, names);
        let branches = std::iter::once(&rule.first).chain(&rule.others);
        let tried = branches.filter_map(|branch| {
            let mut body = branch.body.clone().unwrap_or_default();
            body.truncate(bound(&body, &keys));
            let (module, everywhere) = (definition.module, BTreeSet::new());
            let mut instrument =
                Instrument::new((self.modules, self.uses), module, &self.files[module].text, &everywhere);
            let noted = instrument.cases(body, array(rule.at, keys.clone()));
            self.run(module, &self.compile(module, rule.at, noted).ok()?)
        });
        let values = tried.flatten().flat_map(|note| note.values);
        values.filter_map(|keys| Some(value::array(&keys)?.iter().cloned().collect())).collect()
    }

    /// Traces a table for one case.
    pub fn trace_case(&self, definition: SourceLocation, names: usize, case: &[Value]) -> Vec<Option<TracedBranch>> {
        let Some(rule) = self.definition(definition) else { return Vec::new() };
        let keys = keys(rule, names);
        let wanted = array(rule.at, case.iter().map(|value| literal(rule.at, value)).collect());
        let this = Statement::plain(Expr::binary("==", array(rule.at, keys.clone()), wanted));
        self.branches(definition.module, rule, |body| Some((bound(body, &keys), this.clone())))
    }
}

/// Returns the keys after the name of a table.
fn keys(rule: &SyntaxRule, names: usize) -> Vec<Expr> {
    let ExprKind::Ref(_, keys) = &rule.name.kind else { return Vec::new() };
    let key = |key: &Key| match key {
        Key::Index(index) => index.clone(),
        Key::Dot(name) => literal(rule.at, &Value::from(&**name)),
    };
    keys.iter().skip(names).map(key).collect()
}

/// Returns the number of leading statements after which all variables in the keys have a value.
fn bound(body: &SyntaxBody, keys: &[Expr]) -> usize {
    let mut names = BTreeSet::new();
    for key in keys {
        parts::names(key, &mut names);
    }
    let mentions = |statement: &Statement, name: &Name| {
        let mut found = BTreeSet::new();
        parts::names_of_statement(statement, &mut found);
        found.contains(name)
    };
    let first = |name| body.iter().position(|statement| mentions(statement, name));
    names.iter().filter_map(first).max().map_or(0, |last| last + 1)
}

fn array(at: Position, items: Vec<Expr>) -> Expr {
    Expr::new(at, ExprKind::Array(items))
}

/// Returns a value as an expression.
fn literal(at: Position, value: &Value) -> Expr {
    let kind = match value {
        Value::Array(items) => ExprKind::Array(items.iter().map(|item| literal(at, item)).collect()),
        Value::Set(items) => ExprKind::Set(items.iter().map(|item| literal(at, item)).collect()),
        Value::Object(fields) => {
            ExprKind::Object(fields.iter_sorted().map(|(key, value)| (literal(at, key), literal(at, value))).collect())
        }
        // Scalars have the same syntax in JSON and in Rego.
        scalar => ExprKind::Scalar(scalar.to_string().into()),
    };
    Expr::new(at, kind)
}
