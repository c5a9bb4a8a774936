//! One exception: which results it excuses, why and until when. Read from a `PolicyException`, in a file or in a cluster.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use jiff::{Timestamp, civil::Date, fmt::temporal::Pieces, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;

use crate::{
    cluster::identity::{API_VERSION, EXCEPTION_KIND},
    judge::dialects::gatekeeper::matching::Wildcard,
    model::{
        exception::Excuse,
        object::{Object, ObjectKey},
        verdict::Finding,
    },
    source::selection::KindPattern,
};

/// Who wrote an exception, which decides what it may excuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// The operator of kaudit, who may excuse anything.
    Operator,
    /// A user with write access to a namespace: excuses only objects in it, and only for policies that allow it.
    Team,
    /// The library, for components of the cluster's distribution: excuses only its own rules, and has no end.
    Library,
}

/// Where kubectl puts an object that names no namespace.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// An exception.
#[derive(Debug)]
pub(crate) struct Exception {
    pub(crate) author: Author,
    pub(crate) excuse: Arc<Excuse>,
    /// When it ends.
    pub(crate) expires: Timestamp,
    pub(crate) policies: Vec<PolicyRules>,
    kinds: Vec<KindPattern>,
    names: Vec<Wildcard>,
    namespaces: Vec<Wildcard>,
    /// The namespace that it is for; `None` is all.
    namespace: Option<Arc<str>>,
    /// It names no namespace, so that it is for the one into which kubectl would put it.
    pub(crate) is_in_default: bool,
    labels: Option<Selector>,
    /// The subjects of a binding that it is for, as `details.subject` of a result names them; empty is all results.
    subjects: Vec<String>,
    /// An exception that excused some of what this one is about.
    pub(crate) preceded_by: OnceLock<Arc<str>>,
}

/// Names of rules.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyRules {
    /// A policy, or a glob over policies; without `rules` anything that a `RulePattern` names.
    pub(crate) name: Arc<str>,
    /// Rules or ids of the policy, or globs over them; empty is all rules.
    #[serde(default)]
    pub(crate) rules: Vec<Arc<str>>,
}

/// A component of a distribution, and the rules that it may violate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SystemComponent {
    pub(super) name: String,
    pub(super) kinds: Vec<String>,
    /// Its namespaces, by name; empty for objects of the cluster.
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    pub(super) names: Vec<String>,
    /// The subjects of its bindings, such as `serviceaccount kube-system/web`.
    #[serde(default)]
    pub(super) subjects: Vec<String>,
    /// Ids of rules.
    #[serde(default)]
    pub(super) rules: Vec<Arc<str>>,
    pub(super) reason: Arc<str>,
}

#[derive(Deserialize)]
struct ExceptionDocument {
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    kind: String,
    spec: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ExceptionSpec {
    policies: Vec<PolicyRules>,
    #[serde(default, rename = "match")]
    matching: ExceptionMatch,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    expires_at: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ExceptionMatch {
    kinds: Vec<String>,
    names: Vec<String>,
    namespaces: Vec<String>,
    label_selector: Option<LabelSelector>,
}

/// The most items of each list of a team's exception. These bounds are those of the chart's CRD.
pub(crate) const MOST_ITEMS: usize = 100;
/// The most names of policies and rules of a team's exception that are patterns: each is compared with every rule.
const MOST_PATTERNS: usize = 20;
/// The longest specification of a team's exception, as JSON in bytes: there may be very many exceptions.
const LONGEST_SPEC: usize = 32 * 1024;
/// The longest name of a policy, rule, kind or object, and the longest label, in characters.
const LONGEST_NAME: usize = 317;
/// The longest reason, which each excused result has, in characters.
const LONGEST_REASON: usize = 1_024;

impl ExceptionSpec {
    /// Checks how many and how long texts a team's exception has. Anything that may write into a namespace may write one, and
    /// kaudit matches each with every result there.
    fn check_bounds(&self) -> Result<(), String> {
        let Self { policies, matching, reason, expires_at } = self;
        let ExceptionMatch { kinds, names, namespaces, label_selector } = matching;
        at_most("spec.policies", policies.len(), MOST_ITEMS)?;
        for (at, policy) in policies.iter().enumerate() {
            not_longer(&format!("spec.policies[{at}].name"), &policy.name, LONGEST_NAME)?;
            texts(&format!("spec.policies[{at}].rules"), policy.rules.iter().map(AsRef::as_ref), MOST_ITEMS)?;
        }
        let of_rules = policies.iter().flat_map(|policy| policy.rules.iter().chain([&policy.name]));
        let patterns = of_rules.filter(|name| is_pattern(name)).count();
        if patterns > MOST_PATTERNS {
            return Err(format!("spec.policies: has {patterns} names with wildcards, of at most {MOST_PATTERNS}"));
        }
        texts("spec.match.kinds", kinds.iter().map(String::as_str), MOST_ITEMS)?;
        texts("spec.match.names", names.iter().map(String::as_str), MOST_ITEMS)?;
        texts("spec.match.namespaces", namespaces.iter().map(String::as_str), MOST_ITEMS)?;
        let LabelSelector { match_labels, match_expressions } = label_selector.clone().unwrap_or_default();
        let labels = match_labels.unwrap_or_default();
        texts("spec.match.labelSelector.matchLabels", labels.keys().map(String::as_str), MOST_ITEMS)?;
        texts("spec.match.labelSelector.matchLabels", labels.values().map(String::as_str), MOST_ITEMS)?;
        let expressions = match_expressions.unwrap_or_default();
        at_most("spec.match.labelSelector.matchExpressions", expressions.len(), MOST_ITEMS)?;
        for (at, expression) in expressions.iter().enumerate() {
            let field = format!("spec.match.labelSelector.matchExpressions[{at}]");
            not_longer(&format!("{field}.key"), &expression.key, LONGEST_NAME)?;
            let values = expression.values.as_deref().unwrap_or_default().iter().map(String::as_str);
            texts(&format!("{field}.values"), values, MOST_ITEMS)?;
        }
        not_longer("spec.reason", reason, LONGEST_REASON)?;
        not_longer("spec.expiresAt", expires_at, LONGEST_NAME)
    }
}

fn texts<'a>(field: &str, texts: impl ExactSizeIterator<Item = &'a str>, most: usize) -> Result<(), String> {
    at_most(field, texts.len(), most)?;
    texts.enumerate().try_for_each(|(at, text)| not_longer(&format!("{field}[{at}]"), text, LONGEST_NAME))
}

fn at_most(field: &str, items: usize, most: usize) -> Result<(), String> {
    if items > most { Err(format!("{field}: has {items} items, of at most {most}")) } else { Ok(()) }
}

fn not_longer(field: &str, text: &str, longest: usize) -> Result<(), String> {
    // Characters are what `maxLength` of a CRD counts.
    let length = text.chars().count();
    if length > longest { Err(format!("{field}: has {length} characters, of at most {longest}")) } else { Ok(()) }
}

impl Exception {
    /// Reads a `PolicyException`.
    ///
    /// # Errors
    /// What is wrong with it, with the field.
    pub(crate) fn read(object: &Object, author: Author) -> Result<Self, String> {
        let json = object.body.json().map_err(|error| error.to_string())?;
        let ExceptionDocument { api_version, kind, spec } =
            serde_json::from_slice(&json).map_err(|error| plain(&error))?;
        if kind != EXCEPTION_KIND || api_version != API_VERSION {
            return Err(format!("is a {kind} of {api_version}, not a {EXCEPTION_KIND} of {API_VERSION}"));
        }
        let length = spec.to_string().len();
        let spec: ExceptionSpec = serde_json::from_value(spec).map_err(|error| format!("spec: {}", plain(&error)))?;
        if author == Author::Team {
            spec.check_bounds()?;
            if length > LONGEST_SPEC {
                return Err(format!(
                    "spec: has {length} bytes as JSON, of at most {LONGEST_SPEC}: make several exceptions of it"
                ));
            }
        }
        let ExceptionSpec { policies, matching, reason, expires_at } = spec;
        if policies.is_empty() {
            return Err("spec.policies: names no policy".into());
        }
        if reason.trim().is_empty() {
            return Err("spec.reason: is missing or empty: say why this may stay as it is".into());
        }
        let expires = end(&expires_at)?;
        let ObjectKey { namespace, name, .. } = &object.key;
        let namespace = namespace.clone().filter(|namespace| !namespace.is_empty());
        let is_in_default = author == Author::Team && namespace.is_none();
        let namespace = namespace.or_else(|| is_in_default.then(|| DEFAULT_NAMESPACE.into()));
        if author == Author::Team && !matching.namespaces.is_empty() {
            return Err("spec.match.namespaces: an object is an exception for its own namespace only".into());
        }
        let by = namespace.as_ref().map_or_else(|| name.to_string(), |namespace| format!("{namespace}/{name}"));
        let kinds =
            matching.kinds.iter().map(|kind| kind.parse().map_err(|why| format!("spec.match.kinds: {kind:?}: {why}")));
        let labels = matching.label_selector.map(Selector::try_from).transpose();
        let wildcards = |patterns: &[String]| patterns.iter().map(|pattern| Wildcard::new(pattern)).collect();
        Ok(Self {
            author,
            excuse: Arc::new(Excuse { by: by.into(), reason: reason.trim().into(), expires: Some(expires) }),
            expires,
            policies,
            kinds: kinds.collect::<Result<_, _>>()?,
            names: wildcards(&matching.names),
            namespaces: wildcards(&matching.namespaces),
            namespace,
            is_in_default,
            preceded_by: OnceLock::new(),
            subjects: Vec::new(),
            labels: labels.map_err(|why| format!("spec.match.labelSelector: {why}"))?,
        })
    }

    /// Returns the exception for a component, with the rules that every component may violate.
    ///
    /// # Errors
    /// Names a kind of the component that is not a valid pattern.
    pub(super) fn of_component(component: SystemComponent, common: &[PolicyRules]) -> Result<Self, String> {
        let SystemComponent { name, kinds, namespaces, names, subjects, rules, reason } = component;
        let own = (!rules.is_empty()).then(|| PolicyRules { name: "*".into(), rules });
        let wildcards = |patterns: Vec<String>| patterns.iter().map(|pattern| Wildcard::new(pattern)).collect();
        Ok(Self {
            author: Author::Library,
            excuse: Arc::new(Excuse::system(&name, reason)),
            expires: Timestamp::MAX,
            policies: own.into_iter().chain(common.iter().cloned()).collect(),
            kinds: kinds.iter().map(|kind| kind.parse()).collect::<Result<_, _>>()?,
            names: wildcards(names),
            namespaces: wildcards(namespaces),
            namespace: None,
            is_in_default: false,
            preceded_by: OnceLock::new(),
            labels: None,
            subjects,
        })
    }

    /// Says that it excuses nothing, and why, given how many results each exception excuses.
    pub(crate) fn unused(&self, excused: &HashMap<Arc<str>, usize>) -> String {
        // What the other one excused may be gone.
        if let Some(other) = self.preceded_by.get().filter(|other| excused.get(*other).is_some_and(|count| *count > 0))
        {
            return format!("excuses nothing that {other} does not excuse");
        }
        if self.is_in_default {
            return format!("excuses nothing: without metadata.namespace it is for the namespace {DEFAULT_NAMESPACE}");
        }
        "excuses nothing".to_owned()
    }

    /// Whether it may excuse a result of an object that it matches.
    pub(crate) fn covers(&self, finding: &Finding) -> bool {
        let subject = finding.details.as_ref().and_then(|details| details.get("subject")?.as_str());
        self.subjects.is_empty() || subject.is_some_and(|subject| self.subjects.iter().any(|own| own == subject))
    }

    /// Whether labels decide what it is about.
    pub(crate) fn selects_by_labels(&self) -> bool {
        self.labels.is_some()
    }

    /// Whether it is about objects in a namespace; `None` for those of the cluster.
    pub(crate) fn concerns(&self, namespace: Option<&str>) -> bool {
        let is_own = |own: &str| self.namespaces.iter().any(|pattern| pattern.matches(own));
        self.namespaces.is_empty() == namespace.is_none() && namespace.is_none_or(is_own)
    }

    /// Whether it also excuses the dependents of its objects. Anybody who creates an object of the cluster may name an owner, so
    /// a system component of the cluster excuses only itself.
    pub(crate) fn counts_for_dependents(&self) -> bool {
        self.author != Author::Library || !self.namespaces.is_empty()
    }

    /// Whether it is about an object, whose labels are read only if they decide.
    pub(crate) fn matches<'a>(&self, key: &ObjectKey, labels: impl FnOnce() -> &'a BTreeMap<String, String>) -> bool {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let any = |patterns: &[Wildcard], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
        };
        self.namespace.as_deref().is_none_or(|own| own == namespace)
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.matches(&key.kind)))
            && any(&self.names, &key.name)
            && any(&self.namespaces, namespace)
            && self.labels.as_ref().is_none_or(|selector| selector.matches(labels()))
    }
}

/// Whether a name of policies or rules has to be compared with each of them.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '/'])
}

/// Reads when an exception ends: a time, or the last day, in UTC.
fn end(text: &str) -> Result<Timestamp, String> {
    if text.is_empty() {
        return Err("spec.expiresAt: is missing: say until when, such as 2027-01-31".into());
    }
    let day =
        || text.parse::<Date>().and_then(|day| day.tomorrow()?.to_zoned(TimeZone::UTC)).map(|day| day.timestamp());
    let time = if text.contains(['T', 't', ' ']) { text.parse() } else { day() };
    // The last days of the year 9999, which people write for "never", are beyond the latest time.
    let is_latest = || Pieces::parse(text).is_ok_and(|pieces| pieces.date().year() == Date::MAX.year());
    time.or_else(|why| if is_latest() { Ok(Timestamp::MAX) } else { Err(why) }).map_err(|_| {
        format!("spec.expiresAt: {text:?} is no date such as 2027-01-31 and no time such as 2027-01-31T12:00:00Z")
    })
}

/// Returns an error without its position, which is in a text that the user did not write.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).replace('`', "")
}
