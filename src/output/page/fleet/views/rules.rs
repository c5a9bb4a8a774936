//! Rules with their numbers of failing objects and clusters; one rule with its description.

use maud::{Markup, html};

use super::super::{
    counts::{FleetCounts, RuleCount},
    selection::FleetSelection,
};
use crate::{
    audit::result::About,
    output::{
        page::{
            paging::Pagination,
            parts::words,
            query::{View, severity},
        },
        safe::shown_line,
        style::count,
    },
};

/// Number of rules per page.
const RULES: usize = 100;

pub(super) fn view(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    let rules = &counts.rules;
    let pages = Pagination::new(rules.len(), RULES, selection.query);
    html! {
        h2 { (count(rules.len(), "rule")) " with results" }
        (table(selection, &rules[pages.shown()]))
        (pages.links(selection.query))
        @if let ([rule], Some(_)) = (&rules[..], &selection.query.rule) {
            dl {
                dt { "Rule" } dd { code { (shown_line(&format!("{}/{}", rule.rule.policy, rule.rule.rule))) } }
                @if let Some(about) = about(selection, rule) { (words(about)) }
            }
        }
    }
}

/// Shows rules.
pub(super) fn table(selection: &FleetSelection<'_>, rules: &[RuleCount<'_>]) -> Markup {
    html! {
        @if rules.is_empty() { p { "No results." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Table of rules" {
                table {
                    thead { tr {
                        th scope="col" { "Rule" } th scope="col" { "Severity" }
                        th.number scope="col" { "Failing objects" } th.number scope="col" { "Clusters" }
                        th.number scope="col" { "Excused" }
                    } }
                    tbody { @for rule in rules {
                        @let of = |view| selection.query.to(view).with(|query| query.rule = Some(rule.id()));
                        tr {
                            th scope="row" {
                                a href=(of(View::Rules)) { (shown_line(rule.title())) }
                                " " span.note { (shown_line(&rule.id())) }
                            }
                            td { @let word = severity(rule.tally.severity()); b.badge.(word) { (word) } }
                            td.number data-label="Failing objects" {
                                @if rule.tally.failing > 0 { a href=(of(View::Objects)) { (rule.tally.failing) } } @else { "0" }
                                @if rule.tally.errors > 0 { " +" (rule.tally.errors) " errors" }
                            }
                            td.number data-label="Clusters" {
                                @if rule.tally.clusters > 0 { a href=(of(View::Clusters)) { (rule.tally.clusters) } } @else { "0" }
                            }
                            td.number data-label="Excused" { @if rule.tally.excused > 0 { (rule.tally.excused) } }
                        }
                    } }
                }
            }
        }
    }
}

/// Returns the annotations of a rule, of the first cluster that has it.
fn about<'v>(selection: &FleetSelection<'v>, rule: &RuleCount<'_>) -> Option<&'v About> {
    let shards = selection.clusters.iter().flat_map(|selected| selected.cluster.shards());
    let mut policies = shards.filter_map(|shard| shard.policies.as_deref()).flatten();
    let policy = policies.find(|policy| *policy.name == *rule.rule.policy)?;
    Some(policy.about_rule(&rule.rule.rule))
}
