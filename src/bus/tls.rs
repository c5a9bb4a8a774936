//! TLS of connections to event buses: the authorities to trust, and the client's certificate.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::cluster::http_client::pem;

/// The TLS settings of a receiver. The files are read for each connection, so they can be rotated.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientTls {
    /// Certificate authorities, which are trusted in addition to those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// The client's certificate and its private key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(crate) fn config(&self) -> anyhow::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        // Certificates of the system that cannot be read or parsed are not trusted.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = &self.ca_file {
            for certificate in certificates(path)? {
                roots.add(certificate).with_context(|| format!("{} is not an authority", path.display()))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.with_root_certificates(roots);
        let Some((certificate, key)) = &self.client else { return Ok(builder.with_no_client_auth()) };
        // The error of the parser might quote the key.
        let private = PrivateKeyDer::from_pem_slice(&pem(key)?)
            .map_err(|_| anyhow::anyhow!("{} has no private key in PEM", key.display()))?;
        builder
            .with_client_auth_cert(certificates(certificate)?, private)
            .with_context(|| format!("{} and {} do not fit together", certificate.display(), key.display()))
    }
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = pem(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().unwrap_or_default();
    anyhow::ensure!(!certificates.is_empty(), "{} has no certificates in PEM", path.display());
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        assert!(ClientTls::default().config().is_ok());
        let why = |tls: ClientTls| tls.config().map(drop).unwrap_err().to_string();
        let missing = ClientTls { ca_file: Some(folder.path().join("none")), client: None };
        assert!(why(missing).starts_with("cannot read "));
        let empty = file("empty.pem", "hidden");
        assert!(why(ClientTls { ca_file: Some(empty.clone()), client: None }).ends_with("has no certificates in PEM"));
        let pair = ClientTls { ca_file: None, client: Some((empty.clone(), empty)) };
        let why = why(pair);
        assert!(why.ends_with("has no private key in PEM") && !why.contains("hidden"), "{why}");
    }
}
