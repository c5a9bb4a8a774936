//! A delaying queue, like that of client-go's `workqueue` (`AddAfter`), with ranks.
//!
//! Entries that are due are taken by rank. Those with the same key are taken in the order in which they were added, each
//! only after the one before is done.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Instant,
};

/// An entry of a queue.
#[derive(Debug)]
pub(super) struct QueueEntry<K, R, V> {
    pub(super) key: K,
    /// Among the entries that are due, the lowest rank is first.
    pub(super) rank: R,
    pub(super) value: V,
    due: Instant,
    /// Orders entries that are equal otherwise; kept when an entry is put back.
    sequence: u64,
}

/// Entries that wait until they are due.
#[derive(Debug)]
pub(super) struct DelayingQueue<K, R, V> {
    waiting: BTreeMap<K, VecDeque<QueueEntry<K, R, V>>>,
    /// The keys of entries that were taken and are not done.
    in_flight: BTreeSet<K>,
    /// The first entry of each other key, in `delayed` by due time, and in `ready` once that has come.
    delayed: BTreeMap<(Instant, u64), (R, K)>,
    ready: BTreeMap<(R, Instant, u64), K>,
    len: usize,
    last: u64,
}

impl<K, R, V> Default for DelayingQueue<K, R, V> {
    fn default() -> Self {
        let (waiting, in_flight) = (BTreeMap::new(), BTreeSet::new());
        Self { waiting, in_flight, delayed: BTreeMap::new(), ready: BTreeMap::new(), len: 0, last: 0 }
    }
}

impl<K: Ord + Clone, R: Ord + Copy, V> DelayingQueue<K, R, V> {
    /// Adds an entry, behind those with the same key.
    pub(super) fn push(&mut self, key: &K, rank: R, value: V, due: Instant) {
        self.last += 1;
        self.len += 1;
        let entry = QueueEntry { key: key.clone(), rank, value, due, sequence: self.last };
        let line = self.line(key);
        line.push_back(entry);
        if line.len() == 1 {
            self.place(key);
        }
    }

    /// Returns when the next entry can be taken, and its rank; `None` if all wait for others of their key, or none waits.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Instant, R)> {
        self.wake(now);
        let delayed = || self.delayed.first_key_value().map(|((due, _), (rank, _))| (*due, *rank));
        self.ready.first_key_value().map(|((rank, ..), _)| (now, *rank)).or_else(delayed)
    }

    /// Takes the next entry that is due, which must then be put back or done.
    pub(super) fn pop(&mut self, now: Instant) -> Option<QueueEntry<K, R, V>> {
        self.wake(now);
        let (_, key) = self.ready.pop_first()?;
        self.in_flight.insert(key.clone());
        self.remove(&key, 0)
    }

    /// Puts an entry that was taken back, before those with the same key, to wait until `due`.
    pub(super) fn put_back(&mut self, entry: QueueEntry<K, R, V>, due: Instant) {
        let key = entry.key.clone();
        self.line(&key).push_front(QueueEntry { due, ..entry });
        self.len += 1;
        self.done(&key);
    }

    /// Lets the next entry with this key be taken.
    pub(super) fn done(&mut self, key: &K) {
        if self.in_flight.remove(key) {
            self.place(key);
        }
    }

    /// Removes the last waiting entry with this key that matches.
    pub(super) fn remove_last(&mut self, key: &K, matches: impl Fn(&V) -> bool) -> Option<V> {
        let index = self.waiting.get(key)?.iter().rposition(|entry| matches(&entry.value))?;
        self.remove(key, index).map(|entry| entry.value)
    }

    /// Makes room: of the entries that are due, removes the newest one with the key that would be taken last.
    pub(super) fn pop_last(&mut self, now: Instant) -> Option<V> {
        self.wake(now);
        let key = self.ready.last_key_value()?.1.clone();
        self.remove_last(&key, |_| true)
    }

    /// Makes all waiting entries due.
    pub(super) fn expedite(&mut self, now: Instant) {
        self.wake(now);
        self.waiting.values_mut().flatten().for_each(|entry| entry.due = entry.due.min(now));
        let delayed = std::mem::take(&mut self.delayed).into_iter();
        self.ready.extend(delayed.map(|((_, sequence), (rank, key))| ((rank, now, sequence), key)));
    }

    /// Returns how many entries wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns when the last waiting entry with this key is due.
    pub(super) fn due(&self, key: &K) -> Option<Instant> {
        Some(self.waiting.get(key)?.back()?.due)
    }

    /// Returns the keys of the entries that were taken and are not done.
    pub(super) fn in_flight(&self) -> &BTreeSet<K> {
        &self.in_flight
    }

    /// Returns the first key, not before `from`, of an entry that waits or is in flight.
    pub(super) fn first_from(&self, from: &K) -> Option<&K> {
        let waiting = self.waiting.range(from..).next().map(|(key, _)| key);
        waiting.into_iter().chain(self.in_flight.range(from..).next()).min()
    }

    /// Returns the entries that wait.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.waiting.values().flatten().map(|entry| &entry.value)
    }

    fn line(&mut self, key: &K) -> &mut VecDeque<QueueEntry<K, R, V>> {
        // Most keys have one entry.
        self.waiting.entry(key.clone()).or_insert_with(|| VecDeque::with_capacity(1))
    }

    fn remove(&mut self, key: &K, index: usize) -> Option<QueueEntry<K, R, V>> {
        let line = self.waiting.get_mut(key)?;
        let entry = line.remove(index)?;
        if line.is_empty() {
            self.waiting.remove(key);
        }
        self.len -= 1;
        if index == 0 {
            self.delayed.remove(&(entry.due, entry.sequence));
            self.ready.remove(&(entry.rank, entry.due, entry.sequence));
            self.place(key);
        }
        Some(entry)
    }

    /// Adds the first entry of a key that is not in flight to those that can be taken.
    fn place(&mut self, key: &K) {
        if let Some(entry) = self.waiting.get(key).and_then(VecDeque::front)
            && !self.in_flight.contains(key)
        {
            self.delayed.insert((entry.due, entry.sequence), (entry.rank, key.clone()));
        }
    }

    fn wake(&mut self, now: Instant) {
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let ((due, sequence), (rank, key)) = first.remove_entry();
            self.ready.insert((rank, due, sequence), key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{prelude::*, sample::Index};

    use super::*;

    #[derive(Debug, Clone)]
    enum QueueOperation {
        Push { key: u8, rank: u8, delay: u8 },
        Pop,
        PutBack { taken: Index, delay: u8 },
        Done { taken: Index },
        RemoveLast { key: u8, parity: u64 },
        PopLast,
        Expedite,
        Wait(u8),
    }

    fn operations() -> impl Strategy<Value = Vec<QueueOperation>> {
        use QueueOperation::{Done, Expedite, Pop, PopLast, Push, PutBack, RemoveLast, Wait};
        let (key, rank, delay) = (0..4_u8, 0..3_u8, 0..5_u8);
        let operation = prop_oneof![
            6 => (key.clone(), rank, delay.clone()).prop_map(|(key, rank, delay)| Push { key, rank, delay }),
            6 => Just(Pop),
            3 => (any::<Index>(), delay.clone()).prop_map(|(taken, delay)| PutBack { taken, delay }),
            3 => any::<Index>().prop_map(|taken| Done { taken }),
            2 => (key, 0..2_u64).prop_map(|(key, parity)| RemoveLast { key, parity }),
            1 => Just(PopLast),
            1 => Just(Expedite),
            3 => delay.prop_map(Wait),
        ];
        prop::collection::vec(operation, 0..80)
    }

    /// A queue as a list: all waiting entries, those of each key in the order of its line.
    #[derive(Default)]
    struct ListedEntries {
        waiting: Vec<ListedEntry>,
        in_flight: Vec<u8>,
    }

    /// An entry whose value is its sequence number.
    #[derive(Debug, Clone, PartialEq)]
    struct ListedEntry {
        key: u8,
        rank: u8,
        due: Instant,
        value: u64,
    }

    impl ListedEntries {
        /// Returns the entries that wait for no other of their key.
        fn first(&self) -> impl Iterator<Item = &ListedEntry> {
            self.waiting.iter().enumerate().filter_map(|(index, entry)| {
                let is_behind = self.waiting[..index].iter().any(|earlier| earlier.key == entry.key);
                (!is_behind && !self.in_flight.contains(&entry.key)).then_some(entry)
            })
        }

        /// Returns the entries that can be taken, in order.
        fn ready(&self, now: Instant) -> Vec<ListedEntry> {
            let mut ready: Vec<_> = self.first().filter(|entry| entry.due <= now).cloned().collect();
            ready.sort_by_key(|entry| (entry.rank, entry.due, entry.value));
            ready
        }

        /// Returns the last waiting entry with this key that matches.
        fn last(&self, key: u8, matches: impl Fn(&u64) -> bool) -> Option<&ListedEntry> {
            self.waiting.iter().rfind(|entry| entry.key == key && matches(&entry.value))
        }

        fn next(&self, now: Instant) -> Option<(Instant, u8)> {
            let delayed = || self.first().min_by_key(|entry| (entry.due, entry.value));
            let ready = self.ready(now).first().map(|entry| (now, entry.rank));
            ready.or_else(|| delayed().map(|entry| (entry.due, entry.rank)))
        }

        fn remove(&mut self, value: u64) {
            self.waiting.retain(|entry| entry.value != value);
        }

        fn done(&mut self, key: u8) {
            self.in_flight.retain(|other| *other != key);
        }
    }

    proptest! {
        #[test]
        fn a_queue_is_a_list_of_entries(operations in operations()) {
            let (mut queue, mut list, mut taken) = (DelayingQueue::default(), ListedEntries::default(), Vec::new());
            let (mut now, mut last) = (Instant::now(), 0);
            let after = |now: Instant, delay: u8| now + Duration::from_secs(delay.into());
            for operation in operations {
                match operation {
                    QueueOperation::Push { key, rank, delay } => {
                        last += 1;
                        let due = after(now, delay);
                        list.waiting.push(ListedEntry { key, rank, due, value: last });
                        queue.push(&key, rank, last, due);
                    }
                    QueueOperation::Pop => {
                        let (expected, entry) = (list.ready(now).first().cloned(), queue.pop(now));
                        let listed = |entry: &QueueEntry<u8, u8, u64>| {
                            ListedEntry { key: entry.key, rank: entry.rank, due: entry.due, value: entry.value }
                        };
                        prop_assert_eq!(entry.as_ref().map(listed), expected.clone());
                        if let Some(ListedEntry { key, value, .. }) = expected {
                            list.remove(value);
                            list.in_flight.push(key);
                        }
                        taken.extend(entry);
                    }
                    QueueOperation::PutBack { .. } | QueueOperation::Done { .. } if taken.is_empty() => {}
                    QueueOperation::PutBack { taken: index, delay } => {
                        let (entry, due) = (taken.remove(index.index(taken.len())), after(now, delay));
                        let QueueEntry { key, rank, value, .. } = entry;
                        list.done(key);
                        list.waiting.insert(0, ListedEntry { key, rank, due, value });
                        queue.put_back(entry, due);
                    }
                    QueueOperation::Done { taken: index } => {
                        let key = taken.remove(index.index(taken.len())).key;
                        list.done(key);
                        queue.done(&key);
                    }
                    QueueOperation::RemoveLast { key, parity } => {
                        let matches = |value: &u64| value % 2 == parity;
                        let removed = list.last(key, matches).map(|entry| entry.value);
                        if let Some(value) = removed {
                            list.remove(value);
                        }
                        prop_assert_eq!(queue.remove_last(&key, matches), removed);
                    }
                    QueueOperation::PopLast => {
                        let last = list.ready(now).last().map(|entry| entry.key);
                        let removed = last.and_then(|key| list.last(key, |_| true)).map(|entry| entry.value);
                        if let Some(value) = removed {
                            list.remove(value);
                        }
                        prop_assert_eq!(queue.pop_last(now), removed);
                    }
                    QueueOperation::Expedite => {
                        list.waiting.iter_mut().for_each(|entry| entry.due = entry.due.min(now));
                        queue.expedite(now);
                    }
                    QueueOperation::Wait(delay) => now = after(now, delay),
                }
                let keys: BTreeSet<u8> = list.waiting.iter().map(|entry| entry.key).chain(list.in_flight.clone()).collect();
                for key in 0..4 {
                    let due = list.last(key, |_| true).map(|entry| entry.due);
                    prop_assert_eq!((queue.due(&key), queue.first_from(&key)), (due, keys.range(key..).next()));
                }
                prop_assert_eq!((queue.next(now), queue.len()), (list.next(now), list.waiting.len()));
                prop_assert!(queue.in_flight().iter().eq(&BTreeSet::from_iter(list.in_flight.clone())));
            }
        }
    }
}
