//! Reads the objects of a cluster that only serve lookups while manifests are checked: see
//! [`Inputs`](super::pipeline::Inputs).
//!
//! In: the changes of an informer that reads once. Out: the objects, and which kinds could be read.

use std::{sync::Arc, time::Instant};

use tokio::{sync::mpsc, time::interval};

use super::{
    cache::Effect, memory::MemoryUsage, pipeline::OVERVIEW_EVERY, settings::PipelineSettings, watched::WatchedObjects,
};
use crate::{
    metrics::Metrics,
    model::{body::Packing, object::Object},
    source::{
        change::{Change, WatchScope},
        selection::Selection,
    },
};

/// Reads until each kind of the selection is listed or given up on, or the changes end.
pub(crate) async fn read(
    mut changes: mpsc::Receiver<Change>,
    selection: Selection,
    settings: PipelineSettings,
    packing: Packing,
    metrics: Arc<Metrics>,
) -> WatchedObjects {
    let mut objects = WatchedObjects::new(settings, packing, metrics);
    objects.selection = Some(selection);
    let mut tick = interval(OVERVIEW_EVERY);
    while !objects.gate.try_open(Instant::now()) {
        tokio::select! {
            change = changes.recv() => match change {
                Some(change) => apply(&mut objects, change),
                None => break,
            },
            // Kinds that make no progress are given up on.
            _ = tick.tick() => {}
        }
    }
    objects.sources_ended = true;
    objects
}

fn apply(objects: &mut WatchedObjects, change: Change) {
    let now = Instant::now();
    match change {
        Change::Appeared(scope) => objects.appeared(scope, now),
        Change::Vanished(scope) => drop(objects.vanished(&scope)),
        Change::Discovered(discovered) => objects.gate.discovered(discovered),
        Change::Listing(scope) => objects.listing(&scope, now),
        Change::Seen(scope, object) => seen(objects, &scope, object, now),
        Change::Skipped(scope, name, why) => objects.skipped(&scope, &name, &why),
        Change::Synced(scope) => {
            objects.cache.listed(&scope);
            objects.gate.synced(&scope);
        }
        Change::Unreadable(scope, why) => objects.unreadable(&scope, why),
        // An informer that reads once watches nothing.
        Change::Succeeds(..) | Change::Gone(..) | Change::GoneUnread(..) | Change::Quiet(_) | Change::Restarted(..) => {
        }
    }
}

fn seen(objects: &mut WatchedObjects, scope: &WatchScope, object: Object, now: Instant) {
    let growth = objects.cache.growth(scope, &object);
    if let Err(why) = objects.check_room(&object.key, growth, &MemoryUsage::default()) {
        return objects.skipped(scope, &object.key.path(), &why);
    }
    if let Effect::New = objects.cache.apply(scope, object) {
        objects.gate.progressed(scope, now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        audit::settings::InitialObjects,
        model::{
            coverage::{Coverage, State},
            object::{Kind, ObjectKey},
            shard::Shard,
        },
        source::change::{Discovered, Unreadable},
    };

    const SETTINGS: PipelineSettings = PipelineSettings {
        team_label: None,
        initial: InitialObjects::Judge,
        sync_timeout: Duration::from_millis(50),
        rejudge_every: None,
        update_filter: true,
        shard: Shard::WHOLE,
        roll_up: true,
        handover: Duration::ZERO,
        metrics_namespaces: 0,
        logs_unread: false,
        judge_inactive: false,
        memory: None,
    };

    fn scope(plural: &str, kind: &str) -> WatchScope {
        WatchScope { kind: Kind::sample("", plural, kind), namespace: None }
    }

    fn object(scope: &WatchScope, name: &str) -> Object {
        let namespace = Some("n".into());
        Object::sample(ObjectKey { kind: Arc::clone(&scope.kind), namespace, name: name.into(), copy: 0 }, b"{}")
    }

    async fn read_all(changes: Vec<Change>) -> WatchedObjects {
        let (sender, receiver) = mpsc::channel(100);
        for change in changes {
            sender.send(change).await.unwrap();
        }
        let read = read(receiver, Selection::default(), SETTINGS, Packing::default(), Arc::default());
        // The sender stays open, as that of an informer whose list makes no progress.
        let objects = read.await;
        drop(sender);
        objects
    }

    #[tokio::test]
    async fn manifests_replace_objects_and_what_cannot_be_read_is_a_gap() {
        let (services, secrets, slow) =
            (scope("services", "Service"), scope("secrets", "Secret"), scope("pods", "Pod"));
        let forbidden = Unreadable { state: State::Forbidden, message: "no rights".into() };
        let cluster = read_all(vec![
            Change::Appeared(services.clone()),
            Change::Appeared(secrets.clone()),
            Change::Appeared(slow.clone()),
            Change::Discovered(Discovered::default()),
            Change::Listing(services.clone()),
            Change::Listing(slow.clone()),
            Change::Seen(services.clone(), object(&services, "a")),
            Change::Seen(services.clone(), object(&services, "b")),
            Change::Synced(services.clone()),
            Change::Unreadable(secrets, forbidden),
        ])
        .await;
        let mut manifests = read_all(vec![Change::Discovered(Discovered::default())]).await;
        manifests.cluster = Some(Arc::new(cluster));
        // The manifest has another version, and a plural that was guessed.
        let kind = Kind { version: "v2".into(), plural: "servicees".into(), ..Kind::clone(&services.kind) };
        let guessed = WatchScope { kind: Arc::new(kind), namespace: None };
        apply(&mut manifests, Change::Appeared(guessed.clone()));
        apply(&mut manifests, Change::Seen(guessed.clone(), object(&guessed, "a")));
        apply(&mut manifests, Change::Synced(guessed));
        let keys: Vec<String> = manifests.of_cluster().map(|key| key.to_string()).collect();
        assert_eq!(keys, ["Service n/b"]);
        assert!(manifests.state_to_look_up(object(&services, "b").key).1.is_some());
        assert!(manifests.state_to_look_up(object(&services, "c").key).1.is_none());
        let gaps = manifests.coverage(|| false).into_iter().filter(Coverage::is_gap);
        let gaps: Vec<_> = gaps.map(|gap| (gap.resource, gap.state, gap.message)).collect();
        let why = |text: &str| format!("for lookups: {text}");
        assert_eq!(
            gaps,
            [
                ("pods".to_owned(), State::TimedOut, why("the first list made no progress for 50ms")),
                ("secrets".to_owned(), State::Forbidden, why("no rights")),
            ]
        );
        assert!(!manifests.are_complete());
        manifests.cluster = None;
        assert!(manifests.are_complete());
    }
}
