//! What is written into the cluster: Events, reports and the `Audit` status.
//!
//! Recorders take deltas and overviews from the pipeline, at their own pace and within bounds: a slow or refusing API
//! server costs records, which are counted, never judging.

mod failure;
pub mod health;
pub mod memory;

pub mod events;
pub mod reports;
pub mod status;

pub mod recorders;
pub mod term;
