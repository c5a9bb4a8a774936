//! Writes results for people and programs: one [`AuditResult`](crate::audit::result::AuditResult), a renderer for each
//! format.
//!
//! A renderer is a pure function of the result and [`RenderOptions`]: the same result gives the same bytes.
//! [`write`](mod@write) writes these bytes to their targets, and [`exit_code`] returns the exit code for CI.

mod csv;
mod diff;
mod draft;
mod exit;
mod format;
mod forms;
mod framework_list;
mod framework_table;
mod json;
mod names;
mod notes;
pub mod page;
mod policy_list;
pub(crate) mod policy_table;
pub mod progress;
mod render;
mod rules;
pub(crate) mod safe;
mod stream;
pub(crate) mod style;
mod summary;
mod tables;
mod text;
mod tree;
pub mod write;

#[cfg(test)]
mod tests;

pub use self::{
    diff::{diff_exit_code, write_diff},
    exit::{ERROR_CODE, FailOn, exit_code},
    format::{Format, Place, RenderOptions, Target},
    notes::{note, silence},
    policy_list::{ListedPolicy, ListedRule, PolicyList},
    render::{render, stream_line},
    safe::shown_lines,
    stream::Streams,
    tree::WorkTree,
    write::{print, write_all},
};
pub(crate) use self::{draft::drafts, forms::write_junit, write::replace_file};
