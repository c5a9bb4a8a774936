use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::model::verdict::Finding;

fn reference(uid: &str) -> Arc<ObjectRef> {
    Arc::new(ObjectRef {
        cluster: None,
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: Some("shop".into()),
        name: uid.into(),
        uid: uid.into(),
    })
}

fn entry(object: &Arc<ObjectRef>, number: usize, bytes: usize) -> ReportedResult {
    let violation = Violation::new(object, Finding::sample(&number.to_string()), Timestamp::UNIX_EPOCH);
    let content = Digest::of(format!("{violation:?}"));
    ReportedResult { object: Arc::clone(object), violation, bytes, content, refused: false }
}

fn ids(partitions: &Partitions) -> Vec<String> {
    let mut ids: Vec<String> = partitions
        .iter()
        .flat_map(|(_, partition)| {
            partition.results().map(|(_, violation)| violation.id.to_string()).collect::<Vec<_>>()
        })
        .collect();
    ids.sort();
    ids
}

/// Checks that the partitions cover every position once and have the size they record, and that none is too large.
fn check(partitions: &Partitions) {
    let mut begin = 0u128;
    for (index, (prefix, partition)) in partitions.0.iter().enumerate() {
        assert!(index == 0 || prefix.bits == begin, "{prefix} begins where the one before ends");
        begin = prefix.bits.wrapping_add(if prefix.length == 0 { 0 } else { 1 << (128 - prefix.length) });
        assert_eq!(partition.bytes, partition.entries.values().map(|entry| entry.bytes).sum::<usize>());
        assert!(partition.bytes <= LARGEST || partition.entries.len() == 1, "{prefix} has {} bytes", partition.bytes);
        for position in partition.entries.keys() {
            assert_eq!(partitions.prefix_of(*position), *prefix);
        }
    }
    assert_eq!(begin, 0, "the last ends at the end");
}

#[test]
fn bits_are_read_as_they_are_written() {
    for text in ["", "0", "1", "0110", &"10".repeat(64)] {
        assert_eq!(Prefix::parse(text).unwrap().to_string(), text);
    }
    assert!(Prefix::parse("012").is_none() && Prefix::parse(&"0".repeat(129)).is_none());
}

#[test]
fn a_single_object_can_fill_many_partitions() {
    let (mut partitions, one) = (Partitions::default(), reference("one"));
    partitions.set(&one, (0..3_000).map(|number| entry(&one, number, 500)).collect());
    check(&partitions);
    assert_eq!(ids(&partitions).len(), 3_000);
    let full: Vec<_> = partitions.iter().filter(|(_, partition)| !partition.is_empty()).collect();
    assert!(full.len() >= 24, "{}", full.len());
    // All results but one are removed: one partition is left.
    partitions.set(&one, vec![entry(&one, 7, 500)]);
    check(&partitions);
    assert_eq!(partitions.0.len(), 1);
    assert!(!partitions.set(&one, vec![entry(&one, 7, 500)]), "nothing changed");
    assert!(partitions.set(&one, Vec::new()) && partitions.is_empty());
}

#[test]
fn results_whose_ids_follow_each_other_are_all_kept() {
    let one = reference("one");
    let mut entries = vec![entry(&one, 1, 500)];
    for details in 2..40 {
        let mut next = entry(&one, 1, 500);
        // Like results that differ only in their details.
        next.violation.id = entries.last().unwrap().violation.id.next();
        next.content = Digest::of(format!("{details}"));
        entries.push(next);
    }
    let mut wanted: Vec<String> = entries.iter().map(|entry| entry.violation.id.to_string()).collect();
    wanted.sort();
    let (mut set, mut added) = (Partitions::default(), Partitions::default());
    set.set(&one, entries.clone());
    for entry in entries {
        added.add(entry);
    }
    for partitions in [&set, &added] {
        check(partitions);
        assert_eq!(ids(partitions), wanted);
    }
}

#[test]
fn a_change_affects_one_partition() {
    let mut partitions = Partitions::default();
    for number in 0..500 {
        let one = reference(&format!("u{number}"));
        partitions.set(&one, vec![entry(&one, number, 500)]);
    }
    partitions.iter_mut().for_each(|(_, partition)| partition.dirty = false);
    let one = reference("u9");
    assert!(partitions.set(&one, vec![entry(&one, 1, 500)]));
    assert_eq!(partitions.iter().filter(|(_, partition)| partition.dirty).count(), 1);
}

/// Changes of a namespace: an object gets this many results of this size; none means that it is deleted.
fn changes() -> impl Strategy<Value = Vec<(u8, u16, u16)>> {
    prop::collection::vec((0u8..20, 0u16..60, 1_000u16..9_000), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_result_is_lost_or_doubled_by_splitting_and_joining(changes in changes()) {
        let (mut partitions, mut wanted) = (Partitions::default(), BTreeMap::new());
        for (object, results, bytes) in changes {
            let one = reference(&format!("u{object}"));
            let entries: Vec<_> = (0..results.into()).map(|number| entry(&one, number, bytes.into())).collect();
            let of_object: Vec<String> = entries.iter().map(|entry| entry.violation.id.to_string()).collect();
            wanted.insert(object, of_object);
            partitions.set(&one, entries);
            check(&partitions);
        }
        let mut wanted: Vec<String> = wanted.into_values().flatten().collect();
        wanted.sort();
        prop_assert_eq!(ids(&partitions), wanted);
    }

    /// Complete reports are read back as they were, so that nothing has to be written again.
    #[test]
    fn written_reports_are_split_the_same_way_when_read(changes in changes()) {
        let mut partitions = Partitions::default();
        for (object, results, bytes) in changes {
            let one = reference(&format!("u{object}"));
            partitions.set(&one, (0..results.into()).map(|number| entry(&one, number, bytes.into())).collect());
        }
        let mut read = Partitions::default();
        let written: Vec<_> = partitions.iter().filter(|(_, partition)| !partition.is_empty()).collect();
        for (prefix, partition) in written.iter().rev() {
            read.split_as(*prefix);
            partition.entries.values().for_each(|entry| read.add(entry.clone()));
        }
        read.split_large();
        let shape = |partitions: &Partitions| -> Vec<(Prefix, usize)> {
            partitions.iter().filter(|(_, partition)| !partition.is_empty()).map(|(prefix, partition)| (prefix, partition.entries.len())).collect()
        };
        prop_assert_eq!(shape(&read), shape(&partitions));
    }
}
