//! Selects the renderer of a format.

use std::io;

use super::{
    csv,
    format::{Format, RenderOptions},
    forms, json, page,
    safe::Guarded,
    text,
};
use crate::audit::{
    ledger::Lifecycle,
    result::{AuditResult, Entry},
};

/// Writes the whole result.
pub fn render(
    format: Format,
    result: &AuditResult,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Json => return json::render(result, out),
        Format::Ndjson => return json::render_lines(result, out),
        _ => {}
    }
    let result = &result.rolled_up();
    let out = &mut if format == Format::Github { Guarded::with_commands(out) } else { Guarded::new(out) };
    match format {
        Format::Text => text::render(result, options, out),
        Format::Json | Format::Ndjson => Ok(()),
        Format::Csv => csv::render(result, out),
        Format::Sarif => forms::sarif(result, options, out),
        Format::Junit => forms::junit(result, out),
        Format::Github => forms::github(result, options, out),
        Format::Gitlab => forms::gitlab(result, options, out),
        Format::Markdown => forms::markdown(result, options, out),
        Format::Html => page::render(result, options.at, out),
        Format::Openreport => forms::openreport(result, options, out),
    }
}

/// Writes a line about a new or resolved violation of a watch. Formats that do not stream write nothing.
pub fn stream_line(
    format: Format,
    event: Lifecycle,
    entry: &Entry,
    time: jiff::Timestamp,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::stream_line(event, entry, time, options, &mut Guarded::new(out)),
        Format::Ndjson => json::stream_line(event, entry, time, out),
        _ => Ok(()),
    }
}
