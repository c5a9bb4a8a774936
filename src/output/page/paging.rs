//! The pages of long lists.

use std::ops::Range;

use maud::{Markup, html};

use super::{query::PageQuery, selection::PageSelection};

/// The pages of a long list, and the current one.
pub(super) struct Pagination {
    all: usize,
    size: usize,
    number: usize,
    last: usize,
}

impl Pagination {
    /// Returns the pages of `all` items; a file has only one.
    pub(super) fn of(all: usize, size: usize, selection: &PageSelection<'_>) -> Self {
        let size = if selection.is_file { all.max(1) } else { size };
        Self::new(all, size, selection.query)
    }

    /// Returns the pages of `all` items, `size` on each, and the one that a query names, or the nearest.
    pub(super) fn new(all: usize, size: usize, query: &PageQuery) -> Self {
        let last = all.div_ceil(size).max(1);
        Self { all, size, number: query.page.unwrap_or(1).clamp(1, last), last }
    }

    /// Returns the indices of the items on the current page.
    pub(super) fn shown(&self) -> Range<usize> {
        let begin = (self.number - 1) * self.size;
        begin..self.all.min(begin + self.size)
    }

    /// Returns the number of the last page.
    pub(super) fn last(&self) -> usize {
        self.last
    }

    pub(super) fn links(&self, query: &PageQuery) -> Markup {
        let Self { number, last, .. } = *self;
        let to = |number| query.with(|query| query.page = Some(number));
        html! {
            @if last > 1 {
                nav.pages aria-label="Pages" {
                    @if number > 1 { a rel="prev" href=(to(number - 1)) { "Previous" } }
                    " Page " (number) " of " (last) " "
                    @if number < last { a rel="next" href=(to(number + 1)) { "Next" } }
                }
            }
        }
    }
}
