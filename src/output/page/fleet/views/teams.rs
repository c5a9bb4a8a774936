//! Teams with their numbers of violations in all clusters, the most severe first.

use maud::{Markup, html};

use super::super::{
    counts::FleetCounts,
    layout::shown_team,
    selection::FleetSelection,
    table::{CountedRow, CountedTable},
};
use crate::output::{
    page::{
        paging::Pagination,
        prepared::NONE,
        query::{PageQuery, View},
    },
    style::count,
};

/// Number of teams per page.
const TEAMS: usize = 100;

pub(super) fn view(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    let teams = counts.teams();
    let pages = Pagination::new(teams.len(), TEAMS, selection.query);
    let named = teams.iter().filter(|(team, _)| team.is_some()).count();
    let rows = teams[pages.shown()].iter().map(|(team, sums)| {
        let team = team.unwrap_or(NONE);
        let of = |view| PageQuery { team: Some(team.to_owned()), ..selection.query.to(view) };
        CountedRow {
            first: html! { a href=(of(View::Overview).url()) { (shown_team(team)) } },
            before: vec![
                html! { a href=(of(View::Clusters).url()) { (sums.clusters.len()) } },
                html! { a href=(of(View::Namespaces).url()) { (sums.namespaces) } },
            ],
            counts: &sums.counts,
            objects: of(View::Objects),
            after: Vec::new(),
        }
    });
    let table = CountedTable {
        label: "Table of teams",
        first: "Team",
        before: vec!["Clusters", "Namespaces"],
        after: Vec::new(),
    };
    html! {
        h2 { (count(named, "team")) " with results or changes" }
        @if named == 0 { p.note { "The team of a namespace is one of its labels: see " code { "--team-label" } " of " code { "kaudit check" } "." } }
        (table.show(&rows.collect::<Vec<_>>()))
        (pages.links(selection.query))
    }
}
