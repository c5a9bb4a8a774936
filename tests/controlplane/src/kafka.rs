//! A Kafka broker that is its own controller, from Maven's artifacts.

use std::env;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::sleep;

use crate::{
    go_build::{find_on_path, target_folder},
    server::{Home, POLL, Server, free_port},
    tools::{decide, print_uncaptured},
};

/// How long the broker may take to start: a Java virtual machine on a busy machine.
const START: Duration = Duration::from_mins(3);
/// Arguments for a virtual machine that starts fast and stays small.
const JAVA: [&str; 5] = [
    "-Xmx384m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka=error",
];

/// The settings of every broker.
const FIXED: &str = "process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
offsets.topic.replication.factor=1
auto.create.topics.enable=false
";

/// A broker. It ends with this process in any case.
pub struct KafkaBroker {
    server: Server,
    home: Home,
    plain: u16,
    secured: u16,
}

/// What a broker differs in from the default.
#[derive(Debug, Default)]
pub struct KafkaOptions {
    /// The broker's certificate and key, and the authority of clients, as PEM: it also listens with TLS and SASL, and asks
    /// for a client's certificate.
    pub certificate: Option<(String, String, String)>,
    /// User and password of PLAIN and of both SCRAM mechanisms.
    pub user: Option<(String, String)>,
    /// Further lines of its settings.
    pub lines: String,
}

/// Whether a test with a broker can run; prints a message if not.
///
/// # Panics
///
/// If `CI` is set and Java or Maven are missing, because a skipped test proves nothing there.
#[must_use]
pub fn require_kafka() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let missing = ["java", "mvn"].into_iter().find(|name| find_on_path(&path, name).is_none());
    decide(missing.map_or(Ok(()), |name| Err(format!("no {name}: install Java and Maven to run Kafka"))))
}

impl KafkaBroker {
    /// Starts a broker without topics, and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// If the artifacts cannot be downloaded, or the broker does not start.
    pub async fn start(options: &KafkaOptions) -> Result<Self> {
        let (classes, home) = (classes()?, Home::new()?);
        let (plain, secured, controller) = (free_port()?, free_port()?, free_port()?);
        ensure!(plain != secured && secured != controller && plain != controller, "one free port was found twice");
        let file = home.path.join("server.properties");
        fs::write(&file, settings(options, &home.path, [plain, secured, controller])?)?;
        format(&classes, &file, options)?;
        let mut arguments = JAVA.map(str::to_owned).to_vec();
        arguments.extend(["-cp".to_owned(), classes, "kafka.Kafka".to_owned(), file.display().to_string()]);
        let server = Server::new("kafka", PathBuf::from("java"), arguments, &home.path);
        let broker = Self { server, home, plain, secured };
        broker.start_again().await?;
        Ok(broker)
    }

    /// Starts the broker again, at the same ports and with the same data, and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// If it is running, or does not start.
    pub async fn start_again(&self) -> Result<()> {
        self.server.start()?;
        let deadline = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", self.plain)).is_err() {
            if !self.server.is_running() || Instant::now() > deadline {
                bail!("the broker does not start:\n{}", self.server.log_tail());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Returns the address of the listener without TLS and SASL.
    #[must_use]
    pub fn plain(&self) -> String {
        format!("127.0.0.1:{}", self.plain)
    }

    /// Returns the address of the listener with TLS and SASL.
    #[must_use]
    pub fn secured(&self) -> String {
        format!("127.0.0.1:{}", self.secured)
    }

    /// Returns the broker's folder, which is removed with it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.home.path
    }

    /// Kills the broker.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn kill(&self) -> Result<()> {
        self.server.kill().context("killing the broker")
    }

    /// Freezes the broker: connections stay open, and nothing is answered.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn pause(&self) -> Result<()> {
        self.server.signal("STOP")
    }

    /// Resumes a frozen broker.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn resume(&self) -> Result<()> {
        self.server.signal("CONT")
    }
}

fn settings(options: &KafkaOptions, folder: &Path, [plain, secured, controller]: [u16; 3]) -> Result<String> {
    let mut listeners = vec![format!("PLAINTEXT://127.0.0.1:{plain}")];
    let mut lines = vec![options.lines.clone()];
    if options.certificate.is_some() {
        listeners.push(format!("SASL_SSL://127.0.0.1:{secured}"));
        lines.extend(security(options, folder)?);
    }
    let listeners = listeners.join(",");
    lines.extend([
        format!("controller.quorum.voters=1@127.0.0.1:{controller}"),
        format!("listeners={listeners},CONTROLLER://127.0.0.1:{controller}"),
        format!("advertised.listeners={listeners}"),
        format!("log.dirs={}", folder.join("data").display()),
        FIXED.to_owned(),
    ]);
    Ok(lines.join("\n"))
}

/// Returns the settings of the listener with TLS and SASL, and writes its certificates.
fn security(options: &KafkaOptions, folder: &Path) -> Result<Vec<String>> {
    let (certificate, key, clients) =
        options.certificate.as_ref().context("a listener with TLS needs a certificate")?;
    let (user, password) = options.user.as_ref().context("a listener with SASL needs a user")?;
    let (server, trusted) = (folder.join("server.pem"), folder.join("clients.pem"));
    fs::write(&server, format!("{key}{certificate}"))?;
    fs::write(&trusted, clients)?;
    let (listener, module) = ("listener.name.sasl_ssl", "org.apache.kafka.common.security");
    Ok(vec![
        "ssl.keystore.type=PEM".to_owned(),
        format!("ssl.keystore.location={}", server.display()),
        "ssl.truststore.type=PEM".to_owned(),
        format!("ssl.truststore.location={}", trusted.display()),
        "ssl.client.auth=requested".to_owned(),
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned(),
        format!(
            "{listener}.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_{user}=\"{password}\";"
        ),
        format!("{listener}.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;"),
        format!("{listener}.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;"),
    ])
}

/// Creates the broker's storage, with its SCRAM users.
fn format(classes: &str, settings: &Path, options: &KafkaOptions) -> Result<()> {
    let mut command = Command::new("java");
    command.args(JAVA).args([
        "-cp",
        classes,
        "kafka.tools.StorageTool",
        "format",
        "--cluster-id",
        "a2F1ZGl0LXRlc3RzLTAwMQ",
    ]);
    command.arg("--config").arg(settings);
    if let Some((user, password)) = &options.user {
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            command.arg("--add-scram").arg(format!("{mechanism}=[name={user},password={password}]"));
        }
    }
    let output = command.output().context("running java")?;
    ensure!(output.status.success(), "formatting the broker's storage: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the class path of the broker, and downloads its artifacts if necessary.
fn classes() -> Result<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/kafka/pom.xml").canonicalize()?;
    let (text, folder) = (fs::read_to_string(&source)?, target_folder()?.join("tools/kafka"));
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join("lock"))?;
    lock.lock().context("waiting for another download of Kafka")?;
    let (stamp, classes) = (folder.join("stamp"), folder.join("lib"));
    if fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == text) {
        return Ok(format!("{}/*", classes.display()));
    }
    print_uncaptured(&format!("Downloading Kafka with Maven into {}", classes.display()));
    if classes.exists() {
        fs::remove_dir_all(&classes)?;
    }
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--quiet", "--file"]).arg(&source);
    command
        .args(["org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DincludeScope=runtime"]);
    let output = command.arg(format!("-DoutputDirectory={}", classes.display())).output().context("running mvn")?;
    ensure!(output.status.success(), "downloading Kafka: {}", String::from_utf8_lossy(&output.stdout));
    fs::write(&stamp, text)?;
    Ok(format!("{}/*", classes.display()))
}
