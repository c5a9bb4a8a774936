//! The control plane's own certificate authority.
//!
//! All certificates are X.509 version 3: rustls refuses version 1.

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate authority whose key never leaves this process.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The TLS files of a server on this machine, as PEM.
#[derive(Debug)]
pub struct ServingCertificate {
    /// The authority to trust.
    pub authority: String,
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// Creates a certificate for a server on this machine, with a new authority.
///
/// # Errors
///
/// If no key can be generated.
pub fn serving_certificate() -> Result<ServingCertificate> {
    let authority = Authority::new()?;
    let Identity { certificate, key } = authority.server()?;
    Ok(ServingCertificate { authority: authority.pem(), certificate, key })
}

/// A certificate authority for servers and their clients on this machine.
pub struct TestAuthority(Authority);

impl TestAuthority {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    ///
    /// If no key can be generated.
    pub fn new() -> Result<Self> {
        Authority::new().map(Self)
    }

    /// Returns the authority's own certificate as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for a server on this machine and its private key, as PEM.
    ///
    /// # Errors
    ///
    /// If no key can be generated.
    pub fn server(&self) -> Result<(String, String)> {
        self.0.server().map(|Identity { certificate, key }| (certificate, key))
    }

    /// Returns a certificate for a client with this name and its private key, as PEM.
    ///
    /// # Errors
    ///
    /// If no key can be generated.
    pub fn client(&self, name: &str) -> Result<(String, String)> {
        self.0.client(name, "clients", None).map(|Identity { certificate, key }| (certificate, key))
    }
}

/// A certificate and its private key, both as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kaudit test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Returns the authority's own certificate as PEM.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a certificate for a server on this machine.
    pub(crate) fn server(&self) -> Result<Identity> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// Signs a certificate for a user in one or two groups.
    pub(crate) fn client(&self, user: &str, group: &str, second_group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        if let Some(group) = second_group {
            // rcgen keeps one value per attribute type; the same type given by number counts as another.
            let organization = DnType::CustomDnType(vec![2, 5, 4, 10]);
            params.distinguished_name.push(organization, group);
        }
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
