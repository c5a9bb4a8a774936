//! The parsed modules of a unit.

use super::dialects::trivy;
use crate::rego::{
    File,
    analysis::syntax::{self, LongBodies, Module, SyntaxError},
};

/// Parses modules that are compiled together.
pub(crate) fn read(files: &[&File]) -> Vec<Result<Module, SyntaxError>> {
    let mut long_bodies = LongBodies::default();
    let read = |file: &&File| {
        let mut module = syntax::read(&file.text, file.version())?;
        long_bodies.add(&mut module)?;
        module.may_look_up_nothing = trivy::makes_results(&file.text);
        Ok(module)
    };
    files.iter().map(read).collect()
}
