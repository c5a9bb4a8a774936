//! The pipeline and the state that it owns.

pub mod cache;
pub mod gate;
pub mod ledger;
pub mod pipeline;
pub mod queue;
pub mod recorded;
pub mod result;
