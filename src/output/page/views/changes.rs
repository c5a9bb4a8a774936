//! New and resolved violations, the newest first.

use maud::{Markup, html};

use super::super::{
    layout::shown_place,
    owners,
    paging::Pagination,
    parts::{badge, in_words, time},
    query::{POLICIES, View, place},
    selection::{ChangeGroup, PageSelection},
};
use crate::output::{names::object_name, safe::shown_line, style::count};

/// Number of changes per page.
const CHANGES: usize = 100;

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let changes = selection.changes();
    let pages = Pagination::of(changes.len(), CHANGES, selection);
    html! {
        h2 { (title(selection)) }
        (super::history::chart(selection))
        p.note {
            "Violations that existed before kaudit was installed count as new from its first run. Resolved ones are known since this \
             process started, " (time(selection, selection.page.context.began)) "."
        }
        (list(selection, &changes[pages.shown()]))
        (pages.links(selection.query))
    }
}

/// Returns the numbers of changes and their period.
pub(super) fn title(selection: &PageSelection<'_>) -> String {
    let (new, resolved) = (selection.new.len(), selection.ended.len());
    if selection.query.since.as_deref() == Some(POLICIES) && selection.page.context.policies_since.is_some() {
        return format!("Since the policies changed: {new} new, {resolved} resolved");
    }
    let period = selection.page.context.at.duration_since(selection.since);
    format!("Last {}: {new} new, {resolved} resolved", in_words(period))
}

/// Shows changes.
pub(super) fn list(selection: &PageSelection<'_>, changes: &[ChangeGroup<'_>]) -> Markup {
    html! {
        @if changes.is_empty() { p { "No changes." } }
        ul.plain.changes { @for change in changes { @if let Some(first) = change.entries.first() { li {
            @if change.resolved { b.badge.resolved { "resolved" } } @else { (badge(first)) }
            div {
                @if change.entries.len() == 1 {
                    a href=(super::objects::link(selection.query, &owners::name(owners::of(first)))) { (object_name(&first.resource, false)) } " "
                    span.message { (shown_line(&first.message)) } " "
                } @else {
                    a href=(selection.query.to(View::Objects).with(|query| {
                        query.namespace = Some(place(first).to_owned());
                        query.rule = Some(first.id_of_rule());
                    })) { (count(change.entries.len(), "violation")) " in " (shown_place(place(first))) } " "
                    span.message { (shown_line(first.title.as_deref().unwrap_or(&first.rule))) } " "
                }
                span.note {
                    (shown_line(&first.id_of_rule()))
                    @if let Some(at) = change.at { ", " (time(selection, at)) }
                }
            }
        } } } }
    }
}
