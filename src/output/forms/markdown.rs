//! Markdown for a job summary or a comment on a pull request: the counts, then the results, the most severe first.
//!
//! Text from objects and policies is put into `<code>`, with punctuation as character references: it cannot be markup,
//! and GitHub and GitLab do not turn it into an `@mention`, `#1` or a link.

use std::{fmt::Write as _, io};

use crate::{
    audit::result::{AuditResult, Entry},
    model::text::shortened,
    output::{
        format::{Place, RenderOptions},
        names::{ShownNames, message, rule_name, worst_first},
        rules::{RuleCatalog, page},
        safe::shown,
        style::{Paint, count},
        summary::{gap_lines, headline, remarks, sentence},
    },
};

/// Maximum length of a message, in bytes; other formats have longer ones.
pub(crate) const MESSAGE_BYTES: usize = 1_024;
/// Maximum number of lines about gaps, exceptions and the baseline.
const GAPS: usize = 20;
/// Bytes reserved for the last sentence.
const LAST_BYTES: usize = 256;
/// The first line of a comment; a job finds the comment by it and updates it.
const MARK: &str = "<!-- kaudit -->\n";

/// Writes as many results as fit.
pub(crate) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let mark = if options.place == Place::Comment { MARK } else { "" };
    let mut document = format!("{mark}{}", head(result));
    let (names, rules) = (ShownNames::of(&result.results), RuleCatalog::of(result));
    let worst = worst_first(&result.results);
    if !worst.is_empty() {
        document.push_str("\n| Result | Object | Rule | Message |\n|---|---|---|---|\n");
    }
    let room = options.place.bytes() - LAST_BYTES;
    let mut written = 0;
    for entry in &worst {
        let row = row(entry, &names, &rules);
        if document.len() + row.len() > room {
            break;
        }
        document.push_str(&row);
        written += 1;
    }
    if written < worst.len() {
        let _ = write!(
            document,
            "\n{} of {} were left out, the least severe first, to fit the size limit.\n",
            worst.len() - written,
            count(worst.len(), "result")
        );
    }
    out.write_all(document.as_bytes())
}

/// Returns the title, the counts, the gaps and the remarks.
fn head(result: &AuditResult) -> String {
    let mut head = format!("### kaudit: {}\n\n{}\n", headline(result), code(&sentence(result, Paint(false))));
    let mut gaps = gap_lines(result, Paint(false));
    if !gaps.is_empty() {
        head.push_str("\nIncomplete: not everything was checked.\n\n");
    }
    gaps.extend(remarks(result, Paint(false)));
    for gap in gaps.iter().take(GAPS) {
        let _ = writeln!(head, "- {}", code(shortened(gap, MESSAGE_BYTES).as_ref()));
    }
    if gaps.len() > GAPS {
        let _ = writeln!(head, "- and {} more", gaps.len() - GAPS);
    }
    head
}

fn row(entry: &Entry, names: &ShownNames<'_>, rules: &RuleCatalog<'_>) -> String {
    let severity = entry.severity.map_or(String::new(), |severity| format!(", {}", severity.word()));
    let place = entry
        .location
        .as_ref()
        .map_or(String::new(), |location| format!("<br>{}", code(&format!("{}:{}", location.file, location.line))));
    let rule = code(&rule_name(entry));
    let rule = match rules.about(&entry.policy, &entry.rule).and_then(page) {
        Some(page) => format!("[{rule}]({})", page.replace('&', "&amp;")),
        None => rule,
    };
    let object = code(&names.object(&entry.resource));
    let message = code(shortened(&message(entry), MESSAGE_BYTES).as_ref());
    format!("| {}{severity} | {object}{place} | {rule} | {message} |\n", entry.result.word())
}

/// Returns text that is not interpreted as markup, whatever it contains.
pub(crate) fn code(text: &str) -> String {
    let mut code = String::from("<code>");
    for c in shown(text).chars() {
        match c {
            '\n' => code.push_str("</code><br><code>"),
            // A word break, as some renderers would otherwise link it as a mail address.
            '@' => code.push_str("&#64;<wbr>"),
            c if c.is_ascii_punctuation() && !"-,;/='\"".contains(c) => {
                let _ = write!(code, "&#{};", u32::from(c));
            }
            c => code.push(c),
        }
    }
    code.push_str("</code>");
    code
}
