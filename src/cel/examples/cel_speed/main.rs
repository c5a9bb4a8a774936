//! Measures how long the evaluation of usual expressions takes.
//!
//! ```sh
//! cargo run --release -p kaudit-cel --example cel_speed -- questions > target/questions.jsonl
//! tests/tools/cel benchmark 20000 < target/questions.jsonl
//! cargo run --release -p kaudit-cel --example cel_speed
//! ```
//!
//! With the argument `questions` it prints the expressions and the object for `tests/tools/cel`, whose answers have the
//! nanoseconds of one evaluation by the API server's packages.

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::{env, error::Error, hint::black_box, time::Instant};

use kaudit_cel::{Bindings, Budget, Environment, Root};
use serde_json::{Value as Json, json};

/// Expressions such as published policies have.
const EXPRESSIONS: [&str; 10] = [
    "object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && has(c.resources.limits.memory))",
    "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
    "object.spec.containers.all(c, !c.image.endsWith(':latest') && c.image.contains(':'))",
    "has(object.metadata.labels) && 'app.kubernetes.io/name' in object.metadata.labels && object.metadata.labels['app.kubernetes.io/name'].matches('^[a-z0-9-]+$')",
    "!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
    "object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || c.securityContext.privileged == false)",
    "(object.spec.containers + object.spec.initContainers).all(c, c.securityContext.?capabilities.?drop.orValue([]).exists(d, d == 'ALL'))",
    "object.spec.containers.all(c, quantity(c.resources.limits.memory).isLessThan(quantity('2Gi')))",
    "object.spec.containers.filter(c, c.name.startsWith('c')).map(c, c.name + ':' + c.image).size() <= 20",
    "object.spec.containers.all(c, !has(c.ports) || c.ports.all(p, p.containerPort >= 1024 && p.protocol in ['TCP', 'UDP']))",
];
const ROUNDS: u32 = 20_000;

/// Returns a Pod of twelve containers.
fn pod() -> Json {
    let container = |index: usize| {
        json!({
            "name": format!("c{index}"),
            "image": format!("registry.example.com/team/app-{index}:1.2.{index}"),
            "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "securityContext": {"privileged": false, "capabilities": {"drop": ["NET_RAW", "ALL"]}},
            "ports": [{"containerPort": 8080 + index, "protocol": "TCP"}],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app.kubernetes.io/name": "web", "team": "a"}},
        "spec": {
            "containers": (0..10).map(container).collect::<Vec<_>>(),
            "initContainers": (10..12).map(container).collect::<Vec<_>>(),
        },
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let object = pod();
    if env::args().nth(1).as_deref() == Some("questions") {
        for expression in EXPRESSIONS {
            println!("{}", json!({"expression": expression, "bindings": {"object": object}}));
        }
        return Ok(());
    }
    let environment = Environment::admission(false);
    for expression in EXPRESSIONS {
        let program = environment.compile(expression)?;
        let evaluate = || {
            let bindings = Bindings::new(&environment).with(Root::Object, &object);
            program.evaluate(&bindings, &mut Budget::default()).map(|value| value.to_string())
        };
        let value = evaluate()?;
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            let bindings = Bindings::new(&environment).with(Root::Object, &object);
            drop(black_box(program.evaluate(&bindings, &mut Budget::default())));
        }
        println!("{:>8} ns  {value:<6} {expression}", begin.elapsed().as_nanos() / u128::from(ROUNDS));
    }
    Ok(())
}
