//! One result of several clusters that were checked against the same policies.

use std::{collections::BTreeMap, sync::Arc};

use super::result::{AuditResult, Entry, Summary};
use crate::model::{
    coverage::{Coverage, State},
    object::ObjectRef,
};

impl AuditResult {
    /// Joins the results of clusters, each with its name, and what is known of those that could not be checked, with the
    /// reason; `None` if no cluster could be checked.
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
            merged.coverage.push(Coverage {
                group: String::new(),
                version: String::new(),
                kind: "*".into(),
                resource: "*".into(),
                state: State::Failed,
                objects: 0,
                inactive: 0,
                message: format!("{name}: {why}"),
            });
        }
        merged.coverage.sort_by(|a, b| (&a.group, &a.resource, &a.version).cmp(&(&b.group, &b.resource, &b.version)));
        merged.sort();
        Some(merged)
    }

    /// Has everything in it say which cluster it is about.
    fn name_cluster(&mut self, name: &Arc<str>) {
        let named = |object: &Arc<ObjectRef>| {
            Arc::new(ObjectRef { cluster: Some(Arc::clone(name)), ..ObjectRef::clone(object) })
        };
        // Results of one object share it.
        let mut last: Option<(Arc<ObjectRef>, Arc<ObjectRef>)> = None;
        for Entry { resource, owner, covered_by, .. } in &mut self.results {
            let known = last.take().filter(|(from, _)| Arc::ptr_eq(from, resource));
            let (from, to) = known.unwrap_or_else(|| (Arc::clone(resource), named(resource)));
            *resource = Arc::clone(&to);
            last = Some((from, to));
            for other in [owner, covered_by] {
                *other = other.as_ref().map(named);
            }
        }
        let namespaces = std::mem::take(&mut self.namespaces).into_iter();
        self.namespaces = namespaces.map(|(namespace, objects)| (place(name, namespace.as_deref()), objects)).collect();
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
        self.summary = sum(self.summary, other.summary);
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
                policy.objects.entry(rule).or_default().add(counts);
            }
        }
        for exception in other.exceptions {
            match self.exceptions.iter_mut().find(|known| known.location.is_some() && known.name == exception.name) {
                Some(known) => known.results += exception.results,
                None => self.exceptions.push(exception),
            }
        }
        self.results.extend(other.results);
        let mut namespaces: BTreeMap<_, usize> = std::mem::take(&mut self.namespaces);
        for (namespace, objects) in other.namespaces {
            *namespaces.entry(namespace).or_default() += objects;
        }
        self.namespaces = namespaces;
    }
}

/// Returns a namespace with its cluster, as people read it.
fn place(cluster: &str, namespace: Option<&str>) -> Option<Arc<str>> {
    let object =
        ObjectRef { cluster: Some(cluster.into()), namespace: namespace.map(Arc::from), ..ObjectRef::default() };
    object.place()
}

fn sum(a: Summary, b: Summary) -> Summary {
    Summary {
        objects: a.objects + b.objects,
        pass: a.pass + b.pass,
        fail: a.fail + b.fail,
        warn: a.warn + b.warn,
        error: a.error + b.error,
        skip: a.skip + b.skip,
        covered: a.covered + b.covered,
    }
}
