//! Where variables of a rule get their values, read from the syntax alone.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{AssignOp, Expr, Literal, Query, Ref, Rule, RuleHead};

use crate::rego::{
    references::{declared, patterns},
    stack::children,
};

/// Counts for each name of a rule the places that may bind one variable of this name. Declarations (`:=`, `some`,
/// parameters) count once together, as each makes a variable of its own; each `=` counts. A variable that is bound twice is a
/// comparison, and assuming too many of these is harmless.
pub(super) fn sites(rule: &Rule) -> BTreeMap<String, usize> {
    let mut sites = Sites::default();
    if let Rule::Spec { head, bodies, .. } = rule {
        match head {
            RuleHead::Compr { refr, assign, .. } => {
                sites.expr(refr);
                if let Some(assign) = assign {
                    sites.expr(&assign.value);
                }
            }
            RuleHead::Set { key, .. } => key.iter().for_each(|key| sites.expr(key)),
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
    for name in sites.declared {
        *sites.unified.entry(name).or_default() += 1;
    }
    sites.unified
}

#[derive(Default)]
struct Sites {
    declared: BTreeSet<String>,
    unified: BTreeMap<String, usize>,
}

impl Sites {
    /// A name that occurs twice in these patterns is compared with itself.
    fn declaration<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Ref<Expr>>) {
        let mut names = Vec::new();
        exprs.into_iter().for_each(|expr| all_names(expr, &mut names));
        let mut here = BTreeSet::new();
        for name in names {
            if !here.insert(name.clone()) {
                *self.unified.entry(name).or_default() += 1;
            }
        }
        self.declared.extend(here);
    }

    fn unification(&mut self, expr: &Expr) {
        let mut names = Vec::new();
        all_names(expr, &mut names);
        for name in names {
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
            } else {
                self.unification(lhs);
                self.unification(rhs);
            }
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

/// Collects the names in a pattern, also those that a declaration would not count.
fn all_names(expr: &Expr, names: &mut Vec<String>) {
    match expr {
        Expr::Var { span, .. } if span.text() != "_" => names.push(span.text().to_owned()),
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().for_each(|item| all_names(item, names)),
        Expr::Object { fields, .. } => fields.iter().for_each(|(_, key, value)| {
            all_names(key, names);
            all_names(value, names);
        }),
        _ => {}
    }
}

/// Whether a body may have more than one solution, or its head several values for one.
pub(super) fn is_multiple(query: Option<&Query>, parameters: &[Ref<Expr>], head: &[&Expr]) -> bool {
    let mut bound = BTreeSet::new();
    patterns(parameters, &mut bound);
    let Some(query) = query else { return head.iter().any(|expr| loops(expr, &bound)) };
    let mut own = BTreeSet::new();
    declared(query, &mut own);
    for statement in &query.stmts {
        match &statement.literal {
            Literal::SomeIn { .. } => return true,
            // Declared without a value: an index that is looped over.
            Literal::SomeVars { vars, .. } => own.retain(|name| vars.iter().all(|var| var.text() != name)),
            _ => {}
        }
    }
    bound.extend(own);
    let loops = |expr: &Expr| loops(expr, &bound);
    let statements = query.stmts.iter().any(|statement| match &statement.literal {
        Literal::Expr { expr, .. } => loops(expr),
        Literal::Every { domain, .. } => loops(domain),
        // Nothing is bound inside of these.
        Literal::SomeVars { .. } | Literal::NotExpr { .. } => false,
        Literal::SomeIn { .. } => true,
    });
    statements || head.iter().any(|expr| loops(expr))
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
