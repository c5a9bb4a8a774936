//! The clusters of a fleet as their buckets describe them, in little memory: results stay compressed, with one
//! [`ResultRow`] each for counting and selecting.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hyper::body::Bytes;
use jiff::Timestamp;

use super::{
    bucket::Kept,
    keys::{BucketItem, BucketKey, ResultsPart},
    names::Names,
    packed,
    part::StoredPart,
    state::{ClusterState, Heartbeat},
};
use crate::{
    audit::result::{Entry, PolicySummary},
    model::{
        shard::Shard,
        verdict::{Outcome, Severity},
    },
};

/// The most values of a cluster that are read, the most memory that they may take, and the most shards. One bucket must not
/// exhaust the memory of a view of all: a few kilobytes can unpack to very much.
const MOST_VALUES: usize = 100_000;
const MOST_BYTES: usize = 128 << 20;
const MOST_SHARDS: usize = 256;
/// The most rules and kinds of a part, and the most names that a cluster may add to [`Names`], which keeps them.
const MOST_RULES: usize = 10_000;
const MOST_KINDS: usize = 1_000;
const MOST_NAMES: usize = 20_000;
/// How many problems of values are kept; with more, the cluster stays unreadable.
const MOST_PROBLEMS: usize = 1_000;

/// The fields of a result by which views count and select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResultRow {
    /// The number of its rule in [`Names`].
    pub(crate) rule: u32,
    /// When it was first seen, or when it was resolved, in seconds since 1970; 0 if that is not known.
    pub(crate) since: u32,
    /// The number of its object in the part.
    pub(crate) object: u32,
    /// The number of the kind of its topmost owner in [`Names`].
    pub(crate) kind: u32,
    pub(crate) severity: Option<Severity>,
    pub(crate) result: Outcome,
    /// It is not reported as new yet, as an owner covered it until a moment ago.
    pub(crate) is_handed_over: bool,
}

/// A part of the results in one place.
#[derive(Debug)]
pub(crate) struct Part {
    /// A compressed [`StoredPart`].
    packed: Box<[u8]>,
    pub(crate) rows: Box<[ResultRow]>,
    /// The namespaces of the objects, by number; empty in a part of one place, which its key names.
    places: Box<[Option<Arc<str>>]>,
}

/// The values of one shard of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShardView {
    /// The last heartbeat, and when the server stored it.
    pub(crate) heartbeat: Option<(Heartbeat, Timestamp)>,
    pub(crate) state: Option<Arc<ClusterState>>,
    pub(crate) policies: Option<Arc<[PolicySummary]>>,
    pub(crate) parts: BTreeMap<ResultsPart, Arc<Part>>,
    /// Resolved violations, by the time in microseconds until which they are.
    pub(crate) ended: BTreeMap<i64, Arc<Part>>,
    /// How many bytes of memory the parts take, and about how many the state and the policies.
    bytes: usize,
    state_bytes: usize,
    policies_bytes: usize,
}

/// One cluster.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) name: Arc<str>,
    /// Whether the bucket was read to its end.
    pub(crate) is_read: bool,
    /// Why the bucket cannot be read; empty if it can.
    pub(crate) bucket_problem: String,
    /// Why values cannot be read, by key.
    unreadable: BTreeMap<BucketKey, String>,
    /// How many names it has added to [`Names`].
    names_added: usize,
    /// Grows with each change, except for heartbeats.
    pub(crate) revision: u64,
    /// All shards, also those of another number of shards.
    shards: BTreeMap<Shard, ShardView>,
}

impl Part {
    /// Reads a part.
    ///
    /// # Errors
    /// If it is damaged.
    fn new(packed: &Bytes, names: &mut Arc<Names>) -> Result<Self, String> {
        let stored = Self::stored(packed)?;
        Ok(Self { packed: packed.to_vec().into(), rows: Self::rows(&stored, names), places: Box::default() })
    }

    /// Reads a part with results of several places.
    ///
    /// # Errors
    /// If it is damaged.
    fn of_places(packed: &Bytes, names: &mut Arc<Names>) -> Result<Self, String> {
        let stored = Self::stored(packed)?;
        let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
        let places = stored.objects().iter().map(|object| {
            let place = object.resource.namespace.clone()?;
            known.insert(Arc::clone(&place));
            known.get(&place).cloned()
        });
        let places = places.collect();
        Ok(Self { packed: packed.to_vec().into(), rows: Self::rows(&stored, names), places })
    }

    fn stored(packed: &Bytes) -> Result<StoredPart, String> {
        let stored: StoredPart = packed::read(packed)?;
        let kinds = stored.objects().iter().map(|object| &object.owner.as_ref().unwrap_or(&object.resource).kind);
        if stored.rules().len() > MOST_RULES || kinds.collect::<BTreeSet<_>>().len() > MOST_KINDS {
            return Err(format!("has more than {MOST_RULES} rules or {MOST_KINDS} kinds"));
        }
        Ok(stored)
    }

    fn rows(stored: &StoredPart, names: &mut Arc<Names>) -> Box<[ResultRow]> {
        let rules: Vec<u32> = stored.rules().iter().map(|rule| Names::rule(names, rule)).collect();
        let mut rows = Vec::new();
        for (object, number) in stored.objects().iter().zip(0..) {
            let kind = Names::kind(names, object.owner.as_ref().unwrap_or(&object.resource));
            let results = object.results.iter().filter(|result| stored.has_excuse(result));
            rows.extend(results.filter_map(|result| {
                let at = result.ended.or(result.since).map_or(0, Timestamp::as_second);
                Some(ResultRow {
                    rule: *rules.get(result.rule)?,
                    since: u32::try_from(at).unwrap_or_default(),
                    object: number,
                    kind,
                    severity: result.severity,
                    result: result.result,
                    is_handed_over: result.is_handed_over,
                })
            }));
        }
        rows.into()
    }

    /// Returns the namespace of a row's object in a part of several places; `None` for cluster-scoped objects.
    pub(crate) fn place(&self, row: &ResultRow) -> Option<&Arc<str>> {
        self.places.get(row.object as usize)?.as_ref()
    }

    /// Returns the results in the order of the rows, each with the time when it was resolved.
    ///
    /// # Errors
    /// If it is damaged, which a part that was read is not.
    pub(crate) fn entries(
        &self,
        cluster: Option<Arc<str>>,
    ) -> Result<impl Iterator<Item = (Entry, Option<Timestamp>)> + use<>, String> {
        Ok(packed::read::<StoredPart>(&self.packed)?.entries(cluster))
    }

    /// Returns how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.packed.len() + size_of_val(&*self.rows) + size_of_val(&*self.places)
    }
}

impl ShardView {
    /// Takes a value, or its deletion.
    ///
    /// # Errors
    /// If the value cannot be read; the last one remains.
    pub(crate) fn set(
        &mut self,
        item: BucketItem,
        value: Option<(&Bytes, Timestamp)>,
        names: &mut Arc<Names>,
    ) -> Result<(), String> {
        match (item, value) {
            (BucketItem::Heartbeat, value) => {
                let read = |(value, at): (&Bytes, Timestamp)| {
                    serde_json::from_slice(value).map(|heartbeat| (heartbeat, at)).map_err(|error| error.to_string())
                };
                self.heartbeat = value.map(read).transpose()?;
            }
            (BucketItem::State, value) => {
                let read = value.map(|(value, _)| ClusterState::read(value)).transpose()?;
                (self.state, self.state_bytes) =
                    read.map_or((None, 0), |(state, bytes)| (Some(Arc::new(state)), bytes));
            }
            (BucketItem::Policies, value) => {
                let read = value.map(|(value, _)| Names::policies(names, value)).transpose()?;
                (self.policies, self.policies_bytes) =
                    read.map_or((None, 0), |(policies, bytes)| (Some(policies), bytes));
            }
            (BucketItem::Results(part), Some((value, _))) => {
                let new = Arc::new(Part::new(value, names)?);
                self.bytes += new.bytes();
                let old = self.parts.insert(part, new);
                self.bytes -= old.map_or(0, |old| old.bytes());
            }
            (BucketItem::Results(part), None) => self.bytes -= self.parts.remove(&part).map_or(0, |old| old.bytes()),
            (BucketItem::Ended(until), Some((value, _))) => {
                let new = Arc::new(Part::of_places(value, names)?);
                self.bytes += new.bytes();
                let old = self.ended.insert(until, new);
                self.bytes -= old.map_or(0, |old| old.bytes());
            }
            (BucketItem::Ended(until), None) => self.bytes -= self.ended.remove(&until).map_or(0, |old| old.bytes()),
        }
        Ok(())
    }

    /// Removes what is not among these items.
    fn keep(&mut self, is_kept: impl Fn(BucketItem) -> bool) {
        self.heartbeat.take_if(|_| !is_kept(BucketItem::Heartbeat));
        self.state.take_if(|_| !is_kept(BucketItem::State));
        self.policies.take_if(|_| !is_kept(BucketItem::Policies));
        self.parts.retain(|part, _| is_kept(BucketItem::Results(part.clone())));
        self.ended.retain(|until, _| is_kept(BucketItem::Ended(*until)));
        self.bytes = self.parts.values().chain(self.ended.values()).map(|part| part.bytes()).sum();
    }
}

impl Cluster {
    pub(crate) fn new(name: &Arc<str>) -> Self {
        Self {
            name: Arc::clone(name),
            is_read: false,
            bucket_problem: String::new(),
            unreadable: BTreeMap::new(),
            names_added: 0,
            revision: 0,
            shards: BTreeMap::new(),
        }
    }

    /// Returns the cluster as all values of its bucket describe it. Keys of other versions of kaudit are skipped.
    ///
    /// # Errors
    /// Which value cannot be read, and why.
    pub(crate) fn read(name: &Arc<str>, values: &BTreeMap<String, Kept>) -> Result<Self, String> {
        let (mut cluster, mut names) = (Self { is_read: true, ..Self::new(name) }, Arc::default());
        for (text, kept) in values {
            let Some(key) = BucketKey::parse(text) else { continue };
            cluster.set(&key, Some((&kept.value, kept.at)), &mut names);
        }
        cluster.problem().map_or(Ok(cluster), Err)
    }

    /// Takes a value, or its deletion. If it cannot be read, the last one remains, and the cluster has a
    /// [problem](Self::problem) until another value of the key can be read.
    pub(crate) fn set(&mut self, key: &BucketKey, value: Option<(&Bytes, Timestamp)>, names: &mut Arc<Names>) {
        let known = names.count();
        let set = if value.is_some() { self.check_room(key.shard) } else { Ok(()) };
        let set = set.and_then(|()| {
            let shard = self.shards.entry(key.shard).or_default();
            shard.set(key.item.clone(), value, names)
        });
        self.names_added += names.count() - known;
        match set {
            Ok(()) => drop(self.unreadable.remove(key)),
            Err(why) if self.unreadable.len() < MOST_PROBLEMS => drop(self.unreadable.insert(key.clone(), why)),
            Err(_) => {}
        }
    }

    /// Checks that the cluster may have another value.
    fn check_room(&self, shard: Shard) -> Result<(), String> {
        let shards = self.shards.values();
        let (values, bytes) = shards.fold((0, 0), |(values, bytes), shard| {
            (
                values + shard.parts.len() + shard.ended.len(),
                bytes + shard.bytes + shard.state_bytes + shard.policies_bytes,
            )
        });
        if values >= MOST_VALUES {
            return Err(format!("the cluster has more than {MOST_VALUES} values"));
        }
        if bytes >= MOST_BYTES {
            return Err(format!("the cluster has results of more than {} MiB", MOST_BYTES >> 20));
        }
        if self.names_added >= MOST_NAMES {
            return Err(format!("the cluster has had more than {MOST_NAMES} rules and kinds"));
        }
        if self.shards.len() >= MOST_SHARDS && !self.shards.contains_key(&shard) {
            return Err(format!("the cluster has more than {MOST_SHARDS} shards"));
        }
        Ok(())
    }

    /// Says why the bucket, or a value in it, cannot be read; `None` if all can.
    pub(crate) fn problem(&self) -> Option<String> {
        if !self.bucket_problem.is_empty() {
            return Some(self.bucket_problem.clone());
        }
        let (key, why) = self.unreadable.first_key_value()?;
        let others = match self.unreadable.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        Some(format!("{key} cannot be read: {why}{others}"))
    }

    /// Whether the bucket, or a value in it, cannot be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        !self.bucket_problem.is_empty() || !self.unreadable.is_empty()
    }

    /// Removes what the bucket does not have.
    pub(crate) fn keep(&mut self, keys: &BTreeSet<BucketKey>) {
        for (shard, view) in &mut self.shards {
            view.keep(|item| keys.contains(&BucketKey { shard: *shard, item }));
        }
        let shards: BTreeSet<Shard> = keys.iter().map(|key| key.shard).collect();
        self.shards.retain(|shard, _| shards.contains(shard));
        self.unreadable.retain(|key, _| keys.contains(key));
    }

    /// Returns the shards of the present number of shards: former ones may have left values in the bucket.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &ShardView> {
        let present = self.shard_count();
        self.shards.iter().filter(move |(shard, _)| Some(shard.count()) == present).map(|(_, view)| view)
    }

    /// Returns the number of shards of the shard with the newest heartbeat.
    fn shard_count(&self) -> Option<u32> {
        let last = self.shards.iter().max_by_key(|(_, view)| view.heartbeat.as_ref().map(|(_, at)| *at));
        last.map(|(shard, _)| shard.count())
    }

    /// Whether each shard has written into the bucket.
    pub(crate) fn has_all_shards(&self) -> bool {
        self.shards().count() >= self.shard_count().unwrap_or(1) as usize
    }

    /// Returns the states of the shards.
    pub(crate) fn states(&self) -> impl Iterator<Item = &ClusterState> {
        self.shards().filter_map(|shard| shard.state.as_deref())
    }

    /// Returns the numbers of violations in the order of [`Severity::ALL`], and that of violations without a severity.
    pub(crate) fn violations(&self) -> [usize; Severity::INDICES] {
        let mut counts = [0; Severity::INDICES];
        let rows = self.shards().flat_map(|shard| shard.parts.values()).flat_map(|part| &part.rows);
        for row in rows.filter(|row| row.result.is_violation()) {
            counts[Severity::index(row.severity)] += 1;
        }
        counts
    }

    /// Returns the oldest of the last heartbeats of all shards.
    pub(crate) fn heartbeat(&self) -> Option<Timestamp> {
        self.shards().filter_map(|shard| Some(shard.heartbeat.as_ref()?.1)).min()
    }

    /// Returns the versions of kaudit that wrote the last heartbeats.
    pub(crate) fn versions(&self) -> BTreeSet<&str> {
        self.shards().filter_map(|shard| Some(shard.heartbeat.as_ref()?.0.version.as_str())).collect()
    }

    /// Returns the labels of the cluster; `None` if they are not known, because it has written no state.
    pub(crate) fn labels(&self) -> Option<BTreeMap<String, String>> {
        let mut states = self.states().peekable();
        states.peek()?;
        Some(states.flat_map(|state| state.labels.clone()).collect())
    }
}
