//! Label and field selectors.

use serde_json::Value;

use super::{
    kinds::ResourceType,
    lists,
    request::RequestInfo,
    status::{ApiResult, ErrorStatus},
    store::Stored,
};

/// The selectors of a list or a watch.
#[derive(Debug, Clone, Default)]
pub(super) struct ObjectSelector {
    pub(super) namespace: Option<String>,
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    /// The values; `None` allows any.
    values: Option<Vec<String>>,
    negated: bool,
}

impl ObjectSelector {
    /// Parses the selectors of a list or a watch, and validates its version in the server's order.
    pub(super) fn of(request: &RequestInfo, resource: &ResourceType) -> ApiResult<Self> {
        let labels = split(request.parameter("labelSelector")).map(Requirement::parse).collect::<ApiResult<_>>()?;
        lists::check_match(request)?;
        let fields =
            split(request.parameter("fieldSelector")).map(|text| field(resource, text)).collect::<ApiResult<_>>()?;
        let namespace =
            Some(&request.namespace).filter(|namespace| resource.namespaced && !namespace.is_empty()).cloned();
        Ok(Self { namespace, labels, fields })
    }

    /// Whether it selects by anything but the namespace; the server does not count the remaining items of such lists.
    pub(super) fn is_selective(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Whether an object is in the namespace.
    pub(super) fn is_inside(&self, object: &Stored) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| object.metadata("namespace") == namespace)
    }

    pub(super) fn matches(&self, object: &Stored) -> bool {
        self.is_inside(object)
            && self.labels.iter().all(|requirement| requirement.matches(&object.value["metadata"]["labels"]))
            && self.fields.iter().all(|(path, equal, value)| (at(&object.value, path) == *value) == *equal)
    }
}

impl Requirement {
    fn parse(text: &str) -> ApiResult<Self> {
        let new = |key: &str, values, negated| Ok(Self { key: key.trim().to_owned(), values, negated });
        let one = |value: &str| Some(vec![value.trim().to_owned()]);
        if let Some((key, value)) = text.split_once("!=") {
            return new(key, one(value), true);
        }
        if let Some((key, value)) = text.split_once('=') {
            return new(key, one(value.trim_start_matches('=')), false);
        }
        if let Some(key) = text.strip_prefix('!') {
            return new(key, None, true);
        }
        let mut words = text.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some(key), None, None) => new(key, None, false),
            (Some(key), Some(operator @ ("in" | "notin")), Some(values)) => {
                let values = values.trim().trim_matches(['(', ')']).split(',').map(|value| value.trim().to_owned());
                new(key, Some(values.collect()), operator == "notin")
            }
            (_, operator, _) => {
                let expected = "expected: in, notin, =, ==, !=, gt, lt";
                let found = operator.unwrap_or_default();
                Err(ErrorStatus::bad_request(format!("unable to parse requirement: found '{found}', {expected}")))
            }
        }
    }

    fn matches(&self, labels: &Value) -> bool {
        let value = labels[&self.key].as_str();
        let found = match &self.values {
            None => value.is_some(),
            Some(values) => value.is_some_and(|value| values.iter().any(|known| known == value)),
        };
        found != self.negated
    }
}

/// Whether a text is a valid label selector.
pub(super) fn are_labels(text: &str) -> bool {
    split(text).map(Requirement::parse).all(|requirement| requirement.is_ok())
}

/// Splits a selector at commas that are not in parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
}

/// Fields by which objects of any kind can be selected.
const METADATA: &[&str] = &["metadata.name", "metadata.namespace"];

fn field(resource: &ResourceType, text: &str) -> ApiResult<(String, bool, String)> {
    let parts = text.split_once("!=").map(|(path, value)| (path, false, value));
    let parts = parts.or_else(|| text.split_once('=').map(|(path, value)| (path, true, value.trim_start_matches('='))));
    let Some((path, equal, value)) = parts else {
        return Err(ErrorStatus::bad_request(format!("invalid selector: '{text}'; can't understand '{text}'")));
    };
    let of_kind: &[&str] = match (resource.kind.as_str(), resource.custom()) {
        ("Pod", false) => &["spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase"],
        ("Event", false) => &[
            "reason",
            "reportingController",
            "reportingComponent",
            "type",
            "regarding.name",
            "regarding.uid",
            "regarding.kind",
            "regarding.namespace",
            "involvedObject.name",
            "involvedObject.uid",
        ],
        ("Namespace", false) => &["status.phase"],
        ("Secret", false) => &["type"],
        _ => &[],
    };
    if !METADATA.contains(&path) && !of_kind.contains(&path) {
        return Err(ErrorStatus::bad_request(if resource.custom() {
            format!("field label not supported: {path}")
        } else if of_kind.is_empty() {
            format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        } else {
            format!("field label not supported: {path}")
        }));
    }
    // Events are stored in the form of the core group.
    let path = match path {
        "reportingController" => "reportingComponent".to_owned(),
        _ => path.replace("regarding.", "involvedObject."),
    };
    Ok((path, equal, value.to_owned()))
}

fn at<'a>(value: &'a Value, path: &str) -> &'a str {
    path.split('.').fold(value, |value, name| &value[name]).as_str().unwrap_or_default()
}
