//! Clients for servers that are not the API server: receivers of notifications, and collectors.
//!
//! Redirects are not followed, as credentials would be, and nothing is tried again that nobody sees.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use reqwest::{Certificate, ClientBuilder, redirect::Policy};

/// Begins a client that waits so long for an answer, and trusts the authorities of a file besides those of the system.
///
/// # Errors
/// When the file cannot be used.
pub(crate) fn builder(timeout: Duration, ca_file: Option<&PathBuf>) -> anyhow::Result<ClientBuilder> {
    // Another part of the process may have chosen before.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let builder = ClientBuilder::new()
        .user_agent(concat!("kaudit/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .timeout(timeout);
    let Some(path) = ca_file else { return Ok(builder) };
    let certificates = Certificate::from_pem_bundle(&pem(path)?)
        .ok()
        .filter(|certificates| !certificates.is_empty())
        .with_context(|| format!("{} has no certificates in PEM", path.display()))?;
    Ok(builder.tls_certs_merge(certificates))
}

/// Reads a file of certificates or keys.
///
/// # Errors
/// Says which cannot be read.
pub(crate) fn pem(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
