//! The lower bound of an audit: a download of the same lists.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{AsyncBufRead, AsyncBufReadExt, io::AsyncReadExt};
use http::Request;
use kube::Client;
use tokio::task::JoinSet;

use crate::process::cpu;

/// Objects per page, as in kaudit.
const PAGE: usize = 500;

/// The cost of a download.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Download {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) bytes: u64,
}

/// Reads lists over a number of connections, the last list first.
pub(crate) async fn download(client: &Client, lists: Vec<String>, connections: usize) -> Result<Download> {
    let lists = Arc::new(Mutex::new(lists));
    let bytes = Arc::new(AtomicU64::new(0));
    let (began, cpu_before) = (Instant::now(), cpu(std::process::id())?);
    let mut readers = JoinSet::new();
    for _ in 0..connections {
        let (client, lists, bytes) = (client.clone(), lists.clone(), bytes.clone());
        readers.spawn(async move {
            loop {
                let next = lists.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
                let Some(list) = next else { return anyhow::Ok(()) };
                bytes.fetch_add(read_list(&client, &list).await?, Ordering::Relaxed);
            }
        });
    }
    while let Some(read) = readers.join_next().await {
        read??;
    }
    let cpu = cpu(std::process::id())?.saturating_sub(cpu_before);
    Ok(Download { wall: began.elapsed(), cpu, bytes: bytes.load(Ordering::Relaxed) })
}

/// Reads all pages of a list; returns their size in bytes.
async fn read_list(client: &Client, path: &str) -> Result<u64> {
    let (mut bytes, mut next) = (0, String::new());
    loop {
        let uri = format!("{path}?limit={PAGE}{next}");
        let mut body = Box::pin(client.request_stream(Request::get(uri).body(Vec::new())?).await?);
        // The metadata of the list is at the beginning.
        let mut head = vec![0; 4_096];
        let length = fill(&mut body, &mut head).await?;
        bytes += length as u64;
        let head = String::from_utf8_lossy(&head[..length]);
        let token = head.split_once(r#""items":["#).and_then(|(list, _)| list.split_once(r#""continue":""#));
        next = match token.and_then(|(_, rest)| rest.split_once('"')) {
            Some((token, _)) if !token.is_empty() => format!("&continue={token}"),
            _ => String::new(),
        };
        loop {
            let length = body.fill_buf().await?.len();
            if length == 0 {
                break;
            }
            body.consume_unpin(length);
            bytes += length as u64;
        }
        if next.is_empty() {
            return Ok(bytes);
        }
    }
}

/// Fills `buffer` until it is full or the input ends.
async fn fill(body: &mut (impl AsyncBufRead + Unpin), buffer: &mut [u8]) -> Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match body.read(&mut buffer[length..]).await? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}
