//! Settings of bundles.

use std::{path::PathBuf, sync::Arc, time::Duration};

pub use super::{
    key::VerificationKey,
    keyless::{KeylessIdentity, NameMatcher},
};

/// How bundles are downloaded, verified and cached.
#[derive(Debug, Clone)]
pub struct BundleSettings {
    /// The interval at which servers are polled for newer bundles, or zero for never. `None` reads bundles once, including
    /// files.
    pub poll: Option<Duration>,
    /// The timeout of a download.
    pub timeout: Duration,
    /// The directory in which the last bundle is cached for a restart.
    pub cache: Option<PathBuf>,
    /// A file with certificate authorities to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// The required signature, if any.
    pub verification: Option<Arc<Verification>>,
    /// The repository that the signature of an artifact must name; `None` for any.
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
