//! The name of each message about a violation: an Event, or a notification.

use jiff::Timestamp;

use crate::{
    audit::ledger::{Id, Lifecycle, Violation},
    cluster::identity::CONTROLLER,
    model::digest::Digest,
};

/// Returns the name of the message about a change of a violation, which is the same after a restart.
pub(super) fn lifecycle_name(lifecycle: Lifecycle, violation: &Violation) -> String {
    lifecycle_name_of(lifecycle, violation.id, violation.since)
}

/// Returns the same name, by the id of the violation and the time when it appeared.
pub(super) fn lifecycle_name_of(lifecycle: Lifecycle, id: Id, since: Timestamp) -> String {
    message_name(&[&id.to_string(), &since.to_string(), lifecycle.word()])
}

/// Returns a name that is the same for the same message, so that none is sent twice. A name made of names of objects
/// would break the server's rules for names.
pub(super) fn message_name(parts: &[&str]) -> String {
    format!("{CONTROLLER}-{:032x}", Digest::of_parts(u64::to_be_bytes, parts.iter().copied()).half())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_earlier_versions_gave() {
        // Another name would repeat every Event at an upgrade.
        assert_eq!(message_name(&["ab", "c"]), "kaudit-601d5476e2ccfe2c87a2bba7a3226597");
    }
}
