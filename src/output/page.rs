//! The page, which shows open violations and recent changes in a browser.
//!
//! Input: one [`AuditResult`](crate::audit::result::AuditResult), its [context](PageContext) and a [query](PageQuery).
//! Output: HTML or JSON, or one self-contained file for the audit of a pipeline. Every view has a URL, works without the
//! script, and escapes text from policies and objects. A query has the same filters in every view, and all numbers of a
//! view are those of the results that it [selects](selection).

mod controls;
mod document;
mod file;
mod fleet;
mod layout;
mod owners;
mod paging;
mod parts;
mod patch;
mod prepared;
mod query;
mod selection;
mod views;

use std::io;

use ::csv::Writer;
use serde::Serialize;

pub(super) use self::file::render;
pub(crate) use self::fleet::{FleetCache, FleetPage};
pub use self::{
    document::{STYLE, refusal, sign_in_page},
    prepared::{Page, PageContext, Places},
    query::{PageQuery, View},
};
use self::{owners::OwnerResults, selection::PageSelection};
use super::{csv, safe::write_json};
use crate::audit::{
    history::History,
    result::{Entry, Summary},
};

/// The script of the page, which reloads it when the result has changed.
pub const SCRIPT: &str = include_str!("page/script.js");

impl Page {
    /// Returns the HTML of the view that the query selects; `reader` is the name of the user who has signed in.
    pub fn html(&self, query: &PageQuery, reader: Option<&str>) -> String {
        let selection = PageSelection::new(self, query);
        match self.object(query) {
            Some(owner) => views::object(&selection, &owner, reader).into_string(),
            None => views::view(&selection, reader).into_string(),
        }
    }

    /// Returns the JSON of the view that the query selects: the summary of the whole result, and the selected entries.
    ///
    /// # Errors
    /// None in practice, since it is written to memory.
    pub fn json(&self, query: &PageQuery) -> io::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct SelectedResults<'p> {
            complete: bool,
            summary: &'p Summary,
            results: Vec<&'p Entry>,
        }
        let results = match self.object(query) {
            Some(owner) => owner.entries,
            None => self.entries(query).collect(),
        };
        let mut json = Vec::new();
        write_json(
            &mut json,
            &SelectedResults { complete: self.result.complete, summary: &self.result.summary, results },
        )?;
        Ok(json)
    }

    /// Returns the entries of the view that the query selects as CSV, as `-o csv` does.
    ///
    /// # Errors
    /// None in practice, since it is written to memory.
    pub fn csv(&self, query: &PageQuery) -> io::Result<Vec<u8>> {
        let results = match self.object(query) {
            Some(owner) => owner.entries.into_iter().cloned().collect(),
            None => self.entries(query).cloned().collect(),
        };
        let mut csv = Vec::new();
        csv::render(&self.result.with_results(results), &mut csv)?;
        Ok(csv)
    }

    /// Returns the counts of each day as CSV.
    ///
    /// # Errors
    /// None in practice, since it is written to memory.
    pub fn history_csv(&self) -> io::Result<Vec<u8>> {
        let History { severities, namespaces, rules, .. } = &*self.context.history;
        let mut rows = Writer::from_writer(Vec::new());
        rows.write_record(["date", "by", "name", "violations"])?;
        for (by, series) in [("severity", severities), ("namespace", namespaces), ("rule", rules)] {
            for (name, series) in series {
                for (day, count) in self.context.history.dated(series) {
                    rows.write_record([&day.to_string(), by, &csv::cell(name), &count.to_string()])?;
                }
            }
        }
        rows.into_inner().map_err(|error| io::Error::other(error.to_string()))
    }

    /// Returns the entries that the query selects.
    fn entries<'p>(&'p self, query: &'p PageQuery) -> impl Iterator<Item = &'p Entry> {
        let mut is_selected = query.filter(self);
        self.result.results.iter().filter(move |entry| is_selected(entry))
    }

    /// Returns the object that the query selects; it may have no results any more.
    fn object(&self, query: &PageQuery) -> Option<OwnerResults<'_>> {
        let wanted = query.object.as_deref()?;
        let entries = self.result.results.iter().filter(|entry| owners::name(owners::of(entry)) == wanted);
        Some(OwnerResults { name: wanted.to_owned(), entries: entries.collect() })
    }
}

#[cfg(test)]
mod tests;
