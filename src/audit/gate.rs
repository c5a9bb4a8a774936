//! The gate, which holds evaluation back until the initial sync is complete, and the coverage of each kind.
//!
//! In: the state of each watch scope, from the sources. Out: whether an object may be evaluated, and the coverage. Invariant:
//! an object is never evaluated before the gate is open and its own scope has delivered one whole list.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use crate::{
    cluster::identity::is_exception,
    judge::reads::lookups::ReadState,
    model::{
        coverage::{Coverage, State},
        object::{Kind, ObjectKey},
    },
    source::change::{Discovered, Unreadable, Unserved, WatchScope},
};

/// The longest time that the list of one kind may keep those of others waiting.
const LONGEST_TURN: Duration = Duration::from_secs(30);
/// The most unreadable objects of a scope that are kept by name; the others are counted.
const MOST_SKIPPED: usize = 1_000;
/// The most of them that messages name.
const MOST_NAMED: usize = 20;

#[derive(Debug)]
struct ScopeState {
    state: State,
    message: String,
    /// It has delivered a whole list at least once.
    joined: bool,
    /// When its first list began or delivered an unknown object last; `None` while the list waits for others.
    progress: Option<Instant>,
    /// When its source sent anything last.
    heard: Timestamp,
    /// Objects that could not be read, with the reason.
    skipped: BTreeMap<String, String>,
    /// How often there were more than [`MOST_SKIPPED`] of them.
    more_skipped: usize,
}

impl ScopeState {
    /// Whether every object of the scope could be read.
    fn has_all(&self) -> bool {
        self.skipped.is_empty() && self.more_skipped == 0
    }

    /// Returns why the scope is not complete, with the names of the first objects that could not be read.
    fn messages(&self) -> Vec<String> {
        let whole = Some(&self.message).filter(|text| !text.is_empty()).cloned();
        let named = self.skipped.iter().take(MOST_NAMED).map(|(name, why)| format!("{name} could not be read: {why}"));
        let others = self.skipped.len().saturating_sub(MOST_NAMED) + self.more_skipped;
        let others = (others > 0).then(|| format!("{others} others could not be read"));
        whole.into_iter().chain(named).chain(others).collect()
    }
}

/// The gate and the coverage of every scope.
#[derive(Debug)]
pub struct Gate {
    scopes: BTreeMap<WatchScope, ScopeState>,
    discovered: Option<Discovered>,
    open: bool,
    sync_timeout: Duration,
    /// When any scope appeared or made progress last: those that wait for their turn wait for the others.
    progress: Option<Instant>,
}

impl Gate {
    /// Makes a shut gate; a scope whose first list makes no progress for `sync_timeout` is given up on (and joins later).
    pub fn new(sync_timeout: Duration) -> Self {
        Self { scopes: BTreeMap::new(), discovered: None, open: false, sync_timeout, progress: None }
    }

    /// Expects a scope from now on.
    pub fn appeared(&mut self, scope: WatchScope, now: Instant) {
        self.progress = Some(now);
        self.scopes.entry(scope).or_insert(ScopeState {
            state: State::Syncing,
            message: String::new(),
            joined: false,
            progress: None,
            heard: Timestamp::now(),
            skipped: BTreeMap::new(),
            more_skipped: 0,
        });
    }

    /// No longer expects a scope.
    pub fn vanished(&mut self, scope: &WatchScope) {
        self.scopes.remove(scope);
    }

    /// Takes the outcome of a pass of discovery. The gate stays shut until the first one.
    pub fn discovered(&mut self, discovered: Discovered) {
        self.discovered = Some(discovered);
    }

    /// Notes that a new list of `scope` begins: objects that cannot be read will be reported again.
    pub fn listing(&mut self, scope: &WatchScope, now: Instant) {
        let Some(known) = self.scopes.get_mut(scope) else { return };
        known.skipped.clear();
        known.more_skipped = 0;
        // A list that begins again is no progress: it may fail each time.
        if known.progress.is_none() {
            self.progressed(scope, now);
        }
    }

    /// Notes that the list of `scope` delivers an object that was not known.
    pub fn progressed(&mut self, scope: &WatchScope, now: Instant) {
        if let Some(known) = self.scopes.get_mut(scope).filter(|known| known.state == State::Syncing) {
            known.progress = Some(now);
            self.progress = Some(now);
        }
    }

    /// Notes that the source of `scope` sent something, if only that nothing changed.
    pub fn heard(&mut self, scope: &WatchScope, at: Timestamp) {
        if let Some(known) = self.scopes.get_mut(scope) {
            known.heard = at;
        }
    }

    /// Returns when the watch of each synced kind, given as group and plural, last sent anything; of several scopes, the one
    /// that has been silent for longest.
    pub fn activity(&self) -> impl Iterator<Item = (&str, &str, Timestamp)> {
        let mut kinds: BTreeMap<(&str, &str), Timestamp> = BTreeMap::new();
        for (scope, known) in self.scopes.iter().filter(|(_, known)| known.state == State::Synced) {
            let at = kinds.entry((&scope.kind.group, &scope.kind.plural)).or_insert(known.heard);
            *at = known.heard.min(*at);
        }
        kinds.into_iter().map(|((group, resource), at)| (group, resource, at))
    }

    /// Notes that the list of `scope` is complete. Returns whether it is the first.
    pub fn synced(&mut self, scope: &WatchScope) -> bool {
        let Some(known) = self.scopes.get_mut(scope) else { return false };
        (known.state, known.message) = (State::Synced, String::new());
        !std::mem::replace(&mut known.joined, true)
    }

    /// Notes that `scope` cannot be read for now; its objects stay. Returns whether the state changed.
    pub fn unreadable(&mut self, scope: &WatchScope, why: Unreadable) -> bool {
        let Some(known) = self.scopes.get_mut(scope) else { return false };
        known.message = why.message;
        std::mem::replace(&mut known.state, why.state) != why.state
    }

    /// Notes an object that cannot be read. Returns whether it is one of the first that are new.
    pub fn skipped(&mut self, scope: &WatchScope, name: &str, why: &str) -> bool {
        let Some(known) = self.scopes.get_mut(scope) else { return false };
        if known.skipped.len() >= MOST_SKIPPED && !known.skipped.contains_key(name) {
            known.more_skipped += 1;
            return false;
        }
        known.skipped.insert(name.to_owned(), why.to_owned()).is_none() && known.skipped.len() <= MOST_NAMED
    }

    /// Notes that an object could be read.
    pub fn readable(&mut self, scope: &WatchScope, key: &ObjectKey) {
        if let Some(known) = self.scopes.get_mut(scope).filter(|known| !known.skipped.is_empty()) {
            known.skipped.remove(&key.path());
        }
    }

    /// Gives up on scopes that make no progress, and opens the gate when every scope is synced or given up on. Returns whether
    /// it opened just now.
    pub fn try_open(&mut self, now: Instant) -> bool {
        for known in self.scopes.values_mut() {
            // A list that waits for others is not at fault: theirs are given up on if they make no progress.
            let (progress, limit) = match known.progress {
                Some(progress) => (Some(progress), self.sync_timeout),
                None => (self.progress, self.sync_timeout.max(LONGEST_TURN)),
            };
            let late = progress.is_some_and(|progress| now.duration_since(progress) >= limit);
            if known.state == State::Syncing && late {
                known.state = State::TimedOut;
                known.message = format!("the first list made no progress for {:?}", self.sync_timeout);
            }
        }
        let ready = self.discovered.is_some() && self.scopes.values().all(|known| known.state != State::Syncing);
        ready && !std::mem::replace(&mut self.open, true)
    }

    /// Whether evaluation has begun.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether objects of `scope` may be evaluated.
    pub fn lets_through(&self, scope: &WatchScope) -> bool {
        self.open && self.scopes.get(scope).is_some_and(|known| known.joined)
    }

    /// Returns all scopes.
    pub fn scopes(&self) -> impl Iterator<Item = &WatchScope> {
        self.scopes.keys()
    }

    /// Returns the scopes whose objects may be evaluated.
    pub fn joined(&self) -> impl Iterator<Item = &WatchScope> {
        self.scopes.iter().filter(|(_, known)| known.joined).map(|(scope, _)| scope)
    }

    /// Returns for each scope whether its objects can be looked up.
    pub fn read_states(&self) -> impl Iterator<Item = (&WatchScope, ReadState)> {
        self.scopes.iter().map(|(scope, known)| {
            let state = match known.state {
                _ if known.joined => ReadState::Read,
                State::Syncing => ReadState::Awaited,
                other => ReadState::Unread(format!("cannot be read: {}", reason(other)).into()),
            };
            (scope, state)
        })
    }

    /// Whether exceptions may exist although discovery lacks their kind.
    pub fn may_lack_exceptions(&self) -> bool {
        self.discovered.as_ref().is_some_and(|discovered| discovered.may_lack_exceptions)
    }

    /// Returns why the exceptions in a namespace are not known: their kind is served, or may be, and has not been read yet.
    pub fn exceptions_unread(&self, namespace: &str) -> Option<&'static str> {
        if self.may_lack_exceptions() {
            return Some(reason(State::Syncing));
        }
        let covers = |scope: &WatchScope| scope.namespace.as_ref().is_none_or(|own| **own == *namespace);
        let mut unread =
            self.scopes.iter().filter(|(scope, known)| is_exception(&scope.kind) && covers(scope) && !known.joined);
        let others =
            |known: &WatchScope| self.scopes.iter().any(|(scope, state)| state.joined && scope.is_version_of(known));
        unread.find(|(scope, _)| !others(scope)).map(|(_, known)| reason(known.state))
    }

    /// Returns what the last pass of discovery found in addition to the scopes.
    pub fn beside_scopes(&self) -> Option<&Discovered> {
        self.discovered.as_ref()
    }

    /// Whether a kind is in scope, or may be once the server of its group answers.
    pub fn expects(&self, group: &str, kind: &str) -> bool {
        let unserved = self.discovered.iter().flat_map(|discovered| &discovered.unserved);
        self.scopes.keys().any(|scope| scope.kind.is(group, kind))
            || unserved.into_iter().any(|down| down.group == group)
    }

    /// Whether a kind that is not expected may still appear, because discovery has not confirmed yet that it is not served.
    pub fn is_provisional(&self) -> bool {
        self.discovered.as_ref().is_none_or(|discovered| discovered.provisional)
    }

    /// Whether kinds of which violations are recorded may only be missing for a while.
    pub fn may_lack_former_kinds(&self) -> bool {
        self.discovered.as_ref().is_none_or(|discovered| discovered.provisional || discovered.may_lack_former_kinds)
    }

    /// Returns how many scopes are synced or given up on, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        (self.scopes.values().filter(|known| known.state != State::Syncing).count(), self.scopes.len())
    }

    /// Returns the scopes that the gate waits for.
    pub fn waiting_for(&self) -> impl Iterator<Item = &WatchScope> {
        self.scopes.iter().filter(|(_, known)| known.state == State::Syncing).map(|(scope, _)| scope)
    }

    /// Whether everything in scope is known, but for kinds that may not be read and are not needed.
    pub fn is_complete(&self, is_needed: impl Fn(&Kind) -> bool) -> bool {
        let is_known = |(scope, known): (&WatchScope, &ScopeState)| match known.state {
            State::Synced => known.has_all(),
            State::Forbidden => !is_needed(&scope.kind),
            _ => false,
        };
        self.discovered.as_ref().is_some_and(|discovered| discovered.unserved.is_empty())
            && self.scopes.iter().all(is_known)
    }

    /// Returns the coverage by kind; `objects` returns how many objects a scope holds, and how many of them are inactive.
    pub fn coverage(&self, objects: impl Fn(&WatchScope) -> (usize, usize)) -> Vec<Coverage> {
        let mut kinds: BTreeMap<&Kind, Coverage> = BTreeMap::new();
        for (scope, known) in &self.scopes {
            let entry = kinds.entry(&scope.kind).or_insert_with(|| coverage(&scope.kind, State::Synced, String::new()));
            let (objects, inactive) = objects(scope);
            entry.objects += objects;
            entry.inactive += inactive;
            // A kind is covered as far as the worst of its namespaces.
            entry.state = entry.state.max(known.state);
            let place = scope.namespace.as_ref().map_or(String::new(), |namespace| format!("namespace {namespace}: "));
            for message in known.messages() {
                let separator = if entry.message.is_empty() { "" } else { "; " };
                entry.message.extend([separator, &place, &message]);
            }
        }
        let mut all: Vec<Coverage> = kinds.into_values().collect();
        if let Some(discovered) = &self.discovered {
            all.extend(discovered.excluded.iter().map(|(kind, why)| coverage(kind, State::Excluded, why.clone())));
            let unread =
                |group: &Unserved| Coverage::unread(group.group.clone(), group.version.clone(), group.message.clone());
            all.extend(discovered.unserved.iter().map(unread));
        }
        all.sort_by(|a, b| a.order().cmp(&b.order()));
        all
    }
}

/// Returns why a kind cannot be read, in a text that is the same for each attempt.
fn reason(state: State) -> &'static str {
    match state {
        State::Synced | State::Syncing => "not read yet",
        State::TimedOut => "timed out",
        State::Excluded | State::Failed => "failed",
        State::Forbidden => "forbidden",
    }
}

fn coverage(kind: &Kind, state: State, message: String) -> Coverage {
    Coverage {
        group: kind.group.clone(),
        version: kind.version.clone(),
        kind: kind.kind.clone(),
        resource: kind.plural.clone(),
        state,
        objects: 0,
        inactive: 0,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::change::Unserved;

    fn scope(plural: &str, namespace: Option<&str>) -> WatchScope {
        let kind = Kind::sample("", plural, plural);
        WatchScope { kind, namespace: namespace.map(Into::into) }
    }

    fn forbidden() -> Unreadable {
        Unreadable { state: State::Forbidden, message: "no".into() }
    }

    #[test]
    fn opens_once_when_every_scope_is_synced_or_given_up_on() {
        let (mut gate, now) = (Gate::new(Duration::from_mins(1)), Instant::now());
        assert!(!gate.try_open(now), "nothing was discovered yet");
        for plural in ["pods", "secrets", "nodes"] {
            gate.appeared(scope(plural, None), now);
        }
        gate.discovered(Discovered::default());
        assert!(gate.synced(&scope("pods", None)));
        gate.unreadable(&scope("secrets", None), forbidden());
        assert!(!gate.try_open(now) && !gate.lets_through(&scope("pods", None)));
        assert!(gate.try_open(now + Duration::from_mins(1)));
        assert!(!gate.try_open(now + Duration::from_secs(61)), "it opens once");
        assert!(gate.lets_through(&scope("pods", None)));
        assert!(!gate.lets_through(&scope("secrets", None)) && !gate.lets_through(&scope("nodes", None)));
        let states: Vec<_> = gate.coverage(|_| (1, 0)).iter().map(|kind| (kind.resource.clone(), kind.state)).collect();
        assert_eq!(
            states,
            [("nodes".into(), State::TimedOut), ("pods".into(), State::Synced), ("secrets".into(), State::Forbidden)]
        );
        assert!(!gate.is_complete(|_| true));
    }

    #[test]
    fn scopes_given_up_on_join_when_they_answer_and_stay_when_they_fail_later() {
        let (mut gate, now) = (Gate::new(Duration::from_mins(1)), Instant::now());
        gate.appeared(scope("secrets", None), now);
        gate.discovered(Discovered::default());
        gate.unreadable(&scope("secrets", None), forbidden());
        assert!(gate.try_open(now));
        assert!(gate.synced(&scope("secrets", None)), "the first whole list");
        assert!(gate.lets_through(&scope("secrets", None)) && gate.is_complete(|_| true));
        gate.unreadable(&scope("secrets", None), forbidden());
        assert!(gate.lets_through(&scope("secrets", None)), "old verdicts stay and late changes are judged");
        assert!(!gate.is_complete(|_| true));
        assert!(!gate.synced(&scope("secrets", None)), "not for the first time");
    }

    #[test]
    fn a_list_may_take_as_long_as_it_makes_progress() {
        let (mut gate, begin) = (Gate::new(Duration::from_mins(1)), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        for plural in ["pods", "secrets"] {
            gate.appeared(scope(plural, None), begin);
        }
        gate.discovered(Discovered::default());
        gate.listing(&scope("pods", None), after(50));
        for seconds in (60..300).step_by(50) {
            gate.progressed(&scope("pods", None), after(seconds));
            assert!(!gate.try_open(after(seconds + 40)), "neither the one that lists nor the one that waits for it");
        }
        gate.synced(&scope("pods", None));
        gate.listing(&scope("secrets", None), after(301));
        assert!(!gate.try_open(after(360)) && gate.try_open(after(361)), "{:?}", gate.coverage(|_| (0, 0)));
    }

    #[test]
    fn a_list_that_begins_again_is_no_progress() {
        let (mut gate, begin) = (Gate::new(Duration::from_mins(1)), Instant::now());
        gate.appeared(scope("pods", None), begin);
        gate.discovered(Discovered::default());
        for seconds in (0..60).step_by(7) {
            gate.listing(&scope("pods", None), begin + Duration::from_secs(seconds));
            assert!(!gate.try_open(begin + Duration::from_secs(seconds)));
        }
        assert!(gate.try_open(begin + Duration::from_mins(1)));
    }

    #[test]
    fn a_kind_is_given_up_on_only_after_its_list_was_requested() {
        let (mut gate, begin) = (Gate::new(Duration::from_secs(5)), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        for plural in ["pods", "secrets"] {
            gate.appeared(scope(plural, None), begin);
        }
        gate.discovered(Discovered::default());
        gate.listing(&scope("pods", None), after(0));
        assert!(!gate.try_open(after(15)), "secrets wait for their turn");
        let states: Vec<_> = gate.coverage(|_| (0, 0)).iter().map(|kind| kind.state).collect();
        assert_eq!(states, [State::TimedOut, State::Syncing]);
        gate.listing(&scope("secrets", None), after(15));
        gate.synced(&scope("secrets", None));
        assert!(gate.try_open(after(16)));
    }

    #[test]
    fn a_kind_is_as_good_as_its_worst_namespace() {
        let (mut gate, now) = (Gate::new(Duration::from_mins(1)), Instant::now());
        for namespace in ["a", "b"] {
            gate.appeared(scope("pods", Some(namespace)), now);
        }
        gate.discovered(Discovered::default());
        gate.synced(&scope("pods", Some("a")));
        gate.unreadable(&scope("pods", Some("b")), forbidden());
        let coverage = gate.coverage(|_| (2, 0));
        assert_eq!(coverage.len(), 1);
        assert_eq!((coverage[0].objects, coverage[0].state), (4, State::Forbidden));
        assert_eq!(coverage[0].message, "namespace b: no");
    }

    #[test]
    fn a_kind_is_as_active_as_its_most_silent_namespace() {
        let (mut gate, now) = (Gate::new(Duration::from_mins(1)), Instant::now());
        let at = |second| Timestamp::from_second(second).unwrap();
        for (namespace, second) in [("a", 7), ("b", 5), ("c", 3)] {
            gate.appeared(scope("pods", Some(namespace)), now);
            gate.heard(&scope("pods", Some(namespace)), at(second));
        }
        assert_eq!(gate.activity().count(), 0, "nothing is synced");
        gate.synced(&scope("pods", Some("a")));
        gate.synced(&scope("pods", Some("b")));
        assert_eq!(gate.activity().collect::<Vec<_>>(), [("", "pods", at(5))]);
        gate.heard(&scope("pods", Some("b")), at(9));
        assert_eq!(gate.activity().collect::<Vec<_>>(), [("", "pods", at(7))]);
    }

    #[test]
    fn unreadable_objects_are_counted_and_the_first_are_named() {
        let mut gate = Gate::new(Duration::from_mins(1));
        let pods = scope("pods", None);
        gate.appeared(pods.clone(), Instant::now());
        gate.synced(&pods);
        for number in 0..2_000 {
            let is_new = gate.skipped(&pods, &format!("n/p{number:04}"), "it has no room");
            assert_eq!(is_new, number < MOST_NAMED);
        }
        let message = &gate.coverage(|_| (0, 0))[0].message;
        assert!(message.starts_with("n/p0000 could not be read: it has no room; "), "{message}");
        assert!(message.ends_with("; 1980 others could not be read") && message.len() < 2_000, "{message}");
        gate.listing(&pods, Instant::now());
        assert_eq!(gate.coverage(|_| (0, 0))[0].message, "");
    }

    #[test]
    fn an_unreadable_object_or_group_is_not_complete() {
        let (mut gate, now) = (Gate::new(Duration::from_mins(1)), Instant::now());
        gate.appeared(scope("pods", None), now);
        gate.synced(&scope("pods", None));
        gate.discovered(Discovered::default());
        gate.skipped(&scope("pods", None), "n/a", "expected a string");
        assert!(!gate.is_complete(|_| true));
        let key = ObjectKey { kind: scope("pods", None).kind, namespace: Some("n".into()), name: "a".into(), copy: 0 };
        gate.readable(&scope("pods", None), &key);
        assert!(gate.is_complete(|_| true), "it was mended");
        gate.skipped(&scope("pods", None), "n/a", "expected a string");
        gate.listing(&scope("pods", None), now);
        assert!(gate.is_complete(|_| true), "a new list will say");
        let unserved =
            vec![Unserved { group: "metrics.example.com".into(), version: "v1".into(), message: "down".into() }];
        gate.discovered(Discovered { unserved, ..Discovered::default() });
        assert!(!gate.is_complete(|_| true));
        assert_eq!(gate.coverage(|_| (0, 0)).last().map(|group| group.kind.clone()), Some("*".into()));
    }
}
