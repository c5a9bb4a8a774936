//! Faults during continuous writes: in the end the live verdicts equal those of a fresh audit, the Events have recorded
//! each violation alternately as new and resolved, and nothing was evaluated before the gate opened.
//!
//! Each test has fixed deadlines, and prints how long after the end of the fault it converged. `KAUDIT_TEST_SEED`
//! repeats the random part of a run. Longer runs: `KAUDIT_TEST_FREEZE=95` seconds of a frozen API server,
//! `KAUDIT_TEST_DEATHS=50`, `KAUDIT_TEST_SWAPS=200` of the policies, `KAUDIT_TEST_CUTS=60` seconds of cut connections.

mod answers;
mod backups;
mod clock;
mod connections;
mod deaths;
mod directory;
mod lists;
mod records;
mod replicas;
mod rights;
mod servers;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use kaudit_controlplane::ControlPlane;
use kaudit_test_support::settings::seed;
use tempfile::TempDir;

use crate::{
    reports::{NAMES, OPENREPORTS},
    support::{Running, establish, policies, wait_for},
    truth::{EventOrder, Truth, policy_arguments},
    writer::{POLICY, RandomWriter, Writing},
};

/// Enough that no object exceeds its limit of Events.
const OBJECTS: usize = 360;
const WRITES_PER_SECOND: u64 = 25;
/// Number of writes before a fault begins.
const WARMING_UP: usize = 30;

/// Two namespaces with objects, policies, and a writer that changes the objects.
struct Scene {
    namespaces: Vec<String>,
    /// Policies.
    directory: TempDir,
    /// Directory of kubeconfigs and other files.
    files: TempDir,
    truth: Truth,
    writer: RandomWriter,
    random: fastrand::Rng,
}

impl Scene {
    /// Creates a scene in a shared control plane.
    async fn new(plane: &ControlPlane, name: &str) -> Self {
        let mut namespaces = Vec::new();
        for _ in 0..2 {
            namespaces.push(plane.temp_namespace(name).await.unwrap());
        }
        let client = plane.admin().unwrap();
        let directory = policies(&[("labels.rego", POLICY)]);
        let mut arguments = policy_arguments(directory.path());
        arguments.extend(namespaces.iter().flat_map(|namespace| ["--namespace".to_owned(), namespace.clone()]));
        let truth = Truth {
            kubeconfig: plane.kubeconfig(),
            client: client.clone(),
            arguments,
            namespaces: namespaces.clone(),
            event_order: EventOrder::ByTurns,
            reports: false,
        };
        let writer = RandomWriter::new(client, &namespaces, OBJECTS);
        writer.create_all().await;
        let (files, random) = (tempfile::tempdir().unwrap(), fastrand::Rng::with_seed(seed()));
        Self { namespaces, directory, files, truth, writer, random }
    }

    /// The same in a control plane of its own, which is audited completely.
    async fn whole(plane: &ControlPlane, name: &str) -> Self {
        let mut scene = Self::new(plane, name).await;
        scene.truth.arguments.truncate(2);
        scene
    }

    /// The same, with reports.
    async fn reported(plane: &ControlPlane, name: &str) -> Self {
        establish(plane, OPENREPORTS, &NAMES[0]).await;
        let mut scene = Self::whole(plane, name).await;
        scene.truth.reports = true;
        scene
    }

    /// Returns the arguments of the live run.
    fn arguments(&self) -> Vec<&str> {
        let scope = self.truth.arguments.iter().map(String::as_str);
        let record = if self.truth.reports { "--record=events,reports" } else { "--record=events" };
        scope.chain(["--events-per-second=1000", record]).collect()
    }

    /// Starts kaudit and waits until the gate opens; asserts that nothing is evaluated before.
    async fn start(&self, kubeconfig: &Path) -> Running {
        let kaudit = Running::start(kubeconfig, &self.arguments()).await;
        self.truth.gate(&kaudit).await;
        kaudit
    }

    fn write(&mut self) -> Writing {
        self.writer.clone().go_on(WRITES_PER_SECOND, self.random.fork())
    }

    /// Runs a fault during writes; returns how long after its end everything had converged.
    async fn through(&mut self, what: &str, kaudit: &Running, fault: impl AsyncFnOnce()) -> Duration {
        let writing = self.write();
        wait_for("some writes", || async { (writing.written() >= WARMING_UP).then_some(()) }).await;
        let begin = Instant::now();
        fault().await;
        let (lasted, ended) = (begin.elapsed(), Instant::now());
        let written = writing.stop().await;
        let took = self.truth.converged(kaudit, ended).await;
        println!("{what} for {lasted:.1?}: right {took:.1?} after its end; {written} writes");
        took
    }
}

/// Waits for the duration of a fault; the only use of a sleep.
async fn lasts(duration: Duration) {
    tokio::time::sleep(duration).await;
}
