//! The first view: which clusters are worst, which are not live, and what has changed.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::{
    counts::FleetCounts,
    layout::{cluster_link, headline, status_badge},
    selection::FleetSelection,
};
use super::{changes, clusters, namespaces, rules};
use crate::{
    fleet::view::ClusterStatus,
    output::{
        page::{parts::severities, query::View},
        safe::shown_line,
        style::count,
    },
};

/// Number of rows in each table.
const ROWS: usize = 8;
/// Number of changes.
const CHANGES: usize = 4;
/// Number of clusters that are not live.
const OTHERS: usize = 5;

pub(super) fn view(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    let query = selection.query;
    let (worst, places) = (counts.worst_clusters(), counts.worst_places());
    html! {
        h2 { span.headline { (headline(selection, counts)) } }
        div.cards {
            section aria-labelledby="severities-title" {
                h3 #severities-title { "Severities" }
                (severities(&counts.total.severities(), |word| {
                    Some(query.to(View::Objects).with(|query| query.severity = Some(word.to_owned())))
                }))
            }
            section aria-labelledby="status-title" {
                h3 #status-title { a href=(query.to(View::Coverage).url()) { "Status" } }
                (status(selection))
            }
            section aria-labelledby="changes-title" {
                h3 #changes-title { a href=(query.to(View::Changes).url()) { (changes::title(selection, counts)) } }
                @if counts.total.severe > 0 { p { (counts.total.severe) " of the new ones are critical or high." } }
                (changes::list(selection, &selection.changes(counts, CHANGES)))
            }
        }
        section.columns {
            section aria-labelledby="clusters-title" {
                h3 #clusters-title { "Clusters" }
                (clusters::table(selection, counts, &worst[..worst.len().min(ROWS)]))
                @if worst.len() > ROWS { p { a href=(query.to(View::Clusters).url()) { "All " (worst.len()) " clusters" } } }
            }
        }
        div.columns {
            section aria-labelledby="namespaces-title" {
                h3 #namespaces-title { "Namespaces" }
                (namespaces::table(selection, &places[..places.len().min(ROWS)], false))
                @if places.len() > ROWS { p { a href=(query.to(View::Namespaces).url()) { "All " (places.len()) " namespaces" } } }
            }
            section aria-labelledby="rules-title" {
                h3 #rules-title { "Rules" }
                (rules::table(selection, &counts.rules[..counts.rules.len().min(ROWS)]))
                @if counts.rules.len() > ROWS { p { a href=(query.to(View::Rules).url()) { "All " (counts.rules.len()) " rules" } } }
            }
        }
    }
}

/// Returns a number that is lower for a status that needs attention sooner.
fn urgency(status: &ClusterStatus) -> u8 {
    match status {
        ClusterStatus::Unreadable => 0,
        ClusterStatus::Old(_) => 1,
        ClusterStatus::Incomplete => 2,
        ClusterStatus::Starting => 3,
        ClusterStatus::Live => 4,
    }
}

/// Shows how many clusters have each status, and names the first that are not live.
fn status(selection: &FleetSelection<'_>) -> Markup {
    let page = selection.page;
    let mut statuses: BTreeMap<&str, (usize, ClusterStatus)> = BTreeMap::new();
    let mut others = Vec::new();
    for selected in &selection.clusters {
        let status = selected.cluster.status(page.at);
        if status != ClusterStatus::Live {
            others.push((urgency(&status), &*selected.cluster.name, clusters::reason(selected.cluster, page.at)));
        }
        statuses.entry(status.word()).or_insert((0, status)).0 += 1;
    }
    others.sort_by_key(|(urgency, ..)| *urgency);
    let missing = clusters::missing(selection);
    html! {
        ul.counts {
            @for (number, status) in statuses.values() { li { span { (status_badge(status)) " " (number) } } }
            @if !missing.is_empty() { li { span { b.badge.fail { "missing" } " " (missing.len()) } } }
        }
        @if others.is_empty() && missing.is_empty() && !selection.clusters.is_empty() {
            p { "Everything in scope is checked in " (count(selection.clusters.len(), "cluster")) "." }
        }
        ul.plain-list {
            @for name in missing.iter().take(OTHERS) { li.error { (shown_line(name)) ": has no bucket" } }
            @for (_, name, why) in others.iter().take(OTHERS) {
                li.error { a href=(cluster_link(selection, name)) { (shown_line(name)) } ": " (why) }
            }
            @let more = others.len().saturating_sub(OTHERS) + missing.len().saturating_sub(OTHERS);
            @if more > 0 { li { a href=(selection.query.to(View::Coverage).url()) { (more) " more" } } }
        }
    }
}
