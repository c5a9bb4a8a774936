//! Terminal text: colours, widths and wrapping.

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::model::verdict::{Outcome, Severity};

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GREEN: Style = AnsiColor::Green.on_default();

/// Adds colours, if enabled.
#[derive(Clone, Copy)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    pub(super) fn with(self, style: Style, text: &str) -> String {
        if self.0 { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

pub(super) fn style_of(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Fail => BOLD,
        Outcome::Warn => Style::new(),
        Outcome::Error => AnsiColor::Magenta.on_default(),
        Outcome::Skip => DIM,
    }
}

/// Returns the style of a severity, or of none.
pub(super) fn severity_style(severity: Option<Severity>) -> Style {
    match severity {
        Some(Severity::Critical) => AnsiColor::Red.on_default().bold(),
        Some(Severity::High) => AnsiColor::Red.on_default(),
        Some(Severity::Medium) => AnsiColor::Yellow.on_default(),
        Some(Severity::Low) => AnsiColor::Cyan.on_default(),
        Some(Severity::Info) | None => DIM,
    }
}

/// Returns a number with its noun, which must have a regular plural.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Wraps `text` into lines of at most `width` columns, at spaces where possible.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split('\n') {
        let mut line = String::new();
        let mut used = 0;
        // Each word includes its leading spaces, so that indented lists in messages stay indented.
        for word in words(paragraph) {
            let wide = columns_of(word);
            if used + wide <= width {
                line.push_str(word);
                used += wide;
                continue;
            }
            let word = if used > 0 { word.trim_start() } else { word };
            let is_colored = word.contains('\u{1b}');
            if used > 0 {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            if is_colored {
                // An escape sequence must not be split.
                line.push_str(word);
                used = columns_of(word);
                continue;
            }
            for c in word.chars() {
                let wide = c.width().unwrap_or(0);
                if used + wide > width && used > 0 {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push(c);
                used += wide;
            }
        }
        lines.push(line);
    }
    lines
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let begin = rest.find(|c| c != ' ')?;
        let end = rest[begin..].find(' ').map_or(rest.len(), |length| begin + length);
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// Returns the display width of a text, without colours.
pub(super) fn columns_of(text: &str) -> usize {
    if text.contains('\u{1b}') { anstream::adapter::strip_str(text).to_string().width() } else { text.width() }
}
