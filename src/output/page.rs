//! The page, which shows open violations and recent changes in a browser.
//!
//! Input: one [`AuditResult`], its [context](PageContext) and a [query](PageQuery). Output: HTML or JSON, or one
//! self-contained file for the audit of a pipeline. Every view has a URL, works without the script, and escapes text
//! from policies and objects. A query has the same filters in every view, and all numbers of a view are those of the
//! results that it [selects](selection).

mod controls;
mod document;
mod file;
mod layout;
mod owners;
mod paging;
mod parts;
mod patch;
mod query;
mod selection;
mod views;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io,
    sync::Arc,
};

use ::csv::Writer;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

pub(super) use self::file::render;
pub use self::{
    document::{STYLE, refusal, sign_in_page},
    query::{PageQuery, View},
};
use self::{owners::OwnerResults, selection::Selection};
use super::{csv, names::urgency, safe::write_json};
use crate::{
    audit::{
        exceptions::ExceptionSummary,
        history::History,
        result::{About, AuditResult, Entry, Summary},
    },
    judge::frameworks::FrameworkSelector,
};

/// The script of the page, which reloads it when the result has changed.
pub const SCRIPT: &str = include_str!("page/script.js");

/// Data about a result that is not part of it.
#[derive(Debug, Clone)]
pub struct PageContext {
    /// The name of the cluster; empty if it has none.
    pub cluster: Arc<str>,
    /// When the result was read.
    pub at: Timestamp,
    /// When this process started; violations that were resolved earlier are unknown.
    pub began: Timestamp,
    /// When an object was last seen to change.
    pub changed: Option<Timestamp>,
    /// Before evaluation starts, the number of lists that were read, and their total; then `None`.
    pub syncing: Option<(usize, usize)>,
    /// Objects waiting for evaluation.
    pub waiting: usize,
    /// The revision of the policies in force.
    pub policies: String,
    /// When they replaced others; `None` for those of the start.
    pub policies_since: Option<Timestamp>,
    /// The counts of each day; empty if this process does not keep them.
    pub history: Arc<History>,
    /// Problems that the result does not contain, for example why newer policies are not in force.
    pub problems: Vec<String>,
}

/// Places of results: namespaces, and `None` for cluster-scoped objects.
pub type Places = BTreeSet<Option<Arc<str>>>;

/// A result prepared for rendering many views.
#[derive(Debug)]
pub struct Page {
    /// The result without entries that an owner covers, the most severe first.
    result: AuditResult,
    context: PageContext,
    /// The places of all results, resolved violations and exceptions.
    places: Places,
    /// Whether results in other places were removed.
    is_restricted: bool,
}

impl Page {
    /// Prepares a result, and sorts its entries.
    pub fn new(mut result: AuditResult, context: PageContext) -> Self {
        result.roll_up();
        // Objects that are not evaluated yet must not count as clean.
        result.complete &= context.syncing.is_none() && context.waiting == 0;
        result.results.sort_by(|a, b| (urgency(a), a.order()).cmp(&(urgency(b), b.order())));
        let ended = result.ended.iter().map(|ended| &ended.entry);
        let exceptions = result.exceptions.iter().map(place_of_exception);
        let places = result.results.iter().chain(ended).map(place).chain(exceptions).collect();
        Self { result, context, places, is_restricted: false }
    }

    /// Returns the places of all results, resolved violations and exceptions.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the page for a reader who may only see these places: their results and the counts of these. The number of
    /// evaluated objects and the gaps remain those of the whole result, as in the status of the `Audit`.
    #[must_use]
    pub fn restricted_to(&self, places: &Places) -> Self {
        let is_visible = |entry: &Entry| places.contains(&place(entry));
        let results: Vec<Entry> = self.result.results.iter().filter(|entry| is_visible(entry)).cloned().collect();
        let covered = results.iter().map(|entry| entry.dependents).sum();
        let mut summary = Summary { fail: 0, warn: 0, error: 0, skip: 0, covered, ..self.result.summary };
        for entry in &results {
            *summary.of(entry.result) += 1;
        }
        let mut result =
            AuditResult { summary, baseline: None, namespaces: BTreeMap::new(), ..self.result.with_results(results) };
        result.ended.retain(|ended| is_visible(&ended.entry));
        result.exceptions.retain(|exception| places.contains(&place_of_exception(exception)));
        result.teams.retain(|name, _| places.contains(&Some(Arc::clone(name))));
        result.count_objects();
        let is_place = |name: &str| places.contains(&Some(name).filter(|name| *name != query::NONE).map(Arc::from));
        let history = Arc::new(self.context.history.restricted_to(is_place));
        let context = PageContext { history, ..self.context.clone() };
        Self { result, context, places: places.clone(), is_restricted: true }
    }

    /// Returns the HTML of the view that the query selects; `reader` is the name of the user who has signed in.
    pub fn html(&self, query: &PageQuery, reader: Option<&str>) -> String {
        let selection = Selection::new(self, query);
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

    /// Returns the time a day before that of the page.
    fn a_day_ago(&self) -> Timestamp {
        self.context.at.saturating_sub(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MIN)
    }

    /// Returns the team of an entry's namespace.
    fn team(&self, entry: &Entry) -> Option<&str> {
        self.team_of(entry.resource.namespace.as_deref()?)
    }

    /// Returns the team of a namespace.
    fn team_of(&self, namespace: &str) -> Option<&str> {
        self.result.teams.get(namespace).map(|team| &**team)
    }

    /// Returns the rules that serve a framework or a control of it, by policy and name.
    fn serving(&self, framework: &str) -> HashSet<(&str, &str)> {
        let selector = FrameworkSelector::new(framework);
        let rules = self.rules().filter(|(_, _, about)| selector.takes(&about.frameworks));
        rules.map(|(policy, rule, _)| (policy, rule)).collect()
    }

    /// Returns the rules in force: policy, name and annotations.
    fn rules(&self) -> impl Iterator<Item = (&str, &str, &About)> {
        self.result.policies.iter().flat_map(|policy| {
            policy.rules.iter().map(|rule| (policy.name.as_str(), rule.as_str(), policy.about_rule(rule)))
        })
    }

    /// Returns the annotations of an entry's rule.
    fn about(&self, entry: &Entry) -> Option<&About> {
        let policy = self.result.policies.iter().find(|policy| *policy.name == *entry.policy)?;
        Some(policy.about_rule(&entry.rule))
    }
}

/// Returns the place of an entry.
fn place(entry: &Entry) -> Option<Arc<str>> {
    entry.resource.place()
}

fn place_of_exception(exception: &ExceptionSummary) -> Option<Arc<str>> {
    exception.name.split_once('/').map(|(namespace, _)| namespace.into())
}

#[cfg(test)]
mod tests;
