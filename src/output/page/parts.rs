//! Parts shared by the page over HTTP and the page in a file. maud escapes markup in all text; control characters are
//! escaped before.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{
    prepared::Page,
    query::{NO_SEVERITY, severity},
    selection::{PageSelection, SeverityCounts},
};
use crate::{
    audit::{
        exceptions::ExceptionSummary,
        result::{About, Entry},
    },
    model::verdict::{Outcome, Severity, Source},
    output::{
        rules::page,
        safe::{shown, shown_line},
        style::{Paint, count},
        summary::{kinds_with_objects, remarks, sentence},
    },
};

/// Number of characters shown of the policies' revision, which distinguish it from others.
const REVISION: usize = 12;

/// Returns the section about the completeness of the result: an incomplete result must never look like a clean one.
/// `more` is further content of the section.
pub(super) fn trust(page: &Page, more: &Markup) -> Markup {
    let (result, gaps) = (&page.result, page.gaps());
    let revision = Some(page.context.policies.as_str()).filter(|revision| !revision.is_empty());
    let kinds = kinds_with_objects(&result.coverage);
    let policies = result.policies.len();
    html! {
        section #trust aria-labelledby="trust-title" {
            h2 #trust-title { "Status" }
            p { (sentence(result, Paint(false))) "." }
            @if gaps.is_empty() && result.complete {
                p { "Everything in scope is checked." }
            } @else {
                p.error { "Not everything is checked." }
                @if !gaps.is_empty() { ul.error { @for gap in &gaps { li { (gap) } } } }
            }
            (more)
            @for remark in remarks(result, Paint(false)) { p { (remark) } }
            details {
                summary {
                    (policies) (if policies == 1 { " policy" } else { " policies" })
                    @if let Some(revision) = revision { ", revision " code title=(revision) { (revision.get(..REVISION).unwrap_or(revision)) } }
                }
                @if !result.bundles.is_empty() { ul { @for bundle in &result.bundles { li { (shown_line(&bundle.described())) } } } }
                ul { @for policy in &result.policies {
                    li {
                        (shown_line(&policy.name)) ": " code { (shown_line(&policy.source)) }
                        @if !policy.objects.is_empty() {
                            ul { @for (rule, counts) in &policy.objects { li { (shown_line(rule)) ": " (counts) } } }
                        }
                    }
                } }
            }
            details {
                summary { (count(kinds.clone().count(), "kind")) " with objects" }
                ul { @for kind in kinds {
                    li { (shown_line(&kind.kind)) @if !kind.group.is_empty() { "." (shown_line(&kind.group)) } ": " (kind.objects) }
                } }
            }
        }
    }
}

/// Shows numbers of violations by severity as a bar and as words, each with a link to its view if there is one.
pub(super) fn severities(counts: &SeverityCounts, link: impl Fn(&str) -> Option<String>) -> Markup {
    html! {
        @if counts.total() == 0 { p { "No violations." } } @else {
            div.bar aria-hidden="true" {
                svg viewBox=(format!("0 0 {} 1", counts.total())) preserveAspectRatio="none" {
                    @for (at, known, number) in stacked(counts) {
                        rect.(severity(known)) x=(at) width=(number) height="1" {}
                    }
                }
            }
        }
        ul.counts {
            @for (known, number) in counts.iter().filter(|(_, number)| *number > 0) {
                @let word = severity(known);
                @let counted = html! {
                    b.badge.(word) { (number) } " " (if word == NO_SEVERITY { "without severity" } else { word })
                };
                li { @if let Some(link) = link(word) { a href=(link) { (counted) } } @else { span { (counted) } } }
            }
        }
    }
}

/// Returns each severity with its number and the number of more severe violations.
fn stacked(counts: &SeverityCounts) -> impl Iterator<Item = (usize, Option<Severity>, usize)> {
    counts.iter().scan(0, |at, (known, number)| {
        let begin = *at;
        *at += number;
        Some((begin, known, number))
    })
}

/// Returns the id of an element to which a link of a file leads.
pub(super) fn anchor(url: &str) -> &str {
    url.trim_start_matches('?')
}

/// Shows a time relative to that of the page, with the absolute time in its title; the script keeps it up to date. A file
/// shows the absolute time.
pub(super) fn time(selection: &PageSelection<'_>, at: Timestamp) -> Markup {
    if selection.is_file { time_as(at, &absolute(at)) } else { time_at(selection.page.context.at, at) }
}

/// Returns the cells of an exception in a table, after its name.
pub(super) fn exception_cells(exception: &ExceptionSummary, time: impl Fn(Timestamp) -> Markup) -> Markup {
    html! {
        td data-label="State" {
            b.badge.(exception.state.as_str()) { (exception.state.as_str()) }
            @if !exception.message.is_empty() { " " (shown_line(&exception.sentence())) }
        }
        td.number data-label="Excuses" { (exception.results) }
        td data-label="Ends" { @if let Some(end) = exception.expires_at { (time(end)) } }
        td data-label="Reason" { (shown_line(&exception.reason)) }
    }
}

/// Shows a time relative to that of the page, `now`; see [`time`].
pub(super) fn time_at(now: Timestamp, at: Timestamp) -> Markup {
    time_as(at, &relative(now.duration_since(at)))
}

fn time_as(at: Timestamp, shown: &str) -> Markup {
    let second = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    html! { time datetime=(second) title=(absolute(at)) { (shown) } }
}

fn absolute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Returns a duration as people say it: `4 s ago`, `in 3 d`. The script has the same units.
fn relative(ago: SignedDuration) -> String {
    let seconds = ago.as_secs().unsigned_abs();
    let (number, unit) = match seconds {
        0..60 => (seconds, "s"),
        60..3_600 => (seconds / 60, "min"),
        3_600..172_800 => (seconds / 3_600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    if ago.is_negative() { format!("in {number} {unit}") } else { format!("{number} {unit} ago") }
}

/// Returns a period as people say it: `24 hours`.
pub(super) fn in_words(period: SignedDuration) -> String {
    let (hours, minutes) = (period.as_hours(), period.as_mins());
    match (hours, minutes) {
        (0, minutes) => count(usize::try_from(minutes).unwrap_or_default(), "minute"),
        (1..=48, _) => count(usize::try_from(hours).unwrap_or_default(), "hour"),
        _ => count(usize::try_from(hours / 24).unwrap_or_default(), "day"),
    }
}

/// Returns a drop-down list of these values, shown as `words` of them, and of the word for all.
pub(super) fn choice<S: AsRef<str>>(
    (label, name, all): (&str, &str, &str),
    values: impl IntoIterator<Item = S>,
    words: impl Fn(&str) -> String,
    chosen: Option<&str>,
) -> Markup {
    let values: Vec<S> = values.into_iter().collect();
    // The chosen value is an option even if there are no results for it any more.
    let lost = chosen.filter(|chosen| values.iter().all(|value| value.as_ref() != *chosen));
    html! {
        label {
            (label) " "
            select name=(name) {
                option value="" { (all) }
                @for value in values.iter().map(AsRef::as_ref).chain(lost) {
                    option value=(value) selected[chosen == Some(value)] { (words(value)) }
                }
            }
        }
    }
}

/// Returns the annotations of a rule, as items of a description list.
pub(super) fn words(about: &About) -> Markup {
    let texts = [("Title", about.title.as_deref()), ("Description", about.description.as_deref())];
    html! {
        @for (label, text) in texts.into_iter().filter_map(|(label, text)| Some((label, text?))) {
            dt { (label) } dd.message { (lines(text)) }
        }
        @if let Some(action) = &about.recommended_action { dt { "How to fix it" } dd.message { (lines(action)) } }
        @if !about.frameworks.is_empty() { dt { "Frameworks" } dd { (shown_line(&about.served_controls())) } }
        @if let Some(url) = page(about) { dt { "More" } dd { a href=(url) rel="noreferrer" { (url) } } }
    }
}

/// Returns the heading of the column of a severity.
pub(super) fn severity_label(severity: &str) -> &str {
    if severity == NO_SEVERITY { "other" } else { severity }
}

/// Shows numbers of new and resolved violations.
pub(super) fn delta(new: usize, resolved: usize) -> Markup {
    html! {
        @if new > 0 { span.new { "+" (new) } }
        @if new > 0 && resolved > 0 { " " }
        @if resolved > 0 { span.resolved { "−" (resolved) } }
    }
}

pub(super) fn badge(entry: &Entry) -> Markup {
    let word = match entry.result {
        Outcome::Fail | Outcome::Warn => entry.severity.map_or(entry.result.word(), Severity::word),
        other => other.word(),
    };
    html! { b.badge.(word) { (word) } }
}

pub(super) fn place(source: &Source) -> String {
    shown_line(&format!("{}:{}", source.file, source.line))
}

/// Shows text with `<br>` between its lines, so that none of them is at the beginning of a line of the HTML: in the log of
/// a pipeline, it could be a command.
pub(super) fn lines(text: &str) -> Markup {
    let text = shown(text.trim_end());
    html! { @for (number, line) in text.split('\n').enumerate() { @if number > 0 { br; } (line) } }
}
