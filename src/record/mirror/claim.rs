//! The owner of a bucket: one kaudit of one cluster may write it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use super::settings::MirrorSettings;
use crate::{
    cluster::error::describe,
    fleet::{
        bucket::{BucketWrite, ClusterBucket, Kept, WriteError},
        keys::{self, BucketItem, BucketKey, IDENTITY},
        packed,
        state::{ClusterIdentity, is_old},
    },
    model::shard::Shard,
};

/// The Namespace whose uid identifies a cluster.
const NAMESPACE: &str = "kube-system";

/// Returns the identity of this cluster and this kaudit.
///
/// # Errors
/// Why the cluster cannot be identified.
pub(super) async fn own(settings: &MirrorSettings, client: &Client) -> Result<ClusterIdentity, String> {
    let namespace = Api::<Namespace>::all(client.clone()).get(NAMESPACE).await;
    let namespace = namespace.map_err(|error| {
        let why = describe(&error);
        format!(
            "the Namespace {NAMESPACE}, whose uid identifies the cluster, cannot be read: {why}; allow kaudit to get it"
        )
    })?;
    let uid = namespace.metadata.uid.ok_or_else(|| format!("the Namespace {NAMESPACE} has no uid"))?;
    Ok(ClusterIdentity { uid, instance: settings.instance.clone() })
}

/// Makes the bucket with these values that of this cluster and kaudit. It is contested if another kaudit with this identity
/// has written into it.
///
/// # Errors
/// If it belongs to another cluster, or to another kaudit of this cluster that still writes.
pub(super) async fn claim(
    settings: &MirrorSettings,
    own: &ClusterIdentity,
    bucket: &dyn ClusterBucket,
    values: &BTreeMap<String, Kept>,
    is_contested: bool,
) -> Result<(), String> {
    let known = values.get(IDENTITY);
    let owner = known.map(|kept| serde_json::from_slice::<ClusterIdentity>(&kept.value));
    let name = keys::bucket(&settings.cluster);
    let is_owner = matches!(&owner, Some(Ok(owner)) if owner == own);
    match owner {
        Some(Ok(owner)) if owner.uid != own.uid => {
            return Err(format!(
                "the bucket {name} belongs to another cluster of the name {}, whose kube-system has the uid {}, not {}: give \
                 each cluster its own --cluster-name; if that cluster is gone, delete its bucket: nats kv del {name}",
                settings.cluster, owner.uid, own.uid
            ));
        }
        // The other shards of this kaudit write heartbeats, too.
        Some(Ok(owner))
            if (!is_owner && has_heartbeat(values, None))
                || (is_contested && has_heartbeat(values, Some(settings.shard))) =>
        {
            return Err(format!(
                "the bucket {name} is written by another kaudit of this cluster, that of the Audit {}: stop one of them, or give \
                 this one another --cluster-name",
                owner.instance
            ));
        }
        _ if is_owner => return Ok(()),
        _ => {}
    }
    let replaces = Some(known.map_or(0, |kept| kept.sequence));
    let write = BucketWrite { replaces, ..BucketWrite::put(IDENTITY, packed::json(own)?) };
    match bucket.write(&[write]).await {
        Ok(_) => Ok(()),
        Err(WriteError::Replaced) => Err(format!("another kaudit takes the bucket {name}")),
        Err(WriteError::Failed(why)) => Err(why),
    }
}

/// Whether a shard, or any, has written a heartbeat lately.
fn has_heartbeat(values: &BTreeMap<String, Kept>, shard: Option<Shard>) -> bool {
    values.iter().any(|(key, kept)| {
        let is_heartbeat = BucketKey::parse(key)
            .is_some_and(|key| key.item == BucketItem::Heartbeat && shard.is_none_or(|shard| shard == key.shard));
        is_heartbeat && !is_old(kept.at, Timestamp::now())
    })
}
