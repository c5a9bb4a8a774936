//! What changes, and how fast.

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

/// How often changes are made: so often that they come evenly.
const TICK: Duration = Duration::from_millis(2);
/// Changes that are made at a time, at most.
const BLOCK: u64 = 1_000;

/// How fast the cluster changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    /// The percentage of the changes that are of the status alone.
    pub(crate) status_share: u32,
    /// After how many changes it rests again.
    pub(crate) count: u64,
}

/// Makes changes, for ever.
pub(crate) async fn make(server: Arc<Server>, mut pace: watch::Receiver<Pace>) {
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
            server.happen(|history, world| (0..now).for_each(|_| change(history, world, status_share)));
            made += now;
            server.made.store(made, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
        if pace.changed().await.is_err() {
            return;
        }
    }
}

/// Makes the change that comes next: the same one after the same others.
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
