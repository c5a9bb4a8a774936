//! A result of one object as the ledger keeps it, and what identifies it.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

use super::cover::Cover;
use crate::model::{digest::Digest, object::ObjectRef, verdict::Finding};

/// Identifies a result in every record of it: a hash of the object's kind and uid, policy, rule, outcome and message.
/// The version of the kind is not part of it. The uid alone does not identify the object: some API servers serve one
/// object as two kinds, such as a Namespace that is a Project, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id([u8; 16]);

impl Id {
    /// Returns the id of a finding about an object.
    pub fn new(object: &ObjectRef, finding: &Finding) -> Self {
        let Finding { rule, outcome, message, .. } = finding;
        let parts = [object.group(), &object.kind, &object.uid, &rule.policy, &rule.name, outcome.word(), message];
        Self(Digest::of_parts(u64::to_be_bytes, parts).half().to_be_bytes())
    }

    /// Returns the hash as a number, evenly spread over its range.
    pub fn number(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// Returns the next number's id, for when this one is taken.
    pub(crate) fn next(self) -> Self {
        Self(self.number().wrapping_add(1).to_be_bytes())
    }

    /// Reads 32 hex digits, as [`Display`](fmt::Display) writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)?;
        u128::from_str_radix(digits, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// Shows 32 hex digits.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.number())
    }
}

/// A result of an object as the ledger keeps it. Errors and excused results are kept, too; the outcome tells them apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// Stays the same while it is open, over restarts and when its message is reworded.
    pub id: Id,
    /// What the id would be of the words that are used now.
    pub fingerprint: Id,
    /// What was found.
    pub finding: Finding,
    /// When it was first seen.
    pub since: Timestamp,
    /// Its appearance has not been reported yet: an earlier run ended before that, or an owner covers it or did until a moment ago.
    pub unreported: bool,
    /// It was recorded to appear, and that it ended would not have been recorded: nothing is reported if it is not found again.
    pub may_have_ended: bool,
    /// An error that the same object need not have again: it decides nothing about other results of its rule.
    pub undecided: bool,
    /// The names of the receivers that were sent its appearance, separated by commas; `None` if that is not known. Filled in
    /// where results are recorded, not in the ledger.
    pub notified: Option<Arc<str>>,
    /// The field that a report names for it; of a result that was not found since, whose details are not known.
    pub recorded_field: Option<Arc<str>>,
    /// The result of an owner that covers it, if one does; never in a delta. Few results have one, so it takes no room in others.
    pub covered_by: Option<Box<Cover>>,
    /// How many results of dependents this one covers; known in deltas only.
    pub dependents: usize,
}

/// Returns about how many bytes of memory a result with this finding takes, with what recorders keep of it while its Event waits
/// to be written: 3.5 KB were measured.
pub(super) fn bytes(finding: &Finding) -> usize {
    const RECORDED: usize = 2_900;
    size_of::<Violation>() + RECORDED + finding.text_bytes()
}

impl Violation {
    /// Makes one that was first seen at a time.
    pub fn new(object: &ObjectRef, finding: Finding, since: Timestamp) -> Self {
        let id = Id::new(object, &finding);
        Self {
            id,
            fingerprint: id,
            finding,
            since,
            unreported: false,
            may_have_ended: false,
            undecided: false,
            notified: None,
            recorded_field: None,
            covered_by: None,
            dependents: 0,
        }
    }

    /// Takes over id and times from the same result of an earlier evaluation.
    pub(super) fn continue_from(&mut self, known: &Self) {
        (self.id, self.since) = (known.id, known.since);
        self.covered_by.clone_from(&known.covered_by);
    }

    /// Whether it is what was a violation until it was excused.
    pub(super) fn is_excused(&self, before: &Self) -> bool {
        fn statement(Finding { rule, message, .. }: &Finding) -> [&str; 3] {
            [&rule.policy, &rule.name, message]
        }
        self.finding.excused.is_some() && statement(&self.finding) == statement(&before.finding)
    }

    /// Whether its resolution is reported. Errors and excused results never are, nor violations whose appearance was not.
    pub(super) fn is_reported(&self) -> bool {
        self.finding.outcome.is_violation() && !self.unreported && !self.may_have_ended
    }
}
