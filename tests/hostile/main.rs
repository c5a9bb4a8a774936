//! Hostile policies and objects: none of them crashes or hangs kaudit or gets into the output unescaped, and all others
//! are evaluated as if they did not exist.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod corpus;
mod generated;
mod memory;
mod objects;
mod policies;
mod text;
