//! Compares only evaluation, on one thread: OPA as a library with prepared queries on converted inputs, and kaudit from
//! the JSON of an object to its verdict, in turn on the same objects and policies.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use kaudit::{
    judge::{
        evaluate::{Job, evaluate_shared, with_inventory},
        inventory::Inventory,
        set::PolicySet,
        sharing::SharedVerdicts,
        sources::FileSource,
    },
    model::object::{Kind, Object},
    rego::{Limits, analysis::yaml, value},
    source::received::{Received, Secrets},
};
use kaudit_controlplane::{Tool, tool};
use kaudit_test_support::objects;
use serde_json::{Map, Value, json};

use crate::{
    library, median, note,
    peers::{Options, policies},
};

/// The subfolder of a run for the templates of a library.
pub(crate) const LIBRARY: &str = "library";

/// Policies that both evaluate, with objects.
pub(crate) struct PolicyBenchmark {
    pub(crate) name: String,
    pub(crate) source: FileSource,
    /// The units for OPA, with their modules and queries.
    pub(crate) units: Vec<Value>,
    /// The kinds that each unit selects; `None` for all.
    pub(crate) kinds: Vec<Option<String>>,
    /// Returns the object with a number.
    pub(crate) object: fn(usize) -> (objects::Kind, Value),
    /// The objects that are looked up.
    pub(crate) inventory: Vec<Value>,
}

impl PolicyBenchmark {
    /// Returns policies that look up nothing.
    fn new(name: String, path: PathBuf, units: Vec<Value>, kinds: Vec<Option<String>>) -> Self {
        let source = FileSource::Path(path);
        Self { name, source, units, kinds, object: objects::object, inventory: Vec::new() }
    }
}

/// The times of one benchmark, in microseconds per object, and of loading it.
struct Row {
    name: String,
    opa: f64,
    own: f64,
    load: f64,
}

/// Compares all sets; returns the table.
pub(crate) fn compare(options: &Options, folder: &Path) -> Result<String> {
    let mut table = "\n### Evaluation alone, one thread\n\nMicroseconds per object; OPA gets converted inputs, \
        kaudit reads the JSON.\n\n| policies | OPA as a library, prepared | kaudit | ratio | policies loaded by kaudit in |\n\
        |---|---|---|---|---|\n"
        .to_owned();
    let mut add = |row: &Row| {
        let Row { name, opa, own, load } = row;
        writeln!(table, "| {name} | {opa:.0} | {own:.1} | **{:.2}** | {load:.0} ms |", opa / own)
    };
    add(&measure(options, folder, &package("12 denies, a package each", "policies")?)?)?;
    add(&measure(options, folder, &package("12 definitions of one deny", "package")?)?)?;
    let own = templates(&policies("templates"))?;
    add(&measure(options, folder, &together("templates", &policies("templates"), &own))?)?;
    alone(options, folder, &own)?.iter().try_for_each(&mut add)?;
    add(&measure(options, folder, &library::set()?)?)?;
    let mut paths = vec![("12 denies, a package each", policies("policies")), ("templates", policies("templates"))];
    if options.library.is_some() {
        let written = folder.join(LIBRARY);
        let found = templates(&written)?;
        paths.push(("templates of the library", written.clone()));
        add(&measure(options, folder, &together("templates of the library", &written, &found))?)?;
        alone(options, folder, &found)?.iter().try_for_each(&mut add)?;
    }
    for (name, path) in paths {
        table.push_str(&replicas(options, name, &path)?);
    }
    Ok(table)
}

/// Compares evaluating each Pod of `ReplicaSets` with evaluating equal ones once; returns a table.
fn replicas(options: &Options, name: &str, path: &Path) -> Result<String> {
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for round in 1..=options.repeat {
        note(&format!("Pods of ReplicaSets, {name}, round {round} of {}", options.repeat));
        let measure = |share, times: &mut Vec<f64>| {
            let policies = Arc::new(load(&FileSource::Path(path.to_owned()), share)?);
            let jobs = jobs_of(options.objects, objects::replica, &policies)?;
            let (time, found) = evaluate_all(&jobs);
            times.push(time);
            Ok::<_, anyhow::Error>(found)
        };
        let found = measure(false, &mut alone)?;
        ensure!(measure(true, &mut shared)? == found, "{name}: shared results differ");
    }
    let [alone, shared] = [alone, shared].map(|mut times| median(&mut times) * 1e6 / options.objects as f64);
    Ok(format!(
        "\n| Pods of ReplicaSets | each alone | shared | ratio |\n|---|---|---|---|\n\
         | {name} | {alone:.1} | {shared:.1} | **{:.2}** |\n",
        alone / shared
    ))
}

/// Measures templates one by one; returns them with the slowest compared with OPA first.
fn alone(options: &Options, folder: &Path, sets: &[PolicyBenchmark]) -> Result<Vec<Row>> {
    let mut rows = sets.iter().map(|set| measure(options, folder, set)).collect::<Result<Vec<_>>>()?;
    rows.sort_by(|a, b| (a.opa / a.own).total_cmp(&(b.opa / b.own)));
    Ok(rows)
}

fn measure(options: &Options, folder: &Path, set: &PolicyBenchmark) -> Result<Row> {
    let prepared = tool(Tool::Prepared)?;
    let file = folder.join("jobs.json");
    fs::write(&file, serde_json::to_vec(&jobs(set, options.objects))?)?;
    let (mut opa, mut own, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=options.repeat {
        note(&format!("{}, round {round} of {}", set.name, options.repeat));
        let (times, results) = opa_round(&prepared, &file)?;
        opa.push(times);
        let began = Instant::now();
        let policies = load(&set.source, false)?;
        loads.push(began.elapsed().as_secs_f64() * 1e3);
        let policies = Arc::new(with_inventory(&policies, &inventory(&set.inventory)?));
        let jobs = jobs_of(options.objects, set.object, &policies)?;
        evaluate_all(&jobs);
        let (time, found) = evaluate_all(&jobs);
        own.push(time);
        ensure!(found == results, "{}: kaudit has {found} results, OPA {results}", set.name);
    }
    let each = |times: &mut Vec<f64>| median(times) * 1e6 / options.objects as f64;
    Ok(Row { name: set.name.clone(), opa: each(&mut opa), own: each(&mut own), load: median(&mut loads) })
}

/// Returns the queries and inputs for OPA, for a number of objects.
fn jobs(set: &PolicyBenchmark, count: usize) -> Value {
    let inputs = (0..count).map(|number| {
        let (kind, object) = (set.object)(number);
        let concerned =
            |unit: &usize| set.kinds[*unit].as_ref().is_none_or(|kinds| kinds.contains(&format!("\"{kind:?}\"")));
        let units: Vec<usize> = (0..set.units.len()).filter(concerned).collect();
        // The reviews are as in Gatekeeper's audit.
        let value = match set.units[0].get("parameters") {
            None => object,
            Some(_) => json!({
                "kind": {"group": kind.group(), "version": "v1", "kind": format!("{kind:?}")},
                "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"], "operation": "",
                "object": object,
            }),
        };
        json!({"units": units, "value": value})
    });
    json!({"units": set.units, "inputs": inputs.collect::<Vec<_>>()})
}

/// Runs two rounds; returns the seconds of the second and its number of results.
fn opa_round(prepared: &Path, jobs: &Path) -> Result<(f64, usize)> {
    let output = Command::new(prepared).env("GOMAXPROCS", "1").arg("2").arg(jobs).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "prepared: {}", output.status);
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let seconds = answer["seconds"][1].as_f64().context("no seconds")?;
    Ok((seconds, usize::try_from(answer["results"].as_u64().context("no results")?)?))
}

/// Loads policies; `share_verdicts` sets whether verdicts are shared between objects.
fn load(source: &FileSource, share_verdicts: bool) -> Result<PolicySet> {
    let limits = Limits { share_verdicts, ..Limits::default() };
    Ok(PolicySet::load_with(std::slice::from_ref(source), &limits.into())?)
}

/// Evaluates the jobs; returns the duration in seconds, and the number of results.
fn evaluate_all(jobs: &[Job]) -> (f64, usize) {
    let began = Instant::now();
    let shared = SharedVerdicts::default();
    let found = jobs.iter().map(|job| evaluate_shared(job, &shared).results.len()).sum();
    (began.elapsed().as_secs_f64(), found)
}

fn jobs_of(
    count: usize,
    object: impl Fn(usize) -> (objects::Kind, Value),
    policies: &Arc<PolicySet>,
) -> Result<Vec<Job>> {
    let job = |number| {
        let object = received(&object(number).1)?;
        Ok(Job { object, previous: None, deleted: false, namespace: None, policies: policies.clone() })
    };
    (0..count).map(job).collect()
}

/// Returns the objects that policies look up.
fn inventory(objects: &[Value]) -> Result<Inventory> {
    let mut inventory = Inventory::default();
    for object in objects {
        let value = value::from_json(object.to_string().as_bytes())?;
        inventory.put(&received(object)?.key, Some(&value));
    }
    Ok(inventory)
}

/// Returns an object as it is received from a cluster.
fn received(object: &Value) -> Result<Object> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
    let kind = Arc::new(Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: format!("{}s", text("kind").to_lowercase()),
        kind: text("kind").to_owned(),
        singular: String::new(),
        short_names: Vec::new(),
        namespaced: object["metadata"]["namespace"].is_string(),
    });
    Received::read(&object.to_string()).into_object(&kind, Secrets::Redact, 0).map_err(anyhow::Error::msg)
}

/// Reads a folder of packages with `deny` rules as one unit.
fn package(name: &str, folder: &str) -> Result<PolicyBenchmark> {
    let (mut modules, mut queries) = (Map::new(), Vec::new());
    for file in fs::read_dir(policies(folder))? {
        let path = file?.path();
        let text = fs::read_to_string(&path)?;
        let package = text.lines().find_map(|line| line.strip_prefix("package ")).context("no package")?;
        queries.push(format!("data.{package}.deny"));
        modules.insert(path.display().to_string(), text.into());
    }
    let unit = json!({"version": "v1", "modules": modules, "query": format!("[{}]", queries.join(", "))});
    Ok(PolicyBenchmark::new(name.to_owned(), policies(folder), vec![unit], vec![None]))
}

/// Reads files with a template and a Constraint, each as a separate set.
fn templates(folder: &Path) -> Result<Vec<PolicyBenchmark>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    files.iter().map(|file| template(file).with_context(|| file.display().to_string())).collect()
}

fn template(file: &Path) -> Result<PolicyBenchmark> {
    let documents: Vec<Value> = yaml::from_multiple(&fs::read_to_string(file)?)?;
    let [template, constraint] = documents.as_slice() else {
        anyhow::bail!("a template and a Constraint were expected")
    };
    let target = &template["spec"]["targets"][0];
    let rego = rego(target).context("no Rego")?;
    let mut modules = Map::from_iter([("rego".to_owned(), rego["rego"].clone())]);
    let libraries = rego["libs"].as_array().into_iter().flatten().enumerate();
    modules.extend(libraries.map(|(number, library)| (format!("lib{number}"), library.clone())));
    let text = rego["rego"].as_str().context("no Rego")?;
    let package = text.lines().find_map(|line| line.strip_prefix("package ")).context("no package")?;
    let parameters = constraint["spec"].get("parameters").cloned().unwrap_or_else(|| json!({}));
    let unit = json!({
        "version": "v0", "modules": modules, "query": format!("data.{}.violation", package.trim()),
        "parameters": parameters,
    });
    let kinds = constraint["spec"]["match"].get("kinds").map(ToString::to_string);
    let name = template["metadata"]["name"].as_str().context("no name")?.to_owned();
    Ok(PolicyBenchmark::new(name, file.to_owned(), vec![unit], vec![kinds]))
}

/// Returns the part of a template with its Rego.
fn rego(target: &Value) -> Option<&Value> {
    let engines = target["code"].as_array().into_iter().flatten();
    let mut sources = engines.filter(|code| code["engine"] == "Rego").map(|code| &code["source"]);
    target.get("rego").map(|_| target).or_else(|| sources.next())
}

fn together(name: &str, path: &Path, sets: &[PolicyBenchmark]) -> PolicyBenchmark {
    let units = sets.iter().flat_map(|set| &set.units).cloned().collect();
    let kinds = sets.iter().flat_map(|set| &set.kinds).cloned().collect();
    PolicyBenchmark::new(format!("{} {name}", sets.len()), path.to_owned(), units, kinds)
}

/// Writes each template from a checkout of the library that is in Rego only, applies to Pods and has no lookups, with
/// its first sample Constraint, reduced to a match by kind.
pub(crate) fn write_library(library: &Path, into: &Path) -> Result<()> {
    fs::create_dir(into)?;
    let mut found: Vec<PathBuf> = Vec::new();
    for group in fs::read_dir(library.join("library"))?.flatten().filter(|group| group.path().is_dir()) {
        found.extend(fs::read_dir(group.path())?.flatten().map(|policy| policy.path()));
    }
    found.sort();
    for folder in found.iter().filter(|folder| folder.join("template.yaml").is_file()) {
        let mut template: Value = yaml::from_str(&fs::read_to_string(folder.join("template.yaml"))?)?;
        let target = &template["spec"]["targets"][0];
        let engines = target["code"].as_array().map_or(0, Vec::len);
        let alone = |rego: &Value| engines < 2 && !rego.to_string().contains("data.inventory");
        let Some(rego) = rego(target).cloned().filter(alone) else { continue };
        template["spec"]["targets"][0] = json!({"target": target["target"], "rego": rego["rego"], "libs": rego.get("libs").cloned().unwrap_or_else(|| json!([]))});
        let Some(sample) = first_sample(folder) else { continue };
        let mut constraint: Value = yaml::from_str(&fs::read_to_string(sample)?)?;
        let kinds = constraint["spec"]["match"]["kinds"].clone();
        if !kinds.to_string().contains("\"Pod\"") {
            continue;
        }
        constraint["spec"]["match"] = json!({"kinds": kinds});
        let name = template["metadata"]["name"].as_str().context("no name")?;
        let text = format!("{}\n---\n{}\n", serde_json::to_string(&template)?, serde_json::to_string(&constraint)?);
        fs::write(into.join(format!("{name}.yaml")), text)?;
    }
    Ok(())
}

fn first_sample(folder: &Path) -> Option<PathBuf> {
    let mut samples: Vec<PathBuf> =
        fs::read_dir(folder.join("samples")).ok()?.flatten().map(|sample| sample.path()).collect();
    samples.sort();
    samples.into_iter().map(|sample| sample.join("constraint.yaml")).find(|file| file.is_file())
}
