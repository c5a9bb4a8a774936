//! New and resolved violations of all clusters, the newest first.

use maud::{Markup, html};

use super::super::{counts::FleetCounts, layout::cluster_link, results::ListedResult, selection::FleetSelection};
use super::objects::object_link;
use crate::output::{
    names::object_name,
    page::{
        paging::Pagination,
        parts::{badge, in_words, time_at},
    },
    safe::shown_line,
};

/// Number of changes per page.
const CHANGES: usize = 100;
/// How many changes are listed at most.
const MOST_CHANGES: usize = 10_000;

pub(super) fn view(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    let all = counts.total.new + counts.total.resolved;
    let pages = Pagination::new(all.min(MOST_CHANGES), CHANGES, selection.query);
    let shown = pages.shown();
    let changes = selection.changes(counts, shown.end);
    html! {
        h2 { (title(selection, counts)) }
        p.note {
            "Violations that existed before kaudit was installed in a cluster count as new from its first run. Resolved ones are "
            "kept for a week."
        }
        @if all > MOST_CHANGES { p.note { "The latest " (MOST_CHANGES) " of " (all) " changes are listed; use filters for others." } }
        (list(selection, changes.get(shown).unwrap_or_default()))
        (pages.links(selection.query))
    }
}

/// Returns the numbers of changes and their period.
pub(super) fn title(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> String {
    let period = selection.page.at.duration_since(selection.since);
    format!("Last {}: {} new, {} resolved", in_words(period), counts.total.new, counts.total.resolved)
}

/// Shows changes.
pub(super) fn list(selection: &FleetSelection<'_>, changes: &[ListedResult]) -> Markup {
    html! {
        @if changes.is_empty() { p { "No changes." } }
        ul.plain.changes { @for ListedResult { cluster, entry, ended } in changes {
            @let name = &*selection.clusters[*cluster].cluster.name;
            li {
                @if ended.is_some() { b.badge.resolved { "resolved" } } @else { (badge(entry)) }
                div {
                    a href=(object_link(name, entry)) { (object_name(&entry.resource, false)) } " in "
                    a href=(cluster_link(selection, name)) { (shown_line(name)) } " "
                    span.message { (shown_line(&entry.message)) } " "
                    span.note {
                        (shown_line(&entry.id_of_rule()))
                        @if let Some(at) = ended.or(entry.since) { ", " (time_at(selection.page.at, at)) }
                    }
                }
            }
        } }
    }
}
