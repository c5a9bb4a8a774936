//! Trivy's checks: detects their packages and kinds, and leaves out the checks that Trivy's scanner would not run
//! (`pkg/iac/rego` of Trivy 0.69).
//!
//! A package is a check by its METADATA (`custom.input` or `custom.library`), by the rules that preceded METADATA
//! (`__rego_metadata__`, `__rego_input__`), or because it creates its results with `result.new`. Checks for
//! Dockerfiles, clouds and so on are in the same directories: they are left out before compilation, as are the
//! libraries that only they use.

pub(crate) mod compliance;
mod legacy;
mod results;
mod selector;
mod sorting;

use std::collections::BTreeMap;

use self::selector::CheckScope;
pub(crate) use self::sorting::{Sorted, sort_out, uses, uses_all};
use crate::{
    judge::{
        dialect::{Annotations, Dialect, DialectDescription, InputForm, PackageKinds, WorkloadRules},
        metadata::AnnotationScope,
        rule_kinds::RuleKinds,
    },
    model::verdict::Outcome,
    rego::analysis::{graph::Graph, references::Path, syntax::Module},
};

/// The functions that Trivy checks can call in addition to OPA's builtins.
pub(crate) const FUNCTIONS: [&str; 2] = ["isManaged", "result.new"];

pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    workloads: WorkloadRules::Own,
    any_value_is_result: true,
    outcome: |name| (name == "deny" || name.starts_with("deny_")).then_some(Outcome::Fail),
    packages,
    metadata_in_rules: legacy::metadata,
    ..DialectDescription::new("trivy", InputForm::Object, results::findings)
});

/// Whether a text seems to be a Trivy check. Trivy's OPA accepts more than the latest OPA.
pub(crate) fn makes_results(text: &str) -> bool {
    text.contains("result.new(")
}

/// Returns the packages that are Trivy checks, each with the kinds that it applies to; `None` for checks that are not
/// evaluated.
fn packages(modules: &[&Module], annotations: &[Annotations], graph: &Graph<'_>) -> PackageKinds {
    let mut packages = PackageKinds::new();
    // A package may have thousands of modules.
    let mut callers: BTreeMap<Path, bool> = BTreeMap::new();
    let mut is_caller = |package: &Path| match callers.get(package) {
        Some(known) => *known,
        None => *callers.entry(package.clone()).or_insert(calls(package, graph)),
    };
    for (module, annotations) in modules.iter().zip(annotations) {
        let package = module.package_path();
        let own = annotations.iter().find(|(scope, _)| *scope == AnnotationScope::Package);
        let scope = own.and_then(|(_, about)| CheckScope::of(about));
        let kinds = match scope {
            Some(scope) => scope.kinds().ok(),
            None if packages.contains_key(&package) || !is_caller(&package) => continue,
            None => Some(RuleKinds::all()),
        };
        let known = packages.entry(package).or_default();
        *known = match (known.take(), kinds) {
            (Some(known), Some(kinds)) => Some(known.or(kinds)),
            (known, kinds) => known.or(kinds),
        };
    }
    packages
}

/// Whether rules of a package, or rules that they use, call one of Trivy's functions.
fn calls(package: &Path, graph: &Graph<'_>) -> bool {
    let reached = graph.reachable([package.as_slice()]);
    let mut calls = reached.into_iter().flat_map(|path| graph.at(path)).flat_map(|node| &node.calls);
    calls.any(|call| call.rule.is_none() && FUNCTIONS.contains(&call.name.as_str()))
}
