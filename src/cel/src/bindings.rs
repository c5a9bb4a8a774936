//! The values of variables for one object.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use serde_json::Value as Json;

use crate::{
    budget::Meter,
    environment::{Environment, Root},
    error::{EvalError, failed},
    machine::{CelMachine, EvaluatedValue},
    value::CelValue,
};

/// Other objects that expressions look up.
pub trait ObjectLookup: Sync {
    /// Returns an object by its `apiVersion`, the plural of its kind, its namespace (empty if it has none) and its name;
    /// `None` if it does not exist.
    ///
    /// # Errors
    /// Returns why that is not known.
    fn get(&self, kind: [&str; 2], namespace: &str, name: &str) -> Result<Option<Json>, String>;

    /// Returns the objects of a kind, in all namespaces if `namespace` is empty.
    ///
    /// # Errors
    /// Returns why they are not known.
    fn list(&self, kind: [&str; 2], namespace: &str) -> Result<Vec<Json>, String>;
}

/// The values of variables for one object. Variables of the policy are evaluated when an expression first reads them,
/// and only once.
pub struct Bindings<'v> {
    environment: &'v Environment,
    values: [Option<&'v Json>; 6],
    lookup: Option<&'v dyn ObjectLookup>,
    /// The values of `self` and `oldSelf`.
    rule: [Option<CelValue<'v>>; 2],
    variables: Mutex<Vec<Option<EvaluatedValue<'v>>>>,
    /// The cost of variables since it was last taken.
    cost: AtomicU64,
}

impl<'v> Bindings<'v> {
    /// Creates bindings in which every variable is null.
    pub fn new(environment: &'v Environment) -> Self {
        let variables = environment.variables().iter().map(|_| None).collect();
        Self {
            environment,
            values: [None; 6],
            lookup: None,
            rule: [None, None],
            variables: Mutex::new(variables),
            cost: AtomicU64::new(0),
        }
    }

    /// Sets the value of a variable. `authorizer`, `variables` and those of lookups have no value that can be set: nothing changes.
    #[must_use]
    pub fn with(mut self, root: Root, value: &'v Json) -> Self {
        if let Some(place) = index(root).and_then(|index| self.values.get_mut(index)) {
            *place = Some(value);
        }
        self
    }

    /// Sets the objects that expressions look up; without them, lookups are errors.
    #[must_use]
    pub fn with_lookup(mut self, lookup: &'v dyn ObjectLookup) -> Self {
        self.lookup = Some(lookup);
        self
    }

    pub(crate) fn lookup(&self) -> Option<&'v dyn ObjectLookup> {
        self.lookup
    }

    /// Sets `self`, a value of the schema that the environment was created with.
    #[must_use]
    pub fn with_self(mut self, value: &'v Json) -> Self {
        self.rule[0] = self.environment.self_schema().map(|schema| schema.value(value));
        self
    }

    /// Sets `oldSelf` to a value that is missing.
    #[must_use]
    pub fn without_old(mut self) -> Self {
        self.rule[1] = Some(CelValue::Optional(None));
        self
    }

    /// Returns `self` or `oldSelf`; `None` if it has no value.
    pub(crate) fn of_rule(&self, root: Root) -> Option<CelValue<'v>> {
        self.rule[usize::from(root == Root::OldSelf)].clone()
    }

    pub(crate) fn get(&self, root: Root) -> Option<&'v Json> {
        index(root).and_then(|index| self.values[index])
    }

    /// Returns the cost of variables evaluated since the last call.
    pub(crate) fn take_cost(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }

    /// Returns the value of a variable of the policy; `None` if there is none with this name.
    pub(crate) fn variable(&self, name: &str, meter: &mut Meter) -> Result<Option<CelValue<'v>>, EvalError> {
        let Some(index) = self.environment.variables().iter().position(|variable| &*variable.name == name) else {
            return Ok(None);
        };
        let known = self.variables.lock().unwrap_or_else(PoisonError::into_inner)[index].clone();
        if let Some(known) = known {
            return known.map(Some);
        }
        let program = &*self.environment.variables()[index].program;
        let mut machine = CelMachine::new(self, program.slots(), meter.for_variable());
        let value = match machine.eval(program.node()) {
            Err(error @ (EvalError::Deadline | EvalError::TooLarge)) => return Err(error),
            Err(error) => failed(format!("composited variable {name:?} fails to evaluate: {error}")),
            Ok(value) => Ok(value),
        };
        self.cost.fetch_add(machine.cost(), Ordering::Relaxed);
        self.variables.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(value.clone());
        value.map(Some)
    }
}

fn index(root: Root) -> Option<usize> {
    [Root::Object, Root::OldObject, Root::Params, Root::Request, Root::NamespaceObject, Root::Exceptions]
        .into_iter()
        .position(|known| known == root)
}
