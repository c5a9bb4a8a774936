//! kaudit's Rego against OPA's: the compliance cases that OPA is tested by.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod cases;
