//! Namespaces with their numbers of violations, the most severe first.

use maud::{Markup, html};

use super::super::{
    layout::shown_place,
    paging::Pagination,
    parts::{delta, severity_label},
    query::{PageQuery, View, severity},
    selection::{NamespaceRow, PageSelection, SeverityCounts},
};
use crate::output::{safe::shown_line, style::count};

/// Number of namespaces per page.
const NAMESPACES: usize = 200;

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let rows = selection.namespaces();
    let pages = Pagination::of(rows.len(), NAMESPACES, selection);
    html! {
        h2 { (count(rows.len(), "namespace")) " with results or changes" }
        (table(selection, &rows[pages.shown()]))
        (pages.links(selection.query))
    }
}

/// Shows rows of namespaces.
pub(super) fn table(selection: &PageSelection<'_>, rows: &[NamespaceRow<'_>]) -> Markup {
    let has_teams = rows.iter().any(|row| row.team.is_some());
    let has_excused = rows.iter().any(|row| row.excused > 0);
    let severities = SeverityCounts::occurring(rows.iter().map(|row| &row.counts));
    html! {
        @if rows.is_empty() { p { "No results." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Table of namespaces" {
                table {
                    thead { tr {
                        th scope="col" { "Namespace" }
                        @if has_teams { th scope="col" { "Team" } }
                        @for known in &severities { th.number scope="col" { (severity_label(severity(*known))) } }
                        @if has_excused { th.number scope="col" { "Excused" } }
                        @if !selection.is_file { th.number scope="col" { "New, resolved" } }
                    } }
                    tbody { @for row in rows {
                        @let of = |change: &dyn Fn(&mut PageQuery)| {
                            selection.query.to(View::Objects).with(|query| {
                                query.namespace = Some(row.place.to_owned());
                                change(query);
                            })
                        };
                        tr data-namespace=[selection.is_file.then(|| shown_line(row.place))] {
                            th scope="row" { a href=(of(&|_| ())) { (shown_place(row.place)) } }
                            @if has_teams { td { (row.team.map_or(String::new(), shown_line)) } }
                            @for (known, number) in row.counts.iter().filter(|(known, _)| severities.contains(known)) {
                                @let word = severity(known);
                                td.number data-label=(severity_label(word)) {
                                    @if number > 0 {
                                        a.badge.(word) href=(of(&|query| query.severity = Some(word.to_owned()))) { (number) }
                                    }
                                }
                            }
                            @if has_excused { td.number data-label="Excused" { @if row.excused > 0 { (row.excused) } } }
                            @if !selection.is_file { td.number data-label="New, resolved" { (delta(row.new, row.resolved)) } }
                        }
                    } }
                }
            }
        }
    }
}
