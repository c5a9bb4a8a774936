//! What marks the Events of kaudit, so that a later run can read from them what stands.

/// Annotation with the id of the violation that an Event is about, on each that is about one.
pub const VIOLATION: &str = "kaudit.dev/violation";
/// Annotation with the time since when it stands; not on Events about violations of a transition, which never stand.
pub const SINCE: &str = "kaudit.dev/since";
/// Annotation with namespace and name of the `Audit` of the kaudit that wrote an Event.
pub const AUDIT: &str = "kaudit.dev/audit";
/// Reason of Events about violations that appeared.
pub(super) const APPEARED: &str = "PolicyViolation";
/// Reason of Events about violations that are over.
pub(super) const RESOLVED: &str = "PolicyResolved";
