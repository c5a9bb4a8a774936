//! The page: what stands and what changed, for whoever leaves a browser open.
//!
//! In: one [`AuditResult`], [what is known about it](About), and [what was asked for](Query). Out: HTML, or JSON. Every view
//! is a URL, works without the script, and shows text from policies and objects as text. The order is that of the questions:
//! may I trust it, what is new, how bad is it, whose is it, what is to be done.

mod filter;
mod html;
mod owners;

use std::io;

use jiff::Timestamp;
use serde::Serialize;

pub use self::filter::Query;
use self::owners::Owner;
use super::{names::urgency, safe::write_json};
use crate::audit::{
    ended::KEPT,
    result::{AuditResult, Entry, Summary},
};

/// The style of the page.
pub const STYLE: &str = include_str!("page/style.css");
/// The script of the page, which fetches it again when the result has changed.
pub const SCRIPT: &str = include_str!("page/script.js");

/// What there is to know about a result beside the result.
#[derive(Debug, Clone)]
pub struct About {
    /// When the result was so.
    pub at: Timestamp,
    /// When this process began: what ended before is not known.
    pub began: Timestamp,
    /// Whether judging has begun; if not, how many lists were read, and of how many.
    pub syncing: Option<(usize, usize)>,
    /// Objects that wait to be judged.
    pub waiting: usize,
    /// The revision of the policies in force.
    pub policies: String,
    /// Why newer policies are not in force, and the like.
    pub problems: Vec<String>,
}

/// A result that is ready to be shown, again and again.
#[derive(Debug)]
pub struct Page {
    /// Without what an owner stands for, the worst first.
    result: AuditResult,
    about: About,
}

impl Page {
    /// Prepares a result, which takes as long as sorting it.
    pub fn new(result: &AuditResult, about: About) -> Self {
        let mut result = result.rolled_up().into_owned();
        // What is not judged yet must not be called clean.
        result.complete &= about.syncing.is_none() && about.waiting == 0;
        result.results.sort_by(|a, b| (urgency(a), a.order()).cmp(&(urgency(b), b.order())));
        Self { result, about }
    }

    /// Returns the HTML of all that the query asks for.
    pub fn html(&self, query: &Query) -> String {
        match self.object(query) {
            Some(owner) => html::object(self, &owner).into_string(),
            None => html::overview(self, query).into_string(),
        }
    }

    /// Returns the JSON of what the query asks for: the counts of everything, and the results that are left.
    ///
    /// # Errors
    /// None in practice: it is written to memory.
    pub fn json(&self, query: &Query) -> io::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Left<'p> {
            complete: bool,
            summary: &'p Summary,
            results: Vec<&'p Entry>,
        }
        let results = match self.object(query) {
            Some(owner) => owner.entries,
            None => self.entries(query).collect(),
        };
        let mut json = Vec::new();
        write_json(&mut json, &Left { complete: self.result.complete, summary: &self.result.summary, results })?;
        Ok(json)
    }

    /// Returns the entries that the query asks for.
    fn entries<'p>(&'p self, query: &'p Query) -> impl Iterator<Item = &'p Entry> {
        self.result.results.iter().filter(|entry| query.matches(entry))
    }

    /// Returns the one object that is asked for; it need not have results any more.
    fn object(&self, query: &Query) -> Option<Owner<'_>> {
        let wanted = query.object.as_deref()?;
        let entries = self.result.results.iter().filter(|entry| owners::name(owners::of(entry)) == wanted);
        Some(Owner { name: wanted.to_owned(), entries: entries.collect() })
    }

    /// Returns the violations that are as new as those that ended, the newest first.
    fn new_since(&self) -> Vec<&Entry> {
        let since = self.about.at.saturating_sub(KEPT).unwrap_or(Timestamp::MIN);
        let is_new = |entry: &&Entry| entry.result.is_violation() && entry.since.is_some_and(|first| first >= since);
        let mut new: Vec<_> = self.result.results.iter().filter(is_new).collect();
        new.sort_by_key(|entry| std::cmp::Reverse(entry.since));
        new
    }
}

#[cfg(test)]
mod tests;
