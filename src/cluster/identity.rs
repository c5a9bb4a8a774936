//! The names that kaudit has in a cluster.

/// kaudit's name as an Event's reporting controller, as the field manager of its writes and in [`MANAGED_BY`].
pub const CONTROLLER: &str = "kaudit";

/// The recommended label of Kubernetes for the tool that manages an object, on everything that kaudit writes but Events.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// API group of kaudit's own kinds; judging them would be a loop.
pub const OWN_GROUP: &str = "kaudit.dev";

/// Version of the `Audit` kind.
pub const AUDIT_VERSION: &str = "v1alpha1";

/// `group/version` of the `Audit` kind and of what is printed as JSON.
pub const API_VERSION: &str = "kaudit.dev/v1alpha1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_version_is_made_of_group_and_version() {
        assert_eq!(API_VERSION, format!("{OWN_GROUP}/{AUDIT_VERSION}"));
    }
}
