//! For tools that analyse policies: syntax trees, resolved rules, references between rules, and the checks one by one.
//!
//! A text becomes a syntax tree ([`syntax::read`]), several trees are resolved together ([`compile::resolve`]), and resolved rules
//! are compiled ([`compile::Resolved::compile`]) and planned as a program ([`compile::Compiled::plan`]), which an
//! [`Evaluator`](crate::Evaluator) runs. A caller that needs nothing between the text and the evaluator uses
//! [`Policies`](crate::Policies).
//!
//! These interfaces follow kaudit's needs and change more often than those of the crate's root.

#[doc(inline)]
pub use crate::{
    builtins, check, compile,
    compile::{term as resolved, visit},
    constant, cpu_time, data, excerpt, graph, missing, program, references, syntax, test_rules, yaml,
};
