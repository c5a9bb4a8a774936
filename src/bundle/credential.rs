//! Credentials for registries and bundle servers, as stored by `docker login`.

use crate::blocking::spawn_blocking;
use std::time::Duration;

use data_encoding::BASE64;
use docker_credential::DockerCredential;
use tokio::time::timeout;
use tracing::debug;

/// The timeout of a credential helper, which may query a keychain.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
/// The name of Docker Hub in Docker's configuration file.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// A credential for a registry or a server.
pub(super) enum RegistryCredential {
    /// A user name and a password.
    Password(String, String),
    /// A refresh token, which is exchanged for an access token.
    Refresh(String),
}

impl RegistryCredential {
    /// Reads the current credential for a host; `None` if there is none, or its helper fails. It is never cached, so that
    /// a rotated one is used at once.
    pub(super) async fn of(host: &str) -> Option<Self> {
        let names = if host == "registry-1.docker.io" {
            vec![DOCKER_HUB.to_owned()]
        } else {
            vec![host.to_owned(), format!("https://{host}"), format!("https://{host}/v1/")]
        };
        let find = spawn_blocking(move || {
            names.iter().find_map(|name| match docker_credential::get_credential(name) {
                Ok(credential) => Some(credential),
                Err(error) => {
                    debug!(name, "No credential: {error}");
                    None
                }
            })
        });
        match timeout(HELPER_TIMEOUT, find).await.ok()?.ok()?? {
            DockerCredential::IdentityToken(token) => Some(Self::Refresh(token)),
            DockerCredential::UsernamePassword(user, password) if user == "<token>" => Some(Self::Refresh(password)),
            DockerCredential::UsernamePassword(user, password) => Some(Self::Password(user, password)),
        }
    }

    /// Returns the value of the `Authorization` header for a password; `None` for a refresh token.
    pub(super) fn basic(&self) -> Option<String> {
        match self {
            Self::Password(user, password) => {
                Some(format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes())))
            }
            Self::Refresh(_) => None,
        }
    }
}
