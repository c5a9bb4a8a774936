//! The reasons of the Events that kaudit writes. All are of the type `Warning`, except `PolicyResolved`.

/// A violation of the object is new, or a change of the object violated a policy.
pub(crate) const APPEARED: &str = "PolicyViolation";
/// A violation of the object is resolved, or is excused from now on.
pub(crate) const RESOLVED: &str = "PolicyResolved";
/// A policy file was refused. About the `Audit`.
pub(crate) const REFUSED: &str = "PolicyRefused";
/// Events about violations in the namespace wait to be written, as there are more than may be written at once. About the
/// Namespace, or the `Audit` for cluster-scoped objects.
pub(crate) const HELD_BACK: &str = "EventsHeldBack";
/// Events about objects in the namespace were not written, because single objects exceeded their rate limit. About the
/// Namespace, or the `Audit` for cluster-scoped objects.
pub(crate) const DROPPED: &str = "EventsDropped";
/// The exception is not in force, or only in part. About the `PolicyException`.
pub(crate) const EXCEPTION_INVALID: &str = "PolicyExceptionInvalid";
/// The exception ends within two weeks. About the `PolicyException`.
pub(crate) const EXCEPTION_EXPIRING: &str = "PolicyExceptionExpiring";
/// The exception has ended, so its violations are reported again. About the `PolicyException`.
pub(crate) const EXCEPTION_EXPIRED: &str = "PolicyExceptionExpired";
