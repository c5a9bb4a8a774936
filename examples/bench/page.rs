//! The page for people over a simulated cluster: how soon a request is answered, how much memory the page costs, and how soon
//! a change is on a page that is open.

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

/// What is measured of the page
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Objects of the simulated cluster, each of which violates something unless it is in no namespace
    #[arg(long, default_value_t = 20_400)]
    objects: u32,
    /// Namespaces over which they are spread
    #[arg(long, default_value_t = 100)]
    namespaces: u32,
    /// Requests of each view
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Changes, one after the other
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
}

/// How long a process is idle before its memory is read.
const REST: Duration = Duration::from_secs(10);
/// How long the page is kept after the last request, and somewhat longer.
const FORGOTTEN: Duration = Duration::from_secs(65);
/// How long a change may take to be told and shown.
const PATIENCE: Duration = Duration::from_secs(30);
/// Milliseconds between changes: long enough that each finds the page at rest, and so uneven that they keep no step with it.
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
    let without = memory(&rested(&kaudit, folder.path(), &["--record=none"]).await?)?;
    note("Measuring memory with the page");
    let running = rested(&kaudit, folder.path(), &["--record=none", "--listen-ui=127.0.0.1:0"]).await?;
    let mut rows = vec![("off", without), ("on, nobody has looked", memory(&running)?)];
    let address = running.page()?;
    let stands = standing(address)?;
    requests(options, &running, address, stands)?;
    rows.push(("on, after these requests", memory(&running)?));
    latency(options, &server, &running, address).await?;
    rows.push(("on, after these changes", memory(&running)?));
    note("Measuring memory when nobody looks any more");
    sleep(FORGOTTEN).await;
    rows.push(("on, a minute after the last request", memory(&running)?));
    let mut table = Table::new("Memory", &["page", "peak MB", "MB"]);
    for (name, [peak, now]) in rows {
        table.row(&[name.to_owned(), mb(peak), mb(now)]);
    }
    print(&table.markdown())
}

/// Starts the long run, and waits until it rests.
async fn rested(kaudit: &Kaudit, folder: &Path, arguments: &[&str]) -> Result<LongRun> {
    let running = kaudit.start(folder, arguments).await?;
    settled(&running).await?;
    // No condition to wait for: this shows how much memory the process returns while idle.
    sleep(REST).await;
    Ok(running)
}

/// Returns the peak and the present memory of a run in KB.
fn memory(running: &LongRun) -> Result<[u64; 2]> {
    let read = |field| memory_kb(running.pid(), field).context("kaudit has ended");
    Ok([read("VmHWM")?, read("VmRSS")?])
}

/// An answer of the page, and how long it took.
struct Answer {
    first_byte: Duration,
    whole: Duration,
    body: String,
}

fn ask(address: SocketAddr, path: &str) -> Result<Answer> {
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
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    ensure!(head.starts_with("HTTP/1.0 200"), "{path}: {answer}");
    Ok(Answer { first_byte, whole, body: body.to_owned() })
}

/// Returns how many violations the page tells of.
fn standing(address: SocketAddr) -> Result<u64> {
    let page: Value = serde_json::from_str(&ask(address, "/?format=json&q=nothing")?.body)?;
    let count = |outcome: &str| page["summary"][outcome].as_u64().unwrap_or_default();
    Ok(count("fail") + count("warn"))
}

/// Measures the answers of each view.
fn requests(options: &Options, running: &LongRun, address: SocketAddr, stands: u64) -> Result<()> {
    let front = ask(address, "/")?.body;
    let object = front.split("href=\"").find_map(|rest| rest.strip_prefix("?object=")?.split('"').next());
    let object = format!("/?object={}", object.context("no object has results")?);
    let namespace = front.split("name=\"namespace\"").nth(1).and_then(|rest| rest.split("option value=\"").nth(2));
    let namespace = namespace.and_then(|rest| rest.split('"').next()).context("no namespace has results")?;
    let title = format!("{stands} violations: {} requests of each view", options.requests);
    let columns = ["view", "KB", "first byte ms p50", "p99", "whole ms p50", "CPU ms of each"];
    let mut table = Table::new(&title, &columns);
    for (name, path) in [
        ("overview", "/"),
        ("the last page of the list", "/?page=1000000"),
        ("a namespace", &format!("/?namespace={namespace}")),
        ("a search", "/?q=version"),
        ("an object", &object),
    ] {
        note(&format!("Requesting {name}"));
        let (mut first, mut whole, mut bytes) = (Vec::new(), Vec::new(), 0);
        let before = cpu(running.pid())?;
        for _ in 0..options.requests {
            let answer = ask(address, path)?;
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

/// A Pod that changed, and when a watch told.
struct Change {
    at: Instant,
    name: String,
    version: u64,
}

/// Changes Pods, and measures how soon an open page is told of each and has its row.
async fn latency(options: &Options, server: &Simulated, running: &LongRun, address: SocketAddr) -> Result<()> {
    note("Measuring changes");
    let (events, watched) = (events(address)?, watch(server.client().await?).await?);
    let (mut told, mut shown) = (Vec::new(), Vec::new());
    let used = cpu(running.pid())?;
    let began = Instant::now();
    for number in 0..u64::from(options.changes) {
        let change = loop {
            let gap = GAPS.0 + number * 7_919 % GAPS.1;
            sleep(Duration::from_millis(gap)).await;
            events.try_iter().for_each(drop);
            server.change(1, 0).await?;
            // It may have been one of another kind.
            match block_in_place(|| watched.recv_timeout(Duration::from_millis(500))) {
                Ok(change) => break change,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("the watch has ended"),
            }
        };
        let (event, row) = block_in_place(|| shows(&events, address, &change))?;
        told.push(event.saturating_duration_since(change.at).as_secs_f64() * 1e3);
        shown.push(row.saturating_duration_since(change.at).as_secs_f64() * 1e3);
    }
    let share = cpu(running.pid())?.saturating_sub(used).as_secs_f64() / began.elapsed().as_secs_f64();
    let mut table = Table::new("From a change to an open page, in milliseconds", &["", "p50", "p99"]);
    for (name, mut times) in [
        ("from the change in a raw watch to the event on the open connection", told),
        ("to the end of the answer that has its row", shown),
    ] {
        let p50 = median(&mut times);
        table.row(&[name.to_owned(), format!("{p50:.0}"), format!("{:.0}", quantile(&times, 0.99))]);
    }
    table.note(&format!(
        "{} changes, one about each second; {:.0} % of a core meanwhile, these requests included. Goal: the row within 200 \
         ms at the median.",
        options.changes,
        share * 100.0
    ));
    print(&table.markdown())
}

/// Waits until the page has the row of a change; returns when the event was there that told of it, and when the row.
fn shows(events: &Receiver<Instant>, address: SocketAddr, change: &Change) -> Result<(Instant, Instant)> {
    let words = format!("{} is at version ", change.name);
    let path = format!("/?q={}", change.name);
    loop {
        let event = events.recv_timeout(PATIENCE).with_context(|| format!("{} is never shown", change.name))?;
        let page = ask(address, &path)?.body;
        let now = Instant::now();
        let version = page.split(&words).nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
        if version.is_some_and(|version: String| version.parse().is_ok_and(|version: u64| version >= change.version)) {
            return Ok((event, now));
        }
    }
}

/// Opens the stream of events, again and again as a browser does; returns when each event comes.
fn events(address: SocketAddr) -> Result<Receiver<Instant>> {
    let (sender, receiver) = channel();
    let open = move |last: &str| -> Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {last}\r\n\r\n")?;
        Ok(BufReader::new(stream))
    };
    let mut stream = open("")?;
    // Ends with the receiver or with kaudit.
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

/// Watches the Pods from now on; returns those that appear or change.
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
