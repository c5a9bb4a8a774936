//! The numbers of views are those of a simple computation over all results.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};

use super::{
    super::{
        super::query::{owner_kind, place, severity},
        counts::FleetCounts,
        selection::FleetSelection,
        tally::{CLASSES, ResultCounts},
    },
    csv_lines, json, now, page,
    random::{clusters, query},
};
use crate::{
    audit::result::Entry,
    fleet::samples::SampleCluster,
    judge::rule_pattern::RulePattern,
    model::{
        label_requirements::LabelRequirements,
        object::ObjectRef,
        verdict::{Outcome, Severity},
    },
    output::page::query::PageQuery,
};

/// A result and its cluster.
type Found<'c> = (&'c SampleCluster, &'c Entry);

/// The failing objects of a rule, its failing clusters, excused results and errors.
type NaiveRule<'c> = (BTreeSet<(&'c str, &'c ObjectRef)>, BTreeSet<&'c str>, usize, usize);

/// The results that a query selects, computed one by one.
struct Selected<'c> {
    results: Vec<Found<'c>>,
    ended: Vec<(Found<'c>, Timestamp)>,
    since: Timestamp,
}

/// Whether a query selects a result, whenever it was first seen.
fn is_selected(query: &PageQuery, (cluster, entry): Found<'_>) -> bool {
    let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    let team = entry.resource.namespace.as_deref().and_then(|own| cluster.state.teams.get(own));
    let labels: Option<LabelRequirements> = query.label.as_deref().map(|label| label.parse().unwrap());
    let rule = query.rule.as_deref().map(RulePattern::new);
    let owner = entry.owner.as_ref().map_or("", |owner| &*owner.name);
    let namespace = entry.resource.namespace.as_deref().unwrap_or_default();
    let Entry { resource, policy, rule: name, message, .. } = entry;
    let text =
        format!("{} {namespace}/{} {owner} {policy}/{name} {message}", resource.kind, resource.name).to_lowercase();
    let words = query.q.as_deref().unwrap_or_default().to_lowercase();
    is(&query.cluster, &cluster.name)
        && labels.is_none_or(|labels| labels.matches(&cluster.state.labels))
        && is(&query.namespace, place(entry))
        && is(&query.team, team.map_or("-", |team| &**team))
        && is(&query.kind, &owner_kind(entry))
        && is(&query.severity, severity(entry.severity))
        && rule.is_none_or(|rule| rule.matches_ids(policy, name, entry.rule_id.as_deref().into_iter()))
        && words.split_whitespace().all(|word| text.contains(word))
}

fn period(query: &PageQuery) -> Option<Timestamp> {
    let hours = match query.since.as_deref()? {
        "1h" => 1,
        "12h" => 12,
        "1d" => 24,
        "30h" => 30,
        "99d" => 99 * 24,
        _ => return None,
    };
    Some(now().saturating_sub(SignedDuration::from_hours(hours)).unwrap())
}

impl<'c> Selected<'c> {
    fn new(clusters: &'c [SampleCluster], query: &PageQuery) -> Self {
        let first = period(query);
        let since = first.unwrap_or_else(|| now().saturating_sub(SignedDuration::from_hours(24)).unwrap());
        let results = clusters.iter().flat_map(|cluster| cluster.results.iter().map(move |entry| (cluster, entry)));
        let is_taken = |found: &Found<'_>| {
            is_selected(query, *found) && first.is_none_or(|first| found.1.since.is_some_and(|at| at >= first))
        };
        let ended =
            clusters.iter().flat_map(|cluster| cluster.ended.iter().map(move |(entry, at)| ((cluster, entry), *at)));
        let ended = ended.filter(|(found, at)| is_selected(query, *found) && *at >= since);
        Self { results: results.filter(is_taken).collect(), ended: ended.collect(), since }
    }

    /// Returns the numbers of those for which a key is wanted.
    fn counts<K: Ord>(&self, key: impl Fn(Found<'c>) -> K) -> BTreeMap<K, ResultCounts> {
        let mut counts: BTreeMap<K, ResultCounts> = BTreeMap::new();
        let mut failing: BTreeSet<(K, &str, &ObjectRef)> = BTreeSet::new();
        for found @ (cluster, entry) in self.results.iter().copied() {
            let sums = counts.entry(key(found)).or_default();
            sums.classes[class(entry)] += 1;
            if entry.result != Outcome::Skip && failing.insert((key(found), &cluster.name, &entry.resource)) {
                sums.failing_objects += 1;
            }
            if self.is_new(entry) {
                sums.new += 1;
                sums.severe += usize::from(matches!(entry.severity, Some(Severity::Critical | Severity::High)));
                sums.changed = sums.changed.max(seconds(entry.since.unwrap()));
            }
        }
        for (found, at) in &self.ended {
            let sums = counts.entry(key(*found)).or_default();
            sums.resolved += 1;
            sums.changed = sums.changed.max(seconds(*at));
        }
        counts
    }

    fn is_new(&self, entry: &Entry) -> bool {
        entry.result.is_violation() && !entry.is_handed_over && entry.since.is_some_and(|at| at >= self.since)
    }

    /// Returns failing objects, failing clusters, excused results and errors of each rule.
    fn rules(&self) -> BTreeMap<String, [usize; 4]> {
        let mut rules: BTreeMap<String, NaiveRule<'_>> = BTreeMap::new();
        for (cluster, entry) in &self.results {
            let rule = rules.entry(format!("{}/{}", entry.policy, entry.rule)).or_default();
            match entry.result {
                Outcome::Skip => rule.2 += 1,
                Outcome::Error => rule.3 += 1,
                Outcome::Fail | Outcome::Warn => {
                    rule.0.insert((&cluster.name, &entry.resource));
                    rule.1.insert(&cluster.name);
                }
            }
        }
        rules
            .into_iter()
            .map(|(rule, (failing, of, excused, errors))| (rule, [failing.len(), of.len(), excused, errors]))
            .collect()
    }

    /// Returns the times of the changes, the latest first.
    fn changes(&self) -> Vec<u32> {
        let new = self.results.iter().filter(|(_, entry)| self.is_new(entry)).filter_map(|(_, entry)| entry.since);
        let mut times: Vec<u32> = new.chain(self.ended.iter().map(|(_, at)| *at)).map(seconds).collect();
        times.sort_by_key(|at| std::cmp::Reverse(*at));
        times
    }
}

fn class(entry: &Entry) -> usize {
    entry.result as usize * Severity::INDICES + Severity::index(entry.severity)
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.as_second()).unwrap()
}

/// Returns what identifies a result, for comparisons in any order.
fn line(cluster: &str, entry: &Entry) -> String {
    let since = entry.since.map(seconds);
    format!("{cluster} {} {:?} {} {:?} {since:?}", entry.resource, entry.result, entry.message, entry.severity)
}

/// Compares the numbers of a selection by cluster, namespace, team and rule.
fn compare_counts(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>, selected: &Selected<'_>) {
    let total = selected.counts(|_| ()).into_values().next().unwrap_or_default();
    assert_eq!(counts.total, total);
    let by_cluster = selected.counts(|(cluster, _)| cluster.name.to_string());
    let names = selection.clusters.iter().map(|selected| selected.cluster.name.to_string());
    let shown = names.zip(counts.clusters.iter().cloned()).filter(|(_, counts)| !counts.is_empty());
    assert_eq!(shown.collect::<BTreeMap<_, _>>(), by_cluster);
    let by_place = selected.counts(|(cluster, entry)| (cluster.name.to_string(), entry.resource.namespace.clone()));
    let shown = counts.places.iter().map(|row| {
        let name = selection.clusters[row.cluster].cluster.name.to_string();
        ((name, row.place.clone()), row.counts.clone())
    });
    assert_eq!(shown.collect::<BTreeMap<_, _>>(), by_place);
    let by_team = selected.counts(|(cluster, entry)| {
        entry.resource.namespace.as_deref().and_then(|own| cluster.state.teams.get(own)).map(ToString::to_string)
    });
    let shown = counts.teams().into_iter().map(|(team, sums)| (team.map(str::to_owned), sums.counts));
    assert_eq!(shown.collect::<BTreeMap<_, _>>(), by_team);
    assert_eq!(counts.rule_numbers(), selected.rules());
}

/// Compares the lists of results and changes, page by page.
fn compare_lists(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>, selected: &Selected<'_>) {
    let all = counts.total.results();
    let results: Vec<_> =
        (0..all.div_ceil(3)).flat_map(|page| selection.results(counts, page * 3..(page * 3 + 3).min(all))).collect();
    let classes: Vec<usize> = results.iter().map(|result| class(&result.entry)).collect();
    assert!(classes.is_sorted() && classes.iter().all(|class| *class < CLASSES), "{classes:?}");
    let mut lines: Vec<String> =
        results.iter().map(|result| line(&selection.clusters[result.cluster].cluster.name, &result.entry)).collect();
    let mut wanted: Vec<String> = selected.results.iter().map(|(cluster, entry)| line(&cluster.name, entry)).collect();
    lines.sort();
    wanted.sort();
    assert_eq!(lines, wanted);
    let times = selected.changes();
    for most in [0, 1, 4, 1_000] {
        let changes = selection.changes(counts, most);
        let shown: Vec<u32> =
            changes.iter().map(|change| seconds(change.ended.or(change.entry.since).unwrap())).collect();
        assert_eq!(shown, times[..times.len().min(most)], "{most}");
    }
}

#[test]
fn all_numbers_are_those_of_the_filters() {
    let seed = std::env::var("KAUDIT_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seed.map_or(0..60, |seed| seed..seed + 1) {
        let mut random = Rng::with_seed(seed);
        let clusters = clusters(&mut random);
        let page = page(&clusters);
        for _ in 0..25 {
            let query = query(&mut random);
            println!("seed {seed}, {}", query.url());
            let selection = FleetSelection::new(&page, &query);
            assert_eq!(selection.problem, None);
            let counts = selection.count();
            let selected = Selected::new(&clusters, &query);
            compare_counts(&selection, &counts, &selected);
            compare_lists(&selection, &counts, &selected);
            let csv = csv_lines(&page, &query);
            assert_eq!(csv.len(), selected.results.len());
            let json = json(&page, &query);
            let results = json["results"].as_array().unwrap();
            assert_eq!(results.len(), selected.results.len());
            assert!(results.iter().all(|result| result["resource"]["cluster"].is_string()), "{json}");
        }
    }
}
