//! Static analysis of policies: the fields of an object that they can read, and the kinds that they can have results
//! for.
//!
//! A verdict is a function of the fields that the rules can read. The analysis finds these fields at load time by
//! abstract interpretation: it walks the rules as the evaluator would, with the possible values of each expression. A
//! field that is only passed on is not read; a field that is compared, printed or passed to a builtin is; constructs
//! that the analysis does not understand count as reading everything. The rules are walked once for every kind that the
//! policies compare the object's kind with, and once for all other kinds; a rule that is certain to fail for a kind is
//! not evaluated on it.
//!
//! In Kubescape's dialect, the input is an array; the analysis also finds out whether a rule relates its elements to
//! each other.
//!
//! Input: the definitions of a unit, resolved and in the order of evaluation. Output: the [`Queries`] of each group,
//! with the read set of each rule.

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
    fingerprint::{SharingFields, SharingKey, TOKEN_VOLUME, random},
    inventory::LookupReach,
    queries::{KindQuery, Queries},
    rules::UnitRules,
    tree::{ReadTree, Segment},
};
pub use self::{inventory::InventoryReads, matches::Matches, projection::Projection};
