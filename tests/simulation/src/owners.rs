//! Violations that an owner also has, so that only the owner's is listed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    cluster::KINDS,
    policies::{ObjectsByName, PolicyFinding},
};

/// Kind, namespace and name.
type ObjectKey = (usize, String, String);

/// Returns the findings that an owner covers: it has the same violation, and that one is listed.
pub fn covered(objects: &ObjectsByName, findings: &BTreeSet<PolicyFinding>) -> BTreeSet<PolicyFinding> {
    let mut listed: BTreeMap<ObjectKey, BTreeSet<&PolicyFinding>> = BTreeMap::new();
    let mut covered = BTreeSet::new();
    let mut chains: Vec<(Vec<ObjectKey>, &ObjectKey)> = objects.keys().map(|key| (owners(objects, key), key)).collect();
    // Process owners first.
    chains.sort_by_key(|(chain, _)| chain.len());
    for (chain, key) in chains {
        for finding in findings.iter().filter(|finding| is_about(finding, key)) {
            let is_same = |owner: &ObjectKey, known: &PolicyFinding| {
                (&known.policy, known.result) == (&finding.policy, finding.result)
                    && is_same_text((&finding.message, &key.2), (&known.message, &owner.2))
            };
            let mut of_owners =
                chain.iter().flat_map(|owner| listed.get(owner).into_iter().flatten().map(move |known| (owner, known)));
            if of_owners.any(|(owner, known)| is_same(owner, known)) {
                covered.insert(finding.clone());
            } else {
                listed.entry(key.clone()).or_default().insert(finding);
            }
        }
    }
    covered
}

/// Returns the chain of existing controllers of an object; empty for an object that indirectly controls itself.
fn owners(objects: &ObjectsByName, key: &ObjectKey) -> Vec<ObjectKey> {
    let mut chain: Vec<ObjectKey> = Vec::new();
    while let Some(owner) = owner(objects, chain.last().unwrap_or(key)) {
        if owner == *key {
            return Vec::new();
        }
        if chain.contains(&owner) {
            break;
        }
        chain.push(owner);
    }
    chain
}

fn owner(objects: &ObjectsByName, (kind, namespace, name): &ObjectKey) -> Option<ObjectKey> {
    let reference = &objects.get(&(*kind, namespace.clone(), name.clone()))?["metadata"]["ownerReferences"][0];
    let kind = KINDS.iter().position(|kind| reference["kind"] == kind.kind)?;
    let namespace = if KINDS[kind].namespaced { namespace.clone() } else { String::new() };
    let owner = (kind, namespace, reference["name"].as_str()?.to_owned());
    (objects.get(&owner)?["metadata"]["uid"] == reference["uid"]).then_some(owner)
}

fn is_about(finding: &PolicyFinding, (kind, namespace, name): &ObjectKey) -> bool {
    (finding.kind, &finding.namespace, &finding.name) == (KINDS[*kind].kind, namespace, name)
}

/// Whether two messages are equal except for the names of their objects.
fn is_same_text((one, name): (&str, &str), (other, other_name): (&str, &str)) -> bool {
    let (mut words, mut others) = (one.split(' '), other.split(' '));
    words.by_ref().zip(others.by_ref()).all(|pair| pair.0 == pair.1 || pair == (name, other_name))
        && one.split(' ').count() == other.split(' ').count()
}
