//! Resolves names to variables, rules and imports; turns operators and `in` into calls.
//!
//! These are OPA's stages `ResolveRefs` and `RewriteLocalVars`, including the errors that they report.

mod declare;
mod terms;
mod with;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    fault::{Code, Fault},
    scope::{self, Occurrence, Scopes, all_names, declared_names},
    term::{
        ResolvedBody, ResolvedResult, ResolvedRule, ResolvedStatement, ResolvedStatementKind, ResolvedTerm,
        ResolvedValue, Variable, VariableSet, Variables,
    },
    visit,
};
use crate::{
    builtins::declarations,
    constant::Constant,
    syntax::{self, Branch, Expr, ExprKind, Key, Module, Name, Position},
};

/// The meanings of names: for each, a document and the keys below it.
pub(super) type Meanings = BTreeMap<Name, (Variable, Vec<Constant>)>;

/// The meanings of rules and imports in a module.
pub(super) struct Globals<'a> {
    /// The rules of the package, shared by its modules.
    pub(super) package: &'a Meanings,
    pub(super) imports: Meanings,
}

impl Globals<'_> {
    fn get(&self, name: &str) -> Option<&(Variable, Vec<Constant>)> {
        self.imports.get(name).or_else(|| self.package.get(name))
    }
}

/// Resolves the rules of one module.
pub(super) fn module(
    (index, module): (usize, &Module),
    package: &[Constant],
    globals: &Globals<'_>,
    variables: &mut Variables,
    faults: &mut Vec<Fault>,
) -> Vec<ResolvedRule> {
    let not_bodies = module.imports("future.keywords") || module.imports("future.keywords.not");
    let resolve = |rule: &syntax::SyntaxRule| {
        let mut resolver =
            Resolver { module: index, globals, variables, scopes: Scopes::new(), faults, not_bodies, moved: None };
        resolver.rule(rule, package, module.is_v1())
    };
    module.rules.iter().map(resolve).collect()
}

struct Resolver<'a> {
    module: usize,
    globals: &'a Globals<'a>,
    variables: &'a mut Variables,
    scopes: Scopes,
    faults: &'a mut Vec<Fault>,
    not_bodies: bool,
    /// The position that is reported for the head of a further body: that of the body.
    moved: Option<Position>,
}

impl Resolver<'_> {
    fn fault(&mut self, at: Position, message: impl std::fmt::Display) {
        self.faults.push(Fault::new(Code::Compile, self.module, at, message));
    }

    fn rule(&mut self, rule: &syntax::SyntaxRule, package: &[Constant], v1: bool) -> ResolvedRule {
        let parameters = rule.parameters.as_ref().map(|parameters| self.parameters(parameters));
        let before = self.scopes.clone();
        let mut rules = Vec::new();
        for (index, branch) in std::iter::once(&rule.first).chain(&rule.others).enumerate() {
            self.scopes = before.clone();
            rules.push(self.branch(rule, branch, index, package, parameters.clone(), v1));
        }
        let last =
            rules.into_iter().rev().reduce(|after, before| ResolvedRule { otherwise: Some(Box::new(after)), ..before });
        last.unwrap_or_else(|| unreachable_rule(self.module, rule.at))
    }

    fn branch(
        &mut self,
        rule: &syntax::SyntaxRule,
        branch: &Branch,
        index: usize,
        package: &[Constant],
        parameters: Option<Vec<ResolvedTerm>>,
        v1: bool,
    ) -> ResolvedRule {
        let at = if index == 0 { rule.at } else { branch.at };
        // The heads of further bodies have the position of these bodies.
        let head_at = if rule.at > rule.name.at { rule.at } else { rule.name.at };
        let hidden = branch.body.as_ref().map(declared_names).unwrap_or_default();
        self.scopes.hide(hidden);
        self.hide_builtins(branch);
        let faults = self.faults.len();
        let mut body = branch.body.as_ref().map(|body| self.body(body)).unwrap_or_default();
        let in_order = self.faults.len() == faults;
        let moved = (rule.at > rule.name.at).then_some(rule.at);
        self.moved = moved;
        self.scopes.in_head(true);
        let (path, result) = self.head(rule, branch, package, head_at, v1);
        self.scopes.in_head(false);
        self.moved = None;
        let mut used = VariableSet::new();
        for key in &path {
            visit::all(key, &mut used);
        }
        match &result {
            ResolvedResult::Value(term) | ResolvedResult::Element(term) => visit::all(term, &mut used),
        }
        if let Some(written) = branch.body.as_ref().filter(|_| in_order) {
            self.unused(written, &body, &used);
        }
        if body.is_empty() {
            body.push(ResolvedStatement {
                generated: true,
                ..ResolvedStatement::new(at, ResolvedStatementKind::Term(ResolvedTerm::truth(at)))
            });
        }
        ResolvedRule { module: self.module, at, path, parameters, result, default: rule.default, body, otherwise: None }
    }

    /// Returns the path of a rule and the result of a definition.
    fn head(
        &mut self,
        rule: &syntax::SyntaxRule,
        branch: &Branch,
        package: &[Constant],
        at: Position,
        v1: bool,
    ) -> (Vec<ResolvedTerm>, ResolvedResult) {
        let mut path: Vec<ResolvedTerm> =
            package.iter().map(|key| ResolvedTerm::new(at, ResolvedValue::Constant(key.clone()))).collect();
        path.extend(rule.first_name().map(|name| ResolvedTerm::text(at, name)));
        let keys: &[Key] = if let ExprKind::Ref(_, keys) = &rule.name.kind { keys } else { &[] };
        let mut keys: Vec<ResolvedTerm> = keys.iter().map(|key| self.key(key, at)).collect();
        let element = !v1 && rule.parameters.is_none() && keys.len() == 1 && !rule.first.conditional && !rule.default;
        let result = match (&rule.contains, &branch.value) {
            (Some(element), _) => ResolvedResult::Element(self.term(element)),
            (None, Some((_, value))) => ResolvedResult::Value(self.term(value)),
            (None, None) if element && rule.first.value.is_none() => match keys.pop() {
                Some(key) => ResolvedResult::Element(key),
                None => ResolvedResult::Value(ResolvedTerm::truth(at)),
            },
            (None, None) => ResolvedResult::Value(ResolvedTerm::truth(at)),
        };
        path.append(&mut keys);
        (path, result)
    }

    /// Declares the variables of parameters.
    fn parameters(&mut self, parameters: &[Expr]) -> Vec<ResolvedTerm> {
        let mut names = BTreeSet::new();
        for parameter in parameters {
            if let Some(name) = parameter.as_name().filter(|name| matches!(&***name, "data" | "input")) {
                self.fault(parameter.at, format!("args must not shadow {name} (use a different variable name)"));
            }
            pattern_names(parameter, &mut names);
        }
        self.scopes.hide(names);
        parameters.iter().map(|parameter| self.parameter(parameter)).collect()
    }

    fn parameter(&mut self, expr: &Expr) -> ResolvedTerm {
        let value = match &expr.kind {
            ExprKind::Name(name) if &**name != "_" => {
                let variable = if let Some((variable, _)) = self.scopes.known(name) {
                    variable
                } else {
                    let variable = self.variables.declared(name);
                    self.scopes.insert(name, variable, Occurrence::Parameter);
                    variable
                };
                ResolvedValue::Variable(variable)
            }
            ExprKind::Array(items) => ResolvedValue::Array(items.iter().map(|item| self.parameter(item)).collect()),
            ExprKind::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (self.term(key), self.parameter(value)));
                ResolvedValue::Object(fields.collect())
            }
            ExprKind::Call(..) | ExprKind::Binary(..) | ExprKind::In { .. } | ExprKind::Minus(_) => {
                self.fault(expr.at, "rule arguments cannot contain calls");
                ResolvedValue::Constant(Constant::Null)
            }
            _ => return self.term(expr),
        };
        ResolvedTerm::new(expr.at, value)
    }

    /// Gives a variable that is named like a builtin a variable of its own.
    fn hide_builtins(&mut self, branch: &Branch) {
        let Some(body) = &branch.body else { return };
        let declared = declared_names(body);
        let mut found: Vec<Name> = Vec::new();
        let mut replaced = BTreeSet::new();
        for statement in body {
            scope::names_of_statement(statement, false, &mut |name, inside| {
                if !inside && !declared.contains(name) && declarations::declaration(name).is_some() {
                    found.push(name.clone());
                }
            });
            for with in &statement.with {
                all_names(&with.target, &mut replaced);
                all_names(&with.value, &mut replaced);
            }
        }
        for name in found {
            if !replaced.contains(&name) && self.global(&name).is_none() && self.scopes.known(&name).is_none() {
                let variable = self.variables.declared(&name);
                self.scopes.insert(&name, variable, Occurrence::Seen);
            }
        }
    }

    fn body(&mut self, body: &syntax::SyntaxBody) -> ResolvedBody {
        let mut statements: ResolvedBody = body.iter().filter_map(|statement| self.statement(statement)).collect();
        if statements.is_empty()
            && let Some(first) = body.first()
        {
            statements
                .push(ResolvedStatement::new(first.at, ResolvedStatementKind::Term(ResolvedTerm::truth(first.at))));
        }
        statements
    }

    /// Reports names declared by `some` and `every` that are not used.
    fn unused(&mut self, written: &syntax::SyntaxBody, body: &ResolvedBody, used: &VariableSet) {
        let mut used = used.clone();
        for statement in body {
            visit::all_of_statement(statement, &mut used);
        }
        let unused: Vec<Name> = self
            .scopes
            .declared()
            .filter(|(_, variable)| !used.contains(variable))
            .map(|(name, _)| name.clone())
            .collect();
        for name in unused {
            let declares = |statement: &&syntax::Statement| {
                let mut names = BTreeSet::new();
                scope::declared_by(statement, &mut names);
                names.contains(&name)
            };
            let Some(at) = written.iter().find(declares).or(written.first()).map(|statement| statement.at) else {
                continue;
            };
            let fault = Fault::new(Code::Compile, self.module, at, format!("declared var {name} unused"));
            self.faults.push(fault.help("use it or remove it; write `_` for a value that is not used").recoverable());
        }
    }

    fn statement(&mut self, statement: &syntax::Statement) -> Option<ResolvedStatement> {
        let at = statement.at;
        match &statement.kind {
            syntax::StatementNode::Expr(Expr { kind: ExprKind::Binary(":=", left, right), .. }) => {
                let right = self.term(right);
                let with = self.withs_of(&statement.with, false);
                let left = self.assigned(left);
                let kind = ResolvedStatementKind::Unify(left, right);
                Some(ResolvedStatement { assigned: true, with, ..ResolvedStatement::new(at, kind) })
            }
            syntax::StatementNode::Not(Expr { kind: ExprKind::Binary(":=", ..), .. }) => {
                self.fault(at, "cannot assign vars inside negated expression");
                None
            }
            syntax::StatementNode::Expr(expr) => {
                let kind = self.statement_kind(expr);
                Some(ResolvedStatement { with: self.withs(&statement.with), ..ResolvedStatement::new(at, kind) })
            }
            syntax::StatementNode::Not(expr) => {
                let kind = self.statement_kind(expr);
                let with = self.withs(&statement.with);
                Some(if self.not_bodies {
                    let inner = ResolvedStatement::new(at, kind);
                    ResolvedStatement { with, ..ResolvedStatement::new(at, ResolvedStatementKind::Not(vec![inner])) }
                } else {
                    ResolvedStatement { negated: true, with, ..ResolvedStatement::new(at, kind) }
                })
            }
            syntax::StatementNode::Some(names) => {
                let mut names = names.iter().filter(|(_, name)| &**name != "_");
                names.try_for_each(|(_, name)| self.declare(name, Occurrence::Declared, at).map(|_| ()));
                None
            }
            syntax::StatementNode::SomeIn { key, value, collection } => {
                self.some_in(at, key.as_ref(), value, collection, &statement.with)
            }
            syntax::StatementNode::Every { key, value, collection, body } => {
                self.every(at, key.as_ref(), value, collection, body, &statement.with)
            }
        }
    }

    /// Returns the meaning of a rule or import, unless a variable hides it.
    fn global(&self, name: &str) -> Option<&(Variable, Vec<Constant>)> {
        self.globals.get(name).filter(|_| !self.scopes.is_hidden(name))
    }
}

/// Returns OPA's name for a kind of term.
fn kind_name(kind: &ExprKind) -> &'static str {
    match kind {
        ExprKind::Scalar(text) if text.starts_with(['"', '`']) => "string",
        ExprKind::Scalar(text) if matches!(&**text, "true" | "false") => "boolean",
        ExprKind::Scalar(text) if &**text == "null" => "null",
        ExprKind::Scalar(_) => "number",
        ExprKind::Name(_) => "var",
        ExprKind::Ref(..) => "ref",
        ExprKind::Array(_) => "array",
        ExprKind::Set(_) => "set",
        ExprKind::Object(_) => "object",
        ExprKind::Comprehension(_) => "comprehension",
        ExprKind::Template(_) => "templatestring",
        ExprKind::Call(..) | ExprKind::Binary(..) | ExprKind::In { .. } | ExprKind::Minus(_) => "call",
    }
}

/// Adds the names that a pattern binds, without those in keys, references and calls.
fn pattern_names(expr: &Expr, names: &mut BTreeSet<Name>) {
    match &expr.kind {
        ExprKind::Name(name) if &**name != "_" => {
            names.insert(name.clone());
        }
        ExprKind::Array(items) => items.iter().for_each(|item| pattern_names(item, names)),
        ExprKind::Object(fields) => fields.iter().for_each(|(_, value)| pattern_names(value, names)),
        _ => {}
    }
}

fn unreachable_rule(module: usize, at: Position) -> ResolvedRule {
    let result = ResolvedResult::Value(ResolvedTerm::truth(at));
    ResolvedRule {
        module,
        at,
        path: Vec::new(),
        parameters: None,
        result,
        default: false,
        body: Vec::new(),
        otherwise: None,
    }
}
