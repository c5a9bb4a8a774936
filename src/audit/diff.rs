//! Compares two results: which violations appear, change, are resolved, stay, and cannot be compared.
//!
//! A violation is the same on both sides if its [`Fingerprint`](super::fingerprint::Fingerprint) is, and between two audits the
//! numbers in its evidence as well. A violation that only one side lists appears or is resolved if the other side could have
//! found it ([`Reach`]). Each violation is in one class: those of the second side appear, change, stay or cannot be compared.
//!
//! New policies may word a message differently. If both sides evaluated the same objects, a result of a rule is taken for a
//! reworded one, as in the [ledger](super::ledger), if it has the details of one that would otherwise be resolved, or if as
//! many would appear as would be resolved. Between two audits the objects may have changed, so there another message is
//! another violation.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use serde::Serialize;

use super::{
    fingerprint::Fingerprint,
    pairing::{self, OtherValues},
    reach::Reach,
    result::{AuditResult, BaselineEntry, Entry, Summary},
};
use crate::{
    cluster::identity::API_VERSION,
    model::{
        coverage::Coverage,
        object::{Location, ObjectRef},
        verdict::{Outcome, Severity},
    },
    rego::Problem,
};

/// What two results have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// The objects: they were evaluated with two sets of policies.
    Policies,
    /// Perhaps nothing: they are two audits, of different times.
    Audits,
}

/// The differences of two results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditDiff {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// Always `AuditDiff`.
    pub kind: &'static str,
    /// Whether every new violation is listed: everything on the second side was evaluated, and could be compared.
    pub complete: bool,
    /// The first result.
    pub before: DiffedResult,
    /// The second.
    pub after: DiffedResult,
    /// How many violations are in each class.
    pub summary: Tally,
    /// Rules that are in force only on the second side; as `policy/rule`, sorted.
    pub added_rules: Vec<String>,
    /// The reverse.
    pub removed_rules: Vec<String>,
    /// By rule; those without a violation are left out.
    pub rules: Vec<RuleTally>,
    /// By namespace; the first may be that of objects of the cluster.
    pub namespaces: Vec<NamespaceTally>,
    /// Violations that are only on the second side. Like all lists in the order of the results.
    pub appears: Vec<Entry>,
    /// Violations with another result, another severity, or another message.
    pub changes: Vec<ChangedEntry>,
    /// Violations that are only on the first side; with the exception, if they are excused on the second.
    pub resolves: Vec<Entry>,
    /// Objects that a policy could not be evaluated for.
    pub errors: Vec<FailedEntry>,
    /// Violations of one side that the other could not have found.
    pub incomparable: Vec<OneSidedEntry>,
}

/// One of two results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiffedResult {
    /// As the user named it.
    pub name: String,
    /// Whether everything was evaluated.
    pub complete: bool,
    /// Counts.
    pub summary: Summary,
    /// Rules in force.
    pub rules: usize,
    /// Kinds and documents that were not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coverage: Vec<Coverage>,
    /// Why policy files were refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Problem>,
}

/// How many violations are in each class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say all")]
pub struct Tally {
    pub appears: usize,
    pub changes: usize,
    pub resolves: usize,
    pub stays: usize,
    pub incomparable: usize,
}

impl Tally {
    /// Whether anything differs.
    pub fn differs(&self) -> bool {
        self.appears + self.changes + self.resolves + self.incomparable > 0
    }
}

/// The violations of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleTally {
    /// Package without `data.`, or a Constraint's kind.
    pub policy: Arc<str>,
    /// Name of the rule's head, or of the Constraint.
    pub rule: Arc<str>,
    /// How many there are.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The violations in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamespaceTally {
    /// `None` for objects of the cluster.
    pub namespace: Option<Arc<str>>,
    /// How many there are.
    #[serde(flatten)]
    pub tally: Tally,
}

/// A violation that is on both sides and differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChangedEntry {
    /// The violation before.
    pub before: EarlierResult,
    /// The violation after.
    pub after: Entry,
}

/// What the two sides may differ in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "as in an entry")]
pub struct EarlierResult {
    pub id: Fingerprint,
    pub result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    pub message: Arc<str>,
}

/// One of two results, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say all")]
pub enum Side {
    Before,
    After,
    Both,
}

/// An object that a policy could not be evaluated for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedEntry {
    /// Where that was so.
    pub side: Side,
    /// What went wrong; if on both sides, that after.
    pub entry: Entry,
}

/// A violation of one side that the other could not have found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OneSidedEntry {
    /// Where it is.
    pub side: Side,
    /// Why the other could not have found it.
    pub reason: String,
    /// What it is.
    pub entry: Entry,
}

/// Compares two results, each with its name.
pub fn compare(
    (old, before): (&str, &AuditResult),
    (new, after): (&str, &AuditResult),
    compared: Compared,
) -> AuditDiff {
    let PairedEntries { mut pairs, old: mut gone, new: mut come } = same_ids(before, after, compared);
    if compared == Compared::Policies {
        reword(&mut gone, &mut come, &mut pairs);
    }
    // Results that an owner covers on either side are reported at the owner.
    let own = |entry: &Entry| entry.covered_by.is_none();
    pairs.retain(|(old, new)| own(old) && own(new));
    gone.retain(|entry| own(entry));
    come.retain(|entry| own(entry));
    let (same, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|(old, new)| is_same(old, new));
    let mut changes: Vec<ChangedEntry> = others.into_iter().map(|(old, new)| ChangedEntry::new(old, new)).collect();
    changes.sort_by(|a, b| a.after.order().cmp(&b.after.order()));
    let mut incomparable = Vec::new();
    let mut resolves = OtherSide::new(after, before, compared).keep_apart(gone, Side::Before, &mut incomparable);
    let appears = OtherSide::new(before, after, compared).keep_apart(come, Side::After, &mut incomparable);
    excuse(&mut resolves, after);
    let mut tallies = Tallies::default();
    tallies.add(same.into_iter().map(|(_, new)| new), |tally| &mut tally.stays);
    tallies.add(changes.iter().map(|changed| &changed.after), |tally| &mut tally.changes);
    tallies.add(&appears, |tally| &mut tally.appears);
    tallies.add(&resolves, |tally| &mut tally.resolves);
    tallies.add(incomparable.iter().map(|one| &one.entry), |tally| &mut tally.incomparable);
    let (old_rules, new_rules) = (rules(before), rules(after));
    AuditDiff {
        api_version: API_VERSION,
        kind: "AuditDiff",
        complete: after.complete && incomparable.is_empty(),
        before: DiffedResult::new(old, before),
        after: DiffedResult::new(new, after),
        summary: tallies.whole,
        added_rules: new_rules.difference(&old_rules).cloned().collect(),
        removed_rules: old_rules.difference(&new_rules).cloned().collect(),
        rules: tallies.by_rule(),
        namespaces: tallies.by_namespace(),
        appears,
        changes,
        resolves,
        errors: errors(before, after),
        incomparable,
    }
}

impl ChangedEntry {
    fn new(old: &Entry, new: &Entry) -> Self {
        let Entry { id, result, severity, message, .. } = old;
        let before = EarlierResult { id: *id, result: *result, severity: *severity, message: Arc::clone(message) };
        Self { before, after: new.clone() }
    }
}

impl DiffedResult {
    fn new(name: &str, result: &AuditResult) -> Self {
        Self {
            name: name.to_owned(),
            complete: result.complete,
            summary: result.summary,
            rules: result.policies.iter().map(|policy| policy.rules.len()).sum(),
            coverage: result.coverage.iter().filter(|kind| kind.is_gap()).cloned().collect(),
            refused: result.refused.clone(),
        }
    }
}

/// What one side could have found of the violations that only the other lists.
struct OtherSide<'r> {
    reach: Reach<'r>,
    result: &'r AuditResult,
    compared: Compared,
    /// Why nothing can be compared: one side checked a cluster, the other manifests.
    elsewhere: Option<String>,
}

impl<'r> OtherSide<'r> {
    fn new(result: &'r AuditResult, other: &AuditResult, compared: Compared) -> Self {
        let source = |result: &AuditResult| result.scope.as_ref().map(|scope| scope.source);
        let elsewhere = source(result).filter(|own| source(other).is_some_and(|other| other != *own));
        let elsewhere = elsewhere.map(|own| format!("only {own} was checked"));
        Self { reach: Reach::of(result), result, compared, elsewhere }
    }

    /// Returns the violations that it could have found; adds the others, which are on this side, to those `apart`.
    fn keep_apart(&self, entries: Vec<&Entry>, side: Side, apart: &mut Vec<OneSidedEntry>) -> Vec<Entry> {
        let mut sure = Vec::new();
        for entry in entries {
            match self.misses(entry) {
                Some(reason) => apart.push(OneSidedEntry { side, reason, entry: entry.clone() }),
                None => sure.push(entry.clone()),
            }
        }
        sure
    }

    /// Returns why it could not have found a violation.
    fn misses(&self, entry: &Entry) -> Option<String> {
        if self.elsewhere.is_some() {
            return self.elsewhere.clone();
        }
        let entry = BaselineEntry::from(entry);
        // Results of a rule that only one set has are a difference, unless the rule's file is refused in the other set.
        let of_policies = self.compared == Compared::Policies && self.result.refused.is_empty();
        if of_policies && !self.reach.has_rule(&entry.policy, &entry.rule) {
            return None;
        }
        self.reach.misses(&entry)
    }
}

/// Violations that are the same, and those that are on one side only, in their order.
struct PairedEntries<'r> {
    pairs: Vec<(&'r Entry, &'r Entry)>,
    old: Vec<&'r Entry>,
    new: Vec<&'r Entry>,
}

fn violations(result: &AuditResult) -> impl Iterator<Item = &Entry> {
    result.results.iter().filter(|entry| entry.result.is_violation())
}

/// Pairs violations by their ids; of several of one id those that are most alike.
fn same_ids<'r>(before: &'r AuditResult, after: &'r AuditResult, compared: Compared) -> PairedEntries<'r> {
    let others = match compared {
        Compared::Policies => OtherValues::Same,
        Compared::Audits => OtherValues::New,
    };
    let mut ids: BTreeMap<Fingerprint, [Vec<&Entry>; 2]> = BTreeMap::new();
    for (side, result) in [before, after].into_iter().enumerate() {
        for entry in violations(result) {
            ids.entry(entry.id).or_default()[side].push(entry);
        }
    }
    let mut matching = PairedEntries { pairs: Vec::new(), old: Vec::new(), new: Vec::new() };
    for sides in ids.values() {
        let [old, new] = sides.each_ref().map(|side| side.iter().map(|entry| entry.distinction()).collect::<Vec<_>>());
        let found = pairing::pairs(&old, &new, others);
        let paired: [HashSet<usize>; 2] =
            [found.iter().map(|pair| pair.0).collect(), found.iter().map(|pair| pair.1).collect()];
        let left = |side: usize| {
            (0..sides[side].len()).filter(|at| !paired[side].contains(at)).map(|at| sides[side][at]).collect::<Vec<_>>()
        };
        matching.pairs.extend(found.iter().map(|(old, new)| (sides[0][*old], sides[1][*new])));
        matching.old.extend(left(0));
        matching.new.extend(left(1));
    }
    let by_order = |entries: &mut Vec<&Entry>| entries.sort_by(|a, b| a.order().cmp(&b.order()));
    by_order(&mut matching.old);
    by_order(&mut matching.new);
    matching
}

/// The results of one rule for one object, among which reworded ones are paired.
type DiffSubject<'r> = (&'r str, &'r str, &'r ObjectRef, Option<&'r Location>);

fn subject(entry: &Entry) -> DiffSubject<'_> {
    (&entry.policy, &entry.rule, &entry.resource, entry.location.as_ref())
}

/// Pairs reworded results, and removes them from both lists.
fn reword<'r>(old: &mut Vec<&'r Entry>, new: &mut Vec<&'r Entry>, pairs: &mut Vec<(&'r Entry, &'r Entry)>) {
    pair(old, new, pairs, |old, new| !old.details.is_empty() && old.details == new.details);
    let mut counts: BTreeMap<DiffSubject<'_>, (usize, usize)> = BTreeMap::new();
    for entry in &*old {
        counts.entry(subject(entry)).or_default().0 += 1;
    }
    for entry in &*new {
        counts.entry(subject(entry)).or_default().1 += 1;
    }
    pair(old, new, pairs, |old, _| counts.get(&subject(old)).is_some_and(|(ended, begun)| ended == begun));
}

/// Pairs results of one rule for one object, the first with the first, if `may` returns true.
fn pair<'r>(
    old: &mut Vec<&'r Entry>,
    new: &mut Vec<&'r Entry>,
    pairs: &mut Vec<(&'r Entry, &'r Entry)>,
    may: impl Fn(&Entry, &Entry) -> bool,
) {
    let mut open: BTreeMap<DiffSubject<'r>, Vec<&'r Entry>> = BTreeMap::new();
    for entry in new.drain(..) {
        open.entry(subject(entry)).or_default().push(entry);
    }
    old.retain(|entry| {
        let Some(candidates) = open.get_mut(&subject(entry)) else { return true };
        let Some(place) = candidates.iter().position(|candidate| may(entry, candidate)) else { return true };
        pairs.push((entry, candidates.remove(place)));
        false
    });
    new.extend(open.into_values().flatten());
    new.sort_by(|a, b| a.order().cmp(&b.order()));
}

/// Whether a violation is the same in all that is compared; numbers in its message are no difference.
fn is_same(old: &Entry, new: &Entry) -> bool {
    (old.id, old.result, old.severity) == (new.id, new.result, new.severity)
}

/// Notes what excuses violations that are skipped now.
fn excuse(resolves: &mut [Entry], after: &AuditResult) {
    let skipped = after.results.iter().filter(|entry| entry.result == Outcome::Skip);
    let skipped: HashMap<Fingerprint, &Entry> = skipped.map(|entry| (entry.id, entry)).collect();
    for entry in resolves {
        entry.excuse = skipped.get(&entry.id).and_then(|skipped| skipped.excuse.clone());
    }
}

fn rules(result: &AuditResult) -> BTreeSet<String> {
    let policies = result.policies.iter();
    policies.flat_map(|policy| policy.rules.iter().map(|rule| format!("{}/{rule}", policy.name))).collect()
}

/// Returns the objects that policies failed on: those after, then those that were only before.
fn errors(before: &AuditResult, after: &AuditResult) -> Vec<FailedEntry> {
    let failed = |result: &AuditResult| -> Vec<Entry> {
        result.results.iter().filter(|entry| entry.result == Outcome::Error).cloned().collect()
    };
    let (old, new) = (failed(before), failed(after));
    let [old_subjects, new_subjects] = [&old, &new].map(|failed| failed.iter().map(subject).collect::<BTreeSet<_>>());
    let side = |entry: &Entry| if old_subjects.contains(&subject(entry)) { Side::Both } else { Side::After };
    let mut failed: Vec<_> = new.iter().map(|entry| FailedEntry { side: side(entry), entry: entry.clone() }).collect();
    let gone = old.iter().filter(|entry| !new_subjects.contains(&subject(entry)));
    failed.extend(gone.map(|entry| FailedEntry { side: Side::Before, entry: entry.clone() }));
    failed
}

/// Counts while violations are put into classes.
#[derive(Default)]
struct Tallies {
    whole: Tally,
    rules: BTreeMap<(Arc<str>, Arc<str>), Tally>,
    namespaces: BTreeMap<Option<Arc<str>>, Tally>,
}

impl Tallies {
    fn add<'e>(&mut self, entries: impl IntoIterator<Item = &'e Entry>, class: fn(&mut Tally) -> &mut usize) {
        for entry in entries {
            let rule = (Arc::clone(&entry.policy), Arc::clone(&entry.rule));
            *class(&mut self.whole) += 1;
            *class(self.rules.entry(rule).or_default()) += 1;
            *class(self.namespaces.entry(entry.resource.namespace.clone()).or_default()) += 1;
        }
    }

    fn by_rule(&self) -> Vec<RuleTally> {
        let rule = |((policy, rule), tally): (&(Arc<str>, Arc<str>), &Tally)| RuleTally {
            policy: Arc::clone(policy),
            rule: Arc::clone(rule),
            tally: *tally,
        };
        self.rules.iter().map(rule).collect()
    }

    fn by_namespace(&self) -> Vec<NamespaceTally> {
        let namespace = |(namespace, tally): (&Option<Arc<str>>, &Tally)| NamespaceTally {
            namespace: namespace.clone(),
            tally: *tally,
        };
        self.namespaces.iter().map(namespace).collect()
    }
}

#[cfg(test)]
mod tests;
