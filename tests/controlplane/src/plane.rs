//! Starts etcd and kube-apiserver, and waits until they are ready.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use http::Request;
use kube::config::Kubeconfig;
use kube::{Client, Config};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::{
    audit,
    certificates::Authority,
    server::{Home, POLL, Server, free_port},
    tools::{Tool, tool},
    users::{Cluster, User},
};

/// Number of attempts with other ports if another process has taken one.
const ATTEMPTS: usize = 5;

/// The folder of etcd's data in that of the control plane.
const ETCD_DATA: &str = "etcd";

/// Options of a control plane.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether garbage collection and namespace deletion work; requires a third process.
    pub controller_manager: bool,
    /// Whether requests without credentials are served, as `system:anonymous`.
    pub anonymous: bool,
    /// Additional arguments of kube-apiserver.
    pub apiserver_args: Vec<String>,
    /// Additional arguments of etcd.
    pub etcd_args: Vec<String>,
    /// Timeout for the servers to become ready.
    pub start_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controller_manager: false,
            anonymous: true,
            apiserver_args: Vec::new(),
            etcd_args: Vec::new(),
            start_timeout: Duration::from_mins(2),
        }
    }
}

/// A Kubernetes control plane; it ends with the process, or when dropped.
///
/// It is independent of the async runtime that started it, so tests with any runtime can share it.
pub struct ControlPlane {
    home: Home,
    admin: User,
    own: Option<Own>,
}

/// The parts of a control plane that this process started.
pub(crate) struct Own {
    pub(crate) authority: Authority,
    pub(crate) cluster: Cluster,
    pub(crate) etcd_address: String,
    pub(crate) etcd: Server,
    pub(crate) apiserver: Server,
    pub(crate) controllers: Option<Server>,
    pub(crate) audit_log: PathBuf,
    pub(crate) start_timeout: Duration,
}

impl ControlPlane {
    /// Starts a control plane and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If a tool cannot be built, or the servers do not become ready; with the ends of their logs.
    pub async fn start(options: Options) -> Result<Self> {
        let controller_manager = options.controller_manager;
        let binaries = spawn_blocking(move || Binaries::find(controller_manager)).await??;
        let mut attempt = 1;
        loop {
            let plane = Self::launch(&options, &binaries).await?;
            let Err(error) = plane.finish_start(options.start_timeout).await else {
                return Ok(plane);
            };
            let port_taken = plane.own()?.servers().any(Server::lost_its_port);
            plane.stop().await?;
            if !port_taken || attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
        }
    }

    /// Uses the cluster of the environment's kubeconfig.
    pub(crate) async fn existing() -> Result<Self> {
        let home = Home::new()?;
        let kubeconfig = Kubeconfig::read().context("USE_EXISTING_CLUSTER is set")?;
        let path = home.path.join("admin.kubeconfig");
        let admin = User::with_kubeconfig("admin".to_owned(), kubeconfig, path).await?;
        Ok(Self { home, admin, own: None })
    }

    async fn launch(options: &Options, binaries: &Binaries) -> Result<Self> {
        let home = Home::new()?;
        let authority = Authority::new()?;
        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let cluster = Cluster { url: url.clone(), authority: authority.pem() };
        let identity = authority.client("admin", "system:masters", None)?;
        let kubeconfig = cluster.kubeconfig("default", &identity)?;
        let path = home.path.join("admin.kubeconfig");
        let admin = User::with_kubeconfig("admin".to_owned(), kubeconfig, path).await?;

        let etcd_address = format!("127.0.0.1:{}", free_port()?);
        let mut arguments = etcd_arguments(&home.path, &etcd_address);
        arguments.extend_from_slice(&options.etcd_args);
        let etcd = Server::new("etcd", binaries.etcd.clone(), arguments, &home.path);

        write_apiserver_files(&home.path, &authority)?;
        let audit_log = home.path.join("audit.log");
        let mut arguments = apiserver_arguments(&home.path, port, &etcd_address);
        arguments.push(format!("--anonymous-auth={}", options.anonymous));
        arguments.extend_from_slice(&options.apiserver_args);
        let apiserver = Server::new("kube-apiserver", binaries.apiserver.clone(), arguments, &home.path);

        let controllers = binaries.controllers.as_ref().map(|program| {
            let arguments = controller_arguments(admin.kubeconfig_path());
            Server::new("kube-controller-manager", program.clone(), arguments, &home.path)
        });

        etcd.start()?;
        apiserver.start()?;
        let own = Own {
            authority,
            cluster,
            etcd_address,
            etcd,
            apiserver,
            controllers,
            audit_log,
            start_timeout: options.start_timeout,
        };
        Ok(Self { home, admin, own: Some(own) })
    }

    async fn finish_start(&self, timeout: Duration) -> Result<()> {
        self.wait_ready(timeout).await?;
        let Some(controllers) = &self.own()?.controllers else { return Ok(()) };
        controllers.start()?;
        let deadline = Instant::now() + timeout;
        while !controllers.log().contains(CONTROLLERS_READY) {
            if !controllers.is_running() || Instant::now() > deadline {
                bail!("the controllers do not become ready\n{}", controllers.log_tail());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until the API server is ready, and RBAC and the namespace `default` exist.
    ///
    /// # Errors
    ///
    /// If that takes longer than `limit`, or a server ends; with the ends of the logs.
    pub async fn wait_ready(&self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let client = self.admin()?;
        let mut paths = ["/readyz", "/api/v1/namespaces/default"].into_iter();
        let mut path = paths.next();
        while let Some(waiting_for) = path {
            let request = client.request_text(Request::get(waiting_for).body(Vec::new())?);
            // A paused server never answers.
            let state = match timeout(Duration::from_secs(2), request).await {
                Ok(Ok(_)) => {
                    path = paths.next();
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            let ended = self.own.as_ref().is_some_and(Own::has_ended);
            if ended || Instant::now() > deadline {
                let logs = self.own.as_ref().map(Own::log_tails).unwrap_or_default();
                bail!("{waiting_for} of {} fails: {state}\n{logs}", self.url());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Returns the URL of the API server.
    #[must_use]
    pub fn url(&self) -> String {
        self.admin.config().cluster_url.to_string().trim_end_matches('/').to_owned()
    }

    /// Returns the admin user.
    #[must_use]
    pub fn admin_user(&self) -> &User {
        &self.admin
    }

    /// Returns the client configuration of the admin.
    #[must_use]
    pub fn admin_config(&self) -> Config {
        self.admin.config()
    }

    /// Returns an admin client for the current runtime.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn admin(&self) -> Result<Client> {
        self.admin.client()
    }

    /// Returns the path of the admin's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.admin.kubeconfig_path().to_owned()
    }

    /// Returns the process ids of the running servers; none for an existing cluster.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.own.iter().flat_map(Own::servers).filter_map(Server::pid).collect()
    }

    /// Stops all servers and removes their files.
    ///
    /// # Errors
    ///
    /// If a server does not end.
    pub async fn stop(self) -> Result<()> {
        spawn_blocking(move || {
            if let Some(own) = &self.own {
                own.servers().try_for_each(Server::stop)?;
            }
            self.home.remove()
        })
        .await?
    }

    /// Returns the folder for this plane's files.
    pub(crate) fn home(&self) -> &Path {
        &self.home.path
    }

    pub(crate) fn etcd_data(&self) -> PathBuf {
        self.home.path.join(ETCD_DATA)
    }

    /// Returns the parts that an existing cluster does not have.
    pub(crate) fn own(&self) -> Result<&Own> {
        self.own
            .as_ref()
            .context("an existing cluster has no audit log, and its servers cannot be killed, paused or compacted")
    }
}

impl Own {
    /// Returns the servers, in the order in which to stop them.
    fn servers(&self) -> impl Iterator<Item = &Server> {
        self.controllers.iter().chain([&self.apiserver, &self.etcd])
    }

    fn has_ended(&self) -> bool {
        !self.apiserver.is_running() || !self.etcd.is_running()
    }

    fn log_tails(&self) -> String {
        self.servers().map(Server::log_tail).collect()
    }
}

/// The binaries of a control plane.
struct Binaries {
    etcd: PathBuf,
    apiserver: PathBuf,
    controllers: Option<PathBuf>,
}

impl Binaries {
    fn find(controller_manager: bool) -> Result<Self> {
        Ok(Self {
            etcd: tool(Tool::Etcd)?,
            apiserver: tool(Tool::KubeApiserver)?,
            controllers: controller_manager.then(|| tool(Tool::KubeControllerManager)).transpose()?,
        })
    }
}

/// The log message of the garbage collector once it has listed all objects.
const CONTROLLERS_READY: &str = "all resource monitors have synced";

fn etcd_arguments(home: &Path, address: &str) -> Vec<String> {
    vec![
        format!("--data-dir={}", home.join(ETCD_DATA).display()),
        format!("--listen-client-urls=http://{address}"),
        format!("--advertise-client-urls=http://{address}"),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        "--log-level=warn".to_owned(),
        "--unsafe-no-fsync=true".to_owned(),
    ]
}

fn write_apiserver_files(home: &Path, authority: &Authority) -> Result<()> {
    let serving = authority.server()?;
    let tokens = rcgen::KeyPair::generate()?;
    for (name, content) in [
        ("ca.crt", authority.pem()),
        ("serving.crt", serving.certificate),
        ("serving.key", serving.key),
        ("tokens.key", tokens.serialize_pem()),
        ("tokens.pub", tokens.public_key_pem()),
        ("audit-policy.yaml", audit::POLICY.to_owned()),
    ] {
        fs::write(home.join(name), content)?;
    }
    Ok(())
}

fn apiserver_arguments(home: &Path, port: u16, etcd_address: &str) -> Vec<String> {
    let file = |name: &str| home.join(name).display().to_string();
    // Protects the data of another etcd that takes our port just before ours starts.
    let prefix = home.file_name().map(|name| name.display().to_string()).unwrap_or_default();
    vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--etcd-servers=http://{etcd_address}"),
        format!("--etcd-prefix=/{prefix}"),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        // Without its controller, namespaces lack the account that this plugin adds to every pod.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--cert-dir={}", home.display()),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", file("tokens.pub")),
        format!("--service-account-signing-key-file={}", file("tokens.key")),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
        // Written before the response, and never rotated: tests need all of it.
        "--audit-log-mode=blocking".to_owned(),
        "--audit-log-maxsize=0".to_owned(),
    ]
}

fn controller_arguments(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]
}
