//! The rewriter: Rego as OPA reads it becomes Rego that regorus takes for the same.
//!
//! regorus does not parse some legal Rego, and gives some of it another meaning than OPA. Each module
//! is read into a tree by OPA's grammar, every difference is rewritten by a pass of its own, and the tree is written
//! again: line by line, so that errors and results name the right place. A module that this reader cannot read goes to
//! regorus as it is, for its error; even if regorus accepts it, it is refused.

mod extensions;
mod heads;
mod negation;
mod outline;
mod print;
mod scopes;
mod statements;
#[cfg(test)]
mod tests;

use self::{
    outline::{Outline, Package},
    scopes::Fresh,
};
use super::syntax::{Module, SyntaxError, Version};

/// A module as regorus should get it.
#[derive(Debug, Clone)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    pub(crate) version: Version,
}

/// Rewrites modules that are evaluated together.
///
/// # Errors
/// For each module that could not be read, and for each that cannot be rewritten: why.
pub(crate) fn rewrite(modules: &[Result<Module, SyntaxError>]) -> Vec<Result<Rewritten, SyntaxError>> {
    let mut outline = Outline::default();
    for module in modules.iter().flatten() {
        outline.add(module);
    }
    modules.iter().map(|module| run_passes(module.clone()?, &outline)).collect()
}

/// Runs all passes, each on what those before it made.
///
/// # Errors
/// For what no rewriting makes regorus evaluate as OPA does.
fn run_passes(mut module: Module, outline: &Outline) -> Result<Rewritten, SyntaxError> {
    let none = Package::default();
    let package = outline.packages.get(&module.package.path().unwrap_or_default()).unwrap_or(&none);
    let fresh = &mut Fresh::new(&mut module, package);
    scopes::resolve(&mut module, package, fresh);
    statements::templates(&mut module, fresh);
    statements::minus(&mut module);
    negation::rewrite(&mut module, package, fresh);
    statements::walks(&mut module, fresh);
    statements::memberships(&mut module);
    statements::replacements(&mut module, package, outline, fresh);
    statements::self_references(&mut module);
    statements::outputs(&mut module, package, outline);
    statements::last_loops(&mut module);
    heads::bare_functions(&mut module);
    heads::values_before_else(&mut module, fresh);
    heads::keys(&mut module, fresh);
    heads::terms(&mut module, fresh);
    heads::beside_variables(&mut module, package, fresh)?;
    heads::empty_documents(&mut module, fresh);
    Ok(Rewritten { text: print::module(&module), version: module.version })
}
