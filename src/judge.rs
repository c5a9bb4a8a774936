//! Policies: the files of a directory become a [`set::PolicySet`], and [`evaluate::evaluate`] judges objects by it.
//!
//! Files are read, modules parsed and checked, and what must not run is refused with its place and a way to fix it; then
//! the modules of a unit are compiled together to one program. A set never changes: a changed directory is loaded again, and the
//! old set stays in use if that fails.
//!
//! What distinguishes the dialects is described in their folders below [`dialects`]. Nothing here knows of clusters.

pub(crate) mod builtin;
pub mod bundle;
mod compile;
pub(crate) mod constraint_index;
mod data;
pub mod dependencies;
pub(crate) mod depth;
pub mod dialect;
pub mod dialects;
mod entrypoints;
pub mod evaluate;
pub mod excusable;
pub mod files;
pub mod inventory;
mod kinds;
pub(crate) mod last_good;
pub(crate) mod links;
mod lint;
mod load;
pub mod metadata;
pub(crate) mod modules;
mod ownership;
pub mod policy;
pub mod reads;
pub(crate) mod resource_match;
mod result_values;
pub mod rule;
mod rule_kinds;
pub mod rule_pattern;
pub mod rule_settings;
pub mod set;
pub mod sharing;
pub mod sources;
pub(crate) mod tested;
mod tree;
mod unit;
pub mod unjudged;
