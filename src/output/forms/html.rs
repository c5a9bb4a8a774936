//! One page that needs no network: to keep, to send, to print, and to search in.
//!
//! Well-formed as XML, too, so that a reader of either sees the same. The only style and script that a browser runs are those
//! whose hashes the page's policy names ([`STYLE`], [`SCRIPT`]).

use std::{collections::BTreeSet, fmt, io};

use data_encoding::BASE64;
use sha2::{Digest as _, Sha256};

use crate::{
    audit::result::{About, AuditResult, Entry},
    output::{
        names::{Names, message, rule_name, worst_first},
        rules::{Rules, page},
        safe::{shown, shown_line},
        style::Paint,
        summary::{headline, remarks, sentence, unjudged},
    },
};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Writes the counts, what was not judged, the results, the worst first, and what the rules say of themselves.
pub(crate) fn render(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    let headline = headline(result);
    write!(
        out,
        r#"<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{}'; script-src '{}'"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>kaudit: {headline}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>kaudit: {headline}</h1>
<p>{}</p>
"#,
        hash(STYLE),
        hash(SCRIPT),
        Text(&sentence(result, Paint(false))),
    )?;
    gaps(result, out)?;
    results(result, out)?;
    rules(result, out)?;
    writeln!(out, "<script>{SCRIPT}</script>\n</body>\n</html>")
}

fn gaps(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    if !result.complete {
        writeln!(out, "<p class=\"gaps\">Incomplete: not everything was judged.</p>")?;
    }
    let mut gaps = unjudged(result, Paint(false));
    gaps.extend(remarks(result, Paint(false)));
    if gaps.is_empty() {
        return Ok(());
    }
    writeln!(out, "<ul class=\"gaps\">")?;
    for gap in gaps {
        writeln!(out, "<li>{}</li>", Text(&gap))?;
    }
    writeln!(out, "</ul>")
}

fn results(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    if result.results.is_empty() {
        return writeln!(out, "<p>No rule found anything.</p>");
    }
    // The script shows what without it would do nothing.
    writeln!(
        out,
        r#"<form id="filter" hidden="hidden">
<label>Search <input id="words" type="search" autocomplete="off"/></label> <output id="found"></output>
</form>
<table id="results">
<thead><tr><th>Result</th><th>Object</th><th>Rule</th><th>Message</th></tr></thead>
<tbody>"#
    )?;
    let names = Names::of(&result.results);
    for entry in worst_first(&result.results) {
        row(entry, &names, out)?;
    }
    writeln!(out, "</tbody>\n</table>")
}

fn row(entry: &Entry, names: &Names<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let word = entry.result.word();
    let severity = entry.severity.map_or(String::new(), |severity| format!(" <small>{}</small>", severity.word()));
    let place = entry.location.as_ref().map(|location| format!("{}:{}", location.file, location.line));
    write!(out, r#"<tr class="{word}"><td><b>{word}</b>{severity}</td><td>{}"#, Text(&names.object(&entry.resource)))?;
    if let Some(place) = place {
        write!(out, "<br/><small>{}</small>", Text(&shown_line(&place)))?;
    }
    let (rule, message) = (rule_name(entry), message(entry));
    writeln!(out, r#"</td><td>{}</td><td class="message">{}</td></tr>"#, Text(&rule), Text(&message))
}

/// Writes title, description and page of each rule that found something.
fn rules(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    let rules = Rules::of(result);
    let found: BTreeSet<(&str, &str)> = result.results.iter().map(|entry| (&*entry.policy, &*entry.rule)).collect();
    let said: Vec<(String, String)> = found
        .into_iter()
        .filter_map(|(policy, rule)| Some((shown_line(&format!("{policy}/{rule}")), said(rules.about(policy, rule)?)?)))
        .collect();
    if said.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>Rules</h2>\n<dl>")?;
    for (rule, said) in said {
        writeln!(out, "<dt>{}</dt>\n<dd>{said}</dd>", Text(&rule))?;
    }
    writeln!(out, "</dl>")
}

/// Returns what a rule says of itself as HTML; `None` if that is nothing.
fn said(about: &About) -> Option<String> {
    let texts = [about.title.as_deref(), about.id.as_deref(), about.description.as_deref()];
    let texts = texts.into_iter().flatten().map(|text| Text(&shown(text)).to_string());
    let page = page(about).map(Text).map(|page| format!(r#"<a href="{page}" rel="noreferrer">{page}</a>"#));
    let parts: Vec<String> = texts.chain(page).collect();
    (!parts.is_empty()).then(|| parts.join("<br/>"))
}

/// Returns the source expression of an inline text, as Content Security Policy Level 3 has it.
fn hash(inline: &str) -> String {
    format!("sha256-{}", BASE64.encode(&Sha256::digest(inline)))
}

/// Text, or in one line the value of an attribute, whatever stands in it. Control characters are to be shown before.
struct Text<'t>(&'t str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            // Not in XML (its production `Char`).
            '\u{fffe}' | '\u{ffff}' => Ok(()),
            // Not as it is: at the beginning of a line, text could be a command to the log of a pipeline.
            '\n' => f.write_str("<br/>"),
            c => write!(f, "{c}"),
        })
    }
}
