//! The labels of metrics.

use std::{borrow::Cow, sync::Arc};

use prometheus_client::encoding::EncodeLabelSet;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabels {
    pub(super) group: String,
    pub(super) resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindStateLabels {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RestartLabels {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ViolationLabels {
    pub(super) resource_namespace: Arc<str>,
    pub(super) policy: Arc<str>,
    pub(super) severity: &'static str,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RuleLabels {
    pub(super) policy: Arc<str>,
    pub(super) rule: Arc<str>,
    pub(super) outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReportedLabels {
    pub(super) policy: Arc<str>,
    pub(super) severity: &'static str,
    pub(super) result: &'static str,
    pub(super) lane: &'static str,
}

/// Labels of new violations with their namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(super) struct AppearedByRuleLabels {
    pub(super) resource_namespace: Arc<str>,
    pub(super) policy: Arc<str>,
    pub(super) rule: Arc<str>,
    pub(super) severity: &'static str,
    pub(super) result: &'static str,
    pub(super) lane: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ExceptionLabels {
    pub(super) state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PolicyLabels {
    pub(super) policy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RecorderLabels {
    pub(super) recorder: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReceiverLabels {
    pub(super) receiver: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DropLabels {
    pub(super) recorder: Cow<'static, str>,
    pub(super) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SharedLabels {
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReloadLabels {
    pub(super) result: &'static str,
}
