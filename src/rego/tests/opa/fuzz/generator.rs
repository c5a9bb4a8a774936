//! Random modules and inputs.
//!
//! A rule refers to those before it only, so that none needs itself. Terms are chosen by what is in scope, so that most modules
//! are accepted; those that are not are compared as well.

use fastrand::Rng;
use serde_json::{Value, json};

/// Modules of a package `p` and of its library `lib`.
#[derive(Clone)]
pub(super) struct RandomModule {
    library: Vec<RandomDefinition>,
    rules: Vec<RandomDefinition>,
}

/// A definition: what is written before the statements of its body, and behind them.
#[derive(Clone)]
struct RandomDefinition {
    /// The path of what it defines, below the package; `None` for a function.
    path: Option<Vec<String>>,
    head: String,
    body: Vec<String>,
    /// What follows `else`.
    others: Vec<String>,
}

impl RandomDefinition {
    fn text(&self) -> String {
        let body = match self.body.as_slice() {
            [] => String::new(),
            body => format!(" if {{\n\t{}\n}}", body.join("\n\t")),
        };
        let others = self.others.iter().flat_map(|other| [" else ", other.as_str()]);
        let parts = [self.head.as_str(), &body].into_iter().chain(others).chain(["\n"]);
        parts.collect()
    }

    fn smaller(&self) -> Vec<Self> {
        let without = |index: usize| {
            let mut fewer = self.clone();
            fewer.body.remove(index);
            fewer
        };
        let plain = (!self.others.is_empty()).then(|| Self { others: Vec::new(), ..self.clone() });
        plain.into_iter().chain((0..self.body.len()).map(without)).collect()
    }
}

impl RandomModule {
    pub(super) fn texts(&self) -> Vec<String> {
        let text = |package: &str, definitions: &[RandomDefinition]| {
            let texts: Vec<String> = definitions.iter().map(RandomDefinition::text).collect();
            format!("package {package}\n\nimport data.lib\n\n{}", texts.join("\n"))
        };
        vec![text("p", &self.rules), text("lib", &self.library).replace("import data.lib\n\n", "")]
    }

    /// Returns the paths of the rules, and those of the packages.
    pub(super) fn rules(&self) -> Vec<Vec<String>> {
        let in_package = |package: &str, definitions: &[RandomDefinition]| {
            let own = definitions.iter().filter_map(|definition| definition.path.clone());
            let mut paths: Vec<Vec<String>> = own.map(|path| [vec![package.to_owned()], path].concat()).collect();
            paths.sort();
            paths.dedup();
            paths.push(vec![package.to_owned()]);
            paths
        };
        [in_package("p", &self.rules), in_package("lib", &self.library)].concat()
    }

    pub(super) fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for index in (0..self.rules.len()).rev() {
            let mut fewer = self.clone();
            fewer.rules.remove(index);
            all.push(fewer);
        }
        for index in (0..self.library.len()).rev() {
            let mut fewer = self.clone();
            fewer.library.remove(index);
            all.push(fewer);
        }
        for (index, definition) in self.rules.iter().enumerate() {
            all.extend(definition.smaller().into_iter().map(|smaller| {
                let mut fewer = self.clone();
                fewer.rules[index] = smaller;
                fewer
            }));
        }
        for (index, definition) in self.library.iter().enumerate() {
            all.extend(definition.smaller().into_iter().map(|smaller| {
                let mut fewer = self.clone();
                fewer.library[index] = smaller;
                fewer
            }));
        }
        all
    }
}

/// What a reference may name.
#[derive(Clone)]
struct KnownRule {
    name: String,
    /// The number of parameters; 0 for a rule.
    arity: usize,
}

pub(super) struct ModuleGenerator {
    random: Rng,
    known: Vec<KnownRule>,
    /// The variables in scope.
    variables: Vec<String>,
    /// The number of variables so far.
    names: usize,
    /// Nothing may iterate.
    is_closed: bool,
    /// What is made cannot refer to `lib`.
    is_library: bool,
    /// Whether statements may have `with`.
    pub(super) replaces: bool,
}

const PATHS: [&str; 14] = [
    "input.kind",
    "input.metadata.name",
    "input.metadata.labels",
    "input.metadata.labels.app",
    "input.spec.replicas",
    "input.spec.containers",
    "input.spec.containers[0].image",
    "input.spec.hostNetwork",
    "input.spec.containers[_].image",
    "input.spec.none",
    "input.spec.ports",
    "data.settings.limits.cpu",
    "data.settings.names",
    "input.spec",
];
const LITERALS: [&str; 10] = ["1", "0", "2", "\"a\"", "\"web\"", "true", "false", "null", "1.5", "\"Pod\""];
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
    pub(super) fn new(random: Rng) -> Self {
        Self {
            random,
            known: Vec::new(),
            variables: Vec::new(),
            names: 0,
            is_closed: false,
            is_library: true,
            replaces: true,
        }
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(..of.len())]
    }

    /// Whether something is so in one of so many cases.
    fn rarely(&mut self, cases: u8) -> bool {
        self.random.u8(..cases) == 0
    }

    pub(super) fn module(&mut self) -> RandomModule {
        let library = self.definitions("lib", 3);
        // Seen from `p`.
        for known in &mut self.known {
            if !known.name.starts_with("data.") {
                known.name = format!("lib.{}", known.name);
            }
        }
        self.is_library = false;
        let rules = self.definitions("p", 6);
        RandomModule { library, rules }
    }

    fn definitions(&mut self, package: &str, most: usize) -> Vec<RandomDefinition> {
        let mut definitions = Vec::new();
        for number in 0..self.random.usize(1..=most) {
            let name = format!("{}{number}", &package[..1]);
            let begin = definitions.len();
            let known = self.rule(&name, &mut definitions);
            debug_assert!(definitions.len() > begin);
            self.known.extend(known);
        }
        definitions
    }

    /// Adds the definitions of one rule or function; returns what may be referred to.
    fn rule(&mut self, name: &str, definitions: &mut Vec<RandomDefinition>) -> Vec<KnownRule> {
        let count = self.random.usize(1..=3);
        let path = vec![name.to_owned()];
        let rule = |name: String| KnownRule { name, arity: 0 };
        match self.random.u8(..12) {
            0 | 1 => {
                // A function.
                let arity = self.random.usize(1..=2);
                for _ in 0..count {
                    let definition = self.definition(None, |random| random.function(name, arity));
                    definitions.push(definition);
                }
                if self.rarely(4) {
                    let parameters = vec!["_"; arity].join(", ");
                    let head = format!("default {name}({parameters}) := {}", self.one(&LITERALS));
                    definitions.push(RandomDefinition { path: None, head, body: Vec::new(), others: Vec::new() });
                }
                vec![KnownRule { name: name.to_owned(), arity }]
            }
            2..=4 => {
                for _ in 0..count {
                    let definition =
                        self.definition(Some(&path), |random| (format!("{name} contains"), random.term(2)));
                    definitions.push(definition);
                }
                vec![rule(name.to_owned())]
            }
            5 | 6 => {
                for _ in 0..count {
                    let definition = self.definition(Some(&path), |random| {
                        let key = random.key();
                        (format!("{name}[{key}] :="), random.term(2))
                    });
                    definitions.push(definition);
                }
                vec![rule(name.to_owned())]
            }
            7 => {
                // `opa` adds elements to a set that is a value as well, and then to all that are the same.
                let ending = if self.bool() { " contains" } else { " :=" };
                for _ in 0..count {
                    let definition = self.definition(Some(&path), |random| {
                        let key = random.key();
                        let deeper = if random.rarely(2) { format!("[{}]", random.key()) } else { ".y".to_owned() };
                        (format!("{name}[{key}]{deeper}{ending}"), random.term(1))
                    });
                    definitions.push(definition);
                }
                vec![rule(name.to_owned())]
            }
            8 => {
                let is_mixed = self.rarely(3);
                for key in ["a", "b", "web"].iter().take(count) {
                    let own = vec![name.to_owned(), (*key).to_owned()];
                    let mut definition =
                        self.definition(Some(&own), |random| (format!("{name}.{key} :="), random.term(2)));
                    if is_mixed {
                        // Which of these branches `opa` looks at depends on its index.
                        definition.others.clear();
                    }
                    definitions.push(definition);
                }
                if is_mixed {
                    let definition = self.definition(None, |random| {
                        let key = random.key();
                        (format!("{name}[{key}] :="), random.term(1))
                    });
                    definitions.push(definition);
                }
                definitions.push(RandomDefinition {
                    path: None,
                    head: format!("{name}_keys := {{k | {name}[k]}}"),
                    body: Vec::new(),
                    others: Vec::new(),
                });
                vec![rule(name.to_owned()), rule(format!("{name}.a"))]
            }
            _ => {
                let constant = self.one(&LITERALS).to_owned();
                for _ in 0..count {
                    let definition = self.definition(Some(&path), |random| {
                        let value = if random.rarely(3) { random.term(2) } else { constant.clone() };
                        (format!("{name} :="), value)
                    });
                    definitions.push(definition);
                }
                if self.rarely(3) {
                    let value = match self.random.u8(..4) {
                        0 => "[x | some x in [1, 2]]".to_owned(),
                        1 => "{\"a\": [1]}".to_owned(),
                        _ => self.one(&LITERALS).to_owned(),
                    };
                    let head = format!("default {name} := {value}");
                    definitions.push(RandomDefinition { path: Some(path), head, body: Vec::new(), others: Vec::new() });
                }
                vec![rule(name.to_owned())]
            }
        }
    }

    fn bool(&mut self) -> bool {
        self.random.bool()
    }

    fn function(&mut self, name: &str, arity: usize) -> (String, String) {
        let mut parameters = Vec::new();
        for _ in 0..arity {
            parameters.push(match self.random.u8(..8) {
                0 => self.one(&LITERALS).to_owned(),
                1 => {
                    let (left, right) = (self.variable(), self.variable());
                    format!("[{left}, {right}]")
                }
                2 => format!("{{\"name\": {}}}", self.variable()),
                3 => "_".to_owned(),
                _ => self.variable(),
            });
        }
        (format!("{name}({}) :=", parameters.join(", ")), String::new())
    }

    /// Makes a definition: `head` gives the beginning of its head and its value, which is written when the body is known.
    fn definition(
        &mut self,
        path: Option<&Vec<String>>,
        head: impl FnOnce(&mut Self) -> (String, String),
    ) -> RandomDefinition {
        self.variables.clear();
        let is_function = path.is_none();
        let mut body = Vec::new();
        if is_function {
            let (begin, value) = head(self);
            let statements = self.random.usize(..3);
            self.statements(statements, 2, &mut body);
            let value = if value.is_empty() { self.term(1) } else { value };
            return RandomDefinition { path: None, head: format!("{begin} {value}"), body, others: Vec::new() };
        }
        let statements = self.random.usize(1..5);
        self.statements(statements, 2, &mut body);
        let (begin, value) = head(self);
        let can_have_others = begin.ends_with(":=") && !begin.contains('[');
        let others = if can_have_others && self.rarely(4) {
            self.variables.clear();
            let mut other = Vec::new();
            self.statements(1, 1, &mut other);
            vec![format!(":= {} if {{\n\t{}\n}}", self.term(1), other.join("\n\t"))]
        } else {
            Vec::new()
        };
        RandomDefinition { path: path.cloned(), head: format!("{begin} {value}"), body, others }
    }

    fn statements(&mut self, count: usize, depth: u8, body: &mut Vec<String>) {
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
    fn variable(&mut self) -> String {
        self.names += 1;
        let name = format!("v{}", self.names);
        self.variables.push(name.clone());
        name
    }

    fn statement(&mut self, depth: u8) -> String {
        match self.random.u8(..20) {
            0..=2 => {
                let of = self.collection();
                format!("some {} in {of}", self.variable())
            }
            3 => {
                let of = self.collection();
                let (key, value) = (self.variable(), self.variable());
                format!("some {key}, {value} in {of}")
            }
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
            10 => {
                let of = self.collection();
                self.names += 1;
                let index = format!("v{}", self.names);
                let statement = format!("{} := {of}[{index}]", self.variable());
                self.variables.push(index);
                statement
            }
            11 => {
                let term = self.reference();
                match self.random.u8(..3) {
                    0 => format!("[{}, {}] = {term}", self.variable(), self.variable()),
                    1 => format!("{{\"name\": {}, \"image\": {}}} = {term}", self.variable(), self.variable()),
                    _ => format!("{} = {term}", self.variable()),
                }
            }
            12 if depth > 0 => {
                let (of, scope) = (self.collection(), self.variables.clone());
                let variable = self.variable();
                let inner = self.condition(depth - 1);
                self.variables = scope;
                format!("every {variable} in {of} {{ is_array([{variable}]); {inner} }}")
            }
            13 => {
                let of = self.term(0);
                let (path, value) = (self.variable(), self.variable());
                format!("walk({of}, [{path}, {value}])")
            }
            14..=17 if self.replaces => self.with(depth),
            _ => self.condition(depth),
        }
    }

    /// Returns a statement with other documents or functions.
    fn with(&mut self, depth: u8) -> String {
        let scope = self.variables.clone();
        let target = match self.random.u8(..9) {
            0 => "input".to_owned(),
            1 => "input.spec".to_owned(),
            2 => "input.kind".to_owned(),
            3 => "input.spec.containers".to_owned(),
            4 => "data.settings".to_owned(),
            5 => "data.settings.limits.cpu".to_owned(),
            6 => self.one(&["count", "is_string", "startswith", "object.get"]).to_owned(),
            _ => match self.known.clone().as_slice() {
                [] => "input.metadata".to_owned(),
                known => {
                    let known = &known[self.random.usize(..known.len())];
                    if known.name.starts_with("lib.") { format!("data.{}", known.name) } else { known.name.clone() }
                }
            },
        };
        let functions: Vec<String> =
            self.known.iter().filter(|known| known.arity > 0).map(|known| known.name.clone()).collect();
        let value = if target.contains('.') && !functions.is_empty() && self.rarely(4) {
            functions[self.random.usize(..functions.len())].clone()
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

    fn condition(&mut self, depth: u8) -> String {
        match self.random.u8(..5) {
            0 => self.call(depth.min(1)),
            1 => self.reference(),
            2 => {
                let (left, right) = (self.term(0), self.collection());
                format!("{left} in {right}")
            }
            _ => self.comparison(depth),
        }
    }

    fn comparison(&mut self, depth: u8) -> String {
        let operator = self.one(&["==", "==", "!=", "<", "<=", ">", ">="]);
        let (left, right) = (self.operand(), if self.rarely(3) { self.term(depth.min(1)) } else { self.operand() });
        format!("{left} {operator} {right}")
    }

    fn key(&mut self) -> String {
        if self.variables.is_empty() || self.rarely(3) {
            return self.one(&["\"a\"", "\"b\"", "input.kind", "input.metadata.name"]).to_owned();
        }
        self.variables[self.random.usize(..self.variables.len())].clone()
    }

    /// Returns something that mostly can be iterated.
    fn collection(&mut self) -> String {
        match self.random.u8(..8) {
            0 => "input.spec.containers".to_owned(),
            1 => "input.spec.ports".to_owned(),
            2 => "input.metadata.labels".to_owned(),
            3 => "[1, 2, \"a\"]".to_owned(),
            4 => "{\"a\": 1, \"web\": 2}".to_owned(),
            5 => "{1, \"a\", \"web\"}".to_owned(),
            6 if !self.is_closed => "input.spec.containers[_].args".to_owned(),
            _ => self.reference(),
        }
    }

    fn path(&mut self) -> String {
        let path = self.one(&PATHS);
        if self.is_closed { path.replace("[_]", "[0]") } else { path.to_owned() }
    }

    fn reference(&mut self) -> String {
        let rules: Vec<String> =
            self.known.iter().filter(|known| known.arity == 0).map(|known| known.name.clone()).collect();
        let base = match self.random.u8(..6) {
            0 | 1 if !self.variables.is_empty() => self.variables[self.random.usize(..self.variables.len())].clone(),
            2..=4 if !rules.is_empty() => rules[self.random.usize(..rules.len())].clone(),
            5 if self.rarely(4) => {
                let documents = ["data.settings", "input", "data.lib", "lib"];
                return self.one(&documents[..if self.is_library { 2 } else { 4 }]).to_owned();
            }
            _ => return self.path(),
        };
        match self.random.u8(..20) {
            0 => format!("{base}.{}", self.one(&["a", "name", "y", "web"])),
            1 => format!("{base}[{}]", self.key()),
            2..=5 if !self.is_closed => format!("{base}[_]"),
            _ => base,
        }
    }

    fn call(&mut self, depth: u8) -> String {
        let functions: Vec<KnownRule> = self.known.iter().filter(|known| known.arity > 0).cloned().collect();
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

    /// Returns a term whose type is mostly not known before it is evaluated.
    fn argument(&mut self, depth: u8) -> String {
        if self.rarely(12) { self.term(depth) } else { self.operand() }
    }

    /// Returns a reference to the input in most cases, whose type is not known.
    fn operand(&mut self) -> String {
        if self.rarely(4) { self.reference() } else { self.path() }
    }

    fn term(&mut self, depth: u8) -> String {
        match self.random.u8(..if depth == 0 { 8 } else { 14 }) {
            0 | 1 => self.one(&LITERALS).to_owned(),
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

    pub(super) fn odd(&mut self) -> Value {
        match self.random.u8(..10) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(false),
            3 => json!(0),
            4 => json!(1.5),
            5 => json!("web"),
            6 => json!([]),
            7 => json!({}),
            8 => json!(["a", "b"]),
            _ => json!({"name": "a", "image": "b"}),
        }
    }

    /// Returns an input of the shape of a Kubernetes object, with some odd values.
    pub(super) fn input(&mut self) -> Value {
        let mut containers = Vec::new();
        for number in 0..self.random.usize(..4) {
            let mut container = json!({"name": format!("c{number}"), "image": self.one(&["web", "web:latest", "a"])});
            if self.bool() {
                container["args"] = json!(["a", "web"]);
            }
            if self.rarely(5) {
                container = self.odd();
            }
            containers.push(container);
        }
        let mut input = json!({
            "kind": self.one(&["Pod", "Deployment", "a"]),
            "metadata": {"name": self.one(&["web", "a"]), "labels": {"app": "web", "a": "b"}},
            "spec": {"replicas": self.random.u8(..4), "containers": containers, "ports": [{"name": "web", "port": 80}, {"port": 81}]},
        });
        for pointer in [
            "/kind",
            "/metadata/name",
            "/metadata/labels",
            "/spec/replicas",
            "/spec/containers",
            "/spec/ports",
            "/spec",
        ] {
            if self.rarely(12) {
                let odd = self.odd();
                if let Some(value) = input.pointer_mut(pointer) {
                    *value = odd;
                }
            }
        }
        if self.bool() && input["spec"].is_object() {
            input["spec"]["hostNetwork"] = json!(self.bool());
        }
        input
    }
}
