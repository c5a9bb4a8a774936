//! The first view: how many violations there are, where, by which rules, and what has changed.

use maud::{Markup, html};

use super::super::{
    layout::{PageState, headline},
    parts::severities,
    query::View,
    selection::{PageSelection, SeverityCounts},
};
use super::{changes, history, namespaces, rules};
use crate::{
    model::verdict::{Outcome, Severity},
    output::style::count,
};

/// Number of rows in each table.
const ROWS: usize = 8;
/// Number of changes.
const CHANGES: usize = 4;

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let query = selection.query;
    let (places, rules, changed) = (selection.namespaces(), selection.rules(), selection.changes());
    // The script of a file shows the first rows with results.
    let rows = if selection.is_file { usize::MAX } else { ROWS };
    let failing = rules.iter().filter(|row| row.failing > 0 || row.errors > 0).count();
    html! {
        h2 { span.headline { (headline(selection)) } }
        div.cards {
            section aria-labelledby="severities-title" {
                h3 #severities-title { "Severities" }
                (severities(&SeverityCounts::of(selection.violations()), |word| {
                    Some(query.to(View::Objects).with(|query| query.severity = Some(word.to_owned())))
                }))
            }
            section aria-labelledby="status-title" {
                h3 #status-title { a href=(query.to(View::Coverage).url()) { "Status" } }
                (status(selection))
            }
            @if !selection.is_file { section aria-labelledby="changes-title" {
                h3 #changes-title { a href=(query.to(View::Changes).url()) { (changes::title(selection)) } }
                @let severe = selection.new.iter().filter(|entry| entry.severity.is_some_and(|own| own <= Severity::High)).count();
                @if severe > 0 { p { (severe) " of the new ones are critical or high." } }
                (changes::list(selection, &changed[..changed.len().min(CHANGES)]))
            } }
        }
        (history::chart(selection))
        div.columns {
            section aria-labelledby="namespaces-title" {
                h3 #namespaces-title { "Namespaces" }
                (namespaces::table(selection, &places[..places.len().min(rows)]))
                @if places.len() > rows { p { a href=(query.to(View::Namespaces).url()) { "All " (places.len()) " namespaces" } } }
            }
            section aria-labelledby="rules-title" {
                h3 #rules-title { "Rules" }
                (rules::table(selection, &rules[..failing.min(rows)]))
                p { a href=(query.to(View::Rules).url()) { "All " (count(rules.len(), "rule")) } }
            }
        }
    }
}

/// Shows what restricts the meaning of the numbers: gaps, exceptions that need attention, and what is excused.
fn status(selection: &PageSelection<'_>) -> Markup {
    let page = selection.page;
    let gaps = page.gaps().len();
    let exceptions = selection.exceptions();
    let attention = exceptions.iter().filter(|exception| exception.needs_attention()).count();
    let excused = selection.outcomes(Outcome::Skip);
    let rules: usize = page.result.policies.iter().map(|policy| policy.rules.len()).sum();
    html! {
        ul.plain-list {
            @match PageState::of(selection) {
                PageState::Live | PageState::Checked => li { "Everything in scope is checked by " (count(rules, "rule")) "." },
                PageState::Outdated => li.error { "These results are not up to date." },
                PageState::Nothing => li.error { "No object was checked." },
                _ if gaps > 0 => li.error { (count(gaps, "part")) " not checked." },
                _ => li.error { "Not everything is checked yet." },
            }
            @if excused > 0 { li { a href=(selection.query.to(View::Exceptions).url()) { (excused) " excused" } " by " (count(exceptions.len(), "exception")) "." } }
            @if attention > 0 { li.error { (count(attention, "exception")) (if attention == 1 { " needs" } else { " need" }) " attention." } }
            @if page.is_restricted { li { "Only namespaces whose reports you may list." } }
        }
    }
}
