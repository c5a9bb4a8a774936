//! The numbers of a selection: all of them from one pass over its rows, without unpacking results.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::AddAssign,
};

use super::selection::{FleetSelection, SelectedCluster, SelectedPart, chunk_size, severity_index};
use crate::{
    blocking::in_parallel,
    fleet::{clusters::Row, names::Names, part::StoredRule},
    model::verdict::{Outcome, Severity, rule_id},
    output::page::selection::{KINDS, SeverityCounts},
};

/// The outcomes of results.
const OUTCOMES: usize = 4;
/// The number of [classes](class).
pub(super) const CLASSES: usize = OUTCOMES * KINDS;

/// Returns the class of a result, by its outcome and its severity: the lower, the more urgent, as the page sorts results.
pub(super) fn class(row: &Row) -> usize {
    row.result as usize * KINDS + severity_index(row.severity)
}

/// Numbers of results and changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResultCounts {
    /// Results by [class].
    pub(super) classes: [usize; CLASSES],
    /// Objects with violations or errors.
    pub(super) failing_objects: usize,
    /// New violations.
    pub(super) new: usize,
    /// New violations that are critical or high.
    pub(super) severe: usize,
    /// Resolved violations.
    pub(super) resolved: usize,
    /// When the latest change was, in seconds since 1970.
    pub(super) changed: u32,
}

impl ResultCounts {
    /// Returns the number of results with an outcome.
    pub(super) fn outcome(&self, outcome: Outcome) -> usize {
        let first = outcome as usize * KINDS;
        self.classes[first..first + KINDS].iter().sum()
    }

    /// Returns the numbers of violations by severity.
    pub(super) fn severities(&self) -> SeverityCounts {
        let of = |outcome: Outcome, severity: usize| self.classes[outcome as usize * KINDS + severity];
        SeverityCounts::new(std::array::from_fn(|severity| of(Outcome::Fail, severity) + of(Outcome::Warn, severity)))
    }

    /// Returns the number of violations.
    pub(super) fn violations(&self) -> usize {
        self.outcome(Outcome::Fail) + self.outcome(Outcome::Warn)
    }

    /// Returns the number of results.
    pub(super) fn results(&self) -> usize {
        self.classes.iter().sum()
    }

    /// Whether there are neither results nor changes.
    pub(super) fn is_empty(&self) -> bool {
        self.results() == 0 && self.resolved == 0
    }
}

impl AddAssign<&Self> for ResultCounts {
    fn add_assign(&mut self, other: &Self) {
        self.classes.iter_mut().zip(other.classes).for_each(|(sum, count)| *sum += count);
        self.failing_objects += other.failing_objects;
        self.new += other.new;
        self.severe += other.severe;
        self.resolved += other.resolved;
        self.changed = self.changed.max(other.changed);
    }
}

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
    pub(super) place: Option<&'v str>,
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
    pub(super) tally: RuleTally,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RuleTally {
    /// Objects with violations.
    pub(super) failing: usize,
    /// Clusters with violations.
    pub(super) clusters: usize,
    pub(super) excused: usize,
    pub(super) errors: usize,
    /// Violations by severity.
    severities: [usize; KINDS],
    /// The object and the cluster that were counted last: all results of an object are in a row, and so are those of a
    /// cluster.
    last_object: Option<(usize, u32)>,
    last_cluster: Option<usize>,
}

impl RuleTally {
    /// Returns the severity of its most severe violation.
    pub(super) fn severity(&self) -> Option<Severity> {
        Severity::ALL.into_iter().find(|severity| self.severities[severity_index(Some(*severity))] > 0)
    }

    fn count(&mut self, row: &Row, part: usize, cluster: usize) {
        match row.result {
            Outcome::Skip => self.excused += 1,
            Outcome::Error => self.errors += 1,
            Outcome::Fail | Outcome::Warn => {
                self.severities[severity_index(row.severity)] += 1;
                if self.last_object != Some((part, row.object)) {
                    self.last_object = Some((part, row.object));
                    self.failing += 1;
                }
                if self.last_cluster != Some(cluster) {
                    self.last_cluster = Some(cluster);
                    self.clusters += 1;
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.failing == 0 && self.excused == 0 && self.errors == 0
    }
}

impl AddAssign<&Self> for RuleTally {
    fn add_assign(&mut self, other: &Self) {
        self.failing += other.failing;
        self.clusters += other.clusters;
        self.excused += other.excused;
        self.errors += other.errors;
        self.severities.iter_mut().zip(other.severities).for_each(|(sum, count)| *sum += count);
    }
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

/// The numbers of some clusters.
struct ChunkCounts<'v> {
    clusters: Vec<ResultCounts>,
    places: Vec<PlaceCounts<'v>>,
    /// By group.
    tallies: Vec<RuleTally>,
}

impl<'v> FleetSelection<'v> {
    /// Counts everything.
    pub(super) fn count(&self) -> FleetCounts<'v> {
        let groups = RuleGroups::new(&self.page.view.names);
        let clusters: Vec<(usize, &SelectedCluster<'v>)> = self.clusters.iter().enumerate().collect();
        let chunks = clusters.chunks(chunk_size(clusters.len())).collect();
        let chunks = in_parallel(chunks, |clusters| self.count_chunk(clusters, &groups));
        let mut tallies = vec![RuleTally::default(); groups.rules.len()];
        let mut counts =
            FleetCounts { total: ResultCounts::default(), clusters: Vec::new(), places: Vec::new(), rules: Vec::new() };
        for chunk in chunks {
            chunk.clusters.iter().for_each(|cluster| counts.total += cluster);
            tallies.iter_mut().zip(&chunk.tallies).for_each(|(sum, tally)| *sum += tally);
            counts.clusters.extend(chunk.clusters);
            counts.places.extend(chunk.places);
        }
        let rules = groups.rules.into_iter().zip(tallies).filter(|(_, tally)| !tally.is_empty());
        counts.rules = rules.map(|(rule, tally)| RuleCount { rule, tally }).collect();
        let order = |rule: &RuleCount<'_>| {
            let RuleTally { failing, .. } = rule.tally;
            let severity = rule.tally.severity();
            (failing == 0, severity.is_none(), severity, std::cmp::Reverse(failing))
        };
        counts
            .rules
            .sort_by(|a, b| (order(a), &a.rule.policy, &a.rule.rule).cmp(&(order(b), &b.rule.policy, &b.rule.rule)));
        counts
    }

    fn count_chunk(&self, clusters: &[(usize, &SelectedCluster<'v>)], groups: &RuleGroups<'v>) -> ChunkCounts<'v> {
        let tallies = vec![RuleTally::default(); groups.rules.len()];
        let mut chunk = ChunkCounts { clusters: Vec::new(), places: Vec::new(), tallies };
        let mut parts = 0;
        for (cluster, selected) in clusters {
            let mut places: BTreeMap<Option<&'v str>, ResultCounts> = BTreeMap::new();
            for part in &selected.parts {
                parts += 1;
                let counts = self.count_part(part, (*cluster, parts), &mut chunk.tallies, groups);
                *places.entry(part.place.map(|place| &**place)).or_default() += &counts;
            }
            for (part, _, row) in selected.ended_rows(self.query, &self.filter) {
                let place = selected.ended[part].part.place(row).map(|place| &**place);
                let counts = places.entry(place).or_default();
                counts.resolved += 1;
                counts.changed = counts.changed.max(row.since);
            }
            let mut total = ResultCounts::default();
            for (place, counts) in places.into_iter().filter(|(_, counts)| !counts.is_empty()) {
                total += &counts;
                chunk.places.push(PlaceCounts { cluster: *cluster, place, team: selected.team(place), counts });
            }
            chunk.clusters.push(total);
        }
        chunk
    }

    fn count_part(
        &self,
        selected: &SelectedPart<'v>,
        (cluster, part): (usize, usize),
        tallies: &mut [RuleTally],
        groups: &RuleGroups<'v>,
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
            }
            let group = groups.of_rule.get(row.rule as usize);
            if let Some(tally) = group.and_then(|group| tallies.get_mut(*group)) {
                tally.count(row, part, cluster);
            }
        }
        counts
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
        places.sort_by_cached_key(|place| (std::cmp::Reverse(place.counts.severities()), place.cluster, place.place));
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
            let RuleTally { failing, clusters, excused, errors, .. } = rule.tally;
            (format!("{}/{}", rule.rule.policy, rule.rule.rule), [failing, clusters, excused, errors])
        };
        self.rules.iter().map(numbers).collect()
    }
}
