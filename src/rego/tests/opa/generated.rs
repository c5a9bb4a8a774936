//! Calls of builtins and arithmetic with generated values, whose results must be the same in the real `opa` and in
//! kaudit.
//!
//! `KAUDIT_GENERATED_SEED` and `KAUDIT_GENERATED_COUNT` select other expressions.

use std::fmt::Write as _;

use fastrand::Rng;
use kaudit_controlplane::{Tool, require_tool};
use kaudit_rego::Value;
use kaudit_test_support::{opa::on_deep_stack, settings::setting};

use super::{
    expressions::{by_kaudit, by_opa},
    from_json, through_json,
};

const NUMBERS: [&str; 14] =
    ["0", "1", "-1", "2", "10", "0.1", "0.5", "2.5", "-0.5", "0.3", "100", "255", "18446744073709551617", "0.000125"];
const STRINGS: [&str; 24] = [
    "", "a", "b", "0", "1", "10", "a/b", "~1", "a~1b", "a~0b", "/", "//a", "é", "😀", "😀😀", "a=b&c=d", "a;b",
    "%41+%", "%e9x", "#a=1", "YQ==", "YR==", "YQ==\\n", "=",
];
const BASE64: [&str; 10] = ["Y", "Q", "W", "+", "/", "-", "_", "=", "\\n", "\\r"];

struct Generator {
    random: Rng,
}

impl Generator {
    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.random.usize(..of.len())]
    }

    fn string(&mut self) -> String {
        format!("\"{}\"", self.one(&STRINGS))
    }

    /// Returns a term; only scalars at depth 0.
    fn value(&mut self, depth: u8) -> String {
        match self.random.u8(..if depth == 0 { 6 } else { 12 }) {
            0 | 1 => self.one(&NUMBERS).to_owned(),
            2 | 3 => self.string(),
            4 => self.one(&["true", "false"]).to_owned(),
            5 => "null".to_owned(),
            6 | 7 => self.array(depth - 1),
            8 | 9 => self.set(depth - 1),
            _ => self.object(depth - 1),
        }
    }

    fn list(&mut self, item: impl Fn(&mut Self) -> String) -> String {
        (0..self.random.usize(..4)).map(|_| item(self)).collect::<Vec<_>>().join(", ")
    }

    fn array(&mut self, depth: u8) -> String {
        format!("[{}]", self.list(|random| random.value(depth)))
    }

    fn set(&mut self, depth: u8) -> String {
        match self.list(|random| random.value(depth)) {
            items if items.is_empty() => "set()".to_owned(),
            items => format!("{{{items}}}"),
        }
    }

    /// Returns an object with distinct keys.
    fn object(&mut self, depth: u8) -> String {
        let mut keys = ["\"a\"", "\"b\"", "\"a/b\"", "\"\"", "\"~1\"", "1", "\"1\""];
        self.random.shuffle(&mut keys);
        let count = self.random.usize(..4);
        let fields: Vec<String> = keys[..count].iter().map(|key| format!("{key}: {}", self.value(depth))).collect();
        format!("{{{}}}", fields.join(", "))
    }

    fn paths(&mut self) -> String {
        let keys = ["a", "b", "1", "0", "10", "~1", "a~1b", "", "a/b", "b/1", "a/0", "a/a", "1/b/a"];
        let paths = self.list(|random| match random.random.u8(..4) {
            0 => random.array(0),
            _ => format!("\"{}\"", random.one(&keys)),
        });
        format!("[{paths}]")
    }

    fn encoded(&mut self) -> String {
        let text: String = (0..self.random.usize(..9)).map(|_| self.one(&BASE64)).collect();
        format!("\"{text}\"")
    }

    /// Returns a call whose arguments `opa` cannot check beforehand.
    fn call(&mut self) -> String {
        let (name, arguments) = match self.random.u8(..17) {
            16 => ("yaml.marshal", vec![self.value(3)]),
            0 => ("count", vec![self.value(2)]),
            1 => ("sort", vec![self.value(3)]),
            2 => ("min", vec![self.value(3)]),
            3 => ("max", vec![self.value(3)]),
            4 | 5 => ("json.filter", vec![self.object(3), self.paths()]),
            6 => ("json.remove", vec![self.object(3), self.paths()]),
            7 | 8 => {
                let value = self.value(3);
                let part = if self.random.bool() { value.clone() } else { self.value(3) };
                ("object.subset", vec![value, part])
            }
            9 => ("base64.decode", vec![self.encoded()]),
            10 => ("base64.is_valid", vec![self.encoded()]),
            11 => ("base64url.decode", vec![self.encoded()]),
            12 => ("urlquery.decode", vec![self.string()]),
            13 => ("urlquery.decode_object", vec![self.string()]),
            14 => ("sprintf", vec!["\"%v\"".to_owned(), format!("[{}]", self.value(3))]),
            _ => {
                let operator = self.one(&["<", "<=", ">", ">="]);
                return format!("({} {operator} {})", any(&self.value(3)), any(&self.value(3)));
            }
        };
        format!("{name}({})", arguments.iter().map(|argument| any(argument)).collect::<Vec<_>>().join(", "))
    }

    fn decimal(&mut self) -> String {
        let digits = self.random.usize(..4);
        let number = self.random.u32(..5_000);
        match self.random.u8(..6) {
            0 => format!("{}", number % 12),
            1 => format!("-{}.{:0digits$}", number % 10, number / 10 % 10_u32.pow(2), digits = digits + 2),
            _ => format!("{}.{:0digits$}", number % 10, number / 10 % 10_u32.pow(2), digits = digits + 2),
        }
    }

    /// Returns an expression for a number, and its approximate value.
    fn arithmetic(&mut self) -> (String, f64) {
        let operands: Vec<String> = (0..self.random.usize(2..=3)).map(|_| self.decimal()).collect();
        let numbers: Vec<f64> = operands.iter().map(|operand| operand.parse().unwrap()).collect();
        let list = operands.join(", ");
        match self.random.u8(..6) {
            0 => (format!("sum([{list}])"), numbers.iter().sum()),
            1 => (format!("product([{list}])"), numbers.iter().product()),
            _ => {
                let (mut text, mut near) = (operands[0].clone(), numbers[0]);
                for (operand, number) in operands.iter().zip(numbers).skip(1) {
                    let operator = self.one(&["+", "-", "*", "/"]);
                    text = format!("({text} {operator} {operand})");
                    near = match operator {
                        "+" => near + number,
                        "-" => near - number,
                        "*" => near * number,
                        _ => near / number,
                    };
                }
                (text, near)
            }
        }
    }

    /// Returns a comparison of a number with the nearest decimal.
    fn comparison(&mut self) -> String {
        let (text, near) = self.arithmetic();
        let near = format!("{near:.10}").parse::<f64>().unwrap();
        let near = if near.is_finite() { near } else { 1.0 };
        format!("[[number < {near}, number == {near}, number > {near}] | number := {text}]")
    }
}

/// Returns a term whose type `opa` cannot infer.
fn any(term: &str) -> String {
    format!("[{term}, input.none][input.zero]")
}

fn generated(make: impl Fn(&mut Generator) -> String) -> Vec<String> {
    let mut generator = Generator { random: Rng::with_seed(setting("KAUDIT_GENERATED_SEED").unwrap_or(1)) };
    (0..setting("KAUDIT_GENERATED_COUNT").unwrap_or(400)).map(|_| make(&mut generator)).collect()
}

fn compare(expressions: &[String]) {
    let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
    let wanted = by_opa(&expressions);
    let mut wrong = String::new();
    for (index, expression) in expressions.iter().enumerate() {
        let wanted = wanted.get(&index).map(from_json);
        let got = by_kaudit(expression);
        let same = got.as_ref().is_ok_and(|got| got.as_ref().map(through_json) == wanted);
        if !same {
            let text = |value: Option<&Value>| value.map_or("undefined".to_owned(), ToString::to_string);
            let got = got.as_ref().map(|got| text(got.as_ref()));
            let _ = writeln!(wrong, "{expression}\n    opa:    {}\n    kaudit: {got:?}", text(wanted.as_ref()));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn check(make: impl Fn(&mut Generator) -> String) {
    if require_tool(Tool::Opa) {
        let expressions = generated(make);
        on_deep_stack(|| compare(&expressions));
    }
}

#[test]
fn builtins_with_generated_arguments_agree_with_opa() {
    check(Generator::call);
}

#[test]
fn generated_arithmetic_agrees_with_opa() {
    check(Generator::comparison);
}
