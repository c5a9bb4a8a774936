//! Policies and objects that want to do harm: nothing of them crashes or hangs kaudit, or gets out unescaped, and all
//! others are judged as if they were not there.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

#[path = "../support/container.rs"]
mod container;
mod corpus;
mod generated;
mod memory;
mod objects;
mod policies;
mod text;
