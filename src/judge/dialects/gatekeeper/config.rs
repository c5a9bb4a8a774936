//! Gatekeeper's `Config`: the namespaces that are exempt from its audit.

use regorus::Value;

use super::matching::Wildcard;
use crate::{
    model::object::ObjectKey,
    rego::{analysis::yaml::YamlNode, value},
};

/// The merged content of every `Config` of `config.gatekeeper.sh` among the policies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    exempt: Vec<Wildcard>,
}

impl Config {
    /// Adds the `spec.match` of one `Config`. Its `sync` is ignored: kaudit's inventory contains everything that
    /// policies look up.
    pub(super) fn add(&mut self, node: &YamlNode) {
        for entry in node.at(&["spec", "match"]).items() {
            if entry.get("processes").texts().any(|process| matches!(process, "audit" | "*")) {
                self.exempt.extend(entry.get("excludedNamespaces").texts().map(Wildcard::new));
            }
        }
    }

    /// Whether no namespace is exempt.
    pub(crate) fn is_empty(&self) -> bool {
        self.exempt.is_empty()
    }

    /// Whether Gatekeeper's audit skips objects in this object's namespace. As in Gatekeeper, a glob that matches the
    /// empty name exempts cluster-scoped objects.
    pub(crate) fn exempts(&self, key: &ObjectKey, object: &Value) -> bool {
        if self.exempt.is_empty() {
            return false;
        }
        let field = if key.kind.is("", "Namespace") { "name" } else { "namespace" };
        let namespace = &object["metadata"][field];
        let namespace = value::text(namespace).map_or("", |name| name);
        self.exempt.iter().any(|pattern| pattern.matches(namespace))
    }
}
