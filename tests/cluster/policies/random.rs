//! Policies of every source and dialect while all of them change at random: after the changes, the live verdicts equal
//! those of a fresh audit, and the results of Gatekeeper's policies equal those of `gator`.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use kaudit_controlplane::{ControlPlane, Options, Tool, require, require_tool, tool};
use kaudit_test_support::registry::Registry;
use kaudit_test_support::settings::{seed, setting};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{TEMPLATES, config_map, constraint, constraint_crd, crds, dialects, template};
use crate::{
    bundles::publish,
    support::{Running, establish, policies},
    truth::{EventOrder, Truth},
};

const KINDS: [&str; 2] = ["K8sLabel", "K8sMark"];
const CONSTRAINTS: [&str; 3] = ["one", "two", "three"];
const LABELS: [&str; 3] = ["owner", "team", "zone"];
const OBJECTS: [&str; 4] = ["a", "b", "c", "d"];
const MAPS: [&str; 2] = ["first", "second"];

/// A writer that changes objects and policies.
struct Changes<'a> {
    plane: &'a ControlPlane,
    namespaces: [String; 2],
    directory: TempDir,
    bundle: String,
    random: fastrand::Rng,
}

/// The message in each version of a policy; the last is broken.
const WORDS: [&str; 4] = ["it lacks", "there is no", "nobody gave", "broken\" +"];

impl Changes<'_> {
    fn one_of<'b>(&mut self, all: &[&'b str]) -> &'b str {
        all[self.random.usize(..all.len())]
    }

    fn namespace(&mut self) -> String {
        self.namespaces[self.random.usize(..self.namespaces.len())].clone()
    }

    fn template(&mut self, words: &[&str]) -> String {
        let kind = self.one_of(&KINDS);
        template(kind, self.one_of(words))
    }

    fn constraint(&mut self) -> String {
        let (kind, name, label) = (self.one_of(&KINDS), self.one_of(&CONSTRAINTS), self.one_of(&LABELS));
        let mut made: Value = serde_json::from_str(&constraint(kind, name, &self.namespace(), label)).unwrap();
        made["spec"]["enforcementAction"] = self.one_of(&["deny", "warn", "dryrun"]).into();
        if self.random.bool() {
            made["spec"]["match"].as_object_mut().unwrap().remove("namespaces");
        }
        if self.random.u8(..4) == 0 {
            made["spec"]["match"]["labelSelector"] =
                json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]});
        }
        made.to_string()
    }

    fn object(&mut self) -> String {
        let labels: Value =
            LABELS.iter().filter(|_| self.random.bool()).map(|label| ((*label).to_owned(), json!("x"))).collect();
        let metadata = json!({"name": self.one_of(&OBJECTS), "namespace": self.namespace(), "labels": labels});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
    }

    /// Returns a module that denies objects that lack a label.
    fn module(&mut self, package: &str, words: &[&str]) -> String {
        let (label, words) = (self.one_of(&LABELS), self.one_of(words));
        format!(
            "package {package}\n\ndeny contains \"{words} {label}\" if {{\n  input.kind == \"ConfigMap\"\n  \
             not input.metadata.labels.{label}\n}}\n"
        )
    }

    fn write(&mut self, (file, text): (&str, &str), words: &[&str]) {
        let text = text.replace("LABEL", self.one_of(&LABELS)).replace("WORDS", self.one_of(words));
        fs::write(self.directory.path().join(file), text).unwrap();
    }

    fn map(&mut self, words: &[&str]) -> String {
        let file = self.one_of(&MAPS);
        let text = self.module(&format!("maps.{file}"), words);
        config_map(&self.namespaces[0], file, &[("main.rego", &text)])
    }

    async fn publish(&mut self, words: &[&str]) {
        let text = self.module("bundle", words);
        publish(&self.plane.kubeconfig(), &self.bundle, &text).await;
    }

    async fn delete(&mut self) {
        let (namespace, kind) = (self.namespaces[0].clone(), self.one_of(&KINDS));
        let (constraint, file, object) = (self.one_of(&CONSTRAINTS), self.one_of(&MAPS), self.one_of(&OBJECTS));
        let arguments = match self.random.u8(..4) {
            0 => vec!["constrainttemplates".to_owned(), kind.to_lowercase()],
            1 => vec![constraint_crd(kind), constraint.to_owned()],
            2 => vec!["configmap".to_owned(), file.to_owned()],
            _ => vec!["configmap".to_owned(), object.to_owned()],
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let options = ["-n", &namespace, "delete", "--ignore-not-found", "--wait=false"];
        self.plane.kubectl(&[&options[..], &arguments].concat()).await.unwrap();
    }

    /// Performs one random change.
    async fn step(&mut self) {
        let object = match self.random.u8(..11) {
            0 | 1 => self.template(&WORDS),
            2 | 3 => self.constraint(),
            4 => self.map(&WORDS),
            5 => {
                let file = dialects::FILES[self.random.usize(..dialects::FILES.len())];
                return self.write(file, &WORDS);
            }
            6 => return self.delete().await,
            7 => return self.publish(&WORDS).await,
            _ => self.object(),
        };
        self.plane.apply(&object).await.unwrap();
    }

    /// Fixes all policies: a broken policy stays in force as it was before, which a fresh audit cannot know.
    async fn fix(&mut self) {
        let good = &WORDS[..3];
        let mut all = Vec::new();
        for kind in KINDS {
            all.push(template(kind, self.one_of(good)));
            all.push(self.constraint());
        }
        for map in MAPS {
            let text = self.module(&format!("maps.{map}"), good);
            all.push(config_map(&self.namespaces[0], map, &[("main.rego", &text)]));
        }
        for file in dialects::FILES {
            self.write(file, good);
        }
        self.plane.apply(&all.join("\n---\n")).await.unwrap();
        self.publish(good).await;
    }
}

/// Constraint, object, message and action of each violation.
type GatekeeperViolations = BTreeSet<[String; 4]>;

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the violations that `gator` finds with the current policies and objects.
async fn found_by_gator(plane: &ControlPlane) -> GatekeeperViolations {
    let constraints = KINDS.map(constraint_crd).join(",");
    let kinds = format!("{TEMPLATES},{constraints},namespaces,configmaps");
    let all = plane.kubectl(&["get", &kinds, "-A", "-o", "json"]).await.unwrap();
    let all: Value = serde_json::from_str(&all).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (number, item) in all["items"].as_array().unwrap().iter().enumerate() {
        fs::write(folder.path().join(format!("{number}.yaml")), item.to_string()).unwrap();
    }
    let results = gator(folder.path());
    let found = |result: &Value| {
        let action = if result["enforcementAction"] == "deny" { "fail" } else { "warn" };
        let name = |field| text(result, &format!("/violatingObject/metadata/{field}"));
        let object = format!("{}/{}", name("namespace"), name("name"));
        [text(result, "/constraint/metadata/name"), object, text(result, "/msg"), action.to_owned()]
    };
    results.iter().map(found).collect()
}

fn gator(folder: &Path) -> Vec<Value> {
    let mut command = Command::new(tool(Tool::Gator).unwrap());
    let output = command.args(["test", "--output=json", "--filename"]).arg(folder).env_clear().output().unwrap();
    // It prints `null` if there are no results.
    let results: Result<Option<Vec<Value>>, _> = serde_json::from_slice(&output.stdout);
    let results = results.unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)));
    results.unwrap_or_default()
}

/// Returns the violations of Gatekeeper's policies in an audit.
fn found_by_kaudit(audit: &Value) -> GatekeeperViolations {
    let results = audit["results"].as_array().unwrap().iter();
    let of_gatekeeper = results.filter(|result| KINDS.contains(&text(result, "/policy").as_str()));
    let found = |result: &Value| {
        let object = format!("{}/{}", text(result, "/resource/namespace"), text(result, "/resource/name"));
        [text(result, "/rule"), object, text(result, "/message"), text(result, "/result")]
    };
    of_gatekeeper.map(found).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_that_change_at_random_converge_to_a_fresh_audit_and_to_gator() {
    if !require() || !require_tool(Tool::Registry) {
        return;
    }
    let registry = Registry::open();
    let (seed, seconds) = (seed(), setting("KAUDIT_TEST_SECONDS").unwrap_or(20));
    // A separate control plane: policies in the cluster affect every kaudit in it.
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    establish(&plane, &crds(&KINDS), &[TEMPLATES, &constraint_crd(KINDS[0]), &constraint_crd(KINDS[1])]).await;
    let namespaces = [plane.temp_namespace("one").await.unwrap(), plane.temp_namespace("two").await.unwrap()];
    let random = fastrand::Rng::with_seed(seed);
    let about = dialects::ABOUT.map(|(file, text)| (file, text.replace("MATCH", dialects::MATCH)));
    let directory = policies(&about.each_ref().map(|(file, text)| (*file, text.as_str())));
    let mut changes = Changes { plane: &plane, namespaces, directory, bundle: registry.artifact("policies"), random };
    changes.fix().await;
    let maps = format!("cluster:configmaps={}", changes.namespaces[0]);
    let directory = changes.directory.path().to_str().unwrap().to_owned();
    let bundle = changes.bundle.clone();
    let sources = ["-p", &directory, "-p", "cluster:gatekeeper", "-p", &maps, "-p", &bundle];
    let truth = Truth {
        kubeconfig: plane.kubeconfig(),
        client: plane.admin().unwrap(),
        arguments: sources.map(str::to_owned).to_vec(),
        namespaces: Vec::new(),
        event_order: EventOrder::Lossy,
        reports: false,
    };
    let kaudit =
        Running::start(&plane.kubeconfig(), &[&["--record=none", "--poll=200ms"], &sources[..]].concat()).await;
    kaudit.ready().await;
    for round in 0..2 {
        let end = Instant::now() + Duration::from_secs(seconds / 2);
        let mut steps = 0;
        while Instant::now() < end {
            changes.step().await;
            steps += 1;
        }
        changes.fix().await;
        let took = truth.converged(&kaudit, Instant::now()).await;
        println!("round {round}: {steps} random changes, converged {took:?} after the last");
        let judged = truth.fresh().await["policies"].to_string();
        for policy in ["files.conftest", "files.admission", "user.files.trivy", "alone", "related", "maps.", "bundle"] {
            assert!(judged.contains(&format!("\"name\":\"{policy}")), "no {policy} in {judged}");
        }
        if require_tool(Tool::Gator) {
            let (kaudit, gator) = (found_by_kaudit(&truth.fresh().await), found_by_gator(&plane).await);
            let (more, less): (Vec<_>, Vec<_>) =
                (kaudit.difference(&gator).collect(), gator.difference(&kaudit).collect());
            assert!(
                !gator.is_empty() && more.is_empty() && less.is_empty(),
                "kaudit only: {more:#?}\ngator only: {less:#?}"
            );
        }
    }
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
