//! A Rego evaluator with OPA's semantics.
//!
//! Modules are parsed by OPA's grammar, in version 1 or 0 of the language, checked as OPA's compiler checks them,
//! compiled to programs, and evaluated by a small virtual machine within limits of time, memory, stack and size. What
//! OPA refuses is refused at the same position; unsupported features are refused as well, and never evaluated
//! differently.
//!
//! [`Policies::load`] parses and checks files. [`Policies::prepare`] prepares rules for evaluation, [`Policies::query`]
//! any query, and [`Policies::trace`] shows how far evaluation gets in the body of a rule and with which values.
//! Everything is synchronous and can be used from several threads; a thread that evaluates needs twice
//! [`Limits::stack`] of stack.
//!
//! # A rule and its value
//!
//! ```
//! use kaudit_rego::{File, Form, Limits, Policies, value};
//!
//! let module = r#"
//!     package shop
//!
//!     deny contains sprintf("%s has no tag", [container.image]) if {
//!         some container in input.containers
//!         not contains(container.image, ":")
//!         not container.name in data.exempt
//!     }
//! "#;
//! let files = vec![
//!     File::new("shop.rego".into(), Form::Rego, module.to_owned()),
//!     File::new("data.json".into(), Form::Json, r#"{"exempt": ["proxy"]}"#.to_owned()),
//! ];
//! let policies = Policies::load(files, &Limits::default())?;
//!
//! let deny = vec!["shop".to_owned(), "deny".to_owned()];
//! let rules = policies.prepare(std::slice::from_ref(&deny))?;
//! let input = value::from_json(br#"{"containers": [{"name": "web", "image": "nginx"}, {"name": "proxy", "image": "envoy"}]}"#)?;
//! assert_eq!(rules.value(&deny, &input)?.to_string(), r#"["nginx has no tag"]"#);
//!
//! let query = policies.query("some message in data.shop.deny; parts := split(message, \" \")", &["parts"])?;
//! assert_eq!(query.solutions(&input)?[0]["parts"][0].to_string(), r#""nginx""#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors, limits and a trace
//!
//! ```
//! use std::time::Duration;
//!
//! use kaudit_rego::{Failure, File, Form, Limits, Policies, Value, value};
//!
//! let file = |text: &str| vec![File::new("p.rego".into(), Form::Rego, text.to_owned())];
//! let limits = Limits { evaluation: Duration::from_millis(50), ..Limits::default() };
//!
//! // All problems of all files are reported at once, each with its location and a hint.
//! let error = Policies::load(file("package p\n\nq := startwith(input.name, \"a\")\n"), &limits).err().unwrap();
//! assert_eq!(error.problems[0].place(), "p.rego:3:6");
//! assert_eq!(error.problems[0].help, "did you mean startswith?");
//!
//! // Every evaluation ends within its limits.
//! let text = r#"
//! package p
//!
//! slow if {
//!     some a in numbers.range(1, 100000)
//!     some b in numbers.range(1, 100000)
//!     a * b < 0
//! }
//!
//! big if {
//!     input.n > 3
//!     input.n > 5
//! }
//! "#;
//! let policies = Policies::load(file(text), &limits)?;
//! let slow = vec!["p".to_owned(), "slow".to_owned()];
//! let failure = policies.prepare(std::slice::from_ref(&slow))?.value(&slow, &Value::Undefined);
//! assert_eq!(failure, Err(Failure::TimedOut(limits.evaluation)));
//!
//! // The first statement holds, the second does not.
//! let trace = policies.trace(&["p".to_owned(), "big".to_owned()], &value::from_json(br#"{"n": 4}"#)?);
//! assert_eq!(trace[0].body.passed(), 1);
//! assert_eq!(trace[0].body.statements[1].parts[0].text, "input.n");
//! assert_eq!(trace[0].body.statements[1].parts[0].value, Value::from(4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Tools that analyse policies find syntax trees, resolved rules and the references between them in [`analysis`].

pub mod analysis;
#[doc(hidden)]
pub mod builtins;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod compile;
#[doc(hidden)]
pub mod constant;
#[doc(hidden)]
pub mod cpu_time;
#[doc(hidden)]
pub mod data;
mod error;
mod evaluator;
#[doc(hidden)]
pub mod excerpt;
mod file;
#[doc(hidden)]
pub mod graph;
mod limits;
mod machine;
pub mod memory;
#[doc(hidden)]
pub mod missing;
#[doc(hidden)]
pub mod mutants;
mod order;
mod policies;
mod position;
pub mod problem;
#[doc(hidden)]
pub mod program;
#[doc(hidden)]
pub mod references;
#[doc(hidden)]
pub mod syntax;
#[doc(hidden)]
pub mod test_rules;
pub mod trace;
mod types;
pub mod value;
#[doc(hidden)]
pub mod yaml;

pub use regorus::Value;

pub use self::{
    error::PolicyError,
    evaluator::{Evaluator, Failure},
    file::{Declared, File, FileText, Form},
    limits::{Limits, SourceLimits, Version},
    machine::Answer,
    policies::{Policies, Query},
    position::Position,
    problem::{LoadError, Problem, ProblemSeverity},
    program::{RuleId, SourceLocation},
};
