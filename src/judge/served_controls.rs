//! The controls of frameworks that rules serve: those that their METADATA names, and those of libraries that name the rules.

use std::sync::Arc;

use serde_json::json;

use super::{
    frameworks::{FrameworkControls, FrameworkTable},
    metadata::Metadata,
    policy::Policy,
};

/// Returns the controls that a rule serves: those of its METADATA, and those of `of_libraries` that name the rule.
pub(crate) fn served_by(metadata: &Metadata, of_libraries: &[FrameworkTable]) -> FrameworkControls {
    let mut served = metadata.frameworks();
    let ids: Vec<&str> = metadata.ids().collect();
    for FrameworkTable { name, controls, .. } in of_libraries {
        let own = controls.iter().filter(|control| control.checks.iter().any(|id| ids.contains(&id.as_str())));
        let own: Vec<Arc<str>> = own.map(|control| control.id.as_str().into()).collect();
        if !own.is_empty() {
            served.entry(name.as_str().into()).or_default().extend(own);
        }
    }
    served
}

/// Adds the controls of libraries to the METADATA of the rules that serve them.
pub(crate) fn name_controls(policies: &mut [Policy], of_libraries: &[FrameworkTable]) {
    for rule in policies.iter_mut().flat_map(|policy| &mut policy.rules) {
        let served = served_by(&rule.metadata, of_libraries);
        if served != rule.metadata.frameworks() {
            Arc::make_mut(&mut rule.metadata).custom.insert("frameworks".to_owned(), json!(served));
        }
    }
}
