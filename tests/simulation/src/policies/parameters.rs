//! Parameters of simulated admission policies: objects that writers change, create and delete like others.

use serde_json::{Value, json};

use super::{ObjectsByName, label, request_namespace};
use crate::cluster::{AuditedKind, KINDS};

/// The parameters of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterReference {
    /// Their kind, an index of [`KINDS`].
    pub kind: usize,
    /// The number of the namespace that has them; `None` for that of the evaluated object.
    pub namespace: Option<u8>,
    /// The parameters among the objects there.
    pub selected: SelectedParameters,
    /// Whether a missing parameter is an error.
    pub must_exist: bool,
}

/// The parameters among the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectedParameters {
    /// The one with this number.
    Named(u8),
    /// Those with this `unit`.
    OfUnit(u8),
}

impl ParameterReference {
    /// Returns `paramKind` of the policy.
    pub(super) fn param_kind(self) -> Value {
        let AuditedKind { api_version, kind, .. } = KINDS[self.kind];
        json!({"apiVersion": api_version, "kind": kind})
    }

    /// Returns `paramRef` of the binding.
    pub(super) fn param_ref(self) -> Value {
        let action = if self.must_exist { "Deny" } else { "Allow" };
        let mut reference = json!({"parameterNotFoundAction": action});
        match self.selected {
            SelectedParameters::Named(name) => reference["name"] = format!("o{name}").into(),
            SelectedParameters::OfUnit(unit) => {
                reference["selector"] = json!({"matchLabels": {"unit": format!("u{unit}")}});
            }
        }
        if let Some(namespace) = self.namespace {
            reference["namespace"] = format!("ns{namespace}").into();
        }
        reference
    }

    /// Returns the parameters for an object, with their names; `None` if the evaluation fails.
    pub(super) fn find<'o>(
        self,
        key: (usize, &str, &str),
        objects: &'o ObjectsByName,
    ) -> Option<Vec<(&'o str, &'o Value)>> {
        let place = match self.namespace {
            _ if !KINDS[self.kind].namespaced => String::new(),
            Some(namespace) => format!("ns{namespace}"),
            None => request_namespace(key).to_owned(),
        };
        // A cluster-scoped object has no namespace to look in.
        if KINDS[self.kind].namespaced && place.is_empty() {
            return None;
        }
        let is_selected = |name: &str, object: &Value| match self.selected {
            SelectedParameters::Named(number) => name == format!("o{number}"),
            SelectedParameters::OfUnit(unit) => label(object, "unit") == Some(format!("u{unit}")),
        };
        let there = objects.iter().filter(|((kind, namespace, name), object)| {
            *kind == self.kind && *namespace == place && is_selected(name, object)
        });
        let found: Vec<_> = there.map(|((.., name), object)| (name.as_str(), object)).collect();
        (!found.is_empty() || !self.must_exist).then_some(found)
    }
}
