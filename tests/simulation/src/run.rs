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
use jiff::Timestamp;
use kaudit::blocking;
use serde_json::{Value, json};
use tokio::{task::LocalSet, time::sleep};

use crate::{
    cluster::{self, HOME, KINDS},
    faults::{Sky, Weather},
    machine, owners,
    plan::RunStep,
    policies::{self, Finding, ObjectsByName, Policy, PolicyCondition},
    replica::{self, POLICIES, Replica, ReplicaSettings, USER},
    server::{ApiServer, JournalEntry},
};

/// How long everything may take until it is right, once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_mins(15);
/// How long a replica takes at most to give up because it cannot begin.
const GIVING_UP: Duration = Duration::from_mins(2);
/// How long nothing may be written after that.
const QUIET: Duration = Duration::from_mins(3);
/// How long after a date has passed this may not have been noticed: rules that depend on the time are evaluated every 30
/// seconds.
const REEVALUATION: Duration = Duration::from_secs(40);
/// API version and kind of exceptions.
const EXCEPTIONS: (&str, &str) = ("kaudit.dev/v1alpha1", "PolicyException");
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
    fs::create_dir(POLICIES)?;
    let server = cluster::install();
    let mut run = RunState {
        server,
        sky: Sky::default(),
        settings: ReplicaSettings::default(),
        policies: BTreeMap::new(),
        replicas: BTreeMap::new(),
        killed: Vec::new(),
        forbidden: BTreeSet::new(),
        kills: 0,
        had_faults: false,
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

/// What kaudit is to find.
struct ExpectedFindings {
    listed: BTreeSet<Finding>,
    /// An owner has them, too.
    covered: BTreeSet<Finding>,
    /// There is no object of the kinds that are read.
    found_nothing: bool,
}

impl ExpectedFindings {
    /// Whether one with this result is listed.
    fn has(&self, result: &str) -> bool {
        self.listed.iter().any(|finding| finding.4 == result)
    }
}

/// The state of a run.
struct RunState {
    server: ApiServer,
    sky: Sky,
    settings: ReplicaSettings,
    policies: BTreeMap<u8, Policy>,
    replicas: BTreeMap<u8, Replica>,
    /// Those that were killed, and may not have ended.
    killed: Vec<Replica>,
    forbidden: BTreeSet<usize>,
    kills: usize,
    /// Something went wrong since everything was compared.
    had_faults: bool,
}

impl RunState {
    async fn step(&mut self, step: &RunStep) -> anyhow::Result<()> {
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
                replica::write_policy(&self.server, policy)?;
                self.policies.insert(policy.number, *policy);
            }
            RunStep::RemovePolicy(number) => {
                // Without any policy kaudit does not start.
                if self.policies.len() > 1
                    && let Some(policy) = self.policies.remove(number)
                {
                    replica::remove_policy(&self.server, &policy)?;
                }
            }
            RunStep::Excuse(number, variant, namespace) => {
                cluster::write(&self.server, &exception(*number, *variant, *namespace));
            }
            RunStep::EndExcuse(number, variant, namespace) => {
                let exception = exception(*number, *variant, *namespace);
                let text = |field: &str| exception["metadata"][field].as_str().unwrap_or_default();
                let at = (EXCEPTIONS.0, EXCEPTIONS.1, text("namespace"), text("name"));
                // There may be none.
                let _deleted = self.server.delete(at, &Value::Null);
            }
            RunStep::Configure(settings) => {
                self.stop_all().await?;
                self.settings = *settings;
            }
            RunStep::Start(number) => self.start(*number)?,
            RunStep::Kill(number) => {
                if let Some(replica) = self.replicas.remove(number) {
                    replica.kill();
                    self.kills += 1;
                    self.killed.push(replica);
                }
            }
            RunStep::Stop(number) => {
                if let Some(replica) = self.replicas.remove(number) {
                    self.stop(replica).await?;
                }
            }
            RunStep::Weather(weather) => {
                self.sky.set(weather.clone());
                self.had_faults = true;
            }
            RunStep::Forbid(kind) => {
                self.had_faults = true;
                self.forbidden.insert(*kind);
                self.grant();
            }
            RunStep::Allow(kind) => {
                self.forbidden.remove(kind);
                self.grant();
            }
            RunStep::RemoveWidgets => cluster::remove_widgets(&self.server),
            RunStep::DefineWidgets => cluster::define_widgets(&self.server),
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
        }
        cluster::settle(&self.server);
        Ok(())
    }

    fn start(&mut self, number: u8) -> anyhow::Result<()> {
        let runs = self.replicas.get(&number).is_some_and(|replica| !replica.has_ended());
        if !runs && !self.policies.is_empty() && number < self.settings.replicas {
            self.replicas.insert(number, Replica::start(&self.server, &self.sky, &self.settings, number)?);
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
            Err(error) if self.sky.is_clear() => Err(error),
            Ok(code) if code != 0 && self.sky.is_clear() => bail!("it stopped with {code}"),
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
            ("events.k8s.io,openreports.io,kaudit.dev", "*"),
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
        self.sky.set(Weather::default());
        self.forbidden.clear();
        self.grant();
        if self.policies.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.had_faults) {
            // A replica that gives up because of what went wrong has done so by then.
            sleep(GIVING_UP).await;
        }
        self.restart_failed().await?;
        self.becomes_right(PATIENCE).await
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
        if self.policies.is_empty() {
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
        self.policies.values().any(|policy| policy.condition == PolicyCondition::IsValid)
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
                // Why it ended is of interest only to who reads the log.
                let _why = replica.end().await;
                self.start(number)?;
            }
        }
        let needed = if self.settings.sharded { self.settings.replicas } else { 1 };
        if self.replicas.len() < usize::from(needed) {
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
    async fn difference(&self) -> anyhow::Result<()> {
        ensure!(!self.replicas.is_empty(), "no replica runs");
        let expected = self.expected();
        same("reports", &self.recorded(), &expected.listed).map_err(|error| self.with_errors(error))?;
        self.compare_events(&expected)?;
        self.compare_status(&expected)?;
        let once = replica::once(&self.server, &self.settings).await.context("check --once");
        // A date may have passed meanwhile.
        let expected = self.expected();
        if expected.found_nothing {
            ensure!(once.is_err(), "check --once has a result without any object");
            return Ok(());
        }
        let (code, result) = once?;
        let entries = result["results"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_entries = |is_covered: bool| {
            let wanted = entries.iter().filter(move |entry| entry["coveredBy"].is_object() == is_covered);
            wanted.filter_map(|entry| finding(entry, &entry["resource"])).collect()
        };
        same("check --once", &of_entries(false), &expected.listed)?;
        let is_complete = !expected.has("error");
        let expected_code = if expected.has("fail") { 1 } else { u8::from(!is_complete) * 3 };
        ensure!(code == expected_code, "check --once ends with {code}, not {expected_code}");
        ensure!(result["complete"] == is_complete, "check --once: complete is {}", result["complete"]);
        same("check --once, covered", &of_entries(true), &expected.covered)
    }

    /// Adds what reports say of an error to a failure.
    fn with_errors(&self, failure: anyhow::Error) -> anyhow::Error {
        let reports = self.server.list("openreports.io/v1alpha1", "Report", "").unwrap_or_default();
        let results = reports.iter().flat_map(|report| report["results"].as_array().into_iter().flatten());
        let mut errors = results.filter(|result| result["result"] == "error");
        match errors.find_map(|result| result["message"].as_str()) {
            Some(error) => anyhow::anyhow!("{failure}; an error: {error}"),
            None => failure,
        }
    }

    /// Returns what policies find.
    fn expected(&self) -> ExpectedFindings {
        let (objects, excused, at) = (self.objects(), self.excused(), (Timestamp::now(), self.settings.full_secrets));
        let findings = |policy: &Policy| policy.findings(&objects, &excused, at, self.settings.excluded);
        let mut listed: BTreeSet<Finding> = self.policies.values().flat_map(findings).collect();
        let covered = if self.settings.by_object { BTreeSet::new() } else { owners::covered(&objects, &listed) };
        listed.retain(|finding| !covered.contains(finding));
        // Where only these kinds are read, the others are no objects.
        let is_read = |kind: &usize| Some(*kind) != self.settings.excluded;
        let mut concerned = self.policies.values().flat_map(Policy::concerns).filter(is_read);
        let found_nothing =
            self.settings.judged_kinds && !concerned.any(|kind| objects.keys().any(|object| object.0 == kind));
        ExpectedFindings { listed, covered, found_nothing }
    }

    /// Returns what policies may see.
    fn objects(&self) -> ObjectsByName {
        let mut objects = ObjectsByName::new();
        for (index, kind) in KINDS.iter().enumerate() {
            for object in self.server.list(kind.api_version, kind.kind, "").unwrap_or_default() {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                objects.insert((index, text("namespace"), text("name")), object);
            }
        }
        objects
    }

    /// Returns which packages which namespaces are excused from.
    fn excused(&self) -> BTreeSet<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let exceptions = self.server.list(EXCEPTIONS.0, EXCEPTIONS.1, "").unwrap_or_default();
        let excused = |one: &Value| (text(&one["spec"]["policies"][0]["name"]), text(&one["metadata"]["namespace"]));
        exceptions.iter().map(excused).collect()
    }

    /// Returns what reports say.
    fn recorded(&self) -> BTreeSet<Finding> {
        let mut recorded = BTreeSet::new();
        for kind in ["Report", "ClusterReport"] {
            for report in self.server.list("openreports.io/v1alpha1", kind, "").unwrap_or_default() {
                let results = report["results"].as_array().map(Vec::as_slice).unwrap_or_default();
                recorded.extend(results.iter().filter_map(|entry| finding(entry, &entry["resources"][0])));
            }
        }
        recorded
    }

    /// Whether Events have reported each violation by turns, and last what is so.
    fn compare_events(&self, expected: &ExpectedFindings) -> anyhow::Result<()> {
        let mut reported: BTreeMap<(String, String, String), Vec<(u64, bool)>> = BTreeMap::new();
        let mut names = BTreeMap::new();
        for event in self.server.list("events.k8s.io/v1", "Event", "").unwrap_or_default() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let is_new = match event["reason"].as_str() {
                Some("PolicyViolation") => true,
                Some("PolicyResolved") => false,
                _ => continue,
            };
            let regarding = &event["regarding"];
            let note = text(&event["note"]);
            // What is excused is resolved with the reason first.
            let note = note
                .strip_prefix("excused by ")
                .and_then(|excused| excused.split_once("; "))
                .map_or(&*note, |note| note.1);
            let (rule, message) = note.split_once(": ").unwrap_or((note, ""));
            // The number of dependents is of the time of the Event.
            let message = message.split_once(" (and ").map_or(message, |(message, _)| message);
            let about = (text(&regarding["uid"]), rule.to_owned(), message.to_owned());
            names.insert(
                about.0.clone(),
                (text(&regarding["kind"]), text(&regarding["namespace"]), text(&regarding["name"])),
            );
            reported.entry(about).or_default().push((text(&event["metadata"]["resourceVersion"]).parse()?, is_new));
        }
        let mut open = BTreeSet::new();
        for (about, mut turns) in reported {
            turns.sort_unstable();
            let repeated = turns.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
            ensure!(turns.first().is_none_or(|first| first.1) && repeated <= self.kills, "Events: {about:?} {turns:?}");
            if turns.last().is_some_and(|last| last.1) {
                let (kind, namespace, name) = names.get(&about.0).cloned().unwrap_or_default();
                open.insert((about.1, kind, namespace, name, about.2));
            }
        }
        let violations = |findings: &BTreeSet<Finding>| -> BTreeSet<_> {
            let violations = findings.iter().filter(|finding| finding.4 != "error");
            let about = violations.map(|(policy, kind, namespace, name, result, message)| {
                let rule = if *result == "warn" { "warn" } else { "deny" };
                (format!("{policy}/{rule}"), (*kind).to_owned(), namespace.clone(), name.clone(), message.clone())
            });
            about.collect()
        };
        // What was reported before an owner covered it is not resolved by that.
        let covered = violations(&expected.covered);
        open.retain(|about| !covered.contains(about));
        same("Events", &open, &violations(&expected.listed))
    }

    /// Whether the Audit object counts what is so.
    fn compare_status(&self, expected: &ExpectedFindings) -> anyhow::Result<()> {
        let mut audits = Vec::new();
        for name in self.settings.audits() {
            let audit = self.server.get(("kaudit.dev/v1alpha1", "Audit", HOME, &name));
            audits.push(audit.map_err(|error| anyhow::anyhow!("Audit {name}: {error:?}"))?);
        }
        for result in ["fail", "warn", "error"] {
            let expected = expected.listed.iter().filter(|finding| finding.4 == result).count();
            let counts = audits.iter().map(|audit| audit["status"]["summary"][result].as_u64().unwrap_or_default());
            let found: u64 = counts.sum();
            ensure!(usize::try_from(found)? == expected, "Audit: {found} with {result}, not {expected}");
        }
        let mut is_complete = true;
        // Other shards may have objects.
        let found_nothing = expected.found_nothing && !self.settings.sharded;
        for audit in &audits {
            is_complete &= compare_conditions(audit, found_nothing)?;
        }
        ensure!(is_complete == (!expected.has("error") && !found_nothing), "Audit: complete is {is_complete}");
        Ok(())
    }

    /// Ends all replicas.
    async fn end(&mut self, politely: bool) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for (_, replica) in std::mem::take(&mut self.replicas) {
            if politely {
                outcome = outcome.and(self.stop(replica).await);
            } else {
                replica.kill();
                self.killed.push(replica);
            }
        }
        for replica in self.killed.drain(..) {
            replica.bury().await;
        }
        outcome
    }
}

/// Whether the conditions of an Audit say that all is well; returns whether it is complete.
fn compare_conditions(audit: &Value, found_nothing: bool) -> anyhow::Result<bool> {
    let conditions = audit["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for kind in ["Synced", "PoliciesLoaded", "Recording"] {
        let condition = conditions.iter().find(|condition| condition["type"] == kind);
        let is_true = condition.is_some_and(|condition| condition["status"] == "True");
        ensure!(
            is_true != (found_nothing && kind == "Synced"),
            "Audit: {}",
            condition.map_or_else(|| format!("no {kind}"), Value::to_string)
        );
    }
    Ok(conditions.iter().any(|one| one["type"] == "Complete" && one["status"] == "True"))
}

/// Returns the exception of a namespace from a policy.
fn exception(number: u8, variant: u8, namespace: u8) -> Value {
    let package = policies::package(number, variant);
    json!({"apiVersion": EXCEPTIONS.0, "kind": EXCEPTIONS.1,
        "metadata": {"name": format!("from-p{number}-{variant}"), "namespace": format!("ns{namespace}")},
        "spec": {"policies": [{"name": package}], "reason": "agreed", "expiresAt": "2027-01-01"}})
}

/// Returns a result as a report or a check says it, unless it is excused.
fn finding(entry: &Value, resource: &Value) -> Option<Finding> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = KINDS.iter().find(|kind| resource["kind"] == kind.kind).map_or("another kind", |kind| kind.kind);
    let (result, message) = match entry["result"].as_str() {
        Some("fail") => ("fail", text(&entry["message"])),
        Some("warn") => ("warn", text(&entry["message"])),
        Some("error") => ("error", String::new()),
        Some("skip") => return None,
        _ => ("another result", text(&entry["message"])),
    };
    Some((text(&entry["policy"]), kind, text(&resource["namespace"]), text(&resource["name"]), result, message))
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
            // When it was written is not why.
            let keys =
                old.keys().chain(new.keys()).filter(|key| *key != "metadata").chain(old.keys()).chain(new.keys());
            let different = keys.into_iter().find(|key| old.get(*key) != new.get(*key));
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

/// Fails with where two sets differ.
fn same<T: Ord + std::fmt::Debug>(what: &str, found: &BTreeSet<T>, expected: &BTreeSet<T>) -> anyhow::Result<()> {
    let missing: Vec<_> = expected.difference(found).take(3).collect();
    let surplus: Vec<_> = found.difference(expected).take(3).collect();
    ensure!(missing.is_empty() && surplus.is_empty(), "{what}: missing {missing:?}, too much {surplus:?}");
    Ok(())
}
