//! The open violations of the last days, as a chart.

use jiff::ToSpan as _;
use maud::{Markup, html};

use super::super::{
    query::{View, severity},
    selection::{PageSelection, SeverityCounts},
};
use crate::{audit::history::History, output::style::count};

/// Maximum number of days in the chart.
const DAYS: usize = 90;

/// The counts of one colour, the oldest first; the last one is the current count.
struct Layer {
    class: &'static str,
    counts: Vec<usize>,
}

/// Shows the counts of the days before and the current one, stacked by severity; nothing if other filters are in force
/// than those by which counts are kept, or if there is only one day.
pub(super) fn chart(selection: &PageSelection<'_>) -> Markup {
    let history = &selection.page.context.history;
    let days = history.days().min(DAYS);
    let layers = layers(selection, days);
    let (Some(last), true) = (history.last, days > 1 && !layers.is_empty()) else { return Markup::default() };
    let Ok(first) = last.checked_sub(i64::try_from(days - 1).unwrap_or_default().days()) else {
        return Markup::default();
    };
    let sums: Vec<usize> = (0..=days).map(|at| layers.iter().map(|layer| layer.counts[at]).sum()).collect();
    let most = sums.iter().copied().max().unwrap_or_default().max(1);
    let title = format!("{} on {first}, {} now, {most} at most", sums[0], sums[days]);
    html! {
        section.history aria-labelledby="history-title" {
            h3 #history-title { "Last " (count(days, "day")) }
            svg viewBox=(format!("0 0 {days} {most}")) preserveAspectRatio="none" role="img" aria-label=(title) {
                @for (layer, below) in layers.iter().zip(stacked(&layers)) {
                    polygon.(layer.class) points=(points(&layer.counts, &below, most)) {}
                }
            }
            p.note { (title) ". " a href=(history_url(selection)) { "CSV" } }
        }
    }
}

fn history_url(selection: &PageSelection<'_>) -> String {
    format!("{}&format=history", selection.query.to(View::Changes).url())
}

/// Returns the counts by severity, or those of the one namespace, rule or severity that is selected.
fn layers(selection: &PageSelection<'_>, days: usize) -> Vec<Layer> {
    let history: &History = &selection.page.context.history;
    let now = selection.violations().count();
    let one = |series: Option<_>| {
        let counts = series.map(|series| history.latest(series, days));
        counts.map(|counts| Layer { class: "info", counts: counts.into_iter().chain([now]).collect() })
    };
    match selection.query.filters()[..] {
        [] => {
            let current = SeverityCounts::of(selection.violations());
            let layers = current.iter().filter_map(|(known, now)| {
                let counts = history.latest(history.severities.get(History::severity(known))?, days);
                Some(Layer { class: severity(known), counts: counts.into_iter().chain([now]).collect() })
            });
            layers.collect()
        }
        [("namespace", name)] => one(history.namespaces.get(name)).into_iter().collect(),
        [("rule", name)] => one(history.rules.get(name)).into_iter().collect(),
        [("severity", name)] => one(history.severities.get(name)).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns for each layer the sum of those below it.
fn stacked(layers: &[Layer]) -> Vec<Vec<usize>> {
    let days = layers.first().map_or(0, |layer| layer.counts.len());
    let sums = layers.iter().scan(vec![0; days], |below, layer| {
        let own = below.clone();
        below.iter_mut().zip(&layer.counts).for_each(|(below, count)| *below += count);
        Some(own)
    });
    sums.collect()
}

/// Returns the outline of a layer: its upper edge, then its lower edge in reverse.
fn points(counts: &[usize], below: &[usize], most: usize) -> String {
    let point = |(at, height): (usize, usize)| format!("{at},{}", most - height);
    let upper = counts.iter().zip(below).map(|(count, below)| count + below).enumerate().map(point);
    let lower = below.iter().copied().enumerate().rev().map(point);
    upper.chain(lower).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_above_each_other() {
        let layers = [Layer { class: "high", counts: vec![1, 2] }, Layer { class: "low", counts: vec![3, 0] }];
        let below = stacked(&layers);
        assert_eq!(below, [vec![0, 0], vec![1, 2]]);
        assert_eq!(points(&layers[0].counts, &below[0], 4), "0,3 1,2 1,4 0,4");
        assert_eq!(points(&layers[1].counts, &below[1], 4), "0,0 1,2 1,2 0,3");
    }
}
