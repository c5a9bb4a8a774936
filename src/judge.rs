//! Policies: the files of a directory become a [`set::PolicySet`], and [`evaluate::evaluate`] judges objects by it.
//!
//! Files are read, modules parsed and checked, and what must not run is refused with its place and how to mend it; then
//! the modules are prepared in one engine a unit, together with generated rules that ask for all results at once. A set
//! never changes; a changed directory is loaded anew, and the old set works on if that fails.

mod compile;
mod data;
pub mod dependencies;
pub mod dialect;
mod entrypoints;
pub mod evaluate;
pub mod files;
pub mod gatekeeper;
pub mod inventory;
mod kinds;
mod lint;
mod load;
pub mod metadata;
pub mod policy;
pub mod reads;
pub mod rule;
pub mod set;
pub(crate) mod tested;
mod unit;
