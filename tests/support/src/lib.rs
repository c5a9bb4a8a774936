//! Code that several test programs use. It does not depend on kaudit, so kaudit's unit tests can use it as well.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "only tests call this, and they say what failed")]

pub mod container;
pub mod files;
pub mod objects;
pub mod otlp;
pub mod registry;
