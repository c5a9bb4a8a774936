//! The options about bundles, and those of `kaudit push`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;

use super::values;
use crate::bundle::settings::{BundleSettings, Verification, VerificationKey};

/// How bundles are trusted and kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct BundleArgs {
    /// Refuse bundles that are not signed by this key: a file with a public key in PEM, or with the secret that OPA signs by
    #[arg(long, env = "KAUDIT_VERIFICATION_KEY", value_name = "FILE")]
    pub verification_key: Option<PathBuf>,

    /// What OPA's signatures of bundles have to be for
    #[arg(
        long,
        env = "KAUDIT_VERIFICATION_SCOPE",
        value_name = "SCOPE",
        default_value = "",
        hide_default_value = true
    )]
    pub verification_scope: String,

    /// Keep the last good bundles in this directory, to judge by them where a registry is down at the start
    #[arg(long, env = "KAUDIT_BUNDLE_CACHE", value_name = "DIR")]
    pub bundle_cache: Option<PathBuf>,
}

/// How registries and servers of bundles are reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct RegistryArgs {
    /// Trust these authorities (PEM) for registries and servers of bundles, besides those of the system
    #[arg(long, env = "KAUDIT_BUNDLE_CA", value_name = "FILE")]
    pub bundle_ca: Option<PathBuf>,

    /// Give up on a download of a bundle after this long
    #[arg(
        long,
        env = "KAUDIT_BUNDLE_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = values::duration
    )]
    pub bundle_timeout: Duration,
}

impl RegistryArgs {
    /// Returns how bundles are read that nobody follows, keeps or verifies.
    pub fn settings(&self) -> BundleSettings {
        let (timeout, ca) = (self.bundle_timeout, self.bundle_ca.clone());
        BundleSettings { poll: None, timeout, cache: None, ca, verification: None }
    }
}

impl BundleArgs {
    /// Returns how bundles are read.
    ///
    /// # Errors
    /// When the key cannot be used.
    pub fn settings(&self, registry: &RegistryArgs) -> anyhow::Result<BundleSettings> {
        let key = self.verification_key.as_deref().map(VerificationKey::read).transpose()?;
        let verification = key.map(|key| Arc::new(Verification { key, scope: self.verification_scope.clone() }));
        Ok(BundleSettings { cache: self.bundle_cache.clone(), verification, ..registry.settings() })
    }
}

pub(super) const AFTER_HELP: &str = "\
The layout is that of conftest push: conftest pull and kaudit check read the
artifact alike. Credentials are those that docker login writes.

EXIT CODES:
  0  The reference by digest is on standard output
  2  Usage error, or nothing was tagged

EXAMPLES:
  Publish a directory of policies, and judge by just that
    kaudit push oci://registry.example.com/policies:v1 policies
    kaudit check --once -p oci://registry.example.com/policies@sha256:…";

/// Options of `kaudit push`.
#[derive(Debug, Args)]
pub struct PushArgs {
    /// Push to this repository and tag
    #[arg(value_name = "oci://REGISTRY/REPOSITORY[:TAG]")]
    pub reference: String,

    /// The directories and files to push: .rego, .json and .yaml, tests included
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// How the registry is reached.
    #[command(flatten)]
    pub registry: RegistryArgs,
}
