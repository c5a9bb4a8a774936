//! kaudit: see the drawing (to be completed).
pub mod cache;
pub mod client;
pub mod discovery;
pub mod evaluate;
pub mod gate;
pub mod informer;
pub mod ledger;
pub mod manifest;
pub mod metrics;
pub mod object;
pub mod output;
pub mod pipeline;
pub mod policy;
pub mod queue;
pub mod record;
pub mod verdict;
