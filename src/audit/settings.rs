//! How a pipeline works.

use std::{sync::Arc, time::Duration};

use crate::model::shard::Shard;

/// What happens with the objects that exist at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialObjects {
    /// They are evaluated when the gate opens.
    Judge,
    /// They are evaluated when they change.
    Skip,
    /// Each is evaluated as it is read and dropped afterwards: for sources that end, with policies that need no other object.
    Stream,
}

/// How a pipeline works.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent switches")]
pub struct PipelineSettings {
    /// What happens with the objects that exist at the start.
    pub initial: InitialObjects,
    /// How long the first list of a scope may make no progress.
    pub sync_timeout: Duration,
    /// How often objects are evaluated again whose results depend on the clock; `None` is never.
    pub rejudge_every: Option<Duration>,
    /// Whether an object is not evaluated again if nothing changed that a policy reads. Off only to prove that it makes no
    /// difference.
    pub update_filter: bool,
    /// Which objects are evaluated and recorded.
    pub shard: Shard,
    /// Whether a violation that an owner shares is listed and reported at the owner only.
    pub roll_up: bool,
    /// How long it takes until a violation that an owner covered is reported.
    pub handover: Duration,
    /// How many namespaces have metrics of their own.
    pub metrics_namespaces: usize,
    /// Whether kinds that cannot be read are logged; otherwise only the result names them.
    pub logs_unread: bool,
    /// Whether inactive objects are evaluated: see [`source::inactive`](crate::source::inactive).
    pub judge_inactive: bool,
    /// The label of a Namespace that names its team.
    pub team_label: Option<Arc<str>>,
    /// The memory that the process may have, in bytes; `None` for no limit.
    pub memory: Option<u64>,
}
