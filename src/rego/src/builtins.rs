//! Builtins: which exist, which are refused, and those implemented here because regorus lacks them, returns other
//! results than OPA, or panics or hangs on some arguments.
//!
//! A builtin implemented here is a plain function of its arguments, listed in the tables of the modules below. It takes
//! precedence over regorus' builtin of the same name.

#![expect(clippy::unnecessary_wraps, reason = "every builtin has the type of those that can fail")]
#![expect(clippy::format_push_string, reason = "a few bytes of a pattern that is then compiled")]

pub(crate) mod budget;
mod call;
mod callee;
mod cidr;
mod collections;
mod decimals;
pub mod declarations;
mod digests;
mod encoding;
mod format;
mod globs;
mod gofloat;
mod known;
mod natives;
mod numbers;
mod operators;
pub mod regexes;
mod replacer;
pub mod results;
mod text;
mod times;
mod units;
mod uri;
mod written;
mod yaml_writer;

pub(crate) use self::{
    callee::Callee,
    known::{exists, nearest, unsupported},
    written::plain,
};
pub use self::{callee::is_impure, globs::glob};
