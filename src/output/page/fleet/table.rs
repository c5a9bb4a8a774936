//! A table of rows with numbers of violations by severity, which link to the objects.

use maud::{Markup, html};

use super::tally::ResultCounts;
use crate::output::page::{
    parts::{delta, severity_label},
    query::{PageQuery, severity},
    selection::SeverityCounts,
};

/// The headings of a table.
pub(super) struct CountedTable {
    /// What the table shows, for readers who do not see it.
    pub(super) label: &'static str,
    pub(super) first: &'static str,
    /// The columns before the numbers.
    pub(super) before: Vec<&'static str>,
    /// The columns after the numbers.
    pub(super) after: Vec<&'static str>,
}

/// A row of a table.
pub(super) struct CountedRow<'c> {
    pub(super) first: Markup,
    pub(super) before: Vec<Markup>,
    pub(super) counts: &'c ResultCounts,
    /// The query of the objects that are counted.
    pub(super) objects: PageQuery,
    pub(super) after: Vec<Markup>,
}

impl CountedTable {
    pub(super) fn show(&self, rows: &[CountedRow<'_>]) -> Markup {
        let counts: Vec<SeverityCounts> = rows.iter().map(|row| row.counts.severities()).collect();
        let severities = SeverityCounts::occurring(&counts);
        html! {
            @if rows.is_empty() { p { "No results." } } @else {
                div.scroll tabindex="0" role="region" aria-label=(self.label) {
                    table {
                        thead { tr {
                            th scope="col" { (self.first) }
                            @for label in &self.before { th scope="col" { (label) } }
                            @for known in &severities { th.number scope="col" { (severity_label(severity(*known))) } }
                            th.number scope="col" { "New, resolved" }
                            @for label in &self.after { th scope="col" { (label) } }
                        } }
                        tbody { @for (row, counts) in rows.iter().zip(&counts) {
                            tr {
                                th scope="row" { (row.first) }
                                @for (label, cell) in self.before.iter().zip(&row.before) { td data-label=(label) { (cell) } }
                                @for (known, number) in counts.iter().filter(|(known, _)| severities.contains(known)) {
                                    @let word = severity(known);
                                    td.number data-label=(severity_label(word)) {
                                        @if number > 0 {
                                            a.badge.(word) href=(row.objects.with(|query| query.severity = Some(word.to_owned()))) { (number) }
                                        }
                                    }
                                }
                                td.number data-label="New, resolved" { (delta(row.counts.new, row.counts.resolved)) }
                                @for (label, cell) in self.after.iter().zip(&row.after) { td data-label=(label) { (cell) } }
                            }
                        } }
                    }
                }
            }
        }
    }
}
