//! Bundles: policies that are published in a registry, on a server or as an archive.
//!
//! In: a [`BundleReference`](crate::judge::bundle::BundleReference). Out: its files in memory, as a
//! [`Bundle`](crate::judge::bundle::Bundle), verified and followed; or the other way, an artifact of a registry. What is
//! downloaded was written by others: it is bounded, compared with its digest, and unpacked nowhere but in memory.

mod archive;
mod cache;
mod contents;
mod cosign;
mod credential;
mod digest;
mod download;
mod follower;
mod http;
pub mod key;
mod manifest;
mod name;
mod package;
mod push;
mod registry;
mod signature;

use std::{path::PathBuf, sync::Arc, time::Duration};

pub use self::{
    follower::{FollowedBundle, follow},
    push::{Pushed, push},
};

/// How bundles are read.
#[derive(Debug, Clone)]
pub struct BundleSettings {
    /// How often to ask for a newer one; `None` reads it once.
    pub poll: Option<Duration>,
    /// How long a download may take.
    pub timeout: Duration,
    /// Where to keep the last one for a restart.
    pub cache: Option<PathBuf>,
    /// Certificates of authorities to trust besides those of the system.
    pub ca: Option<PathBuf>,
    /// What it has to be signed by, if it has to.
    pub verification: Option<Arc<Verification>>,
}

/// What a bundle has to be signed by.
#[derive(Debug)]
pub struct Verification {
    /// The key.
    pub key: key::VerificationKey,
    /// What the signature has to be for; may be empty.
    pub scope: String,
}
