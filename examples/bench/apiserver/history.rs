//! The history of all objects: one sequence of versions for all kinds, as in etcd.
//!
//! For each object, only the versions of its last creation, changes and deletion are stored; its contents are computed
//! from them. For a limited number of the last versions, the previous state of the object is stored as well, so that
//! the state of the cluster at each of these versions can be computed.

use std::{collections::VecDeque, ops::Range};

/// The versions of the last changes of an object; 0 means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// The version of its creation.
    pub(crate) born: u32,
    /// The version of the last change of its specification since the creation.
    pub(crate) spec: u32,
    /// The version of the last change of its status since the creation.
    pub(crate) status: u32,
    /// The version of the last deletion in its slot, which may be that of an earlier object.
    gone: u32,
}

impl Stamps {
    /// Returns its `resourceVersion`.
    pub(crate) fn version(self) -> u32 {
        self.born.max(self.spec).max(self.status).max(self.gone)
    }

    fn exists(self) -> bool {
        self.gone < self.born
    }

    fn after(self, step: Step, version: u32) -> Self {
        match step {
            Step::Create => Self { born: version, spec: 0, status: 0, ..self },
            Step::Spec => Self { spec: version, ..self },
            Step::Status => Self { status: version, ..self },
            Step::Delete => Self { gone: version, ..self },
        }
    }
}

/// A change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Spec,
    Status,
    Delete,
}

/// A change with the previous state of its object.
#[derive(Debug)]
struct Entry {
    slot: u32,
    step: Step,
    before: Stamps,
}

/// A change as watches need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) version: u32,
    pub(crate) slot: u32,
    pub(crate) step: Step,
    /// The state after the change; after a deletion, the last state.
    pub(crate) stamps: Stamps,
}

/// The most versions that are searched at a time for changes of watched objects.
const SEARCH: usize = 4_096;

/// The current state of all objects, and their recent changes.
#[derive(Debug)]
pub(crate) struct History {
    latest: u32,
    stamps: Vec<Stamps>,
    /// The last changes, the oldest first.
    log: VecDeque<Entry>,
    /// The number of changes that are kept.
    keep: usize,
}

impl History {
    /// Creates the objects of all slots. The oldest version is that of the last creation.
    pub(crate) fn new(slots: u32, keep: usize) -> Self {
        let stamps = (1..=slots).map(|born| Stamps { born, spec: 0, status: 0, gone: 0 }).collect();
        Self { latest: slots, stamps, log: VecDeque::new(), keep }
    }

    /// Returns the current version of the cluster.
    pub(crate) fn latest(&self) -> u32 {
        self.latest
    }

    /// Returns the oldest version whose state can be computed.
    pub(crate) fn oldest(&self) -> u32 {
        self.latest - self.log.len() as u32
    }

    /// Changes an object.
    pub(crate) fn push(&mut self, slot: u32, step: Step) {
        self.latest += 1;
        let stamps = &mut self.stamps[slot as usize];
        self.log.push_back(Entry { slot, step, before: *stamps });
        *stamps = stamps.after(step, self.latest);
        if self.log.len() > self.keep {
            self.log.pop_front();
        }
    }

    /// Returns the state of an object at a version, which must not be older than the oldest; `None` if it did not
    /// exist.
    pub(crate) fn at(&self, slot: u32, version: u32) -> Option<Stamps> {
        let mut stamps = self.stamps[slot as usize];
        while stamps.version() > version {
            stamps = self.entry(stamps.version()).before;
        }
        stamps.exists().then_some(stamps)
    }

    fn entry(&self, version: u32) -> &Entry {
        &self.log[(version - self.oldest() - 1) as usize]
    }

    /// Returns at most `most` changes of the objects in `slots` after a version, and the version up to which they are
    /// complete. Returns `None` if the version is older than the oldest.
    pub(crate) fn since(&self, version: u32, slots: &Range<u32>, most: usize) -> Option<(Vec<Event>, u32)> {
        if version < self.oldest() {
            return None;
        }
        let (mut events, mut upto) = (Vec::new(), version);
        while upto < self.latest && events.len() < most && ((upto - version) as usize) < SEARCH {
            upto += 1;
            let Entry { slot, step, before } = *self.entry(upto);
            if slots.contains(&slot) {
                let stamps = if step == Step::Delete { before } else { before.after(step, upto) };
                events.push(Event { version: upto, slot, step, stamps });
            }
        }
        Some((events, upto))
    }
}
