//! One exception: which results it excuses, why and until when. Read from a `PolicyException`, in a file or in a cluster.

use std::sync::Arc;

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;

use crate::{
    cluster::identity::{API_VERSION, EXCEPTION_KIND},
    judge::gatekeeper::matching::Wildcard,
    model::{
        body::Body,
        exception::Excuse,
        object::{Object, ObjectKey},
    },
    source::selection::KindPattern,
};

/// Who wrote an exception, which decides what it may excuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// Whoever runs kaudit, who may excuse anything.
    Operator,
    /// Whoever may write into a namespace: only what is in it, and only for policies that allow it.
    Team,
}

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
    /// The namespace of the object that it was read from.
    namespace: Option<Arc<str>>,
    labels: Option<Selector>,
}

/// Rules of one policy.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyRules {
    pub(crate) name: Arc<str>,
    /// Empty is all of them.
    #[serde(default)]
    pub(crate) rules: Vec<Arc<str>>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    kind: String,
    spec: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    policies: Vec<PolicyRules>,
    #[serde(default, rename = "match")]
    matching: Matching,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    expires_at: String,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Matching {
    kinds: Vec<String>,
    names: Vec<String>,
    namespaces: Vec<String>,
    label_selector: Option<LabelSelector>,
}

impl Exception {
    /// Reads a `PolicyException`.
    ///
    /// # Errors
    /// What is wrong with it, with the field.
    pub(crate) fn read(object: &Object, author: Author) -> Result<Self, String> {
        let json = object.body.json().map_err(|error| error.to_string())?;
        let Document { api_version, kind, spec } = serde_json::from_slice(&json).map_err(|error| plain(&error))?;
        if kind != EXCEPTION_KIND || api_version != API_VERSION {
            return Err(format!("is a {kind} of {api_version}, not a {EXCEPTION_KIND} of {API_VERSION}"));
        }
        let spec: Spec = serde_json::from_value(spec).map_err(|error| format!("spec: {}", plain(&error)))?;
        let Spec { policies, matching, reason, expires_at } = spec;
        if policies.is_empty() {
            return Err("spec.policies: names no policy".into());
        }
        if reason.trim().is_empty() {
            return Err("spec.reason: is missing: say why this may stay as it is".into());
        }
        let expires = end(&expires_at)?;
        let ObjectKey { namespace, name, .. } = &object.key;
        let namespace = namespace.clone().filter(|namespace| !namespace.is_empty());
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
            labels: labels.map_err(|why| format!("spec.match.labelSelector: {why}"))?,
        })
    }

    /// Whether it is about a rule.
    pub(crate) fn names(&self, policy: &str, rule: &str) -> bool {
        let listed = |rules: &[Arc<str>]| rules.is_empty() || rules.iter().any(|one| **one == *rule);
        self.policies.iter().any(|one| *one.name == *policy && listed(&one.rules))
    }

    /// Whether labels decide what it is about.
    pub(crate) fn selects_by_labels(&self) -> bool {
        self.labels.is_some()
    }

    /// Whether it is about an object, of which `body` is the JSON.
    pub(crate) fn matches(&self, key: &ObjectKey, body: &Body) -> bool {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let any = |patterns: &[Wildcard], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
        };
        self.namespace.as_deref().is_none_or(|own| own == namespace)
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.matches(&key.kind)))
            && any(&self.names, &key.name)
            && any(&self.namespaces, namespace)
            && self.labels.as_ref().is_none_or(|selector| selector.matches(&body.labels()))
    }
}

/// Reads when an exception ends: a time, or the last day, in UTC.
fn end(text: &str) -> Result<Timestamp, String> {
    if text.is_empty() {
        return Err("spec.expiresAt: is missing: say until when, such as 2027-01-31".into());
    }
    let day =
        || text.parse::<Date>().and_then(|day| day.tomorrow()?.to_zoned(TimeZone::UTC)).map(|day| day.timestamp());
    let time = if text.contains(['T', 't', ' ']) { text.parse() } else { day() };
    time.map_err(|_| {
        format!("spec.expiresAt: {text:?} is no date such as 2027-01-31 and no time such as 2027-01-31T12:00:00Z")
    })
}

/// Says what is wrong without the place in a text that nobody wrote.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).replace('`', "")
}
