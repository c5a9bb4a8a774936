//! The options for bundles, and those of `kaudit push`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::bail;
use clap::{ArgGroup, Args, builder::NonEmptyStringValueParser};

use super::{filter::compile, values};
use crate::bundle::settings::{BundleSettings, KeylessIdentity, NameMatcher, Verification, VerificationKey};

/// Verification and caching of bundles.
#[derive(Debug, Clone, Args)]
#[command(
    next_help_heading = "Policies",
    group = ArgGroup::new("signer").args(["certificate_identity", "certificate_identity_regexp"])
        .requires_all(["signer_issuer", "trusted_root"]).conflicts_with("verification_key"),
    group = ArgGroup::new("signer_issuer").args(["certificate_oidc_issuer", "certificate_oidc_issuer_regexp"])
        .requires("signer"),
)]
pub struct BundleArgs {
    /// Refuse bundles that are not signed by this key: a file with a public key in PEM, or with the secret that OPA signs with
    #[arg(long, env = "KAUDIT_VERIFICATION_KEY", value_name = "FILE")]
    pub verification_key: Option<PathBuf>,

    /// The scope that OPA's bundle signatures must have
    #[arg(
        long,
        env = "KAUDIT_VERIFICATION_SCOPE",
        value_name = "SCOPE",
        default_value = "",
        hide_default_value = true
    )]
    pub verification_scope: String,

    /// Refuse bundles whose signature in the registry is for another repository than this one
    #[arg(
        long,
        env = "KAUDIT_VERIFICATION_REPOSITORY",
        value_name = "REGISTRY/REPOSITORY",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub verification_repository: Option<String>,

    /// Refuse bundles without a keyless cosign signature of this identity: the email address or URI in its certificate
    #[arg(
        long,
        env = "KAUDIT_CERTIFICATE_IDENTITY",
        value_name = "IDENTITY",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub certificate_identity: Option<String>,

    /// The identity as a regular expression in Go's syntax, which may match anywhere, as with cosign: anchor it with ^
    /// and $
    #[arg(
        long,
        env = "KAUDIT_CERTIFICATE_IDENTITY_REGEXP",
        value_name = "REGEXP",
        value_parser = name_pattern
    )]
    pub certificate_identity_regexp: Option<NameMatcher>,

    /// The OIDC issuer of the identity; required with an identity
    #[arg(
        long,
        env = "KAUDIT_CERTIFICATE_OIDC_ISSUER",
        value_name = "URL",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub certificate_oidc_issuer: Option<String>,

    /// The issuer as a regular expression in Go's syntax, which may match anywhere
    #[arg(
        long,
        env = "KAUDIT_CERTIFICATE_OIDC_ISSUER_REGEXP",
        value_name = "REGEXP",
        value_parser = name_pattern
    )]
    pub certificate_oidc_issuer_regexp: Option<NameMatcher>,

    /// The trusted root (JSON) of the Sigstore instance to verify with; required with an identity
    #[arg(long, env = "KAUDIT_TRUSTED_ROOT", value_name = "FILE", requires = "signer")]
    pub trusted_root: Option<PathBuf>,

    /// Keep the last valid bundles in this directory, and use them if a registry is down at the start
    #[arg(long, env = "KAUDIT_BUNDLE_CACHE", value_name = "DIR")]
    pub bundle_cache: Option<PathBuf>,
}

/// Access to registries and servers of bundles.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct RegistryArgs {
    /// Trust these certificate authorities (PEM) for registries and servers of bundles, besides those of the system
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
    /// Returns the settings of bundles that are not polled, cached or verified.
    pub fn settings(&self) -> BundleSettings {
        let (timeout, ca) = (self.bundle_timeout, self.bundle_ca.clone());
        BundleSettings { poll: None, timeout, cache: None, ca, verification: None, repository: None }
    }
}

impl BundleArgs {
    /// Returns the settings for reading bundles.
    ///
    /// # Errors
    /// If the key or the trusted root cannot be used, or an option is missing.
    pub fn settings(&self, registry: &RegistryArgs) -> anyhow::Result<BundleSettings> {
        let verification = self.verification()?.map(Arc::new);
        let repository = self.verification_repository.clone();
        if repository.is_some() && verification.is_none() {
            bail!(
                "--verification-repository needs --verification-key or --certificate-identity, which verify the signature"
            );
        }
        Ok(BundleSettings { cache: self.bundle_cache.clone(), verification, repository, ..registry.settings() })
    }

    fn verification(&self) -> anyhow::Result<Option<Verification>> {
        if let Some(path) = &self.verification_key {
            let (key, scope) = (VerificationKey::read(path)?, self.verification_scope.clone());
            return Ok(Some(Verification::Key { key, scope }));
        }
        let matcher = |exact: &Option<String>, pattern: &Option<NameMatcher>| {
            exact.clone().map(NameMatcher::Exact).or_else(|| pattern.clone())
        };
        let subject = matcher(&self.certificate_identity, &self.certificate_identity_regexp);
        let issuer = matcher(&self.certificate_oidc_issuer, &self.certificate_oidc_issuer_regexp);
        match (subject, issuer, &self.trusted_root) {
            (None, None, None) => Ok(None),
            (Some(subject), Some(issuer), Some(root)) => {
                Ok(Some(Verification::Keyless(Box::new(KeylessIdentity::read(subject, issuer, root)?))))
            }
            _ => bail!(
                "give an identity, its issuer and a trusted root together: --certificate-identity, --certificate-oidc-issuer, --trusted-root"
            ),
        }
    }
}

/// Parses a regular expression that may match anywhere in a name, as in cosign.
fn name_pattern(text: &str) -> Result<NameMatcher, String> {
    if text.is_empty() {
        return Err("an empty expression would match every name".to_owned());
    }
    compile(text).map(NameMatcher::Matching)
}

pub(super) const AFTER_HELP: &str = "\
The layout is that of conftest push: conftest pull and kaudit check read the
artifact alike. Credentials are those that docker login writes.

EXIT CODES:
  0  The reference by digest is on standard output
  2  Usage error, or nothing was tagged

EXAMPLES:
  Publish a directory of policies, and check with exactly that version
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

    /// Access to the registry.
    #[command(flatten)]
    pub registry: RegistryArgs,
}
