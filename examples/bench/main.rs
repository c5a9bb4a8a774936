//! Measures kaudit on a real control plane: the duration and memory of the audit of a large cluster, and the latency
//! from a change to its verdict and its Event. `examples/bench/README.md` has the results.
//!
//! ```text
//! cargo run --profile dist --example bench -- --objects 20000 --changes-per-second 100 --seconds 30
//! ```
//!
//! `dist` is the profile of releases; with another profile, the benchmark measures a binary of that profile.
//!
//! It starts etcd and kube-apiserver (found or built as for the tests), creates Pods and Deployments of about 6 KB each
//! (11 KB with `managedFields`), and prints Markdown tables. The policies are twelve simple denies, in
//! `examples/bench/policies`. Compared values are measured in turn in the same run, because ratios depend less on the
//! machine than seconds.
//!
//! - The lower bound is a download: the same client reads the same lists and discards them, over one connection and over
//!   eight.
//! - `--kaudit PATH` measures another binary, e.g. of an earlier commit, and can be repeated. Without the option, the binary of
//!   this source is built and measured.
//! - "Own share" is the latency that kaudit adds: the time from the change in a raw watch to kaudit's verdict on standard
//!   output, or to its Event in a raw watch. From the latter, the latency of an Event that the benchmark writes itself is
//!   subtracted.
//!
//! ```text
//! cargo run --profile dist --example bench -- peers
//! ```
//!
//! compares `check -f` with conftest and gator, and only evaluation with OPA as a Go library, on the same objects and
//! policies. These tools are built with Go as for the tests.
//!
//! ```text
//! cargo run --profile dist --example bench -- scale
//! ```
//!
//! measures hundreds of thousands of objects, which a simulated API server serves; `bench serve` runs only this server.
//! `bench page` measures the web page over such a server.
//!
//! The API server runs on the same machine, so all times include its work.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "measured and counted values are small"
)]

mod apiserver;
mod changes;
mod download;
mod evaluation;
mod library;
mod page;
mod peers;
mod process;
mod scale;

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use kaudit_controlplane::{ControlPlane, Options as PlaneOptions};
use kaudit_test_support::objects;
use kube::Client;
use serde_json::{Value, json};

use crate::{
    changes::quantile,
    download::download,
    process::{Kaudit, LongRun, cpu, memory_kb},
};

/// Measure kaudit on a real control plane
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    mode: Option<Mode>,
    /// Number of Pods and Deployments to create
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Changes per second that create or resolve a violation
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    changes_per_second: u32,
    /// Seconds of changes; 0 skips them
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Number of measurements of the audit, of which the median is taken
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Binary to measure instead of that of this source; repeatable
    #[arg(long = "kaudit", value_name = "PATH")]
    programs: Vec<PathBuf>,
    /// Only fill the cluster, print its kubeconfig and keep it until interrupted, e.g. to profile kaudit
    #[arg(long)]
    hold: bool,
}

/// Other measurements.
#[derive(Debug, clap::Subcommand)]
enum Mode {
    /// Compare with conftest, gator and OPA as a library; needs no cluster
    Peers(peers::Options),
    /// Measure a simulated cluster that is larger than a real API server on this machine can hold
    Scale(scale::Options),
    /// Measure the web page over a simulated cluster: responses, memory, and latency of changes
    Page(page::Options),
    /// Serve a simulated cluster until interrupted
    Serve(apiserver::Options),
}

/// The number of concurrent requests while the cluster is filled.
const WRITERS: usize = 32;
/// How long a process is idle before its steady memory is read.
const REST: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    // In all cases, child processes are killed when they are dropped.
    runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            done = Box::pin(bench(&options)) => done,
            stopped = tokio::signal::ctrl_c() => { stopped?; Err(anyhow::anyhow!("interrupted")) }
            _ = terminate.recv() => Err(anyhow::anyhow!("terminated")),
        }
    })
}

async fn bench(options: &Options) -> Result<()> {
    if let Some(Mode::Serve(options)) = &options.mode {
        return apiserver::run(options).await;
    }
    let programs = if options.programs.is_empty() { vec![build()?] } else { options.programs.clone() };
    if let Some(Mode::Peers(options)) = &options.mode {
        print(&host(&programs[0])?)?;
        return peers::run(options, &programs[0]).await;
    }
    if let Some(Mode::Scale(options)) = &options.mode {
        print(&host(&programs[0])?)?;
        return scale::run(options, &programs[0]).await;
    }
    if let Some(Mode::Page(options)) = &options.mode {
        print(&host(&programs[0])?)?;
        return page::run(options, &programs[0]).await;
    }
    let folder = tempfile::tempdir()?;
    note("Starting the control plane");
    let plane = ControlPlane::start(PlaneOptions {
        // A user who is not throttled writes Events and objects.
        apiserver_args: vec!["--enable-priority-and-fairness=false".to_owned()],
        ..PlaneOptions::default()
    })
    .await?;
    let mut config = plane.admin_config();
    // On one machine compression costs more than it saves.
    config.disable_compression = true;
    let client = Client::try_from(config)?;
    let kaudits: Vec<_> = programs
        .iter()
        .map(|program| Kaudit {
            program: program.clone(),
            kubeconfig: plane.kubeconfig(),
            policies: Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bench/policies"),
        })
        .collect();
    print(&format!(
        "{}, kube-apiserver {}",
        host(&kaudits[0].program)?,
        client.apiserver_version().await?.git_version
    ))?;

    note("Measuring an almost empty cluster");
    let mut empty = Vec::new();
    for kaudit in &kaudits {
        empty.push(long_run(kaudit, folder.path()).await?);
    }
    let filled = fill(&client, options.objects).await?;
    let size = object_size(&client).await?;
    print(&format!(
        "- {} objects created in {:.0} s ({:.0} a second); a Pod is {:.1} KB of JSON, {:.1} KB with managedFields",
        options.objects,
        filled.as_secs_f64(),
        options.objects as f64 / filled.as_secs_f64(),
        size.1 / 1e3,
        size.0 / 1e3,
    ))?;
    if options.hold {
        print(&format!("- KUBECONFIG={}", plane.kubeconfig().display()))?;
        std::future::pending::<()>().await;
    }
    audit(options, &client, &plane, &kaudits, folder.path()).await?;
    first_verdict(options, &kaudits, &empty, folder.path()).await?;
    for kaudit in kaudits.iter().filter(|_| options.seconds > 0) {
        latency(options, &client, kaudit, folder.path()).await?;
    }
    plane.stop().await
}

/// Builds the binary of this source with the profile of this process; returns its path.
fn build() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.ancestors().nth(2).context("this is not in a target folder")?;
    let profile = match folder.file_name().and_then(OsStr::to_str).context("this is not in a target folder")? {
        "debug" => "dev",
        named => named,
    };
    note(&format!("Building kaudit with the profile {profile}"));
    let built = Command::new(env!("CARGO"))
        .args(["build", "--profile", profile, "--bin", "kaudit", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .status()?;
    ensure!(built.success(), "building kaudit failed");
    Ok(folder.join("kaudit"))
}

/// Creates namespaces and objects; returns the time for the objects.
async fn fill(client: &Client, objects: usize) -> Result<Duration> {
    note(&format!("Creating {objects} objects"));
    let namespaces = (0..objects::NAMESPACES).map(|number| {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects::namespace(number)}});
        create(client, "/api/v1/namespaces".to_owned(), body)
    });
    stream::iter(namespaces).buffer_unordered(WRITERS).try_collect::<()>().await?;
    let began = Instant::now();
    let requests = (0..objects).map(|number| {
        let (kind, object) = objects::object(number);
        create(client, kind.path(Some(&objects::namespace(number))), object)
    });
    stream::iter(requests).buffer_unordered(WRITERS).try_collect::<()>().await?;
    Ok(began.elapsed())
}

async fn create(client: &Client, path: String, object: Value) -> Result<()> {
    let request = Request::post(format!("{path}?fieldManager=bench"))
        .header("Content-Type", "application/json")
        .body(serde_json::to_vec(&object)?)?;
    client.request_text(request).await.with_context(|| format!("creating in {path}"))?;
    Ok(())
}

/// Returns the average size of a Pod in bytes, as the server sends it and without `managedFields`.
async fn object_size(client: &Client) -> Result<(f64, f64)> {
    let request = Request::get(format!("{}?limit=100", objects::Kind::Pod.path(None))).body(Vec::new())?;
    let mut list: Value = client.request(request).await?;
    let pods = list["items"].as_array_mut().context("no list")?;
    let (count, mut sent, mut bare) = (pods.len().max(1) as f64, 0, 0);
    for pod in pods {
        sent += serde_json::to_vec(pod)?.len();
        if let Some(metadata) = pod["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        bare += serde_json::to_vec(pod)?.len();
    }
    Ok((sent as f64 / count, bare as f64 / count))
}

/// One row of the table of audits; each list has a value per round.
#[derive(Default)]
struct Row {
    name: String,
    wall: Vec<f64>,
    cpu: Vec<f64>,
    server: Vec<f64>,
    peak_mb: Vec<f64>,
}

impl Row {
    fn named(name: String) -> Self {
        Self { name, ..Self::default() }
    }
}

/// Compares `check --once` with the plain download.
async fn audit(
    options: &Options,
    client: &Client,
    plane: &ControlPlane,
    kaudits: &[Kaudit],
    folder: &Path,
) -> Result<()> {
    let server_cpu = || plane.pids().into_iter().map(cpu).sum::<Result<Duration>>().map(|time| time.as_secs_f64());
    let connections = [1, 2, 8];
    let mut downloads = connections.map(|count| Row::named(format!("download only, {count} at a time")));
    let mut audits: Vec<_> =
        kaudits.iter().map(|kaudit| Row::named(format!("`{} check --once`", label(kaudit)))).collect();
    // The first download fills the caches of the server.
    let (mut bytes, mut found) = (download(client, objects::lists(1), 1).await?.bytes, Value::Null);
    for round in 1..=options.repeat {
        note(&format!("Audit, round {round} of {}", options.repeat));
        for (row, count) in downloads.iter_mut().zip(connections) {
            let before = server_cpu()?;
            let took = download(client, objects::lists(count), count).await?;
            row.wall.push(took.wall.as_secs_f64());
            row.cpu.push(took.cpu.as_secs_f64());
            row.server.push(server_cpu()? - before);
            bytes = bytes.max(took.bytes);
        }
        for (row, kaudit) in audits.iter_mut().zip(kaudits) {
            let before = server_cpu()?;
            let (took, result) = kaudit.once(folder, &[]).await?;
            row.wall.push(took.wall.as_secs_f64());
            row.cpu.push(took.cpu.as_secs_f64());
            row.server.push(server_cpu()? - before);
            row.peak_mb.push(took.peak_kb as f64 / 1_024.0);
            ensure!(result["complete"] == true, "the audit is not complete: {}", result["coverage"]);
            ensure!(found.is_null() || found == result["summary"], "{found} became {}", result["summary"]);
            found = result["summary"].clone();
        }
    }
    let limit = downloads.iter_mut().map(|row| median(&mut row.wall)).fold(f64::INFINITY, f64::min);
    let mut table = format!(
        "\n### Audit of a full cluster\n\n{:.0} MB of JSON; found: {found}. Median (and range) of {} rounds.\n\n\
         | work | wall s | ratio | own CPU s | server CPU s | peak MB |\n|---|---|---|---|---|---|\n",
        bytes as f64 / 1e6,
        options.repeat,
    );
    for row in downloads.iter_mut().chain(&mut audits) {
        let wall = median(&mut row.wall);
        writeln!(
            table,
            "| {} | {wall:.2} ({:.2}–{:.2}) | {:.2} | {:.2} | {:.2} | {} |",
            row.name,
            quantile(&row.wall, 0.0),
            quantile(&row.wall, 1.0),
            wall / limit,
            median(&mut row.cpu),
            median(&mut row.server),
            if row.peak_mb.is_empty() { String::new() } else { format!("{:.0}", median(&mut row.peak_mb)) },
        )?;
    }
    table += "\nGoal: at most twice the fastest download, at most 100 MB.";
    print(&table)
}

/// The startup of a long run: times since the start, and memory in KB.
struct StartUp {
    open: Duration,
    evaluated: Duration,
    peak_kb: u64,
    steady_kb: u64,
}

async fn long_run(kaudit: &Kaudit, folder: &Path) -> Result<StartUp> {
    let running = kaudit.start(folder, &["--record=none"]).await?;
    let (open, evaluated) = (running.open().await?, running.evaluated().await?);
    let memory = |field| memory_kb(running.pid(), field).context("kaudit has ended");
    // There is no condition to wait for: this measures how much memory the process returns while idle.
    tokio::time::sleep(REST).await;
    Ok(StartUp { open, evaluated, peak_kb: memory("VmHWM")?, steady_kb: memory("VmRSS")? })
}

async fn first_verdict(options: &Options, kaudits: &[Kaudit], empty: &[StartUp], folder: &Path) -> Result<()> {
    note("Measuring the startup of the long run");
    let mut table = "\n### Long run: from the start until all objects are evaluated\n\n\
        | binary | synced s | evaluated s | peak MB | steady MB | empty cluster MB | KB for each object |\n\
        |---|---|---|---|---|---|---|\n"
        .to_owned();
    for (kaudit, empty) in kaudits.iter().zip(empty) {
        let full = long_run(kaudit, folder).await?;
        writeln!(
            table,
            "| {} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} | {:.2} |",
            label(kaudit),
            full.open.as_secs_f64(),
            full.evaluated.as_secs_f64(),
            full.peak_kb as f64 / 1_024.0,
            full.steady_kb as f64 / 1_024.0,
            empty.steady_kb as f64 / 1_024.0,
            (full.steady_kb as f64 - empty.steady_kb as f64) / options.objects as f64,
        )?;
    }
    table += "\nGoal: at most 1.5 KB for each further object.";
    print(&table)
}

/// Changes Pods and measures the latency of verdicts and Events.
async fn latency(options: &Options, client: &Client, kaudit: &Kaudit, folder: &Path) -> Result<()> {
    note("Measuring latency");
    // Existing violations are the baseline, so that nothing else is written meanwhile.
    let arguments = ["--record=events", "--events-per-second=10000", "--initial=skip"];
    let running: LongRun = kaudit.start(folder, &arguments).await?;
    running.open().await?;
    let before = running.metrics();
    let cpu_before = cpu(running.pid())?;
    let seen = changes::run(client, &running, options.changes_per_second, options.seconds).await?;
    let cpu = cpu(running.pid())?.saturating_sub(cpu_before);
    let metrics = running.metrics();
    let mut table = format!(
        "\n### From a change to its verdict and its Event: {}\n\n{} changes in {:.1} s ({:.0} a second), {} verdicts and {} \
         Events missing, {:.2} ms of CPU for each.\n\n| milliseconds | p50 | p99 |\n|---|---|---|\n",
        label(kaudit),
        seen.changes,
        seen.seconds,
        seen.changes as f64 / seen.seconds,
        seen.verdicts_missing,
        seen.events_missing,
        cpu.as_secs_f64() * 1e3 / seen.changes as f64,
    );
    for (name, times) in [
        ("response to the patch → raw watch", &seen.watch),
        ("response to the patch → verdict on standard output", &seen.verdict),
        ("response to the patch → Event in a raw watch", &seen.event),
        ("**own share to the verdict**: raw watch → standard output", &seen.own_verdict),
        ("raw watch of the change → raw watch of its Event", &seen.own_event),
        ("an Event written by the benchmark itself → raw watch", &seen.post),
    ] {
        writeln!(table, "| {name} | {:.2} | {:.2} |", quantile(times, 0.5), quantile(times, 0.99))?;
    }
    // Only the medians of two distributions can be subtracted; for the tail, see the share to the verdict.
    let own = quantile(&seen.own_event, 0.5) - quantile(&seen.post, 0.5);
    writeln!(table, "| **own share to the Event**: difference of the two | {own:.2} | |")?;
    for name in ["kaudit_verdict_latency_seconds", "kaudit_event_latency_seconds"] {
        let estimate = |share| metrics.quantile(name, &before, share) * 1e3;
        writeln!(table, "| `{name}`, estimated | {:.2} | {:.2} |", estimate(0.5), estimate(0.99))?;
    }
    table += "\nGoal: own share p50 at most 1 ms, p99 at most 5 ms, nothing missing.";
    print(&table)
}

fn label(kaudit: &Kaudit) -> String {
    kaudit.program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(values, 0.5)
}

/// Describes the machine and the version of kaudit.
fn host(kaudit: &Path) -> Result<String> {
    let info = |file: &str, field: &str| -> Option<String> {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(field))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory = info("/proc/meminfo", "MemTotal").and_then(|size| size.split(' ').next()?.parse::<f64>().ok());
    let version = Command::new(kaudit).arg("--version").output()?.stdout;
    Ok(format!(
        "- {} cores, {:.0} GB of memory, {}\n- {}",
        std::thread::available_parallelism()?,
        memory.unwrap_or_default() / 1e6,
        info("/proc/cpuinfo", "model name").unwrap_or_default(),
        String::from_utf8_lossy(&version).trim(),
    ))
}

fn print(text: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// Prints progress.
fn note(text: &str) {
    // If standard error is closed, progress is not printed.
    drop(writeln!(std::io::stderr(), "{text}"));
}
