//! Bundles from real registries, from real publishers, and from malicious, slow or unavailable servers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

mod altered;
mod artifact;
mod follow;
mod keyless;
mod lying;
mod program;
mod publishers;
mod server;
mod signatures;
mod trust;
