//! Results in the forms that the tools of pipelines and clusters take.
//!
//! Each is a pure function of the [`AuditResult`](crate::audit::result::AuditResult), within the limits of what reads it:
//! what is beyond them is cut by severity, and the form says how much that is. What was not judged is in each.

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
