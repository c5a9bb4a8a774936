//! One object with its dependents: what to change, each result with its reason, and how to excuse it.

use maud::{Markup, html};

use super::super::{
    owners::{self, OwnerResults},
    paging::Pagination,
    parts::{lines, place, severities, time, words},
    query::View,
    selection::{PageSelection, SeverityCounts},
};
use super::{
    fix::{command, fix},
    objects::{line, rule_link},
};
use crate::{
    audit::result::Entry,
    output::{
        draft::drafts,
        names::{object_name, rule_name},
        rules::RuleCatalog,
        safe::shown_line,
        style::count,
    },
};

/// Number of results per page.
const RESULTS: usize = 50;
/// Results that are open at first.
const OPEN: usize = 1;

pub(super) fn view(selection: &PageSelection<'_>, owner: &OwnerResults<'_>) -> Markup {
    let catalog = RuleCatalog::of(&selection.page.result);
    let pages = Pagination::of(owner.entries.len(), RESULTS, selection);
    html! {
        p { a href=(selection.query.to(View::Objects).url()) { "All objects" } }
        h2.name { (shown_line(&owner.name)) }
        @if owner.entries.is_empty() {
            p { "No results for this object: it was checked and is clean, or it does not exist, or its kind is not checked (see " a href=(selection.query.only(View::Coverage).url()) { "Coverage" } ")." }
        } @else {
            (severities(&SeverityCounts::of(owner.entries.iter().copied()), |_| None))
        }
        (fix(&owner.entries, command))
        @if pages.last() > 1 { p { (count(owner.entries.len(), "result")) ", the most severe first" } }
        ul.results {
            @for (number, entry) in owner.entries[pages.shown()].iter().enumerate() {
                li { (result(selection, &catalog, owner, entry, number < OPEN)) }
            }
        }
        (pages.links(selection.query))
    }
}

/// Shows one result in a line, and everything about it when it is opened.
fn result(
    selection: &PageSelection<'_>,
    catalog: &RuleCatalog<'_>,
    owner: &OwnerResults<'_>,
    entry: &Entry,
    open: bool,
) -> Markup {
    let page = selection.page;
    html! {
        details open[open] {
            summary { (line(selection, entry)) }
            dl {
                @if owners::name(&entry.resource) != owner.name { dt { "Found in" } dd { (object_name(&entry.resource, true)) } }
                @if let Some(field) = entry.field() { dt { "Field" } dd { code { (shown_line(field)) } } }
                @if let Some(since) = entry.since { dt { "Since" } dd { (time(selection, since)) } }
                @if let Some(about) = catalog.about(&entry.policy, &entry.rule) { (words(about)) }
                dt { "Rule" } dd { (rule_link(selection.query, entry)) ", " code { (rule_name(entry)) } ", " code { (place(&entry.source)) } }
                dt { "Explain" } dd { code { "kubectl kaudit explain " (entry.id) } }
            }
            @if let Some(text) = catalog.text(entry) {
                details { summary { "Source of the rule" } pre tabindex="0" { (lines(text)) } }
            }
            @if entry.result.is_violation() && page.result.may_be_excused(entry)
                && let Ok(draft) = drafts(&page.result, &[entry], page.context.at) {
                details { summary { "Exception to copy" } pre tabindex="0" { (lines(&draft)) } }
            }
        }
    }
}
