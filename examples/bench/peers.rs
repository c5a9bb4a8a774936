//! Compares kaudit with conftest, gator, and OPA as a library, in turn on the same files and policies.

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
        evaluate::{Job, evaluate},
        set::PolicySet,
    },
    model::object::Kind,
    source::received::{Received, Secrets},
};
use kaudit_controlplane::{Tool, tool};
use serde_json::{Value, json};

use crate::{
    changes::quantile,
    median, note, objects, print,
    process::{Kaudit, Usage, measure},
};

/// How other tools are measured
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Pods and Deployments to evaluate
    #[arg(long, default_value_t = 2_000)]
    objects: usize,
    /// Measure all tools in turn this often and take the medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Measure only work with this in its name, e.g. `JSON` or `library`
    #[arg(long, default_value = "")]
    only: String,
}

/// One line of the table: a program that evaluates files.
struct Contest {
    work: &'static str,
    program: &'static str,
    call: Box<dyn Fn() -> Command>,
    usages: Vec<Usage>,
}

/// Measures everything and prints the tables.
pub(crate) async fn run(options: &Options, program: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = Files::write(folder.path(), options.objects)?;
    let mut contests: Vec<_> =
        contests(program, &files)?.into_iter().filter(|one| one.work.contains(&options.only)).collect();
    let (output, log) = (folder.path().join("output"), folder.path().join("log"));
    for round in 1..=options.repeat {
        note(&format!("Round {round} of {}", options.repeat));
        for contest in &mut contests {
            let mut command = (contest.call)();
            command.stdout(fs::File::create(&output)?);
            contest.usages.push(measure(command, &log).await?);
            ensure!(fs::metadata(&output)?.len() > 1_000, "{} found nothing", contest.program);
        }
    }
    print(&processes(options, &mut contests)?)?;
    if "library".contains(&options.only) {
        print(&library(options, folder.path())?)?;
    }
    Ok(())
}

fn policies(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bench").join(name)
}

/// The same objects in several formats.
struct Files {
    stream: PathBuf,
    singles: PathBuf,
}

impl Files {
    fn write(folder: &Path, count: usize) -> Result<Self> {
        let files = Self { stream: folder.join("objects.yaml"), singles: folder.join("objects") };
        fs::create_dir(&files.singles)?;
        let mut stream = String::new();
        for number in 0..count {
            let (_, object) = objects::object(number);
            stream += "---\n";
            block(&object, 0, &mut stream);
            fs::write(files.singles.join(format!("{number:06}.json")), serde_json::to_vec_pretty(&object)?)?;
        }
        fs::write(&files.stream, stream)?;
        Ok(files)
    }
}

/// Writes YAML as `kubectl get -o yaml` does.
fn block(value: &Value, indent: usize, out: &mut String) {
    let inner = |value: &Value, indent: usize, out: &mut String| match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, indent, out);
        }
        scalar => {
            out.push(' ');
            out.push_str(&scalar_text(scalar));
            out.push('\n');
        }
    };
    let margin = " ".repeat(indent);
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                out.push_str(&margin);
                out.push_str(&scalar_text(&Value::from(key.as_str())));
                out.push(':');
                inner(value, indent, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                out.push_str(&margin);
                out.push('-');
                if item.is_object() {
                    let mut text = String::new();
                    block(item, indent + 2, &mut text);
                    out.push(' ');
                    out.push_str(text.trim_start());
                } else {
                    inner(item, indent, out);
                }
            }
        }
        scalar => out.push_str(&scalar_text(scalar)),
    }
}

/// Writes a scalar, in quotes if it would be read as another type.
fn scalar_text(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_./:@ ".contains(char))
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&text.to_lowercase().as_str());
    if plain { text.clone() } else { value.to_string() }
}

fn contests(program: &Path, files: &Files) -> Result<Vec<Contest>> {
    let (conftest, gator) = (tool(Tool::Conftest)?, tool(Tool::Gator)?);
    let (denies, templates) = (policies("policies"), policies("templates"));
    let against = |work, program, call| Contest { work, program, call, usages: Vec::new() };
    let kaudit = |policies: &Path, manifests: &Path| -> Box<dyn Fn() -> Command> {
        let (program, policies, manifests) = (program.to_owned(), policies.to_owned(), manifests.to_owned());
        Box::new(move || Kaudit::files(&program, &policies, &manifests))
    };
    let conftest = |manifests: &Path| -> Box<dyn Fn() -> Command> {
        let (program, policies, manifests) = (conftest.clone(), denies.clone(), manifests.to_owned());
        Box::new(move || {
            let mut command = Command::new(&program);
            command.args(["test", "-o", "json", "--all-namespaces", "-p"]).arg(&policies).arg(&manifests);
            command
        })
    };
    let gator_test: Box<dyn Fn() -> Command> = {
        let (templates, stream) = (templates.clone(), files.stream.clone());
        Box::new(move || {
            let mut command = Command::new(&gator);
            command.args(["test", "-o", "json", "-f"]).arg(&templates).arg("-f").arg(&stream);
            command
        })
    };
    Ok(vec![
        against("12 denies, YAML stream", "conftest test", conftest(&files.stream)),
        against("12 denies, YAML stream", "kaudit check -f", kaudit(&denies, &files.stream)),
        against("12 denies, JSON files", "conftest test", conftest(&files.singles)),
        against("12 denies, JSON files", "kaudit check -f", kaudit(&denies, &files.singles)),
        against("20 templates, YAML stream", "gator test", gator_test),
        against("20 templates, YAML stream", "kaudit check -f", kaudit(&templates, &files.stream)),
    ])
}

fn processes(options: &Options, contests: &mut [Contest]) -> Result<String> {
    let mut table = format!(
        "\n### `check -f` and its peers: {} objects\n\nMedian (and range) of {} rounds; ratio: the peer's by kaudit's.\n\n\
         | work | program | wall s | CPU s | peak MB | wall ratio | CPU ratio |\n|---|---|---|---|---|---|---|\n",
        options.objects, options.repeat,
    );
    let mut peer = (f64::NAN, f64::NAN);
    for contest in contests {
        let mut walls: Vec<_> = contest.usages.iter().map(|usage| usage.wall.as_secs_f64()).collect();
        let mut cpus: Vec<_> = contest.usages.iter().map(|usage| usage.cpu.as_secs_f64()).collect();
        let mut peaks: Vec<_> = contest.usages.iter().map(|usage| usage.peak_kb as f64 / 1_024.0).collect();
        let (wall, cpu) = (median(&mut walls), median(&mut cpus));
        let is_kaudit = contest.program.starts_with("kaudit");
        let ratio = |peer: f64, own: f64| if is_kaudit { format!("**{:.1}**", peer / own) } else { String::new() };
        writeln!(
            table,
            "| {} | `{}` | {wall:.3} ({:.3}–{:.3}) | {cpu:.2} | {:.0} | {} | {} |",
            contest.work,
            contest.program,
            quantile(&walls, 0.0),
            quantile(&walls, 1.0),
            median(&mut peaks),
            ratio(peer.0, wall),
            ratio(peer.1, cpu),
        )?;
        peer = (wall, cpu);
    }
    table += "\nGoals: 60 times conftest on the stream and 8 times on JSON files, 15 times less CPU than gator, at most 64 MB.";
    Ok(table)
}

/// Compares evaluation alone, on one thread: OPA's prepared queries on inputs converted beforehand, and kaudit from the
/// JSON of the object to its verdict.
fn library(options: &Options, folder: &Path) -> Result<String> {
    let prepared = tool(Tool::Prepared)?;
    let mut table = "\n### Evaluation alone, one thread\n\nMicroseconds an object; OPA is given inputs that are converted already, \
        kaudit reads the JSON.\n\n| policies | OPA as a library, prepared | kaudit | ratio | policies loaded by kaudit in |\n\
        |---|---|---|---|---|\n"
        .to_owned();
    for (name, paths, jobs) in [
        ("12 denies", policies("policies"), denies_jobs(options.objects)?),
        ("20 templates", policies("templates"), templates_jobs(options.objects)?),
    ] {
        let file = folder.join("jobs.json");
        fs::write(&file, serde_json::to_vec(&jobs)?)?;
        let (mut opa, mut own, mut loads) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=options.repeat {
            note(&format!("{name}, round {round} of {}", options.repeat));
            let (times, results) = opa_round(&prepared, &file)?;
            opa.push(times);
            let began = Instant::now();
            let set = Arc::new(PolicySet::load(std::slice::from_ref(&paths))?);
            loads.push(began.elapsed().as_secs_f64() * 1e3);
            let (time, found) = own_round(options.objects, &set)?;
            own.push(time);
            ensure!(found == results, "{name}: kaudit has {found} results, OPA {results}");
        }
        let each = |times: &mut Vec<f64>| median(times) * 1e6 / options.objects as f64;
        let (opa, own) = (each(&mut opa), each(&mut own));
        writeln!(table, "| {name} | {opa:.0} | {own:.0} | **{:.2}** | {:.0} ms |", opa / own, median(&mut loads))?;
    }
    Ok(table)
}

/// Runs two rounds; returns the seconds of the second and its number of results.
fn opa_round(prepared: &Path, jobs: &Path) -> Result<(f64, usize)> {
    let output = Command::new(prepared).env("GOMAXPROCS", "1").arg("2").arg(jobs).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "prepared: {}", output.status);
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let seconds = told["seconds"][1].as_f64().context("no seconds")?;
    Ok((seconds, usize::try_from(told["results"].as_u64().context("no results")?)?))
}

fn own_round(count: usize, policies: &Arc<PolicySet>) -> Result<(f64, usize)> {
    let jobs = (0..count).map(|number| job(number, policies)).collect::<Result<Vec<_>>>()?;
    let judge = || jobs.iter().map(|job| evaluate(job).results.len()).sum::<usize>();
    judge();
    let began = Instant::now();
    let found = judge();
    Ok((began.elapsed().as_secs_f64(), found))
}

fn job(number: usize, policies: &Arc<PolicySet>) -> Result<Job> {
    let (kind, object) = objects::object(number);
    let kind = Arc::new(Kind {
        group: kind.group().to_owned(),
        version: "v1".to_owned(),
        plural: kind.plural().to_owned(),
        kind: format!("{kind:?}"),
        singular: String::new(),
        short_names: Vec::new(),
        namespaced: true,
    });
    let object =
        Received::read(&object.to_string()).into_object(&kind, Secrets::Redact, 0).map_err(anyhow::Error::msg)?;
    Ok(Job { object, previous: None, deleted: false, namespace: None, policies: policies.clone() })
}

/// Returns the twelve denies as one unit.
fn denies_jobs(count: usize) -> Result<Value> {
    let (mut modules, mut queries) = (serde_json::Map::new(), Vec::new());
    for file in fs::read_dir(policies("policies"))? {
        let path = file?.path();
        let text = fs::read_to_string(&path)?;
        let package = text.lines().find_map(|line| line.strip_prefix("package ")).context("no package")?;
        queries.push(format!("data.{package}.deny"));
        modules.insert(path.display().to_string(), text.into());
    }
    let unit = json!({"version": "v1", "modules": modules, "query": format!("[{}]", queries.join(", "))});
    let inputs: Vec<_> = (0..count).map(|number| json!({"units": [0], "value": objects::object(number).1})).collect();
    Ok(json!({"units": [unit], "inputs": inputs}))
}

/// Returns each template as a unit, as in Gatekeeper, and reviews as its audit builds them.
fn templates_jobs(count: usize) -> Result<Value> {
    let (mut units, mut kinds) = (Vec::new(), Vec::new());
    for file in fs::read_dir(policies("templates"))? {
        let documents: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(file?.path())?)?;
        let [template, constraint] = documents.as_slice() else {
            anyhow::bail!("a template and a Constraint were expected")
        };
        let target = &template["spec"]["targets"][0];
        let mut modules = serde_json::Map::from_iter([("rego".to_owned(), target["rego"].clone())]);
        let libraries = target["libs"].as_array().into_iter().flatten().enumerate();
        modules.extend(libraries.map(|(number, library)| (format!("lib{number}"), library.clone())));
        let package = template["metadata"]["name"].as_str().context("no name")?;
        let parameters = constraint["spec"].get("parameters").cloned().unwrap_or_else(|| json!({}));
        units.push(json!({
            "version": "v0", "modules": modules, "query": format!("data.{package}.violation"), "parameters": parameters,
        }));
        kinds.push(constraint["spec"]["match"]["kinds"].to_string());
    }
    let inputs = (0..count).map(|number| {
        let (kind, object) = objects::object(number);
        let judged = (0..units.len()).filter(|unit| kinds[*unit].contains(&format!("\"{kind:?}\"")));
        let review = json!({
            "kind": {"group": kind.group(), "version": "v1", "kind": format!("{kind:?}")},
            "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"], "operation": "",
            "object": object,
        });
        json!({"units": judged.collect::<Vec<_>>(), "value": review})
    });
    let inputs: Vec<_> = inputs.collect();
    Ok(json!({"units": units, "inputs": inputs}))
}
