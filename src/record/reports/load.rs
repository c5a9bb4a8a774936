//! Reads the reports of earlier runs: what they recorded, and the state that the recorder starts from.

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
use tracing::{debug, info, warn};

use super::{
    format::{Api, Choice, ReportFormat, content_digest, read},
    report_set::{ReportKey, ReportSet, Stored},
    settings::ReportSettings,
};
use crate::{
    audit::{
        ledger::Violation,
        recorded::{Recorded, RecordedObject},
    },
    cluster::{
        error::describe,
        identity::{CONTROLLER, MANAGED_BY},
    },
    model::object::ObjectRef,
    record::{
        earlier::{Attempts, EarlierRecords, Refusals},
        failure::WriteFailure,
    },
};

/// Report objects in one response; each may have 64 KiB.
const PAGE: u32 = 100;
/// How long to wait after the preferred report API was not found, before a second discovery counts.
const CONFIRMED_AFTER: Duration = Duration::from_millis(500);

/// The reports of earlier runs.
pub struct LoadedReports {
    /// The results that were recorded.
    pub recorded: Recorded,
    /// The API to write; `None` if the cluster serves none that may be written.
    pub(super) api: Option<Api>,
    pub(super) reports: ReportSet,
    pub(super) obsolete: Obsolete,
    /// Why the reports cannot be read; empty if they can.
    pub(super) read_error: String,
}

/// Our report objects that are to be deleted, by namespace: those of another API or layout, or named by an earlier
/// version.
pub(super) type Obsolete = BTreeMap<Option<Arc<str>>, BTreeSet<(Api, String)>>;

/// The `resourceVersion` of each report object, by namespace and name.
pub(super) type Versions = BTreeMap<(Option<Arc<str>>, String), String>;

/// Reads all our reports; those that the server refuses to list for some time are left out, and the health reports
/// them.
///
/// # Errors
/// The reason, if they could not be read for some time.
pub async fn load(settings: &ReportSettings, attempts: Attempts) -> Result<LoadedReports, String> {
    let ReportSettings { client, metrics, .. } = settings;
    let records = EarlierRecords { client, metrics, recorder: "reports", attempts };
    let mut refusals = Refusals::default();
    let read = async || {
        let loaded = try_load(settings, refusals.have_lasted(attempts)).await;
        if let Err(error) = &loaded {
            refusals.note(error);
        }
        loaded
    };
    records.read(read).await
}

/// Reads all our reports once; with `accepts_refusals`, goes on without those whose list is refused.
async fn try_load(settings: &ReportSettings, accepts_refusals: bool) -> kube::Result<LoadedReports> {
    let mut served = served(&settings.client).await?;
    if choose(settings.choice, &served) != settings.choice.apis().first().copied() {
        // An API server that has just started serves its CustomResourceDefinitions only a moment later.
        sleep(CONFIRMED_AFTER).await;
        served.extend(self::served(&settings.client).await?);
        served.sort();
        served.dedup();
    }
    let api = choose(settings.choice, &served);
    let format = ReportFormat { layout: settings.layout, instance: settings.instance.clone(), dated: true };
    let mut found = FoundReports::new(format);
    let mut read_error = String::new();
    for from in &served {
        let take = |report: DynamicObject| {
            let own = settings.instance.owns(report.metadata.labels.as_ref());
            if own && settings.owned.owns(report.metadata.namespace.as_deref()) {
                found.take(*from, api, &report);
            }
        };
        match each_report(settings, *from, take).await {
            Ok(()) => {}
            Err(error) if WriteFailure::of(&error) == WriteFailure::Later => return Err(error),
            Err(error) if Some(*from) == api && !accepts_refusals => return Err(error),
            Err(error) => {
                warn!("Existing reports of {} cannot be read: {}", from.api_version(), describe(&error));
                if Some(*from) == api {
                    read_error = describe(&error);
                }
            }
        }
    }
    let FoundReports { reports, obsolete } = found.split_large();
    let recorded = recorded(&reports);
    if let Some(api) = api {
        let stored: usize = reports.reports.values().map(|report| report.stored.len()).sum();
        let other: usize = obsolete.values().map(BTreeSet::len).sum();
        info!(api = api.api_version(), reports = stored, other, "Reports read");
    }
    Ok(LoadedReports { recorded, api, reports, obsolete, read_error })
}

async fn served(client: &Client) -> kube::Result<Vec<Api>> {
    let mut served = Vec::new();
    for api in Api::ALL {
        if is_served(client, api).await? {
            served.push(api);
        }
    }
    Ok(served)
}

/// Returns the API to write: the first that is served.
pub(super) fn choose(choice: Choice, served: &[Api]) -> Option<Api> {
    choice.apis().iter().find(|api| served.contains(api)).copied()
}

/// Returns whether the server serves a report API.
pub(super) async fn is_served(client: &Client, api: Api) -> kube::Result<bool> {
    match client.list_api_group_resources(api.api_version()).await {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.name == api.kind(true).1)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// The results that were found, and the report objects that hold them.
pub(super) struct FoundReports {
    pub(super) reports: ReportSet,
    pub(super) obsolete: Obsolete,
}

impl FoundReports {
    pub(super) fn new(format: ReportFormat) -> Self {
        Self { reports: ReportSet::new(format), obsolete: Obsolete::new() }
    }

    /// Adds a report object that was found in one API, while `api` is written.
    pub(super) fn take(&mut self, from: Api, api: Option<Api>, report: &DynamicObject) {
        let name = report.metadata.name.clone().unwrap_or_default();
        let namespace: Option<Arc<str>> = report.metadata.namespace.as_deref().map(Arc::from);
        let mut whole = report.data.clone();
        // Assigning to a field panics on anything but an object.
        if !whole.is_object() {
            whole = json!({});
        }
        whole["metadata"] =
            json!({"labels": report.metadata.labels, "ownerReferences": report.metadata.owner_references});
        let results = read(&whole);
        let key = results.first().map(|(object, _)| ReportKey::of(&self.reports.format, object));
        let key = key.filter(|key| key.namespace == namespace);
        let place = key.and_then(|key| Some((key.prefix(&name)?, key))).filter(|_| Some(from) == api);
        if let Some((prefix, key)) = place {
            let stored = self.reports.reports.entry(key).or_default();
            stored.partitions.split_as(prefix);
            let resource_version = report.metadata.resource_version.clone().unwrap_or_default();
            stored.stored.insert(name, Stored { content: Some(content_digest(&whole)), resource_version });
        } else {
            self.obsolete.entry(namespace).or_default().insert((from, name));
        }
        for (object, violation) in results {
            self.reports.add(&Arc::new(object), violation);
        }
    }

    /// Splits partitions that are too large, once everything is added.
    pub(super) fn split_large(mut self) -> Self {
        self.reports.reports.values_mut().for_each(|report| report.partitions.split_large());
        self
    }
}

fn recorded(reports: &ReportSet) -> Recorded {
    let mut objects: BTreeMap<String, RecordedObject> = BTreeMap::new();
    let partitions = reports.reports.values().flat_map(|report| report.partitions.iter());
    for (reference, violation) in partitions.flat_map(|(_, partition)| partition.results()) {
        let object = objects
            .entry(reference.identity())
            .or_insert_with(|| RecordedObject { object: reference.clone(), results: Vec::new() });
        let mut violation = violation.clone();
        // The outcome without the exception is not in a report, and is known once the object is evaluated.
        violation.finding.excused = None;
        object.results.push(violation);
    }
    let mut recorded = Recorded::default();
    for object in objects.into_values() {
        recorded.add(object);
    }
    recorded
}

/// Returns where to list reports: in the whole cluster, both kinds, or in some namespaces only.
fn places(settings: &ReportSettings, api: Api) -> Vec<kube::Api<DynamicObject>> {
    let client = || settings.client.clone();
    let (namespaced, cluster) = (api.resource(true), api.resource(false));
    if settings.owned.namespaces.is_empty() {
        return vec![kube::Api::all_with(client(), &namespaced), kube::Api::all_with(client(), &cluster)];
    }
    let some = settings.owned.namespaces.iter();
    some.map(|namespace| kube::Api::namespaced_with(client(), namespace, &namespaced)).collect()
}

/// Returns the results of an object that are in reports of any kaudit; none if they cannot be read.
pub async fn reported(client: &Client, object: &ObjectRef) -> Vec<Violation> {
    let mut found = Vec::new();
    for api in Api::ALL {
        if !matches!(is_served(client, api).await, Ok(true)) {
            continue;
        }
        let resource = api.resource(object.namespace.is_some());
        let place: kube::Api<DynamicObject> = match &object.namespace {
            Some(namespace) => kube::Api::namespaced_with(client.clone(), namespace, &resource),
            None => kube::Api::all_with(client.clone(), &resource),
        };
        let place = &place;
        let list = |parameters| async move { place.list(&parameters).await }.boxed();
        let of_any = format!("{MANAGED_BY}={CONTROLLER}");
        let identity = object.identity();
        let read = each_page(&of_any, list, |page| {
            let results = page.items.iter().flat_map(|report| read(&report.data));
            found.extend(results.filter(|(about, _)| about.identity() == identity).map(|(_, violation)| violation));
        });
        if let Err(error) = read.await {
            debug!("Reports cannot be read: {}", describe(&error));
        }
    }
    found
}

async fn each_report(settings: &ReportSettings, api: Api, mut each: impl FnMut(DynamicObject)) -> kube::Result<()> {
    for place in places(settings, api) {
        let place = &place;
        let list = |parameters| async move { place.list(&parameters).await }.boxed();
        let selector = settings.instance.selector_of_all();
        each_page(&selector, list, |page| page.items.into_iter().for_each(&mut each)).await?;
    }
    Ok(())
}

/// Lists the versions of our report objects.
pub(super) async fn versions(settings: &ReportSettings, api: Api) -> kube::Result<Versions> {
    let mut versions = BTreeMap::new();
    for place in places(settings, api) {
        let place = &place;
        let list = |parameters| async move { place.list_metadata(&parameters).await }.boxed();
        each_page(&settings.instance.selector(), list, |page| {
            let own = page.items.into_iter().filter(|report| settings.owned.owns(report.metadata.namespace.as_deref()));
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
    selector: &str,
    list: impl Fn(ListParams) -> BoxFuture<'a, kube::Result<ObjectList<T>>>,
    mut each: impl FnMut(ObjectList<T>),
) -> kube::Result<()> {
    let first = ListParams::default().labels(selector).limit(PAGE);
    let mut parameters = first.clone();
    loop {
        let page = list(parameters).await?;
        let more = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        each(page);
        let Some(token) = more else { return Ok(()) };
        parameters = first.clone().continue_token(&token);
    }
}

#[cfg(test)]
mod tests;
