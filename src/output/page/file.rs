//! The page as a file that needs no network, so that it can be archived, sent, printed and searched.
//!
//! It has the views of the served page as sections, and links to a query become links within the file. Without the
//! script, all sections are shown below each other. Browsers only apply the style and script whose hashes are in the
//! page's policy ([`STYLE`], [`SCRIPT`]).

use std::{io, sync::Arc};

use data_encoding::BASE64;
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::{
    document::STYLE,
    layout::{PageState, filter, header},
    parts::time,
    prepared::{Page, PageContext},
    query::{PageQuery, View},
    selection::PageSelection,
    views,
};
use crate::{
    audit::result::AuditResult,
    output::{names::worst_first, summary::headline},
};

const SCRIPT: &str = include_str!("file.js");
/// Maximum number of results, which a browser shows and searches quickly; they take about 4 MB.
const RESULTS: usize = 10_000;

/// Writes all views of a result; `at` is the time of the audit, if the file shall name it.
pub(crate) fn render(result: &AuditResult, at: Option<Timestamp>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut entries = worst_first(&result.results);
    let all = entries.len();
    entries.truncate(RESULTS);
    let shown = result.with_results(entries.into_iter().cloned().collect());
    let page = Page::new(shown, PageContext::of_file(at.unwrap_or_default()));
    let query = PageQuery::default();
    let selection = PageSelection { is_file: true, ..PageSelection::new(&page, &query) };
    let content = html! {
        @if let Some(at) = at { p.note { "Audit of " (time(&selection, at)) } }
        (filter(&selection))
        @if all > RESULTS {
            p.error { (all - RESULTS) " of " (all) " results were left out, the least severe first, and the numbers below are without them; use -o json for all." }
        }
        @for view in View::ALL.into_iter().filter(|view| view.is_in_file()) {
            section.view id=(format!("view={}", view.word())) aria-label=(view.title()) { (views::content(view, &selection)) }
        }
    };
    let html = document(&format!("kaudit: {}", headline(result)), &selection, &content).into_string();
    // maud escapes quotes in text, so that this occurs in links only.
    writeln!(out, "{}", html.replace("href=\"?", "href=\"#"))
}

fn document(title: &str, selection: &PageSelection<'_>, content: &Markup) -> Markup {
    let policy = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src '{}'; script-src '{}'",
        hash(STYLE),
        hash(SCRIPT)
    );
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { h1 { "kaudit" } (header(selection, &PageState::of(selection), None)) }
                main #main tabindex="-1" { (content) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

impl PageContext {
    /// Returns the context of an audit that has ended.
    fn of_file(at: Timestamp) -> Self {
        Self {
            cluster: Arc::default(),
            at,
            began: at,
            changed: None,
            syncing: None,
            waiting: 0,
            policies: String::new(),
            policies_since: None,
            outdated: None,
            history: Arc::default(),
            problems: Vec::new(),
        }
    }
}

/// Returns the source expression of an inline text, as defined by Content Security Policy Level 3.
fn hash(inline: &str) -> String {
    format!("sha256-{}", BASE64.encode(&Sha256::digest(inline)))
}
