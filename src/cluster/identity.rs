//! What kaudit is known by in a cluster.

/// kaudit's name as an Event's reporting controller and as the field manager of its writes.
pub const CONTROLLER: &str = "kaudit";

/// API group of kaudit's own kinds; judging them would be a loop.
pub const OWN_GROUP: &str = "kaudit.dev";
