//! Random modules on random inputs: each rule has the value that the real `opa` gives it, or an error where `opa` has one.
//!
//! The seed is printed where they differ, with the smallest module found that still differs. `KAUDIT_TEST_SEED` repeats a run,
//! `KAUDIT_TEST_MODULES` makes a longer one.

mod generator;

use std::{
    env,
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
    thread,
};

use fastrand::Rng;
use kaudit::rego::query::CompiledRules;
use kaudit_controlplane::{Tool, require_tool, tool};
use regorus::Value;
use serde::Deserialize;
use serde_json::json;

use self::generator::{ModuleGenerator, RandomModule};

/// The number of modules, if no other is given.
const MODULES: usize = 1_000;
/// Each is evaluated on so many inputs.
const INPUTS: usize = 6;
/// So many modules are put to `opa` at a time.
const BATCH: usize = 500;
/// Of so many modules one may end in an error where `opa` has none: it leaves out more by its index, and looks up single keys.
const TOO_LOUD: usize = 100;
/// So many differences are made smaller and printed.
const SHOWN: usize = 5;

/// What `opa` says of modules.
#[derive(Debug, Deserialize)]
struct OpaAnswer {
    problems: Option<Vec<serde_json::Value>>,
    results: Option<Vec<Vec<OpaResult>>>,
}

/// The value of a rule, an error, or neither.
#[derive(Debug, Deserialize)]
struct OpaResult {
    value: Option<serde_json::Value>,
    error: Option<String>,
}

/// A module with what it is evaluated on.
#[derive(Clone)]
struct FuzzCase {
    module: RandomModule,
    inputs: Vec<serde_json::Value>,
    strict: bool,
}

impl FuzzCase {
    fn new(seed: u64) -> Self {
        let mut generator = ModuleGenerator::new(Rng::with_seed(seed));
        let module = generator.module();
        let inputs = (0..INPUTS).map(|_| generator.input()).collect();
        Self { module, inputs, strict: seed.is_multiple_of(4) }
    }

    fn question(&self) -> String {
        let modules: serde_json::Map<String, serde_json::Value> = self
            .module
            .texts()
            .into_iter()
            .enumerate()
            .map(|(index, text)| (format!("{index}.rego"), text.into()))
            .collect();
        let rules: Vec<String> = self.module.rules().iter().map(|path| format!("data.{}", path.join("."))).collect();
        let question = json!({
            "modules": modules, "version": "v1", "rules": rules, "inputs": self.inputs, "data": data(), "strict": self.strict,
        });
        question.to_string()
    }

    /// Returns where kaudit differs, and whether only by an error.
    fn difference(&self, wanted: &OpaAnswer) -> Option<(String, bool)> {
        let rules = self.module.rules();
        let compiled = CompiledRules::new(&self.module.texts(), &rules, data(), self.strict);
        let refused = wanted.problems.as_ref().filter(|problems| !problems.is_empty());
        let compiled = match (compiled, refused) {
            (Err(_), Some(_)) => return None,
            (Err(why), None) => return Some((format!("kaudit refuses it: {why}"), false)),
            (Ok(_), Some(problems)) => return Some((format!("opa refuses it: {problems:?}"), false)),
            (Ok(compiled), None) => compiled,
        };
        let mut louder = None;
        for (input, wanted) in self.inputs.iter().zip(wanted.results.iter().flatten()) {
            let found = compiled.values(&Value::from_json_str(&input.to_string()).unwrap());
            for ((rule, found), wanted) in rules.iter().zip(found).zip(wanted) {
                let same = match (&found, wanted) {
                    // A mistake of opa's own.
                    (_, OpaResult { error: Some(why), .. }) if why.contains("eval_internal_error") => true,
                    (Err(_), OpaResult { error: Some(_), .. }) => true,
                    (Ok(found), OpaResult { value, error: None }) => shown(found) == value.as_ref().map(tagged),
                    _ => false,
                };
                if !same {
                    let rule = rule.join(".");
                    let text = format!("data.{rule} of {input}\n  opa:    {wanted:?}\n  kaudit: {found:?}");
                    let difference = (text, found.is_err());
                    if !difference.1 {
                        return Some(difference);
                    }
                    louder = louder.or(Some(difference));
                }
            }
        }
        louder
    }

    /// Returns smaller cases.
    fn smaller(&self) -> Vec<Self> {
        let one_input = (self.inputs.len() > 1)
            .then(|| self.inputs.iter().map(|input| Self { inputs: vec![input.clone()], ..self.clone() }));
        let modules = self.module.smaller().into_iter().map(|module| Self { module, ..self.clone() });
        one_input.into_iter().flatten().chain(modules).collect()
    }
}

fn data() -> serde_json::Value {
    json!({"settings": {"limits": {"cpu": 2, "memory": 64}, "names": ["a", "web"]}, "lib": {"given": {"a": 1}}})
}

/// Asks `opa` about cases.
fn by_opa(cases: &[FuzzCase]) -> Vec<OpaAnswer> {
    let mut child = Command::new(tool(Tool::OpaCases).unwrap())
        .arg("evaluate")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let questions: Vec<String> = cases.iter().map(FuzzCase::question).collect();
    let writer = thread::spawn(move || questions.iter().try_for_each(|question| writeln!(stdin, "{question}")));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Returns a value as a text that is the same for equal ones.
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

/// Returns the same text for a value of `opa`.
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

/// How a number is written does not count.
fn number(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |number| number.to_string())
}

/// Makes a case smaller as long as it differs, in as many steps as it takes.
fn shorten(mut case: FuzzCase, mut difference: (String, bool)) -> (FuzzCase, String) {
    loop {
        let smaller = case.smaller();
        let answers = by_opa(&smaller);
        let is_refusal = |text: &str| text.starts_with("opa refuses") || text.starts_with("kaudit refuses");
        let next = smaller.into_iter().zip(&answers).find_map(|(smaller, answer)| {
            let found = smaller.difference(answer)?;
            let kind = |(text, is_louder): &(String, bool)| (is_refusal(text), *is_louder);
            (kind(&found) == kind(&difference)).then_some((smaller, found))
        });
        match next {
            Some(next) => (case, difference) = next,
            None => return (case, difference.0),
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Returns a summary, and what differs.
fn run(first: u64, modules: usize) -> (String, String) {
    let mut wrong = String::new();
    let (mut differences, mut evaluated, mut refused, mut louder) = (0, 0, 0, 0);
    let seeds: Vec<u64> = (first..first + modules as u64).collect();
    for batch in seeds.chunks(BATCH) {
        let cases: Vec<FuzzCase> = batch.iter().map(|seed| FuzzCase::new(*seed)).collect();
        for ((seed, case), answer) in batch.iter().zip(&cases).zip(by_opa(&cases)) {
            refused += usize::from(answer.results.is_none());
            evaluated += answer.results.iter().flatten().map(Vec::len).sum::<usize>();
            let Some(difference) = case.difference(&answer) else { continue };
            if difference.1 {
                louder += 1;
                continue;
            }
            differences += 1;
            if differences <= SHOWN {
                let (case, difference) = shorten(case.clone(), difference);
                let texts = case.module.texts().join("\n---\n");
                let _ = writeln!(wrong, "seed {seed}, strict {}: {difference}\n{texts}\n", case.strict);
            } else {
                let _ = writeln!(wrong, "seed {seed}");
            }
        }
    }
    if louder > modules / TOO_LOUD + 1 {
        let _ = writeln!(wrong, "{louder} of {modules} modules end in an error where they do not with opa");
    }
    let summary = format!(
        "{modules} modules, {refused} of them refused; {evaluated} evaluations, {differences} modules differ, {louder} by an error only"
    );
    (summary, wrong)
}

#[test]
fn random_modules_mean_what_opa_says() {
    if !require_tool(Tool::OpaCases) {
        return;
    }
    let modules = setting("KAUDIT_TEST_MODULES").map_or(MODULES, |count| usize::try_from(count).unwrap());
    let first = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    let (summary, wrong) = thread::scope(|scope| {
        let compared = || run(first, modules);
        thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, compared).unwrap().join().unwrap()
    });
    println!("{summary}");
    assert!(wrong.is_empty(), "{wrong}");
}
