//! Code that several test programs use. It does not depend on kaudit, so kaudit's unit tests can use it as well.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::missing_panics_doc,
    reason = "a panic is how a test fails"
)]

pub mod child;
pub mod container;
pub mod files;
pub mod long_run;
pub mod modules;
pub mod mutation;
pub mod objects;
pub mod opa;
pub mod otlp;
pub mod registry;
pub mod secrets;
pub mod settings;
