//! A cache of function calls.

use std::sync::Arc;

use regorus::Value;

use super::slot::Slot;

/// The most calls that are cached per function.
const MOST_CALLS: usize = 8;

/// Cached calls of each function with their values; new ones replace the oldest.
pub(super) struct Calls {
    functions: Vec<Vec<FunctionCall>>,
    next: usize,
    /// The bytes that were needed to compute the cached values.
    pub(super) bytes: usize,
}

#[derive(Clone)]
struct FunctionCall {
    arguments: Vec<Value>,
    value: Value,
    bytes: usize,
}

impl Calls {
    pub(super) fn new(rules: usize) -> Self {
        Self { functions: vec![Vec::new(); rules], next: 0, bytes: 0 }
    }

    pub(super) fn find(&self, function: usize, arguments: &[Slot<'_>]) -> Option<&Value> {
        let same = |known: &[Value]| {
            known.iter().zip(arguments).all(|(known, given)| given.value().is_some_and(|given| is_same(known, given)))
        };
        self.functions[function].iter().find(|call| same(&call.arguments)).map(|call| &call.value)
    }

    /// Adds a call, with the bytes that were needed to compute its value.
    pub(super) fn insert(&mut self, function: usize, arguments: Vec<Value>, value: Value, bytes: usize) {
        let calls = &mut self.functions[function];
        let call = FunctionCall { arguments, value, bytes };
        self.bytes += bytes;
        if calls.len() < MOST_CALLS {
            calls.push(call);
        } else {
            self.next = (self.next + 1) % MOST_CALLS;
            self.bytes -= std::mem::replace(&mut calls[self.next], call).bytes;
        }
    }
}

/// Whether two values are certainly equal: comparing large values completely may take longer than the call.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Arc::ptr_eq(left, right) || left == right,
        (Value::Array(left), Value::Array(right)) => Arc::ptr_eq(left, right),
        (Value::Set(left), Value::Set(right)) => Arc::ptr_eq(left, right),
        (Value::Object(left), Value::Object(right)) => Arc::ptr_eq(left, right),
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Number(left), Value::Number(right)) => left == right,
        _ => false,
    }
}
