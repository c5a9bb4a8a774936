//! The bus of a world: one server of buckets, which outlives the replicas, and the connection of each of them.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use kaudit::{
    audit::result::AuditResult,
    fleet::{
        bucket::{BucketServer, BucketWrite, ClusterBucket, Kept, WriteError},
        memory::MemoryServer,
    },
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, sleep_until, timeout},
};

/// The name of the cluster, which its bucket has, too.
pub const CLUSTER: &str = "blue";
/// How long a write may be under way: less than the minute after which a leader reads its bucket again.
pub const LATEST: Duration = Duration::from_secs(30);
/// How long kaudit waits for an answer, as with NATS.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long each request takes at least.
const LATENCY: Duration = Duration::from_millis(1);

/// A fault of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusFault {
    /// All requests fail.
    Down,
    /// All requests fail after so many more writes, the last of which is stored without an answer.
    StopAfter(u8),
    /// The bucket is lost with all its values.
    LoseBucket,
    /// Writes arrive so many milliseconds after they were sent, also if their sender has ended meanwhile.
    LateWrites(u16),
}

/// The bus.
#[derive(Debug)]
pub struct Bus {
    server: MemoryServer,
    /// After how many milliseconds writes arrive.
    late: Arc<AtomicU16>,
    /// Whether it had a fault since the last call of [`Self::end_faults`], and whether it still has one.
    faults: (bool, bool),
    /// All keys that were written, in order.
    written: RefCell<Vec<String>>,
}

impl Default for Bus {
    fn default() -> Self {
        let server = MemoryServer::with_latency(LATENCY);
        Self { server, late: Arc::default(), faults: (false, false), written: RefCell::default() }
    }
}

impl Bus {
    /// Creates the connection of a starting replica.
    pub fn connect(&self) -> Arc<BusConnection> {
        let sender = Sender { late: Arc::clone(&self.late), is_cut: AtomicBool::new(false), order: Arc::default() };
        Arc::new(BusConnection { server: self.server.clone(), sender: Arc::new(sender) })
    }

    /// Begins a fault, in addition to earlier ones.
    pub fn fail(&mut self, fault: BusFault) {
        self.faults = (true, self.faults.1 || fault != BusFault::LoseBucket);
        match fault {
            BusFault::Down => self.server.set_down(true),
            BusFault::StopAfter(writes) => self.server.stop_after(writes.into()),
            BusFault::LoseBucket => self.server.lose(CLUSTER),
            BusFault::LateWrites(milliseconds) => self.late.store(milliseconds, Relaxed),
        }
    }

    /// Ends all faults. Late writes may still be under way.
    pub fn restore(&mut self) {
        self.server.set_down(false);
        self.late.store(0, Relaxed);
        self.faults.1 = false;
    }

    /// Ends all faults; returns whether there was one since the last call.
    pub fn end_faults(&mut self) -> bool {
        self.restore();
        std::mem::take(&mut self.faults.0)
    }

    /// Whether it has a fault.
    pub const fn has_fault(&self) -> bool {
        self.faults.1
    }

    /// Returns the results in the bucket; `None` if there are none.
    ///
    /// # Errors
    ///
    /// If a value cannot be read.
    pub fn result(&self) -> anyhow::Result<Option<AuditResult>> {
        self.server.result(CLUSTER).map_err(anyhow::Error::msg)
    }

    /// Returns the keys in the bucket.
    pub fn keys(&self) -> Vec<String> {
        self.server.bucket(CLUSTER).into_keys().collect()
    }

    /// Returns all keys that were written, in order.
    pub fn written(&self) -> Vec<String> {
        let mut written = self.written.borrow_mut();
        written.extend(self.server.take_written());
        written.clone()
    }
}

/// The connection of one replica to the bus.
#[derive(Debug)]
pub struct BusConnection {
    server: MemoryServer,
    sender: Arc<Sender>,
}

impl BusConnection {
    /// Cuts it for good. What was sent before still arrives.
    pub fn cut(&self) {
        self.sender.is_cut.store(true, Relaxed);
    }
}

/// Sends requests, which arrive in order.
#[derive(Debug)]
struct Sender {
    late: Arc<AtomicU16>,
    is_cut: AtomicBool,
    order: Arc<Mutex<()>>,
}

impl Sender {
    /// Sends a request that arrives after `delay`, even if its sender no longer waits for the answer.
    async fn send<T: Send + 'static>(
        &self,
        delay: Duration,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, String> {
        let late = || "the server did not answer in time".to_owned();
        if self.is_cut.load(Relaxed) {
            sleep(TIMEOUT).await;
            return Err(late());
        }
        let (order, arrival) = (Arc::clone(&self.order), Instant::now() + delay);
        let answer = tokio::spawn(async move {
            let _turn = order.lock().await;
            sleep_until(arrival).await;
            request.await
        });
        timeout(TIMEOUT, answer).await.map_err(|_elapsed| late())?.map_err(|error| error.to_string())
    }
}

impl BucketServer for BusConnection {
    fn open<'s>(&'s self, cluster: &'s str) -> BoxFuture<'s, Result<Box<dyn ClusterBucket>, String>> {
        let (server, cluster) = (self.server.clone(), cluster.to_owned());
        let open = async move {
            let bucket = self.sender.send(Duration::ZERO, async move { server.open(&cluster).await }).await??;
            Ok(Box::new(BusBucket { bucket: bucket.into(), sender: Arc::clone(&self.sender) })
                as Box<dyn ClusterBucket>)
        };
        open.boxed()
    }
}

/// The bucket of the cluster, as a replica reads and writes it.
struct BusBucket {
    bucket: Arc<dyn ClusterBucket>,
    sender: Arc<Sender>,
}

impl ClusterBucket for BusBucket {
    fn values(&self) -> BoxFuture<'_, Result<BTreeMap<String, Kept>, String>> {
        let bucket = Arc::clone(&self.bucket);
        async { self.sender.send(Duration::ZERO, async move { bucket.values().await }).await? }.boxed()
    }

    fn value<'s>(&'s self, key: &'s str) -> BoxFuture<'s, Result<Option<Kept>, String>> {
        let (bucket, key) = (Arc::clone(&self.bucket), key.to_owned());
        async { self.sender.send(Duration::ZERO, async move { bucket.value(&key).await }).await? }.boxed()
    }

    fn write<'s>(&'s self, writes: &'s [BucketWrite]) -> BoxFuture<'s, Result<Vec<u64>, WriteError>> {
        let (bucket, writes) = (Arc::clone(&self.bucket), writes.to_vec());
        let late = Duration::from_millis(self.sender.late.load(Relaxed).into());
        let write = async move {
            let stored = self.sender.send(late, async move { bucket.write(&writes).await }).await;
            stored.map_err(WriteError::Failed)?
        };
        write.boxed()
    }
}
