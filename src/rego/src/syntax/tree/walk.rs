//! Mutable traversal of the expressions and bodies of a tree.

use super::{Comprehension, Expr, ExprKind, Key, Piece, Rule, Statement, StatementNode, SyntaxBody};

impl Expr {
    /// Calls `look` for each part of this expression that has a value of its own in the same scope, which excludes the
    /// parts of comprehensions.
    pub(crate) fn parts<'a>(&'a mut self, look: &mut dyn FnMut(&'a mut Self)) {
        match &mut self.kind {
            ExprKind::Scalar(_) | ExprKind::Name(_) | ExprKind::Comprehension(_) => {}
            ExprKind::Ref(head, keys) => {
                look(head);
                for key in keys {
                    if let Key::Index(index) = key {
                        look(index);
                    }
                }
            }
            ExprKind::Call(_, items) | ExprKind::Array(items) | ExprKind::Set(items) => items.iter_mut().for_each(look),
            ExprKind::Object(fields) => fields.iter_mut().for_each(|(key, value)| {
                look(key);
                look(value);
            }),
            ExprKind::Binary(_, left, right) => {
                look(left);
                look(right);
            }
            ExprKind::In { key, value, collection } => {
                if let Some(key) = key {
                    look(key);
                }
                look(value);
                look(collection);
            }
            ExprKind::Minus(inner) => look(inner),
            ExprKind::Template(pieces) => {
                for piece in pieces {
                    if let Piece::Statement(statement) = piece {
                        statement.exprs(look);
                    }
                }
            }
        }
    }
}

impl Statement {
    /// Calls `look` for each expression of this statement in its own scope, which excludes the body of an `every`.
    pub(crate) fn exprs<'a>(&'a mut self, look: &mut dyn FnMut(&'a mut Expr)) {
        match &mut self.what {
            StatementNode::Expr(expr) | StatementNode::Not(expr) => look(expr),
            StatementNode::Some(_) => {}
            StatementNode::SomeIn { key, value, collection } => {
                if let Some(key) = key {
                    look(key);
                }
                look(value);
                look(collection);
            }
            StatementNode::Every { collection, .. } => look(collection),
        }
        for with in &mut self.with {
            look(&mut with.target);
            look(&mut with.value);
        }
    }
}

impl Rule {
    /// Calls `look` for each expression of the heads.
    fn head_exprs(&mut self, look: &mut dyn FnMut(&mut Expr)) {
        if let ExprKind::Ref(_, keys) = &mut self.name.kind {
            for key in keys {
                if let Key::Index(index) = key {
                    look(index);
                }
            }
        }
        self.parameters.iter_mut().flatten().chain(&mut self.contains).for_each(&mut *look);
        for branch in self.branches() {
            if let Some((_, value)) = &mut branch.value {
                look(value);
            }
        }
    }

    /// Calls `look` for each body of this rule, including those of comprehensions and `every`, inner ones first.
    pub(crate) fn each_body(&mut self, look: &mut dyn FnMut(&mut SyntaxBody)) {
        self.walk(&mut |visited| {
            if let Visited::Body(body) = visited {
                look(body);
            }
        });
    }

    /// Calls `look` for each expression in all scopes, parts first.
    pub(crate) fn each_expr(&mut self, look: &mut dyn FnMut(&mut Expr)) {
        self.walk(&mut |visited| {
            if let Visited::Expr(expr) = visited {
                look(expr);
            }
        });
    }

    fn walk(&mut self, look: &mut dyn FnMut(Visited<'_>)) {
        self.head_exprs(&mut |expr| walk_expr(expr, look));
        for branch in self.branches() {
            if let Some(body) = &mut branch.body {
                walk_body(body, look);
            }
        }
    }
}

/// An expression or a body, visited after everything inside it.
enum Visited<'t> {
    Expr(&'t mut Expr),
    Body(&'t mut SyntaxBody),
}

fn walk_expr(expr: &mut Expr, look: &mut dyn FnMut(Visited<'_>)) {
    if let ExprKind::Comprehension(comprehension) = &mut expr.kind {
        let Comprehension { key, term, body, .. } = &mut **comprehension;
        key.iter_mut().chain([term]).for_each(|expr| walk_expr(expr, look));
        walk_body(body, look);
    } else {
        expr.parts(&mut |part| walk_expr(part, look));
    }
    look(Visited::Expr(expr));
}

fn walk_body(body: &mut SyntaxBody, look: &mut dyn FnMut(Visited<'_>)) {
    for statement in body.iter_mut() {
        statement.exprs(&mut |expr| walk_expr(expr, look));
        if let StatementNode::Every { body, .. } = &mut statement.what {
            walk_body(body, look);
        }
    }
    look(Visited::Body(body));
}
