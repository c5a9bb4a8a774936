//! The query in the URL of a view, which selects its results.

use std::{collections::HashSet, time::Duration};

use jiff::Timestamp;
use memchr::memmem::Finder;
use serde::{Deserialize, Deserializer};

use super::prepared::{NONE, Page};
use crate::{
    audit::result::Entry,
    judge::rule_pattern::RulePattern,
    model::{text, verdict::Severity},
};

/// A view of the page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say all")]
pub enum View {
    #[default]
    Overview,
    Clusters,
    Namespaces,
    Teams,
    Rules,
    Frameworks,
    Objects,
    Changes,
    Exceptions,
    Coverage,
}

impl View {
    /// The views of a cluster or of manifests, in the order of the navigation.
    pub(super) const ALL: [Self; 8] = [
        Self::Overview,
        Self::Namespaces,
        Self::Rules,
        Self::Frameworks,
        Self::Objects,
        Self::Changes,
        Self::Exceptions,
        Self::Coverage,
    ];

    /// The views of a fleet, in the order of the navigation.
    pub(super) const OF_FLEET: [Self; 9] = [
        Self::Overview,
        Self::Clusters,
        Self::Namespaces,
        Self::Teams,
        Self::Rules,
        Self::Objects,
        Self::Changes,
        Self::Exceptions,
        Self::Coverage,
    ];

    /// Whether a cluster does not have it.
    pub(super) fn is_only_of_fleet(self) -> bool {
        matches!(self, Self::Clusters | Self::Teams)
    }

    /// Whether a file has it: only a long run knows changes.
    pub(super) fn is_in_file(self) -> bool {
        self != Self::Changes
    }

    /// Whether filters select what it shows.
    pub(super) fn has_filters(self) -> bool {
        self != Self::Coverage
    }

    /// Returns the value of `view` in a URL.
    pub(super) fn word(self) -> String {
        self.title().to_lowercase()
    }

    /// Returns the title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Clusters => "Clusters",
            Self::Teams => "Teams",
            Self::Namespaces => "Namespaces",
            Self::Rules => "Rules",
            Self::Frameworks => "Frameworks",
            Self::Objects => "Objects",
            Self::Changes => "Changes",
            Self::Exceptions => "Exceptions",
            Self::Coverage => "Coverage",
        }
    }
}

/// The query of a URL of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PageQuery {
    /// The view; unknown names select the overview.
    #[serde(deserialize_with = "view")]
    pub view: View,
    /// The cluster, in a fleet.
    #[serde(deserialize_with = "filled")]
    pub cluster: Option<String>,
    /// Only clusters with these labels, as for `kubectl get -l`, in a fleet.
    #[serde(deserialize_with = "filled")]
    pub label: Option<String>,
    /// Only results in this namespace; `-` selects cluster-scoped objects.
    #[serde(deserialize_with = "filled")]
    pub namespace: Option<String>,
    /// Only results in namespaces of this team; `-` selects those without a team.
    #[serde(deserialize_with = "filled")]
    pub team: Option<String>,
    /// Only results of this rule: `POLICY/RULE`, or a policy, a rule or an id alone, as for `--skip-rule`.
    #[serde(deserialize_with = "filled", alias = "policy")]
    pub rule: Option<String>,
    /// Only results of rules that serve this framework, or a control of it, as for `--framework`.
    #[serde(deserialize_with = "filled")]
    pub framework: Option<String>,
    /// Only results of objects of this kind, as `Kind.group`.
    #[serde(deserialize_with = "filled")]
    pub kind: Option<String>,
    /// Only results of this severity; `none` selects those without a severity.
    #[serde(deserialize_with = "filled")]
    pub severity: Option<String>,
    /// Only results that were first seen within this duration, such as `24h`, or since the `policies` changed.
    #[serde(deserialize_with = "filled")]
    pub since: Option<String>,
    /// Words that must all occur in the object's name, the rule or the message.
    #[serde(deserialize_with = "filled")]
    pub q: Option<String>,
    /// The page of a long table, from 1.
    pub page: Option<usize>,
    /// One object, as `Kind.group/namespace/name`.
    #[serde(deserialize_with = "filled")]
    pub object: Option<String>,
    /// `json`, `csv`, or the counts of each day as `history`, instead of HTML.
    #[serde(deserialize_with = "filled")]
    pub format: Option<String>,
}

/// The value of `since` for the time when the policies changed.
pub(super) const POLICIES: &str = "policies";
/// The value of `severity` for results without a severity.
pub(super) const NO_SEVERITY: &str = "none";

impl PageQuery {
    /// Returns a predicate that selects results of a page. A duration that cannot be read selects all.
    pub(super) fn filter<'q>(&'q self, page: &'q Page) -> impl FnMut(&Entry) -> bool + 'q {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let takes_rule = self.takes_rule(page);
        let kind = self.kind.as_deref();
        let since = self.since(page);
        let mut words = SearchWords::new(self.q.as_deref().unwrap_or_default());
        move |entry| {
            is(&self.namespace, place(entry))
                && (self.team.is_none() || is(&self.team, page.team(entry).unwrap_or(NONE)))
                && is(&self.severity, severity(entry.severity))
                && kind.is_none_or(|kind| owner_kind(entry) == kind)
                && takes_rule(&entry.policy, &entry.rule, entry.rule_id.as_deref())
                && since.is_none_or(|since| entry.since.is_some_and(|first| first >= since))
                && words.occur_in(entry)
        }
    }

    /// Returns a predicate that selects rules by their policy, name and id.
    pub(super) fn takes_rule<'q>(&'q self, page: &'q Page) -> impl Fn(&str, &str, Option<&str>) -> bool + 'q {
        let pattern = self.rule.as_deref().map(RulePattern::new);
        let serving = self.framework.as_deref().map(|framework| -> HashSet<_> {
            page.serving(framework).map(|(policy, rule, _)| (policy, rule)).collect()
        });
        move |policy, rule, id| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches_ids(policy, rule, id.into_iter()))
                && serving.as_ref().is_none_or(|serving| serving.contains(&(policy, rule)))
        }
    }

    /// Whether the filters in force select rules only, so that the numbers of objects that these apply to are known.
    pub(super) fn selects_rules_only(&self) -> bool {
        self.filters().iter().all(|(name, _)| ["rule", "framework"].contains(name))
    }

    /// Returns the time that `since` names; `None` if there is none, or if it cannot be read.
    pub(super) fn since(&self, page: &Page) -> Option<Timestamp> {
        let text = self.since.as_deref()?;
        if text == POLICIES { page.context.policies_since } else { self.since_period(page.context.at) }
    }

    /// Returns the beginning of the period that `since` names, at a time; `None` if there is none, or if it cannot be read.
    pub(super) fn since_period(&self, at: Timestamp) -> Option<Timestamp> {
        let text = self.since.as_deref()?;
        let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
        let period = match days {
            Some(days) => Duration::from_hours(24 * u64::from(days)),
            None => text::duration(text).ok()?,
        };
        at.checked_sub(period).ok()
    }

    /// Returns the names and values of the filters in force.
    pub(super) fn filters(&self) -> Vec<(&'static str, &str)> {
        let Self { namespace, team, rule, framework, kind, severity, since, q, .. } = self;
        [
            ("namespace", namespace),
            ("team", team),
            ("rule", rule),
            ("framework", framework),
            ("kind", kind),
            ("severity", severity),
            ("since", since),
            ("q", q),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_deref()?)))
        .collect()
    }

    /// Returns the query of the view without filters.
    pub(super) fn unfiltered(&self) -> Self {
        Self { view: self.view, cluster: self.cluster.clone(), ..Self::default() }
    }

    /// Returns the query of a view without filters.
    pub(super) fn only(&self, view: View) -> Self {
        Self { view, ..self.unfiltered() }
    }

    /// Returns the query of another view with the same filters.
    pub(super) fn to(&self, view: View) -> Self {
        Self { view, page: None, object: None, ..self.clone() }
    }

    /// Returns the URL of this view with a change, on its first page.
    pub(super) fn with(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut query = self.clone();
        query.page = None;
        change(&mut query);
        query.url()
    }

    /// Returns the URL of the view, relative to that of the page.
    pub fn url(&self) -> String {
        let page = self.page.filter(|page| *page > 1).map(|page| page.to_string());
        let mut url = form_urlencoded::Serializer::new(String::new());
        let view = (self.view != View::Overview).then(|| self.view.word());
        let view = view.as_deref().map(|view| ("view", view));
        let clusters = given([("cluster", self.cluster.as_deref()), ("label", self.label.as_deref())]);
        let others = given([("object", self.object.as_deref()), ("page", page.as_deref())]);
        for (name, value) in view.into_iter().chain(clusters).chain(self.filters()).chain(others) {
            url.append_pair(name, value);
        }
        format!("?{}", url.finish())
    }
}

/// Returns the names and values of the fields that have a value.
fn given<'q>(fields: [(&'static str, Option<&'q str>); 2]) -> impl Iterator<Item = (&'static str, &'q str)> {
    fields.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// Reads a field; `None` if it is empty, because a form sends empty fields as empty strings.
fn filled<'de, D: Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(field)?).filter(|text| !text.is_empty()))
}

fn view<'de, D: Deserializer<'de>>(field: D) -> Result<View, D::Error> {
    let word = String::deserialize(field)?;
    Ok(View::ALL.into_iter().chain(View::OF_FLEET).find(|view| view.word() == word).unwrap_or_default())
}

/// Returns the namespace of an entry's object as in a query.
pub(super) fn place(entry: &Entry) -> &str {
    place_name(entry.resource.namespace.as_deref())
}

/// Returns a namespace, or `-` for cluster-scoped objects.
pub(super) fn place_name(namespace: Option<&str>) -> &str {
    namespace.unwrap_or(NONE)
}

/// Returns the kind of the topmost owner of an entry's object, or of the object itself.
pub(super) fn owner_kind(entry: &Entry) -> String {
    entry.owner.as_ref().unwrap_or(&entry.resource).kind_with_group()
}

/// Returns the word for a severity in a query.
pub(super) fn severity(severity: Option<Severity>) -> &'static str {
    severity.map_or(NO_SEVERITY, Severity::word)
}

/// The words of a search, which must all occur in a result.
pub(super) struct SearchWords {
    words: Vec<Finder<'static>>,
    /// One buffer, reused for all results.
    text: String,
}

impl SearchWords {
    /// Returns the words of a text, in lower case.
    pub(super) fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        let words = text.split_whitespace().map(|word| Finder::new(word).into_owned()).collect();
        Self { words, text: String::new() }
    }

    /// Whether all words occur in a result.
    pub(super) fn occur_in(&mut self, entry: &Entry) -> bool {
        self.words.is_empty() || {
            write_searched(entry, &mut self.text);
            self.words.iter().all(|word| word.find(self.text.as_bytes()).is_some())
        }
    }
}

/// Writes the searchable text of a result, which is the visible text, in lower case.
fn write_searched(entry: &Entry, text: &mut String) {
    let Entry { policy, rule, message, resource, owner, .. } = entry;
    let owner = owner.as_ref().map_or("", |owner| &*owner.name);
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    let (kind, name) = (&resource.kind, &resource.name);
    text.clear();
    text.extend([kind, " ", namespace, "/", name, " ", owner, " ", policy, "/", rule, " ", message]);
    if text.is_ascii() {
        text.make_ascii_lowercase();
    } else {
        *text = text.to_lowercase();
    }
}
