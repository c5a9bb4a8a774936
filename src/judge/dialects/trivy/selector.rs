//! `custom.input.selector`: the input types and Kubernetes kinds that a check applies to.

use std::fmt;

use serde_json::{Map, Value};

use crate::judge::{metadata::Metadata, rule_kinds::RuleKinds};

/// Trivy's type name for Kubernetes objects.
const KUBERNETES: &str = "kubernetes";
/// The kind of the node data that Trivy's collector produces.
const NODE: &str = "nodeinfo";
/// The framework of checks that Trivy runs by default.
const DEFAULT: &str = "default";

/// The input that a check applies to.
#[derive(Debug)]
pub(super) struct CheckScope {
    pub(super) library: bool,
    selectors: Vec<InputSelector>,
    deprecated: bool,
    /// Whether it belongs only to frameworks other than the default.
    not_in_default_framework: bool,
}

#[derive(Debug)]
struct InputSelector {
    input_type: String,
    /// Groups, versions and kinds: Trivy compares each of them with the kind.
    subtypes: Vec<Vec<String>>,
}

/// Why a check is not evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// It applies to other input types.
    Types(Vec<String>),
    Node,
    Deprecated,
    Framework,
    Example,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Types(types) => write!(f, "not for Kubernetes, but for {}", types.join(" and ")),
            Self::Node => {
                f.write_str("checks files and processes of nodes (nodeinfo), which the API server does not provide")
            }
            Self::Deprecated => f.write_str("deprecated"),
            Self::Example => f.write_str("an example of the library, which Trivy does not ship"),
            Self::Framework => f.write_str("not in a framework that Trivy runs by default"),
        }
    }
}

impl CheckScope {
    /// Reads the annotations of a package; `None` if they are not those of a Trivy check.
    pub(super) fn of(about: &Metadata) -> Option<Self> {
        let custom = &about.custom;
        let library = custom.get("library") == Some(&Value::Bool(true));
        let input = custom.get("input").and_then(Value::as_object);
        (library || input.is_some()).then(|| {
            let selectors = input.and_then(|input| input.get("selector")).and_then(Value::as_array);
            let frameworks = custom.get("frameworks").and_then(Value::as_object);
            Self {
                library,
                selectors: selectors
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_object)
                    .map(InputSelector::read)
                    .collect(),
                deprecated: custom.get("deprecated") == Some(&Value::Bool(true)),
                not_in_default_framework: frameworks.is_some_and(|names| {
                    // Trivy ignores a framework without entries.
                    let default = names.get(DEFAULT).and_then(Value::as_array);
                    !names.is_empty() && default.is_none_or(Vec::is_empty)
                }),
            }
        })
    }

    /// Returns the kinds that the check applies to, or why it is not evaluated.
    pub(super) fn kinds(&self) -> Result<RuleKinds, Reason> {
        // One selector of another type is enough: Trivy evaluates the list as a whole.
        if self.selectors.iter().any(|selector| selector.input_type != KUBERNETES) {
            return Err(Reason::Types(self.selectors.iter().map(|selector| selector.input_type.clone()).collect()));
        }
        if self.deprecated {
            return Err(Reason::Deprecated);
        }
        if self.not_in_default_framework {
            return Err(Reason::Framework);
        }
        if self.selectors.iter().any(|selector| selector.subtypes.is_empty()) || self.selectors.is_empty() {
            return Ok(RuleKinds::all());
        }
        let names = || self.selectors.iter().flat_map(|selector| &selector.subtypes).flatten().map(String::as_str);
        if names().all(|name| name.eq_ignore_ascii_case(NODE)) {
            return Err(Reason::Node);
        }
        Ok(RuleKinds::named(names().filter(|name| !name.eq_ignore_ascii_case(NODE))))
    }
}

impl InputSelector {
    fn read(selector: &Map<String, Value>) -> Self {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let subtypes = selector.get("subtypes").and_then(Value::as_array).into_iter().flatten();
        let subtypes = subtypes.filter_map(Value::as_object).map(|subtype| {
            let names = ["group", "version", "kind"].into_iter();
            names.filter_map(|name| text(subtype.get(name)?)).collect()
        });
        let input_type = selector.get("type").and_then(text).unwrap_or_default();
        Self { input_type, subtypes: subtypes.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds(custom: &Value) -> Result<RuleKinds, Reason> {
        let about = Metadata { custom: custom.as_object().cloned().unwrap(), ..Metadata::default() };
        CheckScope::of(&about).expect("a check").kinds()
    }

    fn selector(selector: &Value) -> Result<RuleKinds, Reason> {
        kinds(&json!({"input": {"selector": selector}}))
    }

    #[test]
    fn kinds_are_spelled_as_in_kubernetes() {
        let found =
            selector(&json!([{"type": "kubernetes", "subtypes": [{"kind": "replicaset"}, {"kind": "gateway"}]}]));
        let found = found.unwrap();
        assert!(found.contain("ReplicaSet") && found.contain("Gateway") && !found.contain("Pod"));
        assert!(found.are_open() && found.known().map(|name| &**name).eq(["ReplicaSet"]));
        let all = found.clone().or(RuleKinds::all());
        assert!(all.contain("Pod") && all.are_open());
        let more = found.or(RuleKinds::named(["pod"].into_iter()));
        assert!(more.contain("Pod") && more.contain("ReplicaSet") && !more.contain("Job"));
    }

    #[test]
    fn checks_without_subtypes_apply_to_all_kinds() {
        assert_eq!(selector(&json!([{"type": "kubernetes"}])), Ok(RuleKinds::all()));
        assert_eq!(selector(&json!([])), Ok(RuleKinds::all()));
        assert_eq!(kinds(&json!({"input": {}})), Ok(RuleKinds::all()));
        assert!(CheckScope::of(&Metadata::default()).is_none());
    }

    #[test]
    fn checks_that_are_not_evaluated_have_a_reason() {
        let types = |types: &[&str]| Err(Reason::Types(types.iter().map(|name| (*name).to_owned()).collect()));
        assert_eq!(selector(&json!([{"type": "dockerfile"}])), types(&["dockerfile"]));
        assert_eq!(selector(&json!([{"type": "kubernetes"}, {"type": "rbac"}])), types(&["kubernetes", "rbac"]));
        assert_eq!(selector(&json!([{"type": "kubernetes", "subtypes": [{"kind": "nodeinfo"}]}])), Err(Reason::Node));
        assert_eq!(kinds(&json!({"input": {}, "deprecated": true})), Err(Reason::Deprecated));
        assert_eq!(kinds(&json!({"input": {}, "frameworks": {"cis": []}})), Err(Reason::Framework));
        assert_eq!(kinds(&json!({"input": {}, "frameworks": {"default": []}})), Err(Reason::Framework));
        assert_eq!(kinds(&json!({"input": {}, "frameworks": {"cis": [], "default": [null]}})), Ok(RuleKinds::all()));
    }
}
