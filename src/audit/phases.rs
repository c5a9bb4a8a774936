//! The spans of the startup: the initial sync, and the evaluation of all objects that existed then.

use crate::telemetry::Span;

/// The startup phase; empty spans after startup.
#[derive(Debug)]
pub(super) struct Phases {
    /// The parent span: it ends with the last phase if nothing else holds it.
    whole: Span,
    now: Span,
}

impl Phases {
    /// Begins the initial sync.
    pub(super) fn begin() -> Self {
        Self { whole: Span::current(), now: Span::begin("sync") }
    }

    /// The initial sync is complete, and evaluation begins.
    pub(super) fn synced(&mut self) {
        self.now.end();
        self.now = self.whole.child("judge");
    }

    /// Everything has been evaluated.
    pub(super) fn evaluated(&mut self) {
        self.now.end();
        (self.whole, self.now) = (Span::default(), Span::default());
    }
}
