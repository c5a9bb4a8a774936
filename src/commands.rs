//! The commands of the binary, one file each.

pub mod check;
pub mod policies;
pub mod rbac;
pub mod test;
