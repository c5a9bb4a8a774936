//! Back-off while the server, or a namespace, accepts no Events: one pause for all of them, so that failures do not
//! multiply.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::cluster::backoff::Backoff;

/// Pauses, unless the server asks for longer ones.
const BACKOFF: Backoff = Backoff::between(Duration::from_millis(250), Duration::from_secs(10));
/// How long to wait after a refusal that someone has to fix.
pub(super) const REFUSED: Duration = Duration::from_secs(30);
/// Failures in a row after which a run that is ending gives up.
const MAX_FAILURES: u32 = 8;

#[derive(Debug)]
struct Pause {
    until: Instant,
    failures: u32,
    /// Whether someone has to fix the cause first.
    refused: bool,
    why: String,
}

impl Pause {
    /// Begins a pause, or extends it. Responses to requests that were in flight when it began do not count as failures.
    fn fail(pause: Option<Self>, at_least: Duration, why: String, now: Instant) -> Self {
        let failures = match &pause {
            Some(pause) if pause.until > now => pause.failures,
            Some(pause) => pause.failures + 1,
            None => 1,
        };
        let until = now + at_least.max(BACKOFF.after(failures));
        Self { until: pause.map_or(until, |pause| pause.until.max(until)), failures, refused: at_least >= REFUSED, why }
    }
}

/// The pause of the server and those of namespaces.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    server: Option<Pause>,
    namespaces: BTreeMap<String, Pause>,
}

impl Pauses {
    /// Notes that the server accepts no Events for now.
    pub(super) fn server_failed(&mut self, at_least: Duration, why: String, now: Instant) {
        self.server = Some(Pause::fail(self.server.take(), at_least, why, now));
    }

    /// Notes that a namespace accepts no Events for now, while the server responds.
    pub(super) fn namespace_failed(&mut self, namespace: &str, at_least: Duration, why: String, now: Instant) {
        self.server = None;
        let pause = Pause::fail(self.namespaces.remove(namespace), at_least, why, now);
        self.namespaces.insert(namespace.to_owned(), pause);
    }

    /// Notes that a namespace accepts Events.
    pub(super) fn succeeded(&mut self, namespace: &str) {
        self.server = None;
        self.namespaces.remove(namespace);
    }

    /// Returns until when nothing can be written.
    pub(super) fn server_until(&self) -> Option<Instant> {
        self.server.as_ref().map(|pause| pause.until)
    }

    /// Returns until when nothing can be written in a namespace.
    pub(super) fn namespace_until(&self, namespace: &str, now: Instant) -> Option<Instant> {
        self.namespaces.get(namespace).map(|pause| pause.until).filter(|until| *until > now)
    }

    /// Whether Events of a namespace wait for the end of a pause.
    pub(super) fn is_pausing(&self, namespace: &str) -> bool {
        self.server.is_some() || self.namespaces.contains_key(namespace)
    }

    /// Whether a recorder that is ending should not retry a namespace.
    pub(super) fn is_hopeless(&self, namespace: &str) -> bool {
        let pauses = self.server.iter().chain(self.namespaces.get(namespace));
        pauses.into_iter().any(|pause| pause.failures >= MAX_FAILURES || pause.refused)
    }

    /// Returns what is wrong; empty if nothing is.
    pub(super) fn trouble(&self) -> String {
        if let Some(pause) = &self.server {
            return format!("Events wait: {}", pause.why);
        }
        match self.namespaces.first_key_value() {
            None => String::new(),
            Some((namespace, pause)) => {
                let others = match self.namespaces.len() - 1 {
                    0 => String::new(),
                    others => format!(" (and in {others} more)"),
                };
                format!("Events cannot be written in namespace {namespace}{others}: {}", pause.why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end_with_the_first_success() {
        let (mut pauses, start) = (Pauses::default(), Instant::now());
        let fail = |pauses: &mut Pauses, now: Instant| {
            pauses.server_failed(Duration::ZERO, "gone".to_owned(), now);
            pauses.server_until().unwrap()
        };
        let first = fail(&mut pauses, start);
        assert_eq!(first, start + BACKOFF.first);
        assert_eq!(fail(&mut pauses, start), first, "four were under way");
        assert_eq!(fail(&mut pauses, first), first + BACKOFF.first * 2);
        let mut now = first;
        for _ in 0..20 {
            now = fail(&mut pauses, now);
        }
        assert_eq!(fail(&mut pauses, now), now + BACKOFF.longest);
        assert!(pauses.is_hopeless("any") && pauses.trouble() == "Events wait: gone");
        pauses.succeeded("any");
        assert_eq!((pauses.server_until(), pauses.trouble()), (None, String::new()));
    }

    #[test]
    fn one_namespace_does_not_stop_the_others() {
        let (mut pauses, now) = (Pauses::default(), Instant::now());
        let wait = Duration::from_secs(30);
        for namespace in ["a", "b"] {
            pauses.namespace_failed(namespace, wait, "is forbidden".to_owned(), now);
        }
        assert_eq!(pauses.namespace_until("a", now), Some(now + wait));
        assert_eq!((pauses.namespace_until("a", now + wait), pauses.namespace_until("c", now)), (None, None));
        assert!(pauses.server_until().is_none() && pauses.is_hopeless("a") && !pauses.is_hopeless("c"));
        assert_eq!(pauses.trouble(), "Events cannot be written in namespace a (and in 1 more): is forbidden");
        pauses.succeeded("a");
        assert_eq!(pauses.trouble(), "Events cannot be written in namespace b: is forbidden");
    }
}
