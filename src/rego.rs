//! Rego with OPA's meaning: modules are read, checked and compiled to programs, which the machine runs. Values and some builtins
//! are regorus'. Knows nothing of Kubernetes.

pub(crate) mod builtins;
pub(crate) mod check;
pub(crate) mod compile;
pub(crate) mod constant;
pub(crate) mod cpu_time;
pub(crate) mod data;
pub(crate) mod error;
pub(crate) mod evaluator;
pub(crate) mod excerpt;
pub(crate) mod file;
pub(crate) mod graph;
pub mod limits;
pub(crate) mod machine;
pub mod memory;
pub(crate) mod missing;
pub(crate) mod order;
pub mod problem;
pub(crate) mod program;
#[doc(hidden)]
pub mod query;
pub(crate) mod references;
pub(crate) mod syntax;
pub(crate) mod test_rules;
pub(crate) mod trace;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod yaml;
