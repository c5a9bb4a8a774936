//! Replacements by `with`.

use std::rc::Rc;

use regorus::Value;

use crate::program::Callable;

/// The replacements by `with`, including those of outer ones.
#[derive(Clone, Default)]
pub(super) struct Substitutions {
    pub(super) functions: Option<Rc<Vec<(Callable, FunctionSubstitute)>>>,
    /// Paths below `data`.
    pub(super) data: Rc<Vec<Vec<Value>>>,
}

/// The replacement of a function.
#[derive(Clone)]
pub(super) enum FunctionSubstitute {
    Function(Callable),
    Value(Value),
    /// The value of a rule.
    Rule(Value),
}

impl Substitutions {
    /// Returns the replacement of a function.
    #[inline]
    pub(super) fn substitute(&self, function: Callable) -> Option<FunctionSubstitute> {
        let functions = self.functions.as_ref()?;
        functions.iter().rev().find(|(replaced, _)| *replaced == function).map(|(_, given)| given.clone())
    }
}
