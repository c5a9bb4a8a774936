//! Measures the web page over a simulated cluster: the duration of requests, the memory that the page needs, and the
//! latency of changes on an open page.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::Request;
use kube::Client;
use serde_json::Value;
use tokio::{task::block_in_place, time::sleep};

use crate::{
    changes::quantile,
    median, note, peers, print,
    process::{Kaudit, LongRun, cpu, memory_kb},
    scale::{Simulated, Table, mb, settled},
};

/// Options of `page`
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of objects of the simulated cluster; each one in a namespace violates a policy
    #[arg(long, default_value_t = 20_400)]
    objects: u32,
    /// Number of namespaces
    #[arg(long, default_value_t = 100)]
    namespaces: u32,
    /// Number of requests of each view
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Number of changes, one after the other
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
}

/// The time that a process is idle before its memory is read.
const REST: Duration = Duration::from_secs(10);
/// A little longer than kaudit caches the page after the last request.
const FORGOTTEN: Duration = Duration::from_secs(65);
/// The longest time until an open page is notified of a change and shows it.
const PATIENCE: Duration = Duration::from_secs(30);
/// The shortest interval of changes and its variation, in milliseconds: long enough that the page is idle before each
/// change, and irregular, so that changes are not synchronous with the page.
const GAPS: (u64, u64) = (600, 500);

/// Measures the page, and prints the tables.
pub(crate) async fn run(options: &Options, program: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Simulated::start(folder.path(), options.objects, options.namespaces).await?;
    let kaudit = Kaudit {
        program: program.to_owned(),
        kubeconfig: server.kubeconfig.clone(),
        policies: peers::policies("page"),
    };
    note("Measuring memory without the page");
    let without = memory(&start_idle(&kaudit, folder.path(), &["--record=none"]).await?)?;
    note("Measuring memory with the page");
    let running = start_idle(&kaudit, folder.path(), &["--record=none", "--listen-ui=127.0.0.1:0"]).await?;
    let mut rows = vec![("off", without), ("on, before any request", memory(&running)?)];
    let address = running.page()?;
    let violations = violations(address)?;
    requests(options, &running, address, violations)?;
    rows.push(("on, after these requests", memory(&running)?));
    latency(options, &server, &running, address).await?;
    rows.push(("on, after these changes", memory(&running)?));
    note("Measuring memory after the last request");
    sleep(FORGOTTEN).await;
    rows.push(("on, a minute after the last request", memory(&running)?));
    let mut table = Table::new("Memory", &["page", "peak MB", "MB"]);
    for (name, [peak, now]) in rows {
        table.row(&[name.to_owned(), mb(peak), mb(now)]);
    }
    print(&table.markdown())
}

/// Starts the long run, and waits until it is idle.
async fn start_idle(kaudit: &Kaudit, folder: &Path, arguments: &[&str]) -> Result<LongRun> {
    let running = kaudit.start(folder, arguments).await?;
    settled(&running).await?;
    // There is no condition to wait for: this measures how much memory the process returns while idle.
    sleep(REST).await;
    Ok(running)
}

/// Returns the peak and the current memory of a run in KB.
fn memory(running: &LongRun) -> Result<[u64; 2]> {
    let read = |field| memory_kb(running.pid(), field).context("kaudit has ended");
    Ok([read("VmHWM")?, read("VmRSS")?])
}

/// A response of the page, and the times until its first and last byte.
struct Answer {
    first_byte: Duration,
    whole: Duration,
    body: String,
}

fn request(address: SocketAddr, path: &str) -> Result<Answer> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = vec![0];
    stream.read_exact(&mut answer)?;
    let first_byte = began.elapsed();
    stream.read_to_end(&mut answer)?;
    let whole = began.elapsed();
    let answer = String::from_utf8(answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a response without a head")?;
    ensure!(head.starts_with("HTTP/1.0 200"), "{path}: {answer}");
    Ok(Answer { first_byte, whole, body: body.to_owned() })
}

/// Returns the number of violations on the page.
fn violations(address: SocketAddr) -> Result<u64> {
    let page: Value = serde_json::from_str(&request(address, "/?format=json&q=nothing")?.body)?;
    let count = |outcome: &str| page["summary"][outcome].as_u64().unwrap_or_default();
    Ok(count("fail") + count("warn"))
}

/// Measures requests of each view.
fn requests(options: &Options, running: &LongRun, address: SocketAddr, violations: u64) -> Result<()> {
    let front = request(address, "/?view=objects")?.body;
    let object = front.split("href=\"").find_map(|rest| rest.strip_prefix("?object=")?.split('"').next());
    let object = format!("/?object={}", object.context("no object has results")?);
    let namespace = front.split("name=\"namespace\"").nth(1).and_then(|rest| rest.split("option value=\"").nth(2));
    let namespace = namespace.and_then(|rest| rest.split('"').next()).context("no namespace has results")?;
    let title = format!("{violations} violations: {} requests of each view", options.requests);
    let columns = ["view", "KB", "first byte ms p50", "p99", "whole ms p50", "CPU ms of each"];
    let mut table = Table::new(&title, &columns);
    for (name, path) in [
        ("overview", "/"),
        ("the rules", "/?view=rules"),
        ("the frameworks", "/?view=frameworks"),
        ("changes of seven days", "/?view=changes&since=7d"),
        ("the first objects", "/?view=objects"),
        ("the last objects", "/?view=objects&page=1000000"),
        ("a namespace", &format!("/?view=objects&namespace={namespace}")),
        ("a search", "/?view=objects&q=version"),
        ("an object", &object),
    ] {
        note(&format!("Requesting {name}"));
        let (mut first, mut whole, mut bytes) = (Vec::new(), Vec::new(), 0);
        let before = cpu(running.pid())?;
        for _ in 0..options.requests {
            let answer = request(address, path)?;
            first.push(answer.first_byte.as_secs_f64() * 1e3);
            whole.push(answer.whole.as_secs_f64() * 1e3);
            bytes = answer.body.len();
        }
        let used = cpu(running.pid())?.saturating_sub(before).as_secs_f64() * 1e3 / f64::from(options.requests);
        table.row(&[
            name.to_owned(),
            format!("{:.0}", bytes as f64 / 1e3),
            format!("{:.1}", median(&mut first)),
            format!("{:.1}", quantile(&first, 0.99)),
            format!("{:.1}", median(&mut whole)),
            format!("{used:.1}"),
        ]);
    }
    table.note("Goal: the first byte within 50 ms.");
    print(&table.markdown())
}

/// A changed Pod, and the time of its change in a watch.
struct Change {
    at: Instant,
    name: String,
    version: u64,
}

/// Changes Pods, and measures the time until an open page is notified of each change and has its row.
async fn latency(options: &Options, server: &Simulated, running: &LongRun, address: SocketAddr) -> Result<()> {
    note("Measuring changes");
    let (events, watched) = (events(address)?, watch(server.client().await?).await?);
    let (mut notified, mut shown) = (Vec::new(), Vec::new());
    let used = cpu(running.pid())?;
    let began = Instant::now();
    for number in 0..u64::from(options.changes) {
        let change = loop {
            let gap = GAPS.0 + number * 7_919 % GAPS.1;
            sleep(Duration::from_millis(gap)).await;
            events.try_iter().for_each(drop);
            server.change(1, 0).await?;
            // The change may affect an object of another kind.
            match block_in_place(|| watched.recv_timeout(Duration::from_millis(500))) {
                Ok(change) => break change,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the watch has ended"),
            }
        };
        let (event, row) = block_in_place(|| wait_for_row(&events, address, &change))?;
        notified.push(event.saturating_duration_since(change.at).as_secs_f64() * 1e3);
        shown.push(row.saturating_duration_since(change.at).as_secs_f64() * 1e3);
    }
    let share = cpu(running.pid())?.saturating_sub(used).as_secs_f64() / began.elapsed().as_secs_f64();
    let mut table = Table::new("From a change to an open page, in milliseconds", &["", "p50", "p99"]);
    for (name, mut times) in [
        ("from the change in a raw watch to the event on the open connection", notified),
        ("to the end of the response that has its row", shown),
    ] {
        let p50 = median(&mut times);
        table.row(&[name.to_owned(), format!("{p50:.0}"), format!("{:.0}", quantile(&times, 0.99))]);
    }
    table.note(&format!(
        "{} changes, one about each second; {:.0} % of a core, including these requests. Goal: the row within 200 \
         ms at the median.",
        options.changes,
        share * 100.0
    ));
    print(&table.markdown())
}

/// Waits until the page has the row of a change; returns the times of the last event before it and of the row.
fn wait_for_row(events: &Receiver<Instant>, address: SocketAddr, change: &Change) -> Result<(Instant, Instant)> {
    let words = format!("{} is at version ", change.name);
    let path = format!("/?view=objects&q={}", change.name);
    loop {
        let event = events.recv_timeout(PATIENCE).with_context(|| format!("{} is never shown", change.name))?;
        let page = request(address, &path)?.body;
        let now = Instant::now();
        let version = page.split(&words).nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
        if version.is_some_and(|version: String| version.parse().is_ok_and(|version: u64| version >= change.version)) {
            return Ok((event, now));
        }
    }
}

/// Opens the stream of events and reconnects as a browser does; returns the time of each event.
fn events(address: SocketAddr) -> Result<Receiver<Instant>> {
    let (sender, receiver) = channel();
    let open = move |last: &str| -> Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {last}\r\n\r\n")?;
        Ok(BufReader::new(stream))
    };
    let mut stream = open("")?;
    // The thread ends with the receiver or with kaudit.
    std::thread::spawn(move || {
        let mut last = String::new();
        loop {
            for line in stream.lines().map_while(Result::ok) {
                if line.starts_with("event: changed") && sender.send(Instant::now()).is_err() {
                    return;
                }
                if let Some(id) = line.strip_prefix("id: ") {
                    id.clone_into(&mut last);
                }
            }
            let Ok(opened) = open(&last) else { return };
            stream = opened;
        }
    });
    Ok(receiver)
}

/// Watches Pods from now on; returns those that are added or modified.
async fn watch(client: Client) -> Result<Receiver<Change>> {
    let path = "/api/v1/pods";
    let list: Value = client.request(Request::get(format!("{path}?limit=1")).body(Vec::new())?).await?;
    let version = list["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
    let request = Request::get(format!("{path}?watch=1&resourceVersion={version}")).body(Vec::new())?;
    let stream = client.request_stream(request).await?;
    let (sender, receiver) = channel();
    tokio::spawn(async move {
        let mut lines = std::pin::pin!(stream.lines());
        while let Ok(Some(line)) = lines.try_next().await {
            let at = Instant::now();
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let metadata = &event["object"]["metadata"];
            let (name, version) = (metadata["name"].as_str(), metadata["resourceVersion"].as_str());
            let (Some(name), Some(Ok(version))) = (name, version.map(str::parse)) else { continue };
            let change = Change { at, name: name.to_owned(), version };
            if matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED")) && sender.send(change).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
