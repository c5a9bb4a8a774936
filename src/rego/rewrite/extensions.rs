//! Functions that rewritten modules call, for what regorus cannot parse as OPA does.

/// `pair(key, value, xs)` is `key, value in xs`.
pub(super) const PAIR: &str = "kaudit_generated.pair";

/// `member(value, xs)` is `value in xs`.
pub(super) const MEMBER: &str = "kaudit_generated.member";

/// Whether a function of this name is one of these.
pub(crate) fn is_extension(name: &str) -> bool {
    matches!(name, MEMBER | PAIR)
}
