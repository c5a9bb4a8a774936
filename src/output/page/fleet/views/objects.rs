//! Results of all clusters in lines, the most severe first.

use maud::{Markup, html};

use super::super::{
    counts::FleetCounts,
    layout::{cluster_link, headline},
    results::ListedResult,
    selection::FleetSelection,
};
use crate::{
    audit::result::Entry,
    output::{
        names::message,
        page::{
            layout::shown_place,
            owners,
            paging::Pagination,
            parts::{badge, lines, severities, time_at},
            query::{PageQuery, View, place},
        },
        safe::shown_line,
    },
};

/// Number of results per page.
const RESULTS: usize = 100;

pub(super) fn view(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    let pages = Pagination::new(counts.total.results(), RESULTS, selection.query);
    let results = selection.results(counts, pages.shown());
    html! {
        h2 { span.headline { (headline(selection, counts)) } }
        (severities(&counts.total.severities(), |word| {
            Some(selection.query.with(|query| query.severity = Some(word.to_owned())))
        }))
        @if results.is_empty() { p { "No results match the filters." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Table of results" {
                table {
                    thead { tr {
                        th scope="col" { "Object" } th scope="col" { "Cluster" } th scope="col" { "Namespace" }
                        th scope="col" { "Severity" } th scope="col" { "Result" }
                    } }
                    tbody { @for result in &results { (row(selection, result)) } }
                }
            }
        }
        (pages.links(selection.query))
        @if !results.is_empty() {
            p.note {
                "These results as " a href=(format!("{}&format=csv", selection.query.url())) { "CSV" } " or "
                a href=(format!("{}&format=json", selection.query.url())) { "JSON" }
            }
        }
    }
}

fn row(selection: &FleetSelection<'_>, ListedResult { cluster, entry, .. }: &ListedResult) -> Markup {
    let name = &*selection.clusters[*cluster].cluster.name;
    html! {
        tr {
            th scope="row" { a href=(object_link(name, entry)) { (shown_line(&format!("{} {}", entry.resource.kind, entry.resource.name))) } }
            td data-label="Cluster" { a href=(cluster_link(selection, name)) { (shown_line(name)) } }
            td data-label="Namespace" { (shown_place(place(entry))) }
            td { (badge(entry)) }
            td {
                span.message { (lines(&message(entry))) } " "
                span.note {
                    (shown_line(&entry.id_of_rule()))
                    @if let Some(since) = entry.since { ", since " (time_at(selection.page.at, since)) }
                }
            }
        }
    }
}

/// Returns a link to the object of a result, on the page of its cluster.
pub(super) fn object_link(cluster: &str, entry: &Entry) -> String {
    let object = Some(owners::name(owners::of(entry)));
    PageQuery { view: View::Overview, cluster: Some(cluster.to_owned()), object, ..PageQuery::default() }.url()
}
