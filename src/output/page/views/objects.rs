//! Objects with results, the most severe first; each opens in place.

use maud::{Markup, html};

use super::super::{
    layout::{counts, shown_place},
    owners::{self, OwnerResults},
    paging::Pagination,
    parts::{badge, lines, severities, time},
    query::PageQuery,
    selection::{Selection, SeverityCounts},
};
use crate::{
    audit::result::Entry,
    output::{names::message, safe::shown_line, style::count},
};

/// Number of objects per page.
const OBJECTS: usize = 50;
/// Maximum number of results that an object shows in the list.
const RESULTS: usize = 8;

pub(super) fn view(selection: &Selection<'_>) -> Markup {
    let owners = owners::grouped(selection.entries.iter().copied());
    let pages = Pagination::of(owners.len(), OBJECTS, selection.query);
    let place = selection.query.namespace.as_deref().map(shown_place);
    html! {
        h2 {
            @if let Some(place) = place { (place) ": " }
            (counts(selection)) " in " (count(selection.failing_objects(), "object"))
            @if let Some(checked) = selection.checked_objects() { " of " (checked) }
        }
        (severities(&SeverityCounts::of(selection.violations()), |word| {
            Some(selection.query.with(|query| query.severity = Some(word.to_owned())))
        }))
        @if owners.is_empty() { p { "No results: each object that was checked and matches the filters is clean." } }
        ul.objects { @for owner in &owners[pages.shown()] { li { (object(selection, owner)) } } }
        (pages.links(selection.query))
    }
}

/// Shows one object in a line, and its results when it is opened.
fn object(selection: &Selection<'_>, owner: &OwnerResults<'_>) -> Markup {
    let Some(worst) = owner.entries.first() else { return Markup::default() };
    let named = owners::of(worst);
    let more = owner.entries.len().saturating_sub(RESULTS);
    let by_severity = SeverityCounts::of(owner.entries.iter().copied());
    html! {
        details {
            summary {
                span.kind { (shown_line(&named.kind)) }
                @if let Some(namespace) = &named.namespace { span.namespace { (shown_line(namespace)) } }
                b.name { (shown_line(&named.name)) }
                span.badges {
                    @for (known, number) in by_severity.iter().filter(|(_, number)| *number > 0) {
                        @let word = super::super::query::severity(known);
                        b.badge.(word) title=(word) { (number) }
                    }
                    @if by_severity.total() == 0 { (badge(worst)) }
                    @if is_new(selection, &owner.entries) { b.badge.new { "new" } }
                }
                span.note.worst { (shown_line(&worst.message)) }
            }
            ul.results {
                @for entry in owner.entries.iter().take(RESULTS) { li { (result(selection, entry)) } }
            }
            p {
                a href=(link(&owner.name)) {
                    @if more > 0 { (more) " more results, " }
                    "how to fix and explain"
                }
            }
        }
    }
}

fn is_new(selection: &Selection<'_>, entries: &[&Entry]) -> bool {
    let since = selection.page.context.at.saturating_sub(crate::audit::ended::KEPT).ok();
    entries.iter().any(|entry| entry.result.is_violation() && entry.since >= since && entry.since.is_some())
}

/// Shows a result in one line.
pub(super) fn result(selection: &Selection<'_>, entry: &Entry) -> Markup {
    let title = entry.title.as_deref().unwrap_or(&entry.rule);
    let id = entry.rule_id.as_deref().map_or_else(|| format!("{}/{}", entry.policy, entry.rule), str::to_owned);
    html! {
        (badge(entry)) " "
        span.message { (lines(&message(entry))) } " "
        span.note {
            (shown_line(title)) " "
            a href=(PageQuery { view: super::super::query::View::Rules, rule: Some(id.clone()), ..PageQuery::default() }.url()) { (shown_line(&id)) }
            @if let Some(since) = entry.since { ", since " (time(since, selection.page.context.at)) }
        }
    }
}

/// Returns the URL of an object.
pub(super) fn link(object: &str) -> String {
    PageQuery { object: Some(object.to_owned()), ..PageQuery::default() }.url()
}
