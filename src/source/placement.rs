//! The namespace of manifests that name none: as kubectl does, but only a cluster knows which kinds have namespaces.

use std::{collections::BTreeSet, sync::Arc};

use crate::model::object::Kind;

/// The default namespace, and the kinds whose objects have one.
#[derive(Debug)]
pub struct Placement {
    namespace: String,
    /// Group and kind.
    namespaced: BTreeSet<(String, String)>,
}

impl Placement {
    /// Creates it for a cluster that serves these kinds.
    pub fn new(namespace: String, served: &[Arc<Kind>]) -> Self {
        let namespaced = served.iter().filter(|kind| kind.namespaced);
        Self { namespace, namespaced: namespaced.map(|kind| (kind.group.clone(), kind.kind.clone())).collect() }
    }

    /// Returns the namespace of an object of a kind that names none; `None` if the kind has no namespaces or is unknown.
    pub fn namespace(&self, kind: &Kind) -> Option<&str> {
        self.namespaced.contains(&(kind.group.clone(), kind.kind.clone())).then_some(&self.namespace)
    }
}
