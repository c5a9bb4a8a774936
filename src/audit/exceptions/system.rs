//! The exceptions for components of Kubernetes' distributions, which the library has in `system/components.yaml`.
//!
//! They are in force if the library is used, except with the profile `strict`.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::exception::{Exception, PolicyRules, SystemComponent};
use crate::{
    judge::builtin,
    rego::analysis::yaml::{self, YamlDialect},
};

/// The file of the library.
const FILE: &str = "system/components.yaml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SystemComponents {
    /// The version of the list, for readers.
    #[serde(rename = "version")]
    _version: u32,
    /// The rules that every workload of the list may violate.
    every_workload: Vec<PolicyRules>,
    workloads: Vec<SystemComponent>,
    /// Roles, bindings and Namespaces.
    others: Vec<SystemComponent>,
}

/// The exceptions, in the order of the file. A test parses the file.
static EXCEPTIONS: LazyLock<Vec<Arc<Exception>>> = LazyLock::new(|| read().unwrap_or_default());

/// Returns the exceptions for system components.
pub(super) fn exceptions() -> impl Iterator<Item = Arc<Exception>> {
    EXCEPTIONS.iter().cloned()
}

fn components() -> Result<SystemComponents, String> {
    let text = builtin::file(FILE).unwrap_or_default();
    let node = yaml::single(text, YamlDialect::Settings).map_err(|error| error.why)?;
    node.deserialize().map_err(|error| error.why)
}

fn read() -> Result<Vec<Arc<Exception>>, String> {
    let SystemComponents { every_workload, workloads, others, .. } = components()?;
    let workloads = workloads.into_iter().map(|one| Exception::of_component(one, &every_workload));
    let others = others.into_iter().map(|one| Exception::of_component(one, &[]));
    workloads.chain(others).map(|exception| exception.map(Arc::new)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::judge::{set::PolicySet, sources::FileSource};

    #[test]
    fn every_entry_is_narrow_and_names_rules_of_the_library() {
        let SystemComponents { every_workload, workloads, others, .. } = components().unwrap();
        let set = PolicySet::load(&[FileSource::builtin()]).unwrap();
        let ids: BTreeSet<&str> =
            set.policies.iter().flat_map(|policy| policy.rules.iter().flat_map(|rule| rule.metadata.ids())).collect();
        let mut names = BTreeSet::new();
        for component in workloads.iter().chain(&others) {
            let SystemComponent { name, kinds, namespaces, names: objects, subjects, rules, .. } = component;
            assert!(names.insert(name), "{name} is there twice");
            assert!(!kinds.is_empty() && !objects.is_empty(), "{name}");
            assert!(objects.iter().chain(namespaces).all(|pattern| !pattern.starts_with('*')), "{name}");
            assert!(namespaces.iter().all(|namespace| !namespace.contains('*')), "{name}");
            assert!(kinds.iter().all(|kind| *kind == "Pod" || kind.contains('.')), "{name}: kinds have a group");
            assert_eq!(kinds.iter().any(|kind| kind.contains("bindings.")), !subjects.is_empty(), "{name}: subjects");
            let unknown: Vec<_> = rules.iter().filter(|rule| !ids.contains(&***rule)).collect();
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
        }
        assert!(workloads.iter().all(|component| !component.namespaces.is_empty()));
        let of_the_cluster =
            |component: &&SystemComponent| component.kinds.iter().any(|kind| kind.starts_with("cluster"));
        assert!(others.iter().filter(of_the_cluster).all(|component| component.namespaces.is_empty()));
        for PolicyRules { name, rules } in &every_workload {
            let policy = set.policies.iter().find(|policy| policy.name == *name).unwrap();
            let known: BTreeSet<&str> = policy.rules.iter().flat_map(|rule| rule.metadata.ids()).collect();
            assert!(rules.iter().all(|rule| known.contains(&**rule)), "{name}");
        }
        assert_eq!(exceptions().count(), workloads.len() + others.len());
    }
}
