//! Rego as OPA reads it: text to tokens to a syntax tree, with nothing resolved.

mod bodies;
mod checks;
mod lexer;
mod literal;
mod parser;
mod shape;
mod terms;
mod tree;

pub(crate) use self::tree::*;
pub use self::{
    bodies::LongBodies,
    lexer::SyntaxError,
    tree::{ComprehensionKind, Module, Position},
};

/// Reads a module, in the given version or the one that it can be read in: 1 before 0.
///
/// # Errors
/// Returns why it cannot be read, by the version that it was read further in.
pub fn read(text: &str, version: Option<Version>) -> Result<Module, SyntaxError> {
    if let Some(version) = version {
        return module(text, version);
    }
    let first = match module(text, Version::V1) {
        Ok(module) => return Ok(module),
        Err(why) => why,
    };
    match module(text, Version::V0) {
        Ok(module) => Ok(module),
        Err(second) if first.help.is_none() && second.at > first.at => Err(second),
        Err(_) => Err(first),
    }
}

/// Returns the bytes of a text at which the path of its package is; `None` if it does not begin with one.
pub fn package_path(text: &str) -> Option<std::ops::Range<usize>> {
    parser::package_path(text)
}

fn module(text: &str, version: Version) -> Result<Module, SyntaxError> {
    let mut module = parser::module(text, version)?;
    checks::module(&mut module)?;
    Ok(module)
}
