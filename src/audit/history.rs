//! Counts of open violations of each day, without a database: they are kept in the status of the `Audit` object.
//!
//! In: one result a day. Out: counts by severity, namespace and rule of the last [`DAYS`], in at most [`BYTES`] of JSON:
//! if they do not fit, the oldest days of namespaces and rules are dropped, but never those of the severities.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
};

use jiff::{ToSpan as _, civil::Date};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::result::{AuditResult, Entry};
use crate::model::verdict::Severity;

/// The number of days that are kept.
pub const DAYS: usize = 400;
/// The number of namespaces that are kept, those with the most violations.
const NAMESPACES: usize = 50;
/// Maximum size as JSON.
const BYTES: usize = 48 << 10;
/// The key of violations without a severity.
const UNRATED: &str = "unrated";
/// The key of cluster-scoped objects.
const CLUSTER_SCOPED: &str = "-";

/// Counts of open violations, by day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct History {
    /// The last day; each series ends with it.
    pub last: Option<Date>,
    /// By the word for the severity, or `unrated`.
    pub severities: BTreeMap<String, Series>,
    /// By namespace; `-` is for cluster-scoped objects.
    pub namespaces: BTreeMap<String, Series>,
    /// By id of the rule, or by `POLICY/RULE`.
    pub rules: BTreeMap<String, Series>,
}

/// The counts of one name, the oldest first; `None` for a day on which nothing was counted.
///
/// As text, a count that repeats is written once: `3*2 - 4` is 3, 3, unknown, 4.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series(VecDeque<Option<usize>>);

/// Counts by name.
type CountsByName = BTreeMap<String, usize>;

impl History {
    /// Whether a day was counted.
    pub fn has(&self, day: Date) -> bool {
        self.last.is_some_and(|last| last >= day)
    }

    /// Adds the counts of a day, which must be later than the last one.
    pub fn add(&mut self, day: Date, result: &AuditResult) {
        let open = || result.results.iter().filter(|entry| entry.result.is_violation() && entry.covered_by.is_none());
        let counted = |key: fn(&Entry) -> String| {
            open().fold(CountsByName::new(), |mut counts, entry| {
                *counts.entry(key(entry)).or_default() += 1;
                counts
            })
        };
        let mut severities = counted(|entry| Self::severity(entry.severity).to_owned());
        // The number of days is known even if there are no violations.
        severities.entry(UNRATED.to_owned()).or_default();
        let missed = self.last.map_or(0, |last| usize::try_from((day - last).get_days()).unwrap_or_default());
        let missed = missed.saturating_sub(1).min(DAYS);
        self.last = Some(day);
        append(&mut self.severities, missed, severities);
        append(
            &mut self.namespaces,
            missed,
            counted(|entry| entry.resource.namespace.as_deref().unwrap_or(CLUSTER_SCOPED).to_owned()),
        );
        append(&mut self.rules, missed, counted(Entry::id_of_rule));
        self.drop_small_namespaces();
        self.fit();
    }

    /// Returns the number of days that are kept.
    pub fn days(&self) -> usize {
        [&self.severities, &self.namespaces]
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(|series| series.0.len())
            .max()
            .unwrap_or_default()
    }

    /// Returns the key of a severity in [`severities`](Self::severities).
    pub fn severity(severity: Option<Severity>) -> &'static str {
        severity.map_or(UNRATED, Severity::word)
    }

    /// Returns the counts of the last days, the oldest first. A day on which nothing was counted has the count of the day
    /// before.
    pub fn latest(&self, series: &Series, days: usize) -> Vec<usize> {
        let missing = std::iter::repeat_n(Some(0), days.saturating_sub(series.0.len()));
        let known = series.0.iter().copied().skip(series.0.len().saturating_sub(days));
        let mut before = 0;
        let filled = missing.chain(known).map(|count| {
            before = count.unwrap_or(before);
            before
        });
        filled.collect()
    }

    /// Returns the day and the count of each item of a series, the oldest first, without days on which nothing was counted.
    pub fn dated<'h>(&'h self, series: &'h Series) -> impl Iterator<Item = (Date, usize)> + 'h {
        let days = series.0.len();
        series.0.iter().enumerate().filter_map(move |(at, count)| {
            let ago = i64::try_from(days - 1 - at).ok()?;
            Some((self.last?.checked_sub(ago.days()).ok()?, (*count)?))
        })
    }

    /// Returns it for a reader who may only see these namespaces; `-` is for cluster-scoped objects. Counts of several
    /// namespaces are left out.
    #[must_use]
    pub fn restricted_to(&self, is_visible: impl Fn(&str) -> bool) -> Self {
        let namespaces = self.namespaces.iter().filter(|(name, _)| is_visible(name));
        let namespaces = namespaces.map(|(name, series)| (name.clone(), series.clone())).collect();
        Self { last: self.last, namespaces, ..Self::default() }
    }

    /// Keeps the namespaces with the most violations, now or before.
    fn drop_small_namespaces(&mut self) {
        let mut sums: Vec<usize> = self.namespaces.values().map(Series::sum).collect();
        sums.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(most) = sums.get(NAMESPACES) {
            self.namespaces.retain(|_, series| series.sum() > *most);
        }
    }

    /// Drops the older half of the days of namespaces and rules until everything fits.
    fn fit(&mut self) {
        let mut days = DAYS;
        while days > 1 && serde_json::to_vec(self).is_ok_and(|json| json.len() > BYTES) {
            days /= 2;
            for series in self.namespaces.values_mut().chain(self.rules.values_mut()) {
                series.keep(days);
            }
        }
    }
}

/// Appends the counts of a day to all series, after days on which nothing was counted. A series of zeros ends.
fn append(series: &mut BTreeMap<String, Series>, missed: usize, mut counts: CountsByName) {
    for (name, known) in series.iter_mut() {
        known.0.extend(std::iter::repeat_n(None, missed));
        known.0.push_back(Some(counts.remove(name).unwrap_or_default()));
        known.keep(DAYS);
    }
    let new = counts.into_iter().map(|(name, count)| (name, Series([Some(count)].into())));
    series.extend(new);
    series.retain(|name, known| name == UNRATED || known.sum() > 0);
}

impl Series {
    fn sum(&self) -> usize {
        self.0.iter().flatten().sum()
    }

    /// Keeps the last days.
    fn keep(&mut self, days: usize) {
        self.0.drain(..self.0.len().saturating_sub(days));
    }
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        let items: Vec<Option<usize>> = self.0.iter().copied().collect();
        for equal in items.chunk_by(|a, b| a == b) {
            let count = equal.first().copied().flatten().map_or_else(|| "-".to_owned(), |count| count.to_string());
            let gap = if text.is_empty() { "" } else { " " };
            let times = if equal.len() > 1 { format!("*{}", equal.len()) } else { String::new() };
            let _ = write!(text, "{gap}{count}{times}");
        }
        serializer.serialize_str(&text)
    }
}

/// Reads the text. What others have written there instead is left out, and no more than [`DAYS`] are read.
impl<'de> Deserialize<'de> for Series {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut series = Self::default();
        for item in text.split(' ') {
            let (count, times) = item.split_once('*').unwrap_or((item, "1"));
            let times = times.parse::<usize>().unwrap_or(1).min(DAYS);
            series.0.extend(std::iter::repeat_n(count.parse().ok(), times));
            series.keep(DAYS);
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        audit::ledger::Violation,
        model::{object::ObjectRef, verdict::Finding},
    };

    fn day(number: i64) -> Date {
        "2026-01-01".parse::<Date>().unwrap().checked_add(number.days()).unwrap()
    }

    /// Returns a result with this number of violations in each namespace.
    fn open(namespaces: &[(&str, usize)]) -> AuditResult {
        let entries = namespaces.iter().flat_map(|(namespace, number)| {
            let place = Some(*namespace).filter(|name| !name.is_empty()).map(Arc::from);
            let resource =
                Arc::new(ObjectRef { kind: "ConfigMap".to_owned(), namespace: place, ..ObjectRef::default() });
            let found = Finding { severity: Some(Severity::High), ..Violation::sample("no tag").finding };
            std::iter::repeat_n(Entry::new(&found, &resource, None, None), *number)
        });
        AuditResult { results: entries.collect(), ..AuditResult::sample(1) }
    }

    #[test]
    fn each_day_has_its_counts() {
        let mut history = History::default();
        history.add(day(0), &open(&[("shop", 2), ("blog", 1)]));
        history.add(day(1), &open(&[("shop", 2)]));
        // Nothing ran for two days.
        history.add(day(4), &open(&[("shop", 1), ("", 3)]));
        assert!(history.has(day(4)) && history.has(day(3)) && !history.has(day(5)));
        let json = serde_json::to_value(&history).unwrap();
        assert_eq!(json["last"], "2026-01-05");
        assert_eq!(json["severities"]["high"], "3 2 -*2 4");
        assert_eq!(json["namespaces"], serde_json::json!({"shop": "2*2 -*2 1", "blog": "1 0 -*2 0", "-": "3"}));
        assert_eq!(json["rules"], serde_json::json!({"p/deny": "3 2 -*2 4"}));
        let read: History = serde_json::from_value(json).unwrap();
        assert_eq!(read, history);
        let high: Vec<_> = read.dated(&read.severities["high"]).collect();
        assert_eq!(high, [(day(0), 3), (day(1), 2), (day(4), 4)]);
        assert_eq!(read.latest(&read.severities["high"], 5), [3, 2, 2, 2, 4]);
        assert_eq!(read.latest(&read.namespaces["-"], 3), [0, 0, 3]);
    }

    #[test]
    fn four_hundred_days_of_the_largest_namespaces_fit() {
        let mut history = History::default();
        let names: Vec<String> = (0..70).map(|number| format!("namespace-with-a-long-name-{number:02}")).collect();
        for number in 0..450 {
            // Counts that change each day cannot be shortened.
            let changing = |at: usize| (at * 7 + usize::try_from(number).unwrap() * 13) % 9 + 1;
            let open_in: Vec<(&str, usize)> =
                names.iter().enumerate().map(|(at, name)| (name.as_str(), changing(at))).collect();
            history.add(day(number), &open(&open_in));
            if number % 50 == 0 || number == 449 {
                assert!(serde_json::to_vec(&history).unwrap().len() <= BYTES, "{number}");
            }
        }
        assert_eq!(history.dated(&history.severities["high"]).count(), DAYS);
        assert!(
            history.namespaces.len() <= NAMESPACES && history.namespaces.len() > 20,
            "{}",
            history.namespaces.len()
        );
        assert!(history.namespaces.values().all(|series| series.0.len() >= 100));
    }

    #[test]
    fn what_others_wrote_is_read_as_far_as_possible() {
        let read: History =
            serde_json::from_value(serde_json::json!({"severities": {"high": "x 3*99999999 4"}})).unwrap();
        assert_eq!(read.severities["high"].0.len(), DAYS);
        assert_eq!(read.severities["high"].0.back(), Some(&Some(4)));
    }
}
