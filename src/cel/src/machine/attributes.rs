//! Variables, fields and elements.

use super::{Evaluated, Local, Machine};
use crate::{
    cost,
    environment::Root,
    error::{EvalError, failed, no_overload},
    library,
    plan::{Attribute, Base, Qualifier, QualifierKey, Slot},
    value::{List, Text, Value, exact_int},
};

impl<'v> Machine<'v, '_> {
    /// Evaluates a variable with its qualifiers. A condition itself costs nothing.
    pub(super) fn attribute(&mut self, attribute: &'v Attribute) -> Evaluated<'v> {
        let value = self.resolve(attribute);
        let cost = if matches!(attribute.base, Base::Conditional(_)) { 0 } else { cost::UNIT };
        self.charged(cost, value)
    }

    /// Evaluates a variable with its qualifiers; only the qualifiers have a cost.
    pub(super) fn resolve(&mut self, attribute: &'v Attribute) -> Evaluated<'v> {
        let value = match &attribute.base {
            Base::Root(root) => self.root(*root)?,
            Base::Local { slot, take } => self.local(*slot, *take)?,
            Base::Node(node) => self.eval(node)?,
            Base::Conditional(parts) => {
                let branch = match self.eval(&parts.0)? {
                    Value::Bool(true) => &parts.1,
                    Value::Bool(false) => &parts.2,
                    _ => return no_overload(),
                };
                self.resolve(branch)?
            }
        };
        // An optional value in an optional value is lost when the API server converts it.
        let value = match value {
            Value::Optional(Some(inner)) if matches!(*inner, Value::Optional(_)) => innermost(&inner),
            value => value,
        };
        if attribute.qualifiers.is_empty() { Ok(value) } else { self.qualify(value, &attribute.qualifiers) }
    }

    fn root(&mut self, root: Root) -> Evaluated<'v> {
        match root {
            Root::Authorizer | Root::RequestResource => failed(format!("no such attribute(s): {}", root.name())),
            Root::Variables => Ok(Value::Variables),
            _ => Ok(self.bindings.get(root).map_or(Value::Null, Value::from)),
        }
    }

    fn local(&mut self, slot: Slot, take: bool) -> Evaluated<'v> {
        if let Local::Lazy(node) = self.locals[slot] {
            let value = self.eval(node);
            self.locals[slot] = Local::Done(value);
        }
        if take {
            return match std::mem::replace(&mut self.locals[slot], Local::Unset) {
                Local::Done(value) => value,
                _ => Ok(Value::Null),
            };
        }
        match &self.locals[slot] {
            Local::Done(value) => value.clone(),
            _ => Ok(Value::Null),
        }
    }

    fn qualify(&mut self, mut value: Value<'v>, qualifiers: &'v [Qualifier]) -> Evaluated<'v> {
        let mut optional = false;
        if let Value::Optional(inner) = value {
            match inner {
                None => return Ok(Value::Optional(None)),
                Some(inner) => value = (*inner).clone(),
            }
            optional = true;
        }
        for qualifier in qualifiers {
            optional |= qualifier.optional;
            let found = self.find(&value, qualifier, optional || qualifier.test);
            if optional {
                match found? {
                    Some(found) => {
                        self.meter.charge(cost::UNIT)?;
                        value = found;
                    }
                    None => return Ok(Value::Optional(None)),
                }
                continue;
            }
            if found.as_ref().is_err_and(EvalError::is_final) {
                found?;
                continue;
            }
            self.meter.charge(cost::UNIT)?;
            value = match found? {
                found if qualifier.test => Value::Bool(found.is_some()),
                Some(found) => found,
                None => Value::Null,
            };
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Returns a field or element; `None` if it is missing and that is no error.
    fn find(
        &mut self,
        value: &Value<'v>,
        qualifier: &'v Qualifier,
        may_miss: bool,
    ) -> Result<Option<Value<'v>>, EvalError> {
        let key = match &qualifier.key {
            QualifierKey::Field(name) => {
                if let Value::Map(map) = value {
                    return match map.field(name) {
                        None if !may_miss => failed(format!("no such key: {name}")),
                        found => Ok(found),
                    };
                }
                Value::String(Text::Borrowed(name))
            }
            QualifierKey::Constant(key) => key.borrowed(),
            QualifierKey::Attribute(attribute) => self.resolve(attribute)?,
            QualifierKey::Node(node) => self.eval(node)?,
        };
        if !matches!(key, Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_)) {
            return failed(format!("invalid qualifier type: {}", library::go_native(&key)));
        }
        let found = match value {
            Value::Map(map) => map.find(&key),
            Value::List(list) => element(list, &key)?,
            Value::Variables => match key.as_str() {
                Some(name) => self.bindings.variable(name, &mut self.meter)?,
                None => return no_overload(),
            },
            _ => None,
        };
        match (found, value) {
            (None, Value::List(_)) if !may_miss => failed(format!("index out of bounds: {}", key.plain())),
            (None, _) if !may_miss => failed(format!("no such key: {}", key.plain())),
            (found, _) => Ok(found),
        }
    }
}

/// Returns an optional value with what is inside all optional values; null for none.
fn innermost<'v>(value: &Value<'v>) -> Value<'v> {
    match value {
        Value::Optional(Some(inner)) => innermost(inner),
        Value::Optional(None) => Value::some(Value::Null),
        other => Value::some(other.clone()),
    }
}

fn element<'v>(list: &List<'v>, index: &Value<'_>) -> Result<Option<Value<'v>>, EvalError> {
    let position = match index {
        Value::Int(value) => Some(*value),
        Value::Uint(value) => i64::try_from(*value).ok(),
        Value::Double(value) => exact_int(*value),
        other => return failed(format!("unsupported index type '{}' in list", other.type_name())),
    };
    match position {
        Some(position) => Ok(usize::try_from(position).ok().and_then(|position| list.get(position))),
        None => failed(format!("unsupported index value {} in list", index.plain())),
    }
}
