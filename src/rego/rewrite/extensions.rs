//! Functions that rewritten modules call, for what regorus cannot parse as OPA does.

/// `pair(key, value, xs)` is `key, value in xs`.
pub(super) const PAIR: &str = "kaudit_generated.pair";

/// `member(value, xs)` is `value in xs`.
pub(super) const MEMBER: &str = "kaudit_generated.member";
