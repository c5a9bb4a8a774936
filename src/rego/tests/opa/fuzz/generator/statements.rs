//! Random statements of bodies.

use super::{ModuleGenerator, builtins::opaque};

/// Builtins that `with` replaces.
const REPLACED: [&str; 4] = ["count", "is_string", "startswith", "object.get"];

impl ModuleGenerator {
    pub(super) fn statements(&mut self, count: usize, depth: u8, body: &mut Vec<String>) {
        let outside = self.variables.len();
        for _ in 0..count {
            let statement = self.statement(depth);
            body.push(statement);
        }
        // `opa` refuses variables that nothing uses.
        if self.variables.len() > outside {
            body.push(format!("is_array([{}])", self.variables[outside..].join(", ")));
        }
    }

    /// Returns a new variable, which is in scope from now on.
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

    /// Returns a statement with other documents or functions.
    fn with(&mut self, depth: u8) -> String {
        let scope = self.variables.clone();
        let target = self.replaced();
        let functions = self.functions_known();
        let is_function = functions.iter().any(|function| function.target == target) || REPLACED.contains(&&*target);
        let value = if is_function && !functions.is_empty() && self.bool() {
            functions[self.random.usize(..functions.len())].name.clone()
        } else {
            self.term(1)
        };
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

    /// Returns what `with` replaces.
    fn replaced(&mut self) -> String {
        match self.random.u8(..9) {
            0 => "input".to_owned(),
            1 => "input.spec".to_owned(),
            2 => "input.kind".to_owned(),
            3 => "input.spec.containers".to_owned(),
            4 => "data.settings".to_owned(),
            5 => "data.settings.limits.cpu".to_owned(),
            6 => self.one(&REPLACED).to_owned(),
            _ if self.known.is_empty() => "input.metadata".to_owned(),
            _ => {
                let known = self.random.usize(..self.known.len());
                self.known[known].target.clone()
            }
        }
    }
}
