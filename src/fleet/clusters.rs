//! The clusters of a fleet as their buckets describe them, in little memory: results stay compressed, with one
//! [`Row`] each for counting and selecting.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hyper::body::Bytes;
use jiff::Timestamp;

use super::{
    bucket::Kept,
    keys::{Item, Key, ResultsPart},
    names::Names,
    packed,
    part::StoredPart,
    state::{ClusterState, Heartbeat},
};
use crate::{
    audit::result::{Entry, PolicySummary},
    model::verdict::{Outcome, Severity},
};

/// What is needed of a result to count and to select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The number of its rule in [`Names`].
    pub(crate) rule: u32,
    /// When it was first seen, or when it was resolved, in seconds since 1970; 0 if that is not known.
    pub(crate) since: u32,
    /// The number of its object in the part.
    pub(crate) object: u32,
    /// The number of the kind of its topmost owner in [`Names`].
    pub(crate) kind: u16,
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
    pub(crate) rows: Box<[Row]>,
    /// The namespaces of the objects, by number; empty in a part of one place, which its key names.
    places: Box<[Option<Arc<str>>]>,
}

/// What one shard of a cluster has written.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShardView {
    /// The last heartbeat, and when the server stored it.
    pub(crate) heartbeat: Option<(Heartbeat, Timestamp)>,
    pub(crate) state: Option<Arc<ClusterState>>,
    pub(crate) policies: Option<Arc<[PolicySummary]>>,
    pub(crate) parts: BTreeMap<ResultsPart, Arc<Part>>,
    /// Resolved violations, by the time in microseconds until which they are.
    pub(crate) ended: BTreeMap<i64, Arc<Part>>,
}

/// One cluster.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) name: Arc<str>,
    /// Whether the bucket was read to its end.
    pub(crate) is_read: bool,
    /// Why the bucket, or a part of it, cannot be read; empty if it can.
    pub(crate) problem: String,
    /// Grows with each change, except for heartbeats.
    pub(crate) revision: u64,
    /// All shards, also those of another number of shards, by `I-N`.
    shards: BTreeMap<Arc<str>, ShardView>,
}

impl Part {
    /// Reads a part.
    ///
    /// # Errors
    /// If it is damaged.
    fn new(packed: &Bytes, names: &mut Arc<Names>) -> Result<Self, String> {
        let stored: StoredPart = packed::read(packed)?;
        Ok(Self { packed: packed.to_vec().into(), rows: Self::rows(&stored, names), places: Box::default() })
    }

    /// Reads a part with results of several places.
    ///
    /// # Errors
    /// If it is damaged.
    fn of_places(packed: &Bytes, names: &mut Arc<Names>) -> Result<Self, String> {
        let stored: StoredPart = packed::read(packed)?;
        let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
        let places = stored.objects().iter().map(|object| {
            let place = object.resource.namespace.clone()?;
            known.insert(Arc::clone(&place));
            known.get(&place).cloned()
        });
        let places = places.collect();
        Ok(Self { packed: packed.to_vec().into(), rows: Self::rows(&stored, names), places })
    }

    fn rows(stored: &StoredPart, names: &mut Arc<Names>) -> Box<[Row]> {
        let rules: Vec<u32> = stored.rules().iter().map(|rule| Names::rule(names, rule)).collect();
        let mut rows = Vec::new();
        for (object, number) in stored.objects().iter().zip(0..) {
            let kind = Names::kind(names, object.owner.as_ref().unwrap_or(&object.resource));
            let results = object.results.iter().filter(|result| stored.has_excuse(result));
            rows.extend(results.filter_map(|result| {
                let at = result.ended.or(result.since).map_or(0, Timestamp::as_second);
                Some(Row {
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
    pub(crate) fn place(&self, row: &Row) -> Option<&Arc<str>> {
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
    #[cfg(test)]
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
        item: Item,
        value: Option<(&Bytes, Timestamp)>,
        names: &mut Arc<Names>,
    ) -> Result<(), String> {
        match (item, value) {
            (Item::Heartbeat, value) => {
                let read = |(value, at): (&Bytes, Timestamp)| {
                    serde_json::from_slice(value).map(|heartbeat| (heartbeat, at)).map_err(|error| error.to_string())
                };
                self.heartbeat = value.map(read).transpose()?;
            }
            (Item::State, value) => {
                self.state = value.map(|(value, _)| packed::read(value)).transpose()?.map(Arc::new);
            }
            (Item::Policies, value) => {
                self.policies = value.map(|(value, _)| Names::policies(names, value)).transpose()?;
            }
            (Item::Results(part), Some((value, _))) => {
                self.parts.insert(part, Arc::new(Part::new(value, names)?));
            }
            (Item::Results(part), None) => drop(self.parts.remove(&part)),
            (Item::Ended(until), Some((value, _))) => {
                self.ended.insert(until, Arc::new(Part::of_places(value, names)?));
            }
            (Item::Ended(until), None) => drop(self.ended.remove(&until)),
        }
        Ok(())
    }

    /// Removes what is not among these items.
    fn keep(&mut self, is_kept: impl Fn(Item) -> bool) {
        self.heartbeat.take_if(|_| !is_kept(Item::Heartbeat));
        self.state.take_if(|_| !is_kept(Item::State));
        self.policies.take_if(|_| !is_kept(Item::Policies));
        self.parts.retain(|part, _| is_kept(Item::Results(part.clone())));
        self.ended.retain(|until, _| is_kept(Item::Ended(*until)));
    }
}

impl Cluster {
    pub(crate) fn new(name: &Arc<str>) -> Self {
        Self { name: Arc::clone(name), is_read: false, problem: String::new(), revision: 0, shards: BTreeMap::new() }
    }

    /// Returns the cluster as all values of its bucket describe it. Keys of other versions of kaudit are skipped.
    ///
    /// # Errors
    /// Which value cannot be read, and why.
    pub(crate) fn read(name: &Arc<str>, values: &BTreeMap<String, Kept>) -> Result<Self, String> {
        let (mut cluster, mut names) = (Self { is_read: true, ..Self::new(name) }, Arc::default());
        for (text, kept) in values {
            let Some(Key { shard, item }) = Key::parse(text) else { continue };
            let taken = cluster.shard(shard).set(item, Some((&kept.value, kept.at)), &mut names);
            taken.map_err(|why| format!("{text} cannot be read: {why}"))?;
        }
        Ok(cluster)
    }

    /// Returns a shard, to change it.
    pub(crate) fn shard(&mut self, shard: Arc<str>) -> &mut ShardView {
        self.shards.entry(shard).or_default()
    }

    /// Removes what the bucket does not have.
    pub(crate) fn keep(&mut self, keys: &BTreeSet<Key>) {
        for (shard, view) in &mut self.shards {
            view.keep(|item| keys.contains(&Key { shard: Arc::clone(shard), item }));
        }
        self.shards.retain(|shard, _| keys.iter().any(|key| key.shard == *shard));
    }

    /// Returns the shards, of those numbers of shards that have written to the bucket, of the one that lives or lived last.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &ShardView> {
        let of = |shard: &str| shard.rsplit_once('-').map(|(_, of)| of.to_owned());
        let last = self.shards.iter().max_by_key(|(_, view)| view.heartbeat.as_ref().map(|(_, at)| *at));
        let layout = last.map(|(shard, _)| of(shard));
        self.shards.iter().filter(move |(shard, _)| Some(of(shard)) == layout).map(|(_, view)| view)
    }

    /// Returns what the shards say of the cluster.
    pub(crate) fn states(&self) -> impl Iterator<Item = &ClusterState> {
        self.shards().filter_map(|shard| shard.state.as_deref())
    }

    /// Returns the numbers of violations in the order of [`Severity::ALL`], and that of violations without a severity.
    pub(crate) fn violations(&self) -> [usize; Severity::ALL.len() + 1] {
        let mut counts = [0; Severity::ALL.len() + 1];
        let rows = self.shards().flat_map(|shard| shard.parts.values()).flat_map(|part| &part.rows);
        for row in rows.filter(|row| row.result.is_violation()) {
            counts[row.severity.map_or(Severity::ALL.len(), |severity| severity as usize)] += 1;
        }
        counts
    }

    /// Returns the time of the last heartbeat of the shard that lives least.
    pub(crate) fn heartbeat(&self) -> Option<Timestamp> {
        self.shards().filter_map(|shard| Some(shard.heartbeat.as_ref()?.1)).min()
    }

    /// Returns the versions of kaudit that wrote the last heartbeats.
    pub(crate) fn versions(&self) -> BTreeSet<&str> {
        self.shards().filter_map(|shard| Some(shard.heartbeat.as_ref()?.0.version.as_str())).collect()
    }

    /// Returns the labels of the cluster.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.shards().filter_map(|shard| shard.state.as_ref()).flat_map(|state| state.labels.clone()).collect()
    }

    /// Returns how many shards the cluster is to have.
    pub(crate) fn shards_wanted(&self) -> usize {
        let last = self.shards.iter().max_by_key(|(_, view)| view.heartbeat.as_ref().map(|(_, at)| *at));
        let wanted = last.and_then(|(shard, _)| shard.rsplit_once('-')?.1.parse().ok());
        wanted.unwrap_or(1)
    }
}
