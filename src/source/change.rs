//! Changes: the one type that every source delivers and the pipeline consumes.

use std::{fmt, sync::Arc};

use tokio::sync::{Semaphore, mpsc};

use crate::model::{
    coverage::State,
    object::{Kind, Object, ObjectKey},
};

/// A change that a source reports. Within a watch scope the order counts.
#[derive(Debug, Clone)]
pub enum Change {
    /// Reading of a watch scope starts.
    Appeared(WatchScope),
    /// The first watch scope replaces the second, which has the same objects in another API version, as soon as its
    /// first list is complete. Sent after its `Appeared`.
    Succeeds(WatchScope, WatchScope),
    /// A watch scope is no longer read, and its objects are removed.
    Vanished(WatchScope),
    /// A pass of discovery is complete: every watch scope has appeared.
    Discovered(Discovered),
    /// A new list of the watch scope begins.
    Listing(WatchScope),
    /// The current state of an object.
    Seen(WatchScope, Object),
    /// An object was deleted; its last state.
    Gone(WatchScope, Object),
    /// An object that could not be read was deleted.
    GoneUnread(WatchScope, ObjectKey),
    /// An object cannot be read: its name, as far as it is known, and why.
    Skipped(WatchScope, String, String),
    /// The watch works and has no event to deliver: sent when it starts and at each bookmark.
    Quiet(WatchScope),
    /// The watch scope's list is complete, or it can be read again.
    Synced(WatchScope),
    /// The watch scope cannot be read for now.
    Unreadable(WatchScope, Unreadable),
    /// A list or watch was restarted, with the reason as a metric's label.
    Restarted(WatchScope, &'static str),
}

impl Change {
    /// Returns the size in bytes of the object it carries.
    fn bytes(&self) -> usize {
        match self {
            Self::Seen(_, object) | Self::Gone(_, object) => object.body.bytes().len(),
            _ => 0,
        }
    }
}

/// Bounds the bytes of the objects in flight to the pipeline: channels count changes, and one object may have 1.5 MB or
/// more. Unbounded by default.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Option<Arc<InFlightRoom>>);

#[derive(Debug)]
struct InFlightRoom {
    kib: u32,
    free: Semaphore,
}

impl InFlight {
    /// Creates one with room for `bytes`.
    pub fn new(bytes: u64) -> Self {
        let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(MOST_KIB);
        Self(Some(Arc::new(InFlightRoom { kib, free: Semaphore::new(kib as usize) })))
    }

    /// Sends a change as soon as there is room for it, which is taken until the change [leaves](Self::leave). Sends
    /// nothing if the receiver is closed.
    ///
    /// # Cancel safety
    /// A change that is not sent takes no room.
    pub(crate) async fn send(&self, changes: &mpsc::Sender<Change>, change: Change) {
        let Ok(place) = changes.reserve().await else { return };
        // The semaphore is never closed.
        if let Some(room) = &self.0
            && let Ok(taken) = room.free.acquire_many(room.kib_of(&change)).await
        {
            taken.forget();
        }
        place.send(change);
    }

    /// Gives back the room of a change that was received.
    pub(crate) fn leave(&self, change: &Change) {
        if let Some(room) = &self.0 {
            room.free.add_permits(room.kib_of(change) as usize);
        }
    }
}

/// 256 GiB, more than a machine holds in flight.
const MOST_KIB: u32 = 1 << 28;

impl InFlightRoom {
    /// Returns the room that a change takes; one larger than the total takes all of it.
    fn kib_of(&self, change: &Change) -> u32 {
        u32::try_from(change.bytes() / 1024).unwrap_or(u32::MAX).min(self.kib)
    }
}

/// The scope of one list and watch: a kind, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchScope {
    /// The kind that is listed and watched.
    pub kind: Arc<Kind>,
    /// The namespace; `None` for the whole cluster and for cluster-scoped kinds.
    pub namespace: Option<Arc<str>>,
}

impl WatchScope {
    /// Returns the path of its collection on the API server.
    pub fn url_path(&self) -> String {
        let root = if self.kind.group.is_empty() { "api" } else { "apis" };
        let (version, plural) = (self.kind.api_version(), &self.kind.plural);
        match &self.namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{version}/{plural}"),
        }
    }

    /// Whether both contain the same objects, perhaps in different API versions.
    pub fn is_version_of(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.kind.is_version_of(&other.kind)
    }
}

/// Shows `plural.group`, and the namespace if there is one.
impl fmt::Display for WatchScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
    }
}

/// Why a watch scope cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// [`State::Forbidden`] or [`State::Failed`].
    pub state: State,
    /// The server's message; empty where documents of a file failed, which are named one by one.
    pub message: String,
}

/// A group version whose kinds could not be discovered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unserved {
    /// Empty for the core group.
    pub group: String,
    /// For example `v1beta1`.
    pub version: String,
    /// The reason, if the server gives one.
    pub message: String,
}

/// The result of one pass of discovery, without the watch scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Group versions that are registered, but whose server does not answer.
    pub unserved: Vec<Unserved>,
    /// Kinds that are served but not audited, with the reason.
    pub excluded: Vec<(Arc<Kind>, String)>,
    /// The server may have just started and not serve all its kinds yet: missing ones may appear in a later pass.
    pub provisional: bool,
    /// Whether the same holds for kinds of which an earlier run recorded violations. A long run gives these as much time
    /// as kinds that it has read itself.
    pub may_lack_former_kinds: bool,
    /// Whether the same holds for the kind of exceptions, if the cluster should have it. A single check does not wait for
    /// another pass.
    pub may_lack_exceptions: bool,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    fn seen(name: &str) -> Change {
        let kind = Arc::new(Kind {
            group: String::new(),
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            kind: "Pod".to_owned(),
            singular: String::new(),
            short_names: Vec::new(),
            namespaced: true,
        });
        let key = ObjectKey { kind: Arc::clone(&kind), namespace: None, name: name.into(), copy: 0 };
        Change::Seen(WatchScope { kind, namespace: None }, Object::sample(key, &[b' '; 4096]))
    }

    #[tokio::test]
    async fn changes_that_are_never_sent_take_no_room() {
        let in_flight = InFlight::new(8 << 10);
        let (changes, mut received) = mpsc::channel(1);
        in_flight.send(&changes, seen("first")).await;
        for round in 0..8 {
            // The channel is full, and the sender gives up.
            let waiting = in_flight.send(&changes, seen(&format!("given-up-{round}"))).now_or_never();
            assert!(waiting.is_none(), "{round}");
        }
        in_flight.leave(&received.recv().await.unwrap());
        let all = async {
            for round in 0..8 {
                in_flight.send(&changes, seen(&format!("later-{round}"))).await;
                in_flight.leave(&received.recv().await.unwrap());
            }
        };
        timeout(Duration::from_secs(30), all).await.unwrap();
    }
}
