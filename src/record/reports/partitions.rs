//! How the results of one namespace, or of one resource, are spread over report objects of bounded size.
//!
//! A partition holds the results whose position begins with certain bits. One that grows too large is split by the next
//! bit, and two halves that have become small are joined. So the partition of a result depends on its object and on how
//! far the namespace is split, and a change of one result rewrites one report object.
//!
//! The position is a hash of the object, then one of the result: the results of an object are neighbours, and even
//! those of a single object can be split. The bits are part of the report's name, which shows how the reports of an
//! interrupted split or merge belong together. Results are identified by their id, so that none is lost and none counts
//! twice.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Instant};

use crate::{
    audit::ledger::{Id, Violation},
    model::{digest::Digest, object::ObjectRef},
};

/// Largest partition, in bytes of its results as JSON. With the rest of the report that is below 64 KiB, far from the
/// 1.5 MiB that etcd takes, and a change of one result rewrites no more than this.
pub(super) const LARGEST: usize = 62 * 1024;
/// Two halves are joined when together they are no larger; far from [`LARGEST`], so that nothing oscillates.
const JOINED: usize = LARGEST / 2;
/// Bits of a position that the object decides.
const OBJECT_BITS: u32 = 24;

/// The position of a result among all, which decides its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ResultPosition(u128);

impl ResultPosition {
    /// Returns the first position of an object's results.
    fn of_object(object: &ObjectRef) -> Self {
        // An object that is served as two kinds has one position; ids distinguish the results of both.
        let hash = Digest::of(object.uid_or_name()).half();
        Self(hash >> (128 - OBJECT_BITS) << (128 - OBJECT_BITS))
    }

    /// Returns the position of a result of this object. It uses the last bits of an id: ids of results with the same
    /// message may differ only there.
    fn of_result(self, id: Id) -> Self {
        Self(self.0 | id.number() & (u128::MAX >> OBJECT_BITS))
    }

    /// Returns the last position of the same object's results.
    fn last(self) -> Self {
        Self(self.0 | u128::MAX >> OBJECT_BITS)
    }
}

/// The bits that all positions of a partition begin with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix {
    /// Left-aligned; the rest is zero.
    bits: u128,
    length: u32,
}

impl Prefix {
    /// Parses the digits 0 and 1 of a report's name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let all_bits = text.len() <= 128 && text.bytes().all(|byte| matches!(byte, b'0' | b'1'));
        all_bits.then(|| text.bytes().fold(Self::default(), |prefix, byte| prefix.half(byte == b'1')))
    }

    fn half(self, second: bool) -> Self {
        let bit = u128::from(second) << (127 - self.length.min(127));
        Self { bits: self.bits | bit, length: self.length + 1 }
    }

    /// Returns the prefix that this is one half of, and the other half; `None` for the empty one.
    fn whole(self) -> Option<(Self, Self)> {
        let length = self.length.checked_sub(1)?;
        let bit = 1 << (127 - length);
        let other = Self { bits: self.bits ^ bit, length: self.length };
        Some((Self { bits: self.bits & !bit, length }, other))
    }
}

/// Shows the bits as 0 and 1; nothing for the empty prefix.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bits = (0..self.length).map(|place| if self.bits >> (127 - place) & 1 == 1 { "1" } else { "0" });
        bits.try_for_each(|bit| f.write_str(bit))
    }
}

/// A result in a partition.
#[derive(Debug, Clone)]
pub(super) struct ReportedResult {
    pub(super) object: Arc<ObjectRef>,
    pub(super) violation: Violation,
    /// Its length as JSON in a report.
    pub(super) bytes: usize,
    /// Digest of that JSON.
    pub(super) content: Digest,
    /// Whether it is left out, because the server refuses reports that have it.
    pub(super) refused: bool,
}

/// The results of one report object.
#[derive(Debug, Default)]
pub(super) struct Partition {
    entries: BTreeMap<ResultPosition, ReportedResult>,
    bytes: usize,
    /// Whether the report object of the server may differ.
    pub(super) dirty: bool,
    /// The earliest time of the next write, after a recent one.
    pub(super) rests_until: Option<Instant>,
}

impl Partition {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns its results.
    pub(super) fn results(&self) -> impl Iterator<Item = (&ObjectRef, &Violation)> + Clone {
        self.entries.values().map(|entry| (&*entry.object, &entry.violation))
    }

    /// Returns the results that are written, in their order.
    pub(super) fn written(&self) -> impl Iterator<Item = (&ObjectRef, &Violation)> + Clone {
        self.entries.values().filter(|entry| !entry.refused).map(|entry| (&*entry.object, &entry.violation))
    }

    /// Whether there is nothing to write.
    pub(super) fn is_blank(&self) -> bool {
        self.written().next().is_none()
    }

    /// Leaves results that the server refuses out of the report, until they change.
    pub(super) fn leave_out(&mut self, refused: &[Id]) {
        let refused = |entry: &&mut ReportedResult| refused.contains(&entry.violation.id);
        self.entries.values_mut().filter(refused).for_each(|entry| entry.refused = true);
    }

    /// Returns how many results the server refuses.
    pub(super) fn left_out(&self) -> usize {
        self.entries.values().filter(|entry| entry.refused).count()
    }

    fn put(&mut self, position: ResultPosition, entry: ReportedResult) {
        self.bytes += entry.bytes;
        if let Some(former) = self.entries.insert(position, entry) {
            self.bytes -= former.bytes;
        }
        self.dirty = true;
    }

    fn take(&mut self, position: ResultPosition) {
        if let Some(former) = self.entries.remove(&position) {
            self.bytes -= former.bytes;
            self.dirty = true;
        }
    }

    fn absorb(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.entries.extend(other.entries);
        self.rests_until = self.rests_until.max(other.rests_until);
    }
}

/// All results of a namespace, or of one resource. Invariant: the partitions cover every position once.
#[derive(Debug)]
pub(super) struct Partitions(BTreeMap<Prefix, Partition>);

impl Default for Partitions {
    fn default() -> Self {
        Self([(Prefix::default(), Partition::default())].into())
    }
}

impl Partitions {
    /// Splits partitions until there is one with this prefix, which a report object was found to have.
    pub(super) fn split_as(&mut self, prefix: Prefix) {
        for length in 0..prefix.length {
            let kept = if length == 0 { 0 } else { prefix.bits & (u128::MAX << (128 - length)) };
            let whole = Prefix { bits: kept, length };
            if self.0.contains_key(&whole) {
                self.split(whole);
            }
        }
    }

    /// Replaces all results of an object; returns whether that changes a report.
    pub(super) fn set(&mut self, object: &ObjectRef, entries: Vec<ReportedResult>) -> bool {
        let first = ResultPosition::of_object(object);
        let mut now: BTreeMap<ResultPosition, ReportedResult> =
            entries.into_iter().map(|entry| (first.of_result(entry.violation.id), entry)).collect();
        let mut changed_prefixes = Vec::new();
        let begin = self.prefix_of(first);
        for (prefix, partition) in self.0.range_mut(begin..) {
            if prefix.bits > first.last().0 {
                break;
            }
            let identity = object.identity();
            let known =
                partition.entries.range(first..=first.last()).filter(|(_, entry)| entry.object.identity() == identity);
            let mut gone = Vec::new();
            for (position, entry) in known {
                match now.get(position) {
                    Some(same) if same.content == entry.content => {
                        now.remove(position);
                    }
                    Some(_) => {}
                    None => gone.push(*position),
                }
            }
            for position in gone {
                partition.take(position);
                changed_prefixes.push(*prefix);
            }
        }
        for (position, entry) in now {
            let prefix = self.prefix_of(position);
            if let Some(partition) = self.0.get_mut(&prefix) {
                partition.put(position, entry);
                changed_prefixes.push(prefix);
            }
        }
        changed_prefixes.dedup();
        let changed = !changed_prefixes.is_empty();
        for prefix in changed_prefixes {
            self.balance(prefix);
        }
        changed
    }

    /// Adds a result that was found in a report, unless it is there already. Does not split or join, so that written
    /// reports stay as they are.
    pub(super) fn add(&mut self, entry: ReportedResult) {
        let position = ResultPosition::of_object(&entry.object).of_result(entry.violation.id);
        let prefix = self.prefix_of(position);
        if let Some(partition) = self.0.get_mut(&prefix).filter(|partition| !partition.entries.contains_key(&position))
        {
            partition.put(position, entry);
        }
    }

    /// Splits partitions that are too large after [`Self::add`].
    pub(super) fn split_large(&mut self) {
        let all: Vec<Prefix> = self.0.keys().copied().collect();
        for prefix in all {
            self.split_if_large(prefix);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(Partition::is_empty)
    }

    pub(super) fn get_mut(&mut self, prefix: Prefix) -> Option<&mut Partition> {
        self.0.get_mut(&prefix)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Prefix, &Partition)> {
        self.0.iter().map(|(prefix, partition)| (*prefix, partition))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Prefix, &mut Partition)> {
        self.0.iter_mut().map(|(prefix, partition)| (*prefix, partition))
    }

    /// Returns the prefix of the partition that a position is in: the last that does not begin after it.
    fn prefix_of(&self, position: ResultPosition) -> Prefix {
        let behind = Prefix { bits: position.0, length: 128 };
        self.0.range(..=behind).next_back().map(|(prefix, _)| *prefix).unwrap_or_default()
    }

    fn balance(&mut self, mut prefix: Prefix) {
        if self.split_if_large(prefix) {
            return;
        }
        while let Some((whole, other)) = prefix.whole() {
            let bytes = |half: &Prefix| self.0.get(half).map(|partition| partition.bytes);
            let (Some(mine), Some(others)) = (bytes(&prefix), bytes(&other)) else { return };
            if mine + others > JOINED {
                return;
            }
            let mut joined = Partition::default();
            [prefix, other].iter().filter_map(|half| self.0.remove(half)).for_each(|half| joined.absorb(half));
            joined.dirty = true;
            self.0.insert(whole, joined);
            prefix = whole;
        }
    }

    fn split_if_large(&mut self, prefix: Prefix) -> bool {
        let is_large = |partition: &Partition| partition.bytes > LARGEST && partition.entries.len() > 1;
        let split = self.0.get(&prefix).is_some_and(is_large) && prefix.length < 128;
        if split {
            for half in self.split(prefix) {
                self.split_if_large(half);
            }
        }
        split
    }

    fn split(&mut self, prefix: Prefix) -> [Prefix; 2] {
        let halves = [prefix.half(false), prefix.half(true)];
        let mut first = self.0.remove(&prefix).unwrap_or_default();
        let rests_until = first.rests_until;
        let second = first.entries.split_off(&ResultPosition(halves[1].bits));
        for (half, entries) in halves.into_iter().zip([first.entries, second]) {
            let bytes = entries.values().map(|entry| entry.bytes).sum();
            self.0.insert(half, Partition { dirty: true, entries, bytes, rests_until });
        }
        halves
    }
}

#[cfg(test)]
mod tests;
