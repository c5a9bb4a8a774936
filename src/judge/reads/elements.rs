//! Whether rules relate elements of the array that is their input to each other, or look at one of them at a time.
//!
//! A rule that looks at one at a time gives for an array what it gives for each element alone, all together: the array can be
//! taken apart, and a change of one object concerns its own results only. That is so for a set whose definitions each go
//! through the input once, at a place where every element adds its own results: not below `not` or `every`, not in a
//! comprehension that is looked at as a whole, and not by position. A list that is made in this way, in a comprehension or by a
//! rule, may stand for the input. All else counts as relating, so what is not understood is safe.

use std::collections::BTreeSet;

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Query, Rule, RuleBody, RuleHead};

use super::regorus_nodes::{children, constant_path};
use super::rules::Rules;
use crate::rego::references::Path;

/// Rules that may stand for the input, one made of the other.
const LONGEST: usize = 16;

/// What yields the elements that a definition goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Input,
    /// A rule that is a set, below `data`.
    Rule(Path),
    /// A variable that holds a comprehension.
    List(String),
    /// What reads the input, and may not stand for it.
    Unclear,
}

/// Whether the rule at a path may relate two elements of the input; `false` only if it certainly looks at one at a time.
pub(super) fn relates(rules: &Rules<'_>, path: &Path) -> bool {
    !Elements { rules }.are_single(path, 0)
}

struct Elements<'r, 'a> {
    rules: &'r Rules<'a>,
}

impl Elements<'_, '_> {
    /// Whether each definition of a set goes through the input once.
    fn are_single(&self, path: &Path, depth: usize) -> bool {
        depth < LONGEST
            && self.rules.graph.at(path).all(|node| {
                let Rule::Spec { head: RuleHead::Set { key: Some(key), .. }, bodies, .. } = self.rules.rule(node)
                else {
                    return false;
                };
                let one = |body: &RuleBody| {
                    !body.is_else
                        && body.assign.is_none()
                        && Definition { elements: self, module: node.module, depth }.is_single(&body.query, key)
                };
                match bodies.as_slice() {
                    [] => Definition { elements: self, module: node.module, depth }.origins(key).is_empty(),
                    bodies => bodies.iter().all(one),
                }
            })
    }

    /// Whether what is at a path below `data`, or what it uses, reads the input.
    fn reads_input(&self, path: &[String]) -> bool {
        let covered = self.rules.graph.covered(path);
        let reached = self.rules.graph.reachable(covered);
        let mut nodes = reached.into_iter().flat_map(|path| self.rules.graph.at(path));
        nodes.any(|node| node.whole_input || !node.inputs.is_empty())
    }
}

/// One body of a rule.
struct Definition<'r, 'e, 'a> {
    elements: &'r Elements<'e, 'a>,
    module: usize,
    depth: usize,
}

impl Definition<'_, '_, '_> {
    fn is_single(&self, query: &Query, term: &Expr) -> bool {
        let mut origins = self.origins(term);
        origins.extend(self.of_query(query));
        match origins.as_slice() {
            [] => true,
            [origin] => {
                let statements: Vec<&LiteralStmt> = query.stmts.iter().collect();
                self.goes_through(origin, &statements, term, &self.names(&statements, term))
            }
            _ => false,
        }
    }

    /// Returns the names in a body.
    fn names<'n>(&'n self, statements: &[&'n LiteralStmt], term: &'n Expr) -> UsedNames<'n> {
        let mut names = Vec::new();
        for statement in statements {
            of_statement(statement, &mut names);
        }
        variables(term, &mut names);
        let rules = self.elements.rules;
        let own = rules.names[&rules.packages[self.module]].iter().chain(rules.aliases[self.module].keys());
        UsedNames { names, global: own.map(String::as_str).chain(["input", "data"]).collect() }
    }

    /// Returns what in an expression reads the input.
    fn origins(&self, expr: &Expr) -> Vec<Origin> {
        match expr {
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                let mut all = self.origins(term);
                all.extend(self.of_query(query));
                all
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                let mut all = self.origins(key);
                all.extend(self.origins(value));
                all.extend(self.of_query(query));
                all
            }
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                let mut all: Vec<Origin> = self.document(expr).into_iter().collect();
                all.extend(indices(expr).into_iter().flat_map(|index| self.origins(index)));
                if let Some(base) = computed_base(expr) {
                    all.extend(self.origins(base));
                }
                all
            }
            Expr::Call { fcn, params, .. } => {
                let mut all: Vec<Origin> = self.document(fcn).into_iter().map(|_| Origin::Unclear).collect();
                all.extend(params.iter().flat_map(|param| self.origins(param)));
                all
            }
            _ => children(expr).into_iter().flat_map(|child| self.origins(child)).collect(),
        }
    }

    fn of_query(&self, query: &Query) -> Vec<Origin> {
        query.stmts.iter().flat_map(|statement| self.of_statement(statement)).collect()
    }

    fn of_statement(&self, statement: &LiteralStmt) -> Vec<Origin> {
        // What is replaced may be the input.
        let mut all: Vec<Origin> = statement.with_mods.iter().map(|_| Origin::Unclear).collect();
        match &statement.literal {
            Literal::SomeVars { .. } => {}
            Literal::SomeIn { key, value, collection, .. } => {
                let parts = key.iter().chain([value, collection]);
                all.extend(parts.flat_map(|part| self.origins(part)));
            }
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => all.extend(self.origins(expr)),
            Literal::Every { domain, query, .. } => {
                all.extend(self.origins(domain));
                all.extend(self.of_query(query));
            }
        }
        all
    }

    /// Returns what a reference begins with if that reads the input.
    fn document(&self, expr: &Expr) -> Option<Origin> {
        let (path, _) = constant_path(expr);
        let (first, rest) = path.split_first()?;
        let rules = self.elements.rules;
        let package = &rules.packages[self.module];
        let below = match first.as_str() {
            "input" => return Some(Origin::Input),
            "data" => rest.to_vec(),
            name if rules.names[package].contains(name) => [package.as_slice(), &path].concat(),
            name => match rules.aliases[self.module].get(name)?.split_first()? {
                (root, below) if root == "data" => [below, rest].concat(),
                _ => return Some(Origin::Unclear),
            },
        };
        if !self.elements.reads_input(&below) {
            return None;
        }
        let own = &below[..below.len().min(package.len() + 1)];
        let set = first != "data" && self.elements.rules.graph.at(own).next().is_some();
        Some(if set { Origin::Rule(own.to_vec()) } else { Origin::Unclear })
    }

    /// Whether statements and a term go through the elements of an origin, which stands in them once, one at a time.
    fn goes_through(&self, origin: &Origin, statements: &[&LiteralStmt], term: &Expr, names: &UsedNames<'_>) -> bool {
        if let Origin::Rule(path) = origin
            && !self.elements.are_single(path, self.depth + 1)
        {
            return false;
        }
        let Some(place) = statements.iter().position(|statement| self.has(origin, statement)) else {
            return self.is_iterated(origin, term, names);
        };
        let statement = statements[place];
        if !statement.with_mods.is_empty() {
            return false;
        }
        match &statement.literal {
            Literal::SomeIn { key, value, collection, .. } => {
                let by_position = key.as_ref().is_some_and(|key| !names.is_only_here(key));
                let is_collection = self.is_origin(origin, collection) && !by_position;
                is_collection
                    || key.is_none() && !self.in_expr(origin, value) && self.is_iterated(origin, collection, names)
            }
            Literal::Expr { expr, .. } => {
                let rest: Vec<&LiteralStmt> =
                    statements.iter().enumerate().filter(|(index, _)| *index != place).map(|(_, one)| *one).collect();
                self.is_iterated(origin, expr, names) || self.is_listed(origin, expr, &rest, term, names)
            }
            Literal::SomeVars { .. } | Literal::NotExpr { .. } | Literal::Every { .. } => false,
        }
    }

    /// Whether an expression is `list := [x | … origin[_] …]`, and what follows goes through the list one element at a time.
    fn is_listed(
        &self,
        origin: &Origin,
        expr: &Expr,
        rest: &[&LiteralStmt],
        outer: &Expr,
        names: &UsedNames<'_>,
    ) -> bool {
        let Expr::AssignExpr { op: AssignOp::ColEq | AssignOp::Eq, lhs, rhs, .. } = expr else { return false };
        let (Expr::Var { span, .. }, Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. }) =
            (lhs.as_ref(), rhs.as_ref())
        else {
            return false;
        };
        let inner: Vec<&LiteralStmt> = query.stmts.iter().collect();
        // Twice: where it is bound, and where it is gone through.
        let count = names.count(span.text());
        self.goes_through(origin, &inner, term, names)
            && (count == 1
                || count == 2 && self.goes_through(&Origin::List(span.text().to_owned()), rest, outer, names))
    }

    /// Whether an origin is in an expression as `origin[_]`, where each element adds its own solutions.
    fn is_iterated(&self, origin: &Origin, expr: &Expr, names: &UsedNames<'_>) -> bool {
        match expr {
            Expr::RefDot { refr, .. } => self.is_iterated(origin, refr, names),
            Expr::RefBrack { refr, index, .. } if self.is_origin(origin, refr) => {
                // An element of a set is its own key.
                matches!(origin, Origin::Rule(_)) && !self.in_expr(origin, index) || names.is_only_here(index)
            }
            Expr::RefBrack { refr, index, .. } => {
                let (base, index_has) = (self.in_expr(origin, refr), self.in_expr(origin, index));
                if index_has {
                    !base && self.is_iterated(origin, index, names)
                } else {
                    self.is_iterated(origin, refr, names)
                }
            }
            // A comprehension is a value by itself, and `x = {y | …}` compares with the whole of it.
            Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } | Expr::Var { .. } => false,
            _ => {
                let mut with: Vec<&Expr> =
                    children(expr).into_iter().filter(|child| self.in_expr(origin, child)).collect();
                with.len() == 1 && with.pop().is_some_and(|only| self.is_iterated(origin, only, names))
            }
        }
    }

    /// Whether an expression is an origin, and not something in it.
    fn is_origin(&self, origin: &Origin, expr: &Expr) -> bool {
        match (origin, expr) {
            (Origin::List(name), Expr::Var { span, .. }) => span.text() == name,
            (Origin::Input, expr) => matches!(expr, Expr::Var { span, .. } if span.text() == "input"),
            (Origin::Rule(_), Expr::Var { .. }) => self.document(expr).as_ref() == Some(origin),
            _ => false,
        }
    }

    fn in_expr(&self, origin: &Origin, expr: &Expr) -> bool {
        match origin {
            Origin::List(name) => {
                let mut names = Vec::new();
                variables(expr, &mut names);
                names.contains(&name.as_str())
            }
            _ => !self.origins(expr).is_empty(),
        }
    }

    fn has(&self, origin: &Origin, statement: &LiteralStmt) -> bool {
        match origin {
            Origin::List(name) => {
                let mut names = Vec::new();
                of_statement(statement, &mut names);
                names.contains(&name.as_str())
            }
            _ => !self.of_statement(statement).is_empty(),
        }
    }
}

/// How often each name stands in a whole body, comprehensions included.
struct UsedNames<'e> {
    names: Vec<&'e str>,
    /// Names that are not variables of the body.
    global: BTreeSet<&'e str>,
}

impl UsedNames<'_> {
    fn count(&self, name: &str) -> usize {
        self.names.iter().filter(|used| **used == name).count()
    }

    /// Whether an expression is a variable that stands nowhere else, so that nobody knows its value.
    fn is_only_here(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Var { span, .. } if span.text() == "_"
            || self.count(span.text()) == 1 && !self.global.contains(span.text()))
    }
}

/// Collects the variables of an expression, comprehensions included.
fn variables<'e>(expr: &'e Expr, names: &mut Vec<&'e str>) {
    match expr {
        Expr::Var { span, .. } => names.push(span.text()),
        Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
            variables(term, names);
            query.stmts.iter().for_each(|statement| of_statement(statement, names));
        }
        Expr::ObjectCompr { key, value, query, .. } => {
            variables(key, names);
            variables(value, names);
            query.stmts.iter().for_each(|statement| of_statement(statement, names));
        }
        _ => children(expr).into_iter().for_each(|child| variables(child, names)),
    }
}

/// Collects the variables of a statement. A name that `some` declares is not counted there.
fn of_statement<'e>(statement: &'e LiteralStmt, names: &mut Vec<&'e str>) {
    for with in &statement.with_mods {
        variables(&with.refr, names);
        variables(&with.r#as, names);
    }
    match &statement.literal {
        Literal::SomeVars { .. } => {}
        Literal::SomeIn { key, value, collection, .. } => {
            let parts = key.iter().chain([value, collection]);
            parts.for_each(|part| variables(part, names));
        }
        Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => variables(expr, names),
        Literal::Every { domain, query, .. } => {
            variables(domain, names);
            query.stmts.iter().for_each(|statement| of_statement(statement, names));
        }
    }
}

/// Returns the indices of a reference.
fn indices(mut expr: &Expr) -> Vec<&Expr> {
    let mut found = Vec::new();
    loop {
        match expr {
            Expr::RefBrack { refr, index, .. } => {
                found.push(index.as_ref());
                expr = refr;
            }
            Expr::RefDot { refr, .. } => expr = refr,
            _ => return found,
        }
    }
}

/// Returns what a reference begins with, if that is no name.
fn computed_base(mut expr: &Expr) -> Option<&Expr> {
    while let Expr::RefBrack { refr, .. } | Expr::RefDot { refr, .. } = expr {
        expr = refr;
    }
    (!matches!(expr, Expr::Var { .. })).then_some(expr)
}
