//! Creates clients of the API server, for a cluster and a user, with timeouts and retries.

use std::{
    fmt, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use http::{
    HeaderValue, Request, Response,
    header::{RETRY_AFTER, USER_AGENT},
};
use hyper_util::client::proxy::matcher::Matcher;
use kube::{
    Client, Config,
    client::{AuthError, Body, ClientBuilder, DynBody, retry::RetryPolicy},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{
    BoxError,
    buffer::BufferLayer,
    retry::RetryLayer,
    timeout::TimeoutLayer,
    util::{BoxService, MapResponseLayer},
};

use super::{error::reasons, lease::Fence};

/// Selects the cluster and the user.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A kubeconfig file; otherwise `KUBECONFIG`, `~/.kube/config`, or the Pod's ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; otherwise its current one.
    pub context: Option<String>,
    /// A user to impersonate.
    pub impersonate: Option<String>,
    /// Replaces the connections to the server of a kubeconfig.
    pub transport: Option<Transport>,
}

/// The service that answers the requests of a client.
pub type ClientService = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A connection to an API server without kubeconfig and network, as in a simulation.
#[derive(Clone)]
pub struct Transport {
    connect: Arc<dyn Fn() -> ClientService + Send + Sync>,
    namespace: String,
}

impl Transport {
    /// Creates a transport from a function that creates a service for each client. `namespace` is that of kaudit's own
    /// objects.
    pub fn new(namespace: &str, connect: impl Fn() -> ClientService + Send + Sync + 'static) -> Self {
        Self { connect: Arc::new(connect), namespace: namespace.to_owned() }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// Clients of one cluster, which differ in their timeouts and retries.
#[derive(Clone)]
pub struct Clients {
    /// For lists and watches: retries for some seconds when the server is too busy (429, 503, 504).
    pub reading: Client,
    /// For discovery and writes, whose callers decide how to handle a missing response.
    pub plain: Client,
    /// The URL of the API server, for messages.
    pub url: String,
    /// The configuration of the clients.
    pub config: Config,
    /// Replaces their connections, if they do not use the network.
    pub transport: Option<Transport>,
}

/// The path at which the kubelet mounts the token of a Pod's ServiceAccount.
const SERVICE_ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be silent while a response is pending; a [`Transport`] must apply it as well. It is longer
/// than the minute between the bookmarks of an idle watch. Without it, a list would wait for a silent server for ever.
pub const READ_TIMEOUT: Duration = Duration::from_secs(90);
/// The timeout of all other requests. After it, the connection is considered dead; the pool may contain several dead
/// connections, each of which costs one attempt.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest delay between attempts to read. All attempts together take half a minute; then the caller gets the error
/// that the server is too busy.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

impl Clients {
    /// Creates the clients, without sending requests.
    ///
    /// # Errors
    /// If there is no usable kubeconfig; the message says what to check.
    pub async fn new(access: &Access) -> anyhow::Result<Self> {
        let mut config = match &access.transport {
            Some(transport) => in_memory(transport),
            None => config(access).await?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        // kube's own retry takes minutes, which is too long for discovery.
        config.default_retry = false;
        config.disable_compression |= is_near(&config);
        // So that audit logs and metrics of the API server name kaudit.
        config.headers.push((USER_AGENT, HeaderValue::from_static(concat!("kaudit/", env!("CARGO_PKG_VERSION")))));
        if let Some(user) = &access.impersonate {
            config.auth_info.impersonate = Some(user.clone());
        }
        let retry = RetryPolicy::new(Duration::from_millis(200), LONGEST_RETRY, 6, true)
            .context("preparing the retry policy")?;
        let transport = access.transport.clone();
        let reading = builder(&config, transport.as_ref())?
            .with_layer(&MapResponseLayer::new(shorten_retry_after))
            .with_layer(&BufferLayer::new(1024))
            .with_layer(&RetryLayer::new(retry))
            .build();
        let plain = builder(&config, transport.as_ref())?.with_layer(&TimeoutLayer::new(ANSWER_TIMEOUT)).build();
        Ok(Self { reading, plain, url: config.cluster_url.to_string(), config, transport })
    }

    /// Returns a client with its own connections whose requests pass only while the fence is open.
    ///
    /// # Errors
    /// If the kubeconfig has become unusable.
    pub fn fenced(&self, fence: &Fence) -> anyhow::Result<Client> {
        let builder = builder(&self.config, self.transport.as_ref())?;
        Ok(builder.with_layer(fence).with_layer(&TimeoutLayer::new(ANSWER_TIMEOUT)).build())
    }

    /// Whether they use the ServiceAccount of the Pod that kaudit runs in, and not a kubeconfig.
    pub fn is_in_pod(&self) -> bool {
        self.config.auth_info.token_file.as_deref() == Some(SERVICE_ACCOUNT_TOKEN)
    }

    /// Returns the namespace of the kubeconfig's context, or that of the Pod.
    pub fn namespace(&self) -> &str {
        self.plain.default_namespace()
    }
}

/// Returns the builder of a client.
fn builder(config: &Config, transport: Option<&Transport>) -> anyhow::Result<ClientBuilder<ClientService>> {
    match transport {
        Some(transport) => Ok(ClientBuilder::new((transport.connect)(), &*transport.namespace)),
        None => ClientBuilder::try_from(config.clone()).map_err(|error| unusable(&error, config)),
    }
}

/// Returns the configuration of clients with a transport; its URL is only displayed.
fn in_memory(transport: &Transport) -> Config {
    let mut config = Config::new(http::Uri::from_static("http://in-memory"));
    config.default_namespace.clone_from(&transport.namespace);
    config
}

/// Shortens a `Retry-After` of the server, because kube's retry would wait for any time.
fn shorten_retry_after<B>(mut response: Response<B>) -> Response<B> {
    let seconds = |value: &HeaderValue| value.to_str().ok()?.parse::<u64>().ok();
    let longest = LONGEST_RETRY.as_secs();
    if response.headers().get(RETRY_AFTER).and_then(seconds).is_some_and(|seconds| seconds > longest) {
        response.headers_mut().insert(RETRY_AFTER, longest.into());
    }
    response
}

/// Whether the API server is probably so near that compressing a response takes longer than sending it.
fn is_near(config: &Config) -> bool {
    let host = config.cluster_url.host().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
        || host == "localhost"
        || address.is_some_and(|address| address.is_loopback())
}

/// Explains why no client can be created. Go accepts client certificates of X.509 version 1, which `openssl x509 -req`
/// issues without extensions; rustls accepts only version 3.
fn unusable(error: &kube::Error, config: &Config) -> anyhow::Error {
    if let kube::Error::Auth(why) = error
        && let Some(message) = plugin_failure(why, config)
    {
        return anyhow::Error::msg(message);
    }
    let why = reasons(error);
    if why.contains("UnsupportedCertVersion") {
        return anyhow::anyhow!(
            "the client certificate in the kubeconfig is of X.509 version 1, and only version 3 can be used\nIssue it with an \
             extension: openssl x509 -req -extfile <(echo extendedKeyUsage=clientAuth) ..."
        );
    }
    if let Some(provider) = &config.auth_info.auth_provider {
        return anyhow::anyhow!(
            "the auth-provider {} of the kubeconfig cannot be used, as in kubectl since 1.26: use a credential plugin (for GKE, \
             gke-gcloud-auth-plugin)",
            provider.name
        );
    }
    anyhow::anyhow!("the credentials in the kubeconfig cannot be used: {why}")
}

/// Describes the failure of a credential plugin, with the last line of its output; `None` for other errors.
fn plugin_failure(error: &AuthError, config: &Config) -> Option<String> {
    let plugin = config.auth_info.exec.as_ref()?;
    let command = plugin.command.as_deref().unwrap_or_default();
    match error {
        AuthError::AuthExecStart(why) if why.kind() == io::ErrorKind::NotFound => {
            Some(format!("the credential plugin {command} of the kubeconfig is not installed, or not in PATH"))
        }
        AuthError::AuthExecStart(why) => {
            Some(format!("the credential plugin {command} of the kubeconfig cannot be run: {why}"))
        }
        AuthError::AuthExecRun { out, .. } => {
            let arguments = plugin.args.iter().flatten().map(String::as_str);
            let line = [command].into_iter().chain(arguments).collect::<Vec<_>>().join(" ");
            let written = String::from_utf8_lossy(&out.stderr).into_owned();
            let last = written.lines().rev().find(|line| !line.trim().is_empty());
            let last = last.map_or(String::new(), |last| format!(": {}", last.trim()));
            Some(format!("the credential plugin `{line}` of the kubeconfig failed ({}){last}", out.status))
        }
        _ => None,
    }
}

/// Returns the names of the contexts in a kubeconfig, or in those that kubectl would read.
///
/// # Errors
/// If it cannot be read.
pub fn contexts(kubeconfig: Option<&Path>) -> anyhow::Result<Vec<String>> {
    Ok(read_kubeconfig(kubeconfig)?.contexts.into_iter().map(|context| context.name).collect())
}

fn read_kubeconfig(path: Option<&Path>) -> anyhow::Result<Kubeconfig> {
    let Some(path) = path else { return Kubeconfig::read().context("cannot read the kubeconfig") };
    Kubeconfig::read_from(path)
        .map_err(|error| anyhow::anyhow!("cannot read the kubeconfig {}: {}", path.display(), reasons(&error)))
}

async fn config(access: &Access) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let is_named = access.kubeconfig.is_some() || access.context.is_some();
    let kubeconfig = is_named.then(|| read_kubeconfig(access.kubeconfig.as_deref())).transpose()?;
    let Some(kubeconfig) = kubeconfig else {
        let mut config = Config::infer().await.map_err(|error| {
            anyhow::anyhow!(
                "no cluster is configured ({})\nGive --kubeconfig FILE or set KUBECONFIG; or check files with -f, which \
                 needs no cluster",
                reasons(&error)
            )
        })?;
        // In a Pod the API server is reached directly, whatever the proxy variables are.
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            config.proxy_url = proxy(&config);
        }
        return Ok(config);
    };
    let contexts: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(|| {
        let known = if contexts.is_empty() { "none".to_owned() } else { contexts.join(", ") };
        match &access.context {
            Some(context) => format!("cannot use the context {context:?} (contexts in the kubeconfig: {known})"),
            None => format!("cannot use the kubeconfig's current context (contexts in it: {known})"),
        }
    })?;
    config.proxy_url = proxy(&config);
    Ok(config)
}

/// Returns the proxy for this cluster. One from the environment is used only if `NO_PROXY` does not exclude the cluster.
///
/// kube 5.0 compares `NO_PROXY` with the proxy's host instead of the cluster's. A `proxy-url` of the kubeconfig is kept
/// as it is, as in kubectl.
fn proxy(config: &Config) -> Option<http::Uri> {
    let from_environment = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        .iter()
        .filter_map(|name| std::env::var(name).ok()?.parse::<http::Uri>().ok())
        .any(|uri| config.proxy_url.as_ref().is_none_or(|url| *url == uri));
    if !from_environment {
        return config.proxy_url.clone();
    }
    Matcher::from_env().intercept(&config.cluster_url).map(|found| found.uri().clone())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use http::StatusCode;
    use tokio::time::timeout;

    use super::*;

    /// A self-signed test certificate, issued by `openssl x509 -req` without extensions.
    const VERSION_1: &str = "\
LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJTVENCOFFJVWFtbDF5NFp0OTc5N1k3Y2tTOUhqNHhId0lYNHdDZ1lJS29aSXpqMEVBd0\
l3SnpFWE1CVUcKQTFVRUNnd09jM2x6ZEdWdE9tMWhjM1JsY25NeEREQUtCZ05WQkFNTUEyOXNaREFnRncweU5qRXhNakl4TlRFMQpORGxhR0E4\
eU1USTJNVEF5T1RFMU1UVTBPVm93SnpFWE1CVUdBMVVFQ2d3T2MzbHpkR1Z0T20xaGMzUmxjbk14CkREQUtCZ05WQkFNTUEyOXNaREJaTUJNR0\
J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFCQnlPdUNkZVlOd0wKaEZ2Ykt4Qkp1eVdmYnIvZnFBenRHM3pYU2NjWW1odi9qbU9xcC9SZ1RU\
KzFQUk05ZnpzSVRVb3ZoYWsyVUY5bwpiNDZkRWpJTEJwQXdDZ1lJS29aSXpqMEVBd0lEUndBd1JBSWdSREltOG9GbWFFZkVNcnhsZXg3Rlplai\
s4RWhvCmUyVm9tRDlmK1Jvbk83UUNJQ2EvaEM5WVVkYnA2YkpGeDZVTGd0YmF3S1J4ajZRQWJqdFNMNU9WNTVycwotLS0tLUVORCBDRVJUSUZJ\
Q0FURS0tLS0tCg==";
    const KEY: &str = "\
LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JR0hBZ0VBTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEJHMHdhd0lCQVFRZ1NEUi8zK2\
Rocjh2TityRmgKOU9BZGtHclFoNUhXY1V5dU5mUGM0SXhneXUyaFJBTkNBQVFjanJnblhtRGNDNFJiMnlzUVNic2xuMjYvMzZnTQo3UnQ4MTBu\
SEdKb2IvNDVqcXFmMFlFMC90VDBUUFg4N0NFMUtMNFdwTmxCZmFHK09uUkl5Q3dhUQotLS0tLUVORCBQUklWQVRFIEtFWS0tLS0tCg==";

    #[tokio::test]
    async fn a_client_certificate_of_version_1_is_reported() {
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let user = format!("client-certificate-data: {VERSION_1}, client-key-data: {KEY}");
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        std::fs::write(kubeconfig.path(), text).unwrap();
        let access = Access { kubeconfig: Some(kubeconfig.path().to_owned()), ..Access::default() };
        let error = Clients::new(&access).await.err().unwrap().to_string();
        assert!(error.starts_with("the client certificate in the kubeconfig is of X.509 version 1"), "{error}");
    }

    /// Starts a server on 127.0.0.1 that answers 429 with each of these values of `Retry-After`, then 200.
    async fn busy_server(waits: &'static [&'static str]) -> String {
        let answers = Arc::new(AtomicUsize::new(0));
        let answer = move || {
            let next = answers.fetch_add(1, Ordering::Relaxed);
            async move {
                let status = if next < waits.len() { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
                let wait = waits.get(next).copied().unwrap_or_default();
                (status, [(RETRY_AFTER, wait)], "{}")
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
        url
    }

    #[tokio::test]
    async fn a_long_retry_after_of_a_busy_server_is_shortened() {
        for (header, shortened) in [("0", "0"), ("5", "5"), ("6", "5"), ("3600", "5"), ("soon", "soon")] {
            let response = shorten_retry_after(Response::builder().header(RETRY_AFTER, header).body(()).unwrap());
            assert_eq!(response.headers()[RETRY_AFTER], shortened);
        }
        assert!(shorten_retry_after(Response::new(())).headers().is_empty());
        let url = busy_server(&["3600"]).await;
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        std::fs::write(kubeconfig.path(), text).unwrap();
        let access = Access { kubeconfig: Some(kubeconfig.path().to_owned()), ..Access::default() };
        let clients = Clients::new(&access).await.unwrap();
        let request = http::Request::get("/api/v1/pods?watch=1").body(Vec::new()).unwrap();
        let answered = timeout(Duration::from_mins(1), clients.reading.request::<serde_json::Value>(request)).await;
        assert_eq!(answered.unwrap().unwrap(), serde_json::json!({}));
    }
}
