//! The page as a file that needs no network, so that it can be archived, sent, printed and searched.
//!
//! Browsers only apply the style and script whose hashes are in the page's policy ([`STYLE`], [`SCRIPT`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use data_encoding::BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::{
    document::STYLE,
    owners::{OwnerResults, grouped},
    parts::{article, badge, choice, lines, place, search, severities, trust, words},
    query::{NONE, severity},
    selection::SeverityCounts,
};
use crate::{
    audit::result::{AuditResult, Entry},
    output::{
        names::{message, rule_name, worst_first},
        rules::RuleCatalog,
        safe::shown_line,
        style::count,
        summary::headline,
    },
};

const SCRIPT: &str = include_str!("file.js");
/// Maximum number of results, which a browser shows and searches quickly; they take about 4 MB.
const RESULTS: usize = 10_000;

/// The rules that have results, each with the index in its anchor.
type RuleAnchors<'r> = BTreeMap<(&'r str, &'r str), usize>;

/// Writes the counts, the gaps, the results by owner, the most severe first, and the annotations of the rules.
pub(crate) fn render(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    let policy = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src '{}'; script-src '{}'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let headline = headline(result);
    let mut entries = worst_first(&result.results);
    let all = entries.len();
    entries.truncate(RESULTS);
    let rules: BTreeSet<_> = entries.iter().map(|entry| (&*entry.policy, &*entry.rule)).collect();
    let found: RuleAnchors<'_> = rules.into_iter().enumerate().map(|(number, rule)| (rule, number)).collect();
    let owners = grouped(entries.iter().copied());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "kaudit: " (headline) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { "kaudit: " (headline) } }
                main {
                    (trust(result, std::iter::empty(), None, &html! {}))
                    (severities(&SeverityCounts::of(&result.results), |_| None))
                    (filter(&entries))
                    section #owners aria-labelledby="owners-title" {
                        h2 #owners-title { (count(owners.len(), "object")) " with results" }
                        @if owners.is_empty() { p { "No results." } }
                        @if all > RESULTS {
                            p.error { (all - RESULTS) " of " (all) " results were left out, the least severe first; use -o json for all." }
                        }
                        @for owner in &owners { (results(owner, &found)) }
                    }
                    (about(result, &found))
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    writeln!(out, "{}", page.into_string())
}

/// Returns the filter, which is hidden until the script shows it.
fn filter(entries: &[&Entry]) -> Markup {
    let namespaces: BTreeSet<String> = entries.iter().map(|entry| namespace(entry)).collect();
    let policies: BTreeSet<String> = entries.iter().map(|entry| shown_line(&entry.policy)).collect();
    let severities: BTreeSet<(bool, _)> =
        entries.iter().map(|entry| (entry.severity.is_none(), entry.severity)).collect();
    let severities: Vec<&str> = severities.into_iter().map(|(_, known)| severity(known)).collect();
    html! {
        form #filter role="search" hidden {
            (search(None))
            (choice("Namespace", "namespace", &namespaces.iter().map(String::as_str).collect::<Vec<_>>(), None))
            (choice("Policy", "policy", &policies.iter().map(String::as_str).collect::<Vec<_>>(), None))
            (choice("Severity", "severity", &severities, None))
            button { "Show" }
            output #found {}
        }
    }
}

fn results(owner: &OwnerResults<'_>, found: &RuleAnchors<'_>) -> Markup {
    let Some(worst) = owner.entries.first() else { return Markup::default() };
    html! {
        details.owner data-namespace=(namespace(worst)) {
            summary {
                (badge(worst)) " " b { (shown_line(&owner.name)) } " " (count(owner.entries.len(), "result"))
                span.note { " " (rule_name(worst)) ": " (lines(&message(worst))) }
            }
            @for entry in &owner.entries {
                (article(entry, owner, &html! {
                    @if let Some(location) = &entry.location {
                        p { "Manifest " code { (shown_line(&format!("{}:{}", location.file, location.line))) } }
                    }
                    @if let Some(number) = found.get(&(&*entry.policy, &*entry.rule)) {
                        p { a href=(format!("#rule-{number}")) { "About the rule" } ", " code { (place(&entry.source)) } }
                    }
                }))
            }
        }
    }
}

/// Returns title, description, page and source of each rule that has results.
fn about(result: &AuditResult, found: &RuleAnchors<'_>) -> Markup {
    let rules = RuleCatalog::of(result);
    html! {
        @if !found.is_empty() {
            section #rules aria-labelledby="rules-title" {
                h2 #rules-title { "Rules" }
                @for ((policy, rule), number) in found {
                    h3 id=(format!("rule-{number}")) { (shown_line(&format!("{policy}/{rule}"))) }
                    @if let Some(about) = rules.about(policy, rule) { dl { (words(about)) } }
                    @for text in rules.texts(policy, rule) {
                        details { summary { code { (place(&text.source)) } } pre tabindex="0" { (lines(&text.text)) } }
                    }
                }
            }
        }
    }
}

fn namespace(entry: &Entry) -> String {
    shown_line(entry.resource.place().as_deref().unwrap_or(NONE))
}

/// Returns the source expression of an inline text, as defined by Content Security Policy Level 3.
fn hash(inline: &str) -> String {
    format!("sha256-{}", BASE64.encode(&Sha256::digest(inline)))
}
