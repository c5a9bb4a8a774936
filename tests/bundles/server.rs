//! A server with responses defined by a test.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// Returns the digest of content in a registry.
pub(crate) fn digest(content: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(content)))
}

/// A request: its method, path and headers.
pub(crate) struct ServedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: String,
}

/// A response: bytes, or no response at all.
pub(crate) enum ServerAnswer {
    Bytes(Vec<u8>),
    Silence,
}

/// Returns an HTTP response.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> ServerAnswer {
    let headers: String = headers.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
    let length = body.len();
    let bytes = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}");
    ServerAnswer::Bytes([bytes.as_bytes(), b"\r\n", body].concat())
}

/// Serves on a free port until the process ends; returns the address and a log of the requests.
pub(crate) fn serve(
    answer: impl Fn(&ServedRequest) -> ServerAnswer + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, log) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(Vec::new())));
    let (shared, answer) = (Arc::clone(&log), Arc::new(answer));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (log, answer) = (Arc::clone(&shared), Arc::clone(&answer));
            thread::spawn(move || {
                let Some(request) = read(&stream) else { return };
                log.lock().unwrap().push(format!("{} {}", request.method, request.path));
                match answer(&request) {
                    ServerAnswer::Bytes(bytes) => drop((&stream).write_all(&bytes)),
                    ServerAnswer::Silence => loop {
                        thread::park();
                    },
                }
            });
        }
    });
    (address, log)
}

/// Reads a request; `None` if it is not HTTP, for example the start of TLS.
fn read(stream: &TcpStream) -> Option<ServedRequest> {
    let mut reader = BufReader::new(stream);
    let mut first = Vec::new();
    reader.read_until(b'\n', &mut first).ok()?;
    let first = String::from_utf8(first).ok()?;
    let mut words = first.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? <= 2 {
            return Some(ServedRequest { method, path, headers: headers.to_lowercase() });
        }
        headers += &line;
    }
}
