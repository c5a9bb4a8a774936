//! Access to the API server: clients, error messages, delays between attempts, kaudit's own names in the cluster, and
//! leader election. Also the common part of HTTP clients for other servers.

pub mod backoff;
pub mod client;
pub mod error;
pub(crate) mod http_client;
pub mod identity;
pub mod lease;
