//! The lookups of other objects in calls.

use std::sync::Arc;

use super::{CelLookup, CelReads, LookupNamespace};
use crate::{
    ast::{CallExpr, CelExpr, CelExprKind},
    declarations::FunctionOverload,
    value::CelValue,
};

/// What expressions call the namespace of the evaluated object.
const OWN_NAMESPACE: [&str; 3] = ["object.metadata.namespace", "request.namespace", "namespaceObject.metadata.name"];

impl CelReads {
    /// Adds the objects that a call looks up, or that it cannot be evaluated; `overloads` are those that it may mean.
    pub(super) fn add_call(&mut self, call: &CallExpr, overloads: &[&FunctionOverload]) {
        let is_lookup = overloads.iter().any(|overload| overload.is_lookup());
        let lookup = is_lookup.then(|| CelLookup::of(&call.arguments, is_get(&call.function)));
        match lookup {
            Some(Some(lookup)) => _ = self.lookups.insert(lookup),
            Some(None) => _ = self.unsupported.insert(format!("{} with a computed kind", name(call)).into()),
            None if overloads.iter().any(|overload| overload.is_unsupported()) => {
                self.unsupported.insert(name(call));
            }
            None => {}
        }
    }
}

impl CelLookup {
    /// Reads the arguments of a lookup; `None` if the kind is computed.
    fn of(arguments: &[CelExpr], is_get: bool) -> Option<Self> {
        let [api_version, resource, namespace, rest @ ..] = arguments else { return None };
        let named = |text: Arc<str>| if text.is_empty() { LookupNamespace::Any } else { LookupNamespace::Named(text) };
        let is_own = || namespace.qualified_name().is_some_and(|name| OWN_NAMESPACE.contains(&&*name));
        let namespace = match literal(namespace) {
            Some(text) => named(text),
            None if is_own() => LookupNamespace::Own,
            None => LookupNamespace::Any,
        };
        let name = rest.first().filter(|_| is_get).and_then(literal);
        // A subresource is not in the inventory.
        let resource = literal(resource).filter(|resource| !resource.contains('/'))?;
        Some(Self { api_version: literal(api_version)?, resource, namespace, name })
    }
}

/// Whether a lookup returns one object.
fn is_get(function: &str) -> bool {
    function.eq_ignore_ascii_case("get")
}

fn literal(expr: &CelExpr) -> Option<Arc<str>> {
    match &expr.kind {
        CelExprKind::Literal(CelValue::String(text)) => Some((&**text).into()),
        _ => None,
    }
}

/// Returns the name of a function, after that of the variable it belongs to.
fn name(call: &CallExpr) -> Arc<str> {
    let target = call.target.as_ref().and_then(|target| target.qualified_name());
    target.map_or_else(|| Arc::clone(&call.function), |target| format!("{target}.{}", call.function).into())
}
