//! Measures `kaudit fleet` with many clusters: `cargo run --release --example fleet_size -- CLUSTERS SECONDS`
//!
//! One real kaudit on a real API server fills a bucket with the results of the shipped policies for Deployments in 50
//! namespaces. This bucket is copied for each simulated cluster on a real NATS with file storage. A view reads all of them, while parts
//! of results change: each change removes an object from a part, or brings it back.
//!
//! Prints a table: the traffic of the real kaudit, the storage, the time until the view has read everything, its memory
//! for each violation, the first bytes of pages, and the time from a write to the page. Needs `target/release/kaudit`.

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
const DEPLOYMENTS: usize = 11;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(5);
/// The namespace whose results show when a change reaches the page.
const PROBED: &str = "team-7";
/// The Deployment there that is deleted and created.
const PROBED_DEPLOYMENT: usize = 3;
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

/// A key, its value, and the value without one object.
type Versions = (String, [Vec<u8>; 2]);

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
    let monitor = SocketAddr::from(([127, 0, 0, 1], free_port()?));
    let server = NatsServer::start(&format!("http: \"{monitor}\""), &[]).await?;
    let nats = jetstream::new(async_nats::connect(server.address()).await?);
    say("Filling the bucket of one cluster with a real kaudit")?;
    let seed = Seed::new(&nats, &server, monitor).await?;
    let bytes: usize = seed.values.values().map(Vec::len).sum();
    row("violations in a cluster", seed.violations)?;
    seed.traffic.show()?;
    row("values in a bucket", format!("{} of {} KB", seed.values.len(), bytes / 1_000))?;
    row("bytes in a bucket for each violation", bytes / seed.violations.max(1))?;

    say("Copying it")?;
    let began = Instant::now();
    let writes = stream::iter(0..clusters).map(|number| copy(&nats, &seed.values, number)).buffer_unordered(8);
    writes.try_collect::<Vec<()>>().await?;
    row("time to copy", format!("{:.0?}", began.elapsed()))?;
    let stored = disk(&server.data())? / u64::try_from(clusters)?;
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
    let writing = tokio::spawn(change(nats.clone(), seed.versions()?, clusters, seconds));
    let (mut late, mut overview, mut real) = (Vec::new(), Vec::new(), Vec::new());
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        let probe = late.len();
        let is_removed = (probe / clusters).is_multiple_of(2);
        late.push(seed.probe(nats, &view, probe % clusters, is_removed).await?);
        overview.push(view.first_byte("/")?);
        if probe.is_multiple_of(10) {
            real.push(seed.change_cluster(&view, !real.len().is_multiple_of(2)).await?);
        }
        sleep(Duration::from_millis(50)).await;
    }
    row("changes written", writing.await??)?;
    row("probes", late.len())?;
    row("from a write to the page", quantiles(&mut late))?;
    row("changes of the real cluster", real.len())?;
    row("from kubectl to the page", quantiles(&mut real))?;
    row("first byte of / meanwhile", quantiles(&mut overview))?;
    row("memory of the view afterwards", format!("{} MB", view.memory()? / 1_000_000))?;
    heart.abort();
    Ok(())
}

/// The bucket of one real cluster.
struct Seed {
    values: BucketValues,
    heartbeat: Vec<u8>,
    violations: usize,
    traffic: Traffic,
    plane: ControlPlane,
    /// The kaudit that mirrors the results of `plane`.
    _kaudit: Running,
    /// A part of the results in [`PROBED`], as it is and with one object less, and the numbers of results there.
    probe: (String, [Vec<u8>; 2], [usize; 2]),
}

/// Bytes of the messages that a kaudit sends to NATS and receives from it.
struct Traffic {
    first_results: u64,
    heartbeat: u64,
    change: u64,
}

impl Traffic {
    fn show(&self) -> Result<()> {
        let quiet = self.heartbeat * 24 * 60;
        row("bytes of traffic for the first results", self.first_results)?;
        row("bytes of traffic for a heartbeat", self.heartbeat)?;
        row("bytes of traffic for a deleted Deployment", self.change)?;
        row("traffic of a quiet day", format!("{} KB", quiet / 1_000))?;
        row("traffic of a day with 1,000 such changes", format!("{} KB", (quiet + 1_000 * self.change) / 1_000))
    }

    /// Returns the bytes of the only connection that has a name.
    fn of_kaudit(monitor: SocketAddr) -> Result<u64> {
        let connections = long_run::get(monitor, "/connz").context("no answer from NATS' monitor")?;
        let connections: Value = serde_json::from_str(&connections)?;
        let named = connections["connections"].as_array().into_iter().flatten().find(|one| one["name"].is_string());
        let bytes = |direction: &str| named.and_then(|one| one[direction].as_u64()).context("kaudit is not connected");
        Ok(bytes("in_bytes")? + bytes("out_bytes")?)
    }

    /// Waits until there are more bytes than these.
    async fn after(monitor: SocketAddr, bytes: u64) -> Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = Self::of_kaudit(monitor)?;
            if now > bytes {
                return Ok(now);
            }
            ensure!(Instant::now() < deadline, "no heartbeat");
            sleep(Duration::from_millis(300)).await;
        }
    }
}

impl Seed {
    async fn new(nats: &jetstream::Context, server: &NatsServer, monitor: SocketAddr) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        plane.apply(&deployments()?).await?;
        let mut command = long_run::kaudit(&program(), &plane.kubeconfig());
        command.args(["check", "--record=none", "-p=builtin", "--cluster-name=seed", "--fleet"]);
        let url = format!("nats://{}", server.address());
        let kaudit = Running(command.arg(&url).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let first = until_settled(nats).await?;
        let first_results = Traffic::of_kaudit(monitor)?;
        // The first may be another one than a heartbeat.
        let before = Traffic::after(monitor, first_results).await?;
        let quiet = Traffic::after(monitor, before).await?;
        plane.kubectl(&["-n", PROBED, "delete", "deployment", &deployment_name(PROBED_DEPLOYMENT)]).await?;
        let key = first.keys().find(|key| is_probed(key));
        let key = key.context("no results of the namespace")?.clone();
        let deadline = Instant::now() + PATIENCE;
        let second = loop {
            let now = until_settled(nats).await?;
            if now.get(&key).is_some_and(|value| value != &first[&key]) {
                break now;
            }
            ensure!(Instant::now() < deadline, "the deletion does not reach the bucket");
        };
        let traffic =
            Traffic { first_results, heartbeat: quiet - before, change: Traffic::of_kaudit(monitor)? - quiet };
        let heartbeat = first.get("0-1.heartbeat").context("no heartbeat")?.clone();
        let mut violations = 0;
        for value in first.iter().filter(|(key, _)| key.contains(".results.")).map(|(_, value)| value) {
            violations += results(value)?;
        }
        let versions = [first[&key].clone(), second[&key].clone()];
        let mut others = 0;
        for (_, value) in first.iter().filter(|(other, _)| is_probed(other) && **other != key) {
            others += results(value)?;
        }
        let counts = [others + results(&versions[0])?, others + results(&versions[1])?];
        let probe = (key, versions, counts);
        Ok(Self { values: first, heartbeat, violations, traffic, plane, _kaudit: kaudit, probe })
    }

    /// Returns parts that are written as changes, other than those of probes.
    fn versions(&self) -> Result<Vec<Versions>> {
        let parts = self.values.iter().filter(|(key, _)| key.contains(".results.") && !is_probed(key));
        parts.map(|(key, value)| Ok((key.clone(), [value.clone(), without_last_object(value)?]))).collect()
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
        view.until_shown(&format!("c{cluster:05}"), counts[version]).await?;
        Ok(began.elapsed())
    }

    /// Deletes the Deployment of the real cluster, or creates it; returns the time until the page shows that.
    async fn change_cluster(&self, view: &View, is_removed: bool) -> Result<Duration> {
        let began = Instant::now();
        if is_removed {
            let name = deployment_name(PROBED_DEPLOYMENT);
            self.plane.kubectl(&["-n", PROBED, "delete", "deployment", &name, "--wait=false"]).await?;
        } else {
            self.plane.apply(&deployment(PROBED, PROBED_DEPLOYMENT)).await?;
        }
        view.until_shown("seed", self.probe.2[usize::from(is_removed)]).await?;
        Ok(began.elapsed())
    }
}

/// Whether a key is that of results in [`PROBED`].
fn is_probed(key: &str) -> bool {
    key.contains(&format!(".results.{PROBED}."))
}

/// Returns the manifests of the seed.
fn deployments() -> Result<String> {
    let mut objects = String::new();
    for namespace in 0..NAMESPACES {
        writeln!(objects, "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: team-{namespace}}}}}")?;
        for deployment in 0..DEPLOYMENTS {
            writeln!(objects, "---\n{}", self::deployment(&format!("team-{namespace}"), deployment))?;
        }
    }
    Ok(objects)
}

fn deployment(namespace: &str, number: usize) -> String {
    let name = deployment_name(number);
    let labels = format!("{{app: {name}}}");
    let template = format!("{{metadata: {{labels: {labels}}}, spec: {{containers: [{{name: web, image: nginx}}]}}}}");
    let spec = format!("{{selector: {{matchLabels: {labels}}}, template: {template}}}");
    let metadata = format!("{{name: {name}, namespace: {namespace}}}");
    format!("{{apiVersion: apps/v1, kind: Deployment, metadata: {metadata}, spec: {spec}}}")
}

fn deployment_name(number: usize) -> String {
    format!("web-{number}")
}

/// Returns how many results a part has.
fn results(part: &[u8]) -> Result<usize> {
    let json: Value = serde_json::from_slice(&zstd::decode_all(part)?)?;
    let objects = json["objects"].as_array().context("no objects")?;
    Ok(objects.iter().filter_map(|object| object["results"].as_array()).map(Vec::len).sum())
}

fn without_last_object(part: &[u8]) -> Result<Vec<u8>> {
    let mut json: Value = serde_json::from_slice(&zstd::decode_all(part)?)?;
    json["objects"].as_array_mut().context("no objects")?.pop();
    Ok(zstd::encode_all(&*serde_json::to_vec(&json)?, 0)?)
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
async fn change(nats: jetstream::Context, parts: Vec<Versions>, clusters: usize, seconds: u64) -> Result<u64> {
    let (began, mut written) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(seconds) {
        let due = u64::try_from(began.elapsed().as_millis())? * CHANGES / 1_000;
        while written < due {
            let (key, versions) = &parts[fastrand::usize(..parts.len())];
            put(&nats, fastrand::usize(..clusters), key, versions[fastrand::usize(..2)].clone()).await?;
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

    /// Waits until the page shows this number of results in [`PROBED`].
    async fn until_shown(&self, cluster: &str, results: usize) -> Result<()> {
        let began = Instant::now();
        let path = format!("/?cluster={cluster}&namespace={PROBED}&format=json");
        loop {
            let page: Value = serde_json::from_str(&self.get(&path).unwrap_or_default()).unwrap_or_default();
            let shown = page["results"].as_array().map(Vec::len);
            if shown == Some(results) {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "a change of {cluster} does not reach the page: {shown:?} results");
            sleep(Duration::from_millis(5)).await;
        }
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
