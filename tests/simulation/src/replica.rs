//! kaudit itself in a simulated cluster: as a long run, which may be killed, and once.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use kaudit::{
    cli::{Subcommand, config},
    cluster::client::Transport,
    commands::check,
    telemetry::Telemetry,
};
use serde_json::Value;
use tokio::{
    task::{JoinHandle, spawn_local},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::HOME,
    faults::{ReplicaConnection, Sky},
    server::{ADMIN, ApiServer, NoFaults},
};

/// The directory of policies, in the working directory of a run.
pub const POLICIES: &str = "policies";
/// The user whose rights kaudit has.
pub const USER: &str = "system:serviceaccount:kaudit:kaudit";
/// How long a run that was asked to stop may take.
const STOPPING: Duration = Duration::from_secs(10);

/// A long run.
#[derive(Debug)]
pub struct Replica {
    line: Arc<ReplicaConnection>,
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<u8>>,
}

impl Replica {
    /// Starts a long run; several elect a leader.
    ///
    /// # Errors
    ///
    /// When kaudit does not accept its arguments.
    pub fn start(server: &ApiServer, sky: &Sky, elects: bool) -> anyhow::Result<Self> {
        let (line, stop) = (ReplicaConnection::new(sky), CancellationToken::new());
        let mut arguments = vec!["--record=events,reports,status", "--rejudge-every=30s", "-o=ndjson=/dev/null"];
        if elects {
            arguments.push("--leader-elect");
        }
        let check = run(&arguments, server.transport(HOME, USER, Arc::clone(&line) as _), stop.clone())?;
        Ok(Self { line, stop, running: spawn_local(check) })
    }

    /// Whether it has ended, or was never to.
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Ends it without its being able to do anything about it.
    pub fn kill(&self) {
        self.line.cut();
        self.stop.cancel();
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Errors
    ///
    /// When that takes too long, or it has failed.
    pub async fn stop(self) -> anyhow::Result<u8> {
        self.stop.cancel();
        let begun = Instant::now();
        // It writes what is pending for ten seconds, and then gives up its Lease.
        let Ok(ended) = timeout(STOPPING * 3, self.running).await else { bail!("it has not stopped after 30 s") };
        let took = begun.elapsed();
        if took > STOPPING + Duration::from_secs(2) {
            bail!("it took {took:?} to stop");
        }
        ended.context("it panicked")?
    }

    /// Waits for the end of one that was killed, which need not be well.
    pub async fn bury(self) {
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

/// Runs `kaudit check --once` with all rights and without faults; returns its exit code and what it says as JSON.
///
/// # Errors
///
/// When it does not say anything.
pub async fn once(server: &ApiServer) -> anyhow::Result<(u8, Value)> {
    let transport = server.transport(HOME, ADMIN, Arc::new(NoFaults));
    let file = "once.json";
    let code = run(&["--once", "-o=json=once.json"], transport, CancellationToken::new())?.await?;
    let text = fs::read_to_string(file).with_context(|| format!("no result beside exit code {code}"))?;
    Ok((code, serde_json::from_str(&text)?))
}

fn run(
    arguments: &[&str],
    transport: Transport,
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = anyhow::Result<u8>> + use<>> {
    let given = ["kaudit", "check", "-p", POLICIES].iter().chain(arguments).map(Into::into);
    let Subcommand::Check(mut check) = config::load(given)? else { bail!("this is not a check") };
    check.cluster.transport = Some(transport);
    Ok(async move {
        let telemetry = Telemetry::start();
        Box::pin(check::run_until(*check, &telemetry, stop)).await
    })
}

/// Writes a policy's file, in one step.
///
/// # Errors
///
/// When the file system refuses.
pub fn write_policy((name, text): (String, String)) -> io::Result<()> {
    fs::write("new", text)?;
    fs::rename("new", PathBuf::from(POLICIES).join(name))
}
