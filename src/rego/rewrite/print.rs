//! Syntax tree to text. Whatever came from the source stands on its line, and as far as possible at its column, so that
//! what regorus says of the text is true of the source.

use crate::rego::syntax::{
    Body, Branch, Comprehension, ComprehensionKind, Expr, Import, Key, Kind, Module, Name, Position, Rule, Statement,
    What,
};

/// Returns a module as text that regorus parses as what the tree says.
pub(super) fn module(module: &Module) -> String {
    let mut printer = Printer { text: String::new(), at: Position { line: 1, column: 1 } };
    printer.word(module.at, "package");
    printer.expr(&module.package);
    // All of them before the first rule, on the line of the package if need be.
    let first_rule = module.rules.first().map_or(u32::MAX, |rule| rule.at.line);
    for import in &module.imports {
        printer.import(import, first_rule);
    }
    for rule in &module.rules {
        printer.rule(rule);
    }
    printer.text.push('\n');
    printer.text
}

struct Printer {
    text: String,
    /// Where the next character goes.
    at: Position,
}

impl Printer {
    /// Goes to a place, if it is still ahead.
    fn go(&mut self, place: Position) {
        while self.at.line < place.line {
            self.raw("\n");
        }
        while self.at.line == place.line && self.at.column < place.column {
            self.raw(" ");
        }
    }

    fn raw(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '\n' => self.at = Position { line: self.at.line + 1, column: 1 },
                '\t' => self.at.column += 4,
                _ => self.at.column += 1,
            }
        }
        self.text.push_str(text);
    }

    /// Writes something that is not part of what comes before it.
    fn word(&mut self, place: Position, text: &str) {
        self.go(place);
        self.apart(text);
    }

    fn apart(&mut self, text: &str) {
        let joins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ']' | '}' | ')' | '"' | '`' | '-');
        let begins = text
            .starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '(' | '[' | '"' | '`' | '-' | '{'));
        if begins && self.text.ends_with(joins) {
            self.raw(" ");
        }
        self.raw(text);
    }

    fn import(&mut self, import: &Import, first_rule: u32) {
        if import.at.line <= first_rule {
            self.go(import.at);
        }
        self.apart("import");
        self.raw(" ");
        if let Some(path) = import.path.path() {
            let words: Vec<&str> = path.iter().map(|name| &**name).collect();
            self.raw(&words.join("."));
        }
        if let Some(alias) = &import.alias {
            self.raw(" as ");
            self.raw(alias);
        }
    }

    fn rule(&mut self, rule: &Rule) {
        // A rule on the line of another: nothing but a space is between them.
        self.go(rule.at);
        if !self.text.ends_with([' ', '\n']) {
            self.raw(" ");
        }
        if rule.default {
            self.apart("default");
            self.raw(" ");
        }
        self.expr(&rule.name);
        if let Some(parameters) = &rule.parameters {
            self.raw("(");
            self.list(parameters, |printer, parameter| printer.operand(parameter, Tight::Term));
            self.raw(")");
        }
        if let Some(key) = &rule.contains {
            self.apart("contains");
            self.raw(" ");
            self.expr(key);
        }
        if rule.default {
            if let Some((operator, value)) = &rule.first.value {
                self.raw(&format!(" {operator} "));
                self.operand(value, Tight::Term);
            }
            return;
        }
        self.branch(&rule.first);
        for branch in &rule.others {
            self.word(branch.at, "else");
            self.branch(branch);
        }
    }

    fn branch(&mut self, branch: &Branch) {
        if let Some((operator, value)) = &branch.value {
            self.raw(&format!(" {operator} "));
            self.expr(value);
        }
        let Some(body) = &branch.body else { return };
        // Brackets take as little room as they can, so that a body on the line of its head keeps its column.
        self.raw(if branch.conditional { " if{" } else { "{" });
        self.body(body);
        self.raw(" }");
    }

    fn body(&mut self, body: &Body) {
        for (index, statement) in body.iter().enumerate() {
            if index > 0 {
                self.raw("; ");
            }
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        self.go(statement.at);
        match &statement.what {
            What::Expr(expr) => self.expr(expr),
            What::Not(expr) => {
                self.apart("not");
                self.raw(" ");
                self.expr(expr);
            }
            What::Some(names) => {
                self.apart("some");
                for (index, (place, name)) in names.iter().enumerate() {
                    self.raw(if index == 0 { " " } else { "," });
                    self.word(*place, name);
                }
            }
            What::SomeIn { key, value, collection } => {
                self.apart("some");
                self.raw(" ");
                if let Some(key) = key {
                    self.operand(key, Tight::Term);
                    self.raw(",");
                }
                self.operand(value, Tight::Term);
                self.raw(" in ");
                self.operand(collection, Tight::Item);
            }
            What::Every { key, value, collection, body } => self.every(key.as_ref(), value, collection, body),
        }
        for with in &statement.with {
            self.raw(" with ");
            self.expr(&with.target);
            self.raw(" as ");
            self.operand(&with.value, Tight::Pair);
        }
    }

    fn every(&mut self, key: Option<&Name>, value: &Name, collection: &Expr, body: &Body) {
        self.apart("every");
        self.raw(" ");
        if let Some(key) = key {
            self.raw(key);
            self.raw(", ");
        }
        self.raw(value);
        self.raw(" in ");
        self.operand(collection, Tight::Item);
        self.raw(" {");
        self.body(body);
        self.raw(" }");
    }

    fn list<T>(&mut self, items: &[T], mut print: impl FnMut(&mut Self, &T)) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.raw(", ");
            }
            print(self, item);
        }
    }

    /// Writes an expression in parentheses if it would not hold together where it stands.
    fn operand(&mut self, expr: &Expr, tight: Tight) {
        let loose = match &expr.kind {
            Kind::Binary(operator, ..) => match tight {
                Tight::Term => true,
                Tight::Operator(level) => level_of(operator) < level,
                // In brackets this bar would make a comprehension.
                Tight::Element => *operator == "|",
                Tight::Item | Tight::Pair => false,
            },
            Kind::In { key, .. } => !matches!(tight, Tight::Pair | Tight::Element) || key.is_some(),
            Kind::Minus(_) => true,
            _ => false,
        };
        if loose {
            // In the source it stands before what it encloses.
            self.word(Position { column: expr.at.column.saturating_sub(1), ..expr.at }, "(");
            self.expr(expr);
            self.raw(")");
        } else {
            self.expr(expr);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Scalar(text) | Kind::Name(text) => self.word(expr.at, text),
            Kind::Ref(head, keys) => {
                self.operand(head, Tight::Term);
                for key in keys {
                    self.key(key);
                }
            }
            Kind::Call(function, arguments) => {
                self.expr(function);
                self.raw("(");
                self.list(arguments, |printer, argument| printer.operand(argument, Tight::Pair));
                self.raw(")");
            }
            Kind::Array(items) => self.bracketed(expr.at, "[", items, "]"),
            Kind::Set(items) if items.is_empty() => self.word(expr.at, "set()"),
            Kind::Set(items) => self.bracketed(expr.at, "{", items, "}"),
            Kind::Object(fields) => {
                self.word(expr.at, "{");
                self.list(fields, |printer, (key, value)| {
                    printer.operand(key, Tight::Element);
                    printer.raw(": ");
                    printer.operand(value, Tight::Element);
                });
                self.raw("}");
            }
            Kind::Comprehension(comprehension) => self.comprehension(expr.at, comprehension),
            Kind::Binary(operator, place, left, right) => {
                let level = level_of(operator);
                self.operand(left, Tight::Operator(level));
                self.raw(" ");
                self.go(*place);
                self.raw(operator);
                self.raw(" ");
                self.operand(right, Tight::Operator(level + 1));
            }
            Kind::In { key, value, collection } => {
                if let Some(key) = key {
                    self.operand(key, Tight::Item);
                    self.raw(", ");
                }
                self.operand(value, Tight::Item);
                self.raw(" in ");
                self.operand(collection, Tight::Item);
            }
            Kind::Minus(inner) => {
                self.word(expr.at, "- ");
                self.operand(inner, Tight::Term);
            }
            // Gone by now.
            Kind::Template(_) => {}
        }
    }

    fn key(&mut self, key: &Key) {
        match key {
            Key::Dot(name) => {
                self.raw(".");
                self.raw(name);
            }
            Key::Index(index) => {
                self.raw("[");
                self.operand(index, Tight::Pair);
                self.raw("]");
            }
        }
    }

    fn bracketed(&mut self, place: Position, open: &str, items: &[Expr], close: &str) {
        self.word(place, open);
        self.list(items, |printer, item| printer.operand(item, Tight::Element));
        self.raw(close);
    }

    fn comprehension(&mut self, place: Position, comprehension: &Comprehension) {
        let (open, close) = if comprehension.form == ComprehensionKind::Array { ("[", "]") } else { ("{", "}") };
        self.word(place, open);
        if let Some(key) = &comprehension.key {
            self.operand(key, Tight::Element);
            self.raw(": ");
        }
        self.operand(&comprehension.term, Tight::Term);
        self.raw(" | ");
        self.body(&comprehension.body);
        self.raw(close);
    }
}

/// How strongly the place of an expression binds.
#[derive(Clone, Copy)]
enum Tight {
    /// Only a term may stand here.
    Term,
    /// An operand of an operator of this level.
    Operator(u8),
    /// An element of a literal collection.
    Element,
    /// Anything but membership.
    Item,
    /// Anything but membership of a key and a value.
    Pair,
}

fn level_of(operator: &str) -> u8 {
    match operator {
        ":=" | "=" => 0,
        "|" => 2,
        "&" => 3,
        "+" | "-" => 4,
        "*" | "/" | "%" => 5,
        _ => 1,
    }
}
