//! Random terms.

use super::{KnownRule, LITERALS, ModuleGenerator, builtins::opaque};

const PATHS: [&str; 26] = [
    "input.kind",
    "input.apiVersion",
    "input.metadata.name",
    "input.metadata.namespace",
    "input.metadata.labels",
    "input.metadata.labels.app",
    "input.metadata.annotations",
    "input.spec.replicas",
    "input.spec.containers",
    "input.spec.containers[0].image",
    "input.spec.hostNetwork",
    "input.spec.containers[_].image",
    "input.spec.containers[_].resources.limits.memory",
    "input.spec.containers[_].securityContext.privileged",
    "input.spec.containers[_].ports[_].containerPort",
    "input.spec.containers[_].env",
    "input.spec.volumes",
    "input.spec.template.spec.containers",
    "input.spec.securityContext",
    "input.spec.none",
    "input.spec.ports",
    "data.settings.limits.cpu",
    "data.settings.limits",
    "data.settings.names",
    "input.metadata",
    "input.spec",
];
const CALLS: [(&str, usize); 22] = [
    ("count", 1),
    ("sum", 1),
    ("sort", 1),
    ("upper", 1),
    ("to_number", 1),
    ("is_string", 1),
    ("is_object", 1),
    ("is_null", 1),
    ("startswith", 2),
    ("contains", 2),
    ("concat", 2),
    ("object.get", 3),
    ("object.keys", 1),
    ("array.concat", 2),
    ("format_int", 2),
    ("max", 1),
    ("split", 2),
    ("numbers.range", 2),
    ("intersection", 1),
    ("type_name", 1),
    ("abs", 1),
    ("object.union", 2),
];

impl ModuleGenerator {
    pub(super) fn condition(&mut self, depth: u8) -> String {
        match self.random.u8(..5) {
            0 => self.call(depth.min(1)),
            1 => self.reference(),
            2 if self.syntax.has_keywords() => {
                let (left, right) = (self.term(0), self.collection());
                if self.rarely(4) { format!("\"a\", {left} in {right}") } else { format!("{left} in {right}") }
            }
            _ => self.comparison(depth),
        }
    }

    pub(super) fn comparison(&mut self, depth: u8) -> String {
        let operator = self.one(&["==", "==", "!=", "<", "<=", ">", ">="]);
        let (left, right) = (self.operand(), if self.rarely(3) { self.argument(depth.min(1)) } else { self.operand() });
        format!("{left} {operator} {right}")
    }

    pub(super) fn key(&mut self) -> String {
        if self.variables.is_empty() || self.rarely(3) {
            return self.one(&["\"a\"", "\"b\"", "input.kind", "input.metadata.name"]).to_owned();
        }
        self.variables[self.random.usize(..self.variables.len())].clone()
    }

    /// Returns a term that is mostly a collection.
    pub(super) fn collection(&mut self) -> String {
        match self.random.u8(..8) {
            0 => "input.spec.containers".to_owned(),
            1 => "input.spec.ports".to_owned(),
            2 => "input.metadata.labels".to_owned(),
            3 => "[1, 2, \"a\"]".to_owned(),
            4 => "{\"a\": 1, \"web\": 2}".to_owned(),
            5 => "{1, \"a\", \"web\"}".to_owned(),
            6 if !self.is_closed => "input.spec.containers[_].args".to_owned(),
            _ => opaque(&self.reference()),
        }
    }

    pub(super) fn path(&mut self) -> String {
        let path = self.one(&PATHS);
        let path = if self.is_closed { path.replace("[_]", "[0]") } else { path.to_owned() };
        let imported = self.aliases.iter().find_map(|(document, name)| {
            let rest = path.strip_prefix(document).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            rest.map(|rest| format!("{name}{rest}"))
        });
        match imported {
            Some(imported) if self.bool() => imported,
            _ => path,
        }
    }

    pub(super) fn reference(&mut self) -> String {
        let rules: Vec<String> =
            self.known.iter().filter(|known| known.arity == 0).map(|known| known.name.clone()).collect();
        let base = match self.random.u8(..6) {
            0 | 1 if !self.variables.is_empty() => self.variables[self.random.usize(..self.variables.len())].clone(),
            2..=4 if !rules.is_empty() => rules[self.random.usize(..rules.len())].clone(),
            5 if self.rarely(4) => {
                let document = self.random.usize(..self.documents.len());
                return self.documents[document].clone();
            }
            _ => return self.path(),
        };
        // Most references below a value of a known type would be refused.
        let keyed = if self.rarely(3) { base.clone() } else { opaque(&base) };
        match self.random.u8(..20) {
            0 => format!("{keyed}.{}", self.one(&["a", "name", "y", "web"])),
            1 => format!("{keyed}[{}]", self.key()),
            2..=5 if !self.is_closed => format!("{keyed}[_]"),
            _ => base,
        }
    }

    pub(super) fn functions_known(&self) -> Vec<KnownRule> {
        self.known.iter().filter(|known| known.arity > 0).cloned().collect()
    }

    pub(super) fn call(&mut self, depth: u8) -> String {
        if self.rarely(4) {
            return self.builtin_call();
        }
        let functions = self.functions_known();
        let (name, arity) = if functions.is_empty() || self.rarely(2) {
            let (name, arity) = CALLS[self.random.usize(..CALLS.len())];
            (name.to_owned(), arity)
        } else {
            let function = &functions[self.random.usize(..functions.len())];
            (function.name.clone(), function.arity)
        };
        let arguments: Vec<String> = (0..arity).map(|_| self.argument(depth)).collect();
        format!("{name}({})", arguments.join(", "))
    }

    /// Returns a term whose type is mostly only known in evaluation.
    fn argument(&mut self, depth: u8) -> String {
        if self.rarely(12) { self.term(depth) } else { self.operand() }
    }

    /// Returns mostly a reference to the input, whose type is not known.
    fn operand(&mut self) -> String {
        match self.random.u8(..16) {
            0 => self.reference(),
            1..=3 => opaque(&self.reference()),
            _ => self.path(),
        }
    }

    pub(super) fn term(&mut self, depth: u8) -> String {
        match self.random.u8(..if depth == 0 { 8 } else { 14 }) {
            0 => self.one(&LITERALS).to_owned(),
            1 => opaque(self.one(&LITERALS)),
            2..=7 => self.reference(),
            8 => format!("[{}, {}]", self.term(depth - 1), self.term(depth - 1)),
            9 => format!("{{\"a\": {}, \"k\": {}}}", self.term(depth - 1), self.term(depth - 1)),
            10 => format!("{{{}}}", self.term(depth - 1)),
            11 => self.call(depth - 1),
            12 => {
                let operator = self.one(&["+", "-", "*", "/", "%", "&", "|"]);
                format!("({} {operator} {})", self.operand(), self.operand())
            }
            _ => self.comprehension(depth - 1),
        }
    }

    fn comprehension(&mut self, depth: u8) -> String {
        let scope = self.variables.clone();
        let mut body = Vec::new();
        let count = self.random.usize(1..3);
        self.statements(count, depth, &mut body);
        let term = self.term(0);
        let key = self.key();
        self.variables = scope;
        let body = body.join("; ");
        match self.random.u8(..3) {
            0 => format!("[{term} | {body}]"),
            1 => format!("{{{term} | {body}}}"),
            _ => format!("{{{key}: {term} | {body}}}"),
        }
    }
}
