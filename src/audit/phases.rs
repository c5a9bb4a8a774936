//! The spans of the beginning: until everything is synced, and until everything is judged that was there then.

use crate::telemetry::Span;

/// What the beginning is at. Nothing once it is over.
#[derive(Debug)]
pub(super) struct Phases {
    /// What they belong to: it ends with the last of them if nobody else holds it.
    whole: Span,
    now: Span,
}

impl Phases {
    /// Begins to sync.
    pub(super) fn begin() -> Self {
        Self { whole: Span::current(), now: Span::begin("sync") }
    }

    /// Everything is synced, and is judged now.
    pub(super) fn synced(&mut self) {
        self.now.end();
        self.now = self.whole.child("judge");
    }

    /// Everything is judged.
    pub(super) fn judged(&mut self) {
        self.now.end();
        (self.whole, self.now) = (Span::default(), Span::default());
    }
}
