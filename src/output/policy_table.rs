//! The table of `kaudit policies`, for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use anstyle::Style;

use super::{
    format::RenderOptions,
    framework_table,
    policy_list::{ControlCounts, ListedPolicy, ListedRule, PolicyCounts, PolicyList},
    safe::shown_line,
    style::{BOLD, DIM, Paint, columns_of, count, style_of, wrap},
};
use crate::{
    judge::{
        dialects::gatekeeper,
        metadata::LookupNeed,
        unjudged::{ControlName, Unjudged},
    },
    model::verdict::{Outcome, Severity, Source},
};

/// Writes a table with one line per rule, and details below each policy. Problems are not included.
pub(crate) fn render(list: &PolicyList, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let paint = Paint(options.color);
    let rows: Vec<Vec<Row>> = list.policies.iter().map(rows).collect();
    let columns = TableColumns::of(rows.iter().flatten(), options.width);
    if !rows.is_empty() {
        let head = Row { cells: HEAD.map(str::to_owned), styles: [DIM; HEAD.len()] };
        columns.write(&head, paint, out)?;
    }
    for (policy, rows) in list.policies.iter().zip(&rows) {
        for row in rows {
            columns.write(row, paint, out)?;
        }
        for (name, text) in details(policy) {
            let room = options.width.saturating_sub(DETAIL).max(NARROWEST);
            for (index, line) in wrap(&shown_line(&text), room).iter().enumerate() {
                let name = if index == 0 { name } else { "" };
                writeln!(out, "  {}", paint.with(DIM, &format!("{name:<8}{}", line.trim_start())))?;
            }
        }
    }
    if !rows.is_empty() {
        writeln!(out)?;
    }
    framework_table::render(&list.frameworks, options, out)?;
    for bundle in &list.bundles {
        writeln!(out, "bundle {}", shown_line(&bundle.described()))?;
    }
    if !list.bundles.is_empty() {
        writeln!(out)?;
    }
    let (of_controls, others): (Vec<&Unjudged>, Vec<_>) =
        list.not_judged.iter().partition(|policy| !policy.controls.is_empty());
    controls(list, &of_controls, options, out)?;
    for (words, policies) in [("not evaluated:", others), ("left out:", list.left_out.iter().collect())] {
        let painted = paint.with(style_of(Outcome::Warn), words);
        for (reason, alike) in by_reason(&policies) {
            let reason = shown_line(reason);
            if alike.len() > SEPARATE {
                let text = format!("{}  {reason}: {}", number_of(alike.len()), names(&alike));
                wrapped(words, &text, options, out)?;
                continue;
            }
            for Unjudged { name, source, .. } in alike {
                writeln!(out, "{painted} {}  {}  {reason}", shown_line(name), paint.with(DIM, &place(source)))?;
            }
        }
    }
    if !list.not_judged.is_empty() || !list.left_out.is_empty() {
        writeln!(out)?;
    }
    let profile = list.profile.map_or_else(String::new, |profile| format!("; profile {}", profile.word()));
    writeln!(out, "{}{profile}", closing_line(&list.summary, paint))
}

/// Writes a line for each control that is evaluated in part or not at all, with its rules that are not evaluated.
fn controls(
    list: &PolicyList,
    rules: &[&Unjudged],
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut controls: BTreeMap<&ControlName, Vec<&Unjudged>> = BTreeMap::new();
    for rule in rules {
        rule.controls.iter().for_each(|control| controls.entry(control).or_default().push(rule));
    }
    for (control, rules) in controls {
        let is_judged = list.policies.iter().any(|policy| policy.name == control.id);
        let words = if is_judged { "partly evaluated:" } else { "not evaluated:" };
        // A control without rules has an entry of its own name.
        let rule = |rule: &&Unjudged| {
            if rule.name == control.id { rule.reason.clone() } else { format!("{} ({})", rule.name, rule.reason) }
        };
        let rules = rules.iter().map(rule).collect::<Vec<_>>().join(", ");
        let title = if control.title.is_empty() { String::new() } else { format!(" {}", control.title) };
        wrapped(words, &format!("{}{title}: {rules}", control.id), options, out)?;
    }
    Ok(())
}

/// Writes a wrapped text after coloured words.
fn wrapped(words: &str, text: &str, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let painted = Paint(options.color).with(style_of(Outcome::Warn), words);
    let text = format!("{words} {}", shown_line(text));
    for (index, line) in wrap(&text, options.width.max(NARROWEST)).iter().enumerate() {
        let indent = if index == 0 { "" } else { "  " };
        writeln!(out, "{indent}{}", line.trim_start().replacen(words, &painted, usize::from(index == 0)))?;
    }
    Ok(())
}

/// Groups policies that are not evaluated by their reasons.
fn by_reason<'l>(policies: &[&'l Unjudged]) -> BTreeMap<&'l str, Vec<&'l Unjudged>> {
    let mut reasons: BTreeMap<&str, Vec<&Unjudged>> = BTreeMap::new();
    for policy in policies {
        reasons.entry(&policy.reason).or_default().push(policy);
    }
    reasons
}

/// Joins names; if there are many, the first ones and the count of the others.
fn names(policies: &[&Unjudged]) -> String {
    let shown = policies.iter().take(PATHS).map(|policy| policy.name.as_str()).collect::<Vec<_>>().join(", ");
    match policies.len().saturating_sub(PATHS) {
        0 => shown,
        more => format!("{shown} and {more} more, which -o json lists"),
    }
}

/// Up to this many policies that are not evaluated for the same reason get a line each.
const SEPARATE: usize = 3;
/// Column at which the text of a line with details begins.
const DETAIL: usize = 10;
/// Kinds that are wider than this get a line of their own.
const KINDS_WIDTH: usize = 24;
/// Maximum number of paths and names that are listed.
const PATHS: usize = 8;
/// Columns are not made narrower than this.
const NARROWEST: usize = 12;
/// Space between two columns.
const GAP: usize = 2;
const HEAD: [&str; 9] = ["POLICY", "DIALECT", "REGO", "RULE", "RESULT", "SEVERITY", "KINDS", "DEPENDS ON", "SOURCE"];
/// Columns that may be wrapped.
const WRAPPED: [usize; 5] = [0, 3, 6, 7, 8];

/// One row of the table, which is wrapped to several lines if a column is too narrow.
struct Row {
    cells: [String; HEAD.len()],
    styles: [Style; HEAD.len()],
}

/// Returns one row per rule; only the first row has the cells of the policy.
fn rows(policy: &ListedPolicy) -> Vec<Row> {
    let rego: Vec<String> = policy.rego.iter().map(ToString::to_string).collect();
    let rule = |(index, rule): (usize, &ListedRule)| {
        let once = |text: &str| if index == 0 { shown_line(text) } else { String::new() };
        let cells = [
            once(&policy.name),
            once(&policy.dialect),
            once(&rego.join(", ")),
            shown_line(&rule.name),
            rule.result.word().to_owned(),
            rule.about.severity.map_or("-", Severity::word).to_owned(),
            once(&short_kinds(policy).unwrap_or_else(|| format!("{} kinds", policy.kinds.len()))),
            shown_line(&depends_on(policy, rule, index == 0)),
            place(if is_constraint(policy) { &policy.source } else { &rule.source }),
        ];
        let plain = Style::new();
        Row { cells, styles: [BOLD, plain, plain, plain, style_of(rule.result), plain, plain, plain, DIM] }
    };
    policy.rules.iter().enumerate().map(rule).collect()
}

/// Returns what a rule depends on: in the first row that of its policy, and in each row whether every object of the
/// inventory has to be known.
fn depends_on(policy: &ListedPolicy, rule: &ListedRule, is_first: bool) -> String {
    let is_complete = rule.lookups == LookupNeed::Complete.word();
    let of_policy = policy.depends_on.iter().copied().filter(|word| is_first && !(is_complete && *word == "inventory"));
    let words: Vec<&str> = is_complete.then_some("complete inventory").into_iter().chain(of_policy).collect();
    if words.is_empty() && is_first { "-".to_owned() } else { words.join(", ") }
}

/// Returns further details of a policy, by name.
fn details(policy: &ListedPolicy) -> Vec<(&'static str, String)> {
    let title = policy.about.title.as_deref().or(policy.about.description.as_deref());
    let title = title.map(|title| ("about", title.lines().next().unwrap_or_default().to_owned()));
    let template = policy.rules.first().filter(|_| is_constraint(policy)).map(|rule| ("rule", place(&rule.source)));
    let kinds = short_kinds(policy).is_none().then(|| ("kinds", policy.kinds.join(", ")));
    let reads = (!policy.reads.is_empty()).then(|| ("reads", short_paths(&policy.reads)));
    let cost = "iterates over all objects of a kind for each object that it checks".to_owned();
    let cost = policy.scans_inventory.then_some(("cost", cost));
    let excusable: Vec<&str> = policy.rules.iter().filter(|rule| rule.excusable).map(|rule| &*rule.name).collect();
    let excusable = (!excusable.is_empty()).then(|| match policy.rules.len() - excusable.len() {
        0 => ("excuse", "a namespace may excuse all rules".to_owned()),
        _ => ("excuse", format!("a namespace may excuse {}", excusable.join(", "))),
    });
    let parameters = policy.rules.iter().flat_map(|rule| {
        let id = rule.about.id.as_deref().unwrap_or_default();
        rule.parameters.iter().map(move |parameter| ("setting", format!("{id} {}", parameter.described())))
    });
    [title, template, kinds, excusable, reads, cost].into_iter().flatten().chain(parameters).collect()
}

/// Returns the kinds of a policy if they fit into a column.
fn short_kinds(policy: &ListedPolicy) -> Option<String> {
    let kinds = if policy.kinds.is_empty() { "none".to_owned() } else { policy.kinds.join(", ") };
    Some(kinds).filter(|kinds| columns_of(kinds) <= KINDS_WIDTH)
}

/// Joins paths, shortened to their first segments if there are too many.
fn short_paths(paths: &[String]) -> String {
    let cut = |path: &String, parts: usize| {
        let mut quoted = false;
        let mut ends = path.char_indices().filter(|(_, c)| {
            quoted ^= *c == '"';
            *c == '.' && !quoted
        });
        ends.nth(parts - 1).map_or_else(|| path.clone(), |(end, _)| format!("{}.…", &path[..end]))
    };
    let cut = |parts: usize| paths.iter().map(|path| cut(path, parts)).collect::<BTreeSet<String>>();
    let deepest = paths.iter().map(|path| path.matches('.').count() + 1).max().unwrap_or(1);
    let shown = (1..=deepest).rev().map(cut).find(|shown| shown.len() <= PATHS).unwrap_or_else(|| cut(1));
    shown.into_iter().collect::<Vec<_>>().join(", ")
}

/// Whether the policy is a Constraint, which has another location than the rule of its template.
fn is_constraint(policy: &ListedPolicy) -> bool {
    policy.dialect == gatekeeper::DIALECT.name
}

fn place(source: &Source) -> String {
    shown_line(&format!("{}:{}", source.file, source.line))
}

/// The widths of the columns.
struct TableColumns([usize; HEAD.len()]);

impl TableColumns {
    fn of<'r>(rows: impl Iterator<Item = &'r Row>, width: usize) -> Self {
        let mut widths = HEAD.map(str::len);
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(columns_of(cell));
            }
        }
        // Narrow the widest column first.
        while widths.iter().sum::<usize>() + GAP * (HEAD.len() - 1) > width {
            let Some(widest) =
                WRAPPED.into_iter().filter(|column| widths[*column] > NARROWEST).max_by_key(|c| widths[*c])
            else {
                break;
            };
            widths[widest] -= 1;
        }
        Self(widths)
    }

    fn write(&self, row: &Row, paint: Paint, out: &mut dyn io::Write) -> io::Result<()> {
        let cells: Vec<Vec<String>> =
            row.cells.iter().zip(self.0).map(|(cell, width)| wrap_name(cell, width)).collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut text = String::new();
            let mut blank = 0;
            for ((cell, width), style) in cells.iter().zip(self.0).zip(row.styles) {
                let cell = cell.get(line).map_or("", String::as_str);
                if !cell.is_empty() {
                    text.push_str(&" ".repeat(blank));
                    text.push_str(&paint.with(style, cell));
                    blank = 0;
                }
                blank += width + GAP - columns_of(cell);
            }
            writeln!(out, "{text}")?;
        }
        Ok(())
    }
}

/// Wraps names and paths after separators if they are too long for one line.
fn wrap_name(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split_inclusive(['.', '/', '_', '-', ' ']) {
        let used = lines.last().map_or(0, |line| columns_of(line));
        if used + columns_of(part.trim_end()) > width {
            lines.retain(|line| !line.is_empty());
            lines.extend(wrap(part, width));
        } else if let Some(line) = lines.last_mut() {
            line.push_str(part);
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

fn number_of(policies: usize) -> String {
    if policies == 1 { "1 policy".to_owned() } else { format!("{policies} policies") }
}

fn closing_line(summary: &PolicyCounts, paint: Paint) -> String {
    let mut text = format!("{}, {}", number_of(summary.policies), count(summary.rules, "rule"));
    if let Some(ControlCounts { judged, partly_judged, not_judged }) = summary.controls {
        let parts = [(judged, "evaluated"), (partly_judged, "partly evaluated"), (not_judged, "not evaluated")];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let parts: Vec<String> = parts.map(|(number, words)| format!("{number} {words}")).collect();
        let all = count(judged + partly_judged + not_judged, "control");
        text = format!("{text}; {all}: {}", parts.join(", "));
    }
    if summary.refused > 0 {
        let refused = format!("{} refused", count(summary.refused, "file"));
        text = format!("{text}; {}", paint.with(style_of(Outcome::Fail), &refused));
    }
    if summary.warnings > 0 {
        let warnings = count(summary.warnings, "warning");
        text = format!("{text}; {}", paint.with(style_of(Outcome::Warn), &warnings));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::result::About,
        rego::{Problem, Version},
    };

    fn rule(name: &str, result: Outcome, severity: Option<Severity>) -> ListedRule {
        let source = Source { file: "policies/a/rather/long/way/down/images.rego".into(), line: 17 };
        ListedRule {
            name: name.into(),
            result,
            excusable: severity.is_none(),
            lookups: None,
            source,
            about: About { severity, ..About::default() },
            parameters: Vec::new(),
        }
    }

    fn list() -> PolicyList {
        let title =
            "What may run here, text of such a length that humans would hate to read it all on one line of a screen";
        let images = ListedPolicy {
            name: "company.platform.security.images".into(),
            dialect: "conftest".into(),
            rego: [Version::V0, Version::V1].into(),
            source: Source { file: "policies/a/rather/long/way/down/images.rego".into(), line: 17 },
            about: About { title: Some(title.into()), ..About::default() },
            kinds: vec!["*".to_owned()],
            depends_on: vec!["inventory", "namespace", "clock", "transition"],
            reads: vec!["kind".to_owned(), "spec.containers[].image".to_owned()],
            scans_inventory: true,
            rules: vec![
                rule("deny_images_that_cannot_get_signed", Outcome::Fail, Some(Severity::Critical)),
                rule("warn_\u{1b}[31m", Outcome::Warn, None),
            ],
        };
        let problem = Problem::refused(&"b.rego".into(), "broken");
        let list =
            PolicyList::of(vec![images], vec![Problem::warning(&"a.rego".into(), "x"), problem.clone(), problem]);
        let rule = |name: String| Unjudged {
            reason: "it needs what a scanner reads on the nodes".to_owned(),
            source: Source { file: format!("rules/{name}/rule.metadata.json").into(), line: 1 },
            controls: Vec::new(),
            name,
        };
        PolicyList { left_out: (1..11).map(|number| rule(format!("kubelet-{number}"))).collect(), ..list }
    }

    fn text(width: usize) -> String {
        let mut out = Vec::new();
        render(&list(), &RenderOptions { color: false, width, ..RenderOptions::default() }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_fits_into_the_width() {
        for width in [100, 120] {
            let text = text(width);
            assert!(text.lines().all(|line| columns_of(line) <= width), "{text}");
        }
        insta::assert_snapshot!("list_100_columns", text(100));
        // Text that cannot be made narrower is still complete.
        insta::assert_snapshot!("list_20_columns", text(20));
    }

    #[test]
    fn many_paths_are_shortened_to_their_first_segments() {
        let paths = |count: usize| (0..count).map(|n| format!("spec.a[\"x.y\"].b{n}.c")).collect::<Vec<_>>();
        assert_eq!(short_paths(&paths(2)), "spec.a[\"x.y\"].b0.c, spec.a[\"x.y\"].b1.c");
        assert_eq!(short_paths(&paths(9)), "spec.a[\"x.y\"].…");
        let roots: Vec<String> = (0..9).map(|n| format!("root{n}")).collect();
        assert_eq!(short_paths(&roots), roots.join(", "));
    }

    #[test]
    fn refused_policies_are_counted_by_file() {
        assert_eq!(list().summary, PolicyCounts { policies: 1, rules: 2, refused: 1, warnings: 1, controls: None });
    }
}
