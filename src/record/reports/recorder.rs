//! When which reports are written, and what happens when that fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep_until, timeout},
};
use tracing::{debug, info, warn};

use super::{
    Pending, Settings,
    book::{Book, Home, Known},
    load::{Leftovers, Loaded, Versions, choose, is_served, versions},
    model::{Api, Choice},
    write::{Carried, Unwritten, Writer},
};
use crate::{
    cluster::error::describe,
    record::{Failure, Said, failure},
};

/// A report is written this long after its last change,
const QUIET: Duration = Duration::from_secs(5);
/// but no later than this after its first.
const AT_LATEST: Duration = Duration::from_secs(30);
/// Namespaces that are written at a time.
const WRITES_AT_A_TIME: usize = 4;
/// How often is looked whether the reports are still there and as they were written, at least; if looking takes long, less
/// often.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often is looked whether a report API is there, while there is none.
const SEEK_EVERY: Duration = Duration::from_secs(10);
/// How often is looked which namespaces are free of reports to be written, while there are others of another form.
const SWEEP_EVERY: Duration = Duration::from_millis(200);
/// Pauses after failures: what may pass, and what somebody has to mend.
const RETRY: Pause = Pause { first: Duration::from_millis(500), longest: Duration::from_secs(10) };
const RETRY_REFUSED: Pause = Pause { first: Duration::from_secs(5), longest: Duration::from_mins(1) };
/// Attempts at the end, when there is no later.
const LAST_ATTEMPTS: u32 = 5;

/// How long to wait after failures in a row: twice as long each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    first: Duration,
    longest: Duration,
}

impl Pause {
    fn after(self, attempts: u32) -> Duration {
        (self.first * 2u32.saturating_pow(attempts.min(16) - 1)).min(self.longest)
    }
}

/// A home that has something to be written.
#[derive(Debug)]
struct Waiting {
    /// When the first change came of those that are not written.
    first: Instant,
    due: Instant,
}

/// A home that could not be written.
#[derive(Debug)]
struct Failing {
    attempts: u32,
    why: String,
}

/// What was done meanwhile.
enum Done {
    Carried(Carried),
    /// Leftovers of a namespace were deleted, or not all of them.
    Swept(Option<Arc<str>>, Vec<(Api, String)>, Option<Unwritten>),
    /// What the server has, when the look began, and how long it took.
    Looked(kube::Result<Versions>, Duration),
    /// Which API there is.
    Sought(Option<Api>),
}

pub(super) struct Recorder {
    settings: Settings,
    pending: Arc<Pending>,
    api: Option<Api>,
    /// The API that was there last.
    former_api: Option<Api>,
    book: Book,
    leftovers: Leftovers,
    waiting: BTreeMap<Home, Waiting>,
    /// Those of them that are not busy.
    due: BTreeSet<(Instant, Home)>,
    /// Being written.
    busy: BTreeSet<Home>,
    /// Written since the last look began, so that its answer may be older.
    written_since: BTreeSet<Home>,
    failing: BTreeMap<Home, Failing>,
    jobs: JoinSet<Done>,
    next_look: Instant,
    looking: bool,
    next_sweep: Instant,
    sweeping: bool,
    closing: bool,
    /// Why reports cannot be read, and why former ones cannot be deleted; empty if they can.
    unread: String,
    unswept: String,
    said: watch::Sender<Said>,
    /// What the log was told last.
    told: String,
}

impl Recorder {
    pub(super) fn new(settings: Settings, loaded: Loaded, said: watch::Sender<Said>, pending: Arc<Pending>) -> Self {
        let Loaded { api, book, leftovers, unread, recorded: _ } = loaded;
        let now = Instant::now();
        let mut recorder = Self {
            settings,
            pending,
            api,
            former_api: api,
            book,
            leftovers,
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            busy: BTreeSet::new(),
            written_since: BTreeSet::new(),
            failing: BTreeMap::new(),
            jobs: JoinSet::new(),
            next_look: now + if api.is_some() { LOOK_EVERY } else { SEEK_EVERY },
            looking: false,
            next_sweep: now,
            sweeping: false,
            closing: false,
            unread,
            unswept: String::new(),
            said,
            told: String::new(),
        };
        recorder.all_due(now);
        recorder
    }

    pub(super) async fn run(mut self, mut woken: mpsc::Receiver<()>) {
        self.say();
        loop {
            // That may find that there is nothing left to do.
            self.dispatch(Instant::now());
            if self.closing && self.is_done() {
                break;
            }
            let next = self.next(Instant::now());
            tokio::select! {
                told = woken.recv(), if !self.closing => match told {
                    Some(()) => self.take_in(Instant::now()),
                    None => self.close(Instant::now()),
                },
                Some(done) = self.jobs.join_next() => match done {
                    Ok(done) => self.done(done, Instant::now()),
                    Err(failed) => warn!(%failed, "A writer of reports died"),
                },
                () = sleep_until(next.into()) => {}
            }
        }
    }

    /// Takes in what changed.
    fn take_in(&mut self, now: Instant) {
        let pending = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        for (subject, results) in pending.into_values() {
            if let Some(home) = self.book.set(subject, &results) {
                self.changed(&home, now);
            }
        }
    }

    /// Writes all that is left, now.
    fn close(&mut self, now: Instant) {
        self.closing = true;
        self.take_in(now);
        let homes: Vec<Home> = self.waiting.keys().cloned().collect();
        for home in homes {
            self.wait_until(&home, now);
        }
    }

    fn is_done(&self) -> bool {
        let written = self.waiting.is_empty() && self.leftovers.is_empty();
        self.busy.is_empty() && !self.sweeping && (written || self.api.is_none())
    }

    fn all_due(&mut self, now: Instant) {
        let homes: Vec<Home> = self.book.pages.keys().cloned().collect();
        for home in homes {
            self.wait_until(&home, now);
        }
    }

    fn changed(&mut self, home: &Home, now: Instant) {
        let first = self.waiting.get(home).map_or(now, |waiting| waiting.first);
        // What failed is not tried earlier because something else changed.
        if !self.failing.contains_key(home) || !self.waiting.contains_key(home) {
            self.wait_until(home, if self.closing { now } else { (now + QUIET).min(first + AT_LATEST) });
        }
    }

    fn wait_until(&mut self, home: &Home, due: Instant) {
        let waiting = self.waiting.entry(home.clone()).or_insert(Waiting { first: Instant::now(), due });
        self.due.remove(&(waiting.due, home.clone()));
        waiting.due = due;
        if !self.busy.contains(home) {
            self.due.insert((due, home.clone()));
        }
    }

    /// Waits for nothing more of a home.
    fn settled(&mut self, home: &Home) {
        if let Some(waiting) = self.waiting.remove(home) {
            self.due.remove(&(waiting.due, home.clone()));
        }
        self.failing.remove(home);
        self.book.tidy(home);
    }

    /// Returns when there is something to do, unless something happens.
    fn next(&self, now: Instant) -> Instant {
        let write = self.due.first().map(|(due, _)| *due).filter(|_| self.api.is_some() && self.has_room());
        let look = (!self.looking && !self.closing).then_some(self.next_look);
        let sweep = (!self.leftovers.is_empty() && !self.sweeping && self.has_room()).then_some(self.next_sweep);
        // What is due already waits for something that ends with a job.
        let soon = [write, look, sweep].into_iter().flatten().min().unwrap_or(now + LOOK_EVERY);
        soon.max(now + Duration::from_millis(20))
    }

    fn has_room(&self) -> bool {
        self.busy.len() < WRITES_AT_A_TIME
    }

    fn dispatch(&mut self, now: Instant) {
        if now >= self.next_look && !self.looking && !self.closing {
            self.look();
        }
        let Some(api) = self.api else { return };
        while self.has_room() {
            let Some((_, home)) = self.due.first().filter(|(due, _)| *due <= now).cloned() else { break };
            let plan = self.book.pages.get_mut(&home).map(|page| page.plan(&home, &self.book.form, api));
            let Some(plan) = plan.filter(|plan| !plan.is_empty()) else {
                self.settled(&home);
                continue;
            };
            debug!(?home, writes = plan.writes.len(), deletes = plan.deletes.len(), "Reports are written");
            self.due.pop_first();
            self.waiting.remove(&home);
            self.busy.insert(home.clone());
            self.written_since.insert(home);
            let writer = self.writer(api);
            self.jobs.spawn(async move { Done::Carried(writer.carry_out(plan).await) });
        }
        self.sweep(now);
    }

    fn writer(&self, api: Api) -> Writer {
        Writer { client: self.settings.client.clone(), metrics: Arc::clone(&self.settings.metrics), api }
    }

    /// Deletes reports of another form in a namespace where everything is written in today's.
    fn sweep(&mut self, now: Instant) {
        if self.sweeping || now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_EVERY;
        let settled = |namespace: &Option<Arc<str>>| {
            let before = Home::before(namespace.as_ref());
            let of_namespace = |home: &&Home| home.namespace == *namespace;
            self.waiting.range(before..).next().is_none_or(|(home, _)| !of_namespace(&home))
                && !self.busy.iter().any(|home| of_namespace(&home))
        };
        let Some(namespace) = self.leftovers.keys().find(|namespace| settled(namespace)).cloned() else { return };
        let reports = self.leftovers.remove(&namespace).unwrap_or_default();
        self.sweeping = true;
        let writers = Api::ALL.map(|api| self.writer(api));
        // A report of this name may have been written since.
        let pages = self.book.pages.range(Home::before(namespace.as_ref())..);
        let known: BTreeSet<String> = pages
            .take_while(|(home, _)| home.namespace == namespace)
            .flat_map(|(_, page)| page.known.keys().cloned())
            .collect();
        let current = self.api;
        let reports = reports.into_iter().filter(move |(api, name)| Some(*api) != current || !known.contains(name));
        let mut reports: Vec<(Api, String)> = reports.collect();
        self.jobs.spawn(async move {
            while let Some((api, name)) = reports.last() {
                let Some(writer) = writers.iter().find(|writer| writer.api == *api) else { break };
                match writer.delete(namespace.as_deref(), name).await {
                    // Without the API its reports are gone, too.
                    Ok(()) | Err(Unwritten::NoApi) => reports.pop(),
                    Err(trouble) => return Done::Swept(namespace, reports, Some(trouble)),
                };
            }
            Done::Swept(namespace, reports, None)
        });
    }

    /// Looks whether the server still has what was written, or an API to write to.
    fn look(&mut self) {
        self.looking = true;
        let settings = self.settings.clone();
        if let Some(api) = self.api {
            self.written_since = self.busy.clone();
            self.jobs.spawn(async move {
                let began = Instant::now();
                let seen = versions(&settings, api).await;
                Done::Looked(seen, began.elapsed())
            });
        } else {
            self.jobs.spawn(async move {
                let mut served = Vec::new();
                for api in Api::ALL {
                    let asked = timeout(SEEK_EVERY, is_served(&settings.client, api)).await;
                    served.extend(matches!(asked, Ok(Ok(true))).then_some(api));
                }
                Done::Sought(choose(settings.choice, &served))
            });
        }
    }

    fn done(&mut self, done: Done, now: Instant) {
        match done {
            Done::Carried(carried) => self.carried(carried, now),
            Done::Swept(namespace, left, trouble) => self.swept(namespace, left, trouble, now),
            Done::Looked(seen, took) => {
                (self.looking, self.next_look) = (false, now + LOOK_EVERY.max(took * 20));
                match seen {
                    Ok(seen) => {
                        self.unread.clear();
                        self.compare(&seen, now);
                    }
                    Err(kube::Error::Api(status)) if status.code == 404 => self.lost(now),
                    Err(error) if failure(&error) == Failure::Later => {
                        debug!("Reports cannot be looked at: {}", describe(&error));
                    }
                    Err(error) => self.unread = describe(&error),
                }
            }
            Done::Sought(found) => {
                (self.looking, self.next_look) = (false, now + SEEK_EVERY);
                self.sought(found, now);
            }
        }
        self.say();
    }

    fn carried(&mut self, carried: Carried, now: Instant) {
        let Carried { home, written, deleted, left, trouble } = carried;
        self.busy.remove(&home);
        let Some(page) = self.book.pages.get_mut(&home) else { return };
        page.known.extend(written);
        page.known.retain(|name, _| !deleted.contains(name));
        for prefix in left {
            if let Some(shard) = page.shards.get_mut(prefix) {
                shard.dirty = true;
            }
        }
        let changed_meanwhile = self.waiting.get(&home).map(|waiting| waiting.due);
        let (pause, why) = match trouble {
            None => {
                self.failing.remove(&home);
                // Not all is written in one go; when nothing is left, the next plan is empty.
                return self.wait_until(&home, changed_meanwhile.unwrap_or(now));
            }
            // The namespace goes away, and everything in it; what comes after it is another.
            Some(Unwritten::Normal) => return self.settled(&home),
            Some(Unwritten::NoApi) => {
                self.wait_until(&home, now);
                return self.lost(now);
            }
            Some(Unwritten::Later(why)) => (RETRY, why),
            Some(Unwritten::Refused(why)) => (RETRY_REFUSED, why),
        };
        let attempts = self.failing.get(&home).map_or(0, |failing| failing.attempts) + 1;
        if self.closing && (attempts >= LAST_ATTEMPTS || pause == RETRY_REFUSED) {
            warn!("Reports{} were not written: {why}", of(home.namespace.as_ref()));
            return self.settled(&home);
        }
        self.failing.insert(home.clone(), Failing { attempts, why });
        self.wait_until(&home, now + pause.after(attempts));
    }

    fn swept(
        &mut self,
        namespace: Option<Arc<str>>,
        left: Vec<(Api, String)>,
        trouble: Option<Unwritten>,
        now: Instant,
    ) {
        self.sweeping = false;
        self.unswept = match trouble {
            None => String::new(),
            Some(Unwritten::Normal | Unwritten::NoApi) => return,
            Some(Unwritten::Later(why) | Unwritten::Refused(why)) => {
                self.next_sweep = now + RETRY_REFUSED.longest;
                let of = of(namespace.as_ref());
                if !self.closing {
                    self.leftovers.entry(namespace).or_default().extend(left);
                }
                format!("former reports{of} cannot be deleted: {why}")
            }
        };
    }

    /// Finds what others have changed or deleted; it is written again.
    fn compare(&mut self, seen: &Versions, now: Instant) {
        let (mut differ, mut ours) = (Vec::new(), BTreeSet::new());
        for (home, page) in &mut self.book.pages {
            let fresh = self.written_since.contains(home);
            for (name, known) in std::mem::take(&mut page.known) {
                let key = (home.namespace.clone(), name);
                let version = seen.get(&key).cloned();
                if fresh || version.as_ref() == Some(&known.version) {
                    page.known.insert(key.1.clone(), known);
                } else {
                    debug!(report = key.1, "A report{} is not as it was written", of(key.0.as_ref()));
                    page.touch(home, &key.1);
                    page.known.extend(version.map(|version| (key.1.clone(), Known { content: None, version })));
                    differ.push(home.clone());
                }
                ours.insert(key);
            }
        }
        if !differ.is_empty() {
            warn!(reports = differ.len(), "Reports were changed or deleted by others, and are written again");
        }
        let fresh: BTreeSet<Option<Arc<str>>> = self.written_since.iter().map(|home| home.namespace.clone()).collect();
        let unknown = seen.keys().filter(|key| !ours.contains(key) && !fresh.contains(&key.0));
        for (namespace, name) in unknown {
            if let Some(api) = self.api {
                self.leftovers.entry(namespace.clone()).or_default().insert((api, name.clone()));
            }
        }
        for home in &differ {
            self.changed(home, now);
        }
    }

    /// The kind of report is there no more. What was written is looked for when it is there again: a server that has
    /// just started may not know its own kinds.
    fn lost(&mut self, now: Instant) {
        if self.api.take().is_some() {
            self.next_look = now;
        }
    }

    fn sought(&mut self, found: Option<Api>, now: Instant) {
        let Some(api) = found.filter(|_| self.busy.is_empty()) else { return };
        info!(api = api.api_version(), "Reports are written from now on");
        let before = self.former_api.replace(api);
        (self.api, self.next_look) = (Some(api), now);
        if before != Some(api) {
            self.book.begin_anew();
            self.all_due(now);
        }
    }

    /// Says what is wrong, if anything is.
    fn say(&mut self) {
        let mut said = Said::default();
        let wanted: Vec<&str> = self.settings.choice.apis().iter().map(|api| api.api_version()).collect();
        let absent = || format!("no reports are written: the cluster does not serve {}", wanted.join(" or "));
        let mut why = "";
        match self.failing.first_key_value() {
            _ if self.api.is_none() && self.settings.choice == Choice::Auto => said.note = absent(),
            _ if self.api.is_none() => said.trouble = absent(),
            Some((home, failing)) => {
                let more = self.failing.len() - 1;
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                why = &failing.why;
                said.trouble = format!("reports{}{more} cannot be written: {why}", of(home.namespace.as_ref()));
            }
            None if !self.unread.is_empty() => said.trouble = format!("reports cannot be read: {}", self.unread),
            None => said.trouble.clone_from(&self.unswept),
        }
        // How many there are changes all the time; that is no news for the log.
        let news = if why.is_empty() { format!("{}{}", said.trouble, said.note) } else { why.to_owned() };
        if news != self.told && !news.is_empty() {
            if said.trouble.is_empty() { info!("{}", said.note) } else { warn!("{}", said.trouble) }
        }
        self.told = news;
        self.said.send_if_modified(|known| std::mem::replace(known, said.clone()) != said);
    }
}

fn of(namespace: Option<&Arc<str>>) -> String {
    namespace.map_or(" on cluster-scoped objects".to_owned(), |namespace| format!(" in namespace {namespace}"))
}
