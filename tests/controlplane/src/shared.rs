//! One control plane for all tests of a process.

use std::env;

use tokio::sync::OnceCell;

use crate::plane::{ControlPlane, Options};

/// Returns the control plane of this process, and starts it on the first call.
///
/// With `USE_EXISTING_CLUSTER=true` it is the cluster of the environment's kubeconfig, which has no audit log and no
/// faults.
///
/// # Panics
///
/// If there is no control plane; call [`require`](crate::require) first.
#[expect(clippy::panic, reason = "only tests call this")]
pub async fn shared() -> &'static ControlPlane {
    // Also caches a failure, so that tests do not wait for it one after the other.
    static PLANE: OnceCell<Result<ControlPlane, String>> = OnceCell::const_new();
    let plane = PLANE
        .get_or_init(|| async {
            let plane = if use_existing_cluster() {
                ControlPlane::existing().await
            } else {
                ControlPlane::start(Options::default()).await
            };
            plane.map_err(|error| format!("{error:#}"))
        })
        .await;
    match plane {
        Ok(plane) => plane,
        Err(error) => panic!("no control plane: {error}"),
    }
}

/// Whether the environment selects an existing cluster.
pub(crate) fn use_existing_cluster() -> bool {
    env::var("USE_EXISTING_CLUSTER").is_ok_and(|value| value.eq_ignore_ascii_case("true"))
}
