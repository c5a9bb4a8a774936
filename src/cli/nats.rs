//! The options for a fleet: where clusters mirror their results, and how kaudit connects there.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, builder::NonEmptyStringValueParser};

use super::values;
use crate::{
    bus::{
        credential::ReceiverCredential,
        nats::{NatsLogin, NatsServers},
        tls::ClientTls,
    },
    fleet::bucket::BucketServer,
};

/// How long a connection and each request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Mirroring of results into the bucket of a fleet.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fleet")]
pub struct MirrorArgs {
    /// Mirror the results into the JetStream bucket of this cluster on these NATS servers, from which kaudit fleet reads
    /// all clusters; repeatable. Needs --cluster-name
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(long, env = "KAUDIT_FLEET", value_name = "URL", value_delimiter = ',', value_parser = values::nats_url())]
    pub fleet: Vec<String>,

    /// A label of this cluster, by which kaudit fleet selects clusters; repeatable
    #[arg(
        long,
        env = "KAUDIT_CLUSTER_LABEL",
        value_name = "KEY=VALUE",
        value_delimiter = ',',
        value_parser = values::key_and_value,
        requires = "fleet"
    )]
    pub cluster_label: Vec<(String, String)>,

    /// Replaces NATS, as in simulations.
    #[arg(skip)]
    pub server: Option<Arc<dyn BucketServer>>,
}

/// Login and TLS of NATS.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fleet")]
pub struct NatsArgs {
    /// Log in to NATS with this credentials file
    #[arg(long, env = "KAUDIT_NATS_CREDENTIALS", value_name = "FILE", conflicts_with_all = ["nats_nkey", "nats_user"])]
    pub nats_credentials: Option<PathBuf>,

    /// Log in to NATS with the nkey whose seed is in this file
    #[arg(long, env = "KAUDIT_NATS_NKEY", value_name = "FILE", conflicts_with = "nats_user")]
    pub nats_nkey: Option<PathBuf>,

    /// Log in to NATS as this user
    #[arg(
        long,
        env = "KAUDIT_NATS_USER",
        value_name = "NAME",
        requires = "nats_password_file",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub nats_user: Option<String>,

    /// The file with the password of --nats-user
    #[arg(long, env = "KAUDIT_NATS_PASSWORD_FILE", value_name = "FILE", requires = "nats_user")]
    pub nats_password_file: Option<PathBuf>,

    /// Trust this certificate authority, too, and connect with TLS only
    #[arg(long, env = "KAUDIT_NATS_CA", value_name = "FILE")]
    pub nats_ca: Option<PathBuf>,

    /// The certificate with which kaudit identifies itself to NATS
    #[arg(long, env = "KAUDIT_NATS_CERT", value_name = "FILE", requires = "nats_key")]
    pub nats_cert: Option<PathBuf>,

    /// The private key of --nats-cert
    #[arg(long, env = "KAUDIT_NATS_KEY", value_name = "FILE", requires = "nats_cert")]
    pub nats_key: Option<PathBuf>,
}

impl NatsArgs {
    /// Returns how to connect to servers. `inbox` is the prefix of the subjects of answers.
    ///
    /// # Errors
    /// Which file cannot be read or used.
    pub(crate) fn servers(&self, urls: &[String], inbox: Option<String>) -> anyhow::Result<NatsServers> {
        let addresses = urls.iter().map(|url| NatsServers::address(url, values::NATS_LOGINS));
        let addresses = addresses.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?;
        let file = |path: &PathBuf| ReceiverCredential::File(path.clone());
        let login = match self {
            Self { nats_credentials: Some(path), .. } => NatsLogin::Credentials(file(path)),
            Self { nats_nkey: Some(path), .. } => NatsLogin::Nkey(file(path)),
            Self { nats_user: Some(user), nats_password_file: Some(path), .. } => {
                NatsLogin::Password(user.clone(), file(path))
            }
            _ => NatsLogin::Anonymous,
        };
        let client = self.nats_cert.clone().zip(self.nats_key.clone());
        let uses_tls = self.nats_ca.is_some() || client.is_some();
        let tls = uses_tls.then(|| ClientTls { ca_file: self.nats_ca.clone(), client });
        let servers = NatsServers { addresses, login, tls, timeout: TIMEOUT, inbox };
        servers.check().map_err(|why| anyhow::anyhow!("NATS: {why}"))?;
        Ok(servers)
    }
}
