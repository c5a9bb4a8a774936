//! The document around each view: the header with the state of the audit, the navigation, and the filter.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{
    controls,
    document::{document, sign_out},
    parts::{choice, time},
    prepared::{NONE, Page, PageContext},
    query::{POLICIES, View, owner_kind, place, place_name, severity},
    selection::{PageSelection, SeverityCounts},
};
use crate::{
    model::verdict::{Outcome, Severity},
    output::{safe::shown_line, style::count, summary::is_compared},
};

/// Periods in the filter, as in a query and as people read them.
pub(super) const PERIODS: [(&str, &str); 5] =
    [("15m", "15 minutes"), ("1h", "1 hour"), ("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days")];

/// The state of the audit, as the page shows it.
pub(super) enum PageState {
    /// The initial sync is in progress: how many kinds have been read, of how many.
    Starting(usize, usize),
    /// So many objects wait for evaluation.
    Waiting(usize),
    /// The results of a cluster of a fleet are outdated.
    Outdated,
    /// So many things were not checked.
    Incomplete(usize),
    /// No object was checked.
    Nothing,
    /// Everything is checked, and followed.
    Live,
    /// Everything was checked when the file was written.
    Checked,
}

impl PageState {
    pub(super) fn of(selection: &PageSelection<'_>) -> Self {
        let page = selection.page;
        match page.context {
            PageContext { syncing: Some((read, all)), .. } => Self::Starting(read, all),
            PageContext { waiting: waiting @ 1.., .. } => Self::Waiting(waiting),
            PageContext { outdated: Some(_), .. } => Self::Outdated,
            _ if !page.result.complete || !is_compared(&page.result) => Self::Incomplete(page.gaps().len()),
            _ if page.result.summary.objects == 0 && page.result.results.is_empty() => Self::Nothing,
            _ if selection.is_file => Self::Checked,
            _ => Self::Live,
        }
    }

    fn class(&self) -> &'static str {
        match self {
            Self::Starting(..) | Self::Waiting(_) | Self::Nothing => "wait",
            Self::Incomplete(_) | Self::Outdated => "error",
            Self::Live | Self::Checked => "pass",
        }
    }

    /// Returns the colour of the icon in the browser's tab.
    fn colour(&self) -> &'static str {
        match self {
            Self::Starting(..) | Self::Waiting(_) | Self::Nothing => "8c959f",
            Self::Incomplete(_) | Self::Outdated => "8250df",
            Self::Live | Self::Checked => "2da44e",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Starting(read, all) => format!("starting: {read} of {all} kinds read"),
            Self::Waiting(objects) => format!("checking: {} to go", count(*objects, "object")),
            Self::Outdated => "outdated".to_owned(),
            Self::Incomplete(0) => "incomplete".to_owned(),
            Self::Incomplete(gaps) => format!("incomplete: {} not checked", count(*gaps, "part")),
            Self::Nothing => "nothing checked".to_owned(),
            Self::Live => "live · everything checked".to_owned(),
            Self::Checked => "everything checked".to_owned(),
        }
    }
}

/// Returns the document of a view; `title` replaces the counts in its title.
pub(super) fn document_of(
    selection: &PageSelection<'_>,
    title: Option<&str>,
    reader: Option<&str>,
    content: &Markup,
) -> Markup {
    let page = selection.page;
    let state = PageState::of(selection);
    let counts = short_headline(selection);
    let cluster = &page.context.cluster;
    let names = [Some(title.map_or(counts, shown_line)), Some(shown_line(cluster)).filter(|name| !name.is_empty())];
    let title = names.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    document(&title, state.colour(), Some(&header(selection, &state, reader)), content)
}

/// Returns the cluster, the state and the time of the result, the user who has signed in, and the navigation.
pub(super) fn header(selection: &PageSelection<'_>, state: &PageState, reader: Option<&str>) -> Markup {
    let PageSelection { page, query, .. } = selection;
    let attention = page.result.exceptions.iter().filter(|exception| exception.needs_attention()).count();
    html! {
        @if query.cluster.is_some() { a href="./" { "All clusters" } }
        @if !page.context.cluster.is_empty() { span.cluster { (shown_line(&page.context.cluster)) } }
        @if let Some(scope) = scope(page) { span.note { (scope) } }
        a.state.(state.class()) href=(selection.query.to(View::Coverage).url()) { (state.text()) }
        @if !selection.is_file { span #live.note role="status" { "updated " (time(selection, page.context.at)) } }
        @if let Some(reader) = reader { span.reader { (shown_line(reader)) " " (sign_out()) } }
        nav.views aria-label="Views" {
            @for view in View::ALL.into_iter().filter(|view| !selection.is_file || view.is_in_file()) {
                a href=(selection.query.to(view).url())
                    aria-current=[(view == selection.query.view && selection.query.object.is_none()).then_some("page")] {
                    (view.title())
                    @if view == View::Exceptions && attention > 0 { " " b.count title="need attention" { (attention) } }
                }
            }
        }
    }
}

/// Returns the namespaces of the audit if it does not cover the whole cluster.
fn scope(page: &Page) -> Option<String> {
    let scope = page.result.scope.as_ref()?;
    (!scope.namespaces.is_empty()).then(|| format!("only {}", shown_line(&scope.namespaces.join(", "))))
}

/// Returns the counts of a selection in a few words, for the title.
fn short_headline(selection: &PageSelection<'_>) -> String {
    let critical = selection.violations().filter(|entry| entry.severity == Some(Severity::Critical)).count();
    let critical = if critical > 0 { format!("({critical} critical) ") } else { String::new() };
    format!("{critical}{}", counts(selection))
}

/// Returns the counts of a selection: `152 failures, 79 warnings`.
fn counts(selection: &PageSelection<'_>) -> String {
    let numbers = [(Outcome::Fail, "failure"), (Outcome::Warn, "warning"), (Outcome::Error, "error")];
    let numbers = numbers.map(|(outcome, noun)| (selection.outcomes(outcome), noun));
    let counted: Vec<String> =
        numbers.into_iter().filter(|(number, _)| *number > 0).map(|(number, noun)| count(number, noun)).collect();
    if counted.is_empty() { "no violations".to_owned() } else { counted.join(", ") }
}

/// Returns the counts of a selection, of how many objects: `2 failures in 2 of 9 objects`, `no violations in 9 objects`.
pub(super) fn headline(selection: &PageSelection<'_>) -> String {
    let (counts, failing) = (counts(selection), selection.failing_objects());
    match selection.checked_objects() {
        Some(checked) if failing > 0 => format!("{counts} in {failing} of {}", count(checked, "object")),
        Some(checked) => format!("{counts} in {}", count(checked, "object")),
        None if failing > 0 => format!("{counts} in {}", count(failing, "object")),
        None => counts,
    }
}

/// Returns the form that selects results, and the selected values as links that remove them.
pub(super) fn filter(selection: &PageSelection<'_>) -> Markup {
    let PageSelection { page, query, .. } = selection;
    let results = &page.result.results;
    // The script of a file compares values with attributes, which have no hidden characters.
    let value = |text: &str| if selection.is_file { shown_line(text) } else { text.to_owned() };
    let namespaces: BTreeSet<String> = results.iter().map(|entry| value(place(entry))).collect();
    let teams: BTreeSet<String> = page.result.teams.values().map(|team| value(team)).collect();
    let kinds: BTreeSet<String> = results.iter().map(|entry| value(&owner_kind(entry))).collect();
    // A name with control characters cannot be written as it is.
    let rules = results.iter().map(|entry| entry.rule_id.as_deref().unwrap_or(&entry.policy));
    let rules: BTreeSet<&str> = rules.filter(|rule| shown_line(rule) == **rule).collect();
    let frameworks = controls::names(page);
    let counts = SeverityCounts::of(results);
    let severities = counts.iter().filter(|(_, number)| *number > 0).map(|(known, _)| severity(known));
    let changed = page.context.policies_since.map(|_| (POLICIES, "since the policies changed"));
    let periods: Vec<(&str, &str)> = PERIODS.into_iter().chain(changed).collect();
    let words = |period: &str| {
        shown_line(periods.iter().find(|(value, _)| *value == period).map_or(period, |(_, words)| words))
    };
    html! {
        form #filter method="get" role="search" hidden[selection.is_file] {
            @if query.view != View::Overview { input type="hidden" name="view" value=(query.view.word()); }
            @if let Some(cluster) = &query.cluster { input type="hidden" name="cluster" value=(cluster); }
            label { "Search " input type="search" name="q" value=[query.q.as_deref()] autocomplete="off"; }
            (choice(("Namespace", "namespace", "all"), namespaces, shown_place, query.namespace.as_deref()))
            @if !teams.is_empty() { (choice(("Team", "team", "all"), teams, shown_place, query.team.as_deref())) }
            (choice(("Severity", "severity", "all"), severities, shown_place, query.severity.as_deref()))
            (choice(("Rule", "rule", "all"), rules, shown_place, query.rule.as_deref()))
            @if !frameworks.is_empty() {
                (choice(("Framework", "framework", "all"), frameworks, shown_place, query.framework.as_deref()))
            }
            (choice(("Kind", "kind", "all"), kinds, shown_place, query.kind.as_deref()))
            @if selection.is_file { button.reset type="reset" { "Show all" } } @else {
                (choice(("New within", "since", "any time"), periods.iter().map(|(value, _)| value), words, query.since.as_deref()))
                button { "Apply" }
            }
            @if !query.filters().is_empty() {
                a href=(query.unfiltered().url()) { "Show all" }
            }
        }
        @if let Some(namespace) = unchecked_namespace(selection) {
            p.error { "No object of the namespace " (shown_line(namespace)) " was checked." }
        }
    }
}

/// Returns the selected namespace if no object in it was checked, as when its name is misspelt.
fn unchecked_namespace<'q>(selection: &PageSelection<'q>) -> Option<&'q str> {
    let known = &selection.page.result.namespaces;
    let wanted = selection.query.namespace.as_deref()?;
    let is_checked = known.keys().any(|name| place_name(name.as_deref()) == wanted);
    (!known.is_empty() && !is_checked).then_some(wanted)
}

/// Returns the name of a namespace or team as people read it.
pub(super) fn shown_place(place: &str) -> String {
    if place == NONE { "(cluster-scoped)".to_owned() } else { shown_line(place) }
}
