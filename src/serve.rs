//! The HTTP servers: health, metrics, status and the page.

pub mod access;
pub mod admin;
mod connections;
pub(crate) mod fleet;
mod host;
mod page;
mod session;
mod status;
pub mod ui;
