//! Incremental JSON parsing: complete values are read while the rest is still arriving.

mod list;
mod value;

use std::borrow::Cow;

use serde::Deserialize;

pub(crate) use self::{list::ListReader, list::Malformed, value::ValueEnd};

/// A key of an object; borrowed if it is written without escapes.
#[derive(Deserialize)]
pub(crate) struct JsonKey<'k>(#[serde(borrow)] pub(crate) Cow<'k, str>);
