//! The document around each view of a fleet: the header with the state of the fleet, the navigation, and the filter.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::{counts::FleetCounts, fleet_page::FleetPage, selection::FleetSelection, tally::ResultCounts};
use crate::{
    fleet::view::ClusterStatus,
    model::verdict::{Outcome, Severity},
    output::{
        page::{
            document::document,
            layout::{PERIODS, shown_place},
            parts::{choice, time_at},
            prepared::NONE,
            query::{NO_SEVERITY, View, place_name},
        },
        safe::shown_line,
        style::count,
    },
};

/// More values than this are typed into the filter instead of selected.
const MOST_CHOICES: usize = 500;

/// The state of a fleet, as the page shows it.
enum FleetState {
    /// NATS cannot be reached.
    Disconnected,
    /// So many buckets were read, of how many.
    Starting(usize, usize),
    /// There is no bucket.
    Nothing,
    /// So many clusters are not live.
    Incomplete(usize),
    Live,
}

impl FleetState {
    fn of(page: &FleetPage) -> Self {
        let clusters = page.view.clusters.values();
        let read = clusters.clone().filter(|cluster| cluster.is_read || cluster.is_unreadable()).count();
        let live = clusters.filter(|cluster| cluster.status(page.at) == ClusterStatus::Live).count();
        let all = page.view.clusters.len();
        match all - live + page.missing.len() {
            _ if !page.view.problem.is_empty() => Self::Disconnected,
            _ if !page.view.is_listed || read < all => Self::Starting(read, all),
            0 if all == 0 => Self::Nothing,
            0 => Self::Live,
            others => Self::Incomplete(others),
        }
    }

    /// Returns its class and the colour of the icon in the browser's tab.
    fn class(&self) -> (&'static str, &'static str) {
        match self {
            Self::Starting(..) | Self::Nothing => ("wait", "8c959f"),
            Self::Disconnected | Self::Incomplete(_) => ("error", "8250df"),
            Self::Live => ("pass", "2da44e"),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Disconnected => "not connected to NATS".to_owned(),
            Self::Starting(read, all) => format!("starting: {read} of {all} clusters read"),
            Self::Nothing => "no clusters".to_owned(),
            Self::Incomplete(others) => format!("incomplete: {} not live", count(*others, "cluster")),
            Self::Live => "live · all clusters".to_owned(),
        }
    }
}

/// Returns the document of a view.
pub(super) fn document_of(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>, content: &Markup) -> Markup {
    let state = FleetState::of(selection.page);
    let critical = counts.total.severities().iter().find(|(known, _)| *known == Some(Severity::Critical));
    let critical = critical.map_or(0, |(_, number)| number);
    let critical = if critical > 0 { format!("({critical} critical) ") } else { String::new() };
    let title = format!("{critical}{} · fleet", in_words(&counts.total));
    document(&title, state.class().1, Some(&header(selection, counts, &state)), content)
}

fn header(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>, state: &FleetState) -> Markup {
    let FleetSelection { page, query, .. } = selection;
    let states = selection.clusters.iter().flat_map(|selected| &selected.states);
    let attention = states.flat_map(|state| &state.exceptions).filter(|exception| exception.needs_attention()).count();
    html! {
        span.cluster { (count(page.view.clusters.len(), "cluster")) }
        a.state.(state.class().0) href=(query.to(View::Coverage).url()) { (state.text()) }
        span #live.note role="status" { "updated " (time_at(page.at, page.view.listed_at.unwrap_or(page.at))) }
        nav.views aria-label="Views" {
            @for view in View::OF_FLEET {
                a href=(query.to(view).url()) aria-current=[(view == query.view).then_some("page")] {
                    (view.title())
                    @if view == View::Exceptions && attention > 0 { " " b.count title="need attention" { (attention) } }
                }
            }
        }
        @if counts.clusters.is_empty() && page.view.is_listed && page.view.clusters.is_empty() {
            p.note { "Each kaudit that runs with --fleet adds its cluster." }
        }
    }
}

/// Returns counts of outcomes: `152 failures, 79 warnings`.
fn in_words(counts: &ResultCounts) -> String {
    let numbers = [(Outcome::Fail, "failure"), (Outcome::Warn, "warning"), (Outcome::Error, "error")];
    let numbers = numbers.map(|(outcome, noun)| (counts.outcome(outcome), noun));
    let counted: Vec<String> =
        numbers.into_iter().filter(|(number, _)| *number > 0).map(|(number, noun)| count(number, noun)).collect();
    if counted.is_empty() { "no violations".to_owned() } else { counted.join(", ") }
}

/// Returns the counts of a selection: `2 failures in 2 objects, in 1 of 9 clusters`.
pub(super) fn headline(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> String {
    let FleetCounts { total, .. } = counts;
    let objects = match total.failing_objects {
        0 => String::new(),
        failing => format!(" in {}", count(failing, "object")),
    };
    let clusters = count(selection.clusters.len(), "cluster");
    format!("{}{objects}, in {} of {clusters}", in_words(total), counts.failing_clusters())
}

/// Returns the form that selects results.
pub(super) fn filter(selection: &FleetSelection<'_>) -> Markup {
    let FleetSelection { page, query, .. } = selection;
    let choices = FilterChoices::of(page);
    let severities = Severity::ALL.into_iter().map(Severity::word).chain([NO_SEVERITY]);
    let words = |period: &str| {
        shown_line(PERIODS.iter().find(|(value, _)| *value == period).map_or(period, |(_, words)| words))
    };
    let is_filtered = selection.is_filtered() || query.cluster.is_some() || query.label.is_some();
    html! {
        form #filter method="get" role="search" {
            @if query.view != View::Overview { input type="hidden" name="view" value=(query.view.word()); }
            label { "Search " input type="search" name="q" value=[query.q.as_deref()] autocomplete="off"; }
            (choose(("Cluster", "cluster"), choices.clusters, shown_line, query.cluster.as_deref()))
            (choose(("Label", "label"), choices.labels, shown_line, query.label.as_deref()))
            (choose(("Namespace", "namespace"), choices.namespaces, shown_place, query.namespace.as_deref()))
            @if choices.has_teams { (choose(("Team", "team"), choices.teams, shown_team, query.team.as_deref())) }
            (choose(("Severity", "severity"), severities, shown_line, query.severity.as_deref()))
            (choose(("Rule", "rule"), choices.rules, shown_line, query.rule.as_deref()))
            (choose(("Kind", "kind"), choices.kinds, shown_line, query.kind.as_deref()))
            (choice(("New within", "since", "any time"), PERIODS.map(|(value, _)| value), words, query.since.as_deref()))
            button { "Apply" }
            @if is_filtered { a href=(format!("?view={}", query.view.word())) { "Show all" } }
        }
        @if let Some(name) = query.cluster.as_deref().filter(|_| selection.clusters.is_empty() && query.label.is_none()) {
            p.error { "There is no bucket of a cluster " (shown_line(name)) "." }
        }
        @if let Some(problem) = &selection.problem { p.error { (shown_line(problem)) "." } }
        @if !page.view.problem.is_empty() {
            p.error { "Not up to date: " (shown_line(&page.view.problem)) "." }
        }
    }
}

/// Returns a drop-down list of values, or a field to type one into if there are very many.
fn choose<S: AsRef<str>>(
    (label, name): (&str, &str),
    values: impl IntoIterator<Item = S>,
    words: impl Fn(&str) -> String,
    chosen: Option<&str>,
) -> Markup {
    let values: Vec<S> = values.into_iter().collect();
    if values.len() <= MOST_CHOICES {
        return choice((label, name, "all"), values, words, chosen);
    }
    html! { label { (label) " " input type="text" name=(name) value=[chosen] placeholder="all" autocomplete="off"; } }
}

/// The values by which results can be selected, of all clusters.
struct FilterChoices<'v> {
    clusters: Vec<&'v str>,
    labels: BTreeSet<String>,
    namespaces: BTreeSet<&'v str>,
    teams: BTreeSet<&'v str>,
    has_teams: bool,
    kinds: BTreeSet<&'v str>,
    rules: BTreeSet<&'v str>,
}

impl<'v> FilterChoices<'v> {
    fn of(page: &'v FleetPage) -> Self {
        let view = &page.view;
        let (mut namespaces, mut teams, mut labels) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for cluster in view.clusters.values() {
            labels.extend(cluster.labels().into_iter().flatten().map(|(key, value)| format!("{key}={value}")));
            teams.extend(cluster.states().flat_map(|state| state.teams.values()).map(|team| &**team));
            let mut last = None;
            for key in cluster.shards().flat_map(|shard| shard.parts.keys()) {
                if last != Some(&key.place) {
                    last = Some(&key.place);
                    namespaces.insert(place_name(key.place.as_deref()));
                }
            }
        }
        let has_teams = !teams.is_empty();
        // A name with control characters cannot be written as it is.
        let rules = view.names.rules().iter().map(|rule| rule.id.as_deref().unwrap_or(&rule.policy));
        let rules = rules.filter(|rule| matches!(shown_line(rule), shown if shown == **rule)).collect();
        let kinds = view.names.kinds().iter().map(|kind| &**kind).collect();
        Self {
            clusters: view.clusters.keys().map(|name| &**name).collect(),
            labels,
            namespaces,
            teams,
            has_teams,
            kinds,
            rules,
        }
    }
}

/// Returns the name of a team as people read it.
pub(super) fn shown_team(team: &str) -> String {
    if team == NONE { "(no team)".to_owned() } else { shown_line(team) }
}

/// Returns a link to the views of a cluster.
pub(super) fn cluster_link(selection: &FleetSelection<'_>, name: &str) -> String {
    selection.query.to(View::Overview).with(|query| {
        query.cluster = Some(name.to_owned());
        query.label = None;
    })
}

/// Returns the word of a status, and the class of its badge.
pub(super) fn status_badge(status: &ClusterStatus) -> Markup {
    let class = match status {
        ClusterStatus::Live => "resolved",
        ClusterStatus::Starting => "starting",
        ClusterStatus::Incomplete | ClusterStatus::Unreadable => "error",
        ClusterStatus::Old(_) => "fail",
    };
    html! { b.badge.(class) { (status.word()) } }
}
