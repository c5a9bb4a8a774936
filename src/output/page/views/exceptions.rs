//! Exceptions: what they excuse, until when, and which need attention.

use maud::{Markup, html};

use super::super::{
    paging::Pagination,
    parts::{exception_cells, time},
    selection::PageSelection,
};
use crate::output::{safe::shown_line, style::count};

/// Number of exceptions per page.
const EXCEPTIONS: usize = 200;

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let exceptions = selection.exceptions();
    let pages = Pagination::of(exceptions.len(), EXCEPTIONS, selection);
    html! {
        h2 { (count(exceptions.len(), "exception")) }
        @if exceptions.is_empty() { p { "No exceptions." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Exceptions" {
                table {
                    thead { tr {
                        th scope="col" { "Exception" } th scope="col" { "State" } th.number scope="col" { "Excuses" }
                        th scope="col" { "Ends" } th scope="col" { "Reason" }
                    } }
                    tbody { @for exception in &exceptions[pages.shown()] { tr data-exception=[selection.is_file.then(|| shown_line(&exception.name))] {
                        th scope="row" { (shown_line(&exception.name)) }
                        (exception_cells(exception, |end| time(selection, end)))
                    } } }
                }
            }
            (pages.links(selection.query))
        }
    }
}
