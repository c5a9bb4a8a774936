//! Policies: loads sources of policies into a [`set::PolicySet`], with which [`evaluate::evaluate`] evaluates objects.
//!
//! Loading parses and checks the modules and refuses those that must not run, with their location and a way to fix
//! them; then it compiles the modules of a unit into one program. A set is immutable: changed sources are
//! loaded again, and the old set stays in use if that fails.
//!
//! Each dialect is defined in its own folder below [`dialects`]. Nothing here depends on clusters.

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
pub mod expansion;
mod expansions;
pub mod files;
pub mod frameworks;
pub mod inventory;
mod kinds;
pub(crate) mod last_good;
pub(crate) mod links;
mod lint;
mod load;
pub mod load_options;
pub mod metadata;
pub(crate) mod modules;
mod ownership;
pub mod parameters;
pub mod policy;
mod policy_annotations;
pub(crate) mod policy_document;
pub mod profile;
pub mod reads;
pub(crate) mod resource_match;
mod result_values;
pub mod rule;
pub mod rule_example;
mod rule_kinds;
pub mod rule_pattern;
pub mod rule_settings;
mod served_controls;
pub mod set;
pub mod sharing;
pub mod sources;
pub(crate) mod tested;
mod tree;
mod unit;
mod unit_selection;
pub mod unjudged;
