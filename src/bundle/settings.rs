//! How bundles are read: what a user can choose.

use std::{path::PathBuf, sync::Arc, time::Duration};

pub use super::{
    key::VerificationKey,
    keyless::{KeylessIdentity, NameMatcher},
};

/// How bundles are read.
#[derive(Debug, Clone)]
pub struct BundleSettings {
    /// How often to ask a server for a newer one, zero for never; `None` reads it once, and files, too.
    pub poll: Option<Duration>,
    /// How long a download may take.
    pub timeout: Duration,
    /// Where to keep the last one for a restart.
    pub cache: Option<PathBuf>,
    /// Certificates of authorities to trust besides those of the system.
    pub ca: Option<PathBuf>,
    /// What it has to be signed by, if it has to.
    pub verification: Option<Arc<Verification>>,
    /// The repository that a signature in a registry has to be for; `None` for any.
    pub repository: Option<String>,
}

/// What a bundle has to be signed by.
#[derive(Debug)]
pub enum Verification {
    /// A key, by OPA's signature or cosign's.
    Key {
        /// The key.
        key: VerificationKey,
        /// What OPA's signature has to be for; may be empty.
        scope: String,
    },
    /// Somebody without a key, by cosign's signature.
    Keyless(Box<KeylessIdentity>),
}
