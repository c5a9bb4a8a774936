//! Compares kaudit with conftest, gator and Trivy's scanner, in turn on the same files and policies.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use kaudit_controlplane::{Tool, tool};
use kaudit_test_support::objects;
use serde_json::Value;

use crate::{
    changes::quantile,
    evaluation, median, note, print,
    process::{Kaudit, Usage, measure},
};

/// Options of `peers`
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of Pods and Deployments to evaluate
    #[arg(long, default_value_t = 2_000)]
    pub(crate) objects: usize,
    /// Number of measurements of each tool, of which the median is taken
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Part of the name of the work to measure, e.g. `JSON` or `evaluation`
    #[arg(long, default_value = "")]
    only: String,
    /// Checkout of Gatekeeper's policy library, whose templates are measured as well
    #[arg(long, value_name = "DIR")]
    pub(crate) library: Option<PathBuf>,
    /// Checkout of Trivy's library, whose Kubernetes checks are measured as well
    #[arg(long, value_name = "DIR")]
    checks: Option<PathBuf>,
}

/// Creates the command of one run.
type Call = Box<dyn Fn() -> Result<Command>>;

/// One line of the table: a program that evaluates files.
struct Contest {
    work: &'static str,
    program: &'static str,
    call: Call,
    usages: Vec<Usage>,
}

/// Measures everything and prints the tables.
pub(crate) async fn run(options: &Options, program: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let files = Files::write(folder.path(), options.objects)?;
    let library = options.library.as_ref().map(|_| folder.path().join(evaluation::LIBRARY));
    if let (Some(checkout), Some(written)) = (&options.library, &library) {
        evaluation::write_library(checkout, written)?;
    }
    let mut contests = contests(program, &files, library.as_deref())?;
    if let Some(checkout) = &options.checks {
        contests.extend(trivy(program, &files, checkout, &folder.path().join("checks"))?);
    }
    contests.retain(|one| one.work.contains(&options.only));
    let (output, log) = (folder.path().join("output"), folder.path().join("log"));
    for round in 1..=options.repeat {
        note(&format!("Round {round} of {}", options.repeat));
        for contest in &mut contests {
            let mut command = (contest.call)()?;
            command.stdout(fs::File::create(&output)?);
            contest.usages.push(measure(command, &log).await?);
            ensure!(fs::metadata(&output)?.len() > 1_000, "{} has no results", contest.program);
        }
    }
    print(&processes(options, &mut contests)?)?;
    if "evaluation".contains(&options.only) {
        print(&evaluation::compare(options, folder.path())?)?;
    }
    Ok(())
}

pub(crate) fn policies(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bench").join(name)
}

/// The same objects in several formats.
struct Files {
    stream: PathBuf,
    singles: PathBuf,
    lines: PathBuf,
}

impl Files {
    fn write(folder: &Path, count: usize) -> Result<Self> {
        let files = Self {
            stream: folder.join("objects.yaml"),
            singles: folder.join("objects"),
            lines: folder.join("lines.json"),
        };
        fs::create_dir(&files.singles)?;
        let (mut stream, mut lines) = (String::new(), String::new());
        for number in 0..count {
            let (_, object) = objects::object(number);
            stream += "---\n";
            block(&object, 0, &mut stream);
            writeln!(lines, "{object}")?;
            fs::write(files.singles.join(format!("{number:06}.json")), serde_json::to_vec_pretty(&object)?)?;
        }
        fs::write(&files.stream, stream)?;
        fs::write(&files.lines, lines)?;
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

fn contests(program: &Path, files: &Files, library: Option<&Path>) -> Result<Vec<Contest>> {
    let (conftest, gator) = (tool(Tool::Conftest)?, tool(Tool::Gator)?);
    let (denies, templates) = (policies("policies"), policies("templates"));
    let against = |work, program, call| Contest { work, program, call, usages: Vec::new() };
    let kaudit = |policies: &Path, manifests: &Path| kaudit(program, policies, manifests);
    let conftest = |manifests: &Path| -> Call {
        let (program, policies, manifests) = (conftest.clone(), denies.clone(), manifests.to_owned());
        Box::new(move || {
            let mut command = Command::new(&program);
            command.args(["test", "-o", "json", "--all-namespaces", "-p"]).arg(&policies).arg(&manifests);
            command.stdin(Stdio::null());
            Ok(command)
        })
    };
    let gator = |templates: &Path| -> Call {
        let (program, templates, stream) = (gator.clone(), templates.to_owned(), files.stream.clone());
        Box::new(move || {
            let mut command = Command::new(&program);
            command.args(["test", "-o", "json", "-f"]).arg(&templates).arg("-f").arg(&stream);
            command.stdin(Stdio::null());
            Ok(command)
        })
    };
    let mut contests = vec![
        against("12 denies, YAML stream", "conftest test", conftest(&files.stream)),
        against("12 denies, YAML stream", "kaudit check -f", kaudit(&denies, &files.stream)),
        against("12 denies, JSON files", "conftest test", conftest(&files.singles)),
        against("12 denies, JSON files", "kaudit check -f", kaudit(&denies, &files.singles)),
        against("20 templates, YAML stream", "gator test", gator(&templates)),
        against("20 templates, YAML stream", "kaudit check -f", kaudit(&templates, &files.stream)),
    ];
    if let Some(templates) = library {
        let work = "templates of the library, YAML stream";
        contests.push(against(work, "gator test", gator(templates)));
        contests.push(against(work, "kaudit check -f", kaudit(templates, &files.stream)));
    }
    Ok(contests)
}

fn kaudit(program: &Path, policies: &Path, manifests: &Path) -> Call {
    let (program, policies, manifests) = (program.to_owned(), policies.to_owned(), manifests.to_owned());
    Box::new(move || Ok(Kaudit::files(&program, &policies, &manifests)))
}

/// Returns the contests of Trivy's scanner, which reads objects from standard input, and of kaudit with the same
/// checks.
fn trivy(program: &Path, files: &Files, checkout: &Path, checks: &Path) -> Result<[Contest; 2]> {
    for part in ["checks/kubernetes", "lib"] {
        copy_modules(&checkout.join(part), &checks.join(part))?;
    }
    let (scanner, folder, lines) = (tool(Tool::Trivy)?, checks.to_owned(), files.lines.clone());
    let scan: Call = Box::new(move || {
        let mut command = Command::new(&scanner);
        command.arg(&folder).env_clear().stdin(fs::File::open(&lines)?);
        Ok(command)
    });
    let work = "Trivy's Kubernetes checks, JSON lines";
    let against = |program, call| Contest { work, program, call, usages: Vec::new() };
    Ok([against("Trivy's scanner", scan), against("kaudit check -f", kaudit(program, checks, &files.lines))])
}

/// Copies the modules of a folder without their tests.
fn copy_modules(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let (path, name) = {
            let entry = entry?;
            (entry.path(), entry.file_name())
        };
        let text = name.to_string_lossy();
        if path.is_dir() {
            copy_modules(&path, &to.join(&name))?;
        } else if text.ends_with(".rego") && !text.ends_with("_test.rego") {
            fs::copy(&path, to.join(&name))?;
        }
    }
    Ok(())
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
    table += "\nGoals: 30 times conftest on the stream and 10 times on JSON files, 15 times less CPU than gator, at most 64 MB.";
    Ok(table)
}
