//! Finds the results that a baseline lists: a pure function of both.
//!
//! Results are matched by id, by the numbers in their evidence, and by count: as many are known as the baseline lists.
//! Dependents of one owner share their ids, and there may be any number of them, so each of them is compared with all
//! entries of the baseline.
//!
//! A policy with a new wording changes the ids of all its results. If the policies have changed and none of a rule's
//! results has a listed id, its results are matched by rule and object, and again by count.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{
    audit::{
        fingerprint::Fingerprint,
        pairing::{self, OtherValues},
        result::{BaselineEntry, Entry},
    },
    model::verdict::Outcome,
};

/// How a baseline is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BaselineComparison {
    /// Whether it lists each violation; otherwise it has an entry for each id, which matches any number of violations.
    pub(super) counts: bool,
    /// Whether it was made with other policies.
    pub(super) other_policies: bool,
}

/// The matches of results and the entries of a baseline, by index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Matched {
    /// Violations that are listed.
    pub(super) known: BTreeSet<usize>,
    /// Entries without a result.
    pub(super) unmatched: BTreeSet<usize>,
    /// Entries whose violation has another message now, with its result.
    pub(super) reworded: BTreeMap<usize, usize>,
}

impl BaselineComparison {
    /// Matches the entries of a baseline with results.
    pub(super) fn matched(self, entries: &[BaselineEntry], results: &[Entry]) -> Matched {
        let mut listed: HashMap<Fingerprint, Vec<usize>> = HashMap::new();
        for (position, entry) in entries.iter().enumerate() {
            listed.entry(entry.id).or_default().push(position);
        }
        let mut matched = Matched { unmatched: (0..entries.len()).collect(), ..Matched::default() };
        for (id, group) in groups(results) {
            let Some(listed) = listed.get(&id) else { continue };
            let pairs = if self.counts {
                let old: Vec<_> = listed.iter().map(|position| entries[*position].distinction()).collect();
                let new: Vec<_> = group.iter().map(|position| without_name(&results[*position])).collect();
                pairing::pairs(&old, &new, OtherValues::New)
            } else {
                (0..group.len()).map(|new| (0, new)).collect()
            };
            for (old, new) in pairs {
                matched.unmatched.remove(&listed[old]);
                if results[group[new]].result.is_violation() {
                    matched.known.insert(group[new]);
                }
            }
        }
        if self.other_policies {
            self.reword(entries, results, &mut matched);
        }
        matched
    }

    /// Matches the remaining results of rules whose messages have all changed.
    fn reword(self, entries: &[BaselineEntry], results: &[Entry], matched: &mut Matched) {
        let unmatched = &matched.unmatched;
        let as_before: HashSet<(&str, &str)> = (0..entries.len())
            .filter(|position| !unmatched.contains(position))
            .map(|position| (&*entries[position].policy, &*entries[position].rule))
            .collect();
        let mut old: BTreeMap<EntrySubject, Vec<usize>> = BTreeMap::new();
        for position in unmatched.iter().filter(|position| {
            let entry = &entries[**position];
            !as_before.contains(&(&*entry.policy, &*entry.rule))
        }) {
            old.entry(subject(&entries[*position])).or_default().push(*position);
        }
        // By object, since dependents of one owner are one subject.
        let mut new: BTreeMap<(EntrySubject, String), Vec<usize>> = BTreeMap::new();
        for (position, entry) in results.iter().enumerate() {
            if entry.result.is_violation() && !matched.known.contains(&position) {
                let object = (subject(&BaselineEntry::from(entry)), object(entry));
                new.entry(object).or_default().push(position);
            }
        }
        for ((subject, _), results_left) in new {
            let Some(entries_left) = old.get(&subject) else { continue };
            let mut ids: Vec<Fingerprint> = Vec::new();
            for position in results_left {
                let id = results[position].id;
                // An entry that matches any number of results with its id matches any number with the new id, too.
                let index = if self.counts {
                    ids.len()
                } else {
                    ids.iter().position(|known| *known == id).unwrap_or(ids.len())
                };
                let Some(entry) = entries_left.get(index) else { break };
                ids.push(id);
                matched.known.insert(position);
                matched.unmatched.remove(entry);
                matched.reworded.entry(*entry).or_insert(position);
            }
        }
    }
}

/// Policy, rule, kind and name.
type EntrySubject = (String, String, String, String);

fn subject(entry: &BaselineEntry) -> EntrySubject {
    let BaselineEntry { policy, rule, kind, name, .. } = entry;
    (policy.clone(), rule.clone(), kind.clone(), name.clone())
}

fn object(entry: &Entry) -> String {
    // Objects without an owner differ by their names, whatever files they are in.
    entry.owner.as_ref().map_or(String::new(), |_| entry.resource.identity())
}

fn without_name(entry: &Entry) -> pairing::Distinction<'_> {
    pairing::Distinction { name: "", ..entry.distinction() }
}

/// Groups the indexes of results that are compared with the entries of an id: those of one object or of objects without
/// an owner. Excused results are included, since they are not fixed.
fn groups(results: &[Entry]) -> impl Iterator<Item = (Fingerprint, Vec<usize>)> {
    let mut groups: BTreeMap<(Fingerprint, String), Vec<usize>> = BTreeMap::new();
    for (position, entry) in results.iter().enumerate().filter(|(_, entry)| entry.result != Outcome::Error) {
        groups.entry((entry.id, object(entry))).or_default().push(position);
    }
    groups.into_iter().map(|((id, _), positions)| (id, positions))
}

/// Returns the entries of a baseline of these violations. Of the dependents of an owner, it lists for each value the
/// violations of the one with the most.
pub(super) fn entries(results: &[Entry]) -> Vec<BaselineEntry> {
    let mut ids: BTreeMap<(Fingerprint, Fingerprint), Vec<usize>> = BTreeMap::new();
    for (id, group) in groups(results) {
        let mut values: BTreeMap<Fingerprint, Vec<usize>> = BTreeMap::new();
        for position in group.into_iter().filter(|position| results[*position].result.is_violation()) {
            values.entry(results[position].value()).or_default().push(position);
        }
        for (value, violations) in values {
            let listed = ids.entry((id, value)).or_default();
            if violations.len() > listed.len() {
                *listed = violations;
            }
        }
    }
    let mut entries: Vec<BaselineEntry> =
        ids.into_values().flatten().map(|position| (&results[position]).into()).collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        object::{Location, ObjectRef},
        verdict::Finding,
    };

    const ALL: BaselineComparison = BaselineComparison { counts: true, other_policies: false };

    fn object(name: &str) -> Arc<ObjectRef> {
        let (api_version, kind, namespace) = ("v1".into(), "Pod".into(), Some("n".into()));
        Arc::new(ObjectRef { cluster: None, api_version, kind, namespace, name: name.into(), uid: "".into() })
    }

    fn of(object_name: &str, message: &str, file: &str) -> Entry {
        let location = Location { file: file.into(), line: 1 };
        Entry::new(&Finding::sample(message), &object(object_name), Some(&location), None)
    }

    fn owned(pod: &str, message: &str) -> Entry {
        Entry::new(&Finding::sample(message), &object(pod), None, Some(&object("web")))
    }

    /// Returns the messages of new violations, and how many entries have no result.
    fn compared(comparison: BaselineComparison, before: &[Entry], after: &[Entry]) -> (Vec<String>, usize) {
        let mut listed = entries(before);
        if !comparison.counts {
            listed.dedup_by_key(|entry| entry.id);
        }
        let matched = comparison.matched(&listed, after);
        let new = (0..after.len()).filter(|position| !matched.known.contains(position));
        (new.map(|position| after[position].message.to_string()).collect(), matched.unmatched.len())
    }

    #[test]
    fn as_many_are_known_as_are_listed() {
        let port = |number: u32| of("a", &format!("opens port {number}"), "a.yaml");
        let new = |before: &[Entry], after: &[Entry]| compared(ALL, before, after);
        assert_eq!(new(&[port(80)], &[port(80)]), (vec![], 0));
        assert_eq!(new(&[port(80)], &[port(8080)]), (vec!["opens port 8080".to_owned()], 1), "another port");
        let rule = |index: usize| of("a", &format!("rules[{index}] allows all"), "a.yaml");
        assert_eq!(new(&[rule(0)], &[rule(3)]), (vec![], 0), "another index");
        assert_eq!(new(&[rule(0)], &[rule(0), rule(1)]), (vec!["rules[1] allows all".to_owned()], 0));
        assert_eq!(new(&[port(80)], &[port(22), port(80)]), (vec!["opens port 22".to_owned()], 0));
        let both = vec!["opens port 22".to_owned(), "opens port 443".to_owned()];
        assert_eq!(new(&[port(80)], &[port(22), port(443)]), (both, 1));
        assert_eq!(new(&[port(80), port(443)], &[port(443)]), (vec![], 1));
        assert_eq!(new(&[port(80)], &[of("b", "opens port 80", "a.yaml")]), (vec!["opens port 80".to_owned()], 1));
    }

    /// A violation: an object by number, whether it is a dependent of `web`, its port and its file.
    type GeneratedViolation = (u8, bool, u8, u8);

    fn seen((number, is_owned, port, file): GeneratedViolation) -> Entry {
        if is_owned {
            owned(&format!("web-{number}"), &format!("web-{number} opens {port}"))
        } else {
            of(&format!("pod{number}"), &format!("opens {port}"), &format!("{file}.yaml"))
        }
    }

    /// Counts violations by object and port.
    fn counted(all: &[GeneratedViolation], is_owned: bool) -> BTreeMap<(u8, u8), usize> {
        let mut counts = BTreeMap::new();
        for (number, _, port, _) in all.iter().filter(|one| one.1 == is_owned) {
            *counts.entry((*number, *port)).or_default() += 1;
        }
        counts
    }

    /// Returns how many violations are new and how many entries are fixed.
    fn model(before: &[GeneratedViolation], after: &[GeneratedViolation]) -> (usize, usize) {
        let differences = |listed: &dyn Fn((u8, u8)) -> usize, counts: &BTreeMap<(u8, u8), usize>| -> usize {
            counts.iter().map(|(key, count)| count.saturating_sub(listed(*key))).sum()
        };
        let [old, new] = [before, after].map(|side| counted(side, false));
        let single = |counts: BTreeMap<(u8, u8), usize>| move |key| counts.get(&key).copied().unwrap_or(0);
        // Of dependents, only the one with the most violations counts.
        let [old_owned, new_owned] = [before, after].map(|side| counted(side, true));
        let most = |counts: BTreeMap<(u8, u8), usize>| {
            move |(_, port)| counts.iter().filter(|(key, _)| key.1 == port).map(|(_, count)| *count).max().unwrap_or(0)
        };
        let by_port = |counts: &BTreeMap<(u8, u8), usize>| {
            let ports: BTreeSet<u8> = counts.keys().map(|key| key.1).collect();
            ports.into_iter().map(|port| ((0, port), most(counts.clone())((0, port)))).collect::<BTreeMap<_, _>>()
        };
        (
            differences(&single(old.clone()), &new) + differences(&most(old_owned.clone()), &new_owned),
            differences(&single(new), &old) + differences(&most(new_owned), &by_port(&old_owned)),
        )
    }

    proptest::proptest! {
        #[test]
        fn new_and_fixed_violations_are_counted_by_object_and_value(
            before in proptest::collection::vec((0..3u8, proptest::bool::ANY, 0..3u8, 0..2u8), 0..14),
            after in proptest::collection::vec((0..3u8, proptest::bool::ANY, 0..3u8, 0..2u8), 0..14),
        ) {
            let results = |side: &[GeneratedViolation]| side.iter().copied().map(seen).collect::<Vec<_>>();
            let (old, new) = (entries(&results(&before)), results(&after));
            let matched = ALL.matched(&old, &new);
            let counted = (new.len() - matched.known.len(), matched.unmatched.len());
            proptest::prop_assert_eq!(counted, model(&before, &after));
            // Of equal violations, those in the listed file are known.
            for one in before.iter().filter(|one| !one.1) {
                let count = |side: &[GeneratedViolation]| side.iter().filter(|other| *other == one).count();
                let known = matched.known.iter().filter(|position| after[**position] == *one).count();
                proptest::prop_assert!(known >= count(&before).min(count(&after)));
            }
            // A baseline lists all violations that it was written from.
            let same = ALL.matched(&entries(&new), &new);
            proptest::prop_assert_eq!((same.known.len(), same.unmatched.len()), (new.len(), 0));
        }
    }

    #[test]
    fn a_second_file_with_the_object_is_new() {
        let (dev, prod) = (of("a", "x", "dev.yaml"), of("a", "x", "prod.yaml"));
        let matched = ALL.matched(&entries(std::slice::from_ref(&prod)), &[dev.clone(), prod.clone()]);
        assert_eq!(matched.known, [1].into());
        assert_eq!(compared(ALL, &[dev.clone(), prod.clone()], &[prod, dev]), (vec![], 0));
    }

    #[test]
    fn any_number_of_dependents_is_known() {
        let pods = |number: usize| {
            (0..number).map(|pod| owned(&format!("web-{pod}"), &format!("web-{pod} opens 1"))).collect::<Vec<_>>()
        };
        assert_eq!(compared(ALL, &pods(2), &pods(5)), (vec![], 0));
        let mut two = pods(3);
        two.push(owned("web-1", "web-1 opens 2"));
        assert_eq!(compared(ALL, &pods(2), &two), (vec!["web-1 opens 2".to_owned()], 0));
    }

    #[test]
    fn an_entry_without_a_count_matches_any_number() {
        let old = BaselineComparison { counts: false, other_policies: false };
        let port = |number: u32| of("a", &format!("opens port {number}"), "a.yaml");
        assert_eq!(compared(old, &[port(80)], &[port(22), port(443)]), (vec![], 0));
        assert_eq!(compared(old, &[port(80)], &[of("a", "x", "a.yaml")]), (vec!["x".to_owned()], 1));
    }

    #[test]
    fn reworded_messages_of_changed_policies_are_not_new() {
        let opens = |pod: &str, number: u32| of(pod, &format!("opens port {number}"), "a.yaml");
        let uses = |pod: &str, number: u32| of(pod, &format!("uses port {number}"), "a.yaml");
        let before = [opens("a", 1), opens("a", 2), opens("b", 3)];
        for counts in [true, false] {
            let changed = BaselineComparison { counts, other_policies: true };
            assert_eq!(compared(changed, &before, &[uses("a", 1), uses("a", 2), uses("b", 3)]), (vec![], 0));
        }
        let changed = BaselineComparison { counts: true, other_policies: true };
        let more = [uses("a", 1), uses("a", 2), uses("a", 4), uses("c", 3)];
        assert_eq!(compared(changed, &before, &more), (vec!["uses port 4".to_owned(), "uses port 3".to_owned()], 1));
        // The rule still has its old message for another object, so it was not reworded.
        let (new, unmatched) = compared(changed, &before, &[uses("a", 1), opens("b", 3)]);
        assert_eq!((new.len(), unmatched), (1, 2));
        assert_eq!(compared(ALL, &before, &[uses("b", 3)]).0.len(), 1, "the policies are the same");
    }

    #[test]
    fn entries_without_a_value_are_matched_by_count() {
        let port = |number: u32| of("a", &format!("opens port {number}"), "a.yaml");
        let mut listed = entries(&[port(80), port(81)]);
        for entry in &mut listed {
            entry.value = None;
        }
        assert_eq!(ALL.matched(&listed, &[port(22), port(80), port(443)]).known, [0, 1].into());
    }

    #[test]
    fn excused_violations_are_not_fixed() {
        let mut excused = of("a", "opens port 80", "a.yaml");
        excused.result = Outcome::Skip;
        let before = [of("a", "opens port 80", "a.yaml")];
        assert_eq!(ALL.matched(&entries(&before), &[excused.clone()]).unmatched, BTreeSet::new());
        let both = [of("a", "opens port 22", "a.yaml"), excused];
        assert_eq!(ALL.matched(&entries(&before), &both).known, BTreeSet::new());
    }
}
