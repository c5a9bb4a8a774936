//! The clusters whose results are not all results of now, and why.

use maud::{Markup, html};

use super::super::{
    layout::{cluster_link, status_badge},
    selection::FleetSelection,
};
use super::clusters::missing;
use crate::{
    fleet::clusters::Cluster,
    output::{
        page::{paging::Pagination, parts::time_at},
        safe::shown_line,
        style::{Paint, count},
        summary::gap_lines,
    },
};

/// Number of clusters per page.
const CLUSTERS: usize = 50;
/// Number of gaps of a cluster in the list; its own page has all of them.
const GAPS: usize = 20;

pub(super) fn view(selection: &FleetSelection<'_>) -> Markup {
    let now = selection.page.at;
    let gaps = selection.clusters.iter().map(|selected| (selected.cluster, gaps(selection, selected.cluster)));
    let gaps: Vec<(&Cluster, Vec<String>)> =
        gaps.filter(|(_, gaps)| !gaps.is_empty()).map(|(cluster, gaps)| (&**cluster, gaps)).collect();
    let missing = missing(selection);
    let complete = selection.clusters.len() - gaps.len();
    let pages = Pagination::new(gaps.len(), CLUSTERS, selection.query);
    html! {
        section #trust aria-labelledby="trust-title" {
            h2 #trust-title { "Status" }
            p { "Everything in scope is checked in " (complete) " of " (count(selection.clusters.len(), "cluster")) "." }
            @if !missing.is_empty() {
                p.error { "Expected, but without a bucket: " (shown_line(&missing.join(", "))) "." }
            }
        }
        @if !gaps.is_empty() {
            div.columns { section { div.scroll tabindex="0" role="region" aria-label="Clusters that are not complete" {
                table {
                    thead { tr { th scope="col" { "Cluster" } th scope="col" { "Status, heartbeat" } th scope="col" { "Not checked" } } }
                    tbody { @for (cluster, gaps) in &gaps[pages.shown()] { tr {
                        th scope="row" { a href=(cluster_link(selection, &cluster.name)) { (shown_line(&cluster.name)) } }
                        td data-label="Status, heartbeat" {
                            (status_badge(&cluster.status(now)))
                            @if let Some(at) = cluster.heartbeat() { " " span.note { (time_at(now, at)) } }
                        }
                        td data-label="Not checked" { ul.plain-list {
                            @for gap in gaps.iter().take(GAPS) { li { (gap) } }
                            @if gaps.len() > GAPS { li { (gaps.len() - GAPS) " more" } }
                        } }
                    } } }
                }
            } } }
            (pages.links(selection.query))
        }
    }
}

/// Returns why the results of a cluster are not all results of now.
fn gaps(selection: &FleetSelection<'_>, cluster: &Cluster) -> Vec<String> {
    let mut gaps: Vec<String> = cluster.gap(selection.page.at).iter().map(|why| shown_line(why)).collect();
    for state in cluster.states() {
        gaps.extend(gap_lines(&state.result, Paint(false)));
        gaps.extend(state.problems.iter().map(|problem| shown_line(problem)));
        if !state.result.complete && gaps.is_empty() {
            gaps.push("not everything is checked".to_owned());
        }
    }
    gaps
}
