//! The checks of the bucket into which the results are mirrored.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::time::sleep;

use super::RunState;
use crate::{
    bus::LATEST,
    comparison::{ExpectedFindings, ListedObjects},
    machine,
};

/// How often a leader shows that it lives.
const HEARTBEAT: Duration = Duration::from_mins(1);

impl RunState {
    /// Ends all faults of the bus, and waits until late writes have arrived.
    pub(super) async fn restore_bus(&mut self) {
        if self.bus.end_faults() {
            sleep(LATEST).await;
            self.disturbed = machine::elapsed();
        }
    }

    /// Compares the bucket, if there is one and the bus works, with the results of the running replicas and, unless they
    /// are outdated, with the reports.
    pub(super) async fn compare_bucket(
        &self,
        cluster: &ListedObjects,
        expected: &ExpectedFindings,
        with_reports: bool,
    ) -> anyhow::Result<()> {
        if !self.settings.mirrors || self.bus.has_fault() {
            return Ok(());
        }
        let result = self.bus.result()?.context("the bucket: no shard has written its state")?;
        let mut served = Vec::new();
        for replica in self.replicas.values() {
            served.push(serde_json::from_str(&replica.get("/status").await?)?);
        }
        expected.compare_bucket(&result, &served, &self.settings)?;
        if with_reports {
            expected.compare_bucket_times(&result, cluster)?;
        }
        let shards = self.settings.shards();
        let is_current =
            |key: &String| key.split_once('.').is_none_or(|(shard, _)| shards.iter().any(|own| own == shard));
        let old = self.bus.keys().into_iter().find(|key| !is_current(key));
        ensure!(old.is_none(), "the bucket: {old:?} was left by another number of shards");
        Ok(())
    }

    /// Fails unless, since this number of writes into the bucket and for this time, each shard has only shown that it
    /// lives.
    pub(super) fn only_heartbeats(&self, written: usize, time: Duration) -> anyhow::Result<()> {
        if !self.settings.mirrors {
            return Ok(());
        }
        let keys = self.bus.written().split_off(written);
        let other = keys.iter().find(|key| item(key) != "heartbeat");
        ensure!(other.is_none(), "in a quiet cluster {other:?} is written into the bucket");
        let expected = time.as_secs() / HEARTBEAT.as_secs();
        for shard in self.settings.shards() {
            let beats = keys.iter().filter(|key| key.split_once('.').is_some_and(|(own, _)| own == shard)).count();
            let is_regular = (expected - 1..=expected + 1).contains(&u64::try_from(beats)?);
            ensure!(is_regular, "shard {shard} has written {beats} heartbeats in {time:?}");
        }
        Ok(())
    }

    /// Fails if since this number of writes the bucket got more than heartbeats and states, which say when a process
    /// has started.
    pub(super) fn only_states(&self, written: usize) -> anyhow::Result<()> {
        let keys = self.bus.written().split_off(written);
        let other = keys.iter().find(|key| !matches!(item(key), "heartbeat" | "state"));
        ensure!(other.is_none(), "in a quiet cluster {other:?} is written into the bucket");
        Ok(())
    }
}

/// Returns what a key of a shard is about.
fn item(key: &str) -> &str {
    key.split_once('.').map_or(key, |(_, item)| item)
}
