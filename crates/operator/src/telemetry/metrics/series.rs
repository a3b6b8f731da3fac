//! The series of a metric, by their labels. Other than the library's families, they are in order, and those of what is gone go too.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder},
    metrics::{MetricType, TypedMetric},
};

/// The series of a metric. Clones have the same.
#[derive(Clone, Debug)]
pub(super) struct Series<L, M> {
    all: Arc<RwLock<BTreeMap<L, M>>>,
    new: fn() -> M,
}

impl<L: Ord, M: Clone + Default> Default for Series<L, M> {
    fn default() -> Self {
        Self::new(M::default)
    }
}

impl<L: Ord, M: Clone> Series<L, M> {
    /// None yet. Each begins as this says.
    pub(super) fn new(new: fn() -> M) -> Self {
        Self { all: Arc::default(), new }
    }

    /// The one with these labels, which is made if there is none.
    pub(super) fn of(&self, labels: L) -> M {
        self.all.write().unwrap_or_else(PoisonError::into_inner).entry(labels).or_insert_with(self.new).clone()
    }

    /// Forgets the others.
    pub(super) fn retain(&self, is_kept: impl Fn(&L) -> bool) {
        self.all.write().unwrap_or_else(PoisonError::into_inner).retain(|labels, _| is_kept(labels));
    }
}

impl<L, M> EncodeMetric for Series<L, M>
where
    L: EncodeLabelSet,
    M: EncodeMetric + TypedMetric,
{
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        for (labels, metric) in self.all.read().unwrap_or_else(PoisonError::into_inner).iter() {
            metric.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}
