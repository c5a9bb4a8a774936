//! All results by report, and what of them the server has.
//!
//! Pure: it says what is to be written and deleted, others do it. Invariant: a report is deleted only when all results
//! that were in it are in others, or gone. Whatever is interrupted leaves results twice, never missing.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    model::{Api, Form, Layout, Subject, content, is_listed},
    shards::{Entry, Prefix, Shards},
};
use crate::audit::ledger::Violation;

/// Reports written in one go; what is more follows.
const WRITES_AT_ONCE: usize = 8;

/// Where results belong together: a namespace, or one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Home {
    pub(super) namespace: Option<Arc<str>>,
    /// Name of the report on all of it; parts have their bits behind it.
    base: Arc<str>,
}

impl Home {
    pub(super) fn of(form: &Form, subject: &Subject) -> Self {
        let base = match form.layout {
            Layout::Namespace => form.instance.name().into(),
            Layout::Resource => subject.report_name().into(),
        };
        Self { namespace: subject.namespace.clone(), base }
    }

    /// Returns what comes before all homes of a namespace.
    pub(super) fn before(namespace: Option<&Arc<str>>) -> Self {
        Self { namespace: namespace.cloned(), base: "".into() }
    }

    fn name(&self, prefix: Prefix) -> String {
        let bits = prefix.to_string();
        if bits.is_empty() { self.base.to_string() } else { format!("{}-{bits}", self.base) }
    }

    /// Returns the part of a report that a name stands for, if it is one of ours.
    pub(super) fn prefix(&self, name: &str) -> Option<Prefix> {
        let rest = name.strip_prefix(&*self.base)?;
        if rest.is_empty() { Some(Prefix::default()) } else { Prefix::parse(rest.strip_prefix('-')?) }
    }
}

/// What the server has of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// A digest of it; `None` if it is not as we wrote it.
    pub(super) content: Option<[u8; 16]>,
    /// Its `resourceVersion`.
    pub(super) version: String,
}

/// The results of a home and the reports on them.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) shards: Shards,
    /// By name.
    pub(super) known: BTreeMap<String, Known>,
}

/// What brings the server up to date about a home.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) home: Home,
    pub(super) writes: Vec<Write>,
    /// Names of reports that are to go once everything is written.
    pub(super) deletes: Vec<String>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deletes.is_empty()
    }
}

/// A report to be written.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) prefix: Prefix,
    pub(super) name: String,
    pub(super) report: Value,
    pub(super) content: [u8; 16],
}

impl Page {
    /// Returns what is to be done next; the shards in it count as written from now on.
    pub(super) fn plan(&mut self, home: &Home, form: &Form, api: Api) -> Plan {
        let mut plan = Plan { home: home.clone(), writes: Vec::new(), deletes: Vec::new() };
        for (prefix, shard) in self.shards.iter_mut().filter(|(_, shard)| shard.dirty) {
            if plan.writes.len() == WRITES_AT_ONCE {
                return plan;
            }
            shard.dirty = false;
            if shard.is_empty() {
                continue;
            }
            let name = home.name(prefix);
            let report = form.report(api, &name, shard.results());
            let content = content(&report);
            if self.known.get(&name).and_then(|known| known.content) != Some(content) {
                plan.writes.push(Write { prefix, name, report, content });
            }
        }
        let needed: Vec<String> =
            self.shards.iter().filter(|(_, shard)| !shard.is_empty()).map(|(prefix, _)| home.name(prefix)).collect();
        plan.deletes = self.known.keys().filter(|name| !needed.contains(name)).cloned().collect();
        plan
    }

    /// Notes that a report must be looked at again.
    pub(super) fn touch(&mut self, home: &Home, name: &str) {
        if let Some(shard) = home.prefix(name).and_then(|prefix| self.shards.get_mut(prefix)) {
            shard.dirty = true;
        }
    }

    fn is_blank(&self) -> bool {
        self.known.is_empty() && self.shards.is_empty()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) form: Form,
    pub(super) pages: BTreeMap<Home, Page>,
}

impl Book {
    pub(super) fn new(form: Form) -> Self {
        Self { form, pages: BTreeMap::new() }
    }

    /// Puts results in the place of all that were known of an object; returns the home if a report of it changes.
    pub(super) fn set(&mut self, subject: Subject, results: &[Violation]) -> Option<Home> {
        let home = Home::of(&self.form, &subject);
        let subject = Arc::new(subject);
        let listed = results.iter().filter(|violation| is_listed(violation));
        let entries: Vec<Entry> = listed.map(|violation| self.entry(&subject, violation.clone())).collect();
        let changed = if entries.is_empty() {
            self.pages.get_mut(&home)?.shards.set(&subject, entries)
        } else {
            self.pages.entry(home.clone()).or_default().shards.set(&subject, entries)
        };
        changed.then_some(home)
    }

    /// Adds a result that was found in a report.
    pub(super) fn add(&mut self, subject: &Arc<Subject>, violation: Violation) {
        let home = Home::of(&self.form, subject);
        let entry = self.entry(subject, violation);
        self.pages.entry(home).or_default().shards.add(entry);
    }

    fn entry(&self, subject: &Arc<Subject>, violation: Violation) -> Entry {
        let bytes = self.form.result(subject, &violation).to_string().len() + 1;
        Entry { subject: Arc::clone(subject), violation, bytes }
    }

    /// Notes that the server has nothing of all this.
    pub(super) fn begin_anew(&mut self) {
        for page in self.pages.values_mut() {
            page.known.clear();
            page.shards.iter_mut().for_each(|(_, shard)| shard.dirty = true);
        }
        self.pages.retain(|_, page| !page.is_blank());
    }

    /// Forgets a home of which there is nothing left.
    pub(super) fn tidy(&mut self, home: &Home) {
        if self.pages.get(home).is_some_and(Page::is_blank) {
            self.pages.remove(home);
        }
    }
}

#[cfg(test)]
mod tests;
