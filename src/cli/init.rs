//! The options of `kaudit init`.

use std::path::PathBuf;

use clap::Args;

use crate::judge::{builtin, sources::PolicySource};

pub(super) const AFTER_HELP: &str = "\
EXIT CODES:
  0  Everything was written
  2  A file exists already, and nothing was written; or a file could not be
     written

EXAMPLES:
  A copy of the whole library, to change and to delete from
    kaudit init
  A copy of the Pod Security Standards and the policies about RBAC
    kaudit init shop --from builtin:pod_security --from builtin:rbac
  Only policies of your own, beside the library inside kaudit
    kaudit init --from none";

/// Options of `kaudit init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Write into this directory
    #[arg(value_name = "DIR", default_value = ".")]
    pub directory: PathBuf,

    /// Copy the library inside kaudit, or a part of it; with none, nothing is copied, and checks use the library of the
    /// kaudit that runs; repeatable
    #[arg(
        long,
        env = "KAUDIT_INIT_FROM",
        value_name = "builtin[:PART]|none",
        value_delimiter = ',',
        default_value = "builtin",
        value_parser = library_part
    )]
    pub from: Vec<LibraryPart>,
}

/// A part of the builtin library to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibraryPart {
    /// Nothing.
    None,
    /// A part by its name; an empty name is the whole library.
    Builtin(String),
}

/// Parses a part of the builtin library.
fn library_part(text: &str) -> Result<LibraryPart, String> {
    match PolicySource::from(text) {
        PolicySource::Builtin(part) if builtin::part(&part).is_empty() => {
            Err(format!("the builtin library has no part of this name; {}", builtin::suggestion(&part)))
        }
        PolicySource::Builtin(part) => Ok(LibraryPart::Builtin(part)),
        PolicySource::Path(path) if path.as_os_str() == "none" => Ok(LibraryPart::None),
        _ => Err("expected builtin, builtin:PART or none".into()),
    }
}
