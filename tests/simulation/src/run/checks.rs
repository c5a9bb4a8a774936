//! The checks of a run: kaudit's results become right, and then it writes nothing more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::time::sleep;

use super::{RunState, stored::changed};
use crate::{
    cluster::{self, AuditedKind, CONFIG_MAP, KINDS},
    comparison::{self, Announcement, ExpectedFindings, ListedObjects},
    excuses::EXCEPTIONS,
    faults::{FaultRates, Outage},
    machine,
    policies::Policy,
    replica::{self, CHECKER, NOTIFIED, STREAM},
    server::{ADMIN, JournalEntry, RequestFault},
};

/// How long convergence may take after the end of faults.
const PATIENCE: Duration = Duration::from_mins(15);
/// How long it may take if only objects have changed for [`CALM`].
const PROMPT: Duration = Duration::from_secs(90);
/// How long the rest may take to converge during an outage of some resources.
const OUTAGE: Duration = Duration::from_mins(5);
/// How long it takes at most until a leader notices that it has lost its Lease: longer than a renewal.
const NOTICED: Duration = Duration::from_secs(5);
/// How many Events a replica with a limit of one per second can write before it has to end.
const MOST_AT_A_STOP: usize = 8;
/// Interval between comparisons.
const PAUSE: Duration = Duration::from_secs(5);
/// The same if replicas should have pending writes.
const SHORTLY: Duration = Duration::from_millis(300);
/// How long earlier steps may have effects.
const CALM: Duration = Duration::from_mins(3);
/// How long a replica takes at most to give up starting.
const GIVING_UP: Duration = Duration::from_mins(2);
/// How long it takes until counts are written, also by a new leader.
const SETTLED: Duration = Duration::from_secs(80);
/// How long it takes until the counts of a day are written if that failed.
const COUNTED: Duration = Duration::from_mins(6);
/// How long it takes until a report with a former time is written again.
const CORRECTED: Duration = Duration::from_secs(20);
/// How long nothing may be written afterwards.
const QUIET: Duration = Duration::from_mins(2);
/// How long it may take to notice that a date has passed: rules that read the clock are evaluated every 30 seconds.
const REEVALUATION: Duration = Duration::from_secs(40);

impl RunState {
    /// Ends all faults, and waits for convergence.
    pub(super) async fn compare(&mut self) -> anyhow::Result<()> {
        if self.files.policies.is_empty() {
            return Ok(());
        }
        self.check_without_rights().await.context("check --once without all rights")?;
        self.end_faults().await?;
        // Request the status now, so that an outdated cached one would be noticed later.
        for replica in self.replicas.values() {
            let _served = replica.get("/status").await;
        }
        let is_calm = machine::elapsed() > self.disturbed + CALM;
        self.converge(if is_calm { PROMPT } else { PATIENCE }).await?;
        if std::mem::replace(&mut self.settled_kills, self.kills) < self.kills {
            // The reports of a killed replica may have right results with former times.
            sleep(CORRECTED).await;
            self.converge(PROMPT).await.context("after times were corrected")?;
        }
        let cluster = self.list();
        let has_changed = std::mem::take(&mut self.has_changed) || self.depend_on_time();
        self.history.check(&cluster, has_changed)?;
        self.note_state();
        let is_refused = |entry: &JournalEntry| entry.code == 403 && entry.carried_out;
        match self.server.requests().into_iter().find(is_refused) {
            Some(entry) if !self.was_forbidden => {
                bail!("it has no permission to {} {}", entry.request.verb, entry.request.path)
            }
            _ => Ok(()),
        }
    }

    /// Ends all faults, and starts the replicas that have ended because of them.
    async fn end_faults(&mut self) -> anyhow::Result<()> {
        self.faults.set(FaultRates::default());
        self.replicas.values().for_each(|replica| replica.disconnect(false));
        self.forbidden.clear();
        cluster::grant(&self.server, &self.forbidden);
        for policy in self.files.repair()? {
            replica::write_policy(&self.server, &policy);
        }
        self.restore_bus().await;
        if std::mem::take(&mut self.had_faults) {
            self.wait_for_replicas().await;
            self.disturbed = machine::elapsed();
        }
        self.restart_failed().await
    }

    /// Waits until every replica is synced, or has given up because of faults.
    async fn wait_for_replicas(&self) {
        let mut patience = GIVING_UP;
        for replica in self.replicas.values() {
            while !replica.has_ended() && replica.get("/readyz").await.is_err() && !patience.is_zero() {
                sleep(PAUSE).await;
                patience -= PAUSE;
            }
        }
    }

    /// Checks that the result of an incomplete audit is marked so, and contains nothing wrong.
    async fn check_without_rights(&self) -> anyhow::Result<()> {
        let is_served = |kind: &&usize| self.server.list(KINDS[**kind].api_version, KINDS[**kind].kind, "").is_ok();
        let concerned: BTreeSet<usize> = self.files.policies.values().flat_map(Policy::concerns).collect();
        let is_in_scope = |kind: &&usize| {
            Some(**kind) != self.settings.excluded && (!self.settings.judged_kinds || concerned.contains(*kind))
        };
        let has_policies = !(self.settings.in_cluster && self.forbidden.contains(&CONFIG_MAP));
        if !has_policies || !self.forbidden.iter().any(|kind| is_served(&kind) && is_in_scope(&kind)) {
            return Ok(());
        }
        let before = self.expected().1;
        let sent = self.server.requests().len();
        let outcome = replica::once(&self.server, &self.settings, CHECKER).await;
        ExpectedFindings::compare_part([&before, &self.expected().1], outcome)?;
        let mut refused = BTreeSet::new();
        for JournalEntry { request, code, .. } in self.server.requests().split_off(sent) {
            let is_again = request.user == CHECKER && code == 403 && !refused.insert(request.path.clone());
            ensure!(!is_again, "it requests {} again, which was refused", request.path);
        }
        Ok(())
    }

    /// Starts the first replica, which gets each answer about a kind late, and checks that nothing is recorded until then:
    /// evaluation begins when all kinds have been read.
    pub(super) async fn start_unread(&mut self, kind: usize, milliseconds: u16) -> anyhow::Result<()> {
        if self.has_started || self.files.policies.is_empty() {
            return Ok(());
        }
        let late = Duration::from_millis(milliseconds.into());
        let requests = vec![(RequestFault::DelayAnswer(late), 1_000)];
        self.faults.set(FaultRates { requests, only: Some(Outage::Kind(kind)), ..FaultRates::default() });
        self.had_faults = true;
        self.start(0)?;
        sleep(late).await;
        let cluster = self.list();
        let is_recorded = !cluster.events()?.is_empty() || !comparison::first_seen(&cluster).is_empty();
        ensure!(!is_recorded, "violations are recorded, but {} has not been read", KINDS[kind].kind);
        self.faults.set(FaultRates::default());
        Ok(())
    }

    /// Starts an outage of some resources after convergence.
    pub(super) async fn begin_outage(&mut self, rates: &FaultRates) -> anyhow::Result<()> {
        if !self.files.policies.is_empty() {
            self.end_faults().await?;
            self.converge(PATIENCE).await.context("before the outage")?;
        }
        self.reported = comparison::first_seen(&self.list()).into_keys().collect();
        self.faults.set(rates.clone());
        self.had_faults = true;
        Ok(())
    }

    /// Fails if a violation that was in reports before an outage, and has been open since, is no longer in them.
    fn reports_are_kept(&self, cluster: &ListedObjects) -> anyhow::Result<()> {
        let reported = comparison::first_seen(cluster);
        let missing = self.reported.iter().find(|about| !reported.contains_key(about));
        ensure!(missing.is_none(), "reports: {missing:?} was in them before they could not be written");
        Ok(())
    }

    /// Waits for convergence of the rest during an outage.
    pub(super) async fn compare_others(&mut self) -> anyhow::Result<()> {
        let Some(outage) = self.faults.outage().filter(|_| self.forbidden.is_empty()) else { return Ok(()) };
        if self.files.policies.is_empty() || self.replicas.is_empty() {
            return Ok(());
        }
        self.wait_until(OUTAGE, PAUSE, async |run| run.other_difference(outage).await).await
    }

    /// Waits for convergence.
    async fn converge(&mut self, patience: Duration) -> anyhow::Result<()> {
        self.wait_until(patience, PAUSE, async |run| run.difference().await).await
    }

    /// Waits until `difference` succeeds, checked every `pause`, while all replicas run and controllers work.
    async fn wait_until(
        &mut self,
        mut patience: Duration,
        pause: Duration,
        difference: impl AsyncFn(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        while let Err(error) = difference(self).await {
            self.all_run().await?;
            if patience < pause {
                return Err(error);
            }
            sleep(pause).await;
            patience -= pause;
            self.settle();
        }
        Ok(())
    }

    /// Checks that a restart of all replicas writes nothing, or no Events during these faults.
    pub(super) async fn compare_restarted(&mut self, rates: &FaultRates) -> anyhow::Result<()> {
        self.compare().await?;
        if self.files.policies.is_empty() {
            return Ok(());
        }
        // The counts of a day are written later if that failed at first.
        self.wait_since_trouble(COUNTED).await;
        let (before, mirrored) = (self.lasting(), self.bus.written().len());
        let numbers: Vec<u8> = self.replicas.keys().copied().collect();
        self.stop_all().await?;
        self.faults.set(rates.clone());
        for number in numbers {
            self.start(number)?;
        }
        sleep(QUIET).await;
        self.faults.set(FaultRates::default());
        let is_disturbed = *rates != FaultRates::default();
        if is_disturbed {
            self.history.note_disorder();
            self.disturbed = machine::elapsed();
            self.restart_failed().await?;
        }
        self.converge(if is_disturbed { PATIENCE } else { REEVALUATION }).await.context("after a restart")?;
        let depends_on_time = self.depend_on_time();
        self.history.check(&self.list(), depends_on_time).context("after a restart")?;
        // Kinds that were temporarily unreadable may have been recorded as such.
        let may_change = is_disturbed || depends_on_time;
        if may_change {
            return Ok(());
        }
        changed(&before, &self.lasting()).and_then(|()| self.only_states(mirrored)).context("after a restart")
    }

    /// Stops all replicas as soon as their results are right, and checks that they record them before they end.
    pub(super) async fn compare_stopped(&mut self) -> anyhow::Result<()> {
        if self.files.policies.is_empty() {
            return Ok(());
        }
        self.end_faults().await?;
        let is_served = async |run: &Self| {
            run.have_leaders().await?;
            run.compare_served(&run.expected().1).await
        };
        self.wait_until(PATIENCE, SHORTLY, is_served).await?;
        let expected = self.expected().1;
        let (before, lost_leases) = (self.list().events()?.len(), self.lost_leases);
        self.stop_all().await?;
        let cluster = self.list();
        expected.compare_reports(&cluster).context("after all have stopped")?;
        // Violations that were covered until recently are not announced yet.
        let dependents = self.history.dependents();
        let expected = expected.without_dependents(&dependents);
        let without_dependents = |announcements: Vec<Announcement>| -> Vec<Announcement> {
            let announcements = self.with_records(&cluster, announcements).into_iter();
            announcements.filter(|one| !dependents.contains(&one.about.object)).collect()
        };
        // No more Events can be written in the time that a replica has to stop.
        if !self.settings.slow_events || cluster.events()?.len() < before + MOST_AT_A_STOP {
            let events = without_dependents(cluster.events()?);
            expected
                .compare_announcements("Events", &cluster, &events, self.kills)
                .context("after all have stopped")?;
        }
        if lost_leases > 0 {
            return Ok(());
        }
        for (what, file) in [("notifications", NOTIFIED), ("lines", STREAM)] {
            let lines = without_dependents(lines(file)?);
            expected.compare_announcements(what, &cluster, &lines, 0).context("after all have stopped")?;
        }
        Ok(())
    }

    /// Fails unless there is one leader per shard or cluster: the Lease of a killed replica may not have expired.
    async fn have_leaders(&self) -> anyhow::Result<()> {
        let leaders = self.leaders().await?;
        ensure!(leaders == usize::from(self.settings.leaders()), "{leaders} replicas are leaders");
        Ok(())
    }

    /// Returns the number of replicas that report to be leader.
    async fn leaders(&self) -> anyhow::Result<usize> {
        let mut leaders = 0;
        for replica in self.replicas.values() {
            leaders += usize::from(replica.get("/metrics").await?.lines().any(|line| line == "kaudit_leader 1"));
        }
        Ok(leaders)
    }

    /// Lets another process take the Leases, and checks that no replica continues as leader.
    pub(super) async fn take_leases(&mut self) -> anyhow::Result<()> {
        if self.files.policies.is_empty() {
            return Ok(());
        }
        self.end_faults().await?;
        self.converge(PATIENCE).await.context("before its Lease is taken")?;
        let leases = self.leases();
        // A single replica needs no Lease, though an earlier one of several may have left one.
        if leases.is_empty() || !self.settings.elects() {
            return Ok(());
        }
        for mut lease in leases {
            lease["spec"]["holderIdentity"] = "another".into();
            let taken = self.server.replace(&lease);
            ensure!(taken.is_ok(), "the Lease cannot be taken: {taken:?}");
        }
        sleep(NOTICED).await;
        ensure!(self.leaders().await? == 0, "a replica is leader although it has lost its Lease");
        self.had_faults = true;
        Ok(())
    }

    /// Checks that kaudit stays converged, and that nothing is written meanwhile.
    pub(super) async fn stays_quiet(&mut self) -> anyhow::Result<()> {
        if self.files.policies.is_empty() {
            return Ok(());
        }
        // Everything is discovered, and requests that hang because of faults time out before.
        self.faults.find_all();
        self.wait_since_trouble(GIVING_UP).await;
        let (before, sent) = (self.stored(), self.server.requests().len());
        let mirrored = self.bus.written().len();
        sleep(QUIET).await;
        // A date may have passed meanwhile.
        let patience = if self.depend_on_time() { REEVALUATION } else { Duration::ZERO };
        self.converge(patience).await.context("it had converged before")?;
        self.history.check(&self.list(), !patience.is_zero())?;
        if !patience.is_zero() {
            return Ok(());
        }
        // Replicas renew their Leases, and update their Audits.
        let is_renewed = |entry: &JournalEntry| matches!(&*entry.request.resource, "leases" | "audits");
        let is_review = |entry: &JournalEntry| entry.request.group.starts_with("auth");
        let writes = |entry: &JournalEntry| !matches!(&*entry.request.verb, "get" | "list" | "watch");
        let requests = self.server.requests();
        let by_kaudit = requests[sent..].iter().filter(|entry| entry.request.user.contains("kaudit"));
        match by_kaudit.into_iter().find(|entry| writes(entry) && !is_renewed(entry) && !is_review(entry)) {
            Some(entry) => bail!("in a quiet cluster: {} {}", entry.request.verb, entry.request.path),
            None => changed(&before, &self.stored()),
        }?;
        self.only_heartbeats(mirrored, QUIET)
    }

    /// Waits until everything is settled, and so long has passed since the last trouble.
    async fn wait_since_trouble(&self, long: Duration) {
        sleep(SETTLED.max((self.disturbed + long).saturating_sub(machine::elapsed()))).await;
    }

    /// Whether results change with time.
    fn depend_on_time(&self) -> bool {
        !self.policies_with_dates(&self.list()).is_empty()
    }

    /// Returns all stored objects, without those that replicas renew, and those of others that may change.
    fn stored(&self) -> BTreeMap<String, Value> {
        let is_others = |object: &Value| KINDS.iter().any(|kind| object["kind"] == kind.kind);
        let changes = |object: &Value| object["kind"] == "Lease" || !self.writers.is_empty() && is_others(object);
        let everything = self.server.everything().into_iter().filter(|object| !changes(object));
        let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["uid"]);
        everything.map(|object| (name(&object), object)).collect()
    }

    /// Returns the same, without the time of the last write of an Audit, and whether a replica has synced since its
    /// start.
    fn lasting(&self) -> BTreeMap<String, Value> {
        let mut stored = self.stored();
        for audit in stored.values_mut().filter(|object| object["kind"] == "Audit") {
            audit["metadata"].take();
            let conditions = audit["status"]["conditions"].as_array_mut();
            if let Some(conditions) = conditions {
                conditions.retain(|one| one["type"] != "Synced" && one["type"] != "Complete");
            }
        }
        stored
    }

    /// Compares the records, and the result of a fresh check, with the expected results.
    async fn difference(&self) -> anyhow::Result<()> {
        ensure!(!self.replicas.is_empty(), "no replica runs");
        self.have_leaders().await?;
        let (cluster, expected) = self.expected();
        expected.compare_reports(&cluster)?;
        self.compare_events(&cluster, &expected)?;
        expected.compare_status(&cluster, &self.settings)?;
        self.compare_coverage(&cluster)?;
        self.compare_served(&expected).await?;
        self.compare_receivers(&cluster, &expected)?;
        self.compare_bucket(&cluster, &expected, true).await?;
        let outcome = replica::once(&self.server, &self.settings, ADMIN).await.context("check --once");
        // A date may have passed meanwhile.
        self.expected().1.compare_once(outcome)
    }

    /// Compares what does not depend on the failing requests.
    async fn other_difference(&self, outage: Outage) -> anyhow::Result<()> {
        let (cluster, expected) = self.expected();
        match outage {
            Outage::Events => expected.compare_reports(&cluster)?,
            Outage::Reports | Outage::ReportWrites => {
                self.reports_are_kept(&cluster)?;
                self.compare_events(&cluster, &expected)?;
            }
            Outage::Exceptions => {}
            Outage::Kind(kind) => {
                let policies = self.files.policies.values().filter(|policy| policy.concerns().any(|own| own == kind));
                let policies = policies.map(Policy::name).collect();
                return expected.without(KINDS[kind].kind, policies).compare_reports(&cluster);
            }
        }
        self.compare_served(&expected).await?;
        self.compare_bucket(&cluster, &expected, !outage.affects_reports()).await?;
        self.compare_receivers(&cluster, &expected)
    }

    /// Fails if the coverage contains a kind that is no longer served, or a wrong number of objects. All shards read
    /// Namespaces.
    fn compare_coverage(&self, cluster: &ListedObjects) -> anyhow::Result<()> {
        let covered = cluster.covered(&self.settings);
        let has_exceptions = covered.keys().any(|(api_version, kind)| (&**api_version, &**kind) == EXCEPTIONS);
        ensure!(has_exceptions, "Audit: exceptions have not been read");
        let is_served = |kind: &AuditedKind| self.server.list(kind.api_version, kind.kind, "").is_ok();
        for (index, kind) in KINDS.iter().enumerate() {
            // A CRD may serve several versions.
            let is_covered = |(api_version, own): &(String, String)| {
                own == kind.kind && (index == cluster::WIDGET || api_version == kind.api_version)
            };
            let is_in_scope = !self.settings.judged_kinds && Some(index) != self.settings.excluded;
            ensure!(
                !is_in_scope || !is_served(kind) || covered.keys().any(is_covered),
                "Audit: {} is not covered",
                kind.kind
            );
        }
        for ((api_version, kind), objects) in covered {
            let Ok(there) = self.server.list(&api_version, &kind, "") else { bail!("Audit: {kind} is not served") };
            let is_shared = self.settings.sharded && kind == "Namespace";
            ensure!(is_shared || objects == there.len(), "Audit: {objects} objects {kind}, not {}", there.len());
        }
        Ok(())
    }

    async fn compare_served(&self, expected: &ExpectedFindings) -> anyhow::Result<()> {
        let (mut served, mut pages, mut metrics) = (Vec::new(), Vec::new(), Vec::new());
        for replica in self.replicas.values() {
            served.push(serde_json::from_str(&replica.get("/status").await?)?);
            pages.push(serde_json::from_str(&replica.get_page("/?format=json").await?)?);
            metrics.push(replica.get("/metrics").await?);
        }
        expected.compare_served(&served, &self.settings)?;
        expected.compare_pages(&pages, &self.settings)?;
        expected.compare_metrics(&metrics, &self.settings)
    }

    fn compare_events(&self, cluster: &ListedObjects, expected: &ExpectedFindings) -> anyhow::Result<()> {
        let events = self.with_records(cluster, cluster.events()?);
        expected.compare_announcements("Events", cluster, &events, self.kills)
    }

    fn compare_receivers(&self, cluster: &ListedObjects, expected: &ExpectedFindings) -> anyhow::Result<()> {
        // Notifications that were pending when a replica was killed or lost its Lease are not sent later.
        if self.lost_leases > 0 {
            return Ok(());
        }
        for (what, file) in [("notifications", NOTIFIED), ("lines", STREAM)] {
            expected.compare_announcements(what, cluster, &self.with_records(cluster, lines(file)?), 0)?;
        }
        Ok(())
    }

    /// Removes announcements about objects that were deleted with their namespace, and with them all records of their
    /// violations: their resolution may be unknown, or only reported in some places.
    fn with_records(&self, cluster: &ListedObjects, mut announcements: Vec<Announcement>) -> Vec<Announcement> {
        if !self.gone_namespaces.is_empty() {
            let uids = cluster.uids();
            announcements
                .retain(|one| !self.gone_namespaces.contains(&one.about.object.1) || uids.contains(&one.about.uid));
        }
        announcements
    }

    /// Returns the objects in the cluster.
    pub(super) fn list(&self) -> ListedObjects {
        ListedObjects::list(|api_version, kind| self.server.list(api_version, kind, "").ok())
    }

    /// Returns the objects in the cluster, and the expected results.
    pub(super) fn expected(&self) -> (ListedObjects, ExpectedFindings) {
        let listed = self.list();
        let expected =
            ExpectedFindings::new(&listed, self.files.policies.values(), &self.settings, &self.files.excused);
        (listed, expected)
    }
}

/// Reads the written announcements, one per line.
fn lines(file: &str) -> anyhow::Result<Vec<Announcement>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut lines = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("{file}: {line}"))?;
        lines.extend(Announcement::line(&line));
    }
    Ok(lines)
}
