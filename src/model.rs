//! What everything speaks of: kinds and objects, what judging finds, coverage, shards. Knows no other room.

pub mod body;
pub mod coverage;
pub mod object;
pub mod shard;
pub mod verdict;
