//! Measures `kaudit fleet` with many clusters: `cargo run --release --example fleet_size -- CLUSTERS SECONDS`
//!
//! One real kaudit on a real API server fills a bucket with the results of the library for Deployments in 50 namespaces.
//! This bucket is copied for each simulated cluster on a real NATS with file storage. A view reads all of them, while parts
//! of results change: each change replaces one part by another version of it, without one violation.
//!
//! Prints a table: the time until the view has read everything, its memory for each violation, the first byte of the
//! overview, the time from a write to the page, and the storage. Needs `target/release/kaudit`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use async_nats::{
    HeaderMap,
    jetstream::{self, kv},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kaudit_controlplane::{ControlPlane, NatsServer, Options, free_port};
use kaudit_test_support::long_run;
use serde_json::Value;
use tokio::time::sleep;

/// Namespaces of the seed, and Deployments in each.
const NAMESPACES: usize = 50;
const DEPLOYMENTS: usize = 10;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// Changes a second, in all clusters together.
const CHANGES: u64 = 200;

/// The pages whose first byte is measured.
const PAGES: [&str; 8] = [
    "/",
    "/?view=namespaces",
    "/?view=rules",
    "/?view=objects",
    "/?view=objects&severity=critical",
    "/?view=changes",
    "/?cluster=c00000",
    "/?cluster=c00000&q=web-3",
];

/// A value of the seed's bucket by its key.
type BucketValues = BTreeMap<String, Vec<u8>>;

/// A process that ends with this one.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let clusters: usize = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(30), |text| text.parse())?;
    let server = NatsServer::start("max_payload: 8MB", &[]).await?;
    let nats = jetstream::new(async_nats::connect(server.address()).await?);
    say("Filling the bucket of one cluster with a real kaudit")?;
    let seed = Seed::new(&nats, &server).await?;
    let bytes: usize = seed.values.values().map(Vec::len).sum();
    row("violations in a cluster", seed.violations)?;
    row("values in a bucket", format!("{} of {} KB", seed.values.len(), bytes / 1_000))?;
    row("bytes in a bucket for each violation", bytes / seed.violations.max(1))?;

    say("Copying it")?;
    let began = Instant::now();
    let writes = stream::iter(0..clusters).map(|number| copy(&nats, &seed.values, number)).buffer_unordered(8);
    writes.try_collect::<Vec<()>>().await?;
    row("time to copy", format!("{:.0?}", began.elapsed()))?;
    let stored = disk(&server.folder().join("data"))? / u64::try_from(clusters)?;
    row("storage of NATS for each cluster", format!("{} KB", stored / 1_000))?;
    measure(&nats, &server, &seed, clusters, seconds).await
}

/// Starts a view, and measures it before, during and after changes.
async fn measure(
    nats: &jetstream::Context,
    server: &NatsServer,
    seed: &Seed,
    clusters: usize,
    seconds: u64,
) -> Result<()> {
    let began = Instant::now();
    let view = View::start(server)?;
    let heart = tokio::spawn(beat(nats.clone(), seed.heartbeat.clone(), clusters));
    view.until(|view| view.get("/readyz").is_some()).await.context("the view does not become ready")?;
    row("time until all buckets are read", format!("{:.1?}", began.elapsed()))?;
    let memory = view.memory()?;
    row("memory of the view", format!("{} MB", memory / 1_000_000))?;
    row("bytes of memory for each violation", memory / u64::try_from(seed.violations * clusters)?.max(1))?;
    for path in PAGES {
        row(&format!("first byte of {path}"), view.first_bytes(path)?)?;
    }

    say(&format!("{CHANGES} changes a second for {seconds} s"))?;
    let writing = tokio::spawn(change(nats.clone(), seed.versions(), clusters, seconds));
    let mut late = Vec::new();
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        let probe = late.len();
        let is_removed = (probe / clusters).is_multiple_of(2);
        late.push(seed.probe(nats, &view, probe % clusters, is_removed).await?);
        sleep(Duration::from_millis(50)).await;
    }
    row("probes", late.len())?;
    row("from a write to the page", quantiles(&mut late))?;
    row("changes written", writing.await??)?;
    row("memory of the view afterwards", format!("{} MB", view.memory()? / 1_000_000))?;
    row("first byte of / afterwards", view.first_bytes("/")?)?;
    heart.abort();
    Ok(())
}

/// The bucket of one real cluster.
struct Seed {
    values: BucketValues,
    heartbeat: Vec<u8>,
    violations: usize,
    /// A part of the results in one namespace, as it is and with one object less, and the numbers of its results.
    probe: (String, [Vec<u8>; 2], [usize; 2]),
}

impl Seed {
    async fn new(nats: &jetstream::Context, server: &NatsServer) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let mut objects = String::new();
        for namespace in 0..NAMESPACES {
            writeln!(objects, "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: team-{namespace}}}}}")?;
            for deployment in 0..DEPLOYMENTS {
                let labels = format!("{{app: web-{deployment}}}");
                let template =
                    format!("{{metadata: {{labels: {labels}}}, spec: {{containers: [{{name: web, image: nginx}}]}}}}");
                let spec = format!("{{selector: {{matchLabels: {labels}}}, template: {template}}}");
                let metadata = format!("{{name: web-{deployment}, namespace: team-{namespace}}}");
                writeln!(
                    objects,
                    "---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {metadata}, spec: {spec}}}"
                )?;
            }
        }
        plane.apply(&objects).await?;
        let mut command = long_run::kaudit(&program(), &plane.kubeconfig());
        command.args(["check", "--record=none", "-p=builtin", "--cluster-name=seed", "--fleet"]);
        let url = format!("nats://{}", server.address());
        let kaudit = Running(command.arg(&url).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let first = until_settled(nats).await?;
        let namespace = "team-7";
        plane.kubectl(&["-n", namespace, "delete", "deployment", "web-3"]).await?;
        let key = first.keys().find(|key| key.contains(&format!(".results.{namespace}.")));
        let key = key.context("no results of the namespace")?.clone();
        let deadline = Instant::now() + PATIENCE;
        let second = loop {
            let now = until_settled(nats).await?;
            if now.get(&key).is_some_and(|value| value != &first[&key]) {
                break now;
            }
            ensure!(Instant::now() < deadline, "the deletion does not reach the bucket");
        };
        drop(kaudit);
        let heartbeat = first.get("0-1.heartbeat").context("no heartbeat")?.clone();
        let count = |value: &[u8]| -> Result<usize> {
            let json: Value = serde_json::from_slice(&zstd::decode_all(value)?)?;
            let objects = json["objects"].as_array().context("no objects")?;
            Ok(objects.iter().filter_map(|object| object["results"].as_array()).map(Vec::len).sum())
        };
        let mut violations = 0;
        for value in first.iter().filter(|(key, _)| key.contains(".results.")).map(|(_, value)| value) {
            violations += count(value)?;
        }
        let versions = [first[&key].clone(), second[&key].clone()];
        let counts = [count(&versions[0])?, count(&versions[1])?];
        plane.stop().await?;
        Ok(Self { values: first, heartbeat, violations, probe: (key, versions, counts) })
    }

    /// Returns parts that are written as changes, other than that of probes.
    fn versions(&self) -> Vec<(String, Vec<u8>)> {
        let parts = self.values.iter().filter(|(key, _)| key.contains(".results.") && **key != self.probe.0);
        parts.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Writes a change into the bucket of a cluster, and returns the time until the page shows it.
    async fn probe(
        &self,
        nats: &jetstream::Context,
        view: &View,
        cluster: usize,
        is_removed: bool,
    ) -> Result<Duration> {
        let (key, versions, counts) = &self.probe;
        let version = usize::from(is_removed);
        let began = Instant::now();
        put(nats, cluster, key, versions[version].clone()).await?;
        let path = format!("/?cluster=c{cluster:05}&namespace=team-7&format=json");
        loop {
            let page: Value = serde_json::from_str(&view.get(&path).unwrap_or_default()).unwrap_or_default();
            if page["results"].as_array().is_some_and(|results| results.len() == counts[version]) {
                return Ok(began.elapsed());
            }
            ensure!(began.elapsed() < PATIENCE, "a change does not reach the page: {} results", page["results"]);
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Returns the values of the seed's bucket once they have been the same for a while.
async fn until_settled(nats: &jetstream::Context) -> Result<BucketValues> {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut since) = (BucketValues::new(), Instant::now());
    let has_results = |values: &BucketValues| values.keys().any(|key| key.contains(".results."));
    while !has_results(&last) || since.elapsed() < Duration::from_secs(5) {
        ensure!(Instant::now() < deadline, "the bucket of the seed does not settle");
        sleep(Duration::from_millis(300)).await;
        let now = values(nats).await.unwrap_or_default();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(last)
}

async fn values(nats: &jetstream::Context) -> Result<BucketValues> {
    let bucket = nats.get_key_value("kaudit-seed").await?;
    let keys: Vec<String> = bucket.keys().await?.try_collect().await?;
    let mut values = BucketValues::new();
    for key in keys {
        if let Some(value) = bucket.get(&key).await? {
            values.insert(key, value.to_vec());
        }
    }
    Ok(values)
}

/// Writes the seed's values into the bucket of another cluster.
async fn copy(nats: &jetstream::Context, values: &BucketValues, number: usize) -> Result<()> {
    let config = kv::Config { bucket: format!("kaudit-c{number:05}"), history: 1, ..kv::Config::default() };
    nats.create_key_value(config).await?;
    let mut written = Vec::new();
    for (key, value) in values {
        written.push(send(nats, number, key, value.clone()).await?);
    }
    for acknowledgement in written {
        acknowledgement.await?;
    }
    Ok(())
}

async fn send(
    nats: &jetstream::Context,
    cluster: usize,
    key: &str,
    value: Vec<u8>,
) -> Result<jetstream::context::PublishAckFuture> {
    let subject = format!("$KV.kaudit-c{cluster:05}.{key}");
    Ok(nats.publish_with_headers(subject, HeaderMap::new(), value.into()).await?)
}

async fn put(nats: &jetstream::Context, cluster: usize, key: &str, value: Vec<u8>) -> Result<()> {
    send(nats, cluster, key, value).await?.await?;
    Ok(())
}

/// Keeps all clusters alive.
async fn beat(nats: jetstream::Context, heartbeat: Vec<u8>, clusters: usize) -> Result<()> {
    let pause = Duration::from_mins(1) / u32::try_from(clusters)?;
    loop {
        for cluster in 0..clusters {
            put(&nats, cluster, "0-1.heartbeat", heartbeat.clone()).await?;
            sleep(pause).await;
        }
    }
}

/// Writes parts of results into buckets at random; returns how many.
async fn change(nats: jetstream::Context, parts: Vec<(String, Vec<u8>)>, clusters: usize, seconds: u64) -> Result<u64> {
    let (began, mut written) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        let due = u64::try_from(began.elapsed().as_millis())? * CHANGES / 1_000;
        while written < due {
            let (key, value) = &parts[fastrand::usize(..parts.len())];
            put(&nats, fastrand::usize(..clusters), key, value.clone()).await?;
            written += 1;
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(written)
}

/// A `kaudit fleet` that serves its page.
struct View {
    process: Running,
    page: SocketAddr,
    admin: SocketAddr,
}

impl View {
    fn start(server: &NatsServer) -> Result<Self> {
        let [page, admin] = [free_port()?, free_port()?].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut command = Command::new(program());
        command.args(["fleet", "--nats", &format!("nats://{}", server.address()), "--log-level=warn"]);
        command.args([format!("--listen-ui={page}"), format!("--listen={admin}")]);
        Ok(Self { process: Running(command.spawn()?), page, admin })
    }

    async fn until(&self, is_done: impl Fn(&Self) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_done(self) {
            ensure!(Instant::now() < deadline, "waited too long");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Option<String> {
        long_run::get(if path.starts_with("/?") { self.page } else { self.admin }, path)
    }

    /// Returns the time until the first byte of an answer.
    fn first_byte(&self, path: &str) -> Result<Duration> {
        let mut stream = TcpStream::connect(self.page)?;
        let began = Instant::now();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.page)?;
        let mut first = [0];
        stream.read_exact(&mut first)?;
        let elapsed = began.elapsed();
        stream.read_to_end(&mut Vec::new())?;
        Ok(elapsed)
    }

    /// Returns quantiles of ten such times.
    fn first_bytes(&self, path: &str) -> Result<String> {
        let mut times: Vec<Duration> = (0..10).map(|_| self.first_byte(path)).collect::<Result<_>>()?;
        Ok(quantiles(&mut times))
    }

    /// Returns the resident memory in bytes.
    fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
    }
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release/kaudit")
}

/// Returns the bytes of all files below a folder.
fn disk(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { disk(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// Shows the median, the 99th percentile and the longest of several times.
fn quantiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).map_or("none".to_owned(), |time| format!("{:.1} ms", time.as_secs_f64() * 1e3))
    };
    format!("p50 {}, p99 {}, longest {}", at(50), at(99), at(100))
}

fn row(name: &str, value: impl std::fmt::Display) -> Result<()> {
    writeln!(std::io::stdout(), "{name:<45} {value}")?;
    Ok(())
}

fn say(step: &str) -> Result<()> {
    writeln!(std::io::stdout(), "\n# {step}")?;
    Ok(())
}
