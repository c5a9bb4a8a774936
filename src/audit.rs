//! The audit: one task that owns the state, and the parts of that state.
//!
//! [`pipeline`] is that task. The other files are parts of its state, each with an invariant of its own, and what goes in
//! ([`command`]) and comes out ([`overview`], [`result`]).

pub mod cache;
pub(crate) mod clock;
pub mod command;
pub mod diff;
pub(crate) mod ended;
pub mod exceptions;
pub mod fingerprint;
pub mod gate;
pub mod history;
pub(crate) mod inventory;
pub(crate) mod judges;
pub mod ledger;
pub(crate) mod looked_up;
pub(crate) mod memory;
mod merged;
pub mod overview;
mod owned;
pub(crate) mod pairing;
pub(crate) mod panics;
mod phases;
pub mod pipeline;
pub(crate) mod policies;
pub(crate) mod publisher;
pub mod queue;
pub mod reach;
pub mod recorded;
pub(crate) mod recording;
pub mod result;
pub(crate) mod results;
pub(crate) mod retries;
pub(crate) mod rounds;
pub(crate) mod schedule;
pub mod settings;
pub(crate) mod transitions;
pub(crate) mod unchanged;
pub(crate) mod watched;
pub(crate) mod work;
