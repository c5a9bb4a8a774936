//! The parser, by OPA's grammar: text to tokens to a syntax tree, without resolving names.

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

/// Parses a module in the given version, or in the first one that accepts it: 1 before 0.
///
/// # Errors
/// Returns the error of the version that got further.
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

/// Returns the byte range of the package path; `None` if the text does not start with a package.
pub fn package_path(text: &str) -> Option<std::ops::Range<usize>> {
    parser::package_path(text)
}

fn module(text: &str, version: Version) -> Result<Module, SyntaxError> {
    let mut module = parser::module(text, version)?;
    checks::module(&mut module)?;
    Ok(module)
}
