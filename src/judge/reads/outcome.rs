//! How statements and definitions end, and what the definitions of a rule give together.

use std::collections::BTreeMap;

use regorus::unstable::{Expr, RuleHead};

use super::possible::Possible;

/// How a statement or body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// It fails, whatever the object holds.
    No,
    Maybe,
    /// It succeeds, whatever the object holds.
    Yes,
}

/// Returns how a statement with this value ends.
pub(super) fn certain(value: &Possible) -> Certainty {
    if value.is_false() {
        Certainty::No
    } else if value.is_true() {
        Certainty::Yes
    } else {
        Certainty::Maybe
    }
}

/// What the definitions of a rule have contributed so far.
#[derive(Default)]
pub(super) struct Definitions {
    pub(super) value: Possible,
    /// The number of definitions that may give it a value where only one is allowed.
    pub(super) complete: usize,
    /// The number of those that may give it elements.
    pub(super) elements: usize,
    /// Whether one of them may give several values.
    pub(super) several: bool,
    /// Whether there is a value for sure.
    pub(super) sure: bool,
}

impl Definitions {
    pub(super) fn add(&mut self, head: &RuleHead, (outcome, value): (Certainty, Possible)) {
        // A partial set or object exists, even if it is empty.
        let empty = match head {
            RuleHead::Compr { refr, .. } | RuleHead::Set { refr, .. } if is_partial(refr) => {
                Some(Possible { fields: Some(BTreeMap::new()), ..Possible::default() })
            }
            RuleHead::Set { key: Some(_), .. } => Some(Possible::set(Possible::default(), true)),
            _ => None,
        };
        self.sure |= empty.is_some() || outcome == Certainty::Yes;
        self.value.join(empty.unwrap_or_default());
        if outcome != Certainty::No {
            let is_set = matches!(head, RuleHead::Set { key: Some(_), .. });
            *(if is_set { &mut self.elements } else { &mut self.complete }) += 1;
            self.value.join(value);
        }
    }
}

/// Whether a head has keys that are computed.
pub(super) fn is_partial(mut refr: &Expr) -> bool {
    loop {
        match refr {
            Expr::RefDot { refr: inner, .. } => refr = inner,
            Expr::RefBrack { refr: inner, index, .. } => {
                if !matches!(index.as_ref(), Expr::String { .. } | Expr::RawString { .. }) {
                    return true;
                }
                refr = inner;
            }
            _ => return false,
        }
    }
}
