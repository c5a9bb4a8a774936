//! One connection to the bucket: what it has, and what is written next.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    claim,
    settings::{MirrorSettings, RECORDER},
    values::{MirroredValues, PartCounts, values},
};
use crate::{
    audit::{
        command::{Snapshot, ask},
        overview::{Overview, Progress},
    },
    blocking::spawn_blocking,
    fleet::{
        bucket::{BucketWrite, ClusterBucket, Kept, WriteError},
        keys::{BucketItem, BucketKey},
        packed,
        state::{ClusterIdentity, Heartbeat, is_old},
    },
    model::{digest::Digest, shard::Shard},
};

/// How often a shard writes its heartbeat.
const HEARTBEAT: Duration = Duration::from_mins(1);
/// How long to wait after a change for related ones.
const TOGETHER: Duration = Duration::from_millis(20);
/// The pause between two results: at least the first, and a multiple of the time that the last one took.
const REST: (Duration, u32) = (Duration::from_millis(100), 4);
/// The longest such pause.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// How often the result is read although no violation is new or resolved.
const COUNTS_EVERY: Duration = Duration::from_secs(10);
/// Two heartbeats that are replaced within this time are the work of a kaudit that runs.
const RIVAL: Duration = Duration::from_mins(5);
/// How long resolved violations are kept, and at most how many keys of them.
const ENDED_KEPT: Duration = Duration::from_hours(7 * 24);
const MOST_ENDED: usize = 500;

/// What happened to the sessions before one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PastSessions {
    /// How many failed in a row.
    pub(super) failures: u32,
    pub(super) rival: Rival,
}

/// What is known of another kaudit with the same identity.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rival {
    /// When it last replaced a heartbeat.
    seen: Option<Instant>,
    /// Whether it replaced another one within [`RIVAL`] before that, so that it must be running.
    is_certain: bool,
}

impl Rival {
    /// Notes that it has replaced a heartbeat. A former leader may do that once.
    fn replaced(&mut self) {
        self.is_certain = self.seen.is_some_and(|seen| seen.elapsed() < RIVAL);
        self.seen = Some(Instant::now());
    }
}

/// A connection to the bucket.
pub(super) struct MirrorSession<'s> {
    settings: &'s MirrorSettings,
    overview: watch::Receiver<Option<Arc<Overview>>>,
    progress: watch::Receiver<Progress>,
    delta_recorded: watch::Receiver<()>,
    bucket: Box<dyn ClusterBucket>,
    identity: ClusterIdentity,
    /// The digest of the JSON at each key of this shard.
    written: BTreeMap<BucketKey, Digest>,
    /// The digest of the state without counts, and when the state was written.
    steady_state: Option<(Digest, Instant)>,
    /// The sequence of the heartbeat; 0 if there is none.
    heartbeat: u64,
    rival: Rival,
    next_heartbeat: Instant,
    /// When the bucket is read again, if that is still to be done: a leader before this one may have written after the
    /// first time.
    verification: Option<Instant>,
    /// The keys of resolved violations, the oldest first.
    ended: VecDeque<BucketKey>,
    /// The time in microseconds until which resolved violations are written.
    ended_until: i64,
    /// The keys that shards of another number of shards have left.
    former: BTreeMap<Shard, Vec<String>>,
    began: Timestamp,
}

impl<'s> MirrorSession<'s> {
    /// Connects, claims the bucket and reads it. After a session that failed, the first heartbeat is written after the
    /// results: as long as those cannot be written, the cluster must not look live.
    ///
    /// To another kaudit with the same identity the bucket is left as long as that writes heartbeats.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(super) async fn open(
        settings: &'s MirrorSettings,
        client: &Client,
        overview: watch::Receiver<Option<Arc<Overview>>>,
        past: PastSessions,
    ) -> Result<Self, String> {
        let identity = claim::own(settings, client).await?;
        let bucket = settings.servers.open(&settings.cluster).await?;
        let now = Instant::now();
        let mut session = Self {
            settings,
            overview,
            progress: settings.progress.clone(),
            delta_recorded: settings.delta_recorded.clone(),
            bucket,
            identity,
            written: BTreeMap::new(),
            steady_state: None,
            heartbeat: 0,
            rival: past.rival,
            next_heartbeat: now,
            verification: Some(now + HEARTBEAT),
            ended: VecDeque::new(),
            ended_until: i64::MIN,
            former: BTreeMap::new(),
            began: Timestamp::now(),
        };
        session.read().await?;
        if past.failures == 0 {
            session.beat().await?;
        }
        Ok(session)
    }

    /// Mirrors until the pipeline ends.
    ///
    /// # Errors
    /// What failed.
    pub(super) async fn run(&mut self) -> Result<(), String> {
        let mut known = None;
        loop {
            let start = Instant::now();
            self.overview.mark_unchanged();
            self.delta_recorded.mark_unchanged();
            self.progress.mark_unchanged();
            match ask(&self.settings.pipeline, known).await {
                Some(Some(snapshot)) => {
                    known = Some(snapshot.revision);
                    self.mirror(snapshot).await?;
                }
                Some(None) => {}
                None => return Ok(()),
            }
            if Instant::now() >= self.next_heartbeat {
                if self.verification.take_if(|due| *due <= Instant::now()).is_some() {
                    self.read().await?;
                    known = None;
                }
                self.beat().await?;
            }
            sleep((start.elapsed() * REST.1).clamp(REST.0, LONGEST_REST)).await;
            let settled = self.progress.borrow().open;
            tokio::select! {
                changed = self.delta_recorded.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    sleep(TOGETHER).await;
                }
                changed = self.progress.changed(), if !settled => if changed.is_err() { return Ok(()) },
                () = sleep(COUNTS_EVERY) => {}
                () = sleep_until(self.next_heartbeat) => {}
            }
        }
    }

    /// Reads what the bucket has.
    async fn read(&mut self) -> Result<(), String> {
        let values = self.bucket.values().await?;
        claim::claim(self.settings, &self.identity, &*self.bucket, &values, self.rival.is_certain).await?;
        self.rival.is_certain = false;
        self.written.clear();
        self.ended.clear();
        self.former.clear();
        (self.steady_state, self.heartbeat) = (None, 0);
        for (text, kept) in values {
            let Some(key) = BucketKey::parse(&text) else { continue };
            if key.shard != self.settings.shard {
                self.note_former(&key, text);
                continue;
            }
            match key.item {
                BucketItem::Heartbeat => self.heartbeat = kept.sequence,
                BucketItem::Ended(until) => {
                    self.ended_until = self.ended_until.max(until);
                    self.ended.push_back(key);
                }
                BucketItem::State | BucketItem::Policies | BucketItem::Results(_) => {
                    self.written.insert(key, digest(&kept));
                }
            }
        }
        self.ended.make_contiguous().sort();
        Ok(())
    }

    /// Notes a key of another shard, if this shard has to delete it when the number of shards has changed.
    fn note_former(&mut self, key: &BucketKey, text: String) {
        let own = self.settings.shard;
        if own.owns(None) && key.shard.count() != own.count() {
            self.former.entry(key.shard).or_default().push(text);
        }
    }

    fn key(&self, item: BucketItem) -> BucketKey {
        BucketKey { shard: self.settings.shard, item }
    }

    /// Writes the heartbeat, and deletes what shards of another number of shards have left.
    async fn beat(&mut self) -> Result<(), String> {
        let heartbeat = Heartbeat { at: Timestamp::now(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let key = self.key(BucketItem::Heartbeat);
        let write = BucketWrite { replaces: Some(self.heartbeat), ..BucketWrite::put(key, packed::json(&heartbeat)?) };
        let written = self.bucket.write(&[write]).await;
        if matches!(written, Err(WriteError::Replaced)) {
            self.rival.replaced();
        }
        self.heartbeat = self.counted(written, 1)?.last().copied().unwrap_or_default();
        self.next_heartbeat = Instant::now() + HEARTBEAT;
        for (shard, keys) in std::mem::take(&mut self.former) {
            let heartbeat = BucketKey { shard, item: BucketItem::Heartbeat };
            let last = self.bucket.value(&heartbeat.to_string()).await?;
            if last.is_some_and(|last| !is_old(last.at, Timestamp::now())) {
                self.former.insert(shard, keys);
            } else {
                self.write(keys.into_iter().map(BucketWrite::delete).collect()).await?;
            }
        }
        Ok(())
    }

    /// Writes what differs from a snapshot.
    async fn mirror(&mut self, snapshot: Snapshot) -> Result<(), String> {
        let MirroredValues { state, steady_state, policies, results, ended } = self.values(snapshot).await?;
        let mut writes = Vec::new();
        let mut digests = Vec::new();
        let mut put = |key: BucketKey, json: Vec<u8>| {
            let digest = Digest::of(&json);
            if self.written.get(&key) != Some(&digest) {
                writes.push(BucketWrite::put(&key, packed::pack(&json)?));
                digests.push((key, digest));
            }
            Ok::<_, String>(())
        };
        put(self.key(BucketItem::Policies), policies)?;
        // Before everything has been evaluated, the results of the last run stay.
        let gone: Vec<BucketKey> = match &results {
            Some(results) => {
                let is_gone =
                    |key: &&BucketKey| matches!(key.item, BucketItem::Results(_)) && !results.contains_key(*key);
                self.written.keys().filter(is_gone).cloned().collect()
            }
            None => Vec::new(),
        };
        // New parts before old ones are deleted: followers may see a result twice for a moment, but never miss one.
        results.into_iter().flatten().try_for_each(|(key, json)| put(key, json))?;
        let steady = Digest::of(&steady_state);
        let is_due = self.steady_state.is_none_or(|(known, at)| known != steady || at.elapsed() >= HEARTBEAT);
        if is_due {
            put(self.key(BucketItem::State), state)?;
            self.steady_state = Some((steady, Instant::now()));
        }
        if let Some((until, json)) = ended {
            let key = self.key(BucketItem::Ended(until));
            writes.push(BucketWrite { expires: Some(ENDED_KEPT), ..BucketWrite::put(&key, packed::pack(&json)?) });
            self.ended.push_back(key);
            self.ended_until = until;
        }
        let surplus = self.ended.len().saturating_sub(MOST_ENDED);
        writes.extend(self.ended.drain(..surplus).map(BucketWrite::delete));
        writes.extend(gone.iter().map(BucketWrite::delete));
        self.write(writes).await?;
        self.written.extend(digests);
        for key in &gone {
            self.written.remove(key);
        }
        Ok(())
    }

    /// Makes the values for a snapshot.
    async fn values(&self, snapshot: Snapshot) -> Result<MirroredValues, String> {
        let settings = self.settings.clone();
        let (progress, overview) = (self.progress.borrow().clone(), self.overview.borrow().clone());
        let (parts, ended_until, began) = (self.part_counts(), self.ended_until, self.began);
        let made = spawn_blocking(move || {
            let context = (&progress, overview.as_deref());
            values(&settings, (snapshot, began), context, (&parts, ended_until))
        });
        made.await.map_err(|_panicked| "the values of the bucket cannot be made, which is a bug".to_owned())?
    }

    /// Returns the numbers of parts that the bucket has.
    fn part_counts(&self) -> PartCounts {
        let results = self.written.keys().filter_map(|key| match &key.item {
            BucketItem::Results(part) => Some((part.place.clone(), part.parts)),
            _ => None,
        });
        results.collect()
    }

    /// Returns what is known of another kaudit with the same identity.
    pub(super) fn rival(&self) -> Rival {
        self.rival
    }

    async fn write(&self, writes: Vec<BucketWrite>) -> Result<Vec<u64>, String> {
        let written = self.bucket.write(&writes).await;
        self.counted(written, writes.len())
    }

    /// Counts values that were written.
    fn counted(&self, written: Result<Vec<u64>, WriteError>, count: usize) -> Result<Vec<u64>, String> {
        let written = written.map_err(|error| match error {
            WriteError::Replaced => "another kaudit writes into the bucket, or it was created again".to_owned(),
            WriteError::Failed(why) => why,
        })?;
        for _ in 0..count {
            self.settings.metrics.recorder_wrote(RECORDER);
        }
        Ok(written)
    }
}

/// Returns the digest of the JSON of a value; that of nothing if it is damaged, so that it is written again.
fn digest(kept: &Kept) -> Digest {
    packed::unpack(&kept.value).map(Digest::of).unwrap_or_default()
}
