//! Whose bucket it is: one cluster and one kaudit in it may write a bucket.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

use super::settings::MirrorSettings;
use crate::{
    cluster::error::describe,
    fleet::{
        bucket::{Bucket, Kept, Write, WriteError},
        keys::{self, IDENTITY, Item, Key},
        packed,
        state::ClusterIdentity,
    },
};

/// The Namespace whose uid identifies a cluster.
const NAMESPACE: &str = "kube-system";
/// A kaudit whose last heartbeat is older does not write any more.
pub(super) const OLD: Duration = Duration::from_mins(3);

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

/// Makes the bucket with these values that of this cluster and kaudit.
///
/// # Errors
/// If it belongs to another cluster, or to another kaudit of this cluster that still writes.
pub(super) async fn claim(
    settings: &MirrorSettings,
    own: &ClusterIdentity,
    bucket: &dyn Bucket,
    values: &BTreeMap<String, Kept>,
) -> Result<(), String> {
    let known = values.get(IDENTITY);
    let owner = known.map(|kept| serde_json::from_slice::<ClusterIdentity>(&kept.value));
    let name = keys::bucket(&settings.cluster);
    match owner {
        Some(Ok(owner)) if owner == *own => return Ok(()),
        Some(Ok(owner)) if owner.uid != own.uid => {
            return Err(format!(
                "the bucket {name} belongs to another cluster of the name {}, whose kube-system has the uid {}, not {}: give \
                 each cluster its own --cluster-name; if that cluster is gone, delete its bucket: nats kv del {name}",
                settings.cluster, owner.uid, own.uid
            ));
        }
        Some(Ok(owner)) if has_heartbeat(values) => {
            return Err(format!(
                "the bucket {name} is written by another kaudit of this cluster, that of the Audit {}: stop one of them, or give \
                 this one another --cluster-name",
                owner.instance
            ));
        }
        _ => {}
    }
    let replaces = Some(known.map_or(0, |kept| kept.sequence));
    let write = Write { replaces, ..Write::put(IDENTITY, packed::json(own)?) };
    match bucket.write(&[write]).await {
        Ok(_) => Ok(()),
        Err(WriteError::Replaced) => Err(format!("another kaudit takes the bucket {name}")),
        Err(WriteError::Failed(why)) => Err(why),
    }
}

/// Whether any shard has lived lately.
fn has_heartbeat(values: &BTreeMap<String, Kept>) -> bool {
    values.iter().any(|(key, kept)| {
        let is_heartbeat = Key::parse(key).is_some_and(|key| key.item == Item::Heartbeat);
        is_heartbeat && !is_old(kept.at)
    })
}

/// Whether a heartbeat of this time is too old. One in the future is not: the clock of the server may be ahead.
pub(super) fn is_old(at: Timestamp) -> bool {
    let now = Timestamp::now();
    at < now && now.duration_since(at).unsigned_abs() > OLD
}
