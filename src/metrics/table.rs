//! A gauge whose series are replaced together, so that no series becomes stale and a scrape never sees a partial
//! update.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder},
    metrics::{MetricType, TypedMetric},
};

/// The series with their values. Clones share them.
#[derive(Debug)]
pub(super) struct SeriesTable<L>(Arc<Mutex<Vec<(L, i64)>>>);

impl<L> SeriesTable<L> {
    /// Replaces all series.
    pub(super) fn replace(&self, rows: Vec<(L, i64)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }
}

impl<L> Default for SeriesTable<L> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<L> Clone for SeriesTable<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L: EncodeLabelSet + fmt::Debug> EncodeMetric for SeriesTable<L> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().try_for_each(|(labels, value)| encoder.encode_family(labels)?.encode_gauge(value))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl<L> TypedMetric for SeriesTable<L> {
    const TYPE: MetricType = MetricType::Gauge;
}
