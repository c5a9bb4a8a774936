//! Rego with OPA's meaning: modules are read, checked and compiled to programs, which the machine runs. Values and some builtins
//! are regorus'. Knows nothing of Kubernetes.

#![allow(missing_docs, reason = "only kaudit uses it so far")]

pub mod builtins;
pub mod check;
pub mod compile;
pub mod constant;
pub mod cpu_time;
pub mod data;
pub mod error;
pub mod evaluator;
pub mod excerpt;
pub mod file;
pub mod graph;
pub mod limits;
pub mod machine;
pub mod memory;
pub mod missing;
mod order;
pub mod problem;
pub mod program;
#[doc(hidden)]
pub mod query;
pub mod references;
pub mod syntax;
pub mod test_rules;
pub mod trace;
mod types;
pub mod value;
pub mod yaml;
