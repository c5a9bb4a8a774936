//! One result of several clusters that were checked against the same policies.

use std::{collections::BTreeMap, ops::AddAssign, sync::Arc};

use super::result::{AuditResult, Entry, PolicySummary, Summary};
use crate::model::{
    coverage::{Coverage, State},
    object::{ObjectRef, place},
};

impl AuditResult {
    /// Joins the results of clusters, each with the name of its cluster. Those that could not be checked come with the reason,
    /// and make the result incomplete. Returns `None` if no cluster could be checked.
    pub fn merged(
        checked: Vec<(Arc<str>, Self)>,
        unchecked: impl IntoIterator<Item = (Arc<str>, String)>,
    ) -> Option<Self> {
        let parts = checked.into_iter().map(|(name, mut result)| {
            result.name_cluster(&name);
            result
        });
        let mut merged = Self::joined(parts)?;
        for (name, why) in unchecked {
            merged.complete = false;
            merged.coverage.push(Coverage::unread(String::new(), String::new(), format!("{name}: {why}")));
        }
        merged.coverage.sort_by(|a, b| a.order().cmp(&b.order()));
        merged.policies.sort_by(|a, b| a.name.cmp(&b.name));
        merged.sort();
        Some(merged)
    }

    /// Joins the results of the shards of one cluster, or of clusters that are named. Returns `None` if there are none. Neither
    /// results nor coverage are sorted.
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let mut joined = parts.next()?;
        for part in parts {
            joined.add(part);
        }
        Some(joined)
    }

    /// Adds the name of the cluster to everything in the result.
    fn name_cluster(&mut self, name: &Arc<str>) {
        // Results of one object go on to share it.
        let mut known: BTreeMap<Arc<ObjectRef>, Arc<ObjectRef>> = BTreeMap::new();
        let mut named = |object: &mut Arc<ObjectRef>| {
            let named = known
                .entry(Arc::clone(object))
                .or_insert_with(|| Arc::new(ObjectRef { cluster: Some(Arc::clone(name)), ..ObjectRef::clone(object) }));
            *object = Arc::clone(named);
        };
        for Entry { resource, owner, covered_by, .. } in &mut self.results {
            [Some(resource), owner.as_mut(), covered_by.as_mut()].into_iter().flatten().for_each(&mut named);
        }
        let namespaces = std::mem::take(&mut self.namespaces).into_iter();
        self.namespaces =
            namespaces.map(|(namespace, objects)| (Some(place(name, namespace.as_deref())), objects)).collect();
        let teams = std::mem::take(&mut self.teams).into_iter();
        self.teams = teams.map(|(namespace, team)| (place(name, Some(&*namespace)), team)).collect();
        for exception in self.exceptions.iter_mut().filter(|exception| exception.location.is_none()) {
            exception.name = format!("{name}: {}", exception.name);
        }
        // What was left out on purpose was left out everywhere.
        for kind in self.coverage.iter_mut().filter(|kind| !matches!(kind.state, State::Synced | State::Excluded)) {
            kind.message = format!("{} (cluster {name})", kind.message);
        }
    }

    fn add(&mut self, other: Self) {
        self.complete &= other.complete;
        self.summary += other.summary;
        for kind in other.coverage {
            let is_same = |known: &&mut Coverage| {
                (&known.group, &known.version, &known.resource) == (&kind.group, &kind.version, &kind.resource)
                    && (known.state, &known.message) == (kind.state, &kind.message)
            };
            match self.coverage.iter_mut().find(is_same) {
                Some(known) => {
                    known.objects += kind.objects;
                    known.inactive += kind.inactive;
                }
                None => self.coverage.push(kind),
            }
        }
        for other in other.policies {
            // Several sources may have a policy of one name.
            let is_same = |known: &&mut PolicySummary| (&known.name, &known.source) == (&other.name, &other.source);
            match self.policies.iter_mut().find(is_same) {
                Some(known) => {
                    for (rule, counts) in other.objects {
                        *known.objects.entry(rule).or_default() += counts;
                    }
                }
                None => self.policies.push(other),
            }
        }
        self.teams.extend(other.teams);
        self.ended.extend(other.ended);
        for exception in other.exceptions {
            match self.exceptions.iter_mut().find(|known| known.location.is_some() && known.name == exception.name) {
                Some(known) => known.results += exception.results,
                None => self.exceptions.push(exception),
            }
        }
        self.results.extend(other.results);
        self.namespaces.extend(other.namespaces);
    }
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.pass += other.pass;
        self.fail += other.fail;
        self.warn += other.warn;
        self.error += other.error;
        self.skip += other.skip;
        self.covered += other.covered;
    }
}
