//! What each name means: a variable that hides something outside of its body gets a name of its own, imports are written
//! out, and so is the path of a rule behind `with`.
//!
//! After this pass a name is a rule of the package, `data`, `input`, or a variable; the other passes rely on it.
//! `some x` is removed then: regorus would take it for a second definition in a loop.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::outline::Package;
use crate::rego::syntax::{Body, Comprehension, Expr, Import, Key, Kind, Module, Name, Piece, Rule, Statement, What};

/// Generates names that the module does not use.
pub(super) struct Fresh {
    used: HashSet<Name>,
}

impl Fresh {
    pub(super) fn new(module: &mut Module, package: &Package) -> Self {
        let mut used: HashSet<Name> = package.rules.keys().cloned().collect();
        for rule in &mut module.rules {
            rule.each_expr(&mut |expr| {
                if let Kind::Name(name) = &expr.kind {
                    used.insert(Arc::clone(name));
                }
            });
        }
        Self { used }
    }

    /// Returns `base__1`, `base__2` or so on.
    pub(super) fn name(&mut self, base: &str) -> Name {
        let mut number = 1_usize;
        loop {
            let name: Name = format!("{base}__{number}").into();
            if self.used.insert(Arc::clone(&name)) {
                return name;
            }
            number += 1;
        }
    }
}

/// Gives every name of the module its meaning.
pub(super) fn resolve(module: &mut Module, package: &Package, fresh: &mut Fresh) {
    let mut imports = HashMap::new();
    module.imports.retain(|import| match imported(import) {
        Some((alias, path)) => {
            imports.insert(alias, path);
            false
        }
        None => true,
    });
    let mut resolver = Resolver { package, path: &module.package, imports, fresh, scopes: Vec::new() };
    for rule in &mut module.rules {
        resolver.rule(rule);
        rule.each_body(&mut drop_declarations);
    }
}

/// Returns the alias and the path of an import, if it is one of a document.
fn imported(import: &Import) -> Option<(Name, Expr)> {
    let path = import.path.path()?;
    let document = matches!(&*path[0], "data" | "input") && (path.len() > 1 || &*path[0] == "input");
    let alias = import.alias.clone().or_else(|| path.last().cloned())?;
    document.then(|| (alias, import.path.clone()))
}

fn drop_declarations(body: &mut Body) {
    if let Some(at) = body.first().map(|first| first.at) {
        body.retain(|statement| !matches!(statement.what, What::Some(_)));
        if body.is_empty() {
            body.push(Statement::plain(Expr::scalar(at, "true")));
        }
    }
}

/// One body with what is in its head.
#[derive(Default)]
struct Scope {
    /// What the variables that it declares are called.
    declared: HashMap<Name, Name>,
    /// Names in it, not in the bodies inside.
    named: HashSet<Name>,
}

struct Resolver<'a> {
    package: &'a Package,
    path: &'a Expr,
    imports: HashMap<Name, Expr>,
    fresh: &'a mut Fresh,
    scopes: Vec<Scope>,
}

impl Resolver<'_> {
    fn rule(&mut self, rule: &mut Rule) {
        self.scopes = vec![Scope::default()];
        for parameter in rule.parameters.iter_mut().flatten() {
            self.pattern(parameter);
            self.expr(parameter);
        }
        let Rule { name, contains, first, others, .. } = rule;
        self.scopes.push(scope_of(
            first.body.as_mut(),
            &mut [contains.as_mut(), first.value.as_mut().map(|(_, value)| value)],
        ));
        if let Some(body) = &mut first.body {
            self.body(body);
        }
        // The rule's own name is no reference.
        if let Kind::Ref(_, keys) = &mut name.kind {
            self.keys(keys);
        }
        if let Some(key) = contains {
            self.expr(key);
        }
        if let Some((_, value)) = &mut first.value {
            self.expr(value);
        }
        self.scopes.pop();
        for branch in others {
            self.scopes.push(scope_of(branch.body.as_mut(), &mut [branch.value.as_mut().map(|(_, value)| value)]));
            if let Some(body) = &mut branch.body {
                self.body(body);
            }
            if let Some((_, value)) = &mut branch.value {
                self.expr(value);
            }
            self.scopes.pop();
        }
    }

    /// Declares a variable of the innermost scope.
    fn declare(&mut self, name: &Name) {
        if &**name == "_" {
            return;
        }
        let Some((inner, outer)) = self.scopes.split_last_mut() else { return };
        let global = self.package.rules.contains_key(name)
            || self.imports.contains_key(name)
            || matches!(&**name, "data" | "input");
        let hides = global || outer.iter().any(|scope| scope.named.contains(name) || scope.declared.contains_key(name));
        let known = if hides { self.fresh.name(name) } else { Arc::clone(name) };
        inner.declared.insert(Arc::clone(name), known);
    }

    /// Declares the variables of a pattern.
    fn pattern(&mut self, pattern: &mut Expr) {
        match &mut pattern.kind {
            Kind::Name(name) => {
                let name = Arc::clone(name);
                self.declare(&name);
            }
            Kind::Array(items) => items.iter_mut().for_each(|item| self.pattern(item)),
            Kind::Object(fields) => fields.iter_mut().for_each(|(_, value)| self.pattern(value)),
            _ => {}
        }
    }

    fn body(&mut self, body: &mut Body) {
        for statement in body {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &mut Statement) {
        for with in &mut statement.with {
            self.with_target(&mut with.target);
            self.expr(&mut with.value);
        }
        match &mut statement.what {
            What::Expr(Expr { kind: Kind::Binary(":=", _, left, right), .. }) => {
                // The right side does not see what the left declares.
                self.expr(right);
                self.pattern(left);
                self.expr(left);
            }
            What::Expr(expr) | What::Not(expr) => self.expr(expr),
            What::Some(names) => names.iter().for_each(|(_, name)| self.declare(name)),
            What::SomeIn { key, value, collection } => {
                self.expr(collection);
                for pattern in key.iter_mut().chain([value]) {
                    self.pattern(pattern);
                    self.expr(pattern);
                }
            }
            What::Every { key, value, collection, body } => {
                self.expr(collection);
                self.scopes.push(scope_of(Some(body), &mut []));
                for name in key.iter_mut().chain([value]) {
                    self.declare(name);
                    if let Some(known) = self.local(name) {
                        *name = known;
                    }
                }
                self.body(body);
                self.scopes.pop();
            }
        }
    }

    /// What a variable is called, if the name is declared.
    fn local(&self, name: &Name) -> Option<Name> {
        self.scopes.iter().rev().find_map(|scope| scope.declared.get(name)).cloned()
    }

    fn expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            Kind::Name(_) => self.reference(expr),
            Kind::Ref(head, keys) => {
                self.expr(head);
                self.keys(keys);
                flatten(expr);
            }
            Kind::Call(function, arguments) => {
                self.function(function);
                for argument in arguments {
                    self.expr(argument);
                }
            }
            Kind::Comprehension(comprehension) => {
                let Comprehension { key, term, body, .. } = &mut **comprehension;
                self.scopes.push(scope_of(Some(body), &mut [Some(&mut *term), key.as_mut()]));
                self.body(body);
                for term in key.iter_mut().chain([term]) {
                    self.expr(term);
                }
                self.scopes.pop();
            }
            Kind::Template(pieces) => {
                for piece in pieces {
                    if let Piece::Statement(statement) = piece {
                        self.statement(statement);
                    }
                }
            }
            _ => expr.parts(&mut |part| self.expr(part)),
        }
    }

    fn keys(&mut self, keys: &mut [Key]) {
        for key in keys {
            if let Key::Index(index) = key {
                self.expr(index);
            }
        }
    }

    /// Writes a variable as what it is called, and an import as what it stands for.
    fn reference(&self, expr: &mut Expr) {
        let Some(name) = expr.as_name() else { return };
        if let Some(known) = self.local(name) {
            expr.kind = Kind::Name(known);
        } else if let Some(path) = self.imports.get(name) {
            expr.kind = path.kind.clone();
            move_to(expr);
        }
    }

    /// A function is named like a document; no variable can hide it.
    fn function(&mut self, function: &mut Expr) {
        if let Kind::Ref(_, keys) = &mut function.kind {
            self.keys(keys);
        }
        let name = match &mut function.kind {
            Kind::Ref(head, _) => head,
            _ => &mut *function,
        };
        if let Some(path) = name.as_name().and_then(|name| self.imports.get(name)) {
            name.kind = path.kind.clone();
            move_to(name);
        }
        flatten(function);
    }

    /// regorus takes `with rule as …` for functions only.
    fn with_target(&mut self, target: &mut Expr) {
        let name = match &mut target.kind {
            Kind::Ref(head, _) => head,
            _ => &mut *target,
        };
        let Some(text) = name.as_name() else { return };
        if let Some(path) = self.imports.get(text) {
            name.kind = path.kind.clone();
            move_to(name);
        } else if self.package.rules.get(text).is_some_and(|known| known.parameters.is_none()) {
            let rule = Key::Dot(Arc::clone(text));
            name.kind = match self.path.clone().kind {
                Kind::Ref(head, mut keys) => {
                    let first = Key::Dot(head.as_name().cloned().unwrap_or_else(|| "".into()));
                    keys.insert(0, first);
                    keys.push(rule);
                    Kind::Ref(Box::new(Expr::new(name.at, Kind::Name("data".into()))), keys)
                }
                Kind::Name(package) => {
                    let keys = vec![Key::Dot(package), rule];
                    Kind::Ref(Box::new(Expr::new(name.at, Kind::Name("data".into()))), keys)
                }
                other => other,
            };
            move_to(name);
        }
        flatten(target);
    }
}

/// Gives an expression that was written elsewhere the place where it stands now.
fn move_to(expr: &mut Expr) {
    let at = expr.at;
    if let Kind::Ref(head, keys) = &mut expr.kind {
        head.at = at;
        for key in keys {
            if let Key::Index(index) = key {
                index.at = at;
            }
        }
    }
}

/// Makes one reference of a reference with keys behind it.
fn flatten(expr: &mut Expr) {
    if let Kind::Ref(head, keys) = &mut expr.kind
        && let Kind::Ref(inner, first) = &mut head.kind
    {
        let mut all = std::mem::take(first);
        all.append(keys);
        let inner = inner.take();
        expr.kind = Kind::Ref(Box::new(inner), all);
    }
}

/// The scope of a body, with the expressions that see its variables.
fn scope_of(body: Option<&mut Body>, heads: &mut [Option<&mut Expr>]) -> Scope {
    let mut scope = Scope::default();
    for head in heads.iter_mut().flatten() {
        collect(head, &mut scope.named);
    }
    for statement in body.into_iter().flatten() {
        if let What::Some(names) = &statement.what {
            scope.named.extend(names.iter().map(|(_, name)| Arc::clone(name)));
        }
        statement.exprs(&mut |expr| collect(expr, &mut scope.named));
    }
    scope
}

fn collect(expr: &mut Expr, names: &mut HashSet<Name>) {
    if let Kind::Name(name) = &expr.kind {
        names.insert(Arc::clone(name));
    }
    expr.parts(&mut |part| collect(part, names));
}
