//! The builtins that a program can call, looked up once, when policies are loaded.

use std::fmt;

use regorus::{Value, unstable::BUILTINS};

use super::{
    budget,
    call::{BuiltinFault, BuiltinResult},
    known,
    natives::{self, Native},
};

/// A builtin that can be called.
#[derive(Clone, Copy)]
pub(crate) struct Callee {
    name: &'static str,
    kind: CalleeKind,
    /// Whether its result depends on more than its arguments. The result stays the same during one evaluation.
    is_impure: bool,
}

#[derive(Clone, Copy)]
enum CalleeKind {
    Own(fn(&[Value]) -> BuiltinResult),
    Native(Native),
}

impl fmt::Debug for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Whether calls of a builtin with the same arguments may return different values.
pub fn is_impure(name: &str) -> bool {
    matches!(name, "time.now_ns" | "uuid.rfc4122")
}

impl Callee {
    /// Returns the builtin of a name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        if let Some(&(name, _, function)) = known::all().find(|(known, ..)| *known == name) {
            return Some(Self { name, kind: CalleeKind::Own(function), is_impure: false });
        }
        if known::unsupported(name).is_some() || matches!(name, "print" | "walk") {
            return None;
        }
        let (name, _) = BUILTINS.get_key_value(name)?;
        Some(Self { name, kind: CalleeKind::Native(natives::find(name)?), is_impure: is_impure(name) })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether calls with the same arguments may return different values, so that an evaluation has to keep the first
    /// one.
    pub(crate) fn is_impure(&self) -> bool {
        self.is_impure
    }

    /// Calls the builtin; one that fails is undefined, unless evaluation is strict.
    ///
    /// # Errors
    /// When a limit is reached, or the builtin fails in strict evaluation.
    pub(crate) fn call(&self, arguments: &[Value], strict: bool) -> Result<Value, String> {
        let made = match self.kind {
            CalleeKind::Own(function) => function(arguments),
            CalleeKind::Native(native) => native.call(arguments),
        };
        let measured = made.and_then(|made| budget::charge(self.name, &made).map(|()| made));
        match measured {
            Err(BuiltinFault::Failed(_)) if !strict => Ok(Value::Undefined),
            answer => answer.map_err(|fault| fault.to_string()),
        }
    }
}

/// Names of builtins are unique.
impl PartialEq for Callee {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_builtins_are_undefined_unless_evaluation_is_strict() {
        let call = |name: &str, arguments: &[Value]| Callee::find(name).unwrap().call(arguments, false);
        assert_eq!(call("count", &[Value::from(vec![Value::Null])]), Ok(Value::from(1)));
        assert_eq!(call("count", &[Value::from(1)]), Ok(Value::Undefined));
        assert_eq!(call("sprintf", &[Value::from("%d"), Value::from(vec![Value::from(1)])]), Ok(Value::from("1")));
        assert!(Callee::find("count").unwrap().call(&[Value::from(1)], true).is_err());
        assert!(Callee::find("http.send").is_none() && Callee::find("time.now_ns").unwrap().is_impure());
    }
}
