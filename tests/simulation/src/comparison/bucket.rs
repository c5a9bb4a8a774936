//! Compares the results in the bucket of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use jiff::Timestamp;
use kaudit::audit::result::AuditResult;
use serde_json::Value;

use super::{ExpectedFindings, ListedObjects, ViolationKey, about, all_skipped, findings, first_seen, same, text};
use crate::replica::ReplicaSettings;

impl ExpectedFindings {
    /// Compares the results that a view reads from the bucket with the expected ones, and in all their fields with those
    /// that the replicas serve: with shards each serves a part, else everything.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_bucket(
        &self,
        result: &AuditResult,
        served: &[Value],
        settings: &ReplicaSettings,
    ) -> anyhow::Result<()> {
        let value = serde_json::to_value(result)?;
        self.compare_severities("the bucket", entries(&value))?;
        same("the bucket", &findings(&value, false), &self.listed)?;
        same("the bucket, skipped", &all_skipped([&value]), &self.skipped)?;
        let stored: BTreeSet<String> = entries(&value).map(Value::to_string).collect();
        ensure!(stored.len() == result.results.len(), "the bucket: some results are there twice: {:?}", twice(&value));
        let parts: Vec<&[Value]> = if settings.sharded { vec![served] } else { served.chunks(1).collect() };
        for part in parts {
            let listed = part.iter().flat_map(entries).filter(|entry| !entry["coveredBy"].is_object());
            same("the bucket, in all fields", &stored, &listed.map(Value::to_string).collect())?;
        }
        for outcome in ["fail", "warn", "error"] {
            let expected = self.listed.iter().filter(|finding| finding.result == outcome).count();
            let found = &value["summary"][outcome];
            ensure!(
                found.as_u64() == u64::try_from(expected).ok(),
                "the bucket: {found} with {outcome}, not {expected}"
            );
        }
        // Other shards may have the objects.
        let is_complete = !self.has("error") && (!self.found_nothing || settings.sharded);
        ensure!(result.complete == is_complete, "the bucket: complete is {}", result.complete);
        Ok(())
    }

    /// Compares the times since when violations are open with those in reports.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_bucket_times(&self, result: &AuditResult, cluster: &ListedObjects) -> anyhow::Result<()> {
        let mut times: BTreeMap<ViolationKey, Option<i64>> = BTreeMap::new();
        for entry in &result.results {
            let value = serde_json::to_value(entry)?;
            if matches!(value["result"].as_str(), Some("fail" | "warn")) {
                let rule = format!("{}/{}", entry.policy, entry.rule);
                let about = about(&value["resource"], rule, text(&value["message"]));
                times.insert(about, entry.since.map(Timestamp::as_second));
            }
        }
        let reported = first_seen(cluster);
        let wrong = times
            .iter()
            .find(|(about, since)| reported.get(about).is_some_and(|reported| reported["seconds"].as_i64() != **since));
        ensure!(
            wrong.is_none(),
            "the bucket: {wrong:?} is not the time of the report, {:?}",
            wrong.and_then(|(about, _)| reported.get(about))
        );
        Ok(())
    }
}

fn entries(result: &Value) -> impl Iterator<Item = &Value> {
    result["results"].as_array().into_iter().flatten()
}

/// Returns a result that a view reads more than once.
fn twice(result: &Value) -> Option<&Value> {
    let mut known = BTreeSet::new();
    entries(result).find(|entry| !known.insert(entry.to_string()))
}
