//! Random statements of bodies.

use super::{KnownRule, ModuleGenerator, builtins::opaque};

/// Builtins that `with` replaces, and their replacements.
const REPLACED: [(&str, &str); 4] =
    [("count", "is_array"), ("is_string", "is_array"), ("startswith", "contains"), ("upper", "lower")];

impl ModuleGenerator {
    pub(super) fn statements(&mut self, count: usize, depth: u8, body: &mut Vec<String>) {
        let outside = self.variables.len();
        for _ in 0..count {
            let statement = self.statement(depth);
            body.push(statement);
        }
        // `opa` refuses unused variables.
        if self.variables.len() > outside {
            body.push(format!("is_array([{}])", self.variables[outside..].join(", ")));
        }
    }

    /// Returns a new variable, which is then in scope.
    pub(super) fn variable(&mut self) -> String {
        self.names += 1;
        let name = format!("v{}", self.names);
        self.variables.push(name.clone());
        name
    }

    fn statement(&mut self, depth: u8) -> String {
        match self.random.u8(..20) {
            0..=2 => self.element(),
            3 => self.entry(),
            4 | 5 => {
                let term = self.term(depth);
                format!("{} := {term}", self.variable())
            }
            6 | 7 => self.comparison(depth),
            8 => self.term(depth),
            9 => {
                self.is_closed = true;
                let condition = self.condition(0);
                self.is_closed = false;
                format!("not {condition}")
            }
            10 => self.indexed(),
            11 => self.pattern(),
            12 if depth > 0 && self.syntax.has_keywords() => self.every(depth),
            13 => {
                let of = self.term(0);
                let (path, value) = (self.variable(), self.variable());
                format!("walk({of}, [{path}, {value}])")
            }
            14..=17 if self.replaces => self.with(depth),
            18 => {
                let call = self.builtin_call();
                format!("{} := {call}", self.variable())
            }
            _ => self.condition(depth),
        }
    }

    /// Returns a statement that binds the elements of a collection.
    fn element(&mut self) -> String {
        let of = self.collection();
        let element = self.variable();
        if self.syntax.has_keywords() { format!("some {element} in {of}") } else { format!("{element} := {of}[_]") }
    }

    /// Returns a statement that binds the keys and values of a collection.
    fn entry(&mut self) -> String {
        let of = self.collection();
        let (key, value) = (self.variable(), self.variable());
        if self.syntax.has_keywords() {
            format!("some {key}, {value} in {of}")
        } else {
            format!("some {key}; {value} := {of}[{key}]")
        }
    }

    /// Returns a statement that binds a variable by its use as a key.
    fn indexed(&mut self) -> String {
        let of = self.collection();
        self.names += 1;
        let index = format!("v{}", self.names);
        let statement = format!("{} := {of}[{index}]", self.variable());
        self.variables.push(index);
        statement
    }

    fn pattern(&mut self) -> String {
        let term = self.reference();
        let term = if self.rarely(4) { term } else { opaque(&term) };
        match self.random.u8(..3) {
            0 => format!("[{}, {}] = {term}", self.variable(), self.variable()),
            1 => format!("{{\"name\": {}, \"image\": {}}} = {term}", self.variable(), self.variable()),
            _ => format!("{} = {term}", self.variable()),
        }
    }

    fn every(&mut self, depth: u8) -> String {
        let (of, scope) = (self.collection(), self.variables.clone());
        let variable = self.variable();
        let keys = if self.rarely(4) { format!("{}, ", self.variable()) } else { String::new() };
        let inner = self.condition(depth - 1);
        let used = self.variables[scope.len()..].join(", ");
        self.variables = scope;
        format!("every {keys}{variable} in {of} {{ is_array([{used}]); {inner} }}")
    }

    /// Returns a statement with replaced documents or functions.
    fn with(&mut self, depth: u8) -> String {
        let scope = self.variables.clone();
        let (target, value) = self.replacement();
        let more = if self.rarely(5) { format!(" with input.metadata as {}", self.term(0)) } else { String::new() };
        let statement = match self.random.u8(..5) {
            0 => {
                self.is_closed = true;
                let reference = self.reference();
                self.is_closed = false;
                format!("not {reference}")
            }
            1 => self.comparison(depth),
            2 => {
                let call = self.call(0);
                self.variables = scope;
                format!("{} := {call}", self.variable())
            }
            _ => {
                let reference = self.reference();
                format!("{} := {reference}", self.variable())
            }
        };
        format!("{statement} with {target} as {value}{more}")
    }

    /// Returns the target of a `with`, and its replacement.
    fn replacement(&mut self) -> (String, String) {
        let target = match self.random.u8(..9) {
            0 => "input",
            1 => "input.spec",
            2 => "input.kind",
            3 => "input.spec.containers",
            4 => "data.settings",
            5 => "data.settings.limits.cpu",
            6 => return self.replaced_builtin(),
            _ if self.known.is_empty() => "input.metadata",
            _ => return self.replaced_rule(),
        };
        (target.to_owned(), self.term(1))
    }

    fn replaced_builtin(&mut self) -> (String, String) {
        // A function that calls the builtin it replaces would recurse forever.
        let (target, other) = REPLACED[self.random.usize(..REPLACED.len())];
        let value = if self.bool() { other.to_owned() } else { self.term(1) };
        (target.to_owned(), value)
    }

    /// Replaces a function only by an earlier one, which cannot call it.
    fn replaced_rule(&mut self) -> (String, String) {
        let index = self.random.usize(..self.known.len());
        let KnownRule { target, arity, .. } = self.known[index].clone();
        let before: Vec<String> =
            self.known[..index].iter().filter(|known| known.arity == arity).map(|known| known.name.clone()).collect();
        let value = match arity {
            0 => self.term(1),
            _ if before.is_empty() || self.bool() => self.term(1),
            _ => before[self.random.usize(..before.len())].clone(),
        };
        (target, value)
    }
}
