//! The fields that policies read, as read sets of kaudit, and the parts of a request that an audit does not know.

use std::{fmt, sync::Arc};

use kaudit_cel::{CelReads, Root, reads::ReadStep};

use crate::judge::reads::{ReadTree, Segment};

/// Returns the parts of a variable that expressions read.
pub(super) fn tree(reads: &CelReads, root: Root) -> ReadTree {
    let mut tree = ReadTree::default();
    for (paths, whole) in [(&reads.seen, false), (&reads.whole, true)] {
        for path in paths.iter().filter(|path| path.root == root) {
            tree.insert(&segments(&path.steps), whole);
        }
        // In Kyverno, the request has the object, too.
        for path in paths.iter().filter(|path| root == Root::Object && path.root == Root::Request) {
            match path.steps.split_first() {
                Some((ReadStep::Field(field), rest)) if &**field == "object" => tree.insert(&segments(rest), whole),
                None if whole => tree.insert(&[], true),
                _ => {}
            }
        }
    }
    tree
}

fn segments(steps: &[ReadStep]) -> Vec<Segment> {
    let segment = |step: &ReadStep| match step {
        ReadStep::Field(name) => Segment::Field(Arc::clone(name)),
        ReadStep::Any => Segment::Any,
    };
    steps.iter().map(segment).collect()
}

/// What an expression needs and an audit does not know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnknownPart {
    /// A part of a request.
    Request(&'static str),
    /// A function that is not implemented.
    Function(Arc<str>),
}

/// Shows it as the part of a sentence about an expression.
impl fmt::Display for UnknownPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(part) => write!(f, "reads {part}, which only a request has"),
            Self::Function(name) => write!(f, "calls {name}, which kaudit does not support"),
        }
    }
}

/// Returns what an expression needs and an audit does not know; `None` if there is nothing.
pub(super) fn unknown(reads: &CelReads) -> Option<UnknownPart> {
    let function = reads.unsupported.first().map(|name| UnknownPart::Function(Arc::clone(name)));
    function.or_else(|| of_request(reads).map(UnknownPart::Request))
}

/// Returns the part of a request that an expression reads and an audit does not know.
fn of_request(reads: &CelReads) -> Option<&'static str> {
    let of_request = |field: &str| reads.covers(Root::Request, &[ReadStep::Field(field.into())]);
    if reads.has_root(Root::Authorizer) || reads.has_root(Root::RequestResource) {
        Some("authorizer")
    } else if of_request("userInfo") {
        Some("request.userInfo")
    } else if of_request("options") {
        Some("request.options")
    } else {
        None
    }
}
