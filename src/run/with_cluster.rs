//! `--with-cluster`: the objects of a cluster that rules look up while manifests are checked.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    connect::reach,
    wiring::{self, CHANGES, INTERRUPTED},
};
use crate::{
    audit::{
        looked_up,
        settings::{InitialObjects, PipelineSettings},
        watched::WatchedObjects,
    },
    cli::check::CheckArgs,
    judge::set::PolicySet,
    metrics::Metrics,
    model::body::Packing,
    source::{
        informer::{Informer, ReadOptions},
        placement::Placement,
        selection::{KindUse, Selection},
    },
};

/// The cluster that manifests are checked with.
pub(crate) struct ClusterOfManifests {
    /// The objects of the kinds that rules look up.
    pub(crate) objects: Arc<WatchedObjects>,
    /// The namespace of manifests that name none.
    pub(crate) placement: Arc<Placement>,
}

impl ClusterOfManifests {
    /// Reads the objects once.
    ///
    /// # Errors
    /// If the cluster cannot be reached, or `stop` comes first. Kinds that cannot be read are no error.
    pub(crate) async fn read(
        check: &CheckArgs,
        policies: &Arc<PolicySet>,
        stop: &CancellationToken,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let reading = stop.run_until_cancelled(Box::pin(Self::read_all(check, policies, metrics)));
        reading.await.context(INTERRUPTED)?
    }

    async fn read_all(check: &CheckArgs, policies: &Arc<PolicySet>, metrics: Arc<Metrics>) -> anyhow::Result<Self> {
        let (clients, served) = reach(&check.cluster).await?;
        let namespace = match &check.scope.namespace[..] {
            [only] => only.clone(),
            _ => clients.namespace().to_owned(),
        };
        let placement = Arc::new(Placement::new(namespace, &served.kinds));
        let selection = check.scope.selection(Some(policies));
        let named_only = !selection.namespaces.is_empty();
        let selection = Selection { uses: KindUse::LookedUp, named_only, ..selection };
        let (sender, changes) = mpsc::channel(CHANGES);
        let packing = Packing::default();
        let options = ReadOptions { packing: packing.clone(), ..ReadOptions::once(check.source.manifests.secrets) };
        let mut helpers = JoinSet::new();
        helpers.spawn(Informer::new(clients, selection.clone(), options, sender).run(served));
        let settings = PipelineSettings { initial: InitialObjects::Judge, ..wiring::settings(check, policies) };
        let objects = looked_up::read(changes, selection, settings, packing, metrics).await;
        Ok(Self { objects: Arc::new(objects), placement })
    }
}
