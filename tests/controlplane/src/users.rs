//! Users of the API server in tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use data_encoding::BASE64;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::{certificates::Identity, plane::ControlPlane};

/// A user of the API server, with a kubeconfig file.
#[derive(Clone)]
pub struct User {
    name: String,
    kubeconfig: PathBuf,
    config: Config,
}

impl User {
    /// Returns the user name at the API server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the user's kubeconfig file.
    #[must_use]
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the user's client configuration.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// Returns a client for the current runtime; do not keep it for another runtime.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn client(&self) -> Result<Client> {
        Ok(Client::try_from(self.config.clone())?)
    }

    /// Writes `kubeconfig` to `path`.
    pub(crate) async fn with_kubeconfig(name: String, kubeconfig: Kubeconfig, path: PathBuf) -> Result<Self> {
        // JSON is YAML.
        fs::write(&path, serde_json::to_vec_pretty(&kubeconfig)?)
            .with_context(|| format!("writing {}", path.display()))?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Self { name, kubeconfig: path, config })
    }
}

/// The address of the API server and its certificate authority.
pub(crate) struct Cluster {
    pub(crate) url: String,
    pub(crate) authority: String,
}

impl Cluster {
    /// Returns a kubeconfig for a user with a client certificate.
    pub(crate) fn kubeconfig(&self, namespace: &str, user: &Identity) -> Result<Kubeconfig> {
        let user = json!({
            "client-certificate-data": BASE64.encode(user.certificate.as_bytes()),
            "client-key-data": BASE64.encode(user.key.as_bytes()),
        });
        let cluster = json!({
            "server": self.url,
            "certificate-authority-data": BASE64.encode(self.authority.as_bytes()),
        });
        kubeconfig(namespace, &cluster, &user)
    }
}

fn kubeconfig(namespace: &str, cluster: &Value, user: &Value) -> Result<Kubeconfig> {
    let context = json!({"cluster": "test", "user": "test", "namespace": namespace});
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }))?)
}

impl ControlPlane {
    /// Returns a service account as a user with the RBAC rights of the account.
    ///
    /// In our own control plane the account need not exist; in an existing cluster it is created.
    ///
    /// # Errors
    ///
    /// If the certificate or token cannot be created, or the kubeconfig not written.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<User> {
        let kubeconfig = match self.own() {
            Ok(own) => {
                // The API server itself adds the group system:authenticated.
                let identity = own.authority.client(
                    &format!("system:serviceaccount:{namespace}:{name}"),
                    "system:serviceaccounts",
                    Some(&format!("system:serviceaccounts:{namespace}")),
                )?;
                own.cluster.kubeconfig(namespace, &identity)?
            }
            Err(_) => self.token_kubeconfig(namespace, name).await?,
        };
        let path = self.home().join(format!("{namespace}-{name}.kubeconfig"));
        let name = format!("system:serviceaccount:{namespace}:{name}");
        User::with_kubeconfig(name, kubeconfig, path).await
    }

    async fn token_kubeconfig(&self, namespace: &str, name: &str) -> Result<Kubeconfig> {
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"namespace": namespace, "name": name},
        });
        self.apply(&account.to_string()).await?;
        let token = self.kubectl(&["create", "token", name, "--namespace", namespace]).await?;
        let clusters = serde_json::to_value(Kubeconfig::read_from(self.kubeconfig())?)?;
        let context = &clusters["contexts"]
            .as_array()
            .and_then(|contexts| named(contexts, &clusters["current-context"]))
            .context("the kubeconfig has no current context")?["context"];
        let cluster = clusters["clusters"]
            .as_array()
            .and_then(|clusters| named(clusters, &context["cluster"]))
            .context("the kubeconfig's context has no cluster")?;
        kubeconfig(namespace, &cluster["cluster"], &json!({"token": token.trim()}))
    }
}

fn named<'a>(entries: &'a [Value], name: &Value) -> Option<&'a Value> {
    entries.iter().find(|entry| entry["name"] == *name)
}
