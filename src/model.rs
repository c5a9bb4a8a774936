//! The types that all other modules use: kinds and objects, verdicts, coverage, shards. Uses no other module.

pub mod body;
pub mod coverage;
pub mod digest;
pub mod exception;
pub mod glob;
pub mod label_requirements;
pub mod namespaced_kinds;
pub mod object;
pub(crate) mod plural;
pub mod rule_counts;
pub mod rule_numbers;
pub mod shard;
pub(crate) mod spelling;
pub mod text;
pub mod uid;
pub mod verdict;
