//! What was read and checked, and what was not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use maud::{Markup, html};

use super::super::{
    parts::{lines, time, trust},
    selection::PageSelection,
};
use crate::{
    model::coverage::{Coverage, State},
    output::safe::shown_line,
};

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let page = selection.page;
    let context = &page.context;
    let kinds: Vec<&Coverage> = page.result.coverage.iter().filter(|kind| !kind.is_documents()).collect();
    let rules = missing_rights(&kinds);
    let more = html! {
        @if !selection.is_file { dl {
            dt { "Initial sync" }
            dd { @match context.syncing {
                Some((read, all)) => { "in progress: " (read) " of " (all) " lists read" }
                None => "done",
            } }
            dt { "Last change" }
            dd { @match context.changed { Some(changed) => (time(selection, changed)), None => "none yet" } }
        } }
        @if !kinds.is_empty() { (states(&kinds)) }
        @if !rules.is_empty() {
            h3 { "Rights to grant" }
            p {
                "The server refuses to let kaudit list and watch these kinds. Add them to its role (" code { "rbac.readRules" }
                " in the values of the chart), or exclude them with " code { "--exclude" } "."
            }
            pre tabindex="0" { (lines(&rules)) }
        }
        @if page.is_restricted { p { "Results in namespaces whose reports you may not list are left out." } }
    };
    trust(page, &more)
}

/// Shows the numbers of kinds and their objects in each state.
fn states(kinds: &[&Coverage]) -> Markup {
    let mut sums: BTreeMap<State, (usize, usize)> = BTreeMap::new();
    for kind in kinds {
        let (number, objects) = sums.entry(kind.state).or_default();
        *number += 1;
        *objects += kind.objects;
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Kinds by state" {
            table {
                thead { tr { th scope="col" { "State" } th.number scope="col" { "Kinds" } th.number scope="col" { "Objects" } } }
                tbody { @for (state, (number, objects)) in sums {
                    tr {
                        th scope="row" { (state.words()) }
                        td.number data-label="Kinds" { (number) }
                        td.number data-label="Objects" { (objects) }
                    }
                } }
            }
        }
    }
}

/// Returns the rules of a role, in YAML, that allow reading the kinds that are forbidden although they are needed.
fn missing_rights(kinds: &[&Coverage]) -> String {
    let forbidden = kinds.iter().filter(|kind| kind.state == State::Forbidden && !kind.is_unneeded());
    let mut resources: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for kind in forbidden {
        resources.entry(&kind.group).or_default().insert(&kind.resource);
    }
    resources.into_iter().fold(String::new(), |mut rules, (group, resources)| {
        let resources = resources.into_iter().map(shown_line).collect::<Vec<_>>().join(", ");
        // Writing to a string cannot fail.
        let _ = writeln!(
            rules,
            "- apiGroups: [{:?}]\n  resources: [{resources}]\n  verbs: [list, watch]",
            shown_line(group)
        );
        rules
    })
}
