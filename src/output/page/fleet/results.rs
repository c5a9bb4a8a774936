//! The results of one page of a list, the only ones that are unpacked for it; and all results, one after the other.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    io,
    ops::Range,
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    counts::FleetCounts,
    selection::{FleetSelection, SelectedCluster},
    tally::{CLASSES, class},
};
use crate::audit::result::Entry;

/// A result of a cluster.
pub(super) struct ListedResult {
    /// The index of its cluster in the selection.
    pub(super) cluster: usize,
    pub(super) entry: Entry,
    /// When it was resolved; `None` for an open one.
    pub(super) ended: Option<Timestamp>,
}

/// Where a result is: the index of its cluster, whether it is in the parts with resolved violations, the index of the part,
/// and of the row.
type ResultPlace = (usize, bool, usize, usize);

impl<'v> FleetSelection<'v> {
    /// Returns the results with these indices in a list of all, the most urgent first.
    pub(super) fn results(&self, counts: &FleetCounts<'v>, range: Range<usize>) -> Vec<ListedResult> {
        let mut next: [usize; CLASSES] = [0; CLASSES];
        let mut sum = 0;
        for (next, count) in next.iter_mut().zip(counts.total.classes) {
            *next = sum;
            sum += count;
        }
        let mut places: Vec<(usize, ResultPlace)> = Vec::new();
        for (index, (cluster, of_cluster)) in self.clusters.iter().zip(&counts.clusters).enumerate() {
            let is_shown = |(next, count): (&usize, &usize)| *next < range.end && next + count > range.start;
            if next.iter().zip(&of_cluster.classes).any(is_shown) {
                for (part, at, row) in cluster.rows(&self.filter) {
                    let number = &mut next[class(row)];
                    if range.contains(number) {
                        places.push((*number, (index, false, part, at)));
                    }
                    *number += 1;
                }
            } else {
                next.iter_mut().zip(of_cluster.classes).for_each(|(next, count)| *next += count);
            }
        }
        places.sort_unstable();
        self.unpacked(places.into_iter().map(|(_, place)| place))
    }

    /// Returns the `most` latest changes, the latest first.
    pub(super) fn changes(&self, counts: &FleetCounts<'v>, most: usize) -> Vec<ListedResult> {
        // The top is the earliest of the latest.
        let mut latest: BinaryHeap<(Reverse<u32>, ResultPlace)> = BinaryHeap::new();
        let mut take = |at: u32, place: ResultPlace| {
            let change = (Reverse(at), place);
            if latest.len() < most {
                latest.push(change);
            } else if let Some(mut top) = latest.peek_mut().filter(|top| change < **top) {
                *top = change;
            }
            if latest.len() < most { None } else { latest.peek().map(|(Reverse(at), _)| *at) }
        };
        let mut clusters: Vec<usize> = (0..self.clusters.len()).collect();
        clusters.sort_by_key(|index| Reverse(counts.clusters[*index].changed));
        let mut least = None;
        for index in clusters {
            let changed = counts.clusters[index].changed;
            if changed == 0 || least.is_some_and(|least| changed < least) {
                break;
            }
            let cluster = &self.clusters[index];
            for (part, at, row) in cluster.rows(&self.filter).filter(|(.., row)| self.filter.is_new(row)) {
                least = take(row.since, (index, false, part, at));
            }
            for (part, at, row) in cluster.ended_rows(self.query, &self.filter) {
                least = take(row.since, (index, true, part, at));
            }
        }
        self.unpacked(latest.into_sorted_vec().into_iter().map(|(_, place)| place))
    }

    /// Unpacks results, each part once.
    fn unpacked(&self, places: impl Iterator<Item = ResultPlace>) -> Vec<ListedResult> {
        let mut parts: BTreeMap<(usize, bool, usize), BTreeMap<usize, usize>> = BTreeMap::new();
        for (order, (cluster, is_ended, part, row)) in places.enumerate() {
            parts.entry((cluster, is_ended, part)).or_default().insert(row, order);
        }
        let mut results: Vec<(usize, ListedResult)> = Vec::new();
        for ((cluster, is_ended, part), rows) in parts {
            let SelectedCluster { parts, ended, .. } = &self.clusters[cluster];
            let Ok(entries) = (if is_ended { ended } else { parts })[part].part.entries(None) else { continue };
            let shown = entries.enumerate().filter_map(|(row, (entry, ended))| {
                Some((*rows.get(&row)?, ListedResult { cluster, entry, ended: ended.filter(|_| is_ended) }))
            });
            results.extend(shown);
        }
        results.sort_by_key(|(order, _)| *order);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Passes on all results, by cluster and namespace, each with its cluster; only one part is in memory at a time.
    ///
    /// # Errors
    /// If `each` fails, or if a part is damaged, which one that was read is not.
    pub(super) fn each_result(&self, mut each: impl FnMut(&Entry) -> io::Result<()>) -> io::Result<()> {
        for cluster in &self.clusters {
            let mut rows = cluster.rows(&self.filter).peekable();
            while let Some((part, ..)) = rows.peek().copied() {
                let name = Arc::clone(&cluster.cluster.name);
                let entries = cluster.parts[part].part.entries(Some(name)).map_err(io::Error::other)?;
                for (row, (entry, _)) in entries.enumerate() {
                    if rows.next_if(|(of, at, _)| (*of, *at) == (part, row)).is_some() {
                        each(&entry)?;
                    }
                }
                // Rows without an entry, of which there are none.
                while rows.next_if(|(of, ..)| *of == part).is_some() {}
            }
        }
        Ok(())
    }
}
