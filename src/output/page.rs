//! The page: what stands and what changed, for whoever leaves a browser open.
//!
//! In: one [`AuditResult`], [what is known about it](About), and [what was asked for](PageQuery). Out: HTML, or JSON; or one file
//! that holds everything, for the audit of a pipeline. Every view
//! is a URL, works without the script, and shows text from policies and objects as text. The order is that of the questions:
//! may I trust it, what is new, how bad is it, whose is it, what is to be done.

mod document;
mod file;
mod filter;
mod html;
mod owners;
mod parts;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
    sync::Arc,
};

use jiff::Timestamp;
use serde::Serialize;

pub(super) use self::file::render;
use self::owners::Owner;
pub use self::{
    document::{STYLE, refusal, sign_in_page},
    filter::PageQuery,
};
use super::{names::urgency, safe::write_json};
use crate::audit::{
    ended::KEPT,
    exceptions::ExceptionSummary,
    result::{AuditResult, Entry, Summary},
};

/// The script of the page, which fetches it again when the result has changed.
pub const SCRIPT: &str = include_str!("page/script.js");

/// What there is to know about a result beside the result.
#[derive(Debug, Clone)]
pub struct About {
    /// When the result was so.
    pub at: Timestamp,
    /// When this process began: what ended before is not known.
    pub began: Timestamp,
    /// When an object was last seen to change.
    pub changed: Option<Timestamp>,
    /// Whether judging has begun; if not, how many lists were read, and of how many.
    pub syncing: Option<(usize, usize)>,
    /// Objects that wait to be evaluated.
    pub waiting: usize,
    /// The revision of the policies in force.
    pub policies: String,
    /// Why newer policies are not in force, and the like.
    pub problems: Vec<String>,
}

/// Where results are: namespaces, and `None` for what is in none.
pub type Places = BTreeSet<Option<Arc<str>>>;

/// A result that is ready to be shown, again and again.
#[derive(Debug)]
pub struct Page {
    /// Without what an owner stands for, the worst first.
    result: AuditResult,
    about: About,
    /// Where anything is that it tells of.
    places: Places,
    /// Whether results of other places were left out.
    is_part: bool,
}

impl Page {
    /// Prepares a result, which takes as long as sorting it.
    pub fn new(mut result: AuditResult, about: About) -> Self {
        result.roll_up();
        // What is not judged yet must not be called clean.
        result.complete &= about.syncing.is_none() && about.waiting == 0;
        result.results.sort_by(|a, b| (urgency(a), a.order()).cmp(&(urgency(b), b.order())));
        let ended = result.ended.iter().map(|ended| &ended.entry);
        let exceptions = result.exceptions.iter().map(place_of_exception);
        let places = result.results.iter().chain(ended).map(place).chain(exceptions).collect();
        Self { result, about, places, is_part: false }
    }

    /// Returns where anything is that the page tells of.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the page of what is in these places, for somebody who may not see all: their results, and counts of them. How
    /// many objects were judged, and what could not be, is said of the whole, as in the status of the `Audit`.
    #[must_use]
    pub fn part(&self, places: &Places) -> Self {
        let sees = |entry: &Entry| places.contains(&place(entry));
        let AuditResult { results, ended, exceptions, .. } = &self.result;
        let results: Vec<Entry> = results.iter().filter(|entry| sees(entry)).cloned().collect();
        let covered = results.iter().map(|entry| entry.dependents).sum();
        let mut summary = Summary { fail: 0, warn: 0, error: 0, skip: 0, covered, ..self.result.summary };
        for entry in &results {
            *summary.of(entry.result) += 1;
        }
        let exceptions = exceptions.iter().filter(|exception| places.contains(&place_of_exception(exception)));
        let mut result = AuditResult {
            summary,
            results,
            ended: ended.iter().filter(|ended| sees(&ended.entry)).cloned().collect(),
            exceptions: exceptions.cloned().collect(),
            coverage: self.result.coverage.clone(),
            policies: self.result.policies.clone(),
            bundles: self.result.bundles.clone(),
            refused: self.result.refused.clone(),
            not_judged: self.result.not_judged.clone(),
            skipped_rules: self.result.skipped_rules.clone(),
            excluded_namespaces: self.result.excluded_namespaces.clone(),
            scope: self.result.scope.clone(),
            baseline: None,
            namespaces: BTreeMap::new(),
            repeated: HashSet::new(),
            ..self.result
        };
        result.count_objects();
        Self { result, about: self.about.clone(), places: places.clone(), is_part: true }
    }

    /// Returns the HTML of all that the query asks for, and for whom, if somebody has signed in.
    pub fn html(&self, query: &PageQuery, reader: Option<&str>) -> String {
        match self.object(query) {
            Some(owner) => html::object(self, &owner, query, reader).into_string(),
            None => html::overview(self, query, reader).into_string(),
        }
    }

    /// Returns the JSON of what the query asks for: the counts of everything, and the results that are left.
    ///
    /// # Errors
    /// None in practice: it is written to memory.
    pub fn json(&self, query: &PageQuery) -> io::Result<Vec<u8>> {
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
    fn entries<'p>(&'p self, query: &'p PageQuery) -> impl Iterator<Item = &'p Entry> {
        let mut is_asked_for = query.filter();
        self.result.results.iter().filter(move |entry| is_asked_for(entry))
    }

    /// Returns the one object that is asked for; it need not have results any more.
    fn object(&self, query: &PageQuery) -> Option<Owner<'_>> {
        let wanted = query.object.as_deref()?;
        let entries = self.result.results.iter().filter(|entry| owners::name(owners::of(entry)) == wanted);
        Some(Owner { name: wanted.to_owned(), entries: entries.collect() })
    }

    /// Returns the violations that are as new as those that ended, the newest first.
    fn new_since(&self) -> Vec<&Entry> {
        let since = self.about.at.saturating_sub(KEPT).unwrap_or(Timestamp::MIN);
        let is_new = |entry: &&Entry| {
            entry.result.is_violation() && !entry.is_handed_over && entry.since.is_some_and(|first| first >= since)
        };
        let mut new: Vec<_> = self.result.results.iter().filter(is_new).collect();
        new.sort_by_key(|entry| std::cmp::Reverse(entry.since));
        new
    }
}

/// Returns where an entry belongs.
fn place(entry: &Entry) -> Option<Arc<str>> {
    entry.resource.place()
}

fn place_of_exception(exception: &ExceptionSummary) -> Option<Arc<str>> {
    exception.name.split_once('/').map(|(namespace, _)| namespace.into())
}

#[cfg(test)]
mod tests;
