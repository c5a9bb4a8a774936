//! Variables, fields and elements.

use super::{CelMachine, EvaluatedValue, Local};
use crate::{
    cost,
    environment::Root,
    error::{EvalError, failed, no_overload},
    library,
    plan::{Attribute, Base, Qualifier, QualifierKey, VariableSlot},
    value::{CelList, CelText, CelValue, exact_int},
};

impl<'v> CelMachine<'v, '_> {
    /// Evaluates a variable with its qualifiers. A condition itself costs nothing.
    pub(super) fn attribute(&mut self, attribute: &'v Attribute) -> EvaluatedValue<'v> {
        let value = self.resolve(attribute);
        let cost = if matches!(attribute.base, Base::Conditional(_)) { 0 } else { cost::UNIT };
        self.charged(cost, value)
    }

    /// Evaluates a variable with its qualifiers; only the qualifiers have a cost.
    pub(super) fn resolve(&mut self, attribute: &'v Attribute) -> EvaluatedValue<'v> {
        let value = match &attribute.base {
            Base::Root(root) => self.root(*root)?,
            Base::Local { slot, take } => self.local(*slot, *take)?,
            Base::Node(node) => self.eval(node)?,
            Base::Conditional(parts) => {
                let branch = match self.eval(&parts.0)? {
                    CelValue::Bool(true) => &parts.1,
                    CelValue::Bool(false) => &parts.2,
                    _ => return no_overload(),
                };
                self.resolve(branch)?
            }
        };
        // An optional value in an optional value is lost when the API server converts it.
        let value = match value {
            CelValue::Optional(Some(inner)) if matches!(*inner, CelValue::Optional(_)) => innermost(&inner),
            value => value,
        };
        if attribute.qualifiers.is_empty() { Ok(value) } else { self.qualify(value, &attribute.qualifiers) }
    }

    fn root(&mut self, root: Root) -> EvaluatedValue<'v> {
        match root {
            Root::Authorizer | Root::RequestResource => failed(format!("no such attribute(s): {}", root.name())),
            Root::Itself | Root::OldSelf => match self.bindings.of_rule(root) {
                Some(value) => Ok(value),
                None => failed(format!("no such attribute(s): {}", root.name())),
            },
            Root::Variables => Ok(CelValue::Variables),
            _ => Ok(self.bindings.get(root).map_or(CelValue::Null, CelValue::from)),
        }
    }

    fn local(&mut self, slot: VariableSlot, take: bool) -> EvaluatedValue<'v> {
        if let Local::Lazy(node) = self.locals[slot] {
            let value = self.eval(node);
            self.locals[slot] = Local::Done(value);
        }
        if take {
            return match std::mem::replace(&mut self.locals[slot], Local::Unset) {
                Local::Done(value) => value,
                _ => Ok(CelValue::Null),
            };
        }
        match &self.locals[slot] {
            Local::Done(value) => value.clone(),
            _ => Ok(CelValue::Null),
        }
    }

    fn qualify(&mut self, mut value: CelValue<'v>, qualifiers: &'v [Qualifier]) -> EvaluatedValue<'v> {
        let mut optional = false;
        if let CelValue::Optional(inner) = value {
            match inner {
                None => return Ok(CelValue::Optional(None)),
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
                    None => return Ok(CelValue::Optional(None)),
                }
                continue;
            }
            if found.as_ref().is_err_and(EvalError::is_final) {
                found?;
                continue;
            }
            self.meter.charge(cost::UNIT)?;
            value = match found? {
                found if qualifier.test => CelValue::Bool(found.is_some()),
                Some(found) => found,
                None => CelValue::Null,
            };
        }
        Ok(if optional { CelValue::some(value) } else { value })
    }

    /// Returns a field or element; `None` if it is missing and that is no error.
    fn find(
        &mut self,
        value: &CelValue<'v>,
        qualifier: &'v Qualifier,
        may_miss: bool,
    ) -> Result<Option<CelValue<'v>>, EvalError> {
        let key = match &qualifier.key {
            QualifierKey::Field(name) => {
                if let CelValue::Map(map) = value {
                    return match map.field(name) {
                        None if !may_miss => failed(format!("no such key: {name}")),
                        found => Ok(found),
                    };
                }
                CelValue::String(CelText::Borrowed(name))
            }
            QualifierKey::Constant(key) => key.borrowed(),
            QualifierKey::Attribute(attribute) => self.resolve(attribute)?,
            QualifierKey::Node(node) => self.eval(node)?,
        };
        if !matches!(
            key,
            CelValue::String(_) | CelValue::Int(_) | CelValue::Uint(_) | CelValue::Bool(_) | CelValue::Double(_)
        ) {
            return failed(format!("invalid qualifier type: {}", library::go_native(&key)));
        }
        let found = match value {
            CelValue::Map(map) => map.find(&key),
            CelValue::List(list) => element(list, &key)?,
            CelValue::Variables => match key.as_str() {
                Some(name) => self.bindings.variable(name, &mut self.meter)?,
                None => return no_overload(),
            },
            _ => None,
        };
        match (found, value) {
            (None, CelValue::List(_)) if !may_miss => failed(format!("index out of bounds: {}", key.plain())),
            (None, _) if !may_miss => failed(format!("no such key: {}", key.plain())),
            (found, _) => Ok(found),
        }
    }
}

/// Returns an optional value with what is inside all optional values; null for none.
fn innermost<'v>(value: &CelValue<'v>) -> CelValue<'v> {
    match value {
        CelValue::Optional(Some(inner)) => innermost(inner),
        CelValue::Optional(None) => CelValue::some(CelValue::Null),
        other => CelValue::some(other.clone()),
    }
}

fn element<'v>(list: &CelList<'v>, index: &CelValue<'_>) -> Result<Option<CelValue<'v>>, EvalError> {
    let position = match index {
        CelValue::Int(value) => Some(*value),
        CelValue::Uint(value) => i64::try_from(*value).ok(),
        CelValue::Double(value) => exact_int(*value),
        other => return failed(format!("unsupported index type '{}' in list", other.type_name())),
    };
    match position {
        Some(position) => Ok(usize::try_from(position).ok().and_then(|position| list.get(position))),
        None => failed(format!("unsupported index value {} in list", index.plain())),
    }
}
