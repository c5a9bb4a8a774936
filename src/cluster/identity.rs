//! The names that kaudit uses in a cluster.

use crate::model::object::Kind;

/// kaudit's name as an Event's reporting controller, as the field manager of its writes and in [`MANAGED_BY`].
pub const CONTROLLER: &str = "kaudit";

/// The recommended Kubernetes label for the tool that manages an object, on everything that kaudit writes except
/// Events.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// API group of kaudit's own kinds. They are not evaluated, since results that kaudit writes would cause new ones.
pub const OWN_GROUP: &str = "kaudit.dev";

/// Version of kaudit's kinds.
pub const OWN_VERSION: &str = "v1alpha1";

/// Kind of the exceptions.
pub const EXCEPTION_KIND: &str = "PolicyException";

/// `group/version` of kaudit's kinds and of its JSON output.
pub const API_VERSION: &str = "kaudit.dev/v1alpha1";

/// Whether objects of this kind are exceptions, which are always read and never evaluated.
pub fn is_exception(kind: &Kind) -> bool {
    kind.is(OWN_GROUP, EXCEPTION_KIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_version_is_made_of_group_and_version() {
        assert_eq!(API_VERSION, format!("{OWN_GROUP}/{OWN_VERSION}"));
    }
}
