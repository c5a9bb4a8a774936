//! Connections to event buses, and the secrets that they need.
//!
//! Receivers of notifications and the mirror of a cluster's state use them.

pub(crate) mod credential;
pub(crate) mod nats;
pub(crate) mod tls;
