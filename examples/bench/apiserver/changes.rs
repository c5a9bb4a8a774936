//! Changes of the simulated objects, at a set pace.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::sleep};

use super::{
    Server,
    history::{History, Step},
    world::{Kind, World, mix},
};

/// The interval of changes, short enough for an even pace.
const TICK: Duration = Duration::from_millis(2);
/// The most changes that are made at a time.
const BLOCK: u64 = 1_000;

/// The rate of changes in the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    /// The percentage of changes that affect only the status.
    pub(crate) status_share: u32,
    /// The number of changes after which there are no more.
    pub(crate) count: u64,
}

/// Makes changes until the future is dropped.
pub(crate) async fn run(server: Arc<Server>, mut pace: watch::Receiver<Pace>) {
    loop {
        let Pace { per_second, status_share, count } = *pace.borrow_and_update();
        let (began, mut made) = (Instant::now(), 0);
        while pace.has_changed().is_ok_and(|changed| !changed) && per_second > 0.0 && made < count {
            let due = ((began.elapsed().as_secs_f64() * per_second) as u64).min(count);
            let now = (due - made).min(BLOCK);
            if now == 0 {
                sleep(TICK).await;
                continue;
            }
            server.change(|history, world| (0..now).for_each(|_| change(history, world, status_share)));
            made += now;
            server.made.store(made, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
        if pace.changed().await.is_err() {
            return;
        }
    }
}

/// Makes the next change, which depends only on the version of the cluster.
fn change(history: &mut History, world: &World, status_share: u32) {
    let dice = mix(u64::from(history.latest()) << 20);
    let percent = |place: u32| (dice >> place) % 100;
    let (kind, steps): (_, &[Step]) = if percent(0) < status_share.into() {
        let kind = match percent(8) {
            0..85 => Kind::Pod,
            85..95 => Kind::Node,
            _ => Kind::Deployment,
        };
        (kind, &[Step::Status])
    } else {
        match percent(8) {
            0..40 => (Kind::Pod, &[Step::Delete, Step::Create]),
            40..80 => (Kind::Pod, &[Step::Spec]),
            80..95 => (Kind::Deployment, &[Step::Spec]),
            _ => (Kind::ConfigMap, &[Step::Spec]),
        }
    };
    let mut slots = world.slots(kind, None);
    if slots.is_empty() {
        slots = world.slots(Kind::Node, None);
    }
    let slot = slots.start + (mix(dice) % slots.len() as u64) as u32;
    for step in steps {
        history.push(slot, *step);
    }
}

/// Changes the labels of all Namespaces.
pub(crate) fn relabel(history: &mut History, world: &World) {
    world.slots(Kind::Namespace, None).for_each(|slot| history.push(slot, Step::Spec));
}
