//! Metrics of a fleet, made anew for each scrape.

use std::sync::Arc;

use jiff::Timestamp;
use prometheus_client::{encoding::EncodeLabelSet, encoding::text, metrics::gauge::Gauge, registry::Registry};

use super::table::SeriesTable;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabels {
    cluster: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SeverityLabels {
    cluster: Arc<str>,
    severity: &'static str,
}

/// The numbers of a fleet.
#[derive(Debug, Default)]
pub struct FleetNumbers {
    /// The number of clusters with each status.
    pub clusters: Vec<(&'static str, usize)>,
    /// The numbers of each cluster.
    pub of_cluster: Vec<ClusterNumbers>,
    /// Whether NATS answers.
    pub connected: bool,
}

/// The numbers of a cluster.
#[derive(Debug)]
pub struct ClusterNumbers {
    /// Its name.
    pub name: Arc<str>,
    /// Open violations by severity, which is empty for those without one.
    pub violations: Vec<(&'static str, usize)>,
    /// When its last heartbeat arrived, if there was one.
    pub heartbeat: Option<Timestamp>,
    /// Whether everything in scope is checked, and the results are current.
    pub complete: bool,
}

impl FleetNumbers {
    /// Returns the numbers as `OpenMetrics` text.
    ///
    /// # Panics
    ///
    /// Never: encoding fails only if writing does, and writing to a string does not fail.
    pub fn encode(self) -> String {
        let mut registry = Registry::with_prefix("kaudit_fleet");
        let clusters: SeriesTable<StatusLabels> = SeriesTable::default();
        clusters.replace(
            self.clusters.into_iter().map(|(status, count)| (StatusLabels { status }, value(count))).collect(),
        );
        registry.register("clusters", "Clusters by status; missing ones are expected and have no bucket", clusters);
        let (violations, heartbeats, complete) =
            (SeriesTable::default(), SeriesTable::default(), SeriesTable::default());
        let of_severity = |numbers: &ClusterNumbers| {
            let name = Arc::clone(&numbers.name);
            let series =
                move |(severity, count)| (SeverityLabels { cluster: Arc::clone(&name), severity }, value(count));
            numbers.violations.clone().into_iter().map(series)
        };
        violations.replace(self.of_cluster.iter().flat_map(of_severity).collect());
        let labels = |numbers: &ClusterNumbers| ClusterLabels { cluster: Arc::clone(&numbers.name) };
        let beats = self.of_cluster.iter();
        heartbeats.replace(beats.filter_map(|of| Some((labels(of), of.heartbeat?.as_second()))).collect());
        complete.replace(self.of_cluster.iter().map(|of| (labels(of), of.complete.into())).collect());
        registry.register("violations", "Open violations, without those covered by an owner", violations);
        let help = "When the last heartbeat of a cluster arrived at NATS";
        registry.register("heartbeat_timestamp_seconds", help, heartbeats);
        let help = "Whether everything in scope of a cluster is checked, and its results are current";
        registry.register("complete", help, complete);
        let connected: Gauge = Gauge::default();
        connected.set(self.connected.into());
        registry.register("connected", "Whether NATS answers", connected);
        let mut encoded = String::new();
        text::encode(&mut encoded, &registry).expect("writing to a string does not fail");
        encoded
    }
}

fn value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_has_its_series() {
        let numbers = FleetNumbers {
            clusters: vec![("live", 1), ("missing", 2)],
            of_cluster: vec![ClusterNumbers {
                name: "prod".into(),
                violations: vec![("high", 3), ("", 1)],
                heartbeat: Some(Timestamp::constant(1_800_000_000, 0)),
                complete: true,
            }],
            connected: true,
        };
        let text = numbers.encode();
        for line in [
            "kaudit_fleet_clusters{status=\"missing\"} 2",
            "kaudit_fleet_violations{cluster=\"prod\",severity=\"high\"} 3",
            "kaudit_fleet_violations{cluster=\"prod\",severity=\"\"} 1",
            "kaudit_fleet_heartbeat_timestamp_seconds{cluster=\"prod\"} 1800000000",
            "kaudit_fleet_complete{cluster=\"prod\"} 1",
            "kaudit_fleet_connected 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
    }
}
