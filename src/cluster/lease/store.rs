//! Reads and writes Leases in the cluster.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{ListParams, PostParams},
};

use crate::{
    cluster::identity::{CONTROLLER, MANAGED_BY},
    model::shard::Shard,
};

/// Annotation with the shard count that the holder of a Lease is configured with.
const SHARDS: &str = "kaudit.dev/shards";

/// One Lease, and the others that may not be held at the same time.
pub trait LeaseStore: Send + Sync {
    /// Reads the Lease; `None` if there is none.
    fn get(&self) -> impl Future<Output = kube::Result<Option<Lease>>> + Send;
    /// Creates the Lease; fails if there is one.
    fn create(&self, lease: &Lease) -> impl Future<Output = kube::Result<Lease>> + Send;
    /// Replaces the Lease; fails if its `resourceVersion` is not that of `lease`.
    fn replace(&self, lease: &Lease) -> impl Future<Output = kube::Result<Lease>> + Send;
    /// Reads the Leases of other shard counts.
    fn rivals(&self) -> impl Future<Output = kube::Result<Vec<Lease>>> + Send;
}

/// The Lease of a shard in a cluster.
pub struct ClusterStore {
    /// Reads and writes Leases of one namespace.
    pub api: Api<Lease>,
    /// The prefix of the names of the Leases of all shards.
    pub base: String,
    /// The shard whose Lease it is.
    pub shard: Shard,
}

impl ClusterStore {
    /// Returns the Lease with its name, and with the label and the annotation by which others recognise it.
    fn marked(&self, lease: &Lease) -> Lease {
        let mut lease = lease.clone();
        let meta = &mut lease.metadata;
        meta.name = Some(self.shard.name(&self.base));
        meta.labels.get_or_insert_default().insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
        meta.annotations.get_or_insert_default().insert(SHARDS.to_owned(), self.shard.count().to_string());
        lease
    }

    /// Whether it is the Lease of a shard whose holder is configured with another shard count.
    fn is_rival(&self, lease: &Lease) -> bool {
        let rest = lease.metadata.name.as_ref().and_then(|name| name.strip_prefix(&self.base));
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let ours = rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(number));
        let shards = lease.metadata.annotations.as_ref().and_then(|annotations| annotations.get(SHARDS));
        ours && shards.is_some_and(|shards| *shards != self.shard.count().to_string())
    }
}

impl LeaseStore for ClusterStore {
    async fn get(&self) -> kube::Result<Option<Lease>> {
        self.api.get_opt(&self.shard.name(&self.base)).await
    }

    async fn create(&self, lease: &Lease) -> kube::Result<Lease> {
        self.api.create(&PostParams::default(), &self.marked(lease)).await
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        self.api.replace(&self.shard.name(&self.base), &PostParams::default(), &self.marked(lease)).await
    }

    async fn rivals(&self) -> kube::Result<Vec<Lease>> {
        let all = self.api.list(&ListParams::default().labels(&format!("{MANAGED_BY}={CONTROLLER}"))).await?;
        Ok(all.items.into_iter().filter(|lease| self.is_rival(lease)).collect())
    }
}
