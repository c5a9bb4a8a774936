//! Namespaces of all clusters with their numbers of violations, the most severe first.

use maud::{Markup, html};

use super::super::{
    counts::{FleetCounts, PlaceCounts},
    layout::cluster_link,
    selection::FleetSelection,
    table::{CountedRow, CountedTable},
};
use crate::output::{
    page::{
        layout::shown_place,
        paging::Pagination,
        query::{PageQuery, View, place_name},
    },
    safe::shown_line,
    style::count,
};

/// Number of namespaces per page.
const NAMESPACES: usize = 100;

pub(super) fn view(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    let rows = counts.worst_places();
    let pages = Pagination::new(rows.len(), NAMESPACES, selection.query);
    html! {
        h2 { (count(rows.len(), "namespace")) " with results or changes" }
        (table(selection, &rows[pages.shown()], rows.iter().any(|row| row.team.is_some())))
        (pages.links(selection.query))
    }
}

/// Shows namespaces, with their teams or without.
pub(super) fn table(selection: &FleetSelection<'_>, rows: &[&PlaceCounts<'_>], has_teams: bool) -> Markup {
    let before = if has_teams { vec!["Cluster", "Team"] } else { vec!["Cluster"] };
    let table = CountedTable { label: "Table of namespaces", first: "Namespace", before, after: Vec::new() };
    let rows: Vec<_> = rows.iter().map(|place| row(selection, place, has_teams)).collect();
    table.show(&rows)
}

fn row<'c>(selection: &FleetSelection<'_>, row: &'c PlaceCounts<'_>, has_teams: bool) -> CountedRow<'c> {
    let name = &*selection.clusters[row.cluster].cluster.name;
    let objects = PageQuery {
        cluster: Some(name.to_owned()),
        label: None,
        namespace: Some(place_name(row.place.as_deref()).to_owned()),
        ..selection.query.to(View::Objects)
    };
    let mut before = vec![html! { a href=(cluster_link(selection, name)) { (shown_line(name)) } }];
    if has_teams {
        before.push(html! { (row.team.map_or(String::new(), shown_line)) });
    }
    CountedRow {
        first: html! { a href=(objects.url()) { (shown_place(place_name(row.place.as_deref()))) } },
        before,
        counts: &row.counts,
        objects,
        after: Vec::new(),
    }
}
