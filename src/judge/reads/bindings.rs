//! Where variables of a rule get their values, read from the syntax alone.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Query, Ref, Rule, RuleHead};

use super::regorus_nodes::{children, declared, patterns};

/// Counts for each name of a rule the places that may bind one variable of this name. Declarations (`:=`, `some`,
/// parameters) count once together, as each makes a variable of its own; each `=` counts. A variable that is bound twice is a
/// comparison, and assuming too many of these is harmless. What `name = {…}` makes of other variables binds none of them, if
/// it is the only place that can give the name a value; `is_document` tells the names that have one of their own.
pub(super) fn sites(rule: &Rule, is_document: impl Fn(&str) -> bool) -> BTreeMap<String, usize> {
    let mut sites = Sites::default();
    if let Rule::Spec { head, bodies, .. } = rule {
        match head {
            RuleHead::Compr { refr, assign, .. } => {
                sites.expr(refr);
                if let Some(assign) = assign {
                    sites.expr(&assign.value);
                }
            }
            RuleHead::Set { refr, key, .. } => {
                sites.expr(refr);
                if let Some(key) = key {
                    sites.expr(key);
                }
            }
            RuleHead::Func { args, assign, .. } => {
                sites.declaration(args);
                if let Some(assign) = assign {
                    sites.expr(&assign.value);
                }
            }
        }
        for body in bodies {
            body.assign.iter().for_each(|assign| sites.expr(&assign.value));
            sites.query(&body.query);
        }
    }
    for (name, parts) in &sites.made {
        let only = sites.unified.get(name) == Some(&1) && !sites.declared.contains(name) && !sites.found.contains(name);
        // A variable that nothing declares may get its value from the name.
        let bound = |part: &String| sites.declared.contains(part);
        if !(only && parts.iter().all(bound)) || is_document(name) {
            for part in parts {
                *sites.unified.entry(part.clone()).or_default() += 1;
            }
        }
    }
    for name in sites.declared {
        *sites.unified.entry(name).or_default() += 1;
    }
    sites.unified
}

#[derive(Default)]
struct Sites {
    declared: BTreeSet<String>,
    unified: BTreeMap<String, usize>,
    /// Names with the variables of the collections that they are unified with.
    made: Vec<(String, Vec<String>)>,
    /// Names that an index or a call may give a value.
    found: BTreeSet<String>,
}

impl Sites {
    /// A name that occurs twice in these patterns is compared with itself.
    fn declaration<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Ref<Expr>>) {
        let mut here = BTreeSet::new();
        for name in exprs.into_iter().flat_map(|expr| names(expr)) {
            if !here.insert(name.clone()) {
                *self.unified.entry(name).or_default() += 1;
            }
        }
        self.declared.extend(here);
    }

    fn find(&mut self, expr: &Expr) {
        self.found.extend(names(expr));
    }

    fn unification(&mut self, expr: &Expr) {
        for name in names(expr) {
            *self.unified.entry(name).or_default() += 1;
        }
    }

    fn query(&mut self, query: &Query) {
        for statement in &query.stmts {
            match &statement.literal {
                Literal::SomeVars { .. } => {}
                Literal::SomeIn { key, value, collection, .. } => {
                    self.declaration(key.iter().chain([value]));
                    self.expr(collection);
                }
                Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.expr(expr),
                Literal::Every { key, value, domain, query, .. } => {
                    self.declared.extend(key.iter().chain([value]).map(|name| name.text().to_owned()));
                    self.expr(domain);
                    self.query(query);
                }
            }
            statement.with_mods.iter().for_each(|with| self.expr(&with.r#as));
        }
    }

    fn expr(&mut self, expr: &Expr) {
        if let Expr::AssignExpr { lhs, rhs, op, .. } = expr {
            if *op == AssignOp::ColEq {
                self.declaration([lhs]);
            } else if let (Expr::Var { span, .. }, Expr::Array { .. } | Expr::Object { .. }) =
                (lhs.as_ref(), rhs.as_ref())
            {
                self.unification(lhs);
                self.made.push((span.text().to_owned(), names(rhs)));
            } else {
                self.unification(lhs);
                self.unification(rhs);
            }
        }
        match expr {
            Expr::RefBrack { index, .. } => self.find(index),
            Expr::Call { params, .. } => params.iter().for_each(|param| self.find(param)),
            _ => {}
        }
        match expr {
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.expr(term);
                self.query(query);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.expr(key);
                self.expr(value);
                self.query(query);
            }
            other => children(other).into_iter().for_each(|child| self.expr(child)),
        }
    }
}

/// Returns the names in a pattern, also those that a declaration would not count.
fn names(expr: &Expr) -> Vec<String> {
    match expr {
        Expr::Var { span, .. } if span.text() != "_" => vec![span.text().to_owned()],
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().flat_map(|item| names(item)).collect(),
        Expr::Object { fields, .. } => {
            fields.iter().flat_map(|(_, key, value)| [names(key), names(value)].concat()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a body may have more than one solution, or its head several values for one.
pub(super) fn is_multiple(query: Option<&Query>, parameters: &[Ref<Expr>], head: &[&Expr]) -> bool {
    let mut bound = BTreeSet::new();
    patterns(parameters, &mut bound);
    query.is_some_and(|query| !looping(query, &mut bound).is_empty()) || head.iter().any(|expr| loops(expr, &bound))
}

/// Whether each solution of a comprehension's body has another value of `key`: `some key, value in collection`, where
/// nothing else is gone through.
pub(super) fn is_key(query: &Query, key: &Expr, value: &Expr) -> bool {
    let mut bound = BTreeSet::new();
    let [only] = looping(query, &mut bound)[..] else { return false };
    let Literal::SomeIn { key: Some(index), collection, .. } = &only.literal else { return false };
    let is_index = match (index.as_ref(), key) {
        (Expr::Var { span: index, .. }, Expr::Var { span: key, .. }) => index.text() == key.text() && key.text() != "_",
        _ => false,
    };
    is_index && !loops(collection, &bound) && !loops(value, &bound)
}

/// Returns the statements of a body that may have more than one solution, and adds what it declares to what is bound.
fn looping<'q>(query: &'q Query, bound: &mut BTreeSet<String>) -> Vec<&'q LiteralStmt> {
    let mut own = BTreeSet::new();
    declared(query, &mut own);
    for statement in &query.stmts {
        // Declared without a value: an index that is looped over.
        if let Literal::SomeVars { vars, .. } = &statement.literal {
            own.retain(|name| vars.iter().all(|var| var.text() != name));
        }
    }
    bound.extend(own);
    let is_looping = |statement: &&LiteralStmt| match &statement.literal {
        Literal::Expr { expr, .. } => loops(expr, bound),
        Literal::Every { domain, .. } => loops(domain, bound),
        // Nothing is bound inside of these.
        Literal::SomeVars { .. } | Literal::NotExpr { .. } => false,
        Literal::SomeIn { .. } => true,
    };
    query.stmts.iter().filter(is_looping).collect()
}

fn loops(expr: &Expr, bound: &BTreeSet<String>) -> bool {
    let own = match expr {
        Expr::RefBrack { index, .. } => match index.as_ref() {
            Expr::Var { span, .. } => !bound.contains(span.text()),
            Expr::Array { .. } | Expr::Object { .. } => true,
            _ => false,
        },
        Expr::Call { fcn, .. } => matches!(fcn.as_ref(), Expr::Var { span, .. } if span.text() == "walk"),
        _ => false,
    };
    own || children(expr).into_iter().any(|child| loops(child, bound))
}
