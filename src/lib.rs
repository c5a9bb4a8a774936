//! kaudit: see the drawing (to be completed).
pub mod cache;
pub mod evaluate;
pub mod gate;
pub mod object;
pub mod output;
pub mod policy;
pub mod queue;
pub mod verdict;
