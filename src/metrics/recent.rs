//! The namespaces for which new violations are counted in series of their own.
//!
//! Invariant: at most [`RecentNamespaces::limit`] namespaces have series of their own, whatever the size of the
//! cluster. A namespace keeps its series for at least [`KEPT`] after its last new violation, so that alerts, which look
//! back, find them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// The label value of all other namespaces; not a valid namespace name.
pub const OTHER: &str = "_other";

/// How long a namespace keeps its series at least; alerts look back 15 minutes.
const KEPT: Duration = Duration::from_hours(1);

/// The namespaces with the most recent new violations, with the labels of their series.
#[derive(Debug)]
pub(super) struct RecentNamespaces<L> {
    most: usize,
    known: BTreeMap<Arc<str>, Recent<L>>,
}

#[derive(Debug)]
struct Recent<L> {
    last: Instant,
    series: BTreeSet<L>,
}

impl<L> Default for RecentNamespaces<L> {
    fn default() -> Self {
        Self { most: 0, known: BTreeMap::new() }
    }
}

impl<L: Clone + Ord> RecentNamespaces<L> {
    /// Sets the maximum number of namespaces with series of their own.
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the labels of the series that counts a violation, and the series to remove because their namespace is
    /// displaced. `labels` creates the labels from the namespace's label value: its name, [`OTHER`] if too many other
    /// namespaces had recent violations, or an empty string if namespaces are not labelled or the object is
    /// cluster-scoped.
    pub(super) fn label(
        &mut self,
        namespace: Option<&Arc<str>>,
        now: Instant,
        labels: impl FnOnce(Arc<str>) -> L,
    ) -> (L, BTreeSet<L>) {
        let Some(name) = namespace.filter(|_| self.most > 0) else { return (labels("".into()), BTreeSet::new()) };
        let mut ended = BTreeSet::new();
        if !self.known.contains_key(name) && self.known.len() >= self.most {
            let oldest = self.known.iter().min_by_key(|(_, recent)| recent.last);
            let oldest = oldest.filter(|(_, recent)| now.saturating_duration_since(recent.last) >= KEPT);
            let Some(oldest) = oldest.map(|(name, _)| Arc::clone(name)) else {
                return (labels(OTHER.into()), BTreeSet::new());
            };
            ended = self.known.remove(&oldest).map(|recent| recent.series).unwrap_or_default();
        }
        let labels = labels(Arc::clone(name));
        let recent =
            self.known.entry(Arc::clone(name)).or_insert_with(|| Recent { last: now, series: BTreeSet::new() });
        recent.last = now;
        recent.series.insert(labels.clone());
        (labels, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_keep_their_series_for_an_hour_within_the_limit() {
        let mut recent = RecentNamespaces::default();
        let begin = Instant::now();
        let mut label = |namespace: &str, rule: &str, minutes: u64, most: usize| {
            recent.limit(most);
            let namespace: Option<Arc<str>> = (!namespace.is_empty()).then(|| namespace.into());
            let now = begin + Duration::from_mins(minutes);
            let (label, ended) = recent.label(namespace.as_ref(), now, |name| format!("{name}/{rule}"));
            (label, Vec::from_iter(ended).join(" "))
        };
        let is = |name: &str, ended: &str| (name.to_owned(), ended.to_owned());
        assert_eq!(label("a", "r", 0, 0), is("/r", ""), "namespaces are not named");
        assert_eq!(label("a", "r", 0, 2), is("a/r", ""));
        assert_eq!(label("a", "s", 1, 2), is("a/s", ""));
        assert_eq!(label("b", "r", 2, 2), is("b/r", ""));
        assert_eq!(label("", "r", 3, 2), is("/r", ""), "the object is in no namespace");
        assert_eq!(label("c", "r", 60, 2), is("_other/r", ""), "a had a violation within the hour");
        assert_eq!(label("c", "r", 61, 2), is("c/r", "a/r a/s"));
        assert_eq!(label("b", "s", 61, 2), is("b/s", ""));
        assert_eq!(label("a", "r", 62, 2), is("_other/r", ""));
    }
}
