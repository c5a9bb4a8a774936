//! Random modules on random objects: changes outside a rule's read set do not change its results, and a rule that does
//! not apply to a kind has none.
//!
//! The seed is printed on failure. `KAUDIT_TEST_SEED` repeats a run, `KAUDIT_TEST_READS` makes a longer one.

use std::sync::Arc;

use fastrand::Rng;
use kaudit::{
    judge::set::PolicySet,
    rego::{Evaluator, Failure, Version},
};
use kaudit_test_support::{
    modules::ModuleGenerator,
    opa::{
        comparison::{data, prepared},
        on_deep_stack,
    },
    settings::setting,
};
use serde_json::{Value, json};

use crate::object;

/// Default number of modules.
const MODULES: u64 = 2_000;
/// Number of objects per rule.
const OBJECTS: usize = 4;
/// Number of consecutive changes of each object.
const CHANGES: usize = 20;

/// Statistics of a run.
#[derive(Debug, Default)]
struct Counts {
    refused: usize,
    everything: usize,
    unread: usize,
    different: usize,
    silent: usize,
}

/// A compiled rule with its sources.
struct RandomRule {
    texts: Vec<String>,
    policies: Arc<PolicySet>,
    compiled: Evaluator,
}

impl RandomRule {
    /// Returns a rule that uses a rule of a random module in one of several ways; `None` if the module is invalid.
    fn new(generator: &mut ModuleGenerator, random: &mut Rng) -> Option<Self> {
        let module = generator.module();
        let rules: Vec<Vec<String>> = module.rules().into_iter().filter(|path| path.len() > 1).collect();
        let rule = format!("data.{}", random.choice(&rules)?.join("."));
        let entry = match random.u8(..7) {
            0 => format!("contains \"m\" if {rule}"),
            1 => format!("contains \"m\" if not {rule}"),
            2 => format!("contains \"m\" if {rule}[_] == {{\"name\": \"a\", \"image\": \"b\"}}"),
            3 => format!("contains \"m\" if {rule}[_].name"),
            4 => format!("contains k if some k, _ in {rule}"),
            5 => format!("contains sprintf(\"%v\", [x]) if some x in {rule}"),
            _ => format!("contains \"m\" if count({rule}) == 1"),
        };
        let mut texts = module.texts();
        texts.push(format!("package q\n\ndeny {entry}\n"));
        if module.version() == Version::V0 {
            // kaudit parses modules as v1 unless their syntax is v0.
            return None;
        }
        let compiled = prepared(&texts, Version::V1, &[entry_path()], false).ok()?;
        let root = tempfile::tempdir().unwrap();
        for (index, text) in texts.iter().enumerate() {
            std::fs::write(root.path().join(format!("{index}.rego")), text).unwrap();
        }
        std::fs::write(root.path().join("data.json"), data().to_string()).unwrap();
        let policies = PolicySet::load(&[root.path().to_owned()]).ok()?;
        Some(Self { texts, policies: Arc::new(policies), compiled })
    }

    /// Returns the results for an object, or an error.
    fn results(&self, object: &Value) -> Result<regorus::Value, Failure> {
        let input = regorus::Value::from_json_str(&object.to_string()).unwrap();
        self.compiled.value(&entry_path(), &input)
    }
}

/// Returns the path of the evaluated rule.
fn entry_path() -> Vec<String> {
    vec!["q".to_owned(), "deny".to_owned()]
}

/// Changes one place of a value at a random depth. The name and type of an object stay.
fn change(value: &mut Value, odd: &mut dyn FnMut() -> Value, random: &mut Rng, depth: usize) {
    if depth > 0 && random.u8(..4) == 0 {
        *value = odd();
        return;
    }
    match value {
        Value::Object(fields) => {
            let kept = |name: &str| matches!((depth, name), (0, "apiVersion" | "kind" | "metadata") | (1, "name"));
            let names: Vec<String> = fields.keys().filter(|name| !kept(name) || *name == "metadata").cloned().collect();
            let Some(name) = random.choice(&names) else { return };
            if random.u8(..5) == 0 && !kept(name) {
                fields.remove(name);
            } else if let Some(field) = fields.get_mut(name) {
                // Only within the metadata.
                if name == "metadata" && depth == 0 {
                    field["labels"] = odd();
                } else {
                    change(field, odd, random, depth + 1);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = random.usize(..items.len());
            match random.u8(..5) {
                0 => drop(items.remove(index)),
                1 => items.push(odd()),
                _ => change(&mut items[index], odd, random, depth + 1),
            }
        }
        other => *other = odd(),
    }
}

fn run(first: u64, modules: u64) -> (Counts, Option<String>) {
    let mut counts = Counts::default();
    for seed in first..first + modules {
        let mut random = Rng::with_seed(seed);
        // Rules with `with` mostly read everything, so few have it.
        let mut generator = ModuleGenerator::new(Rng::with_seed(seed));
        generator.replaces = random.u8(..8) == 0;
        let Some(rule) = RandomRule::new(&mut generator, &mut random) else {
            counts.refused += 1;
            continue;
        };
        let policy = &rule.policies.policies[0];
        counts.everything += usize::from(policy.reads.to_string() == "*");
        for _ in 0..OBJECTS {
            let mut value = generator.input();
            value["apiVersion"] = json!("v1");
            value["kind"] = json!(*random.choice(&["Pod", "Deployment", "a"]).unwrap());
            value["metadata"]["name"] = json!("web");
            let kind = object(&value).key.kind;
            let projection = rule.policies.projection(&kind);
            let hash = |value: &Value| projection.hash(value.to_string().as_bytes());
            let (mut hash_before, mut before) = (hash(&value), rule.results(&value));
            for _ in 0..CHANGES {
                let mut after = value.clone();
                change(&mut after, &mut || generator.odd(), &mut random, 0);
                let (hash_after, results) = (hash(&after), rule.results(&after));
                let applies = policy.matches.matches(&kind.kind);
                let is_silent = matches!(&results, Ok(regorus::Value::Set(all)) if all.is_empty());
                counts.silent += usize::from(!applies);
                counts.different += usize::from(results != before);
                let same_hash = hash_after.is_some() && hash_after == hash_before;
                counts.unread += usize::from(same_hash && after != value);
                if !applies && !is_silent || same_hash && results != before {
                    let what = format!(
                        "seed {seed}: reads {} of {}\n{}\nbefore {value}\n{before:?}\nafter {after}\n{results:?}",
                        policy.reads,
                        policy.matches,
                        rule.texts.join("\n---\n")
                    );
                    return (counts, Some(what));
                }
                (value, hash_before, before) = (after, hash_after, results);
            }
        }
    }
    (counts, None)
}

#[test]
fn fields_that_random_rules_do_not_read_change_no_result() {
    let (first, modules) = (setting("KAUDIT_TEST_SEED").unwrap_or(1), setting("KAUDIT_TEST_READS").unwrap_or(MODULES));
    let (counts, wrong) = on_deep_stack(|| run(first, modules));
    println!("{modules} modules: {counts:?}");
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    assert!(modules < MODULES || counts.unread > 3_000 && counts.different > 300, "{counts:?}");
}
