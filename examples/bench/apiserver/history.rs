//! What happened to the objects: one sequence of versions for all kinds, as in one etcd.
//!
//! Of an object only the versions of what happened to it last are kept; everything else is computed from them. Of each
//! version, back to a number of them, it is known how its object was before: so the state at any of these can be told.

use std::{collections::VecDeque, ops::Range};

/// When something happened to an object last; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// When it was created.
    pub(crate) born: u32,
    /// When its specification changed, since it was created.
    pub(crate) spec: u32,
    /// When its status changed, since it was created.
    pub(crate) status: u32,
    /// When it was deleted, or what had its slot before it.
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

/// What happens to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Create,
    Spec,
    Status,
    Delete,
}

/// A version.
#[derive(Debug)]
struct Entry {
    slot: u32,
    step: Step,
    before: Stamps,
}

/// A version as a watch tells of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) version: u32,
    pub(crate) slot: u32,
    pub(crate) step: Step,
    /// The object, or how it was last if it was deleted.
    pub(crate) stamps: Stamps,
}

/// Versions are searched for those that a watch is about in steps of this many.
const SEARCH: usize = 4_096;

/// The objects now and some time back.
#[derive(Debug)]
pub(crate) struct History {
    latest: u32,
    stamps: Vec<Stamps>,
    /// The last versions, the oldest first.
    log: VecDeque<Entry>,
    /// How many are kept.
    keep: usize,
}

impl History {
    /// Creates the objects of all slots; knows no version before the last of them.
    pub(crate) fn new(slots: u32, keep: usize) -> Self {
        let stamps = (1..=slots).map(|born| Stamps { born, spec: 0, status: 0, gone: 0 }).collect();
        Self { latest: slots, stamps, log: VecDeque::new(), keep }
    }

    /// Returns the version of the cluster now.
    pub(crate) fn latest(&self) -> u32 {
        self.latest
    }

    /// Returns the oldest version of which the state is known.
    pub(crate) fn oldest(&self) -> u32 {
        self.latest - self.log.len() as u32
    }

    /// Has something happen to an object.
    pub(crate) fn push(&mut self, slot: u32, step: Step) {
        self.latest += 1;
        let stamps = &mut self.stamps[slot as usize];
        self.log.push_back(Entry { slot, step, before: *stamps });
        *stamps = stamps.after(step, self.latest);
        if self.log.len() > self.keep {
            self.log.pop_front();
        }
    }

    /// Returns an object as it was at a version, which must not be older than the oldest; `None` if there was none.
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

    /// Returns what happened after a version to objects of some slots, at most `most` of it, and up to which version that is.
    /// `None` if it is not known any more.
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
