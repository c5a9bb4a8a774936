//! Settings of bundles.

use std::{path::PathBuf, sync::Arc, time::Duration};

pub use super::{
    key::VerificationKey,
    keyless::{KeylessIdentity, NameMatcher},
};

/// Settings of bundles.
#[derive(Debug, Clone)]
pub struct BundleSettings {
    /// Interval of polling a server for a newer bundle, zero for never; `None` reads bundles once, including files.
    pub poll: Option<Duration>,
    /// Timeout of a download.
    pub timeout: Duration,
    /// The directory in which the last bundle is cached for a restart.
    pub cache: Option<PathBuf>,
    /// Certificates of authorities to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// The required signature, if any.
    pub verification: Option<Arc<Verification>>,
    /// The repository that a signature in a registry must name; `None` for any.
    pub repository: Option<String>,
}

/// The required signature of a bundle.
#[derive(Debug)]
pub enum Verification {
    /// By a key, in OPA's or cosign's format.
    Key {
        /// The key.
        key: VerificationKey,
        /// The scope that OPA's signature must have; may be empty.
        scope: String,
    },
    /// By an identity without a key, in cosign's format.
    Keyless(Box<KeylessIdentity>),
}
