//! Packages that are too large: regorus copies the names of a package's rules for each of its modules, so that 4,000 modules with
//! a rule each need more than a gigabyte.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use crate::rego::{
    File, Problem,
    analysis::{
        missing::Missing,
        references::Path,
        syntax::{Module, SyntaxError},
    },
};

/// Most names that regorus may copy for the modules that are compiled together: those of 1,000 modules with 1,000 rules, which
/// take about 75 MB.
const MOST_NAMES: usize = 1_000_000;

/// The modules of one package.
#[derive(Default)]
struct PackageSize<'f> {
    /// Indices of the modules.
    modules: Vec<usize>,
    names: HashSet<&'f str>,
}

/// Returns the indices of the modules whose packages are too large beside those before them. Each such package gives a problem.
pub(super) fn refuse(
    files: &[&File],
    modules: &[Result<Module, SyntaxError>],
    missing: &mut Missing,
    problems: &mut Vec<Problem>,
) -> BTreeSet<usize> {
    let mut packages: BTreeMap<Path, PackageSize<'_>> = BTreeMap::new();
    for (index, module) in modules.iter().enumerate() {
        let Ok(module) = module else { continue };
        let package = packages.entry(module.package_path()).or_default();
        package.modules.push(index);
        package.names.extend(module.rule_names());
    }
    let mut packages: Vec<(Path, PackageSize<'_>)> = packages.into_iter().collect();
    packages.sort_by_key(|(_, package)| package.modules.first().copied());
    let (mut copied, mut refused) = (0_usize, BTreeSet::new());
    for (path, package) in packages {
        let (count, names) = (package.modules.len(), package.names.len());
        // A single module is compiled without copies.
        let size = if count > 1 { count.saturating_mul(names) } else { 0 };
        if copied.saturating_add(size) <= MOST_NAMES {
            copied += size;
            continue;
        }
        let Some(first) = package.modules.first().map(|index| files[*index]) else { continue };
        let name = path.join(".");
        let message = if copied == 0 {
            format!("package {name} is too large: {count} modules with {names} names of rules")
        } else {
            format!("package {name} is too large beside those before it: {count} modules with {names} names of rules")
        };
        let help = format!(
            "modules times names may be {MOST_NAMES} for all packages of a source: join the modules, or use several packages"
        );
        problems.push(Problem::refused(&first.shown, message).help(help));
        missing.package(path, &Arc::clone(&first.shown));
        refused.extend(package.modules);
    }
    refused
}
