//! Parameters of a binding: the objects that `paramRef` selects, looked up in the inventory.
//!
//! The rules are those of `CollectParams` of the API server: a namespaced kind is looked up in `paramRef.namespace`, or
//! else in the namespace of the evaluated object.

use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use kube::core::{Selector, SelectorExt as _};
use regorus::Value;
use serde_json::Value as Json;

use super::{
    lookup::OtherObjects,
    matching::{labels, selector},
    request::Subject,
};
use crate::{
    judge::{
        reads::{InventoryReads, ReadTree},
        result_values::json,
    },
    rego::value,
};

/// The parameters of a binding.
#[derive(Debug, Clone)]
pub(crate) struct BindingParams {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    selected: SelectedParams,
    /// Whether a missing parameter is an error: `parameterNotFoundAction: Deny`.
    pub(crate) must_exist: bool,
}

#[derive(Debug, Clone)]
enum SelectedParams {
    Named(String),
    /// `None` selects all.
    Labelled(Option<Selector>),
}

/// Why there are no parameters.
pub(crate) enum ParamError {
    /// Their kind is not served, or not among the manifests: an error whatever the failure policy is.
    UnknownKind(String),
    /// The configuration is wrong, which the failure policy decides about.
    Invalid(String),
}

impl BindingParams {
    /// Reads `paramRef` of a binding whose policy has this `paramKind`.
    ///
    /// # Errors
    /// Returns why it is invalid.
    pub(super) fn read(kind: &ParamKind, given: &ParamRef) -> Result<Self, String> {
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let selected = match (text(&given.name), &given.selector) {
            (Some(_), Some(_)) => return Err("name and selector are mutually exclusive".to_owned()),
            (Some(name), None) => SelectedParams::Named(name),
            (None, Some(labels)) => SelectedParams::Labelled(selector(Some(labels))?),
            (None, None) => return Err("one of name and selector is required".to_owned()),
        };
        let must_exist = match given.parameter_not_found_action.as_deref() {
            Some("Deny") => true,
            Some("Allow") => false,
            _ => return Err("parameterNotFoundAction must be Allow or Deny".to_owned()),
        };
        Ok(Self {
            api_version: kind.api_version.clone().unwrap_or_default(),
            kind: kind.kind.clone().unwrap_or_default(),
            namespace: text(&given.namespace),
            selected,
            must_exist,
        })
    }

    /// Returns the lookups of the parameters, of which these fields are read.
    pub(crate) fn lookups(&self, read: &ReadTree) -> InventoryReads {
        let mut read = read.clone();
        let name = match &self.selected {
            SelectedParams::Named(name) => Some(name.as_str()),
            SelectedParams::Labelled(selector) => {
                if selector.is_some() {
                    read.insert(&["metadata", "labels"].map(Into::into), true);
                }
                None
            }
        };
        read.insert(&[], false);
        InventoryReads::of_objects([&self.api_version, &self.kind], self.namespace.as_deref(), name, &read)
    }

    /// Finds the parameters for an object, in the order of their names.
    ///
    /// # Errors
    /// Returns why they cannot be found; a parameter that does not exist is no error.
    pub(crate) fn find(&self, known: &OtherObjects, subject: &Subject<'_>) -> Result<Vec<Json>, ParamError> {
        let own = known.kinds().find(|kind| kind.kind == self.kind && kind.api_version() == self.api_version);
        let namespace = self.namespace.as_deref().or(subject.namespace);
        let of_kind = |place: &Value| place[self.api_version.as_str()][self.kind.as_str()].clone();
        let mut found = namespace
            .map(|namespace| self.select(&of_kind(&known.by_kind()["namespace"][namespace])))
            .unwrap_or_default();
        if found.is_empty() && self.namespace.is_none() {
            found = self.select(&of_kind(&known.by_kind()["cluster"]));
        }
        if !found.is_empty() {
            return Ok(found);
        }
        match own.map(|kind| kind.namespaced) {
            None => Err(ParamError::UnknownKind(format!(
                "its parameters are objects {} of {}, and no such kind has been read",
                self.kind, self.api_version
            ))),
            Some(true) if namespace.is_none() => Err(ParamError::Invalid(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned(),
            )),
            Some(_) => Ok(found),
        }
    }

    /// Returns the selected objects of one place and kind, by name.
    fn select(&self, objects: &Value) -> Vec<Json> {
        match &self.selected {
            SelectedParams::Named(name) => {
                let object = &objects[name.as_str()];
                if *object == Value::Undefined { Vec::new() } else { vec![json(object)] }
            }
            SelectedParams::Labelled(selector) => {
                let objects = value::object(objects).into_iter().flat_map(|objects| objects.iter_sorted());
                let is_selected =
                    |object: &Json| selector.as_ref().is_none_or(|selector| selector.matches(&labels(object)));
                objects.map(|(_, object)| json(object)).filter(is_selected).collect()
            }
        }
    }
}
