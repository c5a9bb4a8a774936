//! Discovery documents.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};

use super::kinds::ResourceType;

/// The cached documents of aggregated discovery with their entity tags, until the kinds change.
#[derive(Debug, Default)]
pub(super) struct DiscoveryCache(BTreeMap<(bool, Vec<String>), (Bytes, String)>);

impl DiscoveryCache {
    /// Returns a document of aggregated discovery and its entity tag: for the core group, or for all others.
    pub(super) fn aggregated(
        &mut self,
        types: &[Arc<ResourceType>],
        core: bool,
        missing: &[String],
    ) -> &(Bytes, String) {
        self.0.entry((core, missing.to_vec())).or_insert_with(|| {
            let body = Bytes::from(aggregated(types, core, missing).to_string());
            let etag = format!("\"{:X}\"", digest(&body));
            (body, etag)
        })
    }
}

/// Returns a deterministic hash of bytes.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the served groups except the missing ones, with their versions, the preferred one first.
pub(super) fn groups(types: &[Arc<ResourceType>], missing: &[String]) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for kind in types.iter().filter(|kind| !missing.contains(&kind.group)) {
        let place = groups.iter().position(|(group, _)| *group == kind.group).unwrap_or_else(|| {
            groups.push((kind.group.clone(), Vec::new()));
            groups.len() - 1
        });
        let versions = &mut groups[place].1;
        versions
            .extend(kind.versions.iter().filter(|version| !versions.contains(version)).cloned().collect::<Vec<_>>());
        versions.sort_by_key(|version| std::cmp::Reverse(super::kinds::priority(version)));
    }
    // Groups of custom resources follow the built-in ones in alphabetical order.
    let custom = |group: &str| types.iter().any(|kind| kind.group == group && kind.custom());
    groups.sort_by_key(|(group, _)| (custom(group), if custom(group) { group.clone() } else { String::new() }));
    groups
}

fn aggregated(types: &[Arc<ResourceType>], core: bool, missing: &[String]) -> Value {
    let groups = groups(types, missing).into_iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(group, versions)| {
            let versions = versions.iter().map(|version| {
                json!({"version": version, "resources": resources(types, &group, version).map(|kind| entry(kind, version))
                    .collect::<Vec<_>>(), "freshness": "Current"})
            });
            let metadata = if core { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions.collect::<Vec<_>>()})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn resources<'a>(
    types: &'a [Arc<ResourceType>],
    group: &str,
    version: &str,
) -> impl Iterator<Item = &'a Arc<ResourceType>> {
    types.iter().filter(move |kind| kind.group == group && kind.versions.iter().any(|served| served == version))
}

fn entry(kind: &Arc<ResourceType>, version: &str) -> Value {
    let response = if kind.custom() {
        json!({"group": kind.group, "version": version, "kind": kind.kind})
    } else {
        json!({"group": "", "version": "", "kind": kind.kind})
    };
    let mut entry = json!({"resource": kind.plural, "responseKind": response,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" }, "singularResource": kind.singular,
        "verbs": kind.verbs});
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if kind.has_status(version) {
        entry["subresources"] =
            json!([{"subresource": "status", "responseKind": response, "verbs": ["get", "patch", "update"]}]);
    }
    entry
}

/// Returns the list of groups, as before aggregated discovery.
pub(super) fn group_list(types: &[Arc<ResourceType>], missing: &[String]) -> Value {
    let groups = groups(types, missing).into_iter().filter(|(group, _)| !group.is_empty());
    let groups: Vec<Value> = groups.map(|(group, versions)| describe(&group, &versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the document of one group.
pub(super) fn group(types: &[Arc<ResourceType>], name: &str) -> Option<Value> {
    let (group, versions) = groups(types, &[]).into_iter().find(|(group, _)| group == name && !group.is_empty())?;
    let mut document = describe(&group, &versions);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

fn describe(group: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
}

/// Returns the resources of a version of a group; `None` if it is not served.
pub(super) fn resource_list(types: &[Arc<ResourceType>], group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for kind in resources(types, group, version) {
        let mut entry = json!({"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": kind.verbs});
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        entries.push(entry);
        if kind.has_status(version) {
            entries.push(
                json!({"name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"]}),
            );
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let list =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries});
    (!entries.is_empty()).then_some(list)
}
