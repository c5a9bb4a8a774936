//! How many results there are, in all and by namespace. Metrics show a limited number of namespaces.
//!
//! Invariant: the counts of a class in [`Counts::by_namespace`] add up to its total, whichever namespaces are shown.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{metrics::recent::OTHER, model::verdict::Class};

/// How many results there are of each class.
pub type Totals = BTreeMap<Class, usize>;

/// Counts of results.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// In all. A class that fell to zero stays.
    totals: Totals,
    /// How many namespaces are shown; with 0 nothing is counted by namespace.
    most: usize,
    /// The namespaces that have results.
    namespaces: HashMap<Arc<str>, Namespace>,
    /// Results of objects of the cluster.
    outside: Totals,
    /// The namespaces that are shown.
    shown: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Namespace {
    violations: usize,
    totals: Totals,
}

impl Counts {
    /// Makes them for at most `most` namespaces.
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Also shows these classes with a count of zero, and no longer those of an earlier call that have none.
    pub(super) fn expect(&mut self, classes: impl IntoIterator<Item = Class>) {
        self.totals.retain(|_, count| *count > 0);
        for class in classes {
            self.totals.entry(class).or_default();
        }
    }

    pub(super) fn add(&mut self, namespace: Option<&Arc<str>>, class: &Class) {
        *self.totals.entry(class.clone()).or_default() += 1;
        if self.most == 0 {
            return;
        }
        let totals = match namespace {
            None => &mut self.outside,
            Some(name) => {
                let known = self.namespaces.entry(Arc::clone(name)).or_default();
                known.violations += usize::from(class.outcome.is_violation());
                &mut known.totals
            }
        };
        *totals.entry(class.clone()).or_default() += 1;
    }

    pub(super) fn remove(&mut self, namespace: Option<&Arc<str>>, class: &Class) {
        if let Some(total) = self.totals.get_mut(class) {
            *total -= 1;
        }
        let Some(name) = namespace else { return take(&mut self.outside, class) };
        let Some(known) = self.namespaces.get_mut(name) else { return };
        known.violations -= usize::from(class.outcome.is_violation());
        take(&mut known.totals, class);
        if known.totals.is_empty() {
            self.namespaces.remove(name);
        }
    }

    /// Chooses the namespaces with the most violations. Among equals those that are shown stay, so that series do not come
    /// and go.
    fn choose(&mut self) {
        let rank = |(name, known): (_, &Namespace)| (Reverse(known.violations), !self.shown.contains(name), name);
        let mut ranks: Vec<(_, _, &Arc<str>)> = self.namespaces.iter().map(rank).collect();
        if ranks.len() > self.most {
            ranks.select_nth_unstable(self.most);
            ranks.truncate(self.most);
        }
        self.shown = ranks.into_iter().map(|(_, _, name)| Arc::clone(name)).collect();
    }

    /// Returns all counts by namespace. Results of objects of the cluster, or all if nothing is counted by namespace, have the
    /// name "" and are listed even if there are 0; those of namespaces only if there are some.
    pub(super) fn by_namespace(&mut self) -> Vec<(Arc<str>, Class, usize)> {
        self.choose();
        let mut left = self.totals.clone();
        let mut rows = Vec::new();
        for (name, known) in self.shown.iter().filter_map(|name| Some((name, self.namespaces.get(name)?))) {
            for (class, count) in &known.totals {
                rows.push((Arc::clone(name), class.clone(), *count));
                left.entry(class.clone()).and_modify(|left| *left -= count);
            }
        }
        let (other, outside): (Arc<str>, Arc<str>) = (OTHER.into(), "".into());
        for (class, left) in left {
            let without = if self.most == 0 { left } else { self.outside.get(&class).copied().unwrap_or_default() };
            if left > without {
                rows.push((Arc::clone(&other), class.clone(), left - without));
            }
            rows.push((Arc::clone(&outside), class, without));
        }
        rows
    }
}

/// Subtracts one.
fn take(totals: &mut Totals, class: &Class) {
    if let Some(count) = totals.get_mut(class) {
        *count -= 1;
        if *count == 0 {
            totals.remove(class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::verdict::Outcome;

    fn class(outcome: Outcome) -> Class {
        Class { policy: "p".into(), severity: None, outcome }
    }

    fn counts(most: usize) -> Counts {
        let mut counts = Counts::new(most);
        counts.expect([class(Outcome::Fail)]);
        counts
    }

    fn add(counts: &mut Counts, namespace: &str, number: usize, outcome: Outcome) {
        let name: Option<Arc<str>> = (!namespace.is_empty()).then(|| namespace.into());
        (0..number).for_each(|_| counts.add(name.as_ref(), &class(outcome)));
    }

    fn remove(counts: &mut Counts, namespace: &str, number: usize) {
        (0..number).for_each(|_| counts.remove(Some(&namespace.into()), &class(Outcome::Fail)));
    }

    /// The fails by namespace; checks that they are all.
    fn fails(counts: &mut Counts) -> BTreeMap<String, usize> {
        let rows = counts.by_namespace();
        for (class, total) in counts.totals() {
            let of_class = rows.iter().filter(|(_, known, _)| known == class);
            assert_eq!(of_class.map(|(_, _, count)| count).sum::<usize>(), *total, "{rows:?}");
        }
        let fails = rows.into_iter().filter(|(_, class, _)| class.outcome == Outcome::Fail);
        fails.map(|(name, _, count)| (name.to_string(), count)).collect()
    }

    fn is(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn the_worst_have_rows_of_their_own_and_all_rows_make_the_total() {
        let kept = &mut counts(2);
        assert_eq!(fails(kept), is(&[("", 0)]), "clean is not unknown");
        add(kept, "", 3, Outcome::Fail);
        for (name, number) in [("a", 5), ("b", 1), ("c", 4), ("d", 2)] {
            add(kept, name, number, Outcome::Fail);
        }
        // What is excused makes nothing worse.
        add(kept, "b", 9, Outcome::Skip);
        assert_eq!(fails(kept), is(&[("", 3), ("a", 5), ("c", 4), (OTHER, 3)]));
        add(kept, "d", 3, Outcome::Fail);
        assert_eq!(fails(kept), is(&[("", 3), ("a", 5), ("d", 5), (OTHER, 5)]), "c is no longer among the worst");
        add(kept, "c", 1, Outcome::Fail);
        assert_eq!(
            fails(kept),
            is(&[("", 3), ("a", 5), ("d", 5), (OTHER, 6)]),
            "those that are shown stay among equals"
        );
        remove(kept, "a", 5);
        assert_eq!(fails(kept), is(&[("", 3), ("c", 5), ("d", 5), (OTHER, 1)]));
        remove(kept, "b", 1);
        remove(kept, "c", 5);
        remove(kept, "d", 5);
        assert_eq!(fails(kept), is(&[("", 3)]), "nothing is left of those that are clean");
        assert_eq!(kept.namespaces.len(), 1, "but what is excused in b");
    }

    #[test]
    fn without_namespaces_there_is_one_row_of_each_class() {
        let kept = &mut counts(0);
        add(kept, "a", 2, Outcome::Fail);
        add(kept, "", 1, Outcome::Fail);
        remove(kept, "a", 1);
        assert_eq!(fails(kept), is(&[("", 2)]));
        assert!(kept.namespaces.is_empty());
    }

    #[test]
    fn classes_of_former_policies_are_counted_while_they_have_results() {
        let kept = &mut counts(1);
        add(kept, "", 1, Outcome::Warn);
        kept.expect([]);
        assert_eq!(kept.totals().keys().collect::<Vec<_>>(), [&class(Outcome::Warn)]);
    }
}
