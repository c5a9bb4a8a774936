//! Converts the text that `/metrics` serves into OTLP, so that a series has the same name everywhere.
//!
//! As OpenTelemetry's specification of the compatibility with Prometheus requires, names keep their suffixes `_total`,
//! `_info` and `_seconds`, a counter becomes a monotonic sum, an info metric a non-monotonic one, and units are UCUM
//! codes.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use opentelemetry_proto::{
    tonic::{
        collector::metrics::v1::ExportMetricsServiceRequest,
        common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
        metrics::v1::{
            AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
            ScopeMetrics, Sum, metric::Data, number_data_point::Value,
        },
        resource::v1,
    },
    transform::common::tonic::ResourceAttributesWithSchema,
};
use opentelemetry_sdk::Resource;

use crate::metrics::Metrics;

/// Creates requests with the metrics of this process.
pub(super) struct MetricsSource {
    metrics: Arc<Metrics>,
    resource: v1::Resource,
    /// The time at which counting began, in nanoseconds of Unix time.
    start: u64,
}

impl MetricsSource {
    pub(super) fn new(metrics: Arc<Metrics>, resource: &Resource) -> Self {
        let attributes = ResourceAttributesWithSchema::from(resource).attributes.0;
        Self { metrics, resource: v1::Resource { attributes, ..v1::Resource::default() }, start: now() }
    }

    /// Returns a request with the current values of all metrics.
    pub(super) fn request(&self) -> ExportMetricsServiceRequest {
        let scope = InstrumentationScope {
            name: "kaudit".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let metrics = metrics(&self.metrics.encode(), SampleTimes { start: self.start, now: now() });
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }];
        let resource = Some(self.resource.clone());
        let resource_metrics = vec![ResourceMetrics { resource, scope_metrics, schema_url: String::new() }];
        ExportMetricsServiceRequest { resource_metrics }
    }
}

/// The time at which counting began, and that of the samples, in nanoseconds of Unix time.
#[derive(Clone, Copy)]
struct SampleTimes {
    start: u64,
    now: u64,
}

/// Returns the current time, in nanoseconds of Unix time.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Parses `OpenMetrics` text in the form in which [`Metrics::encode`] writes it: for each family first its description,
/// then its samples.
fn metrics(text: &str, times: SampleTimes) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut help = "";
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(_), rest) => help = rest.unwrap_or_default(),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => metrics.push(family(name, kind, help)),
            (Some("#"), Some("UNIT"), Some(_), Some(of)) => {
                metrics.iter_mut().next_back().into_iter().for_each(|metric| unit(of).clone_into(&mut metric.unit));
            }
            _ => {
                if let (Some(metric), Some(sample)) = (metrics.last_mut(), Sample::read(line)) {
                    add(metric, sample, times);
                }
            }
        }
    }
    // Families without series are left out.
    metrics.retain(|metric| match &metric.data {
        Some(Data::Gauge(gauge)) => !gauge.data_points.is_empty(),
        Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
        Some(Data::Histogram(histogram)) => !histogram.data_points.is_empty(),
        _ => false,
    });
    metrics
}

/// Returns a metric that has no series yet.
fn family(name: &str, kind: &str, help: &str) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let sum =
        |is_monotonic| Data::Sum(Sum { data_points: Vec::new(), aggregation_temporality: cumulative, is_monotonic });
    let (suffix, data) = match kind {
        "counter" => ("_total", sum(true)),
        "info" => ("_info", sum(false)),
        "histogram" => {
            ("", Data::Histogram(Histogram { data_points: Vec::new(), aggregation_temporality: cumulative }))
        }
        _ => ("", Data::Gauge(Gauge::default())),
    };
    Metric {
        name: format!("{name}{suffix}"),
        description: help.to_owned(),
        unit: String::new(),
        metadata: vec![attribute("prometheus.type", kind)],
        data: Some(data),
    }
}

/// Returns the UCUM code of a unit.
fn unit(text: &str) -> &str {
    match text {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// A line with a sample: a name, labels and a value.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: &'t str,
}

impl<'t> Sample<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while let Some((label, text)) = rest.split_once("=\"") {
                let (value, after) = unquoted(text)?;
                labels.push((label.trim_start_matches(','), value));
                rest = after;
                if rest.starts_with('}') {
                    break;
                }
            }
            rest = rest.strip_prefix('}')?;
        }
        Some(Self { name, labels, value: rest.trim_start().split(' ').next()? })
    }
}

/// Parses the value of a label, up to the closing quote; returns it and the text after the quote.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// Adds a sample to its metric.
fn add(metric: &mut Metric, sample: Sample<'_>, SampleTimes { start, now }: SampleTimes) {
    let point = |sample: Sample<'_>, start| NumberDataPoint {
        attributes: sample.labels.iter().map(|(label, value)| attribute(label, value)).collect(),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: number(sample.value),
        ..NumberDataPoint::default()
    };
    match &mut metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.push(point(sample, 0)),
        Some(Data::Sum(sum)) => sum.data_points.push(point(sample, start)),
        Some(Data::Histogram(histogram)) => {
            let suffix = sample.name.strip_prefix(metric.name.as_str()).unwrap_or_default();
            // Each histogram begins with its sum.
            if suffix == "_sum" {
                let attributes = sample.labels.iter().map(|(label, value)| attribute(label, value)).collect();
                let times =
                    HistogramDataPoint { start_time_unix_nano: start, time_unix_nano: now, ..Default::default() };
                histogram.data_points.push(HistogramDataPoint { attributes, sum: sample.value.parse().ok(), ..times });
            } else if let Some(point) = histogram.data_points.last_mut() {
                add_to_histogram(point, suffix, &sample);
            }
        }
        _ => {}
    }
}

/// Adds the count or a bucket to a histogram. Buckets are cumulative in the text, but not in OTLP.
fn add_to_histogram(point: &mut HistogramDataPoint, suffix: &str, sample: &Sample<'_>) {
    let Ok(count) = sample.value.parse::<u64>() else { return };
    match (suffix, sample.labels.iter().find(|(label, _)| *label == "le")) {
        ("_count", _) => point.count = count,
        ("_bucket", Some((_, bound))) => {
            let below: u64 = point.bucket_counts.iter().sum();
            point.bucket_counts.push(count.saturating_sub(below));
            point.explicit_bounds.extend(bound.parse::<f64>().ok().filter(|bound| bound.is_finite()));
        }
        _ => {}
    }
}

fn number(text: &str) -> Option<Value> {
    let whole = text.parse().ok().map(Value::AsInt);
    whole.or_else(|| text.parse().ok().map(Value::AsDouble))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;

    /// Formats what was parsed like the lines that it was parsed from.
    fn lines(metrics: &[Metric]) -> BTreeMap<String, String> {
        let mut lines = BTreeMap::new();
        let labels = |attributes: &[KeyValue]| {
            let value = |attribute: &KeyValue| match attribute.value.clone().unwrap().value {
                Some(any_value::Value::StringValue(text)) => format!("{}={text}", attribute.key),
                other => panic!("{other:?}"),
            };
            attributes.iter().map(value).collect::<Vec<_>>().join(",")
        };
        for metric in metrics {
            let mut numbers = |points: &[NumberDataPoint]| {
                for point in points {
                    lines.insert(
                        format!("{}[{}]", metric.name, labels(&point.attributes)),
                        format!("{:?}", point.value.unwrap()),
                    );
                }
            };
            match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => numbers(&gauge.data_points),
                Data::Sum(sum) => numbers(&sum.data_points),
                Data::Histogram(histogram) => {
                    for point in &histogram.data_points {
                        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                        lines.insert(
                            format!("{} {}", metric.name, metric.unit),
                            format!("{} {:?}", point.count, point.sum),
                        );
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        lines
    }

    #[test]
    fn every_series_keeps_its_name_labels_and_value() {
        let kaudit = Metrics::default();
        kaudit.policy_failed("odd \"\\\n}, a=\"b\"");
        kaudit.evaluated(Duration::from_millis(500));
        kaudit.evaluated(Duration::from_secs(100));
        kaudit.set_memory(5, 7);
        let read = metrics(&kaudit.encode(), SampleTimes { start: 1, now: 2 });
        let lines = lines(&read);
        assert_eq!(lines["kaudit_policy_errors_total[policy=odd \"\\\n}, a=\"b\"]"], "AsInt(1)", "{lines:#?}");
        assert_eq!(lines["kaudit_evaluation_seconds s"], "2 Some(100.5)");
        assert_eq!(lines["kaudit_memory_bytes[]"], "AsInt(5)");
        assert_eq!(lines[&format!("kaudit_build_info[version={}]", env!("CARGO_PKG_VERSION"))], "AsInt(1)");
        let sum = |name: &str| match read.iter().find(|metric| metric.name == name).unwrap().data.clone() {
            Some(Data::Sum(sum)) => {
                (sum.is_monotonic, sum.data_points[0].start_time_unix_nano, sum.data_points[0].time_unix_nano)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!((sum("kaudit_evaluations_total"), sum("kaudit_build_info")), ((true, 1, 2), (false, 1, 2)));
        // A family without series is left out.
        assert!(!read.iter().any(|metric| metric.name.contains("notifications_pending")));
        let buckets = match read.iter().find(|metric| metric.name == "kaudit_evaluation_seconds").unwrap().data.clone()
        {
            Some(Data::Histogram(histogram)) => histogram.data_points[0].bucket_counts.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(buckets, [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
    }
}
