//! What of the cluster, or of the files, is checked.

use std::{collections::BTreeMap, sync::Arc};

use super::WatchedObjects;
use crate::{
    cluster::identity::is_exception,
    model::{
        coverage::{Coverage, FOR_LOOKUPS, State, UNNEEDED},
        object::{Kind, Object},
    },
    source::selection::Selection,
};

impl WatchedObjects {
    /// Returns what is covered of each kind. `are_withheld` returns whether violations wait for exceptions to be read,
    /// which are otherwise not needed; it is called only if they cannot be read.
    pub(in crate::audit) fn coverage(&self, are_withheld: impl Fn() -> bool) -> Vec<Coverage> {
        let inactive = |scope: &_| if self.settings.judge_inactive { 0 } else { self.cache.inactive(scope) };
        let mut all = self.gate.coverage(|scope| (self.cache.len(scope), inactive(scope)));
        for scope in self.gate.scopes().filter(|scope| !self.needs(&scope.kind)) {
            let kind = &scope.kind;
            let is_forbidden = |one: &&mut Coverage| {
                one.state == State::Forbidden && one.group == kind.group && one.resource == kind.plural
            };
            let is_needed = || is_exception(kind) && are_withheld();
            if let Some(unneeded) = all.iter_mut().find(is_forbidden).filter(|_| !is_needed()) {
                unneeded.state = State::Excluded;
                unneeded.message = format!("{UNNEEDED}{}", unneeded.message);
            }
        }
        for scope in self.gate.joined().filter(|scope| !self.evaluates(&scope.kind)) {
            let kind = &scope.kind;
            let is_kind = |one: &&mut Coverage| one.group == kind.group && one.resource == kind.plural;
            if let Some(read) = all.iter_mut().find(is_kind).filter(|read| !read.is_gap()) {
                (read.state, read.objects) = (State::Excluded, 0);
                read.message =
                    format!("not evaluated, {}; read for policies that look it up", Selection::left_out(kind));
            }
        }
        all.extend(self.cluster.iter().flat_map(|cluster| cluster.coverage_of_lookups()));
        all.sort_by(|a, b| a.order().cmp(&b.order()));
        all
    }

    /// Returns the kinds that could not be read for lookups; their objects do not count.
    fn coverage_of_lookups(&self) -> impl Iterator<Item = Coverage> {
        let gaps = self.coverage(|| false).into_iter().filter(|kind| kind.is_gap() || kind.is_unneeded());
        gaps.map(|gap| {
            let message = if gap.is_gap() { format!("{FOR_LOOKUPS}{}", gap.message) } else { gap.message };
            Coverage { objects: 0, inactive: 0, message, ..gap }
        })
    }

    /// Whether the audit is incomplete if a kind may not be read. Where nothing may be read, everything is needed.
    fn needs(&self, kind: &Kind) -> bool {
        self.gate.joined().next().is_none() || self.selection.as_ref().is_none_or(|selection| selection.needs(kind))
    }

    /// Returns where no object was found at all, if that is so: nothing is checked there, which is not clean. Of a shard
    /// others may have the objects.
    pub(in crate::audit) fn nothing_found(&self) -> Option<String> {
        if !self.gate.is_open() || !self.settings.shard.is_whole() {
            return None;
        }
        let namespaces = self.objects_by_namespace();
        let empty: Vec<&str> =
            namespaces.iter().filter(|(_, objects)| **objects == 0).map(|(namespace, _)| &**namespace).collect();
        if !empty.is_empty() {
            let them = if empty.len() == 1 { "namespace" } else { "namespaces" };
            return Some(format!("no object was found in {them} {}", empty.join(", ")));
        }
        // Exceptions are read for themselves, whatever is in scope.
        let mut joined = self.gate.joined().filter(|scope| !is_exception(&scope.kind));
        let nothing = joined.all(|scope| self.cache.len(scope) == 0);
        (nothing && namespaces.is_empty()).then(|| "no object was found".to_owned())
    }

    /// Returns the patterns of namespaces that are excluded.
    pub(in crate::audit) fn excluded_namespaces(&self) -> Vec<String> {
        let globs = self.selection.iter().flat_map(|selection| &selection.excluded_namespaces);
        globs.map(ToString::to_string).collect()
    }

    /// Returns how many objects are in each namespace that is read on its own.
    fn objects_by_namespace(&self) -> BTreeMap<Arc<str>, usize> {
        let mut namespaces = BTreeMap::new();
        for scope in self.gate.scopes() {
            if let Some(namespace) = &scope.namespace {
                *namespaces.entry(Arc::clone(namespace)).or_default() += self.cache.len(scope);
            }
        }
        namespaces
    }

    /// Returns the namespaces that are read on their own with the number of their objects, and all others that are known.
    pub(in crate::audit) fn checked_namespaces(&self) -> BTreeMap<Option<Arc<str>>, usize> {
        let own = self.objects_by_namespace().into_iter();
        let mut namespaces: BTreeMap<_, _> = own.map(|(name, objects)| (Some(name), objects)).collect();
        for scope in self.gate.scopes().filter(|scope| scope.namespace.is_none()) {
            let of_objects = self.cache.namespaces(scope).map(Option::<&Arc<str>>::cloned);
            let is_namespace = scope.kind.is("", "Namespace");
            let named = self.cache.keys(scope).filter(|_| is_namespace).map(|key| Some(key.name));
            for namespace in of_objects.chain(named) {
                *namespaces.entry(namespace).or_default() += 1;
            }
        }
        let excludes = |name: &str| self.selection.as_ref().is_some_and(|selection| selection.excludes_namespace(name));
        namespaces.retain(|name, _| !name.as_deref().is_some_and(excludes));
        namespaces
    }

    /// Returns the team of each Namespace that names one by its label.
    pub(in crate::audit) fn teams(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let Some(label) = &self.settings.team_label else { return BTreeMap::new() };
        let scopes = self.gate.scopes().filter(|scope| scope.kind.is("", "Namespace"));
        let namespaces = scopes.flat_map(|scope| self.cache.keys(scope)).filter_map(|key| self.cache.object(&key));
        let team = |namespace: Object| {
            let team = namespace.body.labels().remove(&**label).filter(|team| !team.is_empty())?;
            Some((namespace.key.name, team.into()))
        };
        namespaces.filter_map(team).collect()
    }

    /// Whether every kind that is needed could be read, with at least one object.
    pub(in crate::audit) fn are_complete(&self) -> bool {
        let has_read = |objects: &Self| objects.gate.is_complete(|kind| objects.needs(kind));
        let has_lookups = self.cluster.as_ref().is_none_or(|cluster| has_read(cluster));
        has_read(self) && has_lookups && self.nothing_found().is_none()
    }
}
