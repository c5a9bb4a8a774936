//! The results that a query selects, counted: every number, block and link of a view is made from them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    prepared::Page,
    query::{PageQuery, place, place_name},
};
use crate::{
    audit::{
        exceptions::ExceptionSummary,
        result::{About, Ended, Entry},
    },
    model::{
        object::ObjectRef,
        rule_counts::RuleCounts,
        verdict::{Outcome, Severity, rule_id},
    },
    output::{names::urgency, rules::RuleCatalog},
};

/// The results of a page that a query selects.
pub(super) struct PageSelection<'p> {
    pub(super) page: &'p Page,
    pub(super) query: &'p PageQuery,
    /// Whether it is shown in a file, which has all results and no server.
    pub(super) is_file: bool,
    /// The results, the most severe first.
    pub(super) entries: Vec<&'p Entry>,
    /// When the period of the changes begins: a day ago, if the query names no other time.
    pub(super) since: Timestamp,
    /// The violations first seen within the period of the changes, the newest first.
    pub(super) new: Vec<&'p Entry>,
    /// The violations resolved within that period, the newest first.
    pub(super) ended: Vec<&'p Ended>,
}

impl<'p> PageSelection<'p> {
    pub(super) fn new(page: &'p Page, query: &'p PageQuery) -> Self {
        let mut is_selected = query.filter(page);
        let entries: Vec<&Entry> = page.result.results.iter().filter(|entry| is_selected(entry)).collect();
        let since = query.since(page).unwrap_or_else(|| page.a_day_ago());
        let is_new = |entry: &&&Entry| {
            entry.result.is_violation() && !entry.is_handed_over && entry.since.is_some_and(|first| first >= since)
        };
        let mut new: Vec<_> = entries.iter().filter(is_new).copied().collect();
        new.sort_by_key(|entry| std::cmp::Reverse(entry.since));
        // The time of a resolved violation is that of its end.
        let without_since = PageQuery { since: None, ..query.clone() };
        let mut is_selected = without_since.filter(page);
        let ended = page.result.ended.iter().filter(|ended| ended.at >= since && is_selected(&ended.entry)).collect();
        drop(is_selected);
        Self { page, query, is_file: false, entries, since, new, ended }
    }

    /// Returns the selected violations.
    pub(super) fn violations(&self) -> impl Iterator<Item = &'p Entry> {
        self.entries.iter().copied().filter(|entry| entry.result.is_violation())
    }

    /// Returns the number of results with an outcome.
    pub(super) fn outcomes(&self, outcome: Outcome) -> usize {
        self.entries.iter().filter(|entry| entry.result == outcome).count()
    }

    /// Returns the number of objects with violations or errors.
    pub(super) fn failing_objects(&self) -> usize {
        let is_counted = |entry: &&&Entry| entry.result != Outcome::Skip;
        self.entries.iter().filter(is_counted).map(|entry| &*entry.resource).collect::<BTreeSet<_>>().len()
    }

    /// Returns the number of checked objects in the selected namespaces; `None` if other filters are in force, or if it is not
    /// known.
    pub(super) fn checked_objects(&self) -> Option<usize> {
        let result = &self.page.result;
        match self.query.filters()[..] {
            [] => Some(result.summary.objects),
            [("namespace", name)] => result
                .namespaces
                .iter()
                .find_map(|(namespace, objects)| (place_name(namespace.as_deref()) == name).then_some(*objects)),
            _ => None,
        }
    }

    /// Returns the exceptions of the selected namespaces, those that need attention first.
    pub(super) fn exceptions(&self) -> Vec<&'p ExceptionSummary> {
        let PageQuery { namespace, team, .. } = self.query;
        let is_selected = |exception: &&ExceptionSummary| {
            let own = exception.namespace();
            namespace.as_deref().is_none_or(|wanted| own == Some(wanted))
                && team.as_deref().is_none_or(|team| own.and_then(|own| self.page.team_of(own)) == Some(team))
        };
        let mut exceptions: Vec<_> = self.page.result.exceptions.iter().filter(is_selected).collect();
        exceptions.sort_by_key(|exception| (!exception.needs_attention(), exception.expires_at, &exception.name));
        exceptions
    }

    /// Returns a row for each namespace with results or changes, the most severe first.
    pub(super) fn namespaces(&self) -> Vec<NamespaceRow<'p>> {
        let mut rows: BTreeMap<&str, NamespaceRow<'p>> = BTreeMap::new();
        let mut row = |entry: &'p Entry, change: fn(&mut NamespaceRow<'p>, &'p Entry)| {
            let empty = NamespaceRow::new(place(entry), self.page.team(entry));
            change(rows.entry(empty.place).or_insert(empty), entry);
        };
        for entry in &self.entries {
            row(entry, |row, entry| {
                row.counts.add(entry);
                row.excused += usize::from(entry.result == Outcome::Skip);
            });
        }
        for entry in &self.new {
            row(entry, |row, _| row.new += 1);
        }
        for ended in &self.ended {
            row(&ended.entry, |row, _| row.resolved += 1);
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort_by(|a, b| (&b.counts, a.place).cmp(&(&a.counts, b.place)));
        rows
    }

    /// Returns a row for each rule that has results, and for the other selected rules unless filters select objects, the
    /// most severe and most frequent first.
    pub(super) fn rules(&self) -> Vec<RuleRow<'p>> {
        let mut rows: BTreeMap<(&str, &str), RuleRow<'p>> = BTreeMap::new();
        let catalog = RuleCatalog::of(&self.page.result);
        if self.query.selects_rules_only() {
            let takes_rule = self.query.takes_rule(self.page);
            for (policy, rule, about) in self.page.rules() {
                if takes_rule(policy, rule, about.id.as_deref()) {
                    let row = RuleRow::new(policy, rule, Some(about));
                    rows.entry((policy, rule)).or_insert(row).total = catalog.objects(policy, rule);
                }
            }
        }
        let mut objects: BTreeMap<(&str, &str), BTreeSet<&ObjectRef>> = BTreeMap::new();
        for entry in &self.entries {
            let key = (&*entry.policy, &*entry.rule);
            let row = rows.entry(key).or_insert_with(|| RuleRow::new(key.0, key.1, catalog.about(key.0, key.1)));
            row.first.get_or_insert(entry);
            match entry.result {
                Outcome::Skip => row.excused += 1,
                Outcome::Error => row.errors += 1,
                Outcome::Fail | Outcome::Warn => {
                    objects.entry(key).or_default().insert(&entry.resource);
                }
            }
        }
        for (key, objects) in objects {
            if let Some(row) = rows.get_mut(&key) {
                row.failing = objects.len();
            }
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        let order = |row: &RuleRow<'p>| {
            (row.failing == 0, row.severity().is_none(), row.severity(), std::cmp::Reverse(row.failing))
        };
        rows.sort_by(|a, b| (order(a), a.policy, a.rule).cmp(&(order(b), b.policy, b.rule)));
        rows
    }
}

/// Numbers of violations by severity. More of a severity is more than any number of less severe ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeverityCounts([usize; Severity::INDICES]);

impl SeverityCounts {
    /// Takes the numbers in the order of [`Severity::ALL`], and that of violations without a severity.
    pub(super) fn new(counts: [usize; Severity::INDICES]) -> Self {
        Self(counts)
    }

    /// Returns those that at least one of several counts.
    pub(super) fn occurring<'c>(counts: impl IntoIterator<Item = &'c Self>) -> Vec<Option<Severity>> {
        let mut sums = Self::default();
        for counts in counts {
            sums.0.iter_mut().zip(counts.0).for_each(|(sum, count)| *sum += count);
        }
        sums.iter().filter(|(_, sum)| *sum > 0).map(|(known, _)| known).collect()
    }

    pub(super) fn of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Self {
        let mut counts = Self::default();
        entries.into_iter().for_each(|entry| counts.add(entry));
        counts
    }

    /// Counts an entry if it is a violation.
    fn add(&mut self, entry: &Entry) {
        if entry.result.is_violation() {
            self.0[Severity::index(entry.severity)] += 1;
        }
    }

    /// Returns each severity with its number, and `None` for violations without one.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<Severity>, usize)> {
        Severity::ALL.into_iter().map(Some).chain([None]).zip(self.0.iter().copied())
    }

    pub(super) fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

/// The results in one namespace.
pub(super) struct NamespaceRow<'p> {
    /// The namespace, or `-` for cluster-scoped objects.
    pub(super) place: &'p str,
    pub(super) team: Option<&'p str>,
    pub(super) counts: SeverityCounts,
    pub(super) excused: usize,
    pub(super) new: usize,
    pub(super) resolved: usize,
}

impl<'p> NamespaceRow<'p> {
    fn new(place: &'p str, team: Option<&'p str>) -> Self {
        Self { place, team, counts: SeverityCounts::default(), excused: 0, new: 0, resolved: 0 }
    }
}

/// The results of one rule.
pub(super) struct RuleRow<'p> {
    pub(super) policy: &'p str,
    pub(super) rule: &'p str,
    pub(super) about: Option<&'p About>,
    /// Its most severe result.
    pub(super) first: Option<&'p Entry>,
    /// The number of objects with violations.
    pub(super) failing: usize,
    /// The number of excused results.
    pub(super) excused: usize,
    /// The number of results `error`.
    pub(super) errors: usize,
    /// The counts in the whole scope of the audit, if all its objects are selected and they are known.
    pub(super) total: Option<RuleCounts>,
}

impl<'p> RuleRow<'p> {
    fn new(policy: &'p str, rule: &'p str, about: Option<&'p About>) -> Self {
        Self { policy, rule, about, first: None, failing: 0, excused: 0, errors: 0, total: None }
    }

    /// Returns the severity of its most severe result, or that of the rule.
    pub(super) fn severity(&self) -> Option<Severity> {
        let of_result = self.first.filter(|first| first.result.is_violation()).and_then(|first| first.severity);
        of_result.or(self.about.and_then(|about| about.severity))
    }

    /// Returns its id, or `POLICY/RULE`.
    pub(super) fn id(&self) -> String {
        rule_id(self.policy, self.rule, self.about.and_then(|about| about.id.as_deref()))
    }

    /// Returns its title, or the name of the rule.
    pub(super) fn title(&self) -> &'p str {
        self.about.and_then(|about| about.title.as_deref()).unwrap_or(self.rule)
    }
}

/// New or resolved violations that belong together: those of one rule in one namespace, or a single one.
pub(super) struct ChangeGroup<'p> {
    /// The newest time.
    pub(super) at: Option<Timestamp>,
    /// The violations, the newest first.
    pub(super) entries: Vec<&'p Entry>,
    /// Whether they were resolved.
    pub(super) resolved: bool,
}

/// What the violations of a group have in common: whether they were resolved, the namespace, the policy and the rule.
type ChangeKey<'p> = (bool, &'p str, &'p str, &'p str);

/// More violations than this of one rule in one namespace become a group.
const SINGLE: usize = 5;

impl<'p> PageSelection<'p> {
    /// Returns the new and the resolved violations, the newest first.
    pub(super) fn changes(&self) -> Vec<ChangeGroup<'p>> {
        let new = self.new.iter().map(|entry| (entry.since, *entry, false));
        let ended = self.ended.iter().map(|ended| (Some(ended.at), &ended.entry, true));
        let mut groups: BTreeMap<ChangeKey<'_>, Vec<(Option<Timestamp>, &Entry)>> = BTreeMap::new();
        for (at, entry, resolved) in new.chain(ended) {
            let key = (resolved, place(entry), &*entry.policy, &*entry.rule);
            groups.entry(key).or_default().push((at, entry));
        }
        let mut changes = Vec::new();
        for ((resolved, ..), entries) in groups {
            if entries.len() > SINGLE {
                let at = entries.iter().filter_map(|(at, _)| *at).max();
                changes.push(ChangeGroup {
                    at,
                    entries: entries.into_iter().map(|(_, entry)| entry).collect(),
                    resolved,
                });
            } else {
                let single = |(at, entry)| ChangeGroup { at, entries: vec![entry], resolved };
                changes.extend(entries.into_iter().map(single));
            }
        }
        changes.sort_by_key(|change| {
            let first = change.entries.first().map(|entry| (urgency(entry), entry.order()));
            (std::cmp::Reverse(change.at), first)
        });
        changes
    }
}
