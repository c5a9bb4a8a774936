//! The part of a fleet that a query selects. Results stay packed, unless text is searched in them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::fleet_page::FleetPage;
use crate::{
    blocking::{in_parallel, parallelism},
    fleet::{
        clusters::{Cluster, Part, ResultRow},
        state::ClusterState,
        view::FleetView,
    },
    judge::rule_pattern::RulePattern,
    model::{label_requirements::LabelRequirements, verdict::Severity},
    output::page::{
        prepared::NONE,
        query::{PageQuery, SearchWords, place_name, severity},
    },
};

/// In how many results text is searched at most: they must be unpacked, which takes about a second.
pub(super) const MOST_SEARCHED: usize = 500_000;

/// The results of a fleet that a query selects.
pub(super) struct FleetSelection<'v> {
    pub(super) page: &'v FleetPage,
    pub(super) query: &'v PageQuery,
    /// The clusters, by name.
    pub(super) clusters: Vec<SelectedCluster<'v>>,
    /// When the period of the changes begins: a day ago, if the query names no other time.
    pub(super) since: Timestamp,
    /// Why the query selects nothing, for the reader.
    pub(super) problem: Option<String>,
    pub(super) filter: RowFilter,
}

/// A cluster with the parts of its results in the selected places.
pub(super) struct SelectedCluster<'v> {
    pub(super) cluster: &'v Arc<Cluster>,
    /// What its shards say of it.
    pub(super) states: Vec<&'v ClusterState>,
    pub(super) parts: Vec<SelectedPart<'v>>,
    /// The parts with resolved violations, in any place.
    pub(super) ended: Vec<SelectedPart<'v>>,
}

/// A part of the results.
pub(super) struct SelectedPart<'v> {
    pub(super) part: &'v Part,
    /// The namespace of all objects; not known for resolved violations.
    pub(super) place: Option<&'v Arc<str>>,
    /// Whether the words of the search occur in each result; `None` without a search.
    found: Option<Box<[bool]>>,
}

/// Selects rows by everything that they have.
pub(super) struct RowFilter {
    /// By the number of the rule.
    rules: Option<Vec<bool>>,
    /// By the number of the kind.
    kinds: Option<Vec<bool>>,
    /// In the order of [`Severity::index`].
    severities: [bool; Severity::INDICES],
    /// The least time since when a violation exists, in seconds.
    since: Option<u32>,
    /// When the period of the changes begins, in seconds.
    pub(super) changed: u32,
}

/// Returns how many clusters a thread works on at a time, out of all: few of them are not worth a second thread.
pub(super) fn chunk_size(clusters: usize) -> usize {
    clusters.div_ceil(parallelism() * 4).max(32)
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.as_second().max(1)).unwrap_or(u32::MAX)
}

impl RowFilter {
    fn new(view: &FleetView, query: &PageQuery, (at, changed): (Timestamp, Timestamp)) -> Self {
        let rules = query.rule.as_deref().map(RulePattern::new).map(|pattern| {
            let rules = view.names.rules().iter();
            rules.map(|rule| pattern.matches_ids(&rule.policy, &rule.rule, rule.id.as_deref().into_iter())).collect()
        });
        let kind = query.kind.as_deref();
        let kinds = kind.map(|wanted| view.names.kinds().iter().map(|kind| **kind == *wanted).collect());
        let is_wanted =
            |known: Option<Severity>| query.severity.as_deref().is_none_or(|wanted| wanted == severity(known));
        let mut severities = [is_wanted(None); Severity::INDICES];
        for known in Severity::ALL {
            severities[Severity::index(Some(known))] = is_wanted(Some(known));
        }
        Self { rules, kinds, severities, since: query.since_period(at).map(seconds), changed: seconds(changed) }
    }

    /// Whether a row is selected, whenever it was first seen.
    fn takes_at_any_time(&self, row: &ResultRow) -> bool {
        let is_taken = |taken: &Option<Vec<bool>>, number: u32| {
            taken.as_ref().is_none_or(|taken| taken.get(number as usize).copied().unwrap_or_default())
        };
        self.severities[Severity::index(row.severity)]
            && is_taken(&self.rules, row.rule)
            && is_taken(&self.kinds, row.kind)
    }

    pub(super) fn takes(&self, row: &ResultRow) -> bool {
        self.takes_at_any_time(row) && self.since.is_none_or(|since| row.since >= since)
    }

    fn takes_ended(&self, row: &ResultRow) -> bool {
        self.takes_at_any_time(row) && row.since >= self.changed
    }

    /// Whether a selected row is a new violation.
    pub(super) fn is_new(&self, row: &ResultRow) -> bool {
        row.result.is_violation() && !row.is_handed_over && row.since >= self.changed
    }
}

impl<'v> FleetSelection<'v> {
    pub(super) fn new(page: &'v FleetPage, query: &'v PageQuery) -> Self {
        let a_day_ago = || page.at.saturating_sub(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MIN);
        let since = query.since_period(page.at).unwrap_or_else(a_day_ago);
        let filter = RowFilter::new(&page.view, query, (page.at, since));
        let labels = query.label.as_deref().map(str::parse::<LabelRequirements>).transpose();
        let mut selection = Self { page, query, clusters: Vec::new(), since, problem: None, filter };
        match labels {
            Ok(labels) => {
                let clusters = page.view.clusters.values().filter(|cluster| {
                    query.cluster.as_deref().is_none_or(|wanted| *cluster.name == *wanted)
                        && labels.as_ref().is_none_or(|labels| labels.matches(&cluster.labels().unwrap_or_default()))
                });
                selection.clusters = clusters.map(|cluster| SelectedCluster::new(cluster, query)).collect();
            }
            Err(why) => selection.problem = Some(why),
        }
        if let Some(text) = query.q.as_deref().filter(|text| !text.trim().is_empty()) {
            selection.search(text);
        }
        selection
    }

    /// Unpacks what the other filters select, and selects the results in which all words occur.
    fn search(&mut self, text: &str) {
        let left = |cluster: &SelectedCluster<'_>| {
            cluster.rows(&self.filter).count() + cluster.ended_rows(self.query, &self.filter).count()
        };
        let left: usize = self.clusters.iter().map(left).sum();
        if left > MOST_SEARCHED {
            self.problem = Some(format!(
                "The text is searched in at most {MOST_SEARCHED} results, and the other filters select {left}: select a \
                 cluster, a namespace, a rule or a severity, too"
            ));
            for cluster in &mut self.clusters {
                cluster.parts.clear();
                cluster.ended.clear();
            }
            return;
        }
        let (query, filter) = (self.query, &self.filter);
        let size = chunk_size(self.clusters.len());
        in_parallel(self.clusters.chunks_mut(size).collect(), |clusters| {
            let mut words = SearchWords::new(text);
            for cluster in clusters {
                let SelectedCluster { states, parts, ended, .. } = cluster;
                for part in parts {
                    part.search(&mut words, |_, row| filter.takes(row));
                }
                for part in ended {
                    part.search(&mut words, |part, row| takes_ended(states, part, row, query, filter));
                }
            }
        });
    }

    /// Whether filters select results, so that the numbers are not those of whole clusters.
    pub(super) fn is_filtered(&self) -> bool {
        !self.query.filters().is_empty()
    }
}

impl<'v> SelectedCluster<'v> {
    fn new(cluster: &'v Arc<Cluster>, query: &PageQuery) -> Self {
        let (mut parts, mut ended) = (Vec::new(), Vec::new());
        let states: Vec<_> = cluster.states().collect();
        for shard in cluster.shards() {
            let of_place = shard.parts.iter().filter(|(key, _)| is_in_place(&states, key.place.as_ref(), query));
            parts.extend(of_place.map(|(key, part)| SelectedPart { part, place: key.place.as_ref(), found: None }));
            ended.extend(shard.ended.values().map(|part| SelectedPart { part, place: None, found: None }));
        }
        Self { cluster, states, parts, ended }
    }

    /// Returns the team of a namespace.
    pub(super) fn team(&self, place: Option<&str>) -> Option<&'v str> {
        team(&self.states, place)
    }

    /// Returns the selected rows, each with the index of its part and its own.
    pub(super) fn rows<'s>(
        &'s self,
        filter: &'s RowFilter,
    ) -> impl Iterator<Item = (usize, usize, &'v ResultRow)> + 's {
        self.parts.iter().enumerate().flat_map(move |(at, part)| {
            part.rows().filter(|(_, row)| filter.takes(row)).map(move |(index, row)| (at, index, row))
        })
    }

    /// Returns the rows of the selected resolved violations, each with the index of its part and its own.
    pub(super) fn ended_rows<'s>(
        &'s self,
        query: &'s PageQuery,
        filter: &'s RowFilter,
    ) -> impl Iterator<Item = (usize, usize, &'v ResultRow)> + 's {
        self.ended.iter().enumerate().flat_map(move |(at, part)| {
            let is_taken =
                move |(_, row): &(usize, &ResultRow)| takes_ended(&self.states, part.part, row, query, filter);
            part.rows().filter(is_taken).map(move |(index, row)| (at, index, row))
        })
    }
}

fn takes_ended(states: &[&ClusterState], part: &Part, row: &ResultRow, query: &PageQuery, filter: &RowFilter) -> bool {
    filter.takes_ended(row) && is_in_place(states, part.place(row), query)
}

/// Whether the namespace and the team of a query are those of a place.
fn is_in_place(states: &[&ClusterState], place: Option<&Arc<str>>, query: &PageQuery) -> bool {
    let place = place.map(|place| &**place);
    query.namespace.as_deref().is_none_or(|wanted| wanted == place_name(place))
        && query.team.as_deref().is_none_or(|wanted| wanted == team(states, place).unwrap_or(NONE))
}

/// Returns the team of a namespace of a cluster.
fn team<'c>(states: &[&'c ClusterState], place: Option<&str>) -> Option<&'c str> {
    let place = place?;
    states.iter().find_map(|state| state.teams.get(place)).map(|team| &**team)
}

impl<'v> SelectedPart<'v> {
    /// Returns the rows in which the words of the search occur, with their indices.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &'v ResultRow)> {
        let is_found = |index: usize| self.found.as_ref().is_none_or(|found| found[index]);
        self.part.rows.iter().enumerate().filter(move |(index, _)| is_found(*index))
    }

    /// Searches words in the results of selected rows.
    fn search(&mut self, words: &mut SearchWords, is_selected: impl Fn(&Part, &ResultRow) -> bool) {
        let mut found: Box<[bool]> = self.part.rows.iter().map(|row| is_selected(self.part, row)).collect();
        if found.contains(&true)
            && let Ok(entries) = self.part.entries(None)
        {
            for (found, (entry, _)) in found.iter_mut().zip(entries) {
                *found = *found && words.occur_in(&entry);
            }
        }
        self.found = Some(found);
    }
}
