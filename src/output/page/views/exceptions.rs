//! Exceptions: what they excuse, until when, and which need attention.

use maud::{Markup, html};

use super::super::{paging::Pagination, parts::time, selection::PageSelection};
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
                        td data-label="State" {
                            b.badge.(exception.state.as_str()) { (exception.state.as_str()) }
                            @if !exception.message.is_empty() { " " (shown_line(&exception.sentence())) }
                        }
                        td.number data-label="Excuses" { (exception.results) }
                        td data-label="Ends" { @if let Some(end) = exception.expires_at { (time(selection, end)) } }
                        td data-label="Reason" { (shown_line(&exception.reason)) }
                    } } }
                }
            }
            (pages.links(selection.query))
        }
    }
}
