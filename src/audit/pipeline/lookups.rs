//! Which objects have been read, so that rules can look them up; and what is not known of those that have not.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{InitialObjects, Pipeline};
use crate::{
    audit::gate::Gate,
    cluster::identity::is_exception,
    judge::reads::lookups::{KindLookup, LookupState, ReadState, UnknownGroup},
    model::{
        object::{Kind, ObjectKey},
        verdict::{Outcome, Verdict},
    },
    source::{
        change::WatchScope,
        selection::{KindRole, NOT_WITH_NAMESPACE, Selection},
    },
};

impl Pipeline {
    /// Has the inventory know which kinds have been read, if that may have changed.
    pub(super) fn look_after_lookups(&mut self) {
        if std::mem::take(&mut self.lookups_changed) {
            let state = self.lookup_state();
            self.inventory.set_lookups(state);
        }
    }

    /// Returns what has been read of all that the policies look up.
    fn lookup_state(&self) -> LookupState {
        let reads = self.policies.set.inventory_reads();
        if reads.is_empty() || self.settings.initial == InitialObjects::Stream {
            return LookupState::default();
        }
        // Of files all namespaces are read together, and only what is in those that are asked for is kept.
        let of_files =
            self.selection.as_ref().filter(|selection| selection.of_files && !selection.namespaces.is_empty());
        let own_namespaces: BTreeMap<Arc<str>, ReadState> = of_files
            .map(|selection| selection.namespaces.iter().map(|name| (name.as_str().into(), ReadState::Read)).collect())
            .unwrap_or_default();
        let mut kinds: BTreeMap<Arc<Kind>, KindLookup> = BTreeMap::new();
        for (scope, state) in self.gate.read_states().filter(|(scope, _)| reads.touches(&scope.kind)) {
            let state = self.awaited(state);
            // While an object is read in another version, it is known in the one before.
            let is_superseding = |other: &WatchScope| other != scope && other.is_version_of(scope);
            if state != ReadState::Read && self.gate.joined().any(is_superseding) {
                continue;
            }
            let elsewhere = ReadState::Unread(NOT_WITH_NAMESPACE.into());
            let known =
                kinds.entry(Arc::clone(&scope.kind)).or_insert_with(|| self.kind_lookup(&scope.kind, elsewhere));
            match &scope.namespace {
                Some(namespace) => drop(known.namespaces.insert(Arc::clone(namespace), state)),
                None if of_files.is_some() && scope.kind.namespaced => known.namespaces.clone_from(&own_namespaces),
                None => known.elsewhere = state,
            }
        }
        let beside = self.gate.beside_scopes().filter(|_| self.selection.is_some());
        // Documents without objects are no kind.
        let excluded = beside.iter().flat_map(|found| &found.excluded).map(|(kind, _)| kind);
        let excluded = excluded.filter(|kind| *kind.plural != *"*");
        for kind in excluded.filter(|kind| reads.touches(kind)) {
            let state = match self.role(kind) {
                KindRole::Evaluated if of_files.is_some() => ReadState::Unread(NOT_WITH_NAMESPACE.into()),
                // The source has not read it yet, as the policies are new to it.
                KindRole::Evaluated | KindRole::LookedUp => self.awaited(ReadState::Awaited),
                KindRole::Excluded(exclusion) => ReadState::Unread(exclusion.unread().into()),
            };
            let lookup = KindLookup { namespaces: own_namespaces.clone(), ..self.kind_lookup(kind, state) };
            kinds.entry(Arc::clone(kind)).or_insert(lookup);
        }
        let unserved = beside.iter().flat_map(|found| &found.unserved);
        let unknown =
            unserved.map(|group| UnknownGroup { group: group.group.clone(), why: "cannot be read: failed".into() });
        LookupState {
            kinds: kinds.into_values().map(Arc::new).collect(),
            unknown: unknown.collect(),
            provisional: !self.sources_ended && self.gate.is_provisional(),
            shard: self.settings.shard,
        }
    }

    /// Returns a state as it is once nothing more will be read.
    fn awaited(&self, state: ReadState) -> ReadState {
        let given_up = self.sources_ended && state == ReadState::Awaited;
        if given_up { ReadState::Unread("have not been read".into()) } else { state }
    }

    fn kind_lookup(&self, kind: &Arc<Kind>, elsewhere: ReadState) -> KindLookup {
        KindLookup {
            kind: Arc::clone(kind),
            namespaces: BTreeMap::new(),
            elsewhere,
            ranged: self.evaluates(kind) && !is_exception(kind),
        }
    }

    /// Returns what becomes of the objects of a kind under the policies in force.
    fn role(&self, kind: &Kind) -> KindRole {
        let policies = [&*self.policies.set];
        self.selection.as_ref().map_or(KindRole::Evaluated, |selection| selection.role_for(kind, &policies))
    }

    /// Whether objects of a kind are evaluated, and not only looked up.
    pub(super) fn evaluates(&self, kind: &Kind) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.evaluates(kind))
    }

    /// Turns violations that may be excused by exceptions which have not been read into errors.
    pub(super) fn withhold(&self, verdict: &mut Verdict) {
        let unread = verdict.key.namespace.as_ref().and_then(|namespace| self.gate.exceptions_unread(namespace));
        let Some(why) = unread.filter(|_| self.settings.initial != InitialObjects::Stream) else { return };
        for result in &mut verdict.results {
            if result.outcome.is_violation() && self.exceptions.may_be_excused(result) {
                let message = format!(
                    "{} (not known whether it is excused: PolicyExceptions cannot be read: {why})",
                    result.message
                );
                (result.outcome, result.message) = (Outcome::Error, message.into());
                verdict.undecided.push([&result.rule.policy, &result.rule.name].map(Arc::clone));
            }
        }
        verdict.transitions.retain(|found| !found.outcome.is_violation() || !self.exceptions.may_be_excused(found));
    }

    /// Evaluates again what could not be decided before exceptions had been read.
    pub(super) fn decide_withheld(&mut self, scope: &WatchScope) {
        let in_scope = |key: &ObjectKey| scope.namespace.is_none() || scope.namespace == key.namespace;
        let undecided = self.ledger.objects().filter(|(key, standing)| {
            in_scope(key) && standing.results.iter().any(|known| known.finding.outcome == Outcome::Error)
        });
        let keys: BTreeSet<ObjectKey> = undecided.map(|(key, _)| key.clone()).collect();
        self.judge_objects_again(keys);
    }
}

/// Whether a kind of a group is read, and only looked up.
pub(super) fn is_only_looked_up(gate: &Gate, selection: Option<&Selection>, group: &str, kind: &str) -> bool {
    let mut scopes = gate.joined().filter(|scope| scope.kind.is(group, kind));
    scopes.any(|scope| selection.is_some_and(|selection| !selection.evaluates(&scope.kind)))
}
