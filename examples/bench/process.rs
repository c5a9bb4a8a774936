//! kaudit as a child process: its resource usage and its metrics.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use kaudit_test_support::{
    child::ChildGuard,
    long_run::{self, admin_address, get, page_address},
};
use serde_json::Value;
use tokio::time::sleep;

/// The ticks per second of CPU times in `/proc`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);
/// How often memory is read. The kernel keeps the peak, so only a peak after the last read is missed.
const POLL_EVERY: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_mins(10);

/// The resource usage of a process from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Peak resident set size in KB.
    pub(crate) peak_kb: u64,
}

/// Returns the CPU time of a process that is running, or has ended and was not waited for yet.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before the last parenthesis can contain anything.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has an unknown format")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    Ok(TICK * ticks.sum::<Result<u32, _>>()?)
}

/// Returns a size in KB from `/proc/PID/status`; `None` if the process has ended.
pub(crate) fn memory_kb(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(crate) fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, fields)| fields.trim_start().starts_with(['Z', 'X']))
}

/// Runs a program to its end, for which exit codes 0 and 1 are success; returns its resource usage. What it reads from
/// standard input is the caller's choice.
pub(crate) async fn measure(mut command: Command, log: &Path) -> Result<Usage> {
    command.stderr(fs::File::create(log)?);
    let began = Instant::now();
    let mut child = ChildGuard(command.spawn().with_context(|| format!("starting {command:?}"))?);
    let pid = child.0.id();
    let mut peak_kb = 0;
    while !has_ended(pid) {
        peak_kb = peak_kb.max(memory_kb(pid, "VmHWM").unwrap_or_default());
        ensure!(began.elapsed() < PATIENCE, "{command:?} does not end");
        sleep(POLL_EVERY).await;
    }
    let usage = Usage { wall: began.elapsed(), cpu: cpu(pid)?, peak_kb };
    let status: ExitStatus = child.0.wait()?;
    ensure!(matches!(status.code(), Some(0 | 1)), "{command:?}: {status}\n{}", fs::read_to_string(log)?);
    Ok(usage)
}

/// A binary of kaudit with the options that the benchmark passes to it.
#[derive(Debug, Clone)]
pub(crate) struct Kaudit {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) policies: PathBuf,
}

impl Kaudit {
    fn check(&self, arguments: &[&str]) -> Command {
        let mut command = long_run::kaudit(&self.program, &self.kubeconfig);
        command.arg("check").arg("--policies").arg(&self.policies).args(arguments).stdin(Stdio::null());
        command
    }

    /// Returns the command `check -f` for a program, policies and manifests.
    pub(crate) fn files(program: &Path, policies: &Path, manifests: &Path) -> Command {
        let kaudit = Self { program: program.to_owned(), kubeconfig: PathBuf::new(), policies: policies.to_owned() };
        let mut command = kaudit.check(&["-o", "json", "-f"]);
        command.arg(manifests);
        command
    }

    /// Runs `check --once`; returns its resource usage and its result.
    pub(crate) async fn once(&self, folder: &Path, arguments: &[&str]) -> Result<(Usage, Value)> {
        let (result, log) = (folder.join("result.json"), folder.join("once.log"));
        let mut command = self.check(&["--once", "-o", &format!("json={}", result.display())]);
        command.args(arguments).stdout(Stdio::null());
        let usage = measure(command, &log).await?;
        Ok((usage, serde_json::from_slice(&fs::read(&result)?)?))
    }

    /// Starts the long run and waits until its HTTP server is up.
    pub(crate) async fn start(&self, folder: &Path, arguments: &[&str]) -> Result<LongRun> {
        let log = folder.join("kaudit.log");
        let mut command = self.check(&["--listen=127.0.0.1:0", "--log-format=json", "--output=ndjson"]);
        command.args(arguments).stdout(Stdio::piped()).stderr(fs::File::create(&log)?);
        let began = Instant::now();
        let mut child = ChildGuard(command.spawn().context("starting kaudit")?);
        let (sender, lines) = channel();
        let stdout = child.0.stdout.take().context("no standard output")?;
        // The thread ends with the child.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        loop {
            let text = fs::read_to_string(&log)?;
            if let Some(address) = admin_address(&text) {
                return Ok(LongRun { child, address, began, lines, log });
            }
            if began.elapsed() > PATIENCE || has_ended(child.0.id()) {
                bail!("kaudit has not opened its port\n{text}");
            }
            sleep(POLL_EVERY).await;
        }
    }
}

/// A long run.
pub(crate) struct LongRun {
    child: ChildGuard,
    address: SocketAddr,
    /// The time of the start.
    pub(crate) began: Instant,
    /// Lines of standard output, with the times when they were read.
    pub(crate) lines: Receiver<(Instant, String)>,
    log: PathBuf,
}

impl LongRun {
    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Returns the address of the web page.
    pub(crate) fn page(&self) -> Result<SocketAddr> {
        page_address(&fs::read_to_string(&self.log)?).context("kaudit serves no page")
    }

    fn get(&self, path: &str) -> Option<String> {
        get(self.address, path)
    }

    /// Requests the status repeatedly while `work` runs; returns the duration of the slowest response. The pipeline
    /// answers these requests between other work, so its longest uninterrupted work took about as long.
    pub(crate) async fn slowest_status<T>(&self, work: impl Future<Output = T>) -> Result<(T, Duration)> {
        let (address, is_done) = (self.address, Arc::new(AtomicBool::new(false)));
        let asked = tokio::task::spawn_blocking({
            let is_done = is_done.clone();
            move || {
                let mut slowest = Duration::ZERO;
                while !is_done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    get(address, "/status").context("kaudit does not return its status")?;
                    slowest = slowest.max(began.elapsed());
                    std::thread::sleep(POLL_EVERY);
                }
                anyhow::Ok(slowest)
            }
        });
        let done = work.await;
        is_done.store(true, Ordering::Relaxed);
        Ok((done, asked.await??))
    }

    /// Returns its metrics.
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics(self.get("/metrics").unwrap_or_default())
    }

    /// Waits until the gate is open; returns the time since the start.
    pub(crate) async fn open(&self) -> Result<Duration> {
        self.wait("readiness", |running| running.get("/readyz").is_some()).await
    }

    /// Waits until everything in the cache has been evaluated; returns the time since the start.
    pub(crate) async fn evaluated(&self) -> Result<Duration> {
        self.wait("the evaluation of all objects", |running| {
            let metrics = running.metrics();
            metrics.sum("kaudit_evaluations_total") >= metrics.sum("kaudit_objects")
        })
        .await
    }

    async fn wait(&self, condition: &str, done: impl Fn(&Self) -> bool) -> Result<Duration> {
        while !done(self) {
            ensure!(
                self.began.elapsed() < PATIENCE && !has_ended(self.pid()),
                "timed out waiting for {condition}, or kaudit has ended"
            );
            sleep(POLL_EVERY).await;
        }
        Ok(self.began.elapsed())
    }
}

/// Metrics in the text format.
pub(crate) struct Metrics(String);

impl Metrics {
    fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, value.parse().ok()?))
        })
    }

    /// Returns the sum of all series of a name.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.samples(name).map(|(_, value)| value).sum()
    }

    /// Returns a quantile of the observations of a histogram since `before`, in seconds, estimated as in Prometheus.
    pub(crate) fn quantile(&self, name: &str, before: &Self, quantile: f64) -> f64 {
        let bucket = format!("{name}_bucket");
        let bounds = |metrics: &Self| -> Vec<(f64, f64)> {
            let bound = |labels: &str| labels.split("le=\"").nth(1)?.split('"').next()?.replace('+', "").parse().ok();
            metrics.samples(&bucket).filter_map(|(labels, count)| Some((bound(labels)?, count))).collect()
        };
        let (now, old) = (bounds(self), bounds(before));
        let counts: Vec<_> =
            now.iter().enumerate().map(|(i, (le, n))| (*le, n - old.get(i).map_or(0.0, |o| o.1))).collect();
        let wanted = quantile * counts.last().map_or(0.0, |(_, all)| *all);
        let (mut low, mut below) = (0.0, 0.0);
        for (bound, count) in counts {
            if count >= wanted && count > below {
                return if bound.is_finite() { low + (bound - low) * (wanted - below) / (count - below) } else { low };
            }
            (low, below) = (bound, count);
        }
        f64::NAN
    }
}
