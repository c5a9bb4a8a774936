//! What kaudit serves about itself over HTTP.

pub mod access;
pub mod admin;
mod connections;
mod host;
mod session;
mod status;
pub mod ui;
