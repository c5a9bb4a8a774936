//! Infers the types of variables where two terms have to be equal, or a term has to have a type.

use super::Checker;
use crate::{
    compile::term::{ResolvedTerm, ResolvedValue},
    types::{self, InferredType, Type, unifies},
};

impl<'a> Checker<'a> {
    /// Unifies two terms with the given types; infers the types of their variables.
    pub(super) fn unify(
        &mut self,
        a: &'a ResolvedTerm,
        a_type: &InferredType,
        b: &'a ResolvedTerm,
        b_type: &InferredType,
    ) -> bool {
        match (types::is_unknown(a_type), types::is_unknown(b_type)) {
            (true, false) => return self.learn_from(a, b_type, false),
            (false, true) => return self.learn_from(b, a_type, false),
            (false, false) => return unifies(a_type, b_type),
            (true, true) => {}
        }
        match (&a.value, &b.value) {
            (ResolvedValue::Array(left), ResolvedValue::Array(right)) => {
                left.len() == right.len()
                    && left.iter().zip(right).all(|(a, b)| {
                        let (a_type, b_type) = (self.term(a), self.term(b));
                        self.unify(a, &a_type, b, &b_type)
                    })
            }
            (ResolvedValue::Object(left), ResolvedValue::Object(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, value)| {
                        let same =
                            |(other, _): &&(ResolvedTerm, ResolvedTerm)| match (key.as_variable(), other.as_variable())
                            {
                                (Some(a), Some(b)) => a == b,
                                _ => key.constant().is_some() && key.constant() == other.constant(),
                            };
                        right.iter().find(same).is_some_and(|(_, other)| {
                            let (a_type, b_type) = (self.term(value), self.term(other));
                            self.unify(value, &a_type, other, &b_type)
                        })
                    })
            }
            (
                ResolvedValue::Array(_) | ResolvedValue::Object(_) | ResolvedValue::Variable(_),
                ResolvedValue::Variable(_),
            ) => self.same(a, b),
            (ResolvedValue::Variable(_), ResolvedValue::Array(_) | ResolvedValue::Object(_)) => self.same(b, a),
            (ResolvedValue::Variable(_), _) if a_type.is_none() && b_type.is_some() => {
                self.learn_from(a, b_type, false)
            }
            (_, ResolvedValue::Variable(_)) if b_type.is_none() && a_type.is_some() => {
                self.learn_from(b, a_type, false)
            }
            _ => false,
        }
    }

    /// Gives two terms of unknown types the same type.
    fn same(&mut self, first: &'a ResolvedTerm, second: &'a ResolvedTerm) -> bool {
        if !self.learn_from(first, &Some(Type::any()), false) {
            return false;
        }
        let ty = self.term(first);
        self.learn_from(second, &ty, false)
    }

    /// Infers the types of a term's variables from the type of the term; returns whether the term can have that type.
    /// In a union, the type of a variable is widened.
    pub(super) fn learn_from(&mut self, term: &'a ResolvedTerm, ty: &InferredType, union: bool) -> bool {
        match &term.value {
            ResolvedValue::Variable(variable) => {
                let known = self.env.variable(*variable);
                if union {
                    self.env.learn(*variable, types::or(known, ty.clone()));
                    return true;
                }
                if known.is_some() {
                    return unifies(&known, ty);
                }
                self.env.learn(*variable, ty.clone());
                true
            }
            ResolvedValue::Array(_) | ResolvedValue::Object(_) | ResolvedValue::Set(_) => match ty {
                Some(Type::Any(ty)) if ty.is_empty() => {
                    self.learn_anything(term);
                    true
                }
                Some(Type::Any(ty)) => {
                    let mut fits = false;
                    for one in ty.iter() {
                        fits |= self.learn_from(term, &Some(one.clone()), true);
                    }
                    fits
                }
                _ => self.learn_from_collection(term, ty, union),
            },
            _ => {
                let known = self.term(term);
                unifies(&known, ty)
            }
        }
    }

    fn learn_anything(&mut self, term: &'a ResolvedTerm) {
        let any = Some(Type::any());
        match &term.value {
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
                for item in items {
                    self.learn_from(item, &any, true);
                }
            }
            ResolvedValue::Object(fields) => {
                for (key, value) in fields {
                    self.learn_from(key, &any, true);
                    self.learn_from(value, &any, true);
                }
            }
            _ => {}
        }
    }

    fn learn_from_collection(&mut self, term: &'a ResolvedTerm, ty: &InferredType, union: bool) -> bool {
        match (&term.value, ty) {
            (ResolvedValue::Array(items), Some(Type::Array(array))) => {
                (items.len() == array.items.len() || array.rest.is_some())
                    && items.iter().enumerate().all(|(index, item)| self.learn_from(item, &array.at(index), union))
            }
            (ResolvedValue::Set(items), Some(Type::Set(ty))) => {
                items.iter().all(|item| self.learn_from(item, ty, union))
            }
            (ResolvedValue::Object(fields), Some(Type::Object(object))) => {
                let has_rest = object.rest.as_ref().is_some_and(|(_, values)| values.is_some());
                if fields.len() != object.fields.len() && !has_rest {
                    return false;
                }
                fields.iter().all(|(key, value)| {
                    if let Some(key) = key.constant() {
                        match object.at(&key) {
                            None => false,
                            child => self.learn_from(value, &child, union),
                        }
                    } else {
                        self.learn_from(value, &Some(Type::any()), union);
                        true
                    }
                })
            }
            _ => false,
        }
    }
}
