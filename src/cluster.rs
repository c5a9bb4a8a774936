//! The API server: clients, what its errors say, kaudit's own name there, and leases.

pub mod client;
pub mod error;
pub mod identity;
pub mod lease;
