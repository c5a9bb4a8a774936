//! The pipeline: the one owner of cache, gate, queue and ledger.
//!
//! In: what the sources say, new policies, questions. Out: deltas for the recorders, a summary for the status, and in
//! the end the whole result. It never waits for anything but its own inputs: judging happens on blocking threads,
//! recorders take what they can and count the rest.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    cache::{Cache, Effect, Feed},
    evaluate::{Job, evaluate},
    gate::{Coverage, Discovered, Gate, Unreadable},
    ledger::{Delta, Ledger},
    metrics::Metrics,
    object::{Object, ObjectKey},
    output::{AuditResult, Entry, PolicySummary, Resource, Summary},
    policy::{self, LoadError, PolicySet},
    queue::{Lane, Queue},
    verdict::{Outcome, Verdict},
};

/// What a source says. Within a feed the order counts.
#[derive(Debug)]
pub enum Change {
    /// A feed is to be expected.
    Appeared(Feed),
    /// A feed is there no more, and its objects with it.
    Vanished(Feed),
    /// A pass of discovery is complete: everything that is in scope has appeared.
    Discovered(Discovered),
    /// A new list of the feed begins.
    Listing(Feed),
    /// The present state of an object.
    Seen(Feed, Object),
    /// An object was deleted; its last state.
    Gone(Feed, Object),
    /// An object cannot be read: its name, as far as it is known, and why.
    Skipped(Feed, String, String),
    /// The feed's list is complete, or it can be read again.
    Synced(Feed),
    /// The feed cannot be read for now.
    Unreadable(Feed, Unreadable),
    /// A list or watch had to begin again; a word for metrics says why.
    Restarted(Feed, &'static str),
}

/// What becomes of the objects that are there at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    /// They are judged when the gate opens.
    Judge,
    /// They are the base line: only what changes later is judged.
    Skip,
}

/// Where the pipeline stands, for readiness and progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The gate is open.
    pub open: bool,
    /// Feeds complete or given up on.
    pub feeds_done: usize,
    /// Feeds expected so far.
    pub feeds: usize,
    /// The first few of those that the gate still waits for.
    pub waiting_for: Vec<String>,
    /// Objects that wait to be judged.
    pub queue: usize,
}

/// Counts and coverage, for the `Audit` object; cheap compared to the whole result.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Whether the gate is open.
    pub synced: bool,
    /// Whether all that is in scope is known and every policy ran.
    pub complete: bool,
    /// Counts.
    pub summary: Summary,
    /// What is covered.
    pub coverage: Vec<Coverage>,
    /// The policies in force.
    pub policies: Arc<PolicySet>,
    /// Fail, warn and error of each policy.
    pub by_policy: BTreeMap<Arc<str>, [usize; 3]>,
    /// Why the newest policies are not in force, if they are not.
    pub policy_error: Option<LoadError>,
}

/// A new state of the policy directory.
pub type Reload = Result<Arc<PolicySet>, LoadError>;

/// What goes into a pipeline.
pub struct Inputs {
    /// From the sources.
    pub changes: mpsc::Receiver<Change>,
    /// Whoever wants the whole result.
    pub questions: mpsc::Receiver<oneshot::Sender<AuditResult>>,
    /// From the policy directory.
    pub reloads: mpsc::Receiver<Reload>,
    /// Ends the run.
    pub stop: CancellationToken,
}

/// What a pipeline tells while it runs.
pub struct Outputs {
    /// Takes each delta; says itself what it does when it cannot keep up.
    pub record: Box<dyn FnMut(&Delta) + Send>,
    /// Takes what people should know of refused policies.
    pub tell: Box<dyn FnMut(&str) + Send>,
    /// How far it is.
    pub progress: watch::Sender<Progress>,
    /// The overview, at most every [`OVERVIEW_EVERY`].
    pub overview: watch::Sender<Option<Arc<Overview>>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// How often the overview is drawn up, if anything changed.
const OVERVIEW_EVERY: Duration = Duration::from_millis(500);
/// Feeds that are named to whoever asks what is waited for.
const NAMED: usize = 5;
/// Objects in one go of a judge: enough that the hand-over costs nothing, few enough that a change does not wait.
const BATCH: usize = 32;

/// See the module.
pub struct Pipeline {
    cache: Cache,
    gate: Gate,
    queue: Queue,
    ledger: Ledger,
    policies: Arc<PolicySet>,
    policy_error: Option<LoadError>,
    initial: Initial,
    /// Objects of the base line that have not changed since; see [`Initial::Skip`].
    baseline: HashSet<ObjectKey>,
    /// Feeds of the first discovery; their first list is the base line.
    first_feeds: HashSet<Feed>,
    judges: JoinSet<Vec<Verdict>>,
    judges_at_most: usize,
    outputs: Outputs,
    /// Something changed that the overview shows.
    dirty: bool,
}

impl Pipeline {
    /// Makes a pipeline whose gate is shut.
    pub fn new(policies: Arc<PolicySet>, initial: Initial, sync_timeout: Duration, outputs: Outputs) -> Self {
        Self {
            cache: Cache::default(),
            gate: Gate::new(sync_timeout),
            queue: Queue::default(),
            ledger: Ledger::default(),
            policies,
            policy_error: None,
            initial,
            baseline: HashSet::new(),
            first_feeds: HashSet::new(),
            judges: JoinSet::new(),
            judges_at_most: std::thread::available_parallelism().map_or(2, usize::from),
            outputs,
            dirty: true,
        }
    }

    /// Runs until stopped; with `once` until everything that was there has been judged. Returns the whole result.
    pub async fn run(mut self, mut inputs: Inputs, once: bool) -> AuditResult {
        let mut changes = Vec::with_capacity(256);
        let mut tick = tokio::time::interval(OVERVIEW_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reloads_open = true;
        self.tell_refused();
        loop {
            self.dispatch();
            if once && self.gate.is_open() && self.queue.is_idle() {
                break;
            }
            tokio::select! {
                Some(judged) = self.judges.join_next() => match judged {
                    Ok(verdicts) => verdicts.into_iter().for_each(|verdict| self.judged(verdict)),
                    // Evaluation catches panics of its own; what comes here is the runtime going down.
                    Err(failed) => error!(%failed, "A judge died"),
                },
                count = inputs.changes.recv_many(&mut changes, 256) => {
                    let now = Instant::now();
                    changes.drain(..).for_each(|change| self.take_in(change, now));
                    self.try_open(now);
                    if count == 0 && !self.gate.is_open() {
                        error!("The sources ended before everything was read");
                        break;
                    }
                    if count == 0 {
                        // The sources are done (files): wait for the judges only.
                        self.finish_judging().await;
                        break;
                    }
                }
                Some(answer) = inputs.questions.recv() => {
                    // Whoever asked may have gone away.
                    let _unheard = answer.send(self.result());
                }
                reload = inputs.reloads.recv(), if reloads_open => match reload {
                    Some(reload) => self.reload(reload),
                    None => reloads_open = false,
                },
                _ = tick.tick() => self.tick(),
                () = inputs.stop.cancelled() => break,
            }
        }
        self.tick();
        self.result()
    }

    async fn finish_judging(&mut self) {
        while !self.queue.is_idle() {
            self.dispatch();
            match self.judges.join_next().await {
                Some(Ok(verdicts)) => verdicts.into_iter().for_each(|verdict| self.judged(verdict)),
                Some(Err(_)) => {}
                None => return,
            }
        }
    }

    fn take_in(&mut self, change: Change, now: Instant) {
        self.dirty = true;
        match change {
            Change::Appeared(feed) => {
                if !self.gate.is_open() {
                    self.first_feeds.insert(feed.clone());
                }
                self.cache.add(feed.clone());
                self.gate.appeared(feed, now);
            }
            Change::Vanished(feed) => {
                self.gate.vanished(&feed);
                for key in self.cache.drop_feed(&feed) {
                    self.forget(&key);
                }
                self.outputs.metrics.remove_kind(&feed.kind.group, &feed.kind.plural);
            }
            Change::Discovered(discovered) => self.gate.discovered(discovered),
            Change::Listing(feed) => {
                self.cache.listing(&feed);
                self.gate.listing(&feed);
            }
            Change::Seen(feed, object) => self.seen(&feed, object, now),
            Change::Gone(feed, object) => {
                if self.cache.gone(&feed, &object.key, &object.uid) {
                    self.forget(&object.key);
                }
            }
            Change::Skipped(feed, name, why) => {
                match &*feed.kind.plural {
                    "*" => warn!("{name} cannot be read and is not judged: {why}"),
                    kind => warn!(kind, name, why, "An object cannot be read and is not judged"),
                }
                self.outputs.metrics.object_unreadable(&feed.kind.group, &feed.kind.plural);
                self.gate.skipped(&feed, name, why);
            }
            Change::Synced(feed) => self.synced(&feed, now),
            Change::Unreadable(feed, why) => {
                // Said at each attempt, but told when it is new.
                if self.gate.unreadable(&feed, why.clone()) && !why.message.is_empty() {
                    warn!(%feed, state = why.state.as_str(), why = why.message, "Cannot be read, and is not judged until it can");
                }
            }
            Change::Restarted(feed, reason) => {
                self.outputs.metrics.watch_restarted(&feed.kind.group, &feed.kind.plural, reason);
            }
        }
    }

    fn seen(&mut self, feed: &Feed, object: Object, now: Instant) {
        let key = object.key.clone();
        let effect = self.cache.seen(feed, object);
        if effect == Effect::Same {
            return;
        }
        self.gate.read(feed, &key);
        if effect == Effect::Replaced {
            self.forget(&key);
        }
        if self.gate.lets_through(feed) {
            self.baseline.remove(&key);
            self.queue.push(key, Lane::Change, now);
        }
    }

    fn synced(&mut self, feed: &Feed, now: Instant) {
        for key in self.cache.listed(feed) {
            self.forget(&key);
        }
        let first = self.gate.synced(feed);
        debug!(%feed, objects = self.cache.len(feed), "Synced");
        if first && self.gate.is_open() {
            self.admit(feed, now);
        }
    }

    fn try_open(&mut self, now: Instant) {
        if !self.gate.try_open(now) {
            return;
        }
        let feeds: Vec<_> = self.gate.joined().cloned().collect();
        let objects: usize = feeds.iter().map(|feed| self.cache.len(feed)).sum();
        info!(feeds = feeds.len(), objects, "Everything is synced; judging begins");
        for feed in &feeds {
            self.admit(feed, now);
        }
        self.outputs.metrics.set_gate_open(true);
        self.dirty = true;
        self.tick();
    }

    /// Lets the objects of a feed be judged, which so far were only kept.
    fn admit(&mut self, feed: &Feed, now: Instant) {
        let keys: Vec<_> = self.cache.keys(feed).cloned().collect();
        if self.initial == Initial::Skip && self.first_feeds.contains(feed) {
            self.baseline.extend(keys);
        } else {
            self.queue.extend(keys, Lane::Snapshot, now);
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        self.queue.forget(key);
        self.baseline.remove(key);
        if let Some(delta) = self.ledger.forget(key) {
            (self.outputs.record)(&delta);
        }
    }

    /// Hands waiting objects to the judges.
    fn dispatch(&mut self) {
        while self.judges.len() < self.judges_at_most {
            // Small batches while there is little to do, so that every judge has some of it.
            let size = (self.queue.length() / self.judges_at_most).clamp(1, BATCH);
            let mut jobs = Vec::with_capacity(size);
            while jobs.len() < size {
                let Some(key) = self.queue.pop() else { break };
                match self.cache.object(&key) {
                    Some(object) => {
                        let policies = self.policies.clone();
                        jobs.push(Job { object, previous: None, deleted: false, namespace: None, policies });
                    }
                    None => {
                        self.queue.done(&key);
                    }
                }
            }
            if jobs.is_empty() {
                return;
            }
            self.judges.spawn_blocking(move || jobs.iter().map(evaluate).collect());
        }
    }

    fn judged(&mut self, verdict: Verdict) {
        let since = self.queue.done(&verdict.key);
        let metrics = &self.outputs.metrics;
        metrics.evaluated(verdict.took);
        for finding in verdict.results.iter().filter(|finding| finding.outcome == Outcome::Error) {
            metrics.policy_failed(&finding.policy);
        }
        // The object may be gone, replaced, or waiting for its verdict under newer policies.
        if self.cache.uid(&verdict.key) != Some(&verdict.uid) || verdict.policies != self.policies.digest {
            return;
        }
        if let Some(since) = since {
            metrics.verdict_after(since.elapsed());
        }
        self.dirty = true;
        if let Some(delta) = self.ledger.record(verdict, Timestamp::now()) {
            (self.outputs.record)(&delta);
        }
    }

    fn reload(&mut self, reload: Reload) {
        self.dirty = true;
        self.outputs.metrics.policies_reloaded(reload.is_ok());
        match reload {
            Err(why) => {
                error!("The policies could not be loaded; those loaded before stay in force:\n{why}");
                self.policy_error = Some(why);
                self.tell_refused();
            }
            Ok(policies) => {
                info!(rules = policies.rules(), digest = %policies.digest, "Policies loaded");
                self.policy_error = None;
                let same = policies.digest == self.policies.digest;
                self.policies = policies;
                self.tell_refused();
                if same {
                    return;
                }
                let now = Instant::now();
                let feeds: Vec<_> = self.gate.joined().filter(|_| self.gate.is_open()).cloned().collect();
                for feed in feeds {
                    let keys: Vec<_> =
                        self.cache.keys(&feed).filter(|key| !self.baseline.contains(key)).cloned().collect();
                    self.queue.extend(keys, Lane::Snapshot, now);
                }
            }
        }
    }

    /// Tells what is refused of the newest policies.
    fn tell_refused(&mut self) {
        let (problems, then) = match &self.policy_error {
            Some(why) => (&why.problems, "the policies loaded before stay in force"),
            None => (&self.policies.problems, "the others are in force"),
        };
        let refused: BTreeSet<_> =
            problems.iter().filter(|problem| problem.is_refusal()).map(|problem| &problem.file).collect();
        self.outputs.metrics.set_policies_refused(refused.len());
        if !refused.is_empty() {
            (self.outputs.tell)(&format!("Policies are refused, {then}: {}", policy::summed_up(problems)));
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.try_open(now);
        let (feeds_done, feeds) = self.gate.progress();
        let waiting_for = self.gate.waiting_for().take(NAMED).map(ToString::to_string).collect();
        let progress =
            Progress { open: self.gate.is_open(), feeds_done, feeds, waiting_for, queue: self.queue.length() };
        self.outputs.metrics.set_queue_length(progress.queue);
        self.outputs.progress.send_if_modified(|known| {
            let new = *known != progress;
            *known = progress;
            new
        });
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let overview = self.overview();
        self.outputs.metrics.set_coverage(&overview.coverage);
        for ((policy, severity, outcome), count) in self.ledger.counts() {
            self.outputs.metrics.set_violations(policy, *severity, *outcome, *count);
        }
        self.outputs.overview.send_replace(Some(Arc::new(overview)));
    }

    fn coverage(&self) -> Vec<Coverage> {
        self.gate.coverage(|feed| self.cache.len(feed))
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary { objects: self.ledger.judged(), pass: self.ledger.passed(), ..Summary::default() };
        for ((_, _, outcome), count) in self.ledger.counts() {
            match outcome {
                Outcome::Fail => summary.fail += count,
                Outcome::Warn => summary.warn += count,
                Outcome::Error => summary.error += count,
                Outcome::Skip => summary.skip += count,
            }
        }
        summary
    }

    /// Whether every kind in scope was read and every policy ran.
    fn is_complete(&self, summary: &Summary) -> bool {
        self.gate.is_complete() && summary.error == 0 && !self.policies.is_partial()
    }

    fn overview(&self) -> Overview {
        let summary = self.summary();
        let mut by_policy: BTreeMap<Arc<str>, [usize; 3]> = BTreeMap::new();
        for ((policy, _, outcome), count) in self.ledger.counts() {
            let slot = match outcome {
                Outcome::Fail => 0,
                Outcome::Warn => 1,
                Outcome::Error => 2,
                Outcome::Skip => continue,
            };
            by_policy.entry(policy.clone()).or_default()[slot] += count;
        }
        Overview {
            synced: self.gate.is_open(),
            complete: self.is_complete(&summary),
            summary,
            coverage: self.coverage(),
            policies: self.policies.clone(),
            by_policy,
            policy_error: self.policy_error.clone(),
        }
    }

    /// The whole result, sorted.
    fn result(&self) -> AuditResult {
        let summary = self.summary();
        let mut results: Vec<Entry> = Vec::with_capacity(summary.fail + summary.warn + summary.error + summary.skip);
        for (key, standing) in self.ledger.objects() {
            let resource = Resource::new(key, &standing.uid);
            let location = self.cache.location(key);
            let entries = standing.results.iter().map(|known| Entry::new(&known.finding, &resource, location));
            results.extend(entries);
        }
        results.sort_by(|a, b| {
            let order = |entry: &Entry| (entry.resource.clone(), entry.location.clone());
            order(a).cmp(&order(b)).then_with(|| {
                (&a.policy, &a.rule, a.result, &a.message).cmp(&(&b.policy, &b.rule, b.result, &b.message))
            })
        });
        let mut policies: Vec<_> = self.policies.policies.iter().map(PolicySummary::from).collect();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        AuditResult {
            api_version: "kaudit.dev/v1alpha1",
            kind: "AuditResult",
            complete: self.gate.is_open() && self.is_complete(&summary),
            summary,
            coverage: self.coverage(),
            policies,
            refused: self.policies.refused().cloned().collect(),
            not_judged: self.policies.unjudged.clone(),
            results,
        }
    }
}
