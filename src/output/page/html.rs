//! The HTML of the views. maud escapes markup in all text; control characters are escaped before.

use std::ops::Range;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{
    Page, PageContext,
    document::{document, sign_out},
    filter::{NO_NAMESPACE, PageQuery},
    owners::{self, OwnerResults},
    parts::{self, article, badge, choice, lines, place, search, severities, words},
};
use crate::{
    audit::result::Entry,
    output::{
        draft::drafts,
        names::{message, object_name, rule_name},
        rules::RuleCatalog,
        safe::shown_line,
        style::count,
        summary::headline,
    },
};

/// Number of owners per page of the table.
const OWNERS: usize = 100;
/// Number of results per page of an object.
const RESULTS: usize = 50;
/// Maximum number of violations in each list of changes.
const CHANGES: usize = 5;

/// Returns the overview of all results, or of those that a query selects.
pub(super) fn overview(page: &Page, query: &PageQuery, reader: Option<&str>) -> Markup {
    let owners = owners::grouped(page.entries(query));
    document(
        &headline(&page.result),
        Some(&header(page, reader)),
        &html! {
            (trust(page))
            (changes(page))
            (severities(&page.result.results, |word| {
                Some(query.with(|query| query.severity = Some(word.to_owned())))
            }))
            (filter(page, query))
            (table(&owners, query))
        },
    )
}

/// Returns the view of one object and its dependents.
pub(super) fn object(page: &Page, owner: &OwnerResults<'_>, query: &PageQuery, reader: Option<&str>) -> Markup {
    let rules = RuleCatalog::of(&page.result);
    let pages = Pagination::of(owner.entries.len(), RESULTS, query);
    let name = shown_line(&owner.name);
    let content = html! {
        p { a href="?" { "All objects" } }
        h2 { (name) }
        @if owner.entries.is_empty() {
            p { "No results for this object, or it does not exist." }
        }
        @if pages.last > 1 { p { (count(owner.entries.len(), "result")) ", most severe first" } }
        @for entry in &owner.entries[pages.shown()] {
            (article(entry, owner, &html! {
                dl {
                    @if let Some(since) = entry.since { dt { "Since" } dd { (time(since)) } }
                    @if let Some(about) = rules.about(&entry.policy, &entry.rule) { (words(about)) }
                    dt { "Found by" } dd { code { (place(&entry.source)) } }
                }
                @if let Some(text) = rules.text(entry) {
                    details { summary { "Source of the rule" } pre tabindex="0" { (lines(text)) } }
                }
                @if entry.result.is_violation() && page.result.may_be_excused(entry)
                    && let Ok(draft) = drafts(&page.result, &[entry], page.context.at) {
                    details { summary { "Exception to copy" } pre tabindex="0" { (lines(&draft)) } }
                }
            }))
        }
        (pages.links(query))
    };
    document(&name, Some(&header(page, reader)), &content)
}

/// Returns the state of the result, and the user who has signed in.
fn header(page: &Page, reader: Option<&str>) -> Markup {
    let (class, state) = match page.context {
        PageContext { syncing: Some((read, all)), .. } => {
            ("error", format!("not checking yet: {read} of {all} lists read"))
        }
        PageContext { waiting: waiting @ 1.., .. } => {
            ("error", format!("checking: {} to go", count(waiting, "object")))
        }
        _ if !page.result.complete => ("error", "incomplete".to_owned()),
        _ => ("pass", "complete".to_owned()),
    };
    html! {
        span class=(class) { (state) }
        span #live role="status" { "As of " (time(page.context.at)) }
        @if let Some(reader) = reader { span { (shown_line(reader)) } (sign_out()) }
    }
}

/// Returns the section about the completeness and the age of the result.
fn trust(page: &Page) -> Markup {
    let PageContext { at, changed, syncing, .. } = page.context;
    let more = html! {
        dl {
            dt { "Initial sync" }
            dd { @match syncing {
                Some((read, all)) => { "in progress: " (read) " of " (all) " lists read" }
                None => "done",
            } }
            dt { "Last change" }
            dd { @match changed {
                Some(changed) => { (time(changed)) ", " (age(at, changed)) " before this page" }
                None => "none yet",
            } }
        }
        @if page.is_restricted { p { "Results in namespaces whose reports you may not list are left out." } }
    };
    let problems = page.context.problems.iter().map(String::as_str);
    parts::trust(&page.result, problems, Some(&page.context.policies), &more)
}

/// Returns the time from `then` to `at` in whole seconds, for example `1m 3s`.
fn age(at: Timestamp, then: Timestamp) -> String {
    format!("{:#}", SignedDuration::from_secs(at.duration_since(then).as_secs().max(0)))
}

/// Returns the section with new and resolved violations, each with its time.
fn changes(page: &Page) -> Markup {
    let new = page.new_since();
    let ended = &page.result.ended;
    html! {
        section #changes aria-labelledby="changes-title" {
            h2 #changes-title { "Last 24 hours" }
            div.columns {
                div {
                    h3 { (new.len()) " new" }
                    (listed(new.iter().map(|entry| (entry.since, *entry)), new.len()))
                    p.note { "Violations that existed before kaudit was installed count from its first run." }
                }
                div {
                    h3 { (ended.len()) " resolved" }
                    (listed(ended.iter().map(|ended| (Some(ended.at), &ended.entry)), ended.len()))
                    p.note { "Recorded since this process started, " (time(page.context.began)) "." }
                }
            }
        }
    }
}

fn listed<'p>(entries: impl Iterator<Item = (Option<Timestamp>, &'p Entry)>, number: usize) -> Markup {
    html! {
        ul.plain {
            @for (at, entry) in entries.take(CHANGES) {
                li {
                    (badge(entry)) " "
                    div {
                        a href=(link(&owners::name(owners::of(entry)))) { (object_name(&entry.resource, false)) } " "
                        div.note { (rule_name(entry)) " " @if let Some(at) = at { (time(at)) } }
                    }
                }
            }
        }
        @if number > CHANGES { p { "and " (number - CHANGES) " more" } }
    }
}

fn filter(page: &Page, query: &PageQuery) -> Markup {
    let mut namespaces: Vec<&str> =
        page.result.results.iter().map(|entry| entry.resource.namespace.as_deref().unwrap_or(NO_NAMESPACE)).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let policies: Vec<&str> = page.result.policies.iter().map(|policy| policy.name.as_str()).collect();
    html! {
        form #filter method="get" role="search" {
            (search(query.q.as_deref()))
            (choice("Namespace", "namespace", &namespaces, query.namespace.as_deref()))
            (choice("Policy", "policy", &policies, query.policy.as_deref()))
            @if let Some(severity) = query.severity.as_deref() { input type="hidden" name="severity" value=(severity); }
            button { "Show" }
            @if query.filters() { " " a href="?" { "Show all" } }
        }
    }
}

fn table(owners: &[OwnerResults<'_>], query: &PageQuery) -> Markup {
    let pages = Pagination::of(owners.len(), OWNERS, query);
    html! {
        section #owners aria-labelledby="owners-title" {
            h2 #owners-title {
                (count(owners.len(), "object")) " with results"
                @if query.filters() { " matching the filters" }
            }
            @if owners.is_empty() {
                p { @if query.filters() { "No violations match these filters." } @else { "No results." } }
            } @else {
                table {
                    thead { tr { th scope="col" { "Worst" } th scope="col" { "Object" } th.number scope="col" { "Results" } th scope="col" { "Most severe result" } } }
                    tbody { @for owner in &owners[pages.shown()] { (row(owner)) } }
                }
            }
            (pages.links(query))
        }
    }
}

/// The pages of a long list, and the current one.
struct Pagination {
    all: usize,
    size: usize,
    number: usize,
    last: usize,
}

impl Pagination {
    fn of(all: usize, size: usize, query: &PageQuery) -> Self {
        let last = all.div_ceil(size).max(1);
        Self { all, size, number: query.page.unwrap_or(1).clamp(1, last), last }
    }

    /// Returns the indices of the items on the current page.
    fn shown(&self) -> Range<usize> {
        let begin = (self.number - 1) * self.size;
        begin..self.all.min(begin + self.size)
    }

    fn links(&self, query: &PageQuery) -> Markup {
        let Self { number, last, .. } = *self;
        let to = |number| query.with(|query| query.page = Some(number));
        html! {
            @if last > 1 {
                nav aria-label="Pages" {
                    @if number > 1 { a rel="prev" href=(to(number - 1)) { "Previous" } }
                    " Page " (number) " of " (last) " "
                    @if number < last { a rel="next" href=(to(number + 1)) { "Next" } }
                }
            }
        }
    }
}

fn row(owner: &OwnerResults<'_>) -> Markup {
    let worst = owner.entries.first();
    html! {
        tr class=(worst.map_or("", |worst| worst.result.word())) {
            td { @if let Some(worst) = worst { (badge(worst)) } }
            td {
                a href=(link(&owner.name)) { (shown_line(&owner.name)) }
            }
            td.number { (owner.entries.len()) }
            td { @if let Some(worst) = worst { (rule_name(worst)) ": " span.message { (lines(&message(worst))) } } }
        }
    }
}

fn time(at: Timestamp) -> Markup {
    let second = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    html! { time datetime=(second) { (at.strftime("%Y-%m-%d %H:%M:%S")) " UTC" } }
}

fn link(object: &str) -> String {
    PageQuery::default().with(|query| query.object = Some(object.to_owned()))
}
