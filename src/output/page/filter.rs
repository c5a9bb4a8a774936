//! The query in the URL of a view, which selects its results.

use memchr::memmem::Finder;
use serde::{Deserialize, Deserializer};

use crate::{audit::result::Entry, model::verdict::Severity};

/// The query of a URL of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PageQuery {
    /// Only results in this namespace; `-` selects cluster-scoped objects.
    #[serde(deserialize_with = "filled")]
    pub namespace: Option<String>,
    /// Only results of this policy.
    #[serde(deserialize_with = "filled")]
    pub policy: Option<String>,
    /// Only results of this severity; `none` selects those without a severity.
    #[serde(deserialize_with = "filled")]
    pub severity: Option<String>,
    /// Words that must all occur in the object's name, the rule or the message.
    #[serde(deserialize_with = "filled")]
    pub q: Option<String>,
    /// The page of a long table, from 1.
    pub page: Option<usize>,
    /// One object, as `Kind.group/namespace/name`.
    #[serde(deserialize_with = "filled")]
    pub object: Option<String>,
    /// `json` instead of HTML.
    #[serde(deserialize_with = "filled")]
    pub format: Option<String>,
}

/// The value of `namespace` for cluster-scoped objects.
pub(super) const NO_NAMESPACE: &str = "-";
/// The value of `severity` for results without a severity.
pub(super) const NO_SEVERITY: &str = "none";

impl PageQuery {
    /// Returns a predicate that selects results.
    pub(super) fn filter(&self) -> impl FnMut(&Entry) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let words = self.q.as_deref().unwrap_or_default().to_lowercase();
        let words: Vec<Finder<'_>> = words.split_whitespace().map(|word| Finder::new(word).into_owned()).collect();
        // One buffer, reused for all results.
        let mut text = String::new();
        move |entry| {
            is(&self.namespace, entry.resource.namespace.as_deref().unwrap_or(NO_NAMESPACE))
                && is(&self.policy, &entry.policy)
                && is(&self.severity, severity(entry.severity))
                && (words.is_empty() || {
                    write_searched(entry, &mut text);
                    words.iter().all(|word| word.find(text.as_bytes()).is_some())
                })
        }
    }

    /// Whether the query leaves out any result.
    pub(super) fn filters(&self) -> bool {
        [&self.namespace, &self.policy, &self.severity, &self.q].into_iter().any(Option::is_some)
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
        let fields = [
            ("namespace", self.namespace.as_deref()),
            ("policy", self.policy.as_deref()),
            ("severity", self.severity.as_deref()),
            ("q", self.q.as_deref()),
            ("object", self.object.as_deref()),
            ("page", page.as_deref()),
        ];
        for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            url.append_pair(name, value);
        }
        format!("?{}", url.finish())
    }
}

/// Reads a field; `None` if it is empty, because a form sends empty fields as empty strings.
fn filled<'de, D: Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(field)?).filter(|text| !text.is_empty()))
}

/// Returns the word for a severity in a query.
pub(super) fn severity(severity: Option<Severity>) -> &'static str {
    severity.map_or(NO_SEVERITY, Severity::word)
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
