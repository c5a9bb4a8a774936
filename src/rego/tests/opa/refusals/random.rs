//! Random modules, many of them broken: expressions, statements and rules of all kinds, over few names, so that they
//! collide.

use fastrand::Rng;

const NAMES: [&str; 6] = ["a", "b", "c", "p", "q", "f"];
const SCALARS: [&str; 8] = ["1", "2", "\"a\"", "\"b\"", "true", "null", "0.5", "\"\""];
const CALLS: [(&str, usize); 22] = [
    ("count", 1),
    ("upper", 1),
    ("startswith", 2),
    ("concat", 2),
    ("sum", 1),
    ("max", 1),
    ("is_string", 1),
    ("to_number", 1),
    ("object.get", 3),
    ("object.keys", 1),
    ("sprintf", 2),
    ("split", 2),
    ("array.concat", 2),
    ("abs", 1),
    ("json.marshal", 1),
    ("regex.match", 2),
    ("walk", 1),
    ("f", 1),
    ("f", 2),
    ("data.broken.f", 1),
    ("data.other.g", 1),
    ("format_int", 2),
];
const OPERATORS: [&str; 14] = ["==", "!=", "<", ">=", "+", "-", "*", "/", "%", "&", "|", "in", "==", "=="];

pub(super) struct Generator<'a> {
    pub(super) random: &'a mut Rng,
}

impl Generator<'_> {
    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(..of.len())]
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.usize(..NAMES.len())]
    }

    /// Returns mostly a variable.
    fn variable(&mut self) -> String {
        match self.random.u8(..10) {
            0 => "_".to_owned(),
            1 => self.name().to_owned(),
            _ => self.one(&["x", "y", "z"]).to_owned(),
        }
    }

    fn many(&mut self, most: usize, depth: u8) -> String {
        let count = self.random.usize(..=most);
        (0..count).map(|_| self.expression(depth)).collect::<Vec<_>>().join(", ")
    }

    fn reference(&mut self, depth: u8) -> String {
        // No `data[x]`: kaudit treats it as a reference to every rule, and therefore as recursion; OPA considers what
        // is below.
        let head = ["input", "input", "data.broken", "data.other", "x", "y", "a", "p"];
        let mut text = self.one(&head).to_owned();
        for _ in 0..self.random.usize(1..=2) {
            match self.random.u8(..5) {
                0..3 => text.extend([".", self.name()]),
                3 => text.extend(["[", &self.variable(), "]"]),
                _ if text.starts_with("data") => text.extend(["[", &self.variable(), "]"]),
                _ => text.extend(["[", &self.expression(depth), "]"]),
            }
        }
        text
    }

    pub(super) fn expression(&mut self, depth: u8) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return match self.random.u8(..3) {
                0 => self.one(&SCALARS).to_owned(),
                1 => self.variable(),
                _ => format!("input.{}", self.name()),
            };
        };
        match self.random.u8(..14) {
            0..2 => self.one(&SCALARS).to_owned(),
            2..4 => self.variable(),
            4..6 => self.reference(depth),
            6 => format!("[{}]", self.many(3, depth)),
            7 => format!("{{{}}}", self.expression(depth)),
            8 => {
                // Of two equal keys, OPA sees only one.
                let value = self.expression(depth);
                format!("{{\"k\": {value}, {}: {}}}", self.expression(0), self.expression(depth))
            }
            9 => self.comprehension(depth),
            10..12 => self.call(depth),
            _ => {
                let operator = self.one(&OPERATORS);
                format!("({} {operator} {})", self.expression(depth), self.expression(depth))
            }
        }
    }

    fn call(&mut self, depth: u8) -> String {
        let (name, arity) = CALLS[self.random.usize(..CALLS.len())];
        let arity = if self.chance(5) { self.random.usize(..4) } else { arity };
        let arguments: Vec<String> = (0..arity).map(|_| self.expression(depth)).collect();
        format!("{name}({})", arguments.join(", "))
    }

    fn comprehension(&mut self, depth: u8) -> String {
        let body = self.body(2, depth).join("; ");
        let (first, second) = (self.expression(0), self.expression(0));
        match self.random.u8(..3) {
            0 => format!("[{first} | {body}]"),
            1 => format!("{{{first} | {body}}}"),
            _ => format!("{{{first}: {second} | {body}}}"),
        }
    }

    pub(super) fn body(&mut self, most: usize, depth: u8) -> Vec<String> {
        let count = self.random.usize(1..=most);
        (0..count).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: u8) -> String {
        let statement = match self.random.u8(..16) {
            0..4 => format!("{} := {}", self.variable(), self.expression(depth)),
            4 => format!("[{}, {}] := {}", self.variable(), self.variable(), self.expression(depth)),
            // regorus does not parse operations on the left.
            5 => format!("{} = {}", self.reference(1), self.expression(depth)),
            6..8 => format!("some {} in {}", self.variable(), self.expression(depth)),
            8 => format!("some {}, {} in {}", self.variable(), self.variable(), self.expression(depth)),
            9 => format!("some {}", self.one(&["x", "y", "x, y"])),
            10 => format!("not {}", self.expression(depth)),
            11 => {
                let body = self.body(2, depth.saturating_sub(1)).join("; ");
                format!("every {} in {} {{ {body} }}", self.variable(), self.expression(depth))
            }
            12 => format!("print({})", self.many(2, 1)),
            13 => format!("{} == {}", self.expression(1), self.expression(depth)),
            _ => self.expression(depth),
        };
        if self.chance(8) {
            let targets = ["input", "input.a", "data.other.a", "data.broken.p", "count", "f", "x", "data.broken.p.a"];
            let values = ["1", "x", "{\"a\": 1}", "count", "f", "input.b", "upper"];
            return format!("{statement} with {} as {}", self.one(&targets), self.one(&values));
        }
        statement
    }

    pub(super) fn rule(&mut self) -> String {
        let name = self.name();
        let body = format!("{{\n\t{}\n}}", self.body(4, 2).join("\n\t"));
        match self.random.u8(..12) {
            0 => format!("{name} := {}", self.expression(2)),
            1 => format!("{name} if {body}"),
            2..4 => format!("{name} := {} if {body}", self.expression(1)),
            4 => format!("{name} contains {} if {body}", self.expression(1)),
            5 => format!("{name}[{}] := {} if {body}", self.variable(), self.expression(1)),
            6 => format!("default {name} := {}", self.expression(1)),
            7..9 => format!("f({}) := {} if {body}", self.variable(), self.expression(1)),
            9 => format!("{name}.{} := {}", self.name(), self.expression(2)),
            10 => format!("{name} := {} if {body} else := {}", self.expression(1), self.expression(1)),
            _ => format!("f({}, {}) := {}", self.variable(), self.variable(), self.expression(1)),
        }
    }
}

/// Modules in which every name is declared before it is used, so that most of their errors are type errors.
pub(super) struct DeclaredNames<'a> {
    random: &'a mut Rng,
    /// Variables in scope.
    variables: Vec<String>,
    /// Rules that may be used; only earlier ones, so that none is recursive.
    rules: Vec<String>,
    next: usize,
}

impl<'a> DeclaredNames<'a> {
    pub(super) fn new(random: &'a mut Rng) -> Self {
        Self { random, variables: Vec::new(), rules: Vec::new(), next: 0 }
    }

    fn plain(&mut self) -> Generator<'_> {
        Generator { random: self.random }
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn known(&mut self) -> String {
        let count = self.variables.len() + 1;
        match self.random.usize(..count) {
            0 => format!("input.{}", self.plain().name()),
            index => self.variables[index - 1].clone(),
        }
    }

    fn expression(&mut self, depth: u8) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return if self.random.bool() { self.plain().one(&SCALARS).to_owned() } else { self.known() };
        };
        match self.random.u8(..16) {
            0 => self.plain().one(&SCALARS).to_owned(),
            1..4 => self.known(),
            4 => {
                let key = match self.random.u8(..4) {
                    0 => format!("[{}]", self.known()),
                    1 => "[_]".to_owned(),
                    2 => format!("[{}]", self.random.u8(..3)),
                    _ => format!(".{}", self.plain().name()),
                };
                let head = self.known();
                format!("{head}{key}")
            }
            5 => format!("[{}, {}]", self.expression(depth), self.expression(depth)),
            6 => format!("{{{}, {}}}", self.expression(depth), self.expression(0)),
            7 => format!("{{\"a\": {}, \"b\": {}}}", self.expression(depth), self.expression(depth)),
            8 => format!("{{{}: {}}}", self.expression(0), self.expression(depth)),
            9 => self.comprehension(depth),
            10..13 => {
                let (name, arity) = CALLS[self.random.usize(..18)];
                let arguments: Vec<String> = (0..arity).map(|_| self.expression(depth)).collect();
                format!("{name}({})", arguments.join(", "))
            }
            13 if !self.rules.is_empty() => {
                let index = self.random.usize(..self.rules.len());
                let rule = self.rules[index].clone();
                if rule.starts_with('f') { format!("{rule}({})", self.expression(depth)) } else { rule }
            }
            _ => {
                let operator = self.plain().one(&OPERATORS);
                format!("({} {operator} {})", self.expression(depth), self.expression(depth))
            }
        }
    }

    fn comprehension(&mut self, depth: u8) -> String {
        let scope = self.variables.len();
        let body = self.body(2, depth).join("; ");
        let (first, second) = (self.expression(0), self.expression(0));
        self.variables.truncate(scope);
        match self.random.u8(..3) {
            0 => format!("[{first} | {body}]"),
            1 => format!("{{{first} | {body}}}"),
            _ => format!("{{{first}: {second} | {body}}}"),
        }
    }

    fn body(&mut self, most: usize, depth: u8) -> Vec<String> {
        let count = self.random.usize(1..=most);
        (0..count).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: u8) -> String {
        let value = self.expression(depth);
        match self.random.u8(..14) {
            0..5 => {
                let name = self.fresh();
                let text = format!("{name} := {value}");
                self.variables.push(name);
                text
            }
            5 => {
                let names = [self.fresh(), self.fresh()];
                let text = format!("[{}, {}] := {value}", names[0], names[1]);
                self.variables.extend(names);
                text
            }
            6 => {
                let name = self.fresh();
                let text = format!("some {name} in {value}");
                self.variables.push(name);
                text
            }
            7 => {
                let names = [self.fresh(), self.fresh()];
                let text = format!("some {}, {} in {value}", names[0], names[1]);
                self.variables.extend(names);
                text
            }
            8 => format!("not {value}"),
            9 => {
                let scope = self.variables.len();
                let name = self.fresh();
                self.variables.push(name.clone());
                let body = self.body(2, depth.saturating_sub(1)).join("; ");
                self.variables.truncate(scope);
                format!("every {name} in {value} {{ {name}; {body} }}")
            }
            10 => format!("{} == {value}", self.known()),
            11 => format!("{} = {value}", self.known()),
            12 => {
                let replaced =
                    self.plain().one(&["input", "input.a", "data.other.a", "data.other", "upper"]).to_owned();
                let by = if replaced == "upper" { "lower".to_owned() } else { self.expression(0) };
                format!("{value} with {replaced} as {by}")
            }
            _ => value,
        }
    }

    fn lines(&mut self, most: usize) -> String {
        format!("{{\n\t{}\n}}", self.body(most, 2).join("\n\t"))
    }

    /// Returns the definitions of one name.
    pub(super) fn rule(&mut self, number: usize) -> String {
        let kind = self.plain().one(&["a", "b", "s", "o", "f", "d", "r"]).to_owned();
        let name = format!("{kind}{number}");
        let count = if matches!(kind.as_str(), "s" | "o" | "f" | "r") { self.random.usize(1..3) } else { 1 };
        let mut text = String::new();
        for _ in 0..count {
            self.variables.clear();
            let definition = match kind.as_str() {
                "a" => format!("{name} := {}", self.expression(2)),
                "b" => {
                    let body = self.lines(3);
                    format!("{name} := {} if {body}", self.expression(1))
                }
                "s" => {
                    let body = self.lines(3);
                    format!("{name} contains {} if {body}", self.expression(1))
                }
                "o" => {
                    let body = self.lines(3);
                    format!("{name}[{}] := {} if {body}", self.known(), self.expression(1))
                }
                "f" => {
                    self.variables.push("v0".to_owned());
                    let body = self.lines(2);
                    format!("{name}(v0) := {} if {body}", self.expression(1))
                }
                "d" => {
                    let body = self.lines(2);
                    let default = self.plain().one(&SCALARS).to_owned();
                    format!("default {name} := {default}\n\n{name} := {} if {body}", self.expression(1))
                }
                _ => {
                    let key = self.plain().name();
                    format!("{name}.{key}.k{} := {}", text.len(), self.expression(2))
                }
            };
            text.extend([&definition, "\n\n"]);
        }
        self.rules.push(name);
        text
    }
}
