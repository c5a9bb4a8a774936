//! Visits the expressions and bodies of a tree to change them.

use super::{Body, Comprehension, Expr, Key, Kind, Piece, Rule, Statement, What};

impl Expr {
    /// Calls `look` for each part of this expression that has a value of its own in the same scope: what is inside a
    /// comprehension is not.
    pub(crate) fn parts<'a>(&'a mut self, look: &mut dyn FnMut(&'a mut Self)) {
        match &mut self.kind {
            Kind::Scalar(_) | Kind::Name(_) | Kind::Comprehension(_) => {}
            Kind::Ref(head, keys) => {
                look(head);
                for key in keys {
                    if let Key::Index(index) = key {
                        look(index);
                    }
                }
            }
            Kind::Call(_, items) | Kind::Array(items) | Kind::Set(items) => items.iter_mut().for_each(look),
            Kind::Object(fields) => fields.iter_mut().for_each(|(key, value)| {
                look(key);
                look(value);
            }),
            Kind::Binary(_, left, right) => {
                look(left);
                look(right);
            }
            Kind::In { key, value, collection } => {
                if let Some(key) = key {
                    look(key);
                }
                look(value);
                look(collection);
            }
            Kind::Minus(inner) => look(inner),
            Kind::Template(pieces) => {
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
    /// Calls `look` for each expression of this statement in its own scope, not for the body of an `every`.
    pub(crate) fn exprs<'a>(&'a mut self, look: &mut dyn FnMut(&'a mut Expr)) {
        match &mut self.what {
            What::Expr(expr) | What::Not(expr) => look(expr),
            What::Some(_) => {}
            What::SomeIn { key, value, collection } => {
                if let Some(key) = key {
                    look(key);
                }
                look(value);
                look(collection);
            }
            What::Every { collection, .. } => look(collection),
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
        if let Kind::Ref(_, keys) = &mut self.name.kind {
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

    /// Calls `look` for each body of this rule, those of comprehensions and `every` too, the inner ones first.
    pub(crate) fn each_body(&mut self, look: &mut dyn FnMut(&mut Body)) {
        self.head_exprs(&mut |expr| bodies_of_expr(expr, look));
        for branch in self.branches() {
            if let Some(body) = &mut branch.body {
                bodies_of_body(body, look);
            }
        }
    }

    /// Calls `look` for each expression, parts first, in all scopes.
    pub(crate) fn each_expr(&mut self, look: &mut dyn FnMut(&mut Expr)) {
        self.head_exprs(&mut |expr| exprs_of_expr(expr, look));
        for branch in self.branches() {
            if let Some(body) = &mut branch.body {
                exprs_of_body(body, look);
            }
        }
    }
}

fn bodies_of_expr(expr: &mut Expr, look: &mut dyn FnMut(&mut Body)) {
    if let Kind::Comprehension(comprehension) = &mut expr.kind {
        let Comprehension { key, term, body, .. } = &mut **comprehension;
        key.iter_mut().chain([term]).for_each(|expr| bodies_of_expr(expr, look));
        bodies_of_body(body, look);
    } else {
        expr.parts(&mut |part| bodies_of_expr(part, look));
    }
}

fn bodies_of_body(body: &mut Body, look: &mut dyn FnMut(&mut Body)) {
    for statement in body.iter_mut() {
        statement.exprs(&mut |expr| bodies_of_expr(expr, look));
        if let What::Every { body, .. } = &mut statement.what {
            bodies_of_body(body, look);
        }
    }
    look(body);
}

fn exprs_of_expr(expr: &mut Expr, look: &mut dyn FnMut(&mut Expr)) {
    if let Kind::Comprehension(comprehension) = &mut expr.kind {
        let Comprehension { key, term, body, .. } = &mut **comprehension;
        key.iter_mut().chain([term]).for_each(|expr| exprs_of_expr(expr, look));
        exprs_of_body(body, look);
    } else {
        expr.parts(&mut |part| exprs_of_expr(part, look));
    }
    look(expr);
}

fn exprs_of_body(body: &mut Body, look: &mut dyn FnMut(&mut Expr)) {
    for statement in body {
        statement.exprs(&mut |expr| exprs_of_expr(expr, look));
        if let What::Every { body, .. } = &mut statement.what {
            exprs_of_body(body, look);
        }
    }
}
