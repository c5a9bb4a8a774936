//! Mutable traversal of the expressions and bodies of a tree.

use super::{Comprehension, Expr, ExprKind, Key, Piece, Statement, StatementNode, SyntaxBody, SyntaxRule};

impl Expr {
    /// Calls `visit` for each part of this expression that has a value of its own in the same scope, which excludes the
    /// parts of comprehensions.
    pub(crate) fn parts<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Self)) {
        match &mut self.kind {
            ExprKind::Scalar(_) | ExprKind::Name(_) | ExprKind::Comprehension(_) => {}
            ExprKind::Ref(head, keys) => {
                visit(head);
                for key in keys {
                    if let Key::Index(index) = key {
                        visit(index);
                    }
                }
            }
            ExprKind::Call(_, items) | ExprKind::Array(items) | ExprKind::Set(items) => {
                items.iter_mut().for_each(visit);
            }
            ExprKind::Object(fields) => fields.iter_mut().for_each(|(key, value)| {
                visit(key);
                visit(value);
            }),
            ExprKind::Binary(_, left, right) => {
                visit(left);
                visit(right);
            }
            ExprKind::In { key, value, collection } => {
                if let Some(key) = key {
                    visit(key);
                }
                visit(value);
                visit(collection);
            }
            ExprKind::Minus(inner) => visit(inner),
            ExprKind::Template(pieces) => {
                for piece in pieces {
                    if let Piece::Statement(statement) = piece {
                        statement.exprs(visit);
                    }
                }
            }
        }
    }
}

impl Statement {
    /// Calls `visit` for each expression of this statement in its own scope, which excludes the body of an `every`.
    pub(crate) fn exprs<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Expr)) {
        match &mut self.kind {
            StatementNode::Expr(expr) | StatementNode::Not(expr) => visit(expr),
            StatementNode::Some(_) => {}
            StatementNode::SomeIn { key, value, collection } => {
                if let Some(key) = key {
                    visit(key);
                }
                visit(value);
                visit(collection);
            }
            StatementNode::Every { collection, .. } => visit(collection),
        }
        for with in &mut self.with {
            visit(&mut with.target);
            visit(&mut with.value);
        }
    }
}

impl SyntaxRule {
    /// Calls `visit` for each expression of the heads.
    fn head_exprs(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        if let ExprKind::Ref(_, keys) = &mut self.name.kind {
            for key in keys {
                if let Key::Index(index) = key {
                    visit(index);
                }
            }
        }
        self.parameters.iter_mut().flatten().chain(&mut self.contains).for_each(&mut *visit);
        for branch in self.branches() {
            if let Some((_, value)) = &mut branch.value {
                visit(value);
            }
        }
    }

    /// Calls `visit` for each body of this rule, including those of comprehensions and `every`, inner ones first.
    pub(crate) fn each_body(&mut self, visit: &mut dyn FnMut(&mut SyntaxBody)) {
        self.walk(&mut |visited| {
            if let Visited::Body(body) = visited {
                visit(body);
            }
        });
    }

    /// Calls `visit` for each expression in all scopes, parts first.
    pub(crate) fn each_expr(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        self.walk(&mut |visited| {
            if let Visited::Expr(expr) = visited {
                visit(expr);
            }
        });
    }

    fn walk(&mut self, visit: &mut dyn FnMut(Visited<'_>)) {
        self.head_exprs(&mut |expr| walk_expr(expr, visit));
        for branch in self.branches() {
            if let Some(body) = &mut branch.body {
                walk_body(body, visit);
            }
        }
    }
}

/// An expression or a body, visited after everything inside it.
enum Visited<'t> {
    Expr(&'t mut Expr),
    Body(&'t mut SyntaxBody),
}

fn walk_expr(expr: &mut Expr, visit: &mut dyn FnMut(Visited<'_>)) {
    if let ExprKind::Comprehension(comprehension) = &mut expr.kind {
        let Comprehension { key, term, body, .. } = &mut **comprehension;
        key.iter_mut().chain([term]).for_each(|expr| walk_expr(expr, visit));
        walk_body(body, visit);
    } else {
        expr.parts(&mut |part| walk_expr(part, visit));
    }
    visit(Visited::Expr(expr));
}

fn walk_body(body: &mut SyntaxBody, visit: &mut dyn FnMut(Visited<'_>)) {
    for statement in body.iter_mut() {
        statement.exprs(&mut |expr| walk_expr(expr, visit));
        if let StatementNode::Every { body, .. } = &mut statement.kind {
            walk_body(body, visit);
        }
    }
    visit(Visited::Body(body));
}
