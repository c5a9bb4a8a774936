//! Clusters with their status and their numbers of violations, the most severe first.

use jiff::Timestamp;
use maud::{Markup, html};

use super::super::{
    counts::FleetCounts,
    layout::{cluster_link, status_badge},
    selection::FleetSelection,
    table::{CountedRow, CountedTable},
};
use crate::{
    fleet::{clusters::Cluster, view::ClusterStatus},
    output::{
        page::{
            paging::Pagination,
            parts::time_at,
            query::{PageQuery, View},
        },
        safe::shown_line,
        style::count,
    },
};

/// Number of clusters per page.
const CLUSTERS: usize = 100;

pub(super) fn view(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    let rows = counts.worst_clusters();
    let pages = Pagination::new(rows.len(), CLUSTERS, selection.query);
    let missing = missing(selection);
    html! {
        h2 { (count(rows.len(), "cluster")) }
        @if !missing.is_empty() {
            p.error { "Expected, but without a bucket: " (shown_line(&missing.join(", "))) "." }
        }
        (table(selection, counts, &rows[pages.shown()]))
        (pages.links(selection.query))
    }
}

/// Shows clusters, which are given by their indices.
pub(super) fn table(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>, clusters: &[usize]) -> Markup {
    let now = selection.page.at;
    let row = |index: &usize| {
        let (cluster, counts) = (selection.clusters.get(*index)?.cluster, counts.clusters.get(*index)?);
        let name = &*cluster.name;
        let labels: Vec<String> =
            cluster.labels().iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
        let versions: Vec<&str> = cluster.versions().into_iter().collect();
        let objects = PageQuery { cluster: Some(name.to_owned()), label: None, ..selection.query.to(View::Objects) };
        Some(CountedRow {
            first: html! { a href=(cluster_link(selection, name)) { (shown_line(name)) } },
            before: vec![
                html! {
                    (status_badge(&cluster.status(now)))
                    @if let Some(at) = cluster.heartbeat() { " " span.note { (time_at(now, at)) } }
                },
                html! { (shown_line(&labels.join(", "))) },
            ],
            counts,
            objects,
            after: vec![html! { (shown_line(&versions.join(", "))) }],
        })
    };
    let table = CountedTable {
        label: "Table of clusters",
        first: "Cluster",
        before: vec!["Status, heartbeat", "Labels"],
        after: vec!["kaudit"],
    };
    let rows: Vec<_> = clusters.iter().filter_map(row).collect();
    if rows.is_empty() {
        html! { p { "No cluster." } }
    } else {
        table.show(&rows)
    }
}

/// Returns the expected clusters without a bucket that the query selects.
pub(super) fn missing<'v>(selection: &FleetSelection<'v>) -> Vec<&'v str> {
    let PageQuery { cluster, label, .. } = selection.query;
    let names = selection.page.missing.iter().map(String::as_str);
    names.filter(|name| label.is_none() && cluster.as_deref().is_none_or(|wanted| wanted == *name)).collect()
}

/// Says why a cluster is not live.
pub(super) fn reason(cluster: &Cluster, now: Timestamp) -> Markup {
    match cluster.status(now) {
        ClusterStatus::Live => html! { "live" },
        ClusterStatus::Starting => html! { "starting" },
        ClusterStatus::Incomplete => html! { "not everything is checked" },
        ClusterStatus::Old(Some(at)) => html! { "last heartbeat " (time_at(now, at)) },
        ClusterStatus::Old(None) => html! { "no heartbeat" },
        ClusterStatus::Unreadable => html! { (shown_line(&cluster.problem().unwrap_or_default())) },
    }
}
