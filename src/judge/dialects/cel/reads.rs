//! The fields that policies read, as read sets of kaudit, and the parts of a request that an audit does not know.

use std::sync::Arc;

use kaudit_cel::{
    CelReads, Root,
    reads::{CelReadPath, ReadStep},
};

use crate::judge::reads::{ReadTree, Segment};

/// Returns the parts of a variable that expressions read.
pub(super) fn tree(reads: &CelReads, root: Root) -> ReadTree {
    let mut tree = ReadTree::default();
    for (paths, whole) in [(&reads.seen, false), (&reads.whole, true)] {
        for path in paths.iter().filter(|path| path.root == root) {
            tree.insert(&segments(path), whole);
        }
    }
    tree
}

fn segments(path: &CelReadPath) -> Vec<Segment> {
    let segment = |step: &ReadStep| match step {
        ReadStep::Field(name) => Segment::Field(Arc::clone(name)),
        ReadStep::Any => Segment::Any,
    };
    path.steps.iter().map(segment).collect()
}

/// Returns the part of a request that an expression reads and an audit does not know; `None` if there is none.
pub(super) fn unknown(reads: &CelReads) -> Option<&'static str> {
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
