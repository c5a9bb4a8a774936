//! Results in the formats that CI and cluster tools read.
//!
//! Each renderer is a pure function of the [`AuditResult`](crate::audit::result::AuditResult) and respects the limits
//! of its consumer: it omits the least severe results first, and writes how many it omitted. Each format includes the
//! gaps of the audit.

mod anchor;
mod github;
mod gitlab;
mod junit;
mod markdown;
mod openreport;
mod sarif;

#[cfg(test)]
mod tests;

pub(crate) use self::junit::write_junit;
pub(super) use self::markdown::{MESSAGE_BYTES, code};
pub(super) use self::{
    github::render as github, gitlab::render as gitlab, junit::render as junit, markdown::render as markdown,
    openreport::render as openreport, sarif::render as sarif,
};
