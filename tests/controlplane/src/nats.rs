//! A NATS server with `JetStream`, whose data outlives a crash.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::time::sleep;

use crate::{
    backup::DataBackup,
    server::{Home, POLL, Server, free_port},
    tools::{Tool, tool},
};

/// The folder of what the server has stored, in its own.
const DATA: &str = "data";
/// How long the server may take to start.
const START: Duration = Duration::from_mins(1);

/// A NATS server. It ends with this process in any case.
pub struct NatsServer {
    server: Server,
    home: Home,
    port: u16,
}

impl NatsServer {
    /// Starts a server with these lines in its configuration, and waits until it accepts connections. In the lines,
    /// `FOLDER` is [`Self::folder`], where `files` are written first.
    ///
    /// # Errors
    ///
    /// If the server cannot be built or does not start.
    pub async fn start(lines: &str, files: &[(&str, &str)]) -> Result<Self> {
        let home = Home::new()?;
        for (name, text) in files {
            fs::write(home.path.join(name), text)?;
        }
        let (program, port) = (tool(Tool::NatsServer)?, free_port()?);
        let folder = home.path.display();
        let lines = lines.replace("FOLDER", &folder.to_string());
        let settings =
            format!("listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{folder}/{DATA}\" }}\n{lines}\n");
        let file = home.path.join("nats.conf");
        fs::write(&file, settings)?;
        let arguments = vec!["--config".to_owned(), file.display().to_string()];
        let server = Server::new("nats-server", program, arguments, &home.path);
        let nats = Self { server, home, port };
        nats.start_again().await?;
        Ok(nats)
    }

    /// Starts the server again, at the same port and with the same data, and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// If it is running, or does not start.
    pub async fn start_again(&self) -> Result<()> {
        self.server.start()?;
        let deadline = Instant::now() + START;
        while !self.greets() {
            if !self.server.is_running() || Instant::now() > deadline {
                bail!("the NATS server does not start:\n{}", self.server.log_tail());
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Whether the server sends its first line to a new connection.
    fn greets(&self) -> bool {
        let greeting = || {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).ok()?;
            Some(line)
        };
        greeting().is_some_and(|line| line.starts_with("INFO "))
    }

    /// Returns `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the server's folder, which is removed with it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.home.path
    }

    /// Kills the server; what it has acknowledged is kept.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn kill(&self) -> Result<()> {
        self.server.kill().context("killing the NATS server")
    }

    /// Kills the server, copies its data, and starts it again.
    ///
    /// # Errors
    ///
    /// If it is not running, files cannot be copied, or it does not start.
    pub async fn back_up(&self) -> Result<DataBackup> {
        self.kill()?;
        let backup = DataBackup::new(&self.data())?;
        self.start_again().await?;
        Ok(backup)
    }

    /// Kills the server, replaces its data, and starts it again.
    ///
    /// # Errors
    ///
    /// If it is not running, files cannot be copied, or it does not start.
    pub async fn restore(&self, backup: &DataBackup) -> Result<()> {
        self.kill()?;
        backup.restore(&self.data())?;
        self.start_again().await
    }

    /// Returns the folder of what the server has stored.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder().join(DATA)
    }

    /// Freezes the server: connections stay open, and nothing is answered.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn pause(&self) -> Result<()> {
        self.server.signal("STOP")
    }

    /// Resumes a frozen server.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn resume(&self) -> Result<()> {
        self.server.signal("CONT")
    }
}
