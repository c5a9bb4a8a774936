//! One run: the steps of a plan, and comparisons of what kaudit says with what is right.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    panic::PanicHookInfo,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use kaudit::blocking;
use serde_json::{Value, json};
use tokio::{task::LocalSet, time::sleep};

use crate::{
    cluster::{self, HOME, KINDS},
    comparison::{Announcement, ExpectedFindings, ListedObjects},
    faults::{FaultRates, SharedFaults},
    history::History,
    machine,
    plan::RunStep,
    policies::PolicyCondition,
    policy_files::PolicyFiles,
    replica::{self, NOTIFIED, Replica, ReplicaSettings, STREAM, USER},
    server::{ApiServer, JournalEntry},
};

/// How long everything may take until it is right, once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_mins(15);
/// How long it may take if nothing but objects has changed for [`CALM`].
const PROMPT: Duration = Duration::from_secs(90);
/// How long everything that happened before may have consequences.
const CALM: Duration = Duration::from_mins(3);
/// How long a replica takes at most to give up because it cannot begin.
const GIVING_UP: Duration = Duration::from_mins(2);
/// How long nothing may be written after that.
const QUIET: Duration = Duration::from_mins(3);
/// A served status is kept for the next request for less than this.
const KEEPING: Duration = Duration::from_mins(2);
/// How long after a date has passed this may not have been noticed: rules that depend on the time are evaluated every 30
/// seconds.
const REEVALUATION: Duration = Duration::from_secs(40);
/// What panicked.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How a run went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many steps were made.
    pub steps: usize,
    /// What was wrong.
    pub failure: Option<String>,
    /// The requests of all replicas, one a line.
    pub trace: String,
}

/// Makes these steps in this process, whose working directory is empty.
pub fn run(seed: u64, steps: &[RunStep]) -> Report {
    std::panic::set_hook(Box::new(note_panic));
    machine::enter(seed);
    blocking::run_in_tasks();
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let outcome = LocalSet::new().block_on(&runtime, Box::pin(make(steps, &mut report)));
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

fn note_panic(info: &PanicHookInfo<'_>) {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
}

async fn make(steps: &[RunStep], report: &mut Report) -> anyhow::Result<()> {
    let server = cluster::install();
    let mut run = RunState {
        server,
        faults: SharedFaults::default(),
        settings: ReplicaSettings::default(),
        files: PolicyFiles::new(".".into())?,
        replicas: BTreeMap::new(),
        killed: Vec::new(),
        forbidden: BTreeSet::new(),
        kills: 0,
        had_faults: false,
        lost_leases: 0,
        disturbed: Duration::ZERO,
        was_forbidden: false,
        has_changed: false,
        history: History::default(),
    };
    run.grant();
    let mut outcome = Ok(());
    for step in steps {
        report.steps += 1;
        outcome = run.step(step).await.with_context(|| format!("step {}, {step:?}", report.steps));
        if outcome.is_err() {
            break;
        }
    }
    if outcome.is_ok() && matches!(steps.last(), Some(RunStep::Compare)) {
        outcome = run.stays_quiet().await;
    }
    let ended = run.end(outcome.is_ok()).await;
    for entry in run.server.requests() {
        let JournalEntry { at, request, code, .. } = entry;
        // It cannot fail.
        let _written = writeln!(report.trace, "{at} {} {} {code}", request.verb, request.path);
    }
    outcome.and(ended)
}

/// The state of a run.
struct RunState {
    server: ApiServer,
    faults: SharedFaults,
    settings: ReplicaSettings,
    files: PolicyFiles,
    replicas: BTreeMap<u8, Replica>,
    /// Those that were killed, and may not have ended.
    killed: Vec<Replica>,
    forbidden: BTreeSet<usize>,
    kills: usize,
    /// Something went wrong since everything was compared.
    had_faults: bool,
    /// How often a replica was killed, or may have lost its lease.
    lost_leases: usize,
    /// When something else than an object changed last.
    disturbed: Duration,
    /// kaudit has been without some right.
    was_forbidden: bool,
    /// Objects, policies or exceptions have changed since then, or kaudit is started in another way.
    has_changed: bool,
    history: History,
}

impl RunState {
    async fn step(&mut self, step: &RunStep) -> anyhow::Result<()> {
        let is_calm = matches!(
            step,
            RunStep::Write(..) | RunStep::Delete(_) | RunStep::Recreate(..) | RunStep::Wait(_) | RunStep::Compare
        );
        if !is_calm {
            self.disturbed = machine::elapsed();
        }
        match step {
            RunStep::Write(..)
            | RunStep::Delete(_)
            | RunStep::Recreate(..)
            | RunStep::SetPolicy(_)
            | RunStep::RemovePolicy(_)
            | RunStep::Excuse(_)
            | RunStep::EndExcuse(_)
            | RunStep::RemoveWidgets
            | RunStep::DefineWidgets => {
                self.change(step)?;
                self.has_changed = true;
                cluster::settle(&self.server);
                self.history.note_objects(self.list().audited());
            }
            other => self.happen(other).await?,
        }
        cluster::settle(&self.server);
        Ok(())
    }

    /// Changes what kaudit is to see.
    fn change(&mut self, step: &RunStep) -> anyhow::Result<()> {
        match step {
            RunStep::Write(name, contents) => name.write(&self.server, contents),
            RunStep::Delete(name) => {
                // It may not be there.
                let _deleted = name.with_at(|at| self.server.delete(at, &Value::Null));
            }
            RunStep::Recreate(name, contents) => {
                let _deleted = name.with_at(|at| self.server.delete(at, &Value::Null));
                name.write(&self.server, contents);
            }
            RunStep::SetPolicy(policy) => {
                if let Some(old) = self.files.set(policy)? {
                    replica::remove_policy(&self.server, &old);
                }
                replica::write_policy(&self.server, policy);
                self.history.note_policy(policy);
            }
            // Without any policy kaudit does not start.
            RunStep::RemovePolicy(number) if self.files.policies.len() > 1 => {
                if let Some(policy) = self.files.remove(*number)? {
                    replica::remove_policy(&self.server, &policy);
                }
            }
            RunStep::RemovePolicy(_) => {}
            RunStep::Excuse(excuse) if excuse.by_file => self.files.excuse(excuse)?,
            RunStep::EndExcuse(excuse) if excuse.by_file => self.files.end_excuse(excuse)?,
            RunStep::Excuse(excuse) => {
                cluster::write(&self.server, &excuse.exception());
            }
            RunStep::EndExcuse(excuse) => {
                // There may be none.
                let _deleted = excuse.with_at(|at| self.server.delete(at, &Value::Null));
            }
            RunStep::RemoveWidgets => cluster::remove_widgets(&self.server),
            RunStep::DefineWidgets => cluster::define_widgets(&self.server),
            other => bail!("{other:?} changes nothing"),
        }
        Ok(())
    }

    /// Has something happen to kaudit, to the server, or between them.
    async fn happen(&mut self, step: &RunStep) -> anyhow::Result<()> {
        let loses_lease =
            matches!(step, RunStep::Kill(_) | RunStep::SetFaults(_) | RunStep::RestartServer | RunStep::Freeze(_));
        self.lost_leases += usize::from(loses_lease);
        match step {
            RunStep::Configure(settings) => {
                self.stop_all().await?;
                self.settings = *settings;
                self.has_changed = true;
            }
            RunStep::Start(number) => self.start(*number)?,
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
            RunStep::SetFaults(rates) => {
                self.faults.set(rates.clone());
                self.had_faults = true;
            }
            RunStep::Forbid(kind) => {
                (self.had_faults, self.was_forbidden) = (true, true);
                self.forbidden.insert(*kind);
                self.grant();
            }
            RunStep::Allow(kind) => {
                self.forbidden.remove(kind);
                self.grant();
            }
            RunStep::Compact => self.server.compact(),
            RunStep::ForgetWatchHistory => self.server.forget_watch_history(),
            RunStep::RestartServer => {
                self.server.restart();
                self.had_faults = true;
            }
            RunStep::ChangeTimeOfDay(seconds) => machine::change_time_of_day(*seconds),
            RunStep::Freeze(milliseconds) => machine::freeze(Duration::from_millis((*milliseconds).into())),
            RunStep::Wait(milliseconds) => sleep(Duration::from_millis((*milliseconds).into())).await,
            RunStep::Compare => self.compare().await?,
            other => self.change(other)?,
        }
        Ok(())
    }

    fn start(&mut self, number: u8) -> anyhow::Result<()> {
        let runs = self.replicas.get(&number).is_some_and(|replica| !replica.has_ended());
        if !runs && !self.files.policies.is_empty() && number < self.settings.replicas {
            self.replicas.insert(number, Replica::start(&self.server, &self.faults, &self.settings, number)?);
        }
        Ok(())
    }

    async fn stop_all(&mut self) -> anyhow::Result<()> {
        for (_, replica) in std::mem::take(&mut self.replicas) {
            self.stop(replica).await?;
        }
        Ok(())
    }

    /// Stops a replica, which ends well unless something goes wrong with requests.
    async fn stop(&self, replica: Replica) -> anyhow::Result<()> {
        // One that could not begin, because of what went wrong, has ended before.
        if replica.has_ended() && self.had_faults {
            return Ok(());
        }
        match replica.stop().await {
            Err(error) if self.faults.is_clear() => Err(error),
            Ok(code) if code != 0 && self.faults.is_clear() => bail!("it stopped with {code}"),
            _ => Ok(()),
        }
    }

    /// Gives kaudit its rights.
    fn grant(&self) {
        let readable = (0..KINDS.len()).filter(|kind| !self.forbidden.contains(kind)).map(|kind| {
            let (group, _) = KINDS[kind].api_version.split_once('/').unwrap_or(("", ""));
            json!({"apiGroups": [group], "resources": [KINDS[kind].plural], "verbs": ["get", "list", "watch"]})
        });
        let others = [
            ("", "endpoints,events,limitranges,nodes,persistentvolumeclaims,persistentvolumes,resourcequotas"),
            ("apps", "daemonsets,statefulsets"),
            ("rbac.authorization.k8s.io", "clusterrolebindings,rolebindings,roles"),
            (
                "apiregistration.k8s.io,autoscaling,batch,networking.k8s.io,policy,storage.k8s.io,coordination.k8s.io",
                "*",
            ),
            ("discovery.k8s.io,apiextensions.k8s.io,admissionregistration.k8s.io,scheduling.k8s.io", "*"),
            ("events.k8s.io,openreports.io,kaudit.dev,templates.gatekeeper.sh,constraints.gatekeeper.sh", "*"),
        ];
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let others = others.map(|(groups, resources)| {
            json!({"apiGroups": list(groups), "resources": list(resources), "verbs": ["get", "list", "watch"]})
        });
        let written = json!({"apiGroups": ["events.k8s.io", "openreports.io", "kaudit.dev", "coordination.k8s.io"],
            "resources": ["*"], "verbs": ["*"]});
        let rules: Vec<Value> = readable.chain(others).chain([written]).collect();
        let group = "rbac.authorization.k8s.io";
        let api_version = format!("{group}/v1");
        cluster::write(
            &self.server,
            &json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": "kaudit"}, "rules": rules}),
        );
        cluster::write(
            &self.server,
            &json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": "kaudit"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "kaudit"},
                "subjects": [{"kind": "ServiceAccount", "namespace": HOME, "name": "kaudit"}]}),
        );
        debug_assert!(USER.ends_with("kaudit:kaudit"));
    }

    /// Ends what goes wrong, and waits until everything is right.
    async fn compare(&mut self) -> anyhow::Result<()> {
        self.faults.set(FaultRates::default());
        self.forbidden.clear();
        self.grant();
        if self.files.policies.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.had_faults) {
            // A replica that gives up because of what went wrong has done so by then.
            sleep(GIVING_UP).await;
            self.disturbed = machine::elapsed();
        }
        self.restart_failed().await?;
        let is_calm = machine::elapsed() > self.disturbed + CALM;
        self.becomes_right(if is_calm { PROMPT } else { PATIENCE }).await?;
        let cluster = self.list();
        let has_changed = std::mem::take(&mut self.has_changed) || self.depend_on_time();
        self.history.check(&cluster, has_changed)?;
        let is_refused = |entry: &JournalEntry| entry.code == 403;
        match self.server.requests().into_iter().find(is_refused) {
            Some(entry) if !self.was_forbidden => bail!("it may not {} {}", entry.request.verb, entry.request.path),
            _ => Ok(()),
        }
    }

    /// Waits until everything is right.
    async fn becomes_right(&mut self, mut patience: Duration) -> anyhow::Result<()> {
        let pause = Duration::from_secs(5);
        while let Err(error) = self.difference().await {
            self.all_run().await?;
            if patience < pause {
                return Err(error);
            }
            sleep(pause).await;
            patience -= pause;
            cluster::settle(&self.server);
        }
        Ok(())
    }

    /// Sees that what is right stays so, and that nothing is written meanwhile.
    async fn stays_quiet(&mut self) -> anyhow::Result<()> {
        if self.files.policies.is_empty() {
            return Ok(());
        }
        // Counts are written later, and after a new leader has been elected.
        sleep(Duration::from_mins(1)).await;
        let before = self.stored();
        sleep(QUIET).await;
        // A date may have passed meanwhile.
        let patience = if self.depend_on_time() { REEVALUATION } else { Duration::ZERO };
        self.becomes_right(patience).await.context("right before, not any more")?;
        if patience.is_zero() { changed(&before, &self.stored()) } else { Ok(()) }
    }

    fn depend_on_time(&self) -> bool {
        self.files.policies.values().any(|policy| policy.condition == PolicyCondition::IsValid)
            || self.files.excused.iter().any(|excuse| excuse.expires.is_some())
            || self.list().has_ends_of_exceptions()
    }

    /// Returns all that the server stores, but for what replicas renew.
    fn stored(&self) -> BTreeMap<String, Value> {
        let everything = self.server.everything().into_iter().filter(|object| object["kind"] != "Lease");
        let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["uid"]);
        everything.map(|object| (name(&object), object)).collect()
    }

    /// Starts those that have given up, as Kubernetes does, and those that there have to be.
    async fn restart_failed(&mut self) -> anyhow::Result<()> {
        let ended: Vec<u8> =
            self.replicas.iter().filter(|(_, replica)| replica.has_ended()).map(|(number, _)| *number).collect();
        for number in ended {
            if let Some(replica) = self.replicas.remove(&number) {
                self.disturbed = machine::elapsed();
                // Why it ended is of interest only to who reads the log.
                let _why = replica.end().await;
                self.start(number)?;
            }
        }
        let needed = if self.settings.sharded { self.settings.replicas } else { 1 };
        if self.replicas.len() < usize::from(needed) {
            self.disturbed = machine::elapsed();
            for number in 0..needed {
                self.start(number)?;
            }
        }
        Ok(())
    }

    /// Fails if one has ended though nothing went wrong.
    async fn all_run(&mut self) -> anyhow::Result<()> {
        let ended = self.replicas.iter().find(|(_, replica)| replica.has_ended()).map(|(number, _)| *number);
        match ended.and_then(|number| self.replicas.remove(&number)) {
            Some(replica) => bail!("a replica has ended: {}", replica.end().await),
            None => Ok(()),
        }
    }

    /// Compares what is recorded, and what a fresh check says, with what is right.
    async fn difference(&mut self) -> anyhow::Result<()> {
        ensure!(!self.replicas.is_empty(), "no replica runs");
        let (cluster, expected) = self.expected();
        expected.compare_reports(&cluster)?;
        expected.compare_announcements("Events", &cluster.events()?, self.kills)?;
        expected.compare_status(&cluster, &self.settings)?;
        let (mut served, mut metrics) = (Vec::new(), Vec::new());
        for replica in self.replicas.values() {
            served.push(serde_json::from_str(&replica.get("/status").await?)?);
            metrics.push(replica.get("/metrics").await?);
        }
        expected.compare_served(&served, &self.settings)?;
        expected.compare_metrics(&metrics, &self.settings)?;
        // What a replica has not sent when it is killed or loses its lease, it does not send later.
        if self.lost_leases == 0 {
            expected.compare_announcements("notifications", &lines(NOTIFIED)?, 0)?;
            expected.compare_announcements("lines", &lines(STREAM)?, 0)?;
        }
        let outcome = replica::once(&self.server, &self.settings).await.context("check --once");
        // A date may have passed meanwhile.
        self.expected().1.compare_once(outcome)
    }

    /// Returns what there is in the cluster.
    fn list(&self) -> ListedObjects {
        ListedObjects::list(|api_version, kind| self.server.list(api_version, kind, "").unwrap_or_default())
    }

    /// Returns what there is in the cluster, and what policies find.
    fn expected(&self) -> (ListedObjects, ExpectedFindings) {
        let listed = self.list();
        let expected =
            ExpectedFindings::new(&listed, self.files.policies.values(), &self.settings, &self.files.excused);
        (listed, expected)
    }

    /// Ends all replicas.
    async fn end(&mut self, politely: bool) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for (_, replica) in std::mem::take(&mut self.replicas) {
            if politely {
                outcome = outcome.and(self.stop(replica).await);
            } else {
                outcome = outcome.and(replica.kill().map_err(Into::into));
                self.killed.push(replica);
            }
        }
        for replica in self.killed.drain(..) {
            replica.bury().await;
        }
        if politely {
            sleep(KEEPING).await;
        }
        outcome
    }
}

/// Reads what was written about violations, a line each.
fn lines(file: &str) -> anyhow::Result<Vec<Announcement>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut lines = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("{file}: {line}"))?;
        lines.extend(Announcement::line(&line));
    }
    Ok(lines)
}

/// Fails with what was written, created or deleted between two states of the store.
fn changed(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> anyhow::Result<()> {
    for (name, object) in before.iter().chain(after) {
        let (old, new) = (before.get(name).unwrap_or(&Value::Null), after.get(name).unwrap_or(&Value::Null));
        if old != new {
            bail!(
                "in a quiet cluster {}/{} changes: {}",
                object["kind"],
                object["metadata"]["name"],
                first_change(old, new)
            );
        }
    }
    Ok(())
}

/// Returns where two values differ first, and how.
fn first_change(old: &Value, new: &Value) -> String {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            // When it was written is not why.
            let (metadata, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| *key == "metadata");
            let different = others.into_iter().chain(metadata).find(|key| old.get(*key) != new.get(*key));
            different.map_or_else(String::new, |key| {
                format!(
                    ".{key}{}",
                    first_change(old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null))
                )
            })
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let different = old.iter().zip(new).find(|(old, new)| old != new);
            different.map_or_else(String::new, |(old, new)| format!("[…]{}", first_change(old, new)))
        }
        _ => {
            let short = |value: &Value| value.to_string().chars().take(200).collect::<String>();
            format!(": {} becomes {}", short(old), short(new))
        }
    }
}
