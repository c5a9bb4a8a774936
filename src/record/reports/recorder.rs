//! Decides when which reports are written, and what happens when that fails. Each report is written by one job at a
//! time.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep_until, timeout},
};
use tracing::{debug, info, warn};

use super::{
    format::Api,
    load::{LoadedReports, Obsolete, Versions, choose, is_served, versions},
    pending::{ChangedResults, PendingChanges},
    problems::{Failing, ReportProblems, of_namespace},
    report_set::{EVERY, Report, ReportKey, ReportSet, Stored},
    settings::ReportSettings,
    write::{ApplyError, PlanResult, ReportWriter},
};
use crate::{
    audit::queue::Lane,
    cluster::{backoff::Backoff, error::describe},
    record::{delaying_queue::DelayingQueue, failure::WriteFailure, health::Health},
};

/// How long a change waits for others, so that changes that are applied together are written together.
const TOGETHER: Duration = Duration::from_millis(100);
/// Reports that are written at a time.
const WRITES_AT_A_TIME: usize = 4;
/// How often the report objects are compared with what was written; less often if that takes long.
const RESYNC_EVERY: Duration = Duration::from_secs(30);
/// How often report APIs are discovered while the server serves none.
const DISCOVER_EVERY: Duration = Duration::from_secs(10);
/// How often the obsolete report objects of one namespace are pruned.
const PRUNE_EVERY: Duration = Duration::from_millis(200);
/// Delays after failures: those that may pass, and those that someone has to fix.
const RETRY: Backoff = Backoff::SHORT;
const RETRY_REFUSED: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(1));
/// Attempts at the end of a run.
const LAST_ATTEMPTS: u32 = 5;

/// What a job returns.
enum Done {
    Written(PlanResult),
    /// Obsolete report objects of a namespace were deleted; those that are left, and why.
    Pruned(Option<Arc<str>>, Vec<(Api, String)>, Option<ApplyError>),
    /// What the server has, and how long it took to list.
    Listed(kube::Result<Versions>, Duration),
    /// The API to write, if the server serves one.
    Discovered(Option<Api>),
}

pub(super) struct ReportRecorder {
    settings: ReportSettings,
    api: Option<Api>,
    /// The API that was written last, also while the server does not serve it.
    former_api: Option<Api>,
    /// The API that the last discovery found while none is written.
    next_api: Option<Api>,
    reports: ReportSet,
    obsolete: Obsolete,
    /// The reports that changed, each once: when they are to be written.
    queue: DelayingQueue<ReportKey, (), ()>,
    /// Reports written since the last resync began: its list may be older.
    written_since: BTreeSet<ReportKey>,
    jobs: JoinSet<Done>,
    next_resync: Instant,
    resyncing: bool,
    next_prune: Instant,
    pruning: bool,
    closing: bool,
    problems: ReportProblems,
}

impl ReportRecorder {
    pub(super) fn new(settings: ReportSettings, loaded: LoadedReports, health: watch::Sender<Health>) -> Self {
        let LoadedReports { api, reports, obsolete, read_error, recorded: _ } = loaded;
        let now = Instant::now();
        let mut recorder = Self {
            settings,
            api,
            former_api: api,
            next_api: None,
            reports,
            obsolete,
            queue: DelayingQueue::default(),
            written_since: BTreeSet::new(),
            jobs: JoinSet::new(),
            next_resync: now + if api.is_some() { RESYNC_EVERY } else { DISCOVER_EVERY },
            resyncing: false,
            next_prune: now,
            pruning: false,
            closing: false,
            problems: ReportProblems::new(read_error, health),
        };
        recorder.enqueue_all(now);
        recorder
    }

    pub(super) async fn run(mut self, mut pending: PendingChanges) {
        self.problems.report(self.api, self.settings.choice);
        loop {
            // First, as it may find that nothing is left to do.
            self.dispatch(Instant::now());
            if self.closing && self.is_done() {
                break;
            }
            let next = self.next(Instant::now());
            tokio::select! {
                more = pending.changed(), if !self.closing => {
                    self.take(&pending, Instant::now());
                    if !more {
                        self.close(Instant::now());
                    }
                }
                Some(done) = self.jobs.join_next() => match done {
                    Ok(done) => self.done(done, Instant::now()),
                    Err(failed) => warn!(%failed, "A job of the reports panicked"),
                },
                () = sleep_until(next.into()) => {}
            }
        }
    }

    /// Takes the pending changes.
    fn take(&mut self, pending: &PendingChanges, now: Instant) {
        for ChangedResults { object, results, lane } in pending.take() {
            if let Some(key) = self.reports.set(object, &results) {
                self.enqueue(&key, lane, now);
            }
        }
    }

    /// Makes all that is left due now, as no more changes come.
    fn close(&mut self, now: Instant) {
        self.closing = true;
        self.reports.reports.values_mut().for_each(Report::cancel_rest);
        self.queue.expedite(now);
    }

    fn is_done(&self) -> bool {
        let written = self.queue.len() == 0 && self.obsolete.is_empty();
        self.queue.in_flight().is_empty() && !self.pruning && (written || self.api.is_none())
    }

    fn enqueue_all(&mut self, now: Instant) {
        let keys: Vec<ReportKey> = self.reports.reports.keys().cloned().collect();
        for key in keys {
            self.enqueue_at(&key, now);
        }
    }

    /// Enqueues a report that changed: to be written at once after a change in the cluster, unless it was written
    /// recently; for a snapshot later, so that many results come in one write.
    fn enqueue(&mut self, key: &ReportKey, lane: Lane, now: Instant) {
        let waiting = self.queue.due(key);
        // Other changes do not shorten the delay after a failure.
        if self.problems.failing.contains_key(key) && waiting.is_some() {
            return;
        }
        let pause = match lane {
            _ if self.closing => Duration::ZERO,
            Lane::Change => TOGETHER,
            Lane::Snapshot => EVERY,
        };
        let due = self.reports.reports.get(key).map_or(now, |report| report.due(now + pause));
        self.enqueue_at(key, waiting.map_or(due, |waiting| waiting.min(due)));
    }

    fn enqueue_at(&mut self, key: &ReportKey, due: Instant) {
        self.queue.remove_last(key, |()| true);
        self.queue.push(key, (), (), due);
    }

    /// Removes a report that has nothing left to write from the queue.
    fn forget(&mut self, key: &ReportKey) {
        self.queue.remove_last(key, |()| true);
        self.queue.done(key);
        self.problems.failing.remove(key);
        self.reports.remove_blank(key);
    }

    /// Returns when the next work is due if nothing happens before.
    fn next(&mut self, now: Instant) -> Instant {
        let write = self.queue.next(now).filter(|_| self.api.is_some() && self.has_room()).map(|(due, ())| due);
        let resync = (!self.resyncing && !self.closing).then_some(self.next_resync);
        let prune = (!self.obsolete.is_empty() && !self.pruning && self.has_room()).then_some(self.next_prune);
        let soon = [write, resync, prune].into_iter().flatten().min().unwrap_or(now + RESYNC_EVERY);
        // Work that is already due waits for the end of a job, which wakes the loop.
        soon.max(now + Duration::from_millis(20))
    }

    fn has_room(&self) -> bool {
        self.queue.in_flight().len() < WRITES_AT_A_TIME
    }

    fn dispatch(&mut self, now: Instant) {
        if now >= self.next_resync && !self.resyncing && !self.closing {
            self.resync();
        }
        let Some(api) = self.api else { return };
        while self.has_room() {
            let Some(entry) = self.queue.pop(now) else { break };
            let (key, ReportSet { format, reports }) = (&entry.key, &mut self.reports);
            let Some(report) = reports.get_mut(key) else {
                self.forget(key);
                continue;
            };
            let plan = report.plan(key, format, api, now);
            self.problems.note_incomplete(key, report, None);
            if plan.is_empty() {
                match report.is_dirty().then(|| report.due(now)) {
                    Some(rested) => self.queue.put_back(entry, rested),
                    None => self.forget(key),
                }
                continue;
            }
            debug!(?key, writes = plan.writes.len(), deletes = plan.deletes.len(), "Reports are written");
            self.written_since.insert(entry.key);
            let writer = self.writer(api);
            self.jobs.spawn(async move { Done::Written(writer.execute(plan).await) });
        }
        self.prune(now);
    }

    fn writer(&self, api: Api) -> ReportWriter {
        ReportWriter { client: self.settings.client.clone(), metrics: Arc::clone(&self.settings.metrics), api }
    }

    /// Deletes the obsolete report objects of a namespace where all current ones are written.
    fn prune(&mut self, now: Instant) {
        if self.pruning || now < self.next_prune {
            return;
        }
        self.next_prune = now + PRUNE_EVERY;
        let settled = |namespace: &Option<Arc<str>>| {
            let unfinished = self.queue.first_from(&ReportKey::before(namespace.as_ref()));
            unfinished.is_none_or(|key| key.namespace != *namespace)
        };
        let Some(namespace) = self.obsolete.keys().find(|namespace| settled(namespace)).cloned() else { return };
        let obsolete = self.obsolete.remove(&namespace).unwrap_or_default();
        self.pruning = true;
        let writers = Api::ALL.map(|api| self.writer(api));
        // A report object of the same name may have been written since.
        let reports = self.reports.reports.range(ReportKey::before(namespace.as_ref())..);
        let current: BTreeSet<String> = reports
            .take_while(|(key, _)| key.namespace == namespace)
            .flat_map(|(_, report)| report.stored.keys().cloned())
            .collect();
        let written = self.api;
        let left = obsolete.into_iter().filter(|(api, name)| Some(*api) != written || !current.contains(name));
        let mut left: Vec<(Api, String)> = left.collect();
        self.jobs.spawn(async move {
            while let Some((api, name)) = left.last() {
                let Some(writer) = writers.iter().find(|writer| writer.api == *api) else { break };
                match writer.delete(namespace.as_deref(), name).await {
                    // Without the API its objects do not exist either.
                    Ok(()) | Err(ApplyError::NoApi) => left.pop(),
                    Err(error) => return Done::Pruned(namespace, left, Some(error)),
                };
            }
            Done::Pruned(namespace, left, None)
        });
    }

    /// Lists the report objects of the server, to compare them with those that were written; without an API, discovers
    /// one.
    fn resync(&mut self) {
        self.resyncing = true;
        let settings = self.settings.clone();
        if let Some(api) = self.api {
            self.written_since = self.queue.in_flight().clone();
            self.jobs.spawn(async move {
                let began = Instant::now();
                let listed = versions(&settings, api).await;
                Done::Listed(listed, began.elapsed())
            });
        } else {
            self.jobs.spawn(async move {
                let mut served = Vec::new();
                for api in Api::ALL {
                    let served_answer = timeout(DISCOVER_EVERY, is_served(&settings.client, api)).await;
                    served.extend(matches!(served_answer, Ok(Ok(true))).then_some(api));
                }
                Done::Discovered(choose(settings.choice, &served))
            });
        }
    }

    fn done(&mut self, done: Done, now: Instant) {
        match done {
            Done::Written(result) => self.written(result, now),
            Done::Pruned(namespace, left, error) => self.pruned(namespace, left, error, now),
            Done::Listed(listed, took) => {
                (self.resyncing, self.next_resync) = (false, now + RESYNC_EVERY.max(took * 20));
                match listed {
                    Ok(versions) => {
                        self.problems.read_error.clear();
                        self.compare(&versions, now);
                    }
                    Err(kube::Error::Api(status)) if status.code == 404 => self.api_lost(now),
                    Err(error) if WriteFailure::of(&error) == WriteFailure::Later => {
                        debug!("Reports cannot be listed: {}", describe(&error));
                    }
                    Err(error) => self.problems.read_error = describe(&error),
                }
            }
            Done::Discovered(api) => {
                (self.resyncing, self.next_resync) = (false, now + DISCOVER_EVERY);
                self.discovered(api, now);
            }
        }
        self.problems.report(self.api, self.settings.choice);
    }

    fn written(&mut self, result: PlanResult, now: Instant) {
        let PlanResult { key, written, deleted, left, refused, why_refused, error } = result;
        self.queue.done(&key);
        let Some(report) = self.reports.reports.get_mut(&key) else { return };
        report.stored.extend(written);
        report.stored.retain(|name, _| !deleted.contains(name));
        for prefix in left {
            report.failed(prefix);
        }
        if !refused.is_empty() {
            for (prefix, ids) in &refused {
                report.leave_out(*prefix, ids);
            }
            self.problems.note_incomplete(&key, report, Some(why_refused));
        }
        let due = report.due(now);
        let (backoff, why) = match error {
            None => {
                self.problems.failing.remove(&key);
                // Not all is written in one go; when nothing is left, the next plan is empty.
                return self.enqueue_at(&key, due);
            }
            // The namespace is terminating with everything in it; a later one of the same name is another namespace.
            Some(ApplyError::Normal) => return self.forget(&key),
            Some(ApplyError::NoApi) => {
                self.enqueue_at(&key, now);
                return self.api_lost(now);
            }
            Some(ApplyError::Later(why)) => (RETRY, why),
            Some(ApplyError::Refused(why) | ApplyError::Invalid(why)) => (RETRY_REFUSED, why),
        };
        let attempts = self.problems.failing.get(&key).map_or(0, |failing| failing.attempts) + 1;
        if self.closing && (attempts >= LAST_ATTEMPTS || backoff == RETRY_REFUSED) {
            self.problems.lost = format!("reports{} were not written: {why}", of_namespace(key.namespace.as_ref()));
            warn!("Not retried at shutdown: {}", self.problems.lost);
            return self.forget(&key);
        }
        self.problems.failing.insert(key.clone(), Failing { attempts, why });
        self.enqueue_at(&key, now + backoff.after(attempts));
    }

    fn pruned(
        &mut self,
        namespace: Option<Arc<str>>,
        left: Vec<(Api, String)>,
        error: Option<ApplyError>,
        now: Instant,
    ) {
        self.pruning = false;
        self.problems.prune_error = match error {
            None => String::new(),
            Some(ApplyError::Normal | ApplyError::NoApi) => return,
            Some(ApplyError::Later(why) | ApplyError::Refused(why) | ApplyError::Invalid(why)) => {
                self.next_prune = now + RETRY_REFUSED.longest;
                let of = of_namespace(namespace.as_ref());
                if !self.closing {
                    self.obsolete.entry(namespace).or_default().extend(left);
                }
                format!("obsolete reports{of} cannot be deleted: {why}")
            }
        };
    }

    /// Finds report objects that others changed or deleted, to write them again, and those that are obsolete.
    fn compare(&mut self, versions: &Versions, now: Instant) {
        let (mut differ, mut ours) = (Vec::new(), BTreeSet::new());
        for (key, report) in &mut self.reports.reports {
            let fresh = self.written_since.contains(key);
            for (name, stored) in std::mem::take(&mut report.stored) {
                let object = (key.namespace.clone(), name);
                let version = versions.get(&object).cloned();
                let name = object.1.clone();
                if fresh || version.as_ref() == Some(&stored.resource_version) {
                    report.stored.insert(name, stored);
                } else {
                    debug!(
                        report = name,
                        "A report{} was changed or deleted by others",
                        of_namespace(key.namespace.as_ref())
                    );
                    report.mark_dirty(key, &name);
                    let stored = version.map(|resource_version| Stored { content: None, resource_version });
                    report.stored.extend(stored.map(|stored| (name, stored)));
                    differ.push(key.clone());
                }
                ours.insert(object);
            }
        }
        if !differ.is_empty() {
            warn!(reports = differ.len(), "Reports were changed or deleted by others, and are written again");
        }
        let fresh: BTreeSet<Option<Arc<str>>> = self.written_since.iter().map(|key| key.namespace.clone()).collect();
        let unknown = versions.keys().filter(|object| !ours.contains(object) && !fresh.contains(&object.0));
        for (namespace, name) in unknown {
            if let Some(api) = self.api {
                self.obsolete.entry(namespace.clone()).or_default().insert((api, name.clone()));
            }
        }
        for key in &differ {
            self.enqueue(key, Lane::Snapshot, now);
        }
    }

    /// Notes that the server no longer serves the API. What was written is compared when it does again: a server that
    /// has just started may not serve all its kinds yet.
    fn api_lost(&mut self, now: Instant) {
        if self.api.take().is_some() {
            self.next_resync = now;
        }
    }

    /// Writes the API that is served from now on. Another one than before has to be found twice in a row: a server that
    /// has just started may serve only one of them yet.
    fn discovered(&mut self, api: Option<Api>, now: Instant) {
        let earlier = std::mem::replace(&mut self.next_api, api);
        let Some(api) = api.filter(|_| self.queue.in_flight().is_empty()) else { return };
        let former = self.former_api.filter(|former| *former != api);
        if former.is_some() && earlier != Some(api) {
            return;
        }
        info!(api = api.api_version(), "Reports are written from now on");
        let is_new = self.former_api.replace(api) != Some(api);
        (self.api, self.next_api, self.next_resync) = (Some(api), None, now);
        if let Some(former) = former {
            for (key, report) in &self.reports.reports {
                let names = report.stored.keys().map(|name| (former, name.clone()));
                self.obsolete.entry(key.namespace.clone()).or_default().extend(names);
            }
            self.obsolete.retain(|_, objects| !objects.is_empty());
        }
        if is_new {
            self.reports.forget_stored();
            self.enqueue_all(now);
        }
    }
}

/// Logs how many reports were not written, also when the recorder is aborted.
impl Drop for ReportRecorder {
    fn drop(&mut self) {
        let in_flight = self.queue.in_flight().iter().filter(|key| self.queue.due(key).is_none());
        let reports = self.queue.len() + in_flight.count();
        if reports > 0 && self.api.is_some() {
            warn!(reports, "Reports were not written before shutdown; the next run writes the current results");
        }
    }
}

#[cfg(test)]
mod tests;
