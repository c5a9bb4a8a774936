//! Expressions: the meanings of names, and operators as calls.

use std::collections::BTreeSet;

use super::Resolver;
use crate::{
    builtins::declarations,
    compile::{
        fault::{Code, Fault},
        scope::{Occurrence, declared_names},
        term::{
            DATA, Function, INPUT, ResolvedCall, ResolvedComprehension, ResolvedStatementKind, ResolvedTerm,
            ResolvedValue, TemplatePart, Variable, VariableSet,
        },
        visit,
    },
    constant::Constant,
    syntax::{self, Expr, ExprKind, Key, Name, Piece, Position},
};

impl Resolver<'_> {
    /// Resolves an expression that is a statement.
    pub(super) fn statement_kind(&mut self, expr: &Expr) -> ResolvedStatementKind {
        if let ExprKind::Binary("=", left, right) = &expr.kind {
            let left = self.term(left);
            return ResolvedStatementKind::Unify(left, self.term(right));
        }
        let term = self.term(expr);
        match term.value {
            ResolvedValue::Call(call) => ResolvedStatementKind::Call(*call),
            value => ResolvedStatementKind::Term(ResolvedTerm::new(term.at, value)),
        }
    }

    pub(super) fn term(&mut self, expr: &Expr) -> ResolvedTerm {
        let at = self.moved.unwrap_or(expr.at);
        let value = match &expr.kind {
            ExprKind::Scalar(text) => ResolvedValue::Constant(Constant::scalar(text).unwrap_or(Constant::Null)),
            ExprKind::Name(_) | ExprKind::Ref(..) => return self.reference(expr),
            ExprKind::Array(items) => ResolvedValue::Array(items.iter().map(|item| self.term(item)).collect()),
            ExprKind::Set(items) => ResolvedValue::Set(items.iter().map(|item| self.term(item)).collect()),
            ExprKind::Object(fields) => {
                ResolvedValue::Object(fields.iter().map(|(key, value)| (self.term(key), self.term(value))).collect())
            }
            ExprKind::Comprehension(comprehension) => {
                ResolvedValue::Comprehension(Box::new(self.comprehension(comprehension)))
            }
            ExprKind::Call(function, arguments) => {
                let function = self.function(function);
                let arguments = arguments.iter().map(|argument| self.term(argument)).collect();
                ResolvedValue::Call(Box::new(ResolvedCall { function, arguments }))
            }
            ExprKind::Binary(operator, left, right) => {
                let arguments = vec![self.term(left), self.term(right)];
                builtin(operator_name(operator), arguments)
            }
            ExprKind::In { key, value, collection } => {
                let name = if key.is_some() { "internal.member_3" } else { "internal.member_2" };
                let parts = key.iter().chain([value, collection]);
                builtin(name, parts.map(|part| self.term(part)).collect())
            }
            ExprKind::Minus(inner) => {
                let zero =
                    ResolvedTerm::new(at, ResolvedValue::Constant(Constant::scalar("0").unwrap_or(Constant::Null)));
                builtin("minus", vec![zero, self.term(inner)])
            }
            ExprKind::Template(pieces) => {
                ResolvedValue::Template(pieces.iter().filter_map(|piece| self.piece(piece)).collect())
            }
        };
        ResolvedTerm::new(at, value)
    }

    fn piece(&mut self, piece: &Piece) -> Option<TemplatePart> {
        match piece {
            Piece::Text(text) => Some(TemplatePart::Constant(Constant::scalar(text).unwrap_or(Constant::Null))),
            Piece::Statement(statement) => {
                self.scopes.enter(BTreeSet::new());
                let statement = self.statement(statement);
                self.scopes.leave();
                statement.map(|statement| TemplatePart::Statement(Box::new(statement)))
            }
        }
    }

    fn comprehension(&mut self, comprehension: &syntax::Comprehension) -> ResolvedComprehension {
        let moved = self.moved.take();
        self.scopes.enter(declared_names(&comprehension.body));
        let faults = self.faults.len();
        let body = self.body(&comprehension.body);
        let in_order = self.faults.len() == faults;
        let key = comprehension.key.as_ref().map(|key| self.term(key));
        let term = self.term(&comprehension.term);
        let mut used = VariableSet::new();
        key.iter().chain([&term]).for_each(|term| visit::all(term, &mut used));
        if in_order {
            self.unused(&comprehension.body, &body, &used);
        }
        self.scopes.leave();
        self.moved = moved;
        ResolvedComprehension { form: comprehension.form, key, term, body }
    }

    pub(super) fn key(&mut self, key: &Key, at: Position) -> ResolvedTerm {
        match key {
            Key::Dot(name) => ResolvedTerm::text(at, name),
            Key::Index(index) => self.term(index),
        }
    }

    /// Resolves a name and the keys after it.
    pub(super) fn reference(&mut self, expr: &Expr) -> ResolvedTerm {
        let at = self.moved.unwrap_or(expr.at);
        let (head, keys): (&Expr, &[Key]) = match &expr.kind {
            ExprKind::Ref(head, keys) => (head, keys),
            _ => (expr, &[]),
        };
        let Some(name) = head.as_name() else {
            let mut items = vec![self.term(head)];
            items.extend(keys.iter().map(|key| self.key(key, at)));
            return ResolvedTerm::new(at, ResolvedValue::Ref(items));
        };
        let mut items = match self.global(name).cloned() {
            Some((document, path)) => {
                let keys = path.into_iter().map(|key| ResolvedTerm::new(at, ResolvedValue::Constant(key)));
                std::iter::once(ResolvedTerm::variable(at, document)).chain(keys).collect()
            }
            None => vec![ResolvedTerm::variable(at, self.name(name, keys.is_empty()))],
        };
        items.extend(keys.iter().map(|key| self.key(key, at)));
        let document =
            items.first().and_then(ResolvedTerm::as_variable).is_some_and(|first| first == DATA || first == INPUT);
        if items.len() == 1 && !document { items.remove(0) } else { ResolvedTerm::new(at, ResolvedValue::Ref(items)) }
    }

    /// Returns the variable or the document of a name.
    fn name(&mut self, name: &Name, alone: bool) -> Variable {
        let document = match &**name {
            "_" => return self.variables.free(name),
            "data" => DATA,
            "input" => INPUT,
            _ => return self.scopes.variable(name, self.variables),
        };
        match self.scopes.known(name) {
            Some((variable, occurrence)) if occurrence != Occurrence::Seen => variable,
            _ => {
                if !alone {
                    self.scopes.insert(name, document, Occurrence::Seen);
                }
                document
            }
        }
    }

    /// Whether a name is a declared variable.
    pub(super) fn is_variable(&self, name: &str) -> bool {
        self.scopes
            .known(name)
            .is_some_and(|(variable, _)| !self.scopes.is_free(name, variable) && variable != DATA && variable != INPUT)
    }

    /// Resolves the function of a call.
    fn function(&mut self, function: &Expr) -> Function {
        let Some(path) = function.path() else { return Function::Unknown("function".into()) };
        let (first, rest) = (&path[0], &path[1..]);
        let rest = rest.iter().map(|key| Constant::String(key.as_ref().into()));
        if let Some((document, global)) = self.global(first) {
            let path: Vec<Constant> = global.iter().cloned().chain(rest).collect();
            return if *document == DATA { Function::Rule(path) } else { Function::Unknown(first.clone()) };
        }
        if self.is_variable(first) {
            let message = format!("called function {} shadowed", path.join("."));
            let fault = Fault::new(Code::Compile, self.module, function.at, message);
            let fault = fault.help("a variable has the name of the function; give it another name");
            // In a head it is not a function at all, which OPA reports later.
            let in_head = self.scopes.is_around_head(first);
            self.faults.push(if in_head { fault.recoverable() } else { fault });
            return Function::Unknown(first.clone());
        }
        if &**first == "data" {
            return Function::Rule(rest.collect());
        }
        self.scopes.variable(first, self.variables);
        let name: Name = path.join(".").into();
        if declarations::declaration(&name).is_some() { Function::Builtin(name) } else { Function::Unknown(name) }
    }
}

fn builtin(name: &str, arguments: Vec<ResolvedTerm>) -> ResolvedValue {
    ResolvedValue::Call(Box::new(ResolvedCall { function: Function::Builtin(name.into()), arguments }))
}

/// Returns the builtin for an operator.
fn operator_name(operator: &str) -> &'static str {
    match operator {
        "==" => "equal",
        "!=" => "neq",
        "<" => "lt",
        "<=" => "lte",
        ">" => "gt",
        ">=" => "gte",
        "+" => "plus",
        "-" => "minus",
        "*" => "mul",
        "/" => "div",
        "%" => "rem",
        "&" => "and",
        "|" => "or",
        _ => "eq",
    }
}
