//! Evaluates modules on inputs with the real `opa` and with kaudit.

use kaudit_rego::{Evaluator, Value, Version};
use serde::Deserialize;
use serde_json::json;

use super::{limits, opa_cases, policies};

/// Modules with the rules and inputs to evaluate.
pub struct OpaComparison {
    /// The texts of the modules.
    pub modules: Vec<String>,
    /// The version of modules that do not import one.
    pub version: Version,
    /// Paths below `data`.
    pub rules: Vec<Vec<String>>,
    /// The inputs; each rule is evaluated on each of them.
    pub inputs: Vec<serde_json::Value>,
    /// Whether errors of builtins are errors of the evaluation.
    pub strict: bool,
}

/// The results of `opa` for some modules.
#[derive(Debug, Deserialize)]
pub struct OpaAnswer {
    problems: Option<Vec<serde_json::Value>>,
    /// The result of each rule for each input; `None` if `opa` refuses the modules.
    pub results: Option<Vec<Vec<OpaResult>>>,
}

/// The value of a rule, an error, or neither.
#[derive(Debug, Deserialize)]
pub struct OpaResult {
    value: Option<serde_json::Value>,
    error: Option<String>,
}

/// A difference between kaudit and `opa`.
pub struct Difference {
    /// A description.
    pub text: String,
    /// What differs.
    pub kind: DifferenceKind,
}

/// What differs between kaudit and `opa`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// One of the two refuses a module.
    Refusal,
    /// A value, or an error that only `opa` has.
    Value,
    /// An error that only kaudit has.
    ErrorOnly,
}

impl OpaComparison {
    fn question(&self) -> String {
        let modules = self.modules.iter().enumerate();
        let modules: serde_json::Map<String, serde_json::Value> =
            modules.map(|(index, text)| (format!("{index}.rego"), text.as_str().into())).collect();
        let rules: Vec<String> = self.rules.iter().map(|path| format!("data.{}", path.join("."))).collect();
        let question = json!({
            "modules": modules, "version": self.version.to_string(), "rules": rules, "inputs": self.inputs, "data": data(), "strict": self.strict,
        });
        question.to_string()
    }

    /// Returns the first difference; a mere error only if there is no other.
    pub fn difference(&self, wanted: &OpaAnswer) -> Option<Difference> {
        let refusal = |text: String| Some(Difference { text, kind: DifferenceKind::Refusal });
        let compiled = prepared(&self.modules, self.version, &self.rules, self.strict);
        let refused = wanted.problems.as_ref().filter(|problems| !problems.is_empty());
        let compiled = match (compiled, refused) {
            (Err(_), Some(_)) => return None,
            (Err(why), None) => return refusal(format!("kaudit refuses it: {why}")),
            (Ok(_), Some(problems)) => return refusal(format!("opa refuses it: {problems:?}")),
            (Ok(compiled), None) => compiled,
        };
        let mut error_only = None;
        for (input, wanted) in self.inputs.iter().zip(wanted.results.iter().flatten()) {
            let value = Value::from_json_str(&input.to_string()).unwrap();
            for (rule, wanted) in self.rules.iter().zip(wanted) {
                let found = compiled.value(rule, &value);
                let same = match (&found, wanted) {
                    // This is a bug in OPA.
                    (_, OpaResult { error: Some(why), .. }) if why.contains("eval_internal_error") => true,
                    (Err(_), OpaResult { error: Some(_), .. }) => true,
                    (Ok(found), OpaResult { value, error: None }) => shown(found) == value.as_ref().map(tagged),
                    _ => false,
                };
                if !same {
                    let rule = rule.join(".");
                    let text = format!("data.{rule} of {input}\n  opa:    {wanted:?}\n  kaudit: {found:?}");
                    if found.is_ok() {
                        return Some(Difference { text, kind: DifferenceKind::Value });
                    }
                    error_only = error_only.or(Some(Difference { text, kind: DifferenceKind::ErrorOnly }));
                }
            }
        }
        error_only
    }
}

/// Prepares rules of modules; returns the reason if that fails.
pub fn prepared(
    modules: &[String],
    version: Version,
    rules: &[Vec<String>],
    strict: bool,
) -> Result<Evaluator, String> {
    let policies = policies(Some(version), modules, &data(), &limits(strict));
    policies.and_then(|policies| policies.prepare(rules)).map_err(|why| why.to_string())
}

/// Returns the data that the modules may read.
pub fn data() -> serde_json::Value {
    json!({"settings": {"limits": {"cpu": 2, "memory": 64}, "names": ["a", "web"]}, "lib": {"given": {"a": 1}}})
}

/// Evaluates the comparisons with `opa`.
pub fn by_opa(comparisons: &[OpaComparison]) -> Vec<OpaAnswer> {
    let questions: Vec<String> = comparisons.iter().map(OpaComparison::question).collect();
    opa_cases("evaluate", &questions)
}

/// Returns a value as text that is the same for equal values.
fn shown(value: &Value) -> Option<String> {
    let all = |items: Vec<&Value>| items.into_iter().filter_map(shown).collect::<Vec<_>>();
    Some(match value {
        Value::Undefined => return None,
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
        Value::Number(_) => number(&value.to_string()),
        Value::Array(items) => format!("[{}]", all(items.iter().collect()).join(",")),
        Value::Set(items) => {
            let mut items = all(items.iter().collect());
            items.sort();
            format!("<{}>", items.join(","))
        }
        Value::Object(fields) => {
            let field = |(key, value): (&Value, &Value)| Some(format!("{}:{}", shown(key)?, shown(value)?));
            let mut fields: Vec<String> = fields.iter().filter_map(field).collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
    })
}

/// Returns the same text for a value from `opa`.
fn tagged(value: &serde_json::Value) -> String {
    let (tag, value) = value.as_object().unwrap().iter().next().unwrap();
    let items = || value.as_array().unwrap().iter();
    match tag.as_str() {
        "number" => number(value.as_str().unwrap()),
        "array" => format!("[{}]", items().map(tagged).collect::<Vec<_>>().join(",")),
        "set" => {
            let mut items: Vec<String> = items().map(tagged).collect();
            items.sort();
            format!("<{}>", items.join(","))
        }
        "object" => {
            let field = |field: &serde_json::Value| format!("{}:{}", tagged(&field[0]), tagged(&field[1]));
            let mut fields: Vec<String> = items().map(field).collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
        _ => value.to_string(),
    }
}

/// Normalises the notation of a number; -0 is 0.
fn number(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| (number + 0.0).to_string())
}
