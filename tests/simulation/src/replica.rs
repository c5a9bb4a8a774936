//! kaudit in a simulated cluster: as a long run, which may be killed, and once.

use std::{
    collections::BTreeMap,
    fs, io,
    net::TcpListener,
    os::unix::fs::symlink,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use kaudit::{
    cli::{Subcommand, config},
    cluster::client::Transport,
    commands::check,
    fleet::bucket::BucketServer,
    telemetry::Telemetry,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::{JoinHandle, spawn_local},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    bus::{Bus, BusConnection, CLUSTER},
    cluster::{self, HOME, KINDS},
    excuses::EXCEPTION_FILES,
    faults::{ReplicaConnection, SharedFaults},
    policies::{Dialect, Policy},
    policy_files::POLICIES,
    server::{ApiServer, Faults, NoFaults, RequestFault, RequestInfo},
};

/// The file with the notifications of all replicas.
pub const NOTIFIED: &str = "notified.ndjson";
/// The file with the streamed violations of all replicas.
pub const STREAM: &str = "stream.ndjson";
/// The label of `ConfigMaps` with policies.
const POLICY_LABEL: &str = "policies";
/// The user of kaudit.
pub const USER: &str = "system:serviceaccount:kaudit:kaudit";
/// The user of single checks, with the same rights.
pub const CHECKER: &str = "system:serviceaccount:kaudit:check";
/// How long a stopping run may take to write.
const STOPPING: Duration = Duration::from_secs(10);
/// How long it may then take to release its Lease, and to end.
const RELEASING: Duration = Duration::from_secs(4);

/// The settings of kaudit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct ReplicaSettings {
    /// The number of replicas or, if they are `sharded`, of shards.
    pub replicas: u8,
    /// Whether each replica evaluates a part of the namespaces.
    pub sharded: bool,
    /// Whether policies come from `ConfigMaps` and other objects instead of files.
    pub in_cluster: bool,
    /// Whether these include admission policies.
    pub admission_policies: bool,
    /// Whether policies read the values of Secrets.
    pub full_secrets: bool,
    /// An excluded kind, an index of [`KINDS`].
    pub excluded: Option<usize>,
    /// Whether only kinds that policies apply to or look up are read.
    pub judged_kinds: bool,
    /// Whether covered results are listed for each object.
    pub by_object: bool,
    /// Whether verdicts are shared between objects with the same sharing key.
    pub share_verdicts: bool,
    /// Whether Events are written so slowly that some are usually pending.
    pub slow_events: bool,
    /// Whether the results are mirrored into a bucket of the bus.
    pub mirrors: bool,
    /// How many milliseconds requests take at most.
    pub latency: u8,
}

impl Default for ReplicaSettings {
    fn default() -> Self {
        Self {
            replicas: 1,
            sharded: false,
            in_cluster: false,
            admission_policies: false,
            full_secrets: false,
            excluded: None,
            judged_kinds: false,
            by_object: false,
            share_verdicts: true,
            slow_events: false,
            mirrors: false,
            latency: 0,
        }
    }
}

impl ReplicaSettings {
    /// Returns the arguments for the evaluation. The working directory contains [`POLICIES`] and [`EXCEPTION_FILES`].
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = if self.in_cluster {
            vec![format!("-p=cluster:configmaps={HOME},{POLICY_LABEL}=yes"), "-p=cluster:gatekeeper".to_owned()]
        } else {
            vec![format!("-p={POLICIES}")]
        };
        if self.in_cluster && self.admission_policies {
            arguments.push("-p=cluster:admission-policies".to_owned());
        }
        arguments.push(format!("--exceptions={EXCEPTION_FILES}"));
        let kind = self.excluded.map(|kind| {
            let group = KINDS[kind].api_version.split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
            format!("--exclude={}{group}", KINDS[kind].plural)
        });
        arguments.extend(kind);
        let flags = [
            (self.full_secrets, "--secrets=full"),
            (self.judged_kinds, "--kinds=judged"),
            (self.by_object, "--group-by=object"),
            (!self.share_verdicts, "--share-verdicts=off"),
        ];
        arguments.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| (*flag).to_owned()));
        arguments
    }

    /// Whether replicas need a Lease to record.
    pub const fn elects(&self) -> bool {
        self.replicas > 1 || self.sharded
    }

    /// Returns the number of leaders when all replicas run.
    pub const fn leaders(&self) -> u8 {
        if self.sharded { self.replicas } else { 1 }
    }

    /// Returns the arguments of the long run of a replica.
    pub fn long_arguments(&self, number: u8) -> Vec<String> {
        let mut arguments = self.arguments();
        arguments.extend(["--record=events,reports,status", "--rejudge-every=30s"].map(str::to_owned));
        if self.slow_events {
            arguments.push("--events-per-second=1".to_owned());
        }
        if self.replicas > 1 || self.sharded {
            arguments.push("--leader-elect".to_owned());
        }
        if self.sharded {
            arguments.push(format!("--shard={number}/{}", self.replicas));
        }
        arguments
    }

    /// Returns the names of the shards in keys of the bucket.
    pub fn shards(&self) -> Vec<String> {
        let shards = self.leaders();
        (0..shards).map(|shard| format!("{shard}-{shards}")).collect()
    }

    /// Returns the names of the Audits of all replicas.
    pub fn audits(&self) -> Vec<String> {
        if self.sharded {
            (0..self.replicas).map(|shard| format!("kaudit-{shard}")).collect()
        } else {
            vec!["kaudit".to_owned()]
        }
    }
}

/// A long run.
#[derive(Debug)]
pub struct Replica {
    /// The folder for its shared output files.
    folder: TempDir,
    /// The port of status and metrics.
    port: u16,
    /// The port of its page.
    page: u16,
    connection: Arc<ReplicaConnection>,
    bus: Arc<BusConnection>,
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<u8>>,
}

impl Replica {
    /// Starts a long run; several elect a leader.
    ///
    /// # Errors
    ///
    /// If kaudit rejects its arguments.
    pub fn start(
        server: &ApiServer,
        faults: &SharedFaults,
        bus: &Bus,
        settings: &ReplicaSettings,
        number: u8,
    ) -> anyhow::Result<Self> {
        // Differs between replicas, and is the same when a run is repeated.
        let seed = u64::try_from(server.requests().len())? + u64::from(number);
        let (connection, stop) = (ReplicaConnection::new(faults, settings.latency, seed), CancellationToken::new());
        let mut arguments = settings.long_arguments(number);
        arguments.push(format!("-o=ndjson={STREAM}"));
        let folder = tempfile::tempdir_in(".")?;
        let (config, notified) = (folder.path().join("notify.yaml"), folder.path().join(NOTIFIED));
        symlink(format!("../{NOTIFIED}"), &notified)?;
        let receiver = json!({"name": "file", "file": {"path": notified}});
        fs::write(&config, json!({"receivers": [receiver]}).to_string())?;
        arguments.push(format!("--notify={}", config.display()));
        let [port, page] = free_ports()?;
        arguments.extend([format!("--listen=127.0.0.1:{port}"), format!("--listen-ui=127.0.0.1:{page}")]);
        let bus = bus.connect();
        let mirror = settings.mirrors.then(|| Arc::clone(&bus) as _);
        arguments.extend(settings.mirrors.then(|| format!("--cluster-name={CLUSTER}")));
        let transport = server.transport(HOME, USER, Arc::clone(&connection) as _);
        let check = run(&arguments, transport, mirror, stop.clone())?;
        Ok(Self { folder, port, page, connection, bus, stop, running: spawn_local(check) })
    }

    /// Returns the response of a path.
    ///
    /// # Errors
    ///
    /// If it does not respond, or with another code than 200.
    pub async fn get(&self, path: &str) -> anyhow::Result<String> {
        get(self.port, path).await
    }

    /// Returns the response of a path of its page.
    ///
    /// # Errors
    ///
    /// If it does not respond, or with another code than 200.
    pub async fn get_page(&self, path: &str) -> anyhow::Result<String> {
        get(self.page, path).await
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Disconnects or reconnects it.
    pub fn disconnect(&self, is_cut: bool) {
        self.connection.cut(is_cut);
    }

    /// Whether it is disconnected.
    pub fn is_disconnected(&self) -> bool {
        self.connection.is_cut()
    }

    /// Kills it.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn kill(&self) -> io::Result<()> {
        self.connection.cut(true);
        self.bus.cut();
        self.stop.cancel();
        fs::remove_file(self.folder.path().join(NOTIFIED))
    }

    /// Stops it, waits for its end, and returns its outcome.
    ///
    /// # Errors
    ///
    /// If that takes too long, regardless of faults.
    pub async fn stop(self) -> anyhow::Result<anyhow::Result<u8>> {
        self.stop.cancel();
        let begun = Instant::now();
        // It writes pending records for up to ten seconds, and then releases its Lease.
        let Ok(ended) = timeout(STOPPING * 3, self.running).await else { bail!("it has not stopped after 30 s") };
        let took = begun.elapsed();
        if took > STOPPING + RELEASING {
            bail!("it took {took:?} to stop");
        }
        ended.context("it panicked")
    }

    /// Waits for the end of a killed replica and ignores its outcome.
    pub async fn wait_for_end(self) {
        let _ended = timeout(Duration::from_mins(2), self.running).await;
    }

    /// Returns why it has ended.
    pub async fn end(self) -> String {
        match self.running.await {
            Ok(Ok(code)) => format!("exit code {code}"),
            Ok(Err(error)) => format!("{error:#}"),
            Err(error) => format!("{error}"),
        }
    }
}

/// Number of ports reserved for a run.
const PORTS: u32 = 64;

/// Returns free ports, different on each call. They are reserved for this process: they are below the ports that
/// systems choose, and derived from the process id, which is near to those of concurrent runs.
fn free_ports() -> io::Result<[u16; 2]> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let first = 10_000 + std::process::id() % 340 * PORTS;
    let next = || {
        let port = u16::try_from(first + LAST.fetch_add(1, Relaxed) % PORTS).unwrap_or_default();
        TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(port)
    };
    let ports: Vec<u16> = (0..PORTS).filter_map(|_| next()).take(2).collect();
    ports.try_into().map_err(|_| io::ErrorKind::AddrInUse.into())
}

async fn get(port: u16, path: &str) -> anyhow::Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await?;
    connection.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an incomplete response")?;
    ensure!(head.starts_with("HTTP/1.0 200"), "{path}: {}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}

/// A server whose lists of Nodes take long, so that a check lasts longer than the pause before a failed request is
/// repeated.
struct LateNodes;

impl Faults for LateNodes {
    fn decide(&self, request: &RequestInfo) -> RequestFault {
        if request.resource == "nodes" {
            RequestFault::DelayAnswer(Duration::from_secs(10))
        } else {
            RequestFault::None
        }
    }
}

/// Runs `kaudit check --once`, without faults but for late Nodes for [`CHECKER`]; returns its exit code and its JSON output.
///
/// # Errors
///
/// If it has no output.
pub async fn once(server: &ApiServer, settings: &ReplicaSettings, user: &str) -> anyhow::Result<(u8, Value)> {
    let faults: Arc<dyn Faults> = if user == CHECKER { Arc::new(LateNodes) } else { Arc::new(NoFaults) };
    let transport = server.transport(HOME, user, faults);
    let file = "once.json";
    let mut arguments = settings.arguments();
    arguments.extend(["--once", "-o=json=once.json"].map(str::to_owned));
    let code = run(&arguments, transport, None, CancellationToken::new())?.await?;
    let text = fs::read_to_string(file).with_context(|| format!("no output, exit code {code}"))?;
    Ok((code, serde_json::from_str(&text)?))
}

fn run(
    arguments: &[String],
    transport: Transport,
    mirror: Option<Arc<dyn BucketServer>>,
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<u8>> + use<>> {
    let given = ["kaudit", "check"].into_iter().chain(arguments.iter().map(String::as_str)).map(Into::into);
    let Subcommand::Check(mut check) = config::load(given)? else { bail!("this is not a check") };
    check.cluster.transport = Some(transport);
    check.mirror.server = mirror;
    Ok(async move {
        let telemetry = Telemetry::start();
        Box::pin(check::run_until(*check, &telemetry, stop)).await
    })
}

/// Writes the objects of a policy.
pub fn write_policy(server: &ApiServer, policy: &Policy) {
    if matches!(policy.dialect, Dialect::Gatekeeper | Dialect::Cel) {
        let [template, constraint] = policy.documents();
        cluster::write(server, &template);
        if policy.dialect == Dialect::Gatekeeper {
            // Gatekeeper creates the CRD for a template's Constraints.
            cluster::define_constraints(server, &policy.name());
        }
        cluster::write(server, &constraint);
    } else {
        let metadata = json!({"name": config_map(policy.number), "namespace": HOME, "labels": {POLICY_LABEL: "yes"}});
        // Keys of a ConfigMap cannot contain slashes.
        let data: BTreeMap<String, String> =
            policy.files().into_iter().map(|(name, text)| (name.replace('/', "-"), text)).collect();
        cluster::write(server, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}));
    }
}

/// Removes the objects of a policy, if they exist.
pub fn remove_policy(server: &ApiServer, policy: &Policy) {
    if policy.dialect == Dialect::Gatekeeper {
        let template = ("templates.gatekeeper.sh/v1", "ConstraintTemplate", "", &*policy.name().to_lowercase());
        let _deleted = server.delete(template, &Value::Null);
        cluster::remove_constraints(server, &policy.name());
    } else if policy.dialect == Dialect::Cel {
        for document in policy.documents() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, name) = (text(&document["kind"]), text(&document["metadata"]["name"]));
            let _deleted = server.delete(("admissionregistration.k8s.io/v1", &kind, "", &name), &Value::Null);
        }
    } else {
        let _deleted = server.delete(("v1", "ConfigMap", HOME, &config_map(policy.number)), &Value::Null);
    }
}

fn config_map(number: u8) -> String {
    format!("policy-{number}")
}
