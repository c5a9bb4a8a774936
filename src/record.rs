//! What is written into the cluster: Events, reports and the `Audit` status; and what is sent to receivers outside.
//!
//! Recorders take deltas and overviews from the pipeline, at their own pace and within bounds: a slow or refusing API
//! server costs records, which are counted, but never delays evaluation.

mod delaying_queue;
mod earlier;
mod event_reasons;
mod exception_notice;
mod failure;
pub mod health;
pub mod memory;
mod message_name;
pub mod mirror;
mod patch;

pub mod events;
mod exceptions;
pub mod notify;
pub mod reports;
pub mod status;

pub mod recorders;
pub mod term;
