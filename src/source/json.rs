//! JSON that arrives in pieces, taken apart value by value: what is complete is read while the rest is on its way.

mod list;
mod value;

pub(crate) use self::{list::ListReader, list::Malformed, value::ValueEnd};
