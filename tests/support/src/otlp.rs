//! The receiver of the OpenTelemetry Collector, and the received data.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use kaudit_controlplane::{Tool, tool};
use serde_json::Value;

use crate::child::ChildGuard;

/// The required value of `X-Token`; it must not be in any log.
pub const TOKEN: &str = "Canary-51c0ffee";

/// A receiver of OTLP; ends with the test.
pub struct Collector {
    _process: ChildGuard,
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    /// Starts one that listens.
    pub fn start() -> Self {
        let mut command = Command::new(tool(Tool::OtlpReceiver).unwrap());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines.next().unwrap().unwrap().parse().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&requests);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                taken.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        Self { _process: ChildGuard(process), address, requests }
    }

    /// Returns the variables that export everything to it.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.address)),
            ("OTEL_EXPORTER_OTLP_HEADERS", format!("x-token={TOKEN}")),
        ]
    }

    /// Returns all received requests, and checks their token.
    fn requests(&self) -> Vec<Value> {
        let requests = self.requests.lock().unwrap().clone();
        for request in &requests {
            assert_eq!(request["token"], serde_json::json!([TOKEN]));
        }
        requests
    }

    /// Returns all spans in order of arrival.
    pub fn spans(&self) -> Vec<Value> {
        self.parts("traces", &["resourceSpans", "scopeSpans", "spans"])
    }

    /// Returns the values at a path of arrays in the requests of a signal.
    pub fn parts(&self, signal: &str, path: &[&str]) -> Vec<Value> {
        let below = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
        let requests = self.requests();
        path.iter().fold(requests.iter().map(|request| request[signal].clone()).collect(), |above: Vec<Value>, name| {
            above.iter().flat_map(|value| below(value, name)).collect()
        })
    }
}

/// Returns the value of an attribute of a span, point or resource, as text.
pub fn attribute(of: &Value, key: &str) -> Option<String> {
    let found = of["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?;
    let value = found["value"].as_object()?.values().next()?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
