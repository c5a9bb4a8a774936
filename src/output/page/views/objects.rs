//! Objects with results, the most severe first; each opens in place.

use jiff::Timestamp;
use maud::{Markup, html};

use super::super::{
    layout::{headline, shown_place},
    owners::{self, OwnerResults},
    paging::Pagination,
    parts::{anchor, badge, lines, severities, time},
    query::{PageQuery, View, place, severity},
    selection::{PageSelection, SeverityCounts},
};
use super::fix::fix;
use crate::{
    audit::result::Entry,
    output::{
        names::{message, object_name},
        safe::shown_line,
    },
};

/// Number of objects per page.
const OBJECTS: usize = 30;
/// Maximum number of results that an object shows in the list.
const RESULTS: usize = 5;

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let owners = owners::grouped(selection.entries.iter().copied());
    let pages = Pagination::of(owners.len(), OBJECTS, selection);
    let namespace = selection.query.namespace.as_deref().map(shown_place);
    html! {
        h2 {
            @if let Some(namespace) = namespace { (namespace) ": " }
            span.headline { (headline(selection)) }
        }
        (severities(&SeverityCounts::of(selection.violations()), |word| {
            Some(selection.query.with(|query| query.severity = Some(word.to_owned())))
        }))
        @if owners.is_empty() { p { "No results: each object that was checked and matches the filters is clean." } }
        ul.objects { @for owner in &owners[pages.shown()] { li { (object(selection, owner)) } } }
        (pages.links(selection.query))
        @if !selection.is_file && !owners.is_empty() {
            p.note { "These results as " a href=(format!("{}&format=csv", selection.query.url())) { "CSV" } }
        }
    }
}

/// Shows one object in a line, and its results when it is opened.
fn object(selection: &PageSelection<'_>, owner: &OwnerResults<'_>) -> Markup {
    let Some(worst) = owner.entries.first() else { return Markup::default() };
    let named = owners::of(worst);
    let shown = if selection.is_file { owner.entries.len() } else { owner.entries.len().min(RESULTS) };
    let more = owner.entries.len() - shown;
    let by_severity = SeverityCounts::of(owner.entries.iter().copied());
    html! {
        details data-kind=[selection.is_file.then(|| shown_line(&named.kind_with_group()))] {
            summary {
                span.kind { (shown_line(&named.kind)) }
                @if let Some(namespace) = &named.namespace { span.namespace { (shown_line(namespace)) } }
                b.name { (shown_line(&named.name)) }
                span.badges {
                    @for (known, number) in by_severity.iter().filter(|(_, number)| *number > 0) {
                        @let word = severity(known);
                        b.badge.(word) title=(word) { (number) }
                    }
                    @if by_severity.total() == 0 { (badge(worst)) }
                    @if !selection.is_file && is_new(selection, &owner.entries) { b.badge.new { "new" } }
                }
                span.note.worst { (shown_line(&worst.message)) }
            }
            ul.results id=[selection.is_file.then(|| anchor(&link(selection.query, &owner.name)).to_owned())] {
                @for entry in owner.entries.iter().take(shown) {
                    @if selection.is_file { (in_file(selection, owner, entry)) } @else { li { (result(selection, entry)) } }
                }
            }
            (fix(&owner.entries, |_, _| Markup::default()))
            @if !selection.is_file {
                p {
                    a href=(link(selection.query, &owner.name)) {
                        @if more > 0 { (more) " more results, " }
                        "how to fix and explain"
                    }
                }
            }
        }
    }
}

/// Shows a result in a file, with the data by which the script selects it.
fn in_file(selection: &PageSelection<'_>, owner: &OwnerResults<'_>, entry: &Entry) -> Markup {
    let is_dependent = owners::name(&entry.resource) != owner.name;
    html! {
        li data-namespace=(shown_line(place(entry))) data-team=[selection.page.team(entry).map(shown_line)]
            data-rule=(shown_line(&entry.id_of_rule())) data-severity=(severity(entry.severity)) data-result=(entry.result.word())
            data-dependent=[is_dependent.then(|| object_name(&entry.resource, true))] {
            (result(selection, entry))
            @if is_dependent { span.note { ", found in " (object_name(&entry.resource, true)) } }
            @if let Some(location) = &entry.location { " " code { (shown_line(&format!("{}:{}", location.file, location.line))) } }
        }
    }
}

fn is_new(selection: &PageSelection<'_>, entries: &[&Entry]) -> bool {
    let is_new = |first: Timestamp| first >= selection.page.a_day_ago();
    entries.iter().any(|entry| entry.result.is_violation() && entry.since.is_some_and(is_new))
}

/// Shows a result in one line, and a link to its rule.
fn result(selection: &PageSelection<'_>, entry: &Entry) -> Markup {
    html! { (line(selection, entry)) " " span.note { (rule_link(selection.query, entry)) } }
}

/// Returns a link to the rule of a result.
pub(super) fn rule_link(query: &PageQuery, entry: &Entry) -> Markup {
    let id = entry.id_of_rule();
    let url = PageQuery { rule: Some(id.clone()), ..query.only(View::Rules) }.url();
    html! { a href=(url) { (shown_line(&id)) } }
}

/// Shows a result in one line without links.
pub(super) fn line(selection: &PageSelection<'_>, entry: &Entry) -> Markup {
    let title = entry.title.as_deref().unwrap_or(&entry.rule);
    html! {
        (badge(entry)) " "
        span.message { (lines(&message(entry))) } " "
        span.note {
            (shown_line(title))
            @if let Some(since) = entry.since.filter(|_| !selection.is_file) { ", since " (time(selection, since)) }
        }
    }
}

/// Returns the URL of an object.
pub(super) fn link(query: &PageQuery, object: &str) -> String {
    PageQuery { object: Some(object.to_owned()), ..query.only(View::Overview) }.url()
}
