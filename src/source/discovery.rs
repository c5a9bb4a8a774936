//! Discovery: what kinds the cluster serves, and which of them are audited.
//!
//! In: the discovery documents of the API server and the user's selection. Out: kinds with list and watch, in one
//! version each.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{
    Client,
    client::Body,
    core::discovery::v2::{ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList},
};

use crate::{cluster::error::describe, model::object::Kind, source::change::Unserved};

/// What a pass of discovery found.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// Kinds that can be listed and watched, sorted.
    pub kinds: Vec<Arc<Kind>>,
    /// Group versions that are registered, but whose server does not answer now.
    pub stale: Vec<Unserved>,
}

/// Asks an API server what it serves, again and again; what did not change since is not sent again.
pub struct Discovery {
    client: Client,
    documents: [Document; 2],
}

/// One of the two documents of aggregated discovery, as it was sent last.
#[derive(Default)]
struct Document {
    path: &'static str,
    etag: Option<HeaderValue>,
    groups: Vec<APIGroupDiscovery>,
}

impl Discovery {
    /// Asks through `client`.
    pub fn new(client: Client) -> Self {
        let documents = ["/api", "/apis"].map(|path| Document { path, ..Document::default() });
        Self { client, documents }
    }

    /// Asks once: two requests on Kubernetes 1.27 and later, else one for each group version.
    pub async fn discover(&mut self) -> kube::Result<Served> {
        let [core, groups] = &mut self.documents;
        futures::try_join!(core.update(&self.client), groups.update(&self.client))?;
        // A server that knows no aggregated discovery answers in the old form, which reads as an empty list.
        if self.documents.iter().all(|document| document.groups.is_empty()) {
            return discover_by_group(&self.client).await;
        }
        Ok(served(self.documents.iter().flat_map(|document| &document.groups)))
    }
}

impl Document {
    async fn update(&mut self, client: &Client) -> kube::Result<()> {
        let mut request = http::Request::get(self.path).header(header::ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2);
        if let Some(etag) = &self.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let request = request.body(Body::empty()).map_err(kube::Error::HttpError)?;
        let response = client.send(request).await?;
        if response.status() == StatusCode::NOT_MODIFIED && self.etag.is_some() {
            return Ok(());
        }
        let etag = response.headers().get(header::ETAG).cloned();
        let list: APIGroupDiscoveryList = if response.status() == StatusCode::OK {
            let body = response.into_body().collect().await?.to_bytes();
            serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?
        } else {
            // kube knows how to read an answer that is an error.
            client.request(http::Request::get(self.path).body(Vec::new()).map_err(kube::Error::HttpError)?).await?
        };
        (self.etag, self.groups) = (etag, list.items);
        Ok(())
    }
}

/// Picks a version of each kind: the first, in the order of the group's preference, that can be listed and watched.
fn served<'a>(groups: impl IntoIterator<Item = &'a APIGroupDiscovery>) -> Served {
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

/// Asks for each group version by itself, for servers before 1.27; one that fails costs only its own kinds.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::selection::{KindPattern, Selection};

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
    fn an_unknown_name_gets_the_nearest_one() {
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
