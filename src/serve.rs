//! What kaudit serves about itself over HTTP.

pub mod admin;
mod connections;
mod status;
pub mod ui;
