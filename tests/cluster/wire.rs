//! A connection to the API server that can be cut, silent or slow. TLS passes through unchanged.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::sleep,
};

/// Faults of connections. Connections are numbered in order: a fault affects all up to a number.
#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    connections: usize,
    cut_up_to: usize,
    silent_up_to: usize,
    delay: Duration,
}

/// A TCP proxy to one address. It ends with its connections when it is dropped.
pub(crate) struct Wire {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    task: JoinHandle<()>,
}

impl Wire {
    /// Starts a proxy to the server of a kubeconfig.
    pub(crate) async fn to(kubeconfig: &Path) -> Self {
        let server = read(kubeconfig)["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
        let server = server.strip_prefix("https://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let weather = watch::channel(Weather::default()).0;
        let task = tokio::spawn(serve(listener, server, weather.clone()));
        Self { address, weather, task }
    }

    /// Writes a copy of `kubeconfig` into `directory` that uses the proxy.
    pub(crate) fn kubeconfig(&self, kubeconfig: &Path, directory: &Path) -> PathBuf {
        let mut config = read(kubeconfig);
        config["clusters"][0]["cluster"]["server"] = format!("https://{}", self.address).into();
        let path = directory.join("over-the-wire");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Closes all current connections.
    pub(crate) fn cut(&self) {
        self.weather.send_modify(|weather| weather.cut_up_to = weather.connections);
    }

    /// Silently blocks all current connections.
    pub(crate) fn silence(&self) {
        self.weather.send_modify(|weather| weather.silent_up_to = weather.connections);
    }

    /// Delays all data by this time.
    pub(crate) fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.weather.borrow().connections
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a kubeconfig in JSON, as written by our control plane.
pub(crate) fn read(kubeconfig: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap()
}

async fn serve(listener: TcpListener, server: String, weather: watch::Sender<Weather>) {
    let mut connections = JoinSet::new();
    loop {
        let (near, _) = tokio::select! {
            accepted = listener.accept() => accepted.unwrap(),
            Some(_) = connections.join_next() => continue,
        };
        let mut number = 0;
        weather.send_modify(|weather| {
            weather.connections += 1;
            number = weather.connections;
        });
        let (server, weather) = (server.clone(), weather.subscribe());
        connections.spawn(async move {
            // If refused, the near end is closed by being dropped.
            let Ok(far) = TcpStream::connect(server).await else { return };
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            let mut watching = weather.clone();
            tokio::select! {
                () = carry(near_in, far_out, number, weather.clone()) => {}
                () = carry(far_in, near_out, number, weather) => {}
                _ = watching.wait_for(|weather| weather.cut_up_to >= number) => {}
            }
        });
    }
}

/// Copies bytes until the connection ends, or blocks forever once it is silent.
async fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, number: usize, weather: watch::Receiver<Weather>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = read_some(&from, &mut bytes).await {
        let Weather { silent_up_to, delay, .. } = *weather.borrow();
        if silent_up_to >= number {
            return std::future::pending().await;
        }
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if write_all(&to, &bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn read_some(from: &OwnedReadHalf, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

async fn write_all(to: &OwnedWriteHalf, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            written => bytes = &bytes[written?..],
        }
    }
    Ok(())
}
