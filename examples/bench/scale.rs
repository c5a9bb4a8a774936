//! Measures kaudit with a cluster that is too large for a real API server on this machine. The simulated API server is
//! a separate process.

mod report;
mod simulated;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use self::simulated::lists;
pub(crate) use self::{report::Table, simulated::Simulated};
use crate::{
    download::download,
    note, peers, print,
    process::{Kaudit, LongRun, cpu, memory_kb},
};

/// Options of `scale`
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of objects of all kinds
    #[arg(long, default_value_t = 300_000)]
    objects: u32,
    /// Number of namespaces
    #[arg(long, default_value_t = 2_000)]
    namespaces: u32,
    /// Numbers of shards to measure
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    shards: Vec<u32>,
    /// Number of changes that are evaluated, and a quarter of the changes that affect only the status; 0 skips them
    #[arg(long, default_value_t = 50_000)]
    changes: u32,
    /// Number of times that Namespaces are relabelled; 0 skips it
    #[arg(long, default_value_t = 3)]
    relabel: u32,
    /// Number of audits, of which the fastest is taken
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Part of the name of the parts to measure: audit, long run, changes, shards, relabel
    #[arg(long, default_value = "")]
    only: String,
}

impl Options {
    fn wants(&self, part: &str) -> bool {
        part.contains(&self.only)
    }
}

/// The time that a process is idle before its steady memory is read.
const REST: Duration = Duration::from_secs(30);
/// The interval at which kaudit's metrics are read, long enough that this hardly costs any time.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Work has ended when the metrics have not changed for this time.
const QUIET: Duration = Duration::from_secs(3);
/// The longest time to wait for an event.
const PATIENCE: Duration = Duration::from_mins(10);
/// The shortest Lease: the gaps between its renewals show stalls.
const LEASE: &str = "--lease-duration=3s";
/// The interval at which such a Lease is renewed.
const RENEWED_EVERY: Duration = Duration::from_millis(400);

/// Measures everything and prints the tables.
pub(crate) async fn run(options: &Options, program: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    note(&format!("Simulating {} objects", options.objects));
    let server = Simulated::start(folder.path(), options.objects, options.namespaces).await?;
    let kaudit = Kaudit {
        program: program.to_owned(),
        kubeconfig: server.kubeconfig.clone(),
        policies: peers::policies("policies"),
    };
    let mut whole = f64::NAN;
    if options.wants("audit") {
        whole = audit(options, &server, &kaudit, folder.path()).await?;
    }
    if options.wants("long run") || options.wants("changes") {
        long_run(options, &server, &kaudit, folder.path(), whole).await?;
    }
    if options.wants("shards") {
        shards(options, &server, &kaudit, folder.path()).await?;
    }
    if options.relabel > 0 && options.wants("relabel") {
        relabel(options, &server, &kaudit, folder.path()).await?;
    }
    Ok(())
}

/// Compares `check --once` with the plain download; returns the seconds of the fastest download.
async fn audit(options: &Options, server: &Simulated, kaudit: &Kaudit, folder: &Path) -> Result<f64> {
    let client = server.client().await?;
    let mut table = Table::new(
        &format!("{} objects in {} namespaces", options.objects, options.namespaces),
        &[
            "work",
            "wall s",
            "ratio",
            "own CPU s",
            "server CPU s",
            "peak MB",
            "most concurrent requests",
            "concurrent lists",
        ],
    );
    let (mut fastest, mut rows, mut bytes) = (f64::INFINITY, Vec::new(), 0);
    for connections in [1, 2, 8] {
        let lists = lists(&client, connections).await?;
        let mut best: Option<(f64, f64, f64)> = None;
        for round in 1..=options.repeat {
            note(&format!("Download, {connections} at a time, round {round} of {}", options.repeat));
            let before = server.cpu()?;
            let took = download(&client, lists.clone(), connections).await?;
            bytes = took.bytes;
            let seconds = (took.wall.as_secs_f64(), took.cpu.as_secs_f64(), server.cpu()? - before);
            best = Some(best.filter(|best| best.0 <= seconds.0).unwrap_or(seconds));
        }
        let (wall, own, servers) = best.context("there was no round")?;
        fastest = fastest.min(wall);
        rows.push((
            format!("download only, {connections} at a time"),
            wall,
            own,
            servers,
            String::new(),
            [String::new(), String::new()],
        ));
    }
    let mut found = serde_json::Value::Null;
    let mut best = None;
    for round in 1..=options.repeat {
        note(&format!("Audit, round {round} of {}", options.repeat));
        server.reset().await?;
        let before = server.cpu()?;
        let (took, result) = kaudit.once(folder, &[]).await?;
        ensure!(result["complete"] == true, "the audit is not complete: {}", result["coverage"]);
        found = result["summary"].clone();
        let counters = server.counters().await?;
        let most = ["inFlight", "lists"].map(|gauge| counters[gauge]["most"].to_string());
        let row = (
            "`kaudit check --once`".to_owned(),
            took.wall.as_secs_f64(),
            took.cpu.as_secs_f64(),
            server.cpu()? - before,
            mb(took.peak_kb),
            most,
        );
        best = Some(best.filter(|best: &(_, f64, _, _, _, _)| best.1 <= row.1).unwrap_or(row));
    }
    rows.extend(best);
    for (name, wall, own, servers, peak, [in_flight, lists]) in rows {
        table.row(&[
            name,
            format!("{wall:.2}"),
            format!("{:.2}", wall / fastest),
            format!("{own:.2}"),
            format!("{servers:.2}"),
            peak,
            in_flight,
            lists,
        ]);
    }
    table.note(&format!(
        "{:.0} MB of JSON. Found: {found}. The fastest of {} rounds.",
        bytes as f64 / 1e6,
        options.repeat
    ));
    table.note("Goals: at most twice the fastest download, 450 MB, 10 concurrent requests and 8 concurrent lists.");
    print(&table.markdown())?;
    Ok(fastest)
}

/// Measures the startup of the long run, its memory, its requests while idle, and the speed of changes.
async fn long_run(options: &Options, server: &Simulated, kaudit: &Kaudit, folder: &Path, download: f64) -> Result<()> {
    note("Measuring the long run");
    server.reset().await?;
    let running = kaudit.start(folder, &["--record=none"]).await?;
    let (open, evaluated) = (running.open().await?.as_secs_f64(), settled(&running).await?.as_secs_f64());
    let started = cpu(running.pid())?.as_secs_f64();
    let counters = server.counters().await?;
    let memory = |field| memory_kb(running.pid(), field).context("kaudit has ended");
    server.reset().await?;
    // There is no condition to wait for: this measures how much memory the process returns while idle.
    sleep(REST).await;
    let (peak, steady) = (memory("VmHWM")?, memory("VmRSS")?);
    let quiet = server.counters().await?;
    let requests = quiet["requests"].as_object().into_iter().flatten().filter(|(name, _)| !name.starts_with("watch"));
    let requests: u64 = requests.filter_map(|(_, number)| number.as_u64()).sum();
    let mut table = Table::new("The long run", &["", "measured", "goal"]);
    for (name, seen, goal) in [
        ("start until all kinds are synced", format!("{open:.1} s ({:.2} × the download)", open / download), "1.4 ×"),
        (
            "start until all objects are evaluated",
            format!("{evaluated:.1} s ({:.2} × the download)", evaluated / download),
            "2 ×",
        ),
        ("CPU until then", format!("{started:.1} s"), ""),
        ("memory, peak", format!("{} MB", mb(peak)), "450 MB"),
        ("memory, steady", format!("{} MB", mb(steady)), "400 MB"),
        (
            "most concurrent requests, most concurrent lists",
            format!("{}, {}", counters["inFlight"]["most"], counters["lists"]["most"]),
            "10, 8",
        ),
        ("requests a second while idle", format!("{:.2}", requests as f64 / REST.as_secs_f64()), "1"),
    ] {
        table.row(&[name.to_owned(), seen, goal.to_owned()]);
    }
    print(&table.markdown())?;
    if options.changes > 0 && options.wants("changes") {
        changes(options, server, &running).await?;
    }
    Ok(())
}

/// Waits until all known objects have been evaluated; returns the time since the start.
pub(crate) async fn settled(running: &LongRun) -> Result<Duration> {
    let mut seen = (0.0, running.began);
    loop {
        let metrics = running.metrics();
        let evaluated = metrics.sum("kaudit_evaluations_total") + metrics.sum("kaudit_changes_skipped_total");
        if evaluated > seen.0 {
            seen = (evaluated, Instant::now());
        }
        if evaluated > 0.0 && metrics.sum("kaudit_queue_length") == 0.0 && seen.1.elapsed() > QUIET {
            return Ok(seen.1 - running.began);
        }
        ensure!(running.began.elapsed() < PATIENCE, "kaudit did not become idle in time");
        sleep(POLL_EVERY).await;
    }
}

/// Measures the speed of changes that arrive faster than they can be processed.
async fn changes(options: &Options, server: &Simulated, running: &LongRun) -> Result<()> {
    let mut table = Table::new(
        "Changes that arrive faster than they can be processed",
        &["changes", "made", "wall s", "evaluated", "skipped", "own CPU s", "a second", "a second and core", "goal"],
    );
    for (name, status_share, count, goal) in [
        ("status updates that no policy reads", 100, options.changes.saturating_mul(4), "20,000"),
        ("images changed, Pods replaced", 0, options.changes, "8,000"),
    ] {
        note(&format!("{count} {name}"));
        let read_sums = || -> Result<_> {
            let metrics = running.metrics();
            let sums = ["kaudit_evaluations_total", "kaudit_changes_skipped_total"].map(|name| metrics.sum(name));
            Ok((sums, cpu(running.pid())?.as_secs_f64()))
        };
        let ([evaluated, skipped], cpu_before) = read_sums()?;
        let began = running.began.elapsed();
        server.change(count, status_share).await?;
        let wall = settled(running).await?.saturating_sub(began).as_secs_f64();
        let ([evaluated_then, skipped_then], cpu_then) = read_sums()?;
        let (evaluated, skipped, used) = (evaluated_then - evaluated, skipped_then - skipped, cpu_then - cpu_before);
        let processed = evaluated + skipped;
        table.row(&[
            name.to_owned(),
            count.to_string(),
            format!("{wall:.2}"),
            format!("{evaluated:.0}"),
            format!("{skipped:.0}"),
            format!("{used:.2}"),
            format!("{:.0}", processed / wall),
            format!("{:.0}", processed / used),
            goal.to_owned(),
        ]);
    }
    table.note("If an object changes again before it is evaluated, only its last state is evaluated.");
    print(&table.markdown())
}

/// Measures the time and memory of each shard.
async fn shards(options: &Options, server: &Simulated, kaudit: &Kaudit, folder: &Path) -> Result<()> {
    let mut table = Table::new(
        "Shards, one after the other",
        &["shards", "wall s of the slowest", "CPU s of each", "peak MB of each", "MB read by each"],
    );
    for count in &options.shards {
        let (mut wall, mut used, mut peaks, mut read) = (0.0_f64, Vec::new(), Vec::new(), Vec::new());
        for shard in 0..*count {
            note(&format!("Shard {shard} of {count}"));
            server.reset().await?;
            let (took, result) = kaudit.once(folder, &["--shard", &format!("{shard}/{count}")]).await?;
            ensure!(result["complete"] == true, "the audit is not complete: {}", result["coverage"]);
            wall = wall.max(took.wall.as_secs_f64());
            used.push(format!("{:.1}", took.cpu.as_secs_f64()));
            peaks.push(mb(took.peak_kb));
            read.push(format!("{:.0}", server.counters().await?["bytes"].as_f64().unwrap_or_default() / 1e6));
        }
        table.row(&[count.to_string(), format!("{wall:.2}"), used.join(", "), peaks.join(", "), read.join(", ")]);
    }
    print(&table.markdown())
}

/// Measures how long the pipeline stalls when the labels of all Namespaces change and a Constraint selects by them.
async fn relabel(options: &Options, server: &Simulated, kaudit: &Kaudit, folder: &Path) -> Result<()> {
    let kaudit = Kaudit { policies: selecting(folder)?, ..kaudit.clone() };
    note("Measuring a run whose Constraint selects namespaces");
    let running = kaudit.start(folder, &["--record=none", "--leader-elect", LEASE]).await?;
    running.open().await?;
    settled(&running).await?;
    let mut table = Table::new(
        &format!("{} Namespaces are relabelled while a namespaceSelector is in use", options.namespaces),
        &[
            "",
            "slowest response of the pipeline ms",
            "longest time between renewals ms",
            "evaluated",
            "own CPU s",
            "wall s",
        ],
    );
    for round in 0..=options.relabel {
        server.reset().await?;
        let evaluated = running.metrics().sum("kaudit_evaluations_total");
        let (began, used) = (Instant::now(), cpu(running.pid())?);
        let ((wall, counters), slowest) = running
            .slowest_status(async {
                if round > 0 {
                    note(&format!("Relabelling, round {round} of {}", options.relabel));
                    server.relabel().await?;
                } else {
                    sleep(REST).await;
                }
                let wall = (running.began + settled(&running).await?).saturating_duration_since(began);
                // A late renewal is counted when it comes.
                sleep(2 * RENEWED_EVERY).await;
                anyhow::Ok((wall, server.counters().await?))
            })
            .await
            .and_then(|(done, slowest)| Ok((done?, slowest)))?;
        table.row(&[
            if round == 0 { "idle".to_owned() } else { format!("round {round}") },
            format!("{:.0}", slowest.as_secs_f64() * 1e3),
            counters["longestGapMs"].to_string(),
            format!("{:.0}", running.metrics().sum("kaudit_evaluations_total") - evaluated),
            format!("{:.2}", cpu(running.pid())?.saturating_sub(used).as_secs_f64()),
            format!("{:.2}", wall.as_secs_f64()),
        ]);
    }
    table.note(&format!("The Lease is renewed every {} ms. Goal: no stall above 50 ms.", RENEWED_EVERY.as_millis()));
    print(&table.markdown())
}

/// Writes a template of the benchmark with a Constraint that selects namespaces by a label and has no violations, so
/// that the status is small and does not affect the measurement.
fn selecting(folder: &Path) -> Result<PathBuf> {
    let policies = folder.join("selecting");
    fs::create_dir(&policies)?;
    let mut template = fs::read_to_string(peers::policies("templates").join("allowed_repos.yaml"))?;
    for (text, other) in [
        ("\n  match:\n", "\n  match:\n    namespaceSelector:\n      matchLabels: {example.com/tier: gold}\n"),
        ("repos: [\"registry.example.com/\"]", "repos: [\"registry.example.com/\", \"docker.io/\"]"),
    ] {
        ensure!(template.contains(text), "the benchmark's Constraint has no {text:?}");
        template = template.replace(text, other);
    }
    fs::write(policies.join("allowed_repos.yaml"), template)?;
    Ok(policies)
}

pub(crate) fn mb(kb: u64) -> String {
    format!("{:.0}", kb as f64 / 1_024.0)
}
