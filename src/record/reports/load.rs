//! What earlier runs have left in the cluster: both the memory of what was told, and what is to be kept up to date.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use kube::{
    Client,
    api::{DynamicObject, ListParams, ObjectList},
};
use serde_json::json;
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    Settings,
    book::{Book, Home, Known},
    model::{Api, Choice, Form, content, read},
};
use crate::{
    audit::recorded::{Recorded, RecordedObject},
    cluster::error::describe,
    model::shard::Shard,
    record::{Failure, failure},
};

/// Reports in one answer; each may have 64 KiB.
const A_PAGE: u32 = 100;

/// Which namespaces' reports are ours to keep.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Only these; empty is the whole cluster.
    pub namespaces: Vec<String>,
    /// Of these, those of this shard.
    pub shard: Shard,
}

impl Scope {
    /// Whether the reports of a namespace, or those on cluster-scoped objects, are ours to keep.
    fn owns(&self, namespace: Option<&str>) -> bool {
        let named = || namespace.is_some_and(|name| self.namespaces.iter().any(|own| own == name));
        self.shard.owns(namespace) && (self.namespaces.is_empty() || named())
    }
}

/// What was found.
pub struct Loaded {
    /// What was recorded before.
    pub recorded: Recorded,
    pub(super) api: Option<Api>,
    pub(super) book: Book,
    pub(super) leftovers: Leftovers,
    /// Why what is there cannot be read; empty if it can.
    pub(super) unread: String,
}

/// Reports of ours that are of another form than those of today, by namespace.
pub(super) type Leftovers = BTreeMap<Option<Arc<str>>, BTreeSet<(Api, String)>>;

/// What the server has: namespace and name of each report, with its `resourceVersion`.
pub(super) type Versions = BTreeMap<(Option<Arc<str>>, String), String>;

/// Reads all reports of ours. Tries for as long as the server does not answer; what it refuses is left out and told.
pub async fn load(settings: &Settings) -> Loaded {
    let mut wait = Duration::from_millis(500);
    let mut told = false;
    loop {
        match try_load(settings).await {
            Ok(loaded) => return loaded,
            Err(error) if told => tracing::debug!("Reports cannot be read yet: {}", describe(&error)),
            Err(error) => {
                warn!("Reports cannot be read yet, and nothing is recorded until they are: {}", describe(&error));
                told = true;
            }
        }
        sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(10));
    }
}

async fn try_load(settings: &Settings) -> kube::Result<Loaded> {
    let mut served = Vec::new();
    for api in Api::ALL {
        if is_served(&settings.client, api).await? {
            served.push(api);
        }
    }
    let api = choose(settings.choice, &served);
    let form = Form { layout: settings.layout, instance: settings.instance.clone() };
    let mut found = Found::new(form);
    let mut unread = String::new();
    for from in &served {
        let take = |report: DynamicObject| {
            if settings.scope.owns(report.metadata.namespace.as_deref()) {
                found.take(*from, api, &report);
            }
        };
        match each_report(settings, *from, take).await {
            Ok(()) => {}
            Err(error) if failure(&error) == Failure::Later => return Err(error),
            Err(error) => {
                warn!("The reports of {} that are there cannot be read: {}", from.api_version(), describe(&error));
                if Some(*from) == api {
                    unread = describe(&error);
                }
            }
        }
    }
    let Found { book, leftovers } = found.done();
    let recorded = recorded(&book);
    if let Some(api) = api {
        let reports: usize = book.pages.values().map(|page| page.known.len()).sum();
        let other: usize = leftovers.values().map(BTreeSet::len).sum();
        info!(api = api.api_version(), reports, other, "Reports read");
    }
    Ok(Loaded { recorded, api, book, leftovers, unread })
}

/// Picks the API that is written.
pub(super) fn choose(choice: Choice, served: &[Api]) -> Option<Api> {
    choice.apis().iter().find(|api| served.contains(api)).copied()
}

/// Asks whether a report API is there.
pub(super) async fn is_served(client: &Client, api: Api) -> kube::Result<bool> {
    match client.list_api_group_resources(api.api_version()).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == api.kind(true).1)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Results as they were found, and the reports that hold them.
pub(super) struct Found {
    pub(super) book: Book,
    pub(super) leftovers: Leftovers,
}

impl Found {
    pub(super) fn new(form: Form) -> Self {
        Self { book: Book::new(form), leftovers: Leftovers::new() }
    }

    /// Takes in a report that was found in one API, while `api` is written.
    pub(super) fn take(&mut self, from: Api, api: Option<Api>, report: &DynamicObject) {
        let name = report.metadata.name.clone().unwrap_or_default();
        let namespace: Option<Arc<str>> = report.metadata.namespace.as_deref().map(Arc::from);
        let mut whole = report.data.clone();
        // What is not a report does not become one by being indexed.
        if !whole.is_object() {
            whole = json!({});
        }
        whole["metadata"] =
            json!({"labels": report.metadata.labels, "ownerReferences": report.metadata.owner_references});
        let results = read(&whole);
        let home = results.first().map(|(subject, _)| Home::of(&self.book.form, subject));
        let home = home.filter(|home| home.namespace == namespace);
        let place = home.and_then(|home| Some((home.prefix(&name)?, home))).filter(|_| Some(from) == api);
        if let Some((prefix, home)) = place {
            let page = self.book.pages.entry(home).or_default();
            page.shards.split_as(prefix);
            let version = report.metadata.resource_version.clone().unwrap_or_default();
            page.known.insert(name, Known { content: Some(content(&whole)), version });
        } else {
            self.leftovers.entry(namespace).or_default().insert((from, name));
        }
        for (subject, violation) in results {
            self.book.add(&Arc::new(subject), violation);
        }
    }

    /// Brings into form what was found; all of it was taken in.
    pub(super) fn done(mut self) -> Self {
        self.book.pages.values_mut().for_each(|page| page.shards.split_large());
        self
    }
}

fn recorded(book: &Book) -> Recorded {
    let mut objects: BTreeMap<String, RecordedObject> = BTreeMap::new();
    let shards = book.pages.values().flat_map(|page| page.shards.iter());
    for (subject, violation) in shards.flat_map(|(_, shard)| shard.results()) {
        let object = objects.entry(subject.identity()).or_insert_with(|| RecordedObject {
            api_version: subject.api_version.clone(),
            kind: subject.kind.clone(),
            namespace: subject.namespace.clone(),
            name: Arc::clone(&subject.name),
            uid: Arc::clone(&subject.uid),
            results: Vec::new(),
        });
        object.results.push(violation.clone());
    }
    let mut recorded = Recorded::default();
    for object in objects.into_values() {
        recorded.add(object);
    }
    recorded
}

/// Where reports are: in the whole cluster and without a namespace, or in some namespaces only.
fn places(settings: &Settings, api: Api) -> Vec<kube::Api<DynamicObject>> {
    let client = || settings.client.clone();
    let (namespaced, cluster) = (api.resource(true), api.resource(false));
    if settings.scope.namespaces.is_empty() {
        return vec![kube::Api::all_with(client(), &namespaced), kube::Api::all_with(client(), &cluster)];
    }
    let some = settings.scope.namespaces.iter();
    some.map(|namespace| kube::Api::namespaced_with(client(), namespace, &namespaced)).collect()
}

async fn each_report(settings: &Settings, api: Api, mut each: impl FnMut(DynamicObject)) -> kube::Result<()> {
    for place in places(settings, api) {
        let place = &place;
        let list = |parameters| async move { place.list(&parameters).await }.boxed();
        each_page(settings, list, |page| page.items.into_iter().for_each(&mut each)).await?;
    }
    Ok(())
}

/// Asks for the version of each report of ours.
pub(super) async fn versions(settings: &Settings, api: Api) -> kube::Result<Versions> {
    let mut versions = BTreeMap::new();
    for place in places(settings, api) {
        let place = &place;
        let list = |parameters| async move { place.list_metadata(&parameters).await }.boxed();
        each_page(settings, list, |page| {
            let own = page.items.into_iter().filter(|report| settings.scope.owns(report.metadata.namespace.as_deref()));
            versions.extend(own.map(|report| {
                let namespace = report.metadata.namespace.as_deref().map(Arc::from);
                (
                    (namespace, report.metadata.name.unwrap_or_default()),
                    report.metadata.resource_version.unwrap_or_default(),
                )
            }));
        })
        .await?;
    }
    Ok(versions)
}

async fn each_page<'a, T: Clone>(
    settings: &Settings,
    list: impl Fn(ListParams) -> BoxFuture<'a, kube::Result<ObjectList<T>>>,
    mut each: impl FnMut(ObjectList<T>),
) -> kube::Result<()> {
    let first = ListParams::default().labels(&settings.instance.selector()).limit(A_PAGE);
    let mut parameters = first.clone();
    loop {
        let page = list(parameters).await?;
        let more = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        each(page);
        let Some(token) = more else { return Ok(()) };
        parameters = first.clone().continue_token(&token);
    }
}
