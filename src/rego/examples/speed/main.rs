//! Measures the evaluation time of prepared rules in this crate and in regorus. `opa bench` measures the same in OPA:
//!
//! ```text
//! cargo run --release -p kaudit-rego --example speed -- input.json
//! opa bench --data src/rego/examples/speed --input input.json 'data.pairs.deny'
//! ```
//!
//! The example writes its input to the given file.

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::{error::Error, fs, hint::black_box, time::Instant};

use kaudit_rego::{File, Form, Limits, Policies, Value, value};
use regorus::Engine;
use serde_json::json;

const MODULES: [(&str, &str); 3] = [
    ("containers", include_str!("containers.rego")),
    ("pairs", include_str!("pairs.rego")),
    ("totals", include_str!("totals.rego")),
];
/// Rounds per figure; each figure is their median.
const ROUNDS: usize = 9;
/// Evaluations in a round.
const EVALUATIONS: u32 = 2_000;

/// Returns a Pod with twelve containers.
fn input() -> serde_json::Value {
    let container = |index: u32| {
        json!({
            "name": format!("c{index}"),
            "image": if index.is_multiple_of(4) { "nginx:1".to_owned() } else { format!("registry.example.com/c{index}:1") },
            "port": 8000 + index % 11,
            "securityContext": {"privileged": index.is_multiple_of(6)},
            "resources": {"requests": {"cpu": format!("{}m", 50 + index)}, "limits": {"memory": "64Mi"}},
        })
    };
    let containers: Vec<_> = (0..12).map(container).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers}})
}

/// Returns the microseconds of one evaluation.
fn measure(mut evaluate: impl FnMut() -> Result<Value, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..EVALUATIONS {
            black_box(evaluate()?);
        }
        rounds.push(begin.elapsed().as_secs_f64() * 1e6 / f64::from(EVALUATIONS));
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[ROUNDS / 2])
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = input().to_string();
    if let Some(path) = std::env::args().nth(1) {
        fs::write(path, &text)?;
    }
    let input = value::from_json(text.as_bytes())?;
    let file = |(name, text): &(&str, &str)| File::new(format!("{name}.rego").into(), Form::Rego, (*text).to_owned());
    let policies = Policies::load(MODULES.iter().map(file).collect(), &Limits::default())?;
    let mut engine = Engine::new();
    for (name, text) in MODULES {
        engine.add_policy(format!("{name}.rego"), text.to_owned())?;
    }
    println!("| rule | kaudit-rego, µs | regorus, µs |\n|---|---|---|");
    for (name, _) in MODULES {
        let path = vec![name.to_owned(), "deny".to_owned()];
        let rules = policies.prepare(std::slice::from_ref(&path))?;
        let own = measure(|| Ok(rules.value(&path, &input)?))?;
        let regorus = measure(|| {
            engine.set_input(input.clone());
            Ok(engine.eval_rule(format!("data.{name}.deny"))?)
        })?;
        println!("| `data.{name}.deny` | {own:.1} | {regorus:.1} |");
    }
    Ok(())
}
