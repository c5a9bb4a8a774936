//! One run: executes the steps of a plan, and compares kaudit's results with the expected ones.

mod bucket;
mod checks;
mod stored;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    panic::PanicHookInfo,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use kaudit::blocking;
use serde_json::Value;
use tokio::{
    task::{AbortHandle, LocalSet, spawn_local, yield_now},
    time::sleep,
};

use crate::{
    bus::Bus,
    cluster::{self, HOME, NAMESPACE, ObjectName},
    comparison::{ListedObjects, ViolationKey},
    excuses::Excuse,
    faults::SharedFaults,
    history::History,
    machine,
    plan::RunStep,
    policies::{Policy, PolicyCondition},
    policy_files::PolicyFiles,
    replica::{self, Replica, ReplicaSettings},
    server::{ApiServer, JournalEntry},
};

/// A served status is cached for less than this.
const KEEPING: Duration = Duration::from_mins(2);
/// How long after its start a replica does not believe that a kind is not served.
const BELIEVING: Duration = Duration::from_secs(6);
/// The panics so far.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of executed steps.
    pub steps: usize,
    /// The failure.
    pub failure: Option<String>,
    /// The requests of all replicas, one per line.
    pub trace: String,
}

/// Executes these steps in this process, whose working directory must be empty.
pub fn run(seed: u64, steps: &[RunStep]) -> Report {
    std::panic::set_hook(Box::new(note_panic));
    machine::enter(seed);
    blocking::run_in_tasks(slowness(seed));
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let outcome = LocalSet::new().block_on(&runtime, Box::pin(execute(steps, &mut report)));
        let left = runtime.metrics().num_alive_tasks();
        outcome.and_then(|()| {
            ensure!(left == 0, "{left} tasks are left");
            Ok(())
        })
    });
    let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    report.failure = match (panics.first(), outcome) {
        (Some(panic), _) => Some(panic.clone()),
        (None, Err(error)) => Some(format!("{error:#}")),
        (None, Ok(())) => None,
    };
    report
}

/// Returns the simulated duration of CPU-bound work: in some runs it is sometimes or mostly slow, so that other things
/// happen meanwhile.
fn slowness(seed: u64) -> fn() -> Duration {
    match seed % 9 {
        3 | 5 => || Duration::from_millis(if fastrand::bool() { fastrand::u64(..3_000) } else { 0 }),
        0 | 6 => || Duration::from_millis(if fastrand::u8(..8) == 0 { fastrand::u64(..500) } else { 0 }),
        _ => || Duration::ZERO,
    }
}

fn note_panic(info: &PanicHookInfo<'_>) {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
}

async fn execute(steps: &[RunStep], report: &mut Report) -> anyhow::Result<()> {
    let server = cluster::install();
    let mut run = RunState {
        server,
        faults: SharedFaults::default(),
        bus: Bus::default(),
        settings: ReplicaSettings::default(),
        files: PolicyFiles::new(".".into())?,
        replicas: BTreeMap::new(),
        killed: Vec::new(),
        forbidden: BTreeSet::new(),
        has_started: false,
        kills: 0,
        settled_kills: 0,
        had_faults: false,
        lost_leases: 0,
        disturbed: Duration::ZERO,
        started: Duration::ZERO,
        was_forbidden: false,
        gone_namespaces: BTreeSet::new(),
        writers: Vec::new(),
        reported: BTreeSet::new(),
        has_changed: false,
        history: History::default(),
    };
    cluster::grant(&run.server, &run.forbidden);
    let mut outcome = Ok(());
    for step in steps {
        report.steps += 1;
        outcome = run.step(step).await.with_context(|| format!("step {}, {step:?}", report.steps));
        if outcome.is_err() {
            break;
        }
    }
    if outcome.is_ok() && matches!(steps.last(), Some(RunStep::Compare | RunStep::CompareRestarted(_))) {
        outcome = run.stays_quiet().await;
    }
    let ended = run.end(outcome.is_ok()).await;
    for entry in run.server.requests() {
        let JournalEntry { at, request, code, .. } = entry;
        // Writing to a string cannot fail.
        let _written = writeln!(report.trace, "{at} {} {} {code}", request.verb, request.path);
    }
    for key in run.bus.written() {
        let _written = writeln!(report.trace, "bus {key}");
    }
    outcome.and(ended)
}

/// Updates an annotation that no policy reads, as long as the object exists.
async fn keep_writing(server: ApiServer, name: ObjectName, pause: Duration) {
    for number in 0_u64.. {
        sleep(pause).await;
        if let Ok(mut object) = name.with_at(|at| server.get(at)) {
            object["metadata"]["annotations"]["example.com/number"] = number.to_string().into();
            // The object may be terminating.
            let _written = server.replace(&object);
        }
    }
}

/// The state of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is something that has happened")]
struct RunState {
    server: ApiServer,
    faults: SharedFaults,
    bus: Bus,
    settings: ReplicaSettings,
    files: PolicyFiles,
    replicas: BTreeMap<u8, Replica>,
    /// Killed replicas, which may still be running.
    killed: Vec<Replica>,
    forbidden: BTreeSet<usize>,
    /// Whether a replica has run.
    has_started: bool,
    kills: usize,
    /// How many of them there had been at the last comparison.
    settled_kills: usize,
    /// Whether there were faults since the last comparison.
    had_faults: bool,
    /// How often a replica may not have sent or recorded all its results: killed, without its Lease, or stopped during
    /// faults.
    lost_leases: usize,
    /// When anything but an object last changed.
    disturbed: Duration,
    /// When a replica last started.
    started: Duration,
    /// Whether kaudit has lacked some right.
    was_forbidden: bool,
    /// The deleted namespaces.
    gone_namespaces: BTreeSet<String>,
    /// The continuous writers.
    writers: Vec<AbortHandle>,
    /// The violations that were in reports when the last outage began, and have been open since.
    reported: BTreeSet<ViolationKey>,
    /// Whether objects, policies, exceptions or settings have changed since the last comparison.
    has_changed: bool,
    history: History,
}

impl RunState {
    async fn step(&mut self, step: &RunStep) -> anyhow::Result<()> {
        if !step.is_calm() {
            self.disturbed = machine::elapsed();
        }
        if step.may_reorder() {
            self.history.note_disorder();
        }
        self.lost_leases +=
            usize::from(matches!(step, RunStep::Kill(_)) || self.settings.elects() && step.may_lose_lease());
        if let RunStep::Delete(name) | RunStep::Recreate(name, _) = step
            && name.kind == NAMESPACE
        {
            self.gone_namespaces.insert(name.with_at(|at| at.3.to_owned()));
        }
        self.execute(step).await?;
        self.has_changed |= step.changes_findings();
        if step.changes_findings() {
            self.note_state();
        }
        self.settle();
        Ok(())
    }

    /// Runs the controllers until they have nothing to do.
    fn settle(&mut self) {
        while self.server.tick() {
            self.note_state();
        }
    }

    async fn execute(&mut self, step: &RunStep) -> anyhow::Result<()> {
        match step {
            RunStep::Write(name, contents) => name.write(&self.server, contents),
            RunStep::Delete(name) => {
                // It may not exist.
                let _deleted = name.with_at(|at| self.server.delete(at, &Value::Null));
            }
            RunStep::Recreate(name, contents) => {
                let _deleted = name.with_at(|at| self.server.delete(at, &Value::Null));
                self.note_state();
                name.write(&self.server, contents);
            }
            RunStep::SetPolicy(policy) => {
                let before = self.files.policies.get(&policy.number);
                if before.is_some_and(|before| before.is_excusable != policy.is_excusable) {
                    self.history.note_unsettled(&policy.name());
                }
                if let Some(old) = self.files.set(policy)? {
                    replica::remove_policy(&self.server, &old);
                }
                replica::write_policy(&self.server, policy);
                self.history.note_policy(policy);
            }
            // kaudit does not start without policies.
            RunStep::RemovePolicy(number) if self.files.policies.len() > 1 => {
                if let Some(policy) = self.files.remove(*number)? {
                    replica::remove_policy(&self.server, &policy);
                }
            }
            RunStep::RemovePolicy(_) => {}
            RunStep::BreakPolicy(number) => {
                if let Some(broken) = self.files.break_policy(*number)? {
                    replica::write_policy(&self.server, &broken);
                    self.history.note_unsettled(&broken.name());
                    self.had_faults = true;
                }
            }
            RunStep::Excuse(excuse) if excuse.by_file => self.files.excuse(excuse)?,
            RunStep::EndExcuse(excuse) if excuse.by_file => self.files.end_excuse(excuse)?,
            RunStep::Excuse(excuse) => {
                cluster::write(&self.server, &excuse.exception());
            }
            RunStep::EndExcuse(excuse) => {
                // It may not exist.
                let _deleted = excuse.with_at(|at| self.server.delete(at, &Value::Null));
            }
            RunStep::RemoveWidgets => cluster::remove_widgets(&self.server),
            RunStep::DefineWidgets(upgraded) => cluster::define_widgets(&self.server, *upgraded),
            RunStep::Configure(settings) => {
                self.stop_all().await?;
                self.settings = *settings;
            }
            RunStep::Start(number) => self.start(*number)?,
            RunStep::StartUnread(kind, milliseconds) => self.start_unread(*kind, *milliseconds).await?,
            RunStep::Kill(number) => {
                if let Some(replica) = self.replicas.remove(number) {
                    replica.kill()?;
                    self.kills += 1;
                    self.killed.push(replica);
                }
            }
            RunStep::Stop(number) => {
                if let Some(replica) = self.replicas.remove(number) {
                    self.stop(replica).await?;
                }
            }
            RunStep::Wait(milliseconds) => sleep(Duration::from_millis((*milliseconds).into())).await,
            RunStep::CompareOthers => self.compare_others().await?,
            RunStep::Compare => self.compare().await?,
            RunStep::CompareRestarted(rates) => self.compare_restarted(rates).await?,
            RunStep::CompareStopped => self.compare_stopped().await?,
            _ => self.disturb(step).await?,
        }
        Ok(())
    }

    /// Executes a step with faults.
    async fn disturb(&mut self, step: &RunStep) -> anyhow::Result<()> {
        match step {
            RunStep::Disconnect(number) | RunStep::Reconnect(number) => {
                if let Some(replica) = self.replicas.get(number) {
                    replica.disconnect(matches!(step, RunStep::Disconnect(_)));
                    self.had_faults = true;
                }
            }
            RunStep::SetFaults(rates) => {
                self.faults.set(rates.clone());
                self.had_faults = true;
            }
            RunStep::BreakBus(fault) => self.bus.fail(*fault),
            RunStep::RestoreBus => self.bus.restore(),
            RunStep::MissGroup(group, times) => {
                self.faults.miss(group, *times);
                self.had_faults = true;
                self.note_lacking();
            }
            RunStep::TakeLeases => self.take_leases().await?,
            RunStep::Forbid(kind) => {
                (self.had_faults, self.was_forbidden) = (true, true);
                self.forbidden.insert(*kind);
                cluster::grant(&self.server, &self.forbidden);
            }
            RunStep::Allow(kind) => {
                self.forbidden.remove(kind);
                cluster::grant(&self.server, &self.forbidden);
            }
            RunStep::KeepWriting(name, milliseconds) => {
                let pause = Duration::from_millis((*milliseconds).into());
                self.writers.push(spawn_local(keep_writing(self.server.clone(), *name, pause)).abort_handle());
            }
            RunStep::Compact => self.server.compact(),
            RunStep::ForgetWatchHistory => self.server.forget_watch_history(),
            RunStep::RestartServer => {
                self.server.restart();
                self.had_faults = true;
            }
            RunStep::ChangeTimeOfDay(seconds) => machine::change_time_of_day(*seconds),
            RunStep::Freeze(milliseconds) => machine::freeze(Duration::from_millis((*milliseconds).into())),
            RunStep::BeginOutage(rates) => self.begin_outage(rates).await?,
            _ => bail!("this step is not implemented"),
        }
        Ok(())
    }

    /// Records the objects and their violations.
    fn note_state(&mut self) {
        let (cluster, expected) = self.expected();
        let violations = expected.violations(&cluster);
        self.reported.retain(|about| violations.contains_key(about));
        self.history.note_violations(violations);
        self.history.note_objects(cluster.audited());
        self.history.note_excused(self.excused_for_ever(&cluster));
        self.history.note_passing_of_time(&self.policies_with_dates(&cluster));
    }

    /// Returns the names of the policies whose results change with time.
    fn policies_with_dates(&self, cluster: &ListedObjects) -> BTreeSet<String> {
        let read = self.files.policies.values().filter(|policy| policy.condition == PolicyCondition::IsValid);
        let by_operators = self.files.excused.iter().filter(|excuse| excuse.expires.is_some());
        let by_operators = by_operators.map(|excuse| excuse.policy.clone());
        read.map(Policy::name).chain(by_operators).chain(cluster.excused_until_a_date()).collect()
    }

    /// Returns the policies and namespaces that are excused without an end.
    fn excused_for_ever(&self, cluster: &ListedObjects) -> BTreeSet<(String, String)> {
        let by_operators = self.files.excused.iter().filter(|excuse| excuse.expires.is_none()).map(Excuse::key);
        cluster.excused_for_ever(self.history.policies()).into_iter().chain(by_operators).collect()
    }

    fn start(&mut self, number: u8) -> anyhow::Result<()> {
        let runs = self.replicas.get(&number).is_some_and(|replica| !replica.has_ended());
        if !runs && !self.files.policies.is_empty() && number < self.settings.replicas {
            if !std::mem::replace(&mut self.has_started, true) {
                let cluster = self.list();
                self.history.begin(cluster.audited(), self.excused_for_ever(&cluster));
            }
            self.replicas
                .insert(number, Replica::start(&self.server, &self.faults, &self.bus, &self.settings, number)?);
            self.started = machine::elapsed();
            self.note_lacking();
        }
        Ok(())
    }

    /// Records that a replica which has just started may believe that the kinds of a group are not served.
    fn note_lacking(&mut self) {
        let is_new = machine::elapsed() < self.started + BELIEVING;
        if let Some(group) = self.faults.misses_again().filter(|_| is_new) {
            self.history.note_lacking(group);
        }
    }

    async fn stop_all(&mut self) -> anyhow::Result<()> {
        for (_, replica) in std::mem::take(&mut self.replicas) {
            self.stop(replica).await?;
        }
        Ok(())
    }

    /// Stops a replica, which must succeed without faults.
    async fn stop(&mut self, replica: Replica) -> anyhow::Result<()> {
        // Its announcements may not have been recorded.
        self.lost_leases += usize::from(self.had_faults || self.settings.slow_events);
        // A replica that could not start because of faults has already ended.
        if replica.has_ended() && self.had_faults {
            return Ok(());
        }
        let is_clear = self.faults.is_clear() && !replica.is_disconnected();
        match replica.stop().await? {
            Err(error) if is_clear => Err(error),
            Ok(code) if code != 0 && is_clear => bail!("it stopped with {code}"),
            _ => Ok(()),
        }
    }

    /// Restarts failed replicas, as Kubernetes does, and starts missing ones.
    async fn restart_failed(&mut self) -> anyhow::Result<()> {
        let ended: Vec<u8> =
            self.replicas.iter().filter(|(_, replica)| replica.has_ended()).map(|(number, _)| *number).collect();
        for number in ended {
            if let Some(replica) = self.replicas.remove(&number) {
                self.disturbed = machine::elapsed();
                self.lost_leases += 1;
                // The reason is only of interest in the log.
                let _why = replica.end().await;
                self.start(number)?;
            }
        }
        let needed = self.settings.leaders();
        if self.replicas.len() < usize::from(needed) {
            self.disturbed = machine::elapsed();
            for number in 0..needed {
                self.start(number)?;
            }
        }
        Ok(())
    }

    /// Fails if a replica has ended without faults.
    async fn all_run(&mut self) -> anyhow::Result<()> {
        let ended = self.replicas.iter().find(|(_, replica)| replica.has_ended()).map(|(number, _)| *number);
        match ended.and_then(|number| self.replicas.remove(&number)) {
            Some(replica) => bail!("a replica has ended: {}", replica.end().await),
            None => Ok(()),
        }
    }

    fn leases(&self) -> Vec<Value> {
        self.server.list("coordination.k8s.io/v1", "Lease", HOME).unwrap_or_default()
    }

    /// Fails if a Lease is still held, unless a replica may have lost one, or ended without releasing it.
    fn leases_are_free(&self) -> anyhow::Result<()> {
        let leases = self.leases();
        let held =
            leases.iter().find(|lease| lease["spec"]["holderIdentity"].as_str().is_some_and(|held| !held.is_empty()));
        ensure!(held.is_none() || self.lost_leases > 0, "a Lease is held after all replicas stopped: {held:?}");
        Ok(())
    }

    /// Ends all replicas.
    async fn end(&mut self, gracefully: bool) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for (_, replica) in std::mem::take(&mut self.replicas) {
            if gracefully {
                outcome = outcome.and(self.stop(replica).await);
            } else {
                outcome = outcome.and(replica.kill().map_err(Into::into));
                self.killed.push(replica);
            }
        }
        for replica in self.killed.drain(..) {
            replica.wait_for_end().await;
        }
        if gracefully {
            sleep(KEEPING).await;
            outcome = outcome.and(self.leases_are_free());
        }
        for writer in self.writers.drain(..) {
            writer.abort();
        }
        // An aborted task ends at its next poll.
        yield_now().await;
        outcome
    }
}
