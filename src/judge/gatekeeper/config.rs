//! Gatekeeper's own settings: `Config` (what is exempt) and `SyncSet` (what `data.inventory` holds).

use regorus::Value;

use super::{document::Node, matching::Wildcard};
use crate::model::object::ObjectKey;

/// A kind as Gatekeeper's settings name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, e.g. `v1`.
    pub version: String,
    /// The kind's name.
    pub kind: String,
}

/// What Gatekeeper's settings among the policies say.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Kinds that `data.inventory` must hold, sorted: of each `SyncSet`, and of `syncOnly` of the `Config`.
    pub sync: Vec<GroupVersionKind>,
    pub(crate) exempt: Vec<Wildcard>,
}

impl Settings {
    /// Takes in `config.gatekeeper.sh` `Config`.
    pub(crate) fn config(&mut self, node: &Node) {
        self.kinds(node.at(&["spec", "sync", "syncOnly"]));
        for entry in node.at(&["spec", "match"]).items() {
            if entry.get("processes").texts().any(|process| matches!(process, "audit" | "*")) {
                self.exempt.extend(entry.get("excludedNamespaces").texts().map(Wildcard::new));
            }
        }
    }

    /// Takes in `syncset.gatekeeper.sh` `SyncSet`.
    pub(crate) fn sync_set(&mut self, node: &Node) {
        self.kinds(node.at(&["spec", "gvks"]));
    }

    fn kinds(&mut self, nodes: &Node) {
        for node in nodes.items() {
            let text = |key| node.get(key).text().unwrap_or_default().to_owned();
            self.sync.push(GroupVersionKind { group: text("group"), version: text("version"), kind: text("kind") });
        }
        self.sync.sort();
        self.sync.dedup();
    }

    /// Whether Gatekeeper's audit leaves out what is in the object's namespace. A glob that fits the empty name leaves
    /// out what is in no namespace at all, as it does there.
    pub(crate) fn exempts(&self, key: &ObjectKey, object: &Value) -> bool {
        if self.exempt.is_empty() {
            return false;
        }
        let field = if key.kind.is("", "Namespace") { "name" } else { "namespace" };
        let namespace = &object["metadata"][field];
        let namespace = namespace.as_string().map_or("", |name| name);
        self.exempt.iter().any(|pattern| pattern.matches(namespace))
    }
}
