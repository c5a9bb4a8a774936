//! The commands of the binary, one file each.

pub mod check;
mod connect;
pub mod policies;
pub mod rbac;
pub mod test;
