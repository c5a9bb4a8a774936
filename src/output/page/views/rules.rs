//! Rules with their numbers of failing objects; one rule with its description and source.

use maud::{Markup, html};

use super::super::{
    owners,
    paging::Pagination,
    parts::{anchor, badge, lines, place, words},
    query::{View, severity},
    selection::{PageSelection, RuleRow},
};
use crate::{
    audit::result::Entry,
    judge::{builtin, rule::RuleText, rule_example::RuleExample},
    output::{rules::RuleCatalog, safe::shown_line, style::count},
};

/// Number of rules per page.
const RULES: usize = 100;
/// Maximum number of objects listed below a rule.
const OBJECTS: usize = 20;

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let rows = selection.rules();
    if let ([row], Some(_)) = (&rows[..], &selection.query.rule) {
        return rule(selection, row);
    }
    let pages = Pagination::of(rows.len(), RULES, selection);
    html! {
        h2 { (count(rows.len(), "rule")) }
        (table(selection, &rows[pages.shown()]))
        (pages.links(selection.query))
        @if selection.is_file { @for row in &rows { (in_file(selection, row)) } }
    }
}

/// Shows rows of rules.
pub(super) fn table(selection: &PageSelection<'_>, rows: &[RuleRow<'_>]) -> Markup {
    html! {
        @if rows.is_empty() { p { "No results." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Table of rules" {
                table {
                    thead { tr {
                        th scope="col" { "Rule" } th scope="col" { "Severity" }
                        th.number scope="col" { "Failing" } th.number scope="col" { "of" } th.number scope="col" { "Share" }
                        th.number scope="col" { "Excused" }
                    } }
                    tbody { @for row in rows {
                        tr data-rule=[selection.is_file.then(|| shown_line(&row.id()))] {
                            th scope="row" {
                                a href=(selection.query.to(View::Rules).with(|query| query.rule = Some(row.id()))) {
                                    (shown_line(row.title()))
                                }
                                " " span.note { (shown_line(&row.id())) }
                            }
                            td { @let word = severity(row.severity()); b.badge.(word) { (word) } }
                            td.number data-label="Failing" { (row.failing) @if row.errors > 0 { " +" (row.errors) " errors" } }
                            @let total = row.total.map(|total| total.applicable);
                            td.number data-label="of" { @if let Some(total) = total { (total) } }
                            td.number data-label="Share" { @if let Some(total) = total { (share(row.failing, total)) } }
                            td.number data-label="Excused" { @if row.excused > 0 { (row.excused) } }
                        }
                    } }
                }
            }
        }
    }
}

/// Returns a share as a percentage, which is 0 % or 100 % only if it is exactly that.
pub(super) fn share(part: usize, whole: usize) -> String {
    if whole == 0 {
        return String::new();
    }
    match (part, (part * 100 + whole / 2) / whole) {
        (0, _) => "0 %".to_owned(),
        (_, 0) => "<1 %".to_owned(),
        (part, 100) if part < whole => ">99 %".to_owned(),
        (_, percent) => format!("{percent} %"),
    }
}

/// Shows one rule of a file, which opens when a link leads to it.
fn in_file(selection: &PageSelection<'_>, row: &RuleRow<'_>) -> Markup {
    let query = selection.query.to(View::Rules);
    html! {
        details.rule data-rule=(shown_line(&row.id())) {
            summary { (shown_line(row.title())) " " span.note { (shown_line(&row.id())) } }
            div id=(anchor(&query.with(|query| query.rule = Some(row.id())))) { (rule(selection, row)) }
        }
    }
}

/// Shows one rule: what it requires, its objects, and its source.
fn rule(selection: &PageSelection<'_>, row: &RuleRow<'_>) -> Markup {
    let catalog = RuleCatalog::of(&selection.page.result);
    // A file without results of a rule does not need its source.
    let has_source = !selection.is_file || row.first.is_some();
    let texts = Some(catalog.texts(row.policy, row.rule)).filter(|_| has_source).unwrap_or_default();
    let is_own = |entry: &&Entry| *entry.policy == *row.policy && *entry.rule == *row.rule;
    let entries = selection.violations().filter(is_own);
    let owners = owners::grouped(entries);
    let objects = selection.query.to(View::Objects).with(|query| query.rule = Some(row.id()));
    html! {
        h2 { (shown_line(row.title())) " " @let word = severity(row.severity()); b.badge.(word) { (word) } }
        dl {
            dt { "Rule" } dd { code { (shown_line(&format!("{}/{}", row.policy, row.rule))) } }
            @if let Some(about) = row.about { @if let Some(id) = &about.id { dt { "Id" } dd { (shown_line(id)) } } (words(about)) }
            dt { "Results" } dd {
                (count(row.failing, "failing object"))
                @if row.excused > 0 { ", " (row.excused) " excused" }
                @if row.errors > 0 { ", " (row.errors) " not evaluated" }
                @if let Some(counts) = catalog.objects(row.policy, row.rule) { ". In the whole audit: " (counts) }
            }
        }
        @if let Some(example) = example(row, texts) {
            details {
                summary { "Example" }
                div.examples {
                    @for (title, manifest) in [("Violation", &example.violating), ("Without it", &example.correct)] {
                        div { h3 { (title) } pre tabindex="0" { (lines(manifest)) } }
                    }
                }
            }
        }
        h3 { a href=(objects) { "Objects" } }
        ul.plain { @for owner in owners.iter().take(OBJECTS) {
            @if let Some(worst) = owner.entries.first() {
                li { (badge(worst)) " " a href=(super::objects::link(selection.query, &owner.name)) { (shown_line(&owner.name)) } }
            }
        } }
        @if owners.len() > OBJECTS { p { a href=(objects) { (owners.len() - OBJECTS) " more" } } }
        @for text in texts {
            details { summary { "Source: " code { (place(&text.source)) } } pre tabindex="0" { (lines(&text.text)) } }
        }
    }
}

/// Returns the manifests that show a rule: those of its METADATA, or those of the library.
fn example<'r>(row: &RuleRow<'r>, texts: &[RuleText]) -> Option<&'r RuleExample> {
    let about = row.about?;
    let of_library = || {
        let is_library = texts.iter().any(|text| text.source.file.starts_with("builtin/"));
        builtin::example(about.id.as_deref().filter(|_| is_library)?)
    };
    about.example.as_deref().or_else(of_library)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_zero_and_whole_only_exactly() {
        for (part, whole, text) in [
            (0, 9, "0 %"),
            (1, 1_000, "<1 %"),
            (1, 3, "33 %"),
            (2, 3, "67 %"),
            (999, 1_000, ">99 %"),
            (9, 9, "100 %"),
            (0, 0, ""),
        ] {
            assert_eq!(share(part, whole), text, "{part} of {whole}");
        }
    }
}
