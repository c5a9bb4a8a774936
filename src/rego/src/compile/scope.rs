//! Scopes of names: which names a body declares as variables, and which variable a name refers to at a point.

use std::collections::{BTreeMap, BTreeSet};

use super::term::{Variable, Variables};
use crate::syntax::{Expr, ExprKind, Key, Name, Piece, Statement, StatementNode, SyntaxBody};

/// How a name was introduced into a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occurrence {
    Parameter,
    Seen,
    Assigned,
    Declared,
}

#[derive(Debug, Clone, Default)]
struct NameScope {
    names: BTreeMap<Name, (Variable, Occurrence)>,
}

/// The scopes around a point, innermost last.
#[derive(Debug, Clone)]
pub(super) struct Scopes {
    stack: Vec<NameScope>,
    /// Names that do not refer to rules or imports, for each body around the point.
    hidden: Vec<BTreeSet<Name>>,
    /// Variables that no scope declares, by name.
    free: BTreeMap<Name, Variable>,
    /// The number of scopes around the current head: a variable seen in a comprehension there is seen for the first
    /// time.
    around: usize,
}

impl Scopes {
    pub(super) fn new() -> Self {
        Self { stack: vec![NameScope::default()], hidden: Vec::new(), free: BTreeMap::new(), around: 0 }
    }

    /// Enters a body that declares names.
    pub(super) fn enter(&mut self, hidden: BTreeSet<Name>) {
        self.hidden.push(hidden);
        self.stack.push(NameScope::default());
    }

    pub(super) fn leave(&mut self) {
        self.hidden.pop();
        self.stack.pop();
    }

    /// Hides rules and imports of these names without adding a scope.
    pub(super) fn hide(&mut self, names: BTreeSet<Name>) {
        self.hidden.push(names);
    }

    /// Whether the name refers to a variable even if there is a rule or import of that name.
    pub(super) fn is_hidden(&self, name: &str) -> bool {
        self.hidden.iter().any(|names| names.contains(name))
    }

    /// Returns the variable of a name, if it has one.
    pub(super) fn known(&self, name: &str) -> Option<(Variable, Occurrence)> {
        self.stack.iter().rev().find_map(|scope| scope.names.get(name)).copied()
    }

    /// Returns how a name occurred in the innermost scope.
    pub(super) fn occurrence(&self, name: &str) -> Option<Occurrence> {
        self.stack.last()?.names.get(name).map(|(_, occurrence)| *occurrence)
    }

    pub(super) fn insert(&mut self, name: &Name, variable: Variable, occurrence: Occurrence) {
        if let Some(scope) = self.stack.last_mut() {
            scope.names.insert(name.clone(), (variable, occurrence));
        }
    }

    /// Returns the variable of a name, and adds it as seen if it is new.
    pub(super) fn variable(&mut self, name: &Name, variables: &mut Variables) -> Variable {
        if let Some((variable, _)) = self.known(name) {
            if self.is_around_head(name) {
                self.insert(name, variable, Occurrence::Seen);
            }
            return variable;
        }
        let variable = *self.free.entry(name.clone()).or_insert_with(|| variables.free(name));
        self.insert(name, variable, Occurrence::Seen);
        variable
    }

    /// Whether no scope declares a name, and this is its variable.
    pub(super) fn is_free(&self, name: &str, variable: Variable) -> bool {
        self.free.get(name) == Some(&variable)
    }

    /// Whether a name occurs only outside the current head.
    pub(super) fn is_around_head(&self, name: &str) -> bool {
        !self.stack.iter().skip(self.around).any(|scope| scope.names.contains_key(name))
    }

    /// Returns the variable of an undeclared name, if it was seen.
    pub(super) fn free(&self, name: &str) -> Option<Variable> {
        self.free.get(name).copied()
    }

    /// Enters or leaves a head.
    pub(super) fn in_head(&mut self, in_head: bool) {
        self.around = if in_head { self.stack.len() } else { 0 };
    }

    /// Returns the names that `some` and `every` declare in the innermost scope.
    pub(super) fn declared(&self) -> impl Iterator<Item = (&Name, Variable)> {
        let names = self.stack.last().into_iter().flat_map(|scope| &scope.names);
        names
            .filter(|(_, (_, occurrence))| *occurrence == Occurrence::Declared)
            .map(|(name, (variable, _))| (name, *variable))
    }
}

/// Returns the names that a body declares, including those in a nested `every`.
pub(super) fn declared_names(body: &SyntaxBody) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for statement in body {
        declared_by(statement, &mut names);
    }
    names
}

pub(super) fn declared_by(statement: &Statement, names: &mut BTreeSet<Name>) {
    match &statement.kind {
        StatementNode::Expr(Expr { kind: ExprKind::Binary(":=", left, _), .. })
        | StatementNode::Not(Expr { kind: ExprKind::Binary(":=", left, _), .. }) => {
            all_names(left, names);
        }
        StatementNode::Expr(_) | StatementNode::Not(_) => {}
        StatementNode::Some(some) => names.extend(some.iter().map(|(_, name)| name.clone())),
        StatementNode::SomeIn { key, value, .. } => {
            key.iter().chain([value]).for_each(|pattern| all_names(pattern, names));
        }
        StatementNode::Every { body, .. } => body.iter().for_each(|statement| declared_by(statement, names)),
    }
}

/// Adds all names of an expression, including those in nested bodies.
pub(super) fn all_names(expr: &Expr, names: &mut BTreeSet<Name>) {
    each_name(expr, &mut |name, _| {
        names.insert(name.clone());
    });
}

/// Calls `visit` for each name of an expression; the second argument is whether it occurs in a nested body.
pub(super) fn each_name(expr: &Expr, visit: &mut dyn FnMut(&Name, bool)) {
    names_in(expr, false, visit);
}

fn names_in(expr: &Expr, inside: bool, visit: &mut dyn FnMut(&Name, bool)) {
    match &expr.kind {
        ExprKind::Scalar(_) => {}
        ExprKind::Name(name) => {
            if &**name != "_" {
                visit(name, inside);
            }
        }
        ExprKind::Ref(head, keys) => {
            names_in(head, inside, visit);
            for key in keys {
                if let Key::Index(index) = key {
                    names_in(index, inside, visit);
                }
            }
        }
        ExprKind::Call(_, items) | ExprKind::Array(items) | ExprKind::Set(items) => {
            for item in items {
                names_in(item, inside, visit);
            }
        }
        ExprKind::Object(fields) => fields.iter().for_each(|(key, value)| {
            names_in(key, inside, visit);
            names_in(value, inside, visit);
        }),
        ExprKind::Comprehension(comprehension) => {
            comprehension.key.iter().chain([&comprehension.term]).for_each(|term| names_in(term, true, visit));
            comprehension.body.iter().for_each(|statement| names_of_statement(statement, true, visit));
        }
        ExprKind::Binary(_, left, right) => {
            names_in(left, inside, visit);
            names_in(right, inside, visit);
        }
        ExprKind::In { key, value, collection } => {
            key.iter().chain([value, collection]).for_each(|part| names_in(part, inside, visit));
        }
        ExprKind::Minus(inner) => names_in(inner, inside, visit),
        ExprKind::Template(pieces) => {
            for piece in pieces {
                if let Piece::Statement(statement) = piece {
                    names_of_statement(statement, true, visit);
                }
            }
        }
    }
}

/// Calls `visit` for each name of a statement, without those after `with`.
pub(super) fn names_of_statement(statement: &Statement, inside: bool, visit: &mut dyn FnMut(&Name, bool)) {
    match &statement.kind {
        StatementNode::Expr(expr) | StatementNode::Not(expr) => names_in(expr, inside, visit),
        StatementNode::Some(some) => some.iter().for_each(|(_, name)| visit(name, inside)),
        StatementNode::SomeIn { key, value, collection } => {
            key.iter().chain([value, collection]).for_each(|part| names_in(part, inside, visit));
        }
        StatementNode::Every { key, value, collection, body } => {
            key.iter().chain([value]).for_each(|name| visit(name, true));
            names_in(collection, inside, visit);
            for statement in body {
                names_of_statement(statement, true, visit);
            }
        }
    }
}
