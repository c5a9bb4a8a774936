//! A part of the results in one namespace, as a bucket keeps it. What results have in common is written once.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::state::MOST_COUNT;
use crate::{
    audit::{fingerprint::Fingerprint, result::Entry},
    model::{
        exception::Excuse,
        object::ObjectRef,
        text::is_zero,
        verdict::{Outcome, Severity, Source},
    },
};

/// Results of several objects.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoredPart {
    rules: Vec<StoredRule>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    excuses: Vec<Arc<Excuse>>,
    objects: Vec<StoredObject>,
}

/// What identifies a rule, and the texts that its results have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct StoredRule {
    pub(crate) policy: Arc<str>,
    pub(crate) rule: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    category: Option<Arc<str>>,
    source: Source,
}

/// The results of one object.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredObject {
    pub(crate) resource: Arc<ObjectRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Arc<ObjectRef>>,
    pub(crate) results: Vec<StoredResult>,
}

/// One result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredResult {
    id: Fingerprint,
    /// The index of its rule.
    pub(crate) rule: usize,
    pub(crate) result: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) severity: Option<Severity>,
    message: Arc<str>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    details: serde_json::Map<String, serde_json::Value>,
    /// The index of its excuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    excuse: Option<usize>,
    #[serde(default, skip_serializing_if = "is_zero")]
    dependents: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    #[serde(default, rename = "handedOver", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_handed_over: bool,
    /// When it was resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Timestamp>,
}

/// Values in the order in which they were first seen.
struct DistinctValues<T>(HashMap<T, usize>, Vec<T>);

impl<T: Clone + Eq + Hash> DistinctValues<T> {
    fn index(&mut self, value: T) -> usize {
        *self.0.entry(value).or_insert_with_key(|value| {
            self.1.push(value.clone());
            self.1.len() - 1
        })
    }
}

impl StoredPart {
    /// Makes a part of results, those of one object one after the other, each with the time when it was resolved.
    pub(crate) fn new<'e>(results: impl IntoIterator<Item = (&'e Entry, Option<Timestamp>)>) -> Self {
        let mut rules = DistinctValues(HashMap::new(), Vec::new());
        // Few results are excused, by even fewer exceptions.
        let mut excuses: Vec<Arc<Excuse>> = Vec::new();
        let mut objects: Vec<StoredObject> = Vec::new();
        for (entry, ended) in results {
            let rule = rules.index(StoredRule::of(entry));
            let excuse = entry.excuse.as_ref().map(|excuse| {
                excuses.iter().position(|known| known == excuse).unwrap_or_else(|| {
                    excuses.push(Arc::clone(excuse));
                    excuses.len() - 1
                })
            });
            let result = StoredResult {
                id: entry.id,
                rule,
                result: entry.result,
                severity: entry.severity,
                message: Arc::clone(&entry.message),
                details: entry.details.clone(),
                excuse,
                dependents: entry.dependents,
                since: entry.since,
                is_handed_over: entry.is_handed_over,
                ended,
            };
            let is_same = |last: &&mut StoredObject| last.resource == entry.resource && last.owner == entry.owner;
            match objects.last_mut().filter(is_same) {
                Some(last) => last.results.push(result),
                None => objects.push(StoredObject {
                    resource: Arc::clone(&entry.resource),
                    owner: entry.owner.clone(),
                    results: vec![result],
                }),
            }
        }
        Self { rules: rules.1, excuses, objects }
    }

    /// Returns the rules that the results name by index.
    pub(crate) fn rules(&self) -> &[StoredRule] {
        &self.rules
    }

    /// Returns the objects, in order.
    pub(crate) fn objects(&self) -> &[StoredObject] {
        &self.objects
    }

    /// Whether a result names an excuse that the part has, or none.
    pub(crate) fn has_excuse(&self, result: &StoredResult) -> bool {
        result.excuse.is_none_or(|index| index < self.excuses.len())
    }

    /// Returns the results, each with the time when it was resolved. Names the cluster in the objects if there is one.
    /// Results that name what is not there are left out.
    pub(crate) fn entries(self, cluster: Option<Arc<str>>) -> impl Iterator<Item = (Entry, Option<Timestamp>)> {
        let Self { rules, excuses, objects } = self;
        objects.into_iter().flat_map(move |StoredObject { resource, owner, results }| {
            let named = |object: Arc<ObjectRef>| match &cluster {
                Some(cluster) => {
                    Arc::new(ObjectRef { cluster: Some(Arc::clone(cluster)), ..Arc::unwrap_or_clone(object) })
                }
                None => object,
            };
            let (resource, owner) = (named(resource), owner.map(named));
            let entries = results.into_iter().filter_map(|result| {
                let rule = rules.get(result.rule)?.clone();
                let excuse = match result.excuse {
                    Some(index) => Some(Arc::clone(excuses.get(index)?)),
                    None => None,
                };
                let ended = result.ended;
                Some((result.into_entry(rule, excuse, (&resource, owner.as_ref())), ended))
            });
            entries.collect::<Vec<_>>()
        })
    }
}

impl StoredRule {
    fn of(entry: &Entry) -> Self {
        Self {
            policy: Arc::clone(&entry.policy),
            rule: Arc::clone(&entry.rule),
            id: entry.rule_id.clone(),
            title: entry.title.clone(),
            category: entry.category.clone(),
            source: entry.source.clone(),
        }
    }
}

impl StoredResult {
    fn into_entry(
        self,
        rule: StoredRule,
        excuse: Option<Arc<Excuse>>,
        (resource, owner): (&Arc<ObjectRef>, Option<&Arc<ObjectRef>>),
    ) -> Entry {
        Entry {
            id: self.id,
            policy: rule.policy,
            rule: rule.rule,
            result: self.result,
            severity: self.severity,
            rule_id: rule.id,
            title: rule.title,
            category: rule.category,
            message: self.message,
            resource: Arc::clone(resource),
            owner: owner.cloned(),
            covered_by: None,
            dependents: self.dependents.min(MOST_COUNT),
            details: self.details,
            excuse,
            source: rule.source,
            location: None,
            field_line: None,
            edit: None,
            since: self.since,
            is_handed_over: self.is_handed_over,
        }
    }
}

/// The most results of a part for which the number of parts stays as it is, and the fewest.
const RESULTS: std::ops::RangeInclusive<usize> = 24..=192;
/// How many results a part gets when the number of parts changes.
const AIM: usize = 96;

/// Returns into how many parts results are split that have been in `parts` so far: the fewer change, the less is written.
pub(crate) fn parts(results: usize, parts: Option<u32>) -> u32 {
    let fits = |parts: &u32| {
        let each = results / *parts as usize;
        *parts > 0 && each <= *RESULTS.end() && (*parts == 1 || each >= *RESULTS.start())
    };
    let wanted = results.div_ceil(AIM).next_power_of_two().min(1 << 20);
    parts.filter(|parts| *parts > 0).filter(fits).unwrap_or(u32::try_from(wanted).unwrap_or(1))
}

/// Splits the results in one place into parts by their objects; all results of an object are in one part.
pub(crate) fn split<'e>(results: &[&'e Entry], parts: u32) -> BTreeMap<u32, Vec<&'e Entry>> {
    let mut split: BTreeMap<u32, Vec<&Entry>> = BTreeMap::new();
    for entry in results {
        let number = number_of(&entry.resource) % u64::from(parts.max(1));
        split.entry(u32::try_from(number).unwrap_or_default()).or_default().push(entry);
    }
    split
}

/// Returns a number for an object that is the same in every process (FNV-1a).
fn number_of(object: &ObjectRef) -> u64 {
    let bytes = object.kind.bytes().chain([0]).chain(object.name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{fleet::packed, model::verdict::Finding};

    fn entry(object: u8, message: &str, excused: bool, has_owner: bool) -> Entry {
        let reference = |kind: &str, number: u8| {
            let (kind, name) = (kind.to_owned(), format!("o{number}").into());
            Arc::new(ObjectRef { kind, name, namespace: Some("shop".into()), ..ObjectRef::default() })
        };
        let owner = has_owner.then(|| reference("Deployment", object));
        let entry = Entry::new(&Finding::sample(message), &reference("Pod", object), None, owner.as_ref());
        let excuse = excused.then(|| Arc::new(Excuse::baseline()));
        Entry { excuse, since: Timestamp::from_second(i64::from(object)).ok(), ..entry }
    }

    proptest! {
        #[test]
        fn results_are_read_as_they_were_stored(
            objects in prop::collection::vec((any::<u8>(), "[a-z]{0,9}", any::<bool>(), any::<bool>()), 0..60),
            wanted in 1_u32..9,
        ) {
            let mut entries: Vec<Entry> =
                objects.iter().map(|(object, message, excused, owned)| entry(*object, message, *excused, *owned)).collect();
            entries.sort_by(|a, b| a.order().cmp(&b.order()));
            let split = split(&entries.iter().collect::<Vec<_>>(), wanted);
            prop_assert!(split.keys().all(|part| *part < wanted));
            let mut read = Vec::new();
            for entries in split.into_values() {
                let stored = StoredPart::new(entries.into_iter().map(|entry| (entry, None)));
                let packed = packed::pack(&packed::json(&stored).unwrap()).unwrap();
                read.extend(packed::read::<StoredPart>(&packed).unwrap().entries(None).map(|(entry, _)| entry));
            }
            read.sort_by(|a, b| a.order().cmp(&b.order()));
            prop_assert_eq!(read, entries);
        }
    }

    #[test]
    fn the_number_of_parts_changes_seldom() {
        assert_eq!([0, 1, 96, 97, 200, 5_000].map(|results| parts(results, None)), [1, 1, 1, 2, 4, 64]);
        // Until parts are too large or too small.
        assert_eq!([150, 192, 193].map(|results| parts(results, Some(1))), [1, 1, 4]);
        assert_eq!([96, 95, 0].map(|results| parts(results, Some(4))), [4, 1, 1]);
        assert_eq!(parts(50, Some(0)), 1);
    }

    #[test]
    fn damaged_values_are_refused() {
        assert!(packed::read::<StoredPart>(b"nonsense").is_err());
        assert!(packed::read::<StoredPart>(&packed::pack(b"{\"rules\": 1}").unwrap()).is_err());
        // A small value that unpacks to very much.
        let bomb = packed::pack(&vec![b' '; 80 << 20]).unwrap();
        assert!(bomb.len() < 100_000 && packed::unpack(&bomb).unwrap_err().contains("16 MiB"));
        let odd = br#"{"rules": [], "objects": [{"resource": {}, "results": [{"id": "0000000000000001", "rule": 7, "result": "fail", "message": "m"}]}]}"#;
        assert_eq!(packed::read::<StoredPart>(&packed::pack(odd).unwrap()).unwrap().entries(None).count(), 0);
    }
}
