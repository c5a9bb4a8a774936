//! What the policies can read of an object, and which kinds they can say anything about.
//!
//! A verdict is a function of the parts of the object that the rules can read. They are found at load by going through the
//! rules as the evaluator would, with what each expression may be instead of values: where a place of the input is only
//! handed around it is not read, where it is compared, printed or given to a builtin it is, and what is not understood
//! counts as reading everything. The walk is done once for every kind that the policies compare the object's kind with,
//! and once for all other kinds; a rule that fails for sure on a kind is not asked about it.
//!
//! In Kubescape's dialect the input is an array; whether a rule relates its elements to each other is found, too.
//!
//! In: the definitions of a unit, resolved and in the order of evaluation. Out: the [`Queries`] of each group, with what each
//! rule reads.

mod calls;
mod documents;
mod elements;
mod exclusive;
mod fingerprint;
mod frame;
mod inventory;
pub mod lookups;
mod matches;
mod outcome;
mod patterns;
mod possible;
mod printed;
mod projection;
mod queries;
mod reading;
mod rules;
mod terms;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use self::projection::VISITS;
pub(crate) use self::{
    documents::Reads,
    fingerprint::{Likeness, Look, TOKEN_VOLUME, random},
    inventory::LookupReach,
    queries::{KindQuery, Queries},
    rules::Rules,
    tree::{Segment, Tree},
};
pub use self::{inventory::InventoryReads, matches::Matches, projection::Projection};
