//! Frameworks of controls, and how far their controls are checked and met.

use maud::{Markup, html};

use super::{
    super::{
        controls::{ControlNumbers, FrameworkRow, control_name, frameworks},
        query::View,
        selection::PageSelection,
    },
    rules::share,
};
use crate::{
    judge::frameworks::ControlCoverage,
    output::{
        framework_list::{CoverageCounts, ListedControl},
        rules::is_page,
        safe::shown_line,
        style::count,
    },
};

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let rows = frameworks(selection);
    html! {
        h2 { "Frameworks" }
        @if rows.is_empty() {
            p { "No rule in force names a control of a framework in its METADATA (" code { "custom.frameworks" } ")." }
        } @else {
            p.note {
                "A check is one rule on one object to which it applies. Controls that need more than objects, such as files of a node, \
                 are not checked."
            }
        }
        @for row in &rows { (framework(selection, row, rows.len() == 1)) }
    }
}

/// Shows the sums of a framework in a line, and its controls when it is opened.
fn framework(selection: &PageSelection<'_>, row: &FrameworkRow, open: bool) -> Markup {
    let FrameworkRow { listed, controls } = row;
    let CoverageCounts { full, partial, none } = listed.summary;
    let failing = controls.iter().filter(|control| control.failing > 0).count();
    let title = listed.title.as_ref().unwrap_or(&listed.name);
    html! {
        details.framework open[open] {
            summary {
                b { (shown_line(title)) @if let Some(version) = &listed.version { " " (version) } } " "
                span.badges {
                    @if failing > 0 { b.badge.fail { (count(failing, "control")) (if failing == 1 { " fails" } else { " fail" }) } }
                    @else { b.badge.resolved { "no control fails" } }
                }
                span.note { " " (full) " checked in full, " (partial) " in part, " (none) " not checked" }
            }
            div.scroll tabindex="0" role="region" aria-label=(format!("Controls of {}", shown_line(title))) {
                table {
                    thead { tr {
                        th scope="col" { "Control" } th scope="col" { "Checked" }
                        th.number scope="col" { "Failing objects" } th.number scope="col" { "Failing checks" }
                        th.number scope="col" { "of" } th.number scope="col" { "Share" }
                        th scope="col" { "Rules" }
                    } }
                    tbody { @for (listed_control, numbers) in listed.controls.iter().zip(controls) {
                        (control(selection, &listed.name, listed_control, numbers))
                    } }
                }
            }
            @if let Some(link) = listed.link.as_deref().filter(|link| is_page(link)) { p.note { a href=(link) rel="noreferrer" { (link) } } }
        }
    }
}

fn control(
    selection: &PageSelection<'_>,
    framework: &str,
    control: &ListedControl,
    numbers: &ControlNumbers,
) -> Markup {
    let coverage = match control.coverage {
        ControlCoverage::Full => "in full",
        ControlCoverage::Partial => "in part",
        ControlCoverage::None => "no",
    };
    let is_checked = control.coverage != ControlCoverage::None;
    let objects =
        selection.query.to(View::Objects).with(|query| query.framework = Some(control_name(framework, &control.id)));
    html! {
        tr data-rules=[selection.is_file.then(|| ids(&numbers.rules))] data-control=[selection.is_file.then(|| control_name(framework, &control.id))] {
            th scope="row" { (shown_line(&control.id)) @if let Some(title) = &control.title { " " span.title { (shown_line(title)) } } }
            td data-label="Checked" { (coverage) @if let Some(reason) = &control.reason { span.note { ": " (shown_line(reason)) } } }
            td.number data-label="Failing objects" {
                @if numbers.failing > 0 { a href=(objects) { (numbers.failing) } } @else if is_checked { "0" }
            }
            @if let Some(checks) = numbers.checks.filter(|checks| checks.applicable > 0) {
                td.number data-label="Failing checks" { (checks.failing) }
                td.number data-label="of" { (checks.applicable) }
                td.number data-label="Share" { (share(checks.failing, checks.applicable)) }
            } @else { td {} td {} td {} }
            td data-label="Rules" { @for (number, rule) in control.rules.iter().enumerate() {
                @if number > 0 { ", " }
                a href=(selection.query.to(View::Rules).with(|query| query.rule = Some(rule.clone()))) { (shown_line(rule)) }
            } }
        }
    }
}

/// Returns the ids of rules for the script, which have no spaces.
fn ids(rules: &std::collections::BTreeSet<String>) -> String {
    rules.iter().map(|rule| shown_line(rule)).collect::<Vec<_>>().join(" ")
}
