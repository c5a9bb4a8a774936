//! Discovery: what kinds the cluster serves, and which of them are audited.
//!
//! In: the discovery documents of the API server and the user's selection. Out: kinds with list and watch, in one
//! version each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::Arc,
};

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{Client, core::discovery::v2::APIGroupDiscovery};

use crate::{client::describe, gate::Unserved, object::Kind, policy::PolicySet, shard::Shard};

/// What a pass of discovery found.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// Kinds that can be listed and watched, sorted.
    pub kinds: Vec<Arc<Kind>>,
    /// Group versions that are announced, but that nobody answers for now.
    pub stale: Vec<Unserved>,
}

/// Asks the API server what it serves: two requests on Kubernetes 1.27 and later, else one a group version.
pub async fn discover(client: &Client) -> kube::Result<Served> {
    let (core, groups) =
        futures::try_join!(client.list_core_api_versions_aggregated(), client.list_api_groups_aggregated())?;
    let groups: Vec<_> = core.items.into_iter().chain(groups.items).collect();
    // A server that knows no aggregated discovery answers in the old form, which reads as an empty list.
    if groups.is_empty() { discover_by_group(client).await } else { Ok(served(&groups)) }
}

/// Picks a version of each kind: the first, in the order of the group's preference, that can be listed and watched.
fn served(groups: &[APIGroupDiscovery]) -> Served {
    let mut found = Finder::default();
    for group in groups {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        for version in &group.versions {
            let Some(version_name) = &version.version else { continue };
            if version.freshness.as_deref() == Some("Stale") {
                found.stale(name, version_name, "the API server of this group does not answer".to_owned());
            }
            for resource in &version.resources {
                let response = resource.response_kind.as_ref();
                found.resource(
                    &resource.verbs,
                    Kind {
                        group: name.to_owned(),
                        version: version_name.clone(),
                        plural: resource.resource.clone().unwrap_or_default(),
                        kind: response.and_then(|response| response.kind.clone()).unwrap_or_default(),
                        singular: resource.singular_resource.clone().unwrap_or_default(),
                        short_names: resource.short_names.clone(),
                        namespaced: resource.scope.as_deref() == Some("Namespaced"),
                    },
                );
            }
        }
    }
    found.done()
}

/// Asks for each group version by itself, for servers before 1.27; one that does not answer costs only its own kinds.
pub async fn discover_by_group(client: &Client) -> kube::Result<Served> {
    let (core, groups) = futures::try_join!(client.list_core_api_versions(), client.list_api_groups())?;
    let mut asked: Vec<(String, String)> = core.versions.into_iter().map(|version| (String::new(), version)).collect();
    for group in groups.groups {
        let preferred = group.preferred_version.map(|version| version.version);
        let mut versions: Vec<_> = group.versions.into_iter().map(|version| version.version).collect();
        // The server sorts by preference but for this one.
        versions.sort_by_key(|version| Some(version) != preferred.as_ref());
        asked.extend(versions.into_iter().map(|version| (group.name.clone(), version)));
    }
    let answers: Vec<_> = stream::iter(asked)
        .map(|(group, version)| async move {
            let resources = if group.is_empty() {
                client.list_core_api_resources(&version).await
            } else {
                client.list_api_group_resources(&format!("{group}/{version}")).await
            };
            (group, version, resources)
        })
        .buffered(8)
        .collect()
        .await;
    let mut found = Finder::default();
    for (group, version, resources) in answers {
        match resources {
            Ok(list) => {
                for resource in list.resources {
                    let verbs = resource.verbs.clone();
                    found.resource(&verbs, old_style(&group, &version, resource));
                }
            }
            Err(error) => found.stale(&group, &version, describe(&error)),
        }
    }
    Ok(found.done())
}

fn old_style(group: &str, version: &str, resource: APIResource) -> Kind {
    Kind {
        group: resource.group.unwrap_or_else(|| group.to_owned()),
        version: resource.version.unwrap_or_else(|| version.to_owned()),
        plural: resource.name,
        kind: resource.kind,
        singular: resource.singular_name,
        short_names: resource.short_names.unwrap_or_default(),
        namespaced: resource.namespaced,
    }
}

#[derive(Default)]
struct Finder {
    kinds: BTreeMap<(String, String), Kind>,
    stale: Vec<Unserved>,
}

impl Finder {
    fn resource(&mut self, verbs: &[String], kind: Kind) {
        let has = |verb: &str| verbs.iter().any(|known| known == verb);
        // Subresources are not kinds of their own.
        if has("list") && has("watch") && !kind.plural.is_empty() && !kind.kind.is_empty() && !kind.plural.contains('/')
        {
            self.kinds.entry((kind.group.clone(), kind.plural.clone())).or_insert(kind);
        }
    }

    fn stale(&mut self, group: &str, version: &str, message: String) {
        self.stale.push(Unserved { group: group.to_owned(), version: version.to_owned(), message });
    }

    fn done(mut self) -> Served {
        self.stale.sort();
        Served { kinds: self.kinds.into_values().map(Arc::new).collect(), stale: self.stale }
    }
}

/// One KIND of `--include` and `--exclude`: a plural, singular, kind or short name, each with or without a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindPattern {
    /// Lower case; `None` is `*`.
    name: Option<String>,
    /// Lower case, empty for the core group; `None` is any.
    group: Option<String>,
    written: String,
}

impl KindPattern {
    /// Whether `kind` is meant.
    pub fn matches(&self, kind: &Kind) -> bool {
        let group = self.group.as_ref().is_none_or(|group| group.eq_ignore_ascii_case(&kind.group));
        let named = self.name.as_ref().is_none_or(|name| names(kind).any(|own| own.eq_ignore_ascii_case(name)));
        group && named
    }
}

impl KindPattern {
    /// Whether it is a bare `*`, which says nothing about any single kind.
    fn is_everything(&self) -> bool {
        self.name.is_none() && self.group.is_none()
    }
}

impl FromStr for KindPattern {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let text = written.trim().to_ascii_lowercase();
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (text.as_str(), None),
        };
        let word =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
        if (name != "*" && !word(name)) || group.is_some_and(|group| !word(group)) {
            return Err("expected a kind such as deployments, Deployment, deploy, deployments.apps, *.apps or *".into());
        }
        Ok(Self {
            name: (name != "*").then(|| name.to_owned()),
            group: group.map(|group| if group == "core" { String::new() } else { group.to_owned() }),
            written: written.trim().to_owned(),
        })
    }
}

/// Shows it as it was written.
impl fmt::Display for KindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn names(kind: &Kind) -> impl Iterator<Item = &String> {
    [&kind.plural, &kind.singular, &kind.kind].into_iter().chain(&kind.short_names).filter(|name| !name.is_empty())
}

/// What of the served kinds is audited.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only these namespaces; empty is the whole cluster.
    pub namespaces: BTreeSet<String>,
    /// Audited whatever else is said, but for kaudit's own output.
    pub include: Vec<KindPattern>,
    /// Not audited, unless included.
    pub exclude: Vec<KindPattern>,
    /// Only what belongs to this shard.
    pub shard: Shard,
    /// Audited only if these policies can say anything about it or look it up, unless included.
    pub judged_by: Option<Arc<PolicySet>>,
}

/// Written many times a minute by controllers, or a copy of something else, or made by auditors like this one.
const NOISE: [(&str, &str); 7] = [
    ("", "endpoints"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("openreports.io", "*"),
    ("wgpolicyk8s.io", "*"),
];

/// API group of kaudit's own kinds; judging them would be a loop.
pub const OWN_GROUP: &str = "kaudit.dev";

impl Selection {
    /// Returns why `kind` is not audited, or `None` if it is.
    pub fn excludes(&self, kind: &Kind) -> Option<String> {
        if kind.group == OWN_GROUP {
            return Some("kaudit's own output".to_owned());
        }
        if !self.namespaces.is_empty() && !kind.namespaced {
            return Some("cluster-scoped, not read with --namespace".to_owned());
        }
        if !kind.namespaced && !self.shard.reads(kind, None) {
            return Some("cluster-scoped, read by shard 0".to_owned());
        }
        match self.chooses(kind) {
            Some(true) => return None,
            Some(false) => return Some("--exclude".to_owned()),
            None => {}
        }
        let noise = |(group, plural): &(&str, &str)| *group == kind.group && (*plural == kind.plural || *plural == "*");
        if NOISE.iter().any(noise) {
            return Some(format!("by default (--include {kind} brings it back)"));
        }
        let unjudged = self.judged_by.as_ref().is_some_and(|policies| !policies.concern(kind));
        unjudged.then(|| "no policy is about it, and --kinds is judged".to_owned())
    }

    /// Whether kinds of `group` may be audited, for a group whose kinds are not known for now.
    pub fn may_audit_group(&self, group: &str) -> bool {
        let names = |pattern: &KindPattern| {
            pattern.group.as_ref().map_or(pattern.name.is_none(), |own| own.eq_ignore_ascii_case(group))
        };
        self.include.iter().any(names) || !self.exclude.iter().any(|pattern| pattern.name.is_none() && names(pattern))
    }

    /// Returns what the user said of `kind`: audited, not audited, or nothing. `include` wins over `exclude`.
    pub fn chooses(&self, kind: &Kind) -> Option<bool> {
        let named = |patterns: &[KindPattern]| patterns.iter().any(|pattern| pattern.matches(kind));
        if named(&self.include) { Some(true) } else { named(&self.exclude).then_some(false) }
    }

    /// Checks that every name that the user gave is that of a kind.
    ///
    /// # Errors
    /// Names the pattern and the nearest name there is.
    pub fn check(&self, served: &Served) -> Result<(), String> {
        for pattern in self.include.iter().chain(&self.exclude) {
            let known = served.kinds.iter().any(|kind| pattern.matches(kind));
            // The group's server may be down, and its kinds unknown for now.
            let unknown = served.stale.iter().any(|stale| pattern.group.as_ref() == Some(&stale.group));
            if !known && !unknown && !pattern.is_everything() {
                let named = |kind: &Arc<Kind>| {
                    let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
                    names(kind).flat_map(|name| [format!("{name}{group}"), name.clone()]).collect::<Vec<_>>()
                };
                let likeness =
                    |name: &String| strsim::jaro_winkler(&name.to_lowercase(), &pattern.written.to_lowercase());
                let nearest = served
                    .kinds
                    .iter()
                    .flat_map(named)
                    .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
                    .unwrap_or_default();
                return Err(format!("the cluster serves no kind {pattern}; the nearest name is {nearest}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, plural: &str, kind: &str, short: &str) -> Arc<Kind> {
        let mut kind = Kind::sample(group, plural, kind);
        Arc::make_mut(&mut kind).short_names.push(short.into());
        kind
    }

    fn selection(include: &[&str], exclude: &[&str]) -> Selection {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Selection { include: patterns(include), exclude: patterns(exclude), ..Selection::default() }
    }

    #[test]
    fn a_kind_has_many_names() {
        let deployments = kind("apps", "deployments", "Deployment", "deploy");
        for name in ["deployments", "Deployment", "deploy", "deployments.apps", "deploy.apps", "*.apps", "*"] {
            assert!(name.parse::<KindPattern>().unwrap().matches(&deployments), "{name}");
        }
        for name in ["pods", "deployments.batch", "*.batch", "deployments.core"] {
            assert!(!name.parse::<KindPattern>().unwrap().matches(&deployments), "{name}");
        }
    }

    #[test]
    fn include_wins_over_exclude_and_over_the_defaults_but_not_over_our_own() {
        let pods = kind("", "pods", "Pod", "po");
        let events = kind("", "events", "Event", "ev");
        let audits = kind("kaudit.dev", "audits", "Audit", "audit");
        assert_eq!(selection(&[], &[]).excludes(&pods), None);
        assert!(selection(&[], &[]).excludes(&events).is_some());
        assert_eq!(selection(&["events"], &[]).excludes(&events), None);
        assert_eq!(selection(&["pods"], &["*"]).excludes(&pods), None);
        assert!(selection(&["events"], &["*"]).excludes(&pods).is_some());
        assert!(selection(&["*"], &[]).excludes(&audits).is_some());
    }

    #[test]
    fn a_group_that_is_down_is_missed_unless_all_of_it_is_excluded() {
        let missed =
            |include: &[&str], exclude: &[&str]| selection(include, exclude).may_audit_group("down.example.com");
        assert!(missed(&[], &[]) && missed(&[], &["*.apps", "things", "things.down.example.com"]));
        assert!(!missed(&[], &["*.down.example.com"]) && !missed(&[], &["*"]) && !missed(&["pods"], &["*"]));
        assert!(missed(&["*.down.example.com"], &["*"]) && missed(&["things.down.example.com"], &["*"]));
    }

    #[test]
    fn a_wrong_name_is_told_the_nearest() {
        let served = Served {
            kinds: vec![kind("", "pods", "Pod", "po"), kind("apps", "deployments", "Deployment", "deploy")],
            stale: vec![Unserved { group: "down.example.com".into(), version: "v1".into(), message: String::new() }],
        };
        assert!(selection(&["deploy", "things.down.example.com"], &["*.apps"]).check(&served).is_ok());
        let error = selection(&["deploymnets"], &[]).check(&served).unwrap_err();
        assert!(error.ends_with("the nearest name is deployments"), "{error}");
    }

    #[test]
    fn a_kind_keeps_the_best_version_that_can_be_listed_and_watched() {
        let document = serde_json::json!([{
            "metadata": {"name": "shop.example.com"},
            "versions": [
                {"version": "v2", "freshness": "Current", "resources": [
                    {"resource": "carts", "responseKind": {"kind": "Cart"}, "scope": "Namespaced", "verbs": ["list", "watch"]},
                    {"resource": "quotes", "responseKind": {"kind": "Quote"}, "scope": "Cluster", "verbs": ["create"]}]},
                {"version": "v1", "freshness": "Current", "resources": [
                    {"resource": "carts", "responseKind": {"kind": "Cart"}, "scope": "Namespaced", "verbs": ["list", "watch"]},
                    {"resource": "orders", "responseKind": {"kind": "Order"}, "scope": "Cluster", "verbs": ["list", "watch"]}]},
                {"version": "v0", "freshness": "Stale", "resources": []}]
        }]);
        let groups: Vec<APIGroupDiscovery> = serde_json::from_value(document).unwrap();
        let served = served(&groups);
        let kinds: Vec<_> = served.kinds.iter().map(|kind| format!("{kind} {}", kind.version)).collect();
        assert_eq!(kinds, ["carts.shop.example.com v2", "orders.shop.example.com v1"]);
        assert_eq!(served.stale.len(), 1);
    }
}
