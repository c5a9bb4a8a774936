//! What the tools say that define a dialect, and what kaudit says of the same files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod conftest;
