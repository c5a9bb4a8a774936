//! A real registry, with or without TLS and a password.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use data_encoding::BASE64;
use kaudit_controlplane::{Tool, serving_certificate, tool};
use tempfile::TempDir;

use crate::child::ChildGuard;

/// The user's name and password, and the password hash of the registry.
const USER: (&str, &str) = ("kaudit", "secret");
const HASHED: &str = "kaudit:$2a$04$V8lEfFAADCGiwmxyZR4VQ.vMkKcLGe3coJrVeVMl9T4vFZQNxFxX6\n";

/// A registry that ends when it is dropped.
pub struct Registry {
    process: ChildGuard,
    directory: TempDir,
    /// Host and port.
    pub host: String,
}

impl Registry {
    /// Starts a registry without TLS and password.
    pub fn open() -> Self {
        Self::start("")
    }

    /// Starts a registry with TLS and a password.
    pub fn guarded() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let certificate = serving_certificate().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (chain, key) = (write("tls.crt", &certificate.certificate), write("tls.key", &certificate.key));
        write("ca.crt", &certificate.authority);
        let passwords = write("htpasswd", HASHED);
        let more = format!(
            "  tls: {{certificate: {chain}, key: {key}}}\nauth: {{htpasswd: {{realm: test, path: {passwords}}}}}\n"
        );
        let mut registry = Self::start(&more);
        let auth = BASE64.encode(format!("{}:{}", USER.0, USER.1).as_bytes());
        let login = format!(r#"{{"auths": {{"{}": {{"auth": "{auth}"}}}}}}"#, registry.host);
        fs::create_dir(directory.path().join("docker")).unwrap();
        fs::write(directory.path().join("docker/config.json"), login).unwrap();
        registry.directory = directory;
        registry
    }

    fn start(more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = free.local_addr().unwrap().to_string();
        drop(free);
        let settings = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{inmemory: {{}}}}\n\
             http:\n  addr: {host}\n{more}"
        );
        let path = directory.path().join("settings.yml");
        fs::write(&path, settings).unwrap();
        let program = tool(Tool::Registry).unwrap();
        let process = Command::new(program).arg(path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let registry = Self { process: ChildGuard(process), directory, host };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&registry.host).is_err() {
            assert!(Instant::now() < deadline, "the registry does not listen");
            std::thread::yield_now();
        }
        registry
    }

    /// Stops it.
    pub fn stop(&mut self) {
        self.process.0.kill().unwrap();
        self.process.0.wait().unwrap();
    }

    /// Returns the certificate of its authority.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// Returns the folder with the credentials written by `docker login`.
    pub fn login(&self) -> PathBuf {
        self.directory.path().join("docker")
    }

    /// Returns the reference of an artifact in it.
    pub fn artifact(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.host)
    }
}
