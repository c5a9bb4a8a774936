//! For tools that analyse policies: syntax trees, resolved rules, references between rules, and the individual checks.
//!
//! [`syntax::read`] parses source text into a syntax tree, [`compile::resolve`] resolves several trees together,
//! [`compile::Resolved::compile`] compiles the resolved rules and [`compile::Compiled::plan`] plans them as a program,
//! which an [`Evaluator`](crate::Evaluator) runs. A caller that needs no intermediate step uses
//! [`Policies`](crate::Policies).
//!
//! These interfaces follow kaudit's needs and change more often than those at the root of the crate.

#[doc(inline)]
pub use crate::{
    builtins, check, compile,
    compile::{term as resolved, visit},
    constant, cpu_time, data, excerpt, graph, missing, mutants, program, references, syntax, test_rules, yaml,
};
