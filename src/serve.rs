//! The HTTP servers: health, metrics, status and the page.

pub mod access;
pub mod admin;
mod connections;
mod host;
mod session;
mod status;
pub mod ui;
