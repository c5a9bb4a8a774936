//! One result of several clusters that were checked against the same policies.

use std::{collections::BTreeMap, ops::AddAssign, sync::Arc};

use super::result::{AuditResult, Entry, Summary};
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
        let mut parts = checked.into_iter().map(|(name, mut result)| {
            result.name_cluster(&name);
            result
        });
        let mut merged = parts.next()?;
        for part in parts {
            merged.add(part);
        }
        for (name, why) in unchecked {
            merged.complete = false;
            merged.coverage.push(Coverage::unread(String::new(), String::new(), format!("{name}: {why}")));
        }
        merged.coverage.sort_by(|a, b| a.order().cmp(&b.order()));
        merged.sort();
        Some(merged)
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
        for (policy, others) in self.policies.iter_mut().zip(other.policies) {
            for (rule, counts) in others.objects {
                *policy.objects.entry(rule).or_default() += counts;
            }
        }
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
