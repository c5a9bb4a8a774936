//! Builtins as what a program calls: found once, at load.

use std::fmt;

use regorus::{Value, unstable::BUILTINS};

use super::{
    budget,
    call::{Answer, Fault},
    known,
    natives::{self, Native},
};

/// A builtin that can be called.
#[derive(Clone, Copy)]
pub(crate) struct Callee {
    name: &'static str,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Ours(fn(&[Value]) -> Answer),
    Native(Native),
}

impl fmt::Debug for Callee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Callee {
    /// Finds a builtin by its name; `None` for those whose value does not depend on the arguments alone.
    pub(crate) fn find(name: &str) -> Option<Self> {
        if let Some(&(name, _, function)) = known::all().find(|(known, ..)| *known == name) {
            return Some(Self { name, what: What::Ours(function) });
        }
        if known::unsupported(name).is_some() || is_impure(name) {
            return None;
        }
        let (name, _) = BUILTINS.get_key_value(name)?;
        Some(Self { name, what: What::Native(natives::find(name)?) })
    }

    /// Calls it; a builtin that fails is undefined, unless evaluation is strict.
    ///
    /// # Errors
    /// Returns why there is no value: a limit is reached, or evaluation is strict.
    pub(crate) fn call(&self, arguments: &[Value], strict: bool) -> Result<Value, String> {
        let made = match self.what {
            What::Ours(function) => function(arguments),
            What::Native(native) => native.call(arguments),
        };
        let measured = made.and_then(|made| budget::charge(self.name, &made).map(|()| made));
        match measured {
            Err(Fault::Failed(_)) if !strict => Ok(Value::Undefined),
            answer => answer.map_err(|fault| fault.to_string()),
        }
    }
}

/// Whether regorus keeps the value of a builtin for the evaluation, because it has another one each time.
fn is_impure(name: &str) -> bool {
    matches!(name, "opa.runtime" | "rand.intn" | "time.now_ns" | "uuid.rfc4122" | "trace" | "print" | "walk")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_the_engine_does() {
        let call = |name: &str, arguments: &[Value]| Callee::find(name).unwrap().call(arguments, false);
        assert_eq!(call("count", &[Value::from(vec![Value::Null])]), Ok(Value::from(1)));
        assert_eq!(call("count", &[Value::from(1)]), Ok(Value::Undefined));
        assert_eq!(call("sprintf", &[Value::from("%d"), Value::from(vec![Value::from(1)])]), Ok(Value::from("1")));
        assert!(Callee::find("count").unwrap().call(&[Value::from(1)], true).is_err());
        assert!(Callee::find("http.send").is_none() && Callee::find("time.now_ns").is_none());
    }
}
