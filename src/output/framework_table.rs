//! The controls of the chosen frameworks, for people.

use std::io;

use anstyle::Style;

use super::{
    format::RenderOptions,
    framework_list::{CoverageCounts, ListedControl, ListedFramework},
    safe::shown_line,
    style::{BOLD, DIM, GREEN, Paint, columns_of, count, style_of, wrap},
};
use crate::{judge::frameworks::ControlCoverage, model::verdict::Outcome};

/// The text of a control is not made narrower than this.
const NARROWEST: usize = 24;

/// Writes the controls of each framework, with their rules and what they do not cover, and the counts below them.
pub(super) fn render(
    frameworks: &[ListedFramework],
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let paint = Paint(options.color);
    for ListedFramework { name, title, version, link, summary, controls } in frameworks {
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let head = title.as_ref().map_or_else(|| shown_line(name), |title| format!("{}{version}", shown_line(title)));
        let link = link.as_ref().map(|link| format!("  {}", paint.with(DIM, &shown_line(link)))).unwrap_or_default();
        writeln!(out, "{}{link}", paint.with(BOLD, &head))?;
        let widest = controls.iter().map(|control| columns_of(&shown_line(&control.id))).max().unwrap_or_default();
        for control in controls {
            let (word, style) = word(control.coverage);
            let id = shown_line(&control.id);
            let gap = " ".repeat(widest - columns_of(&id));
            let column = "  in full  ".len() + widest + 2;
            let lines = wrap(&described(control), options.width.saturating_sub(column).max(NARROWEST));
            let mut lines = lines.iter().map(|line| line.trim_start());
            writeln!(out, "  {}  {id}{gap}  {}", paint.with(style, word), lines.next().unwrap_or_default())?;
            lines.try_for_each(|line| writeln!(out, "{}{line}", " ".repeat(column)))?;
        }
        let CoverageCounts { full, partial, none } = summary;
        let all = count(controls.len(), "control");
        writeln!(
            out,
            "{all} of {}: {full} covered in full, {partial} in part, {none} not checked\n",
            shown_line(name)
        )?;
    }
    Ok(())
}

fn word(coverage: ControlCoverage) -> (&'static str, Style) {
    match coverage {
        ControlCoverage::Full => ("in full", GREEN),
        ControlCoverage::Partial => ("in part", style_of(Outcome::Warn)),
        ControlCoverage::None => ("no     ", DIM),
    }
}

/// Returns the title, the rules and the reason, for example `Few subjects can read Secrets (RBAC-03): only …`.
fn described(ListedControl { title, rules, reason, .. }: &ListedControl) -> String {
    let rules = if rules.is_empty() { String::new() } else { format!("({})", rules.join(", ")) };
    let parts: Vec<&str> =
        [title.as_deref().unwrap_or_default(), &rules].into_iter().filter(|part| !part.is_empty()).collect();
    let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    shown_line(&format!("{}{reason}", parts.join(" ")))
}
