//! `not` with operands that are undefined.
//!
//! OPA takes the operands out of a negated expression, so that an undefined one makes the statement undefined; the
//! evaluator makes it true. Only references under `==` and `=`, and a reference alone, stay inside. (`rewriteExprTerms` and
//! `rewriteDynamicTerms` in OPA's `ast/compile.go`.) With `import future.keywords.not` both mean the same.

use super::{outline::Package, scopes::Fresh};
use crate::rego::syntax::{Body, Expr, Key, Kind, Module, Statement, What, never};

pub(super) fn rewrite(module: &mut Module, package: &Package, fresh: &mut Fresh) {
    let inside = module.imports.iter().filter_map(|import| import.path.path()).any(|path| {
        let words: Vec<&str> = path.iter().map(|name| &**name).collect();
        words == ["future", "keywords"] || words == ["future", "keywords", "not"]
    });
    if inside {
        return comparisons(module);
    }
    for rule in &mut module.rules {
        rule.each_body(&mut |body| {
            if !body.iter().any(|statement| matches!(statement.what, What::Not(_))) {
                return;
            }
            let mut outside = Outside { package, fresh, taken: Vec::new() };
            let mut rewritten = Body::new();
            for mut statement in std::mem::take(body) {
                if let What::Not(expr) = &mut statement.what {
                    outside.negated(expr);
                    rewritten.extend(
                        outside.taken.drain(..).map(|taken| Statement { with: statement.with.clone(), ..taken }),
                    );
                }
                rewritten.push(statement);
            }
            *body = rewritten;
        });
    }
}

/// With the import, `not x = y` is a body of its own: it binds nothing outside.
fn comparisons(module: &mut Module) {
    for rule in &mut module.rules {
        rule.each_body(&mut |body| {
            for statement in body {
                let What::Not(expr @ Expr { kind: Kind::Binary("=", ..), .. }) = &mut statement.what else { continue };
                let inner = expr.take();
                statement.what = What::Expr(never(statement.at, vec![Statement::plain(inner)]));
            }
        });
    }
}

struct Outside<'a> {
    package: &'a Package,
    fresh: &'a mut Fresh,
    /// Statements to be inserted before the negated one.
    taken: Vec<Statement>,
}

impl Outside<'_> {
    fn negated(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            Kind::Binary("==" | "=", _, left, right) => {
                self.keep(left);
                self.keep(right);
            }
            Kind::Binary(..) | Kind::In { .. } | Kind::Call(..) | Kind::Minus(_) => {
                expr.parts(&mut |part| self.take(part));
            }
            _ => self.keep(expr),
        }
    }

    /// Takes out what is inside an expression, a reference itself may stay.
    fn keep(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            Kind::Ref(head, keys) => {
                if !matches!(head.kind, Kind::Name(_)) {
                    self.take(head);
                }
                for key in keys {
                    if let Key::Index(index) = key {
                        self.take(index);
                    }
                }
            }
            Kind::Name(_) => {}
            _ => self.take(expr),
        }
    }

    /// Takes out an expression if it can be undefined.
    fn take(&mut self, expr: &mut Expr) {
        let undefined = match &mut expr.kind {
            Kind::Scalar(_) | Kind::Comprehension(_) => false,
            Kind::Name(name) => matches!(&**name, "data" | "input") || self.package.rules.contains_key(name),
            Kind::Array(_) | Kind::Set(_) | Kind::Object(_) => {
                expr.parts(&mut |part| self.take(part));
                false
            }
            Kind::Ref(..) => {
                self.keep(expr);
                true
            }
            Kind::Call(..) | Kind::Binary(..) | Kind::In { .. } | Kind::Minus(_) | Kind::Template(_) => {
                expr.parts(&mut |part| self.take(part));
                true
            }
        };
        if undefined {
            let name = Expr::name(expr.at, &self.fresh.name("operand"));
            let value = std::mem::replace(expr, name.clone());
            self.taken.push(Statement::plain(Expr::binary(":=", name, value)));
        }
    }
}
