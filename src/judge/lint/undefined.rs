//! Warns of undefined paths below `data` that modules import or evaluated rules refer to: OPA accepts them silently, and a
//! rule that needs such a value has no result.

use std::{collections::BTreeSet, ops::Bound};

use crate::rego::{
    Problem,
    analysis::{
        check::Checked,
        references::{DefinitionForm, Node, Path, push_key},
    },
};

/// The key below `data` of the library's parameters, such as `kubernetes_version`, which need not be defined.
const PARAMETERS: &str = "kaudit";

const HELP: &str = "it is undefined wherever it is used; add its file to the policy paths";

/// Returns a warning for each undefined import, and for each undefined reference that is not below one.
pub(super) fn warnings(checked: &Checked<'_>) -> Vec<Problem> {
    let packages: Vec<Path> = checked.modules.iter().map(|module| module.package_path()).collect();
    let defined = DefinedPaths { checked, packages: packages.iter().map(Vec::as_slice).collect() };
    let (imports, mut problems) = defined.undefined_imports();
    problems.extend(defined.undefined_references(&imports));
    problems
}

/// The paths below `data` that modules and data files define, or that lookups add.
struct DefinedPaths<'a> {
    checked: &'a Checked<'a>,
    packages: BTreeSet<&'a [String]>,
}

impl DefinedPaths<'_> {
    /// Whether there is, or may be, a value at a path.
    fn contain(&self, path: &[String]) -> bool {
        let Checked { graph, data, .. } = self.checked;
        let from: (Bound<&[String]>, Bound<&[String]>) = (Bound::Included(path), Bound::Unbounded);
        let next = self.packages.range::<[String], _>(from).next();
        next.is_some_and(|package| package.starts_with(path))
            || !graph.covered(path).is_empty()
            || data.has(path)
            || data.is_external(path)
    }

    /// Whether a package or a data file that a path leads into is loaded. A single value in it may be optional.
    fn lead_to(&self, path: &[String]) -> bool {
        path[0] == PARAMETERS
            || self.checked.data.has(&path[..1])
            || (1..path.len()).any(|length| self.packages.contains(&path[..length]))
    }

    /// Returns the undefined imports, each with the index of its module, and their warnings.
    fn undefined_imports(&self) -> (Vec<(usize, Path)>, Vec<Problem>) {
        let (mut imports, mut problems) = (Vec::new(), Vec::new());
        for (index, (file, module)) in self.checked.files.iter().zip(self.checked.modules).enumerate() {
            for (path, at) in module.data_imports().into_iter().filter(|(path, _)| !self.contain(path)) {
                let message = format!("data.{} is imported, but no file defines it", path.join("."));
                problems.push(Problem::warning(&file.shown, message).at(&file.text, at.line, at.column).help(HELP));
                imports.push((index, path));
            }
        }
        (imports, problems)
    }

    /// Returns one warning for each file and package that evaluated rules refer to. Paths that `with` replaces are given
    /// during the evaluation, and another check reports calls of unknown functions.
    fn undefined_references(&self, imports: &[(usize, Path)]) -> Vec<Problem> {
        let Checked { files, graph, entries, .. } = self.checked;
        let reachable = graph.reachable(entries.iter().map(Vec::as_slice));
        let evaluated: Vec<&Node> = reachable.into_iter().flat_map(|path| graph.at(path)).collect();
        let replaced: Vec<&Path> = evaluated.iter().flat_map(|node| &node.replaces).collect();
        // Its default is the value where the data is missing.
        let has_default = |node: &Node| graph.at(&node.path).any(|other| other.form == DefinitionForm::Default);
        let is_undefined = |node: &Node, path: &Path| {
            !path.is_empty()
                && !self.contain(path)
                && !self.lead_to(path)
                && !node.calls.iter().any(|call| call.rule.as_ref() == Some(path))
                && !imports.iter().any(|(module, import)| *module == node.module && path.starts_with(import))
                && !replaced.iter().any(|other| path.starts_with(other) || other.starts_with(path))
                && !has_default(node)
        };
        let (mut reported, mut problems) = (BTreeSet::new(), Vec::new());
        for node in &evaluated {
            for path in node.uses.iter().filter(|path| is_undefined(node, path)) {
                let package = &path[..path.len().saturating_sub(1).max(1)];
                if reported.insert((node.module, package)) {
                    let (file, name) = (files[node.module], node.name().map_or("", String::as_str));
                    let mut reference = "data".to_owned();
                    for key in path {
                        push_key(&mut reference, key);
                    }
                    let message = format!("{name} uses {reference}, but no file that is visible here defines it");
                    let problem = Problem::warning(&file.shown, message).at(&file.text, node.line, node.column);
                    problems.push(problem.help(HELP));
                }
            }
        }
        problems
    }
}
