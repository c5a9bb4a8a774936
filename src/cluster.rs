//! Talking to the API server: clients, error texts, delays between attempts, kaudit's own names there, and Leases.

pub mod backoff;
pub mod client;
pub mod error;
pub mod identity;
pub mod lease;
