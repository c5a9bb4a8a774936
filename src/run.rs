//! The parts of a run, which the commands that evaluate policies put together: `kaudit check`, `kaudit diff` and
//! `kaudit explain`. Commands that only load policies, `kaudit policies` and `kaudit rbac`, use some of them.
//!
//! In: the options of the command line. Out: [`sources`], [`policies`] and [`exceptions`] that are loaded, and followed
//! while a run lasts; a pipeline with its channels and settings ([`wiring`]); the objects of a cluster with which manifests
//! are checked ([`with_cluster`]); and recorders ([`recording`]). At the end, a result is checked for objects ([`checked`])
//! and compared with a [`baseline`].

pub(crate) mod baseline;
pub(crate) mod checked;
pub(crate) mod connect;
pub(crate) mod document;
mod drafts;
pub(crate) mod exceptions;
pub(crate) mod policies;
pub(crate) mod recording;
pub(crate) mod signals;
pub(crate) mod sources;
pub(crate) mod wiring;
pub(crate) mod with_cluster;
