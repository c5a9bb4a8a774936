//! Which kinds have been read, so that rules can look their objects up; and what is not known of the others.

use std::{collections::BTreeMap, sync::Arc};

use super::WatchedObjects;
use crate::{
    cluster::identity::is_exception,
    judge::{
        reads::lookups::{KindLookup, LookupState, ReadState, UnknownGroup},
        set::PolicySet,
    },
    model::object::Kind,
    source::{
        change::WatchScope,
        selection::{KindRole, NOT_WITH_NAMESPACE},
    },
};

impl WatchedObjects {
    /// Returns which of the kinds that the policies look up have been read.
    pub(in crate::audit) fn lookup_state(&self, policies: &PolicySet) -> LookupState {
        let reads = policies.inventory_reads();
        if reads.is_empty() || self.are_streamed() {
            return LookupState::default();
        }
        if let Some(cluster) = &self.cluster {
            // All manifests are read before the first evaluation.
            return cluster.lookup_state(policies);
        }
        // In files all namespaces are read together, and only objects in the selected ones are kept.
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
        // The entry for documents without objects is not a kind.
        let excluded = beside.iter().flat_map(|found| &found.excluded).map(|(kind, _)| kind);
        let excluded = excluded.filter(|kind| *kind.plural != *"*");
        for kind in excluded.filter(|kind| reads.touches(kind)) {
            let state = match self.role(kind, policies) {
                KindRole::Evaluated if of_files.is_some() => ReadState::Unread(NOT_WITH_NAMESPACE.into()),
                // The source has not read it yet, because the policies are new.
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
            lacks_namespaces: self.selection.as_ref().is_some_and(|found| found.of_files && found.placement.is_none()),
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

    /// Returns what is done with the objects of a kind under these policies.
    fn role(&self, kind: &Kind, policies: &PolicySet) -> KindRole {
        self.selection.as_ref().map_or(KindRole::Evaluated, |selection| selection.role_for(kind, &[policies]))
    }
}
