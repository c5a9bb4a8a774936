//! What marks the Events of kaudit, so that a later run can read the open violations from them.

/// Annotation with the id of the violation, on each Event that is about one.
pub const VIOLATION: &str = "kaudit.dev/violation";
/// Annotation with the time when the violation appeared; not on Events about violations of a transition, which are
/// never open.
pub const SINCE: &str = "kaudit.dev/since";
/// Annotation with namespace and name of the `Audit` of the kaudit that wrote an Event.
pub const AUDIT: &str = "kaudit.dev/audit";
/// Annotations with the violation's policy, rule and result (`fail` or `warn`).
pub(super) const POLICY: &str = "kaudit.dev/policy";
pub(super) const RULE: &str = "kaudit.dev/rule";
pub(super) const RESULT: &str = "kaudit.dev/result";
/// Annotations with its severity, and with the METADATA of its rule, as far as they are set.
pub(super) const SEVERITY: &str = "kaudit.dev/severity";
pub(super) const CATEGORY: &str = "kaudit.dev/category";
pub(super) const TITLE: &str = "kaudit.dev/title";
pub(super) const RULE_ID: &str = "kaudit.dev/rule-id";
/// Annotation with the names of the receivers that are sent its appearance, separated by commas, where there are
/// receivers.
pub(super) const RECEIVERS: &str = "kaudit.dev/receivers";
/// Reason of Events about violations that appeared.
pub(super) const APPEARED: &str = "PolicyViolation";
/// Reason of Events about violations that are resolved.
pub(super) const RESOLVED: &str = "PolicyResolved";
