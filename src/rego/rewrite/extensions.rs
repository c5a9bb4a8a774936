//! Functions that rewritten modules call, for what Rego itself cannot say.

use anyhow::Result;
use regorus::{Engine, Value};

use crate::rego::builtins::{self, is_member, is_pair};

/// `bounded(x)` is `x`, if that is not too large to be traversed.
pub(crate) const BOUNDED: &str = "kaudit_generated.bounded";

/// `collection(x)` is `x` if it can be iterated over.
pub(super) const COLLECTION: &str = "kaudit_generated.collection";

/// `operand(operator, x, y)` is `x` if `x operator y` can be computed.
pub(super) const OPERAND: &str = "kaudit_generated.operand";

/// `pair(key, value, xs)` is `key, value in xs`.
pub(super) const PAIR: &str = "kaudit_generated.pair";

/// `member(value, xs)` is `value in xs`.
pub(super) const MEMBER: &str = "kaudit_generated.member";

/// Whether a function of this name is one of these.
pub(crate) fn is_extension(name: &str) -> bool {
    matches!(name, BOUNDED | COLLECTION | OPERAND | MEMBER | PAIR)
}

/// Adds them to an engine.
pub(crate) fn install(engine: &mut Engine) -> Result<()> {
    engine.add_extension(
        BOUNDED.to_owned(),
        1,
        Box::new(|arguments| builtins::bounded(arguments.into_iter().next().unwrap_or(Value::Undefined))),
    )?;
    engine.add_extension(
        COLLECTION.to_owned(),
        1,
        Box::new(|arguments| {
            let value = arguments.into_iter().next().unwrap_or(Value::Undefined);
            let fit = matches!(value, Value::Array(_) | Value::Set(_) | Value::Object(_));
            Ok(if fit { value } else { Value::Undefined })
        }),
    )?;
    engine.add_extension(
        OPERAND.to_owned(),
        3,
        Box::new(|arguments| match <[Value; 3]>::try_from(arguments) {
            Ok([Value::String(operator), left, right]) if fits(&operator, &left, &right) => Ok(left),
            _ => Ok(Value::Undefined),
        }),
    )?;
    engine.add_extension(
        MEMBER.to_owned(),
        2,
        Box::new(|arguments| match arguments.as_slice() {
            [value, collection] => Ok(Value::from(is_member(value, collection))),
            _ => Ok(Value::Undefined),
        }),
    )?;
    engine.add_extension(
        PAIR.to_owned(),
        3,
        Box::new(|arguments| match <[Value; 3]>::try_from(arguments) {
            Ok([key, value, collection]) => Ok(Value::from(is_pair(&key, &value, &collection))),
            Err(_) => Ok(Value::Undefined),
        }),
    )
}

fn fits(operator: &str, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Set(_), Value::Set(_)) => matches!(operator, "-" | "|" | "&"),
        (Value::Number(left), Value::Number(right)) => match operator {
            "%" => left.is_integer() && right.is_integer(),
            _ => !matches!(operator, "|" | "&"),
        },
        _ => false,
    }
}
