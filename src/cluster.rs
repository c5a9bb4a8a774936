//! Talking to the API server: clients, error texts, delays between attempts, kaudit's own names there, and Leases. Beside them
//! what clients of other servers have in common.

pub mod backoff;
pub mod client;
pub mod error;
pub(crate) mod http_client;
pub mod identity;
pub mod lease;
