//! Policies: a directory of Rego becomes a [`PolicySet`] that can judge.

use std::path::PathBuf;

use crate::verdict::Digest;

/// Everything that was loaded from the policy paths.
#[derive(Debug)]
pub struct PolicySet {
    /// What it was loaded from.
    pub digest: Digest,
}

impl PolicySet {
    /// Loads all policies under `paths`.
    pub fn load(_paths: &[PathBuf]) -> anyhow::Result<Self> {
        anyhow::bail!("not written yet")
    }
}
