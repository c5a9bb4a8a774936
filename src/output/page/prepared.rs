//! A result as it is prepared for the page, with the data about it that is not part of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    audit::{
        exceptions::ExceptionSummary,
        history::History,
        result::{About, AuditResult, Entry, Summary},
    },
    judge::frameworks::FrameworkSelector,
    output::{names::urgency, safe::shown_line, style::Paint, summary::gap_lines},
};

/// The value of `namespace` in a query for cluster-scoped objects, and of `team` for namespaces without one.
pub(super) const NONE: &str = "-";

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
    /// Why the results of a cluster of a fleet are outdated.
    pub outdated: Option<String>,
    /// Problems that the result does not contain, for example why newer policies are not in force.
    pub problems: Vec<String>,
}

/// Places of results: namespaces, and `None` for cluster-scoped objects.
pub type Places = BTreeSet<Option<Arc<str>>>;

/// A result prepared for rendering many views.
#[derive(Debug)]
pub struct Page {
    /// The result without entries that an owner covers, the most severe first.
    pub(super) result: Arc<AuditResult>,
    pub(super) context: PageContext,
    /// The places of all results, resolved violations and exceptions.
    places: Arc<Places>,
    /// Whether results in other places were removed.
    pub(super) is_restricted: bool,
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
        Self { result: Arc::new(result), context, places: Arc::new(places), is_restricted: false }
    }

    /// Returns the page with another context, in which as much waits for evaluation as before.
    pub(crate) fn with_context(&self, context: PageContext) -> Self {
        let (result, places) = (Arc::clone(&self.result), Arc::clone(&self.places));
        Self { result, context, places, is_restricted: self.is_restricted }
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
        let is_place = |name: &str| places.contains(&Some(name).filter(|name| *name != NONE).map(Arc::from));
        let history = Arc::new(self.context.history.restricted_to(is_place));
        let context = PageContext { history, ..self.context.clone() };
        Self { result: Arc::new(result), context, places: Arc::new(places.clone()), is_restricted: true }
    }

    /// Returns the time a day before that of the page.
    pub(super) fn a_day_ago(&self) -> Timestamp {
        self.context.at.saturating_sub(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MIN)
    }

    /// Returns the team of an entry's namespace.
    pub(super) fn team(&self, entry: &Entry) -> Option<&str> {
        self.team_of(&entry.resource.place()?)
    }

    /// Returns the team of a namespace.
    pub(super) fn team_of(&self, namespace: &str) -> Option<&str> {
        self.result.teams.get(namespace).map(|team| &**team)
    }

    /// Returns the rules that serve a framework or a control of it, as [`Self::rules`] does.
    pub(super) fn serving(&self, framework: &str) -> impl Iterator<Item = (&str, &str, &About)> + use<'_> {
        let selector = FrameworkSelector::new(framework);
        self.rules().filter(move |(_, _, about)| selector.takes(&about.frameworks))
    }

    /// Returns the parts that were not checked.
    pub(super) fn gaps(&self) -> Vec<String> {
        let problems = self.context.problems.iter().map(|problem| shown_line(problem));
        let outdated = self.context.outdated.iter().map(|why| shown_line(why));
        outdated.chain(gap_lines(&self.result, Paint(false))).chain(problems).collect()
    }

    /// Returns the rules in force: policy, name and annotations.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&str, &str, &About)> {
        self.result.policies.iter().flat_map(|policy| {
            policy.rules.iter().map(|rule| (policy.name.as_str(), rule.as_str(), policy.about_rule(rule)))
        })
    }
}

/// Returns the place of an entry.
fn place(entry: &Entry) -> Option<Arc<str>> {
    entry.resource.place()
}

fn place_of_exception(exception: &ExceptionSummary) -> Option<Arc<str>> {
    exception.namespace().map(Arc::from)
}
