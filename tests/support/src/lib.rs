//! Code that several test programs use. It does not depend on kaudit, so kaudit's unit tests can use it as well.

#![expect(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "a panic is how a test fails")]

pub mod child;
pub mod container;
pub mod files;
pub mod modules;
pub mod objects;
pub mod opa;
pub mod otlp;
pub mod registry;

use std::env;

/// Reads a number from the environment.
pub fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")))
}
