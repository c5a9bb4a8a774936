//! Determines the modules needed to evaluate one of them: compiling only these takes a fraction of the time.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    references::{Node, Path},
    syntax::Module,
};

/// The modules of each package, and the references of each module.
#[derive(Debug)]
pub struct ModuleUses {
    packages: BTreeMap<Path, Vec<usize>>,
    uses: Vec<BTreeSet<Path>>,
}

impl ModuleUses {
    /// Collects the packages and references of modules and their nodes.
    pub fn new(modules: &[&Module], nodes: &[Node]) -> Self {
        let mut packages: BTreeMap<Path, Vec<usize>> = BTreeMap::new();
        for (index, module) in modules.iter().enumerate() {
            packages.entry(module.package_path()).or_default().push(index);
        }
        let mut uses = vec![BTreeSet::new(); modules.len()];
        for node in nodes {
            // The other modules of its package define names that it uses.
            uses[node.module].insert(node.package().to_vec());
            uses[node.module].extend(node.uses.iter().chain(&node.replaces).cloned());
        }
        Self { packages, uses }
    }

    /// Returns the modules of a package.
    pub(super) fn of_package(&self, package: &[String]) -> &[usize] {
        self.packages.get(package).map_or(&[], Vec::as_slice)
    }

    /// Returns the modules that the evaluation of one may need, including itself, in order.
    pub(super) fn needed(&self, module: usize) -> BTreeSet<usize> {
        let mut needed = BTreeSet::from([module]);
        let mut next = vec![module];
        while let Some(module) = next.pop() {
            for path in &self.uses[module] {
                let above = (0..path.len()).filter_map(|length| self.packages.get(&path[..length]));
                let below = self.packages.range(path.clone()..).take_while(|(package, _)| package.starts_with(path));
                let found = above.chain(below.map(|(_, modules)| modules)).flatten();
                next.extend(found.filter(|found| needed.insert(**found)));
            }
        }
        needed
    }
}
