//! kaudit: see the drawing (to be completed).
pub mod admin;
pub mod cache;
pub mod cli;
pub mod config;
pub mod evaluate;
pub mod gate;
pub mod metrics;
pub mod object;
pub mod output;
pub mod policy;
pub mod telemetry;
pub mod verdict;
