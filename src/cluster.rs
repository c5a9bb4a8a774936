//! Access to the API server: clients, error messages, delays between attempts, kaudit's own names in the cluster, and
//! Leases. Also what HTTP clients of other servers have in common.

pub mod backoff;
pub mod client;
pub mod error;
pub(crate) mod http_client;
pub mod identity;
pub mod lease;
