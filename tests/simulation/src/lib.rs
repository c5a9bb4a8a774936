//! A simulation of kaudit in a cluster.

pub mod server;
