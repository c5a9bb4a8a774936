//! The numbers of a selection: all of them from one pass over its rows, without unpacking results.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::{
    cache::ClusterCounts,
    selection::{FleetSelection, SelectedCluster, SelectedPart, chunk_size},
    tally::{FleetRuleTally, ResultCounts, class},
};
use crate::{
    blocking::in_parallel,
    fleet::{clusters::ResultRow, names::Names, part::StoredRule},
    model::verdict::{Outcome, Severity, rule_id},
};

/// The numbers of a selection.
pub(super) struct FleetCounts<'v> {
    pub(super) total: ResultCounts,
    /// In the order of the selected clusters.
    pub(super) clusters: Vec<ResultCounts>,
    /// The namespaces with results or changes, by cluster and name.
    pub(super) places: Vec<PlaceCounts<'v>>,
    /// The rules with results, the most severe and most frequent first.
    pub(super) rules: Vec<RuleCount<'v>>,
}

/// The numbers of a namespace of a cluster.
pub(super) struct PlaceCounts<'v> {
    /// The index of its cluster.
    pub(super) cluster: usize,
    /// `None` for cluster-scoped objects.
    pub(super) place: Option<Arc<str>>,
    pub(super) team: Option<&'v str>,
    pub(super) counts: ResultCounts,
}

/// The numbers of a team in all clusters.
#[derive(Default)]
pub(super) struct TeamCounts {
    /// The clusters with results or changes, by index.
    pub(super) clusters: BTreeSet<usize>,
    /// The number of namespaces with results or changes.
    pub(super) namespaces: usize,
    pub(super) counts: ResultCounts,
}

/// The numbers of a rule in all clusters.
pub(super) struct RuleCount<'v> {
    pub(super) rule: &'v StoredRule,
    pub(super) tally: FleetRuleTally,
}

impl RuleCount<'_> {
    /// Returns its id, or `POLICY/RULE`.
    pub(super) fn id(&self) -> String {
        rule_id(&self.rule.policy, &self.rule.rule, self.rule.id.as_deref())
    }

    /// Returns its title, or the name of the rule.
    pub(super) fn title(&self) -> &str {
        self.rule.title.as_deref().unwrap_or(&self.rule.rule)
    }
}

/// Rules of one policy and name, of which clusters may have several versions.
struct RuleGroups<'v> {
    /// The index of the group of each rule, by the number of the rule.
    of_rule: Vec<usize>,
    /// The last known version of each.
    rules: Vec<&'v StoredRule>,
}

impl<'v> RuleGroups<'v> {
    fn new(names: &'v Names) -> Self {
        let mut groups: HashMap<(&str, &str), usize> = HashMap::new();
        let (mut of_rule, mut rules) = (Vec::new(), Vec::new());
        for rule in names.rules() {
            let rule: &StoredRule = rule;
            let group = *groups.entry((&rule.policy, &rule.rule)).or_insert_with(|| {
                rules.push(rule);
                rules.len() - 1
            });
            rules[group] = rule;
            of_rule.push(group);
        }
        Self { of_rule, rules }
    }
}

impl<'v> FleetSelection<'v> {
    /// Counts everything. Without filters, only clusters that have changed are counted again.
    pub(super) fn count(&self) -> FleetCounts<'v> {
        let groups = RuleGroups::new(&self.page.view.names);
        let chunks = self.clusters.chunks(chunk_size(self.clusters.len())).collect();
        let counted = in_parallel(chunks, |clusters| self.count_clusters(clusters, &groups));
        let mut tallies = vec![FleetRuleTally::default(); groups.rules.len()];
        let mut counts =
            FleetCounts { total: ResultCounts::default(), clusters: Vec::new(), places: Vec::new(), rules: Vec::new() };
        for (cluster, (selected, counted)) in self.clusters.iter().zip(counted.into_iter().flatten()).enumerate() {
            counts.total += &counted.total;
            counts.clusters.push(counted.total.clone());
            counts.places.extend(counted.places.iter().map(|(place, counts)| {
                let team = selected.team(place.as_deref());
                PlaceCounts { cluster, place: place.clone(), team, counts: counts.clone() }
            }));
            for (group, tally) in &counted.tallies {
                tallies[*group] += tally;
            }
        }
        let rules = groups.rules.into_iter().zip(tallies).filter(|(_, tally)| !tally.is_empty());
        counts.rules = rules.map(|(rule, tally)| RuleCount { rule, tally }).collect();
        let order = |rule: &RuleCount<'_>| {
            let FleetRuleTally { failing, .. } = rule.tally;
            let severity = rule.tally.severity();
            (failing == 0, severity.is_none(), severity, std::cmp::Reverse(failing))
        };
        counts
            .rules
            .sort_by(|a, b| (order(a), &a.rule.policy, &a.rule.rule).cmp(&(order(b), &b.rule.policy, &b.rule.rule)));
        counts
    }

    fn count_clusters(&self, clusters: &[SelectedCluster<'v>], groups: &RuleGroups<'v>) -> Vec<Arc<ClusterCounts>> {
        let known = Some(&self.page.cache.counts).filter(|_| !self.is_filtered());
        let mut tallies = TallyTable::new(groups);
        let counted = clusters.iter().map(|selected| {
            if let Some(counts) = known.and_then(|known| known.get(selected.cluster, self.filter.changed)) {
                return counts;
            }
            let counts = Arc::new(self.count_cluster(selected, &mut tallies));
            if let Some(known) = known {
                known.keep(selected.cluster, self.filter.changed, &counts);
            }
            counts
        });
        counted.collect()
    }

    fn count_cluster(&self, selected: &SelectedCluster<'v>, tallies: &mut TallyTable<'_>) -> ClusterCounts {
        let mut places: BTreeMap<Option<&Arc<str>>, ResultCounts> = BTreeMap::new();
        let mut earliest = u32::MAX;
        for (number, part) in selected.parts.iter().enumerate() {
            let counts = self.count_part(part, number, tallies, &mut earliest);
            *places.entry(part.place).or_default() += &counts;
        }
        for (part, _, row) in selected.ended_rows(self.query, &self.filter) {
            let counts = places.entry(selected.ended[part].part.place(row)).or_default();
            counts.resolved += 1;
            counts.changed = counts.changed.max(row.since);
            earliest = earliest.min(row.since);
        }
        let mut counts =
            ClusterCounts { total: ResultCounts::default(), places: Vec::new(), tallies: tallies.take(), earliest };
        for (place, of_place) in places.into_iter().filter(|(_, counts)| !counts.is_empty()) {
            counts.total += &of_place;
            counts.places.push((place.cloned(), of_place));
        }
        counts
    }

    fn count_part(
        &self,
        selected: &SelectedPart<'v>,
        number: usize,
        tallies: &mut TallyTable<'_>,
        earliest: &mut u32,
    ) -> ResultCounts {
        let mut counts = ResultCounts::default();
        let mut last_failing = None;
        for (_, row) in selected.rows().filter(|(_, row)| self.filter.takes(row)) {
            counts.classes[class(row)] += 1;
            if row.result != Outcome::Skip && last_failing != Some(row.object) {
                last_failing = Some(row.object);
                counts.failing_objects += 1;
            }
            if self.filter.is_new(row) {
                counts.new += 1;
                counts.severe += usize::from(row.severity.is_some_and(|severity| severity <= Severity::High));
                counts.changed = counts.changed.max(row.since);
                *earliest = row.since.min(*earliest);
            }
            tallies.count(row, number);
        }
        counts
    }
}

/// The tallies of the rules of one cluster.
struct TallyTable<'g> {
    of_rule: &'g [usize],
    /// By group.
    tallies: Vec<FleetRuleTally>,
    /// The groups that have a tally.
    counted: Vec<usize>,
}

impl<'g> TallyTable<'g> {
    fn new(groups: &'g RuleGroups<'_>) -> Self {
        let tallies = vec![FleetRuleTally::default(); groups.rules.len()];
        Self { of_rule: &groups.of_rule, tallies, counted: Vec::new() }
    }

    fn count(&mut self, row: &ResultRow, part: usize) {
        let Some(group) = self.of_rule.get(row.rule as usize) else { return };
        let Some(tally) = self.tallies.get_mut(*group) else { return };
        if tally.is_empty() {
            self.counted.push(*group);
        }
        tally.count(row, part);
    }

    /// Returns the tallies, and begins those of the next cluster.
    fn take(&mut self) -> Vec<(usize, FleetRuleTally)> {
        let Self { tallies, counted, .. } = self;
        counted.drain(..).map(|group| (group, std::mem::take(&mut tallies[group]))).collect()
    }
}

impl<'v> FleetCounts<'v> {
    /// Returns the number of clusters with violations.
    pub(super) fn failing_clusters(&self) -> usize {
        self.clusters.iter().filter(|counts| counts.violations() > 0).count()
    }

    /// Returns the numbers of each team, and under `None` those of namespaces without a team.
    pub(super) fn teams(&self) -> Vec<(Option<&'v str>, TeamCounts)> {
        let mut teams: BTreeMap<Option<&'v str>, TeamCounts> = BTreeMap::new();
        for PlaceCounts { cluster, team, counts, place } in &self.places {
            let sums = teams.entry(*team).or_default();
            sums.clusters.insert(*cluster);
            sums.namespaces += usize::from(place.is_some());
            sums.counts += counts;
        }
        let mut teams: Vec<_> = teams.into_iter().collect();
        teams.sort_by_cached_key(|(team, sums)| (std::cmp::Reverse(sums.counts.severities()), *team));
        teams
    }

    /// Returns the namespaces, the most severe first.
    pub(super) fn worst_places(&self) -> Vec<&PlaceCounts<'v>> {
        let mut places: Vec<_> = self.places.iter().collect();
        places.sort_by_cached_key(|place| {
            (std::cmp::Reverse(place.counts.severities()), place.cluster, place.place.clone())
        });
        places
    }

    /// Returns the indices of the clusters, the most severe first.
    pub(super) fn worst_clusters(&self) -> Vec<usize> {
        let mut clusters: Vec<usize> = (0..self.clusters.len()).collect();
        clusters.sort_by_cached_key(|index| (std::cmp::Reverse(self.clusters[*index].severities()), *index));
        clusters
    }
}

/// The numbers of a rule by id, for tests.
#[cfg(test)]
impl FleetCounts<'_> {
    pub(super) fn rule_numbers(&self) -> BTreeMap<String, [usize; 4]> {
        let numbers = |rule: &RuleCount<'_>| {
            let FleetRuleTally { failing, clusters, excused, errors, .. } = rule.tally;
            (format!("{}/{}", rule.rule.policy, rule.rule.rule), [failing, clusters, excused, errors])
        };
        self.rules.iter().map(numbers).collect()
    }
}
