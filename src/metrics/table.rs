//! A gauge whose series are set all at once, so that none outlives what it is about, and no scrape sees half of them.

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
pub(super) struct Table<L>(Arc<Mutex<Vec<(L, i64)>>>);

impl<L> Table<L> {
    /// Replaces all series.
    pub(super) fn replace(&self, rows: Vec<(L, i64)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }
}

impl<L> Default for Table<L> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<L> Clone for Table<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L: EncodeLabelSet + fmt::Debug> EncodeMetric for Table<L> {
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

impl<L> TypedMetric for Table<L> {
    const TYPE: MetricType = MetricType::Gauge;
}
