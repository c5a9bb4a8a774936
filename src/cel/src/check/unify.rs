//! Assigns types to type variables.

use std::{collections::HashMap, sync::Arc};

use crate::types::CelType;

/// The types of type variables so far.
#[derive(Default)]
pub(super) struct TypeUnifier {
    bound: HashMap<Arc<str>, CelType>,
    /// What was bound before, for each change since the last attempt began.
    trail: Vec<(Arc<str>, Option<CelType>)>,
    variables: usize,
}

impl TypeUnifier {
    /// Returns a type variable that no other type has.
    pub(super) fn new_variable(&mut self) -> CelType {
        let name = format!("_var{}", self.variables);
        self.variables += 1;
        CelType::Param(name.into())
    }

    /// Returns the types of an overload with new type variables.
    pub(super) fn instantiate(&mut self, arguments: &[CelType], result: &CelType) -> (Vec<CelType>, CelType) {
        let mut names: Vec<Arc<str>> = Vec::new();
        for one in arguments.iter().chain([result]) {
            one.any(&mut |inner| {
                if let CelType::Param(name) = inner
                    && !names.contains(name)
                {
                    names.push(Arc::clone(name));
                }
                false
            });
        }
        if names.is_empty() {
            return (arguments.to_vec(), result.clone());
        }
        let new: Vec<CelType> = names.iter().map(|_| self.new_variable()).collect();
        let replace = |one: &CelType| match one {
            CelType::Param(name) => names.iter().position(|known| known == name).map(|index| new[index].clone()),
            _ => None,
        };
        (arguments.iter().map(|one| one.replaced(&replace)).collect(), result.replaced(&replace))
    }

    /// Replaces type variables by their types, and free ones by `dyn` on request.
    pub(super) fn substitute(&self, of: &CelType, free_to_dyn: bool) -> CelType {
        of.replaced(&|one| match one {
            CelType::Param(name) => match self.bound.get(name) {
                Some(bound) => Some(self.substitute(bound, free_to_dyn)),
                None => free_to_dyn.then_some(CelType::Dyn),
            },
            _ => None,
        })
    }

    /// Whether a value of the first type can be used as one of the second; binds type variables if so.
    pub(super) fn is_assignable(&mut self, one: &CelType, other: &CelType) -> bool {
        self.attempt(|unifier| unifier.assign(one, other))
    }

    /// Whether values of these types can be the arguments for these parameters; binds type variables if so.
    pub(super) fn are_assignable(&mut self, types: &[CelType], parameters: &[CelType]) -> bool {
        types.len() == parameters.len()
            && self
                .attempt(|unifier| types.iter().zip(parameters).all(|(one, parameter)| unifier.assign(one, parameter)))
    }

    fn attempt(&mut self, run: impl FnOnce(&mut Self) -> bool) -> bool {
        self.trail.clear();
        let succeeded = run(self);
        if !succeeded {
            for (name, before) in std::mem::take(&mut self.trail).into_iter().rev() {
                match before {
                    Some(before) => drop(self.bound.insert(name, before)),
                    None => drop(self.bound.remove(&name)),
                }
            }
        }
        succeeded
    }

    fn bind(&mut self, name: &Arc<str>, to: CelType) {
        let before = self.bound.insert(Arc::clone(name), to);
        self.trail.push((Arc::clone(name), before));
    }

    fn assign(&mut self, one: &CelType, other: &CelType) -> bool {
        if let CelType::Param(name) = other {
            let (is_valid, was_bound) = self.is_substitution(one, other, name);
            if is_valid || was_bound {
                return is_valid;
            }
        }
        if let CelType::Param(name) = one {
            return self.is_substitution(other, one, name).0;
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (CelType::Null, _) => other.is_nullable(),
            (_, CelType::Null) => one.is_nullable(),
            (CelType::List(one), CelType::List(other)) | (CelType::Optional(one), CelType::Optional(other)) => {
                self.assign(&CelType::clone(one), &CelType::clone(other))
            }
            (CelType::Map(one), CelType::Map(other)) => {
                let (one, other) = (Arc::clone(one), Arc::clone(other));
                self.assign(&one.0, &other.0) && self.assign(&one.1, &other.1)
            }
            (CelType::Type(_), CelType::Type(_)) => true,
            _ => one == other,
        }
    }

    /// Whether a type can be that of a type variable, and whether the variable had a type before.
    fn is_substitution(&mut self, one: &CelType, variable: &CelType, name: &Arc<str>) -> (bool, bool) {
        if one == variable {
            return (true, true);
        }
        if let Some(bound) = self.bound.get(name).cloned() {
            if *one == bound {
                return (true, true);
            }
            if self.assign(one, &bound) {
                let general = most_general(one, &bound);
                if self.is_free_of(variable, &general) {
                    self.bind(name, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.is_free_of(variable, one) {
            self.bind(name, one.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether a type variable does not occur in a type.
    fn is_free_of(&self, variable: &CelType, within: &CelType) -> bool {
        !within.any(&mut |inner| {
            inner == variable
                || match inner {
                    CelType::Param(name) => self.bound.get(name).is_some_and(|bound| !self.is_free_of(variable, bound)),
                    _ => false,
                }
        })
    }
}

/// Returns the more general one of two types of which one can be used as the other.
pub(super) fn most_general(one: &CelType, other: &CelType) -> CelType {
    if is_less_specific(one, other) { one.clone() } else { other.clone() }
}

fn is_less_specific(one: &CelType, other: &CelType) -> bool {
    if one.is_dyn() || one.is_param() {
        return true;
    }
    if other.is_dyn() || other.is_param() {
        return false;
    }
    match (one, other) {
        (CelType::List(one), CelType::List(other)) | (CelType::Optional(one), CelType::Optional(other)) => {
            is_less_specific(one, other)
        }
        (CelType::Map(one), CelType::Map(other)) => {
            is_less_specific(&one.0, &other.0) && is_less_specific(&one.1, &other.1)
        }
        (CelType::Type(_), CelType::Type(_)) => true,
        _ => one == other,
    }
}
