//! Random expressions: mostly well-typed, over every function, with random objects.

use std::collections::BTreeMap;

use fastrand::Rng;
use kaudit_cel::CelType;
use serde_json::{Map, Value as Json, json};

const DECLARATIONS: &str = include_str!("../../src/declarations.txt");
/// Fields of objects.
const FIELDS: [&str; 12] = ["n", "f", "s", "b", "none", "list", "list2", "m", "t", "d", "q", "containers"];

struct GeneratedOverload {
    name: &'static str,
    is_member: bool,
    arguments: Vec<CelType>,
    result: CelType,
}

pub(crate) struct ExpressionGenerator {
    random: Rng,
    overloads: Vec<GeneratedOverload>,
    variables: Vec<(String, CelType)>,
}

/// Splits a list of types at the commas outside of parentheses.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut level) = (vec![String::new()], 0);
    for c in text.chars() {
        level += i32::from(c == '(') - i32::from(c == ')');
        if c == ',' && level == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(c);
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn overload(line: &'static str) -> GeneratedOverload {
    let mut words = line.splitn(4, ' ');
    let (name, _, style) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let rest = words.next().unwrap();
    let mut level = 0;
    let end = rest.find(|c| {
        level += i32::from(c == '(') - i32::from(c == ')');
        level == 0
    });
    let (arguments, result) = rest.split_at(end.unwrap() + 1);
    let arguments = split(&arguments[1..arguments.len() - 1]).iter().map(|one| CelType::parse(one)).collect();
    GeneratedOverload { name, is_member: style == "member", arguments, result: CelType::parse(result.trim()) }
}

impl ExpressionGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        let is_usable = |overload: &GeneratedOverload| {
            let is_internal = overload.name.contains('@') && overload.name != "@in";
            !is_internal && !format!("{:?}{:?}", overload.arguments, overload.result).contains("authorization")
        };
        let overloads = DECLARATIONS.lines().map(overload).filter(is_usable).collect();
        Self { random: Rng::with_seed(seed), overloads, variables: Vec::new() }
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(..of.len())]
    }

    fn rarely(&mut self, cases: u8) -> bool {
        self.random.u8(..cases) == 0
    }

    /// Returns an expression of a random type.
    pub(crate) fn expression(&mut self) -> String {
        let of = if self.random.bool() { CelType::Bool } else { self.simple_type() };
        let depth = self.random.u8(1..4);
        self.expr(&of, depth)
    }

    /// Returns an object with random values.
    pub(crate) fn bindings(&mut self) -> Map<String, Json> {
        let mut object = Map::new();
        for field in FIELDS {
            if !self.rarely(8) {
                let value = if self.rarely(6) { self.json(2) } else { usual(field) };
                object.insert(field.to_owned(), value);
            }
        }
        [("object".to_owned(), Json::Object(object)), ("params".to_owned(), self.json(3))].into_iter().collect()
    }

    fn json(&mut self, depth: u8) -> Json {
        match self.random.u8(..if depth == 0 { 6 } else { 8 }) {
            0 => Json::Null,
            1 => json!(self.random.bool()),
            2 => json!(self.random.i64(-3..4)),
            3 => json!([0.5, -1.0, 1e30, 1.0, 9_223_372_036_854_775_807.0][self.random.usize(..5)]),
            4 => json!(self.text()),
            5 => json!([i64::MAX, i64::MIN, 0][self.random.usize(..3)]),
            6 => (0..self.random.usize(..4)).map(|_| self.json(depth - 1)).collect(),
            // One key: the API server iterates over maps in a random order.
            _ => json!({ self.one(&["a", "b", "é"]): self.json(depth - 1) }),
        }
    }

    fn text(&mut self) -> &'static str {
        self.one(&[
            "",
            "a",
            "b",
            "é😀",
            "abc",
            "a,b,,c",
            " x ",
            "1",
            "-1",
            "1.5",
            "100Mi",
            "1Ki",
            "127.0.0.1",
            "::1",
            "10.0.0.0/8",
            "2001:db8::/32",
            "https://example.com:80/a?b=c",
            "1.2.3",
            "v1.2",
            "1.0.0-a.1",
            "1h",
            "90s",
            "2020-01-01T00:00:00Z",
            "Europe/Paris",
            "-02:30",
            "[a-z]+",
            "^a",
            "(",
            "%s",
            "%d %s",
            "true",
            "dns1123Label",
            "my-name",
            "aGVsbG8=",
            "2024-01-31",
        ])
    }

    fn simple_type(&mut self) -> CelType {
        let names = [
            "int",
            "string",
            "bool",
            "double",
            "uint",
            "bytes",
            "google.protobuf.Duration",
            "google.protobuf.Timestamp",
            "list(int)",
            "list(string)",
            "map(string, int)",
            "optional_type(int)",
            "dyn",
            "kubernetes.Quantity",
            "list(list(int))",
            "optional_type(string)",
            "net.IP",
            "net.CIDR",
            "kubernetes.URL",
            "kubernetes.Semver",
            "map(string, string)",
            "null_type",
        ];
        let name = self.one(&names);
        CelType::parse(name)
    }

    fn expr(&mut self, of: &CelType, depth: u8) -> String {
        if depth == 0 {
            return self.leaf(of);
        }
        match self.random.u8(..20) {
            0..=2 => self.leaf(of),
            3 => {
                let (condition, yes) = (self.expr(&CelType::Bool, depth - 1), self.expr(of, depth - 1));
                format!("({condition} ? {yes} : {})", self.expr(of, depth - 1))
            }
            // Another type than wanted.
            4 if self.rarely(3) => {
                let other = self.simple_type();
                self.expr(&other, depth - 1)
            }
            5 => self.path(),
            6 | 7 => self.fold(of, depth),
            _ => self.call(of, depth),
        }
    }

    /// Returns a call whose result has a type.
    fn call(&mut self, of: &CelType, depth: u8) -> String {
        for _ in 0..300 {
            let index = self.random.usize(..self.overloads.len());
            let mut bound = BTreeMap::new();
            if !unify(&self.overloads[index].result, of, &mut bound) {
                continue;
            }
            let chosen = &self.overloads[index];
            let (name, is_member, arguments) = (chosen.name, chosen.is_member, chosen.arguments.clone());
            let parameter = self.simple_type();
            let arguments: Vec<String> = arguments
                .iter()
                .map(|argument| {
                    let argument = bind(argument, &bound, &parameter);
                    self.expr(&argument, depth - 1)
                })
                .collect();
            return self.rendered(name, is_member, &arguments);
        }
        self.leaf(of)
    }

    fn rendered(&mut self, name: &str, is_member: bool, arguments: &[String]) -> String {
        let all = arguments.join(", ");
        match (name, arguments) {
            ("_?._", [operand, ..]) => format!("{operand}.?{}", self.one(&["a", "b", "missing"])),
            ("_[_]", [operand, index]) => format!("{operand}[{index}]"),
            ("_[?_]", [operand, index]) => format!("{operand}[?{index}]"),
            ("_?_:_", [condition, yes, no]) => format!("({condition} ? {yes} : {no})"),
            // Long ranges need more memory than the API server has.
            ("lists.range", _) => format!("lists.range({})", self.one(&["0", "1", "5", "-1", "300"])),
            ("!_", [one]) => format!("!{one}"),
            ("-_", [one]) => format!("-({one})"),
            ("@in", [one, other]) => format!("({one} in {other})"),
            (operator, [one, other]) if operator.starts_with('_') => {
                format!("({one} {} {other})", operator.trim_matches('_'))
            }
            (_, [target, rest @ ..]) if is_member => format!("{target}.{name}({})", rest.join(", ")),
            _ => format!("{name}({all})"),
        }
    }

    fn fold(&mut self, of: &CelType, depth: u8) -> String {
        let element = [CelType::Int, CelType::String, CelType::Dyn][self.random.usize(..3)].clone();
        let range = match element {
            CelType::Dyn => self.path(),
            _ => self.expr(&CelType::list(element.clone()), depth - 1),
        };
        let name = format!("v{}", self.variables.len());
        let pairs = self.rarely(5);
        let index = format!("i{}", self.variables.len());
        if pairs {
            self.variables.push((index.clone(), if element == CelType::Dyn { CelType::Dyn } else { CelType::Int }));
        }
        self.variables.push((name.clone(), element.clone()));
        let names = if pairs { format!("{index}, {name}") } else { name };
        let call = match of {
            CelType::Bool => {
                let body = self.expr(&CelType::Bool, depth - 1);
                format!("{range}.{}({names}, {body})", self.one(&["all", "exists", "exists_one"]))
            }
            CelType::List(inner) => {
                let (filter, body) = (self.expr(&CelType::Bool, depth - 1), self.expr(inner, depth - 1));
                let filter = if self.random.bool() { format!("{filter}, ") } else { String::new() };
                let function = if pairs { "transformList" } else { "map" };
                format!("{range}.{function}({names}, {filter}{body})")
            }
            _ if pairs => format!("{range}.transformMap({names}, {})", self.expr(&CelType::Int, depth - 1)),
            _ => format!(
                "{range}.{}({names}, {})",
                self.one(&["filter", "sortBy"]),
                self.expr(&CelType::Bool, depth - 1)
            ),
        };
        self.variables.truncate(self.variables.len() - 1 - usize::from(pairs));
        call
    }

    /// Returns a value of an object, or a variable of a comprehension.
    fn path(&mut self) -> String {
        if !self.variables.is_empty() && self.random.bool() {
            return self.variables[self.random.usize(..self.variables.len())].0.clone();
        }
        let field = self.one(&FIELDS);
        match self.random.u8(..12) {
            0 => format!("object.{field}.a"),
            1 => format!("object.{field}[0]"),
            2 => format!("object.?{field}"),
            3 => format!("has(object.{field}.a)"),
            4 => "object.containers[0].image".to_owned(),
            5 => "params.a".to_owned(),
            6 => format!("object.?{field}.a"),
            7 => format!("object['{field}']"),
            _ => format!("object.{field}"),
        }
    }

    fn leaf(&mut self, of: &CelType) -> String {
        let typed = self.variables.iter().filter(|(_, found)| found == of).map(|(name, _)| name.clone());
        let typed: Vec<String> = typed.collect();
        if !typed.is_empty() && self.random.bool() {
            return typed[self.random.usize(..typed.len())].clone();
        }
        if self.rarely(5) {
            return self.path();
        }
        match of {
            CelType::Int => {
                self.one(&["0", "1", "-1", "2", "3", "10", "9223372036854775807", "-9223372036854775808"]).to_owned()
            }
            CelType::Uint => self.one(&["0u", "1u", "2u", "18446744073709551615u"]).to_owned(),
            CelType::Double => self.one(&["0.0", "1.0", "-1.5", "1e20", "0.0/0.0", "2.5"]).to_owned(),
            CelType::Bool => self.one(&["true", "false"]).to_owned(),
            CelType::String => format!("'{}'", self.text()),
            CelType::Bytes => self.one(&["b''", "b'a'", "b'\\xff'"]).to_owned(),
            CelType::Null => "null".to_owned(),
            CelType::Duration => self.one(&["duration('1h')", "duration('-1s')", "duration('1.5s')"]).to_owned(),
            CelType::Timestamp => {
                self.one(&["timestamp(0)", "timestamp('2024-02-29T23:59:59.5Z')", "timestamp(object.t)"]).to_owned()
            }
            CelType::List(element) => {
                let elements: Vec<String> = (0..self.random.usize(..4)).map(|_| self.leaf(element)).collect();
                format!("[{}]", elements.join(", "))
            }
            CelType::Map(entry) => {
                let entries: Vec<String> = (0..self.random.usize(..2))
                    .map(|_| format!("{}: {}", self.leaf(&entry.0), self.leaf(&entry.1)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            CelType::Optional(value) => match self.random.u8(..3) {
                0 => "optional.none()".to_owned(),
                _ => format!("optional.of({})", self.leaf(value)),
            },
            CelType::Opaque(name) if &**name == "net.IP" => {
                self.one(&["ip('127.0.0.1')", "ip('::1')", "ip('x')"]).to_owned()
            }
            CelType::Opaque(_) => self.one(&["cidr('10.0.0.0/8')", "cidr('::/0')"]).to_owned(),
            CelType::Struct(name) => match &**name {
                "kubernetes.Quantity" => {
                    self.one(&["quantity('1')", "quantity('1.5Gi')", "quantity('-100m')"]).to_owned()
                }
                "kubernetes.URL" => self.one(&["url('https://a.b/c')", "url('/x')"]).to_owned(),
                "kubernetes.Semver" => self.one(&["semver('1.2.3')", "semver('1.2.3-a')"]).to_owned(),
                _ => self.one(&["format.dns1123Label()", "format.uuid()", "format.date()"]).to_owned(),
            },
            CelType::Type(_) => self.one(&["int", "string", "type(object.n)"]).to_owned(),
            CelType::Dyn | CelType::Error | CelType::Param(_) => self.path(),
        }
    }
}

fn usual(field: &str) -> Json {
    match field {
        "n" => json!(1),
        "f" => json!(1.5),
        "s" => json!("abc"),
        "b" => json!(true),
        "list" => json!([1, 2, 3]),
        "list2" => json!(["x", "y", "x"]),
        "m" => json!({"a": "x"}),
        "t" => json!("2024-05-06T07:08:09Z"),
        "d" => json!("90s"),
        "q" => json!("512Mi"),
        "containers" => json!([{"name": "web", "image": "registry.example.com/web:1"}, {"name": "proxy"}]),
        _ => Json::Null,
    }
}

/// Whether a type with type variables can be the wanted one; records the types of the variables.
fn unify(pattern: &CelType, wanted: &CelType, bound: &mut BTreeMap<String, CelType>) -> bool {
    match (pattern, wanted) {
        (CelType::Param(name), _) => {
            bound.entry(name.to_string()).or_insert_with(|| wanted.clone());
            true
        }
        (CelType::List(one), CelType::List(other)) | (CelType::Optional(one), CelType::Optional(other)) => {
            unify(one, other, bound)
        }
        (CelType::Map(one), CelType::Map(other)) => unify(&one.0, &other.0, bound) && unify(&one.1, &other.1, bound),
        (CelType::Type(_), CelType::Type(_)) => true,
        _ => pattern == wanted,
    }
}

/// Replaces type variables.
fn bind(of: &CelType, bound: &BTreeMap<String, CelType>, otherwise: &CelType) -> CelType {
    match of {
        CelType::Param(name) => bound.get(&**name).unwrap_or(otherwise).clone(),
        CelType::List(element) => CelType::list(bind(element, bound, otherwise)),
        CelType::Optional(value) => CelType::optional(bind(value, bound, otherwise)),
        CelType::Map(entry) => CelType::map(bind(&entry.0, bound, otherwise), bind(&entry.1, bound, otherwise)),
        other => other.clone(),
    }
}
