//! JSON that arrives in pieces, taken apart value by value: what is complete is read while the rest is on its way.

mod list;
mod value;

use std::borrow::Cow;

use serde::Deserialize;

pub(crate) use self::{list::ListReader, list::Malformed, value::ValueEnd};

/// A key of an object; borrowed if it is written without escapes.
#[derive(Deserialize)]
pub(crate) struct JsonKey<'k>(#[serde(borrow)] pub(crate) Cow<'k, str>);
