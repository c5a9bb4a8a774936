//! The annotations of Events, from which a later run reads the open violations. All but `kaudit.dev/audit` are only on
//! Events about violations.

/// The id of the violation.
pub const VIOLATION: &str = "kaudit.dev/violation";
/// The time when the violation appeared; not on Events about violations of a transition, which are never open.
pub const SINCE: &str = "kaudit.dev/since";
/// The namespace and name of the `Audit` of the kaudit that wrote the Event.
pub const AUDIT: &str = "kaudit.dev/audit";
/// The package of the violated rule, or the kind of the Constraint.
pub(super) const POLICY: &str = "kaudit.dev/policy";
/// The name of the violated rule, or of the Constraint.
pub(super) const RULE: &str = "kaudit.dev/rule";
/// `fail` or `warn`.
pub(super) const RESULT: &str = "kaudit.dev/result";
/// The severity of the violation, if it has one.
pub(super) const SEVERITY: &str = "kaudit.dev/severity";
/// The category in the METADATA of the rule, if it has one.
pub(super) const CATEGORY: &str = "kaudit.dev/category";
/// The title in the METADATA of the rule, if it has one.
pub(super) const TITLE: &str = "kaudit.dev/title";
/// The id in the METADATA of the rule, if it has one.
pub(super) const RULE_ID: &str = "kaudit.dev/rule-id";
/// The names of the receivers that are sent its appearance, separated by commas, where there are
/// receivers.
pub(super) const RECEIVERS: &str = "kaudit.dev/receivers";
