//! A long run of kaudit as another process sees it: its command, the addresses in its log, and requests to them.

use std::{
    env,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::Value;

/// Timeout of a read; generous, as machines are shared.
const ANSWER: Duration = Duration::from_mins(1);

/// The log message with the address of the page.
const PAGE: &str = "Serving the page";

/// Returns a command for kaudit with a kubeconfig, without environment variables of the caller that configure it.
pub fn kaudit(program: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if ["KAUDIT_", "OTEL_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("KUBECONFIG", kubeconfig).env("NO_COLOR", "1");
    command
}

/// Returns the address of health, metrics and status from a log in JSON, once there is one.
pub fn admin_address(log: &str) -> Option<SocketAddr> {
    address(log, |message| message != PAGE)
}

/// Returns the address of the page from a log in JSON, once there is one.
pub fn page_address(log: &str) -> Option<SocketAddr> {
    address(log, |message| message == PAGE)
}

fn address(log: &str, is_it: fn(&Value) -> bool) -> Option<SocketAddr> {
    log.lines().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        line["address"].as_str().filter(|_| is_it(&line["message"]))?.parse().ok()
    })
}

/// Gets a path of a server on loopback; `None` without a response 200.
pub fn get(address: SocketAddr, path: &str) -> Option<String> {
    ask(address, path, "Host: localhost").filter(|(head, _)| head.starts_with("HTTP/1.0 200")).map(|(_, body)| body)
}

/// Gets a path with these headers; returns the head of the response and the body.
pub fn ask(address: SocketAddr, path: &str, headers: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}
