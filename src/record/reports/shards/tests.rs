use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::model::verdict::{Finding, Outcome, Source};

fn subject(uid: &str) -> Arc<Subject> {
    Arc::new(Subject {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: Some("shop".into()),
        name: uid.into(),
        uid: uid.into(),
    })
}

fn entry(subject: &Arc<Subject>, number: usize, bytes: usize) -> Entry {
    let finding = Finding {
        policy: "p".into(),
        rule: "deny".into(),
        outcome: Outcome::Fail,
        severity: None,
        category: None,
        message: number.to_string().into(),
        details: None,
        source: Source { file: "p.rego".into(), line: 1 },
    };
    let id = Id::new(&subject.uid, &finding);
    let violation = Violation { id, finding, since: Timestamp::UNIX_EPOCH };
    Entry { subject: Arc::clone(subject), violation, bytes }
}

fn ids(shards: &Shards) -> Vec<String> {
    let mut ids: Vec<String> = shards
        .iter()
        .flat_map(|(_, shard)| shard.results().map(|(_, violation)| violation.id.to_string()).collect::<Vec<_>>())
        .collect();
    ids.sort();
    ids
}

/// The shards cover every position once, are as large as they say, and none is too large or could be joined.
fn check(shards: &Shards) {
    let mut begin = 0u128;
    for (index, (prefix, shard)) in shards.0.iter().enumerate() {
        assert!(index == 0 || prefix.bits == begin, "{prefix} begins where the one before ends");
        begin = prefix.bits.wrapping_add(if prefix.length == 0 { 0 } else { 1 << (128 - prefix.length) });
        assert_eq!(shard.bytes, shard.entries.values().map(|entry| entry.bytes).sum::<usize>());
        assert!(shard.bytes <= LARGEST || shard.entries.len() == 1, "{prefix} has {} bytes", shard.bytes);
        for position in shard.entries.keys() {
            assert_eq!(shards.prefix_of(*position), *prefix);
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
fn one_object_alone_can_fill_many_shards() {
    let (mut shards, one) = (Shards::default(), subject("one"));
    shards.set(&one, (0..3_000).map(|number| entry(&one, number, 500)).collect());
    check(&shards);
    assert_eq!(ids(&shards).len(), 3_000);
    let full: Vec<_> = shards.iter().filter(|(_, shard)| !shard.is_empty()).collect();
    assert!(full.len() >= 24, "{}", full.len());
    // All but one go: what is left is one shard again.
    shards.set(&one, vec![entry(&one, 7, 500)]);
    check(&shards);
    assert_eq!(shards.0.len(), 1);
    assert!(!shards.set(&one, vec![entry(&one, 7, 500)]), "nothing changed");
    assert!(shards.set(&one, Vec::new()) && shards.is_empty());
}

#[test]
fn a_change_touches_one_shard() {
    let mut shards = Shards::default();
    for number in 0..500 {
        let one = subject(&format!("u{number}"));
        shards.set(&one, vec![entry(&one, number, 500)]);
    }
    shards.iter_mut().for_each(|(_, shard)| shard.dirty = false);
    let one = subject("u9");
    assert!(shards.set(&one, vec![entry(&one, 1, 500)]));
    assert_eq!(shards.iter().filter(|(_, shard)| shard.dirty).count(), 1);
}

/// What happens to a namespace: an object gets so many results, of such a size; none is that it is gone.
fn changes() -> impl Strategy<Value = Vec<(u8, u16, u16)>> {
    prop::collection::vec((0u8..20, 0u16..60, 1_000u16..9_000), 1..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_result_is_lost_or_doubled_by_splitting_and_joining(changes in changes()) {
        let (mut shards, mut wanted) = (Shards::default(), BTreeMap::new());
        for (object, results, bytes) in changes {
            let one = subject(&format!("u{object}"));
            let entries: Vec<_> = (0..results.into()).map(|number| entry(&one, number, bytes.into())).collect();
            let of_object: Vec<String> = entries.iter().map(|entry| entry.violation.id.to_string()).collect();
            wanted.insert(object, of_object);
            shards.set(&one, entries);
            check(&shards);
        }
        let mut wanted: Vec<String> = wanted.into_values().flatten().collect();
        wanted.sort();
        prop_assert_eq!(ids(&shards), wanted);
    }

    /// What was written whole is found as it was, so that nothing has to be written again.
    #[test]
    fn what_was_written_is_split_the_same_way_when_read(changes in changes()) {
        let mut shards = Shards::default();
        for (object, results, bytes) in changes {
            let one = subject(&format!("u{object}"));
            shards.set(&one, (0..results.into()).map(|number| entry(&one, number, bytes.into())).collect());
        }
        let mut read = Shards::default();
        let written: Vec<_> = shards.iter().filter(|(_, shard)| !shard.is_empty()).collect();
        for (prefix, shard) in written.iter().rev() {
            read.split_as(*prefix);
            shard.entries.values().for_each(|entry| read.add(entry.clone()));
        }
        read.split_large();
        let shape = |shards: &Shards| -> Vec<(Prefix, usize)> {
            shards.iter().filter(|(_, shard)| !shard.is_empty()).map(|(prefix, shard)| (prefix, shard.entries.len())).collect()
        };
        prop_assert_eq!(shape(&read), shape(&shards));
    }
}
