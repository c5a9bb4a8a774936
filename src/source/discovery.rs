//! Discovery of the kinds that the cluster serves.
//!
//! In: the discovery documents of the API server. Out: kinds with list and watch, in one version each.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{
    Client,
    client::Body,
    core::discovery::v2::{ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery},
    error::DiscoveryError,
};
use serde::Deserialize;

use crate::{
    cluster::{
        error::describe,
        identity::{OWN_GROUP, OWN_VERSION},
    },
    model::object::Kind,
    source::change::Unserved,
};

/// The result of one pass of discovery.
#[derive(Debug, Clone, Default)]
pub struct Served {
    /// Kinds that can be listed and watched, sorted.
    pub kinds: Vec<Arc<Kind>>,
    /// Group versions that are registered, but whose server does not answer now.
    pub stale: Vec<Unserved>,
    /// All kinds that can be listed and watched, by group and version.
    pub by_version: BTreeMap<(String, String), Vec<Arc<Kind>>>,
}

/// Discovers repeatedly what an API server serves; documents that have not changed are not sent again.
pub struct Discovery {
    client: Client,
    documents: [DiscoveryDocument; 2],
}

/// One of the two documents of aggregated discovery, in the version received last.
#[derive(Default)]
struct DiscoveryDocument {
    path: &'static str,
    etag: Option<HeaderValue>,
    /// Empty if the server does not serve this document in aggregated form.
    groups: Vec<APIGroupDiscovery>,
}

/// The kind of a document, and its groups if it is aggregated.
#[derive(Deserialize)]
struct DiscoveryBody {
    kind: String,
    #[serde(default)]
    items: Vec<APIGroupDiscovery>,
}

impl Discovery {
    /// Creates one that uses `client`.
    pub fn new(client: Client) -> Self {
        let documents = ["/api", "/apis"].map(|path| DiscoveryDocument { path, ..DiscoveryDocument::default() });
        Self { client, documents }
    }

    /// Discovers once: two requests on Kubernetes 1.27 and later, otherwise one for each group version.
    pub async fn discover(&mut self) -> kube::Result<Served> {
        let [core, groups] = &mut self.documents;
        futures::try_join!(core.update(&self.client), groups.update(&self.client))?;
        let mut found = Finder::default();
        for (document, by_group) in [(&*core, false), (&*groups, true)] {
            // Each document is handled separately: behind one address there may be servers of different versions.
            if document.groups.is_empty() {
                let versions =
                    if by_group { group_versions(&self.client).await } else { core_versions(&self.client).await };
                found.query(&self.client, versions?).await;
            } else {
                document.groups.iter().for_each(|group| found.group(group));
            }
        }
        Ok(found.done())
    }
}

impl DiscoveryDocument {
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
        let body: DiscoveryBody = if response.status() == StatusCode::OK {
            let body = response.into_body().collect().await?.to_bytes();
            serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?
        } else {
            // kube parses responses that are errors.
            client.request(http::Request::get(self.path).body(Vec::new()).map_err(kube::Error::HttpError)?).await?
        };
        self.groups = if body.kind == "APIGroupDiscoveryList" { body.items } else { Vec::new() };
        // A document that must be requested in the old form is read in every pass.
        self.etag = etag.filter(|_| !self.groups.is_empty());
        Ok(())
    }
}

/// Queries each group version separately, for servers before 1.27; one that fails costs only its own kinds.
pub async fn discover_by_group(client: &Client) -> kube::Result<Served> {
    let (mut versions, groups) = futures::try_join!(core_versions(client), group_versions(client))?;
    versions.extend(groups);
    let mut found = Finder::default();
    found.query(client, versions).await;
    Ok(found.done())
}

/// Returns the versions of the core group, as pairs of group and version.
async fn core_versions(client: &Client) -> kube::Result<Vec<(String, String)>> {
    let core = client.list_core_api_versions().await?;
    non_empty("/api", core.versions.into_iter().map(|version| (String::new(), version)).collect())
}

/// Returns the versions of all other groups, the preferred one of each group first.
async fn group_versions(client: &Client) -> kube::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for group in client.list_api_groups().await?.groups {
        let preferred = group.preferred_version.map(|version| version.version);
        let mut versions: Vec<_> = group.versions.into_iter().map(|version| version.version).collect();
        // The server sorts by preference, except for the preferred version.
        versions.sort_by_key(|version| Some(version) != preferred.as_ref());
        all.extend(versions.into_iter().map(|version| (group.name.clone(), version)));
    }
    non_empty("/apis", all)
}

/// Returns the versions, or an error if there are none: every Kubernetes API server serves the core group and others.
fn non_empty(path: &str, versions: Vec<(String, String)>) -> kube::Result<Vec<(String, String)>> {
    if versions.is_empty() {
        return Err(kube::Error::Discovery(DiscoveryError::EmptyApiGroup(path.to_owned())));
    }
    Ok(versions)
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

/// Picks one version of each kind: the first, in the group's order of preference, that can be listed and watched.
/// kaudit's own kinds are read in the version that this kaudit supports as long as it is served, even if a newer CRD
/// adds others.
#[derive(Default)]
struct Finder {
    kinds: BTreeMap<(String, String), Arc<Kind>>,
    stale: Vec<Unserved>,
    by_version: BTreeMap<(String, String), Vec<Arc<Kind>>>,
}

impl Finder {
    /// Adds a group of aggregated discovery.
    fn group(&mut self, group: &APIGroupDiscovery) {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        for version in &group.versions {
            let Some(version_name) = &version.version else { continue };
            if version.freshness.as_deref() == Some("Stale") {
                self.stale(name, version_name, "the API server of this group does not answer".to_owned());
            }
            for resource in &version.resources {
                let response = resource.response_kind.as_ref();
                let kind = Kind {
                    group: name.to_owned(),
                    version: version_name.clone(),
                    plural: resource.resource.clone().unwrap_or_default(),
                    kind: response.and_then(|response| response.kind.clone()).unwrap_or_default(),
                    singular: resource.singular_resource.clone().unwrap_or_default(),
                    short_names: resource.short_names.clone(),
                    namespaced: resource.scope.as_deref() == Some("Namespaced"),
                };
                self.resource(&resource.verbs, kind);
            }
        }
    }

    /// Queries group versions one by one.
    async fn query(&mut self, client: &Client, versions: Vec<(String, String)>) {
        let answers: Vec<_> = stream::iter(versions)
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
        for (group, version, resources) in answers {
            match resources {
                Ok(list) => {
                    for resource in list.resources {
                        let verbs = resource.verbs.clone();
                        self.resource(&verbs, old_style(&group, &version, resource));
                    }
                }
                Err(error) => self.stale(&group, &version, describe(&error)),
            }
        }
    }

    fn resource(&mut self, verbs: &[String], kind: Kind) {
        let has = |verb: &str| verbs.iter().any(|known| known == verb);
        // Subresources are not kinds.
        if has("list") && has("watch") && !kind.plural.is_empty() && !kind.kind.is_empty() && !kind.plural.contains('/')
        {
            let kind = Arc::new(kind);
            let picked =
                self.kinds.entry((kind.group.clone(), kind.plural.clone())).or_insert_with(|| Arc::clone(&kind));
            if kind.group == OWN_GROUP && kind.version == OWN_VERSION {
                *picked = Arc::clone(&kind);
            }
            self.by_version.entry((kind.group.clone(), kind.version.clone())).or_default().push(kind);
        }
    }

    fn stale(&mut self, group: &str, version: &str, message: String) {
        self.stale.push(Unserved { group: group.to_owned(), version: version.to_owned(), message });
    }

    fn done(mut self) -> Served {
        self.stale.sort();
        Served { kinds: self.kinds.into_values().collect(), stale: self.stale, by_version: self.by_version }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body as Answer;
    use serde_json::{Value, json};

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
    fn include_wins_over_exclude_and_defaults_except_for_kinds_of_kaudit() {
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
    fn a_group_that_is_down_is_missing_unless_all_of_it_is_excluded() {
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
            ..Served::default()
        };
        assert!(selection(&["deploy", "things.down.example.com"], &["*.apps"]).check(&served).is_ok());
        let error = selection(&["deploymnets"], &[]).check(&served).unwrap_err();
        assert!(error.ends_with("the nearest name is deployments"), "{error}");
    }

    #[test]
    fn a_kind_keeps_the_best_version_that_can_be_listed_and_watched() {
        let document = json!([{
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
        let mut found = Finder::default();
        for group in &groups {
            found.group(group);
        }
        let served = found.done();
        let kinds: Vec<_> = served.kinds.iter().map(|kind| format!("{kind} {}", kind.version)).collect();
        assert_eq!(kinds, ["carts.shop.example.com v2", "orders.shop.example.com v1"]);
        assert_eq!(served.stale.len(), 1);
        let versions: Vec<_> =
            served.by_version.iter().map(|((_, version), kinds)| (version.as_str(), kinds.len())).collect();
        assert_eq!(versions, [("v1", 2), ("v2", 1)]);
    }

    #[test]
    fn exceptions_are_read_in_the_version_that_kaudit_supports() {
        let read = |versions: &[&str], aggregated: bool| {
            let mut found = Finder::default();
            let resource = |version: &&str| {
                json!({"version": version, "resources": [{"resource": "policyexceptions", "verbs": ["list", "watch"],
                    "responseKind": {"kind": "PolicyException"}, "scope": "Namespaced"}]})
            };
            let group =
                json!({"metadata": {"name": OWN_GROUP}, "versions": versions.iter().map(resource).collect::<Vec<_>>()});
            if aggregated {
                found.group(&serde_json::from_value(group).unwrap());
            } else {
                let resource = json!({"name": "policyexceptions", "singularName": "", "kind": "PolicyException",
                    "namespaced": true, "verbs": ["list", "watch"]});
                for version in versions {
                    let resource: APIResource = serde_json::from_value(resource.clone()).unwrap();
                    found.resource(&resource.verbs.clone(), old_style(OWN_GROUP, version, resource));
                }
            }
            found.done().kinds.iter().map(|kind| kind.version.clone()).collect::<Vec<_>>()
        };
        for aggregated in [true, false] {
            for versions in [["v1beta1", "v1alpha1"], ["v1alpha1", "v1beta1"], ["v2", "v1alpha1"]] {
                assert_eq!(read(&versions, aggregated), ["v1alpha1"], "{versions:?}");
            }
            // Where only another version is served, each exception is reported as invalid, with the version.
            assert_eq!(read(&["v1", "v1beta1"], aggregated), ["v1"]);
        }
    }

    /// Returns a server that answers `/api` and `/apis` with these documents if the client accepts aggregated
    /// discovery, and otherwise in the old form.
    fn server(api: Value, apis: Value) -> Client {
        let verbs = json!(["list", "watch"]);
        let old = |plural: &str, kind: &str| {
            let resource =
                json!({"name": plural, "singularName": "", "kind": kind, "namespaced": true, "verbs": verbs});
            json!({"kind": "APIResourceList", "groupVersion": "", "resources": [resource]})
        };
        let (pods, jobs) = (old("pods", "Pod"), old("jobs", "Job"));
        let answer = move |request: http::Request<Body>| {
            let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
            let aggregated = accept.is_some_and(|accept| accept.contains("APIGroupDiscoveryList"));
            let body = match request.uri().path() {
                "/api" if aggregated => api.clone(),
                "/apis" if aggregated => apis.clone(),
                "/api" => old_core(),
                "/apis" => old_groups(),
                "/api/v1" => pods.clone(),
                "/apis/batch/v1" => jobs.clone(),
                _ => json!({}),
            };
            async move { Ok::<_, Infallible>(http::Response::new(Answer::from(body.to_string()))) }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    fn old_core() -> Value {
        json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
    }

    fn old_groups() -> Value {
        let version = json!({"groupVersion": "batch/v1", "version": "v1"});
        json!({"kind": "APIGroupList", "apiVersion": "v1",
            "groups": [{"name": "batch", "versions": [version], "preferredVersion": version}]})
    }

    #[tokio::test]
    async fn each_discovery_document_is_read_in_the_form_it_has() {
        let aggregated = |group: &str, plural: &str, kind: &str| {
            let resource = json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list", "watch"]});
            let version = json!({"version": "v1", "freshness": "Current", "resources": [resource]});
            json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
                "items": [{"metadata": {"name": group}, "versions": [version]}]})
        };
        let empty = || json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"});
        let core = [aggregated("", "pods", "Pod"), old_core(), empty()];
        let groups =
            [aggregated("batch", "jobs", "Job"), old_groups(), empty(), json!({"kind": "Status", "items": []})];
        for api in &core {
            for apis in &groups {
                let mut discovery = Discovery::new(server(api.clone(), apis.clone()));
                for _ in 0..2 {
                    let served = discovery.discover().await.unwrap();
                    let kinds: Vec<_> = served.kinds.iter().map(|kind| format!("{kind} {}", kind.version)).collect();
                    assert_eq!(kinds, ["pods v1", "jobs.batch v1"], "{api} {apis}");
                }
            }
        }
        let without = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []});
        assert!(Discovery::new(server(core[0].clone(), without)).discover().await.is_ok(), "the old form has groups");
        for body in [json!({}), json!([]), json!("APIGroupDiscoveryList")] {
            assert!(Discovery::new(server(body.clone(), groups[0].clone())).discover().await.is_err(), "{body}");
        }
    }
}
