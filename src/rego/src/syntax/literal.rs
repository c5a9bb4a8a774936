//! Values of rules that are literals: metadata written as a rule.

use serde_json::{Map, Value};

use super::tree::{Expr, ExprKind, Module};
use crate::constant::Constant;

impl Module {
    /// Returns the value of a rule without conditions that is a JSON-like literal; `None` if there is no such rule.
    pub fn literal_value(&self, name: &str) -> Option<Value> {
        let rule = self.rules.iter().find(|rule| rule.first_name().is_some_and(|known| **known == *name))?;
        let (_, value) = rule.first.value.as_ref().filter(|_| rule.first.body.is_none())?;
        literal(value)
    }

    /// Whether it has a rule of this name.
    pub fn defines(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.first_name().is_some_and(|known| **known == *name))
    }
}

fn literal(expr: &Expr) -> Option<Value> {
    let items = |items: &[Expr]| items.iter().map(literal).collect::<Option<Vec<Value>>>();
    match &expr.kind {
        ExprKind::Scalar(text) => Some(match Constant::scalar(text)? {
            Constant::String(text) => Value::from(&*text),
            other => serde_json::from_str(&other.to_string()).ok()?,
        }),
        ExprKind::Array(array) | ExprKind::Set(array) => items(array).map(Value::Array),
        ExprKind::Object(fields) => {
            let field = |(key, value): &(Expr, Expr)| match literal(key)? {
                Value::String(key) => Some((key, literal(value)?)),
                _ => None,
            };
            fields.iter().map(field).collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::read;

    #[test]
    fn only_literal_rules_have_a_value() {
        let text = "package a\n__rego_input__ := {\"selector\": [{\"type\": `kubernetes`}], \"n\": 1}\nb := concat(\"\", [])\n\
                    c := 1 if input.x\n";
        let module = read(text, None).unwrap();
        let want = json!({"selector": [{"type": "kubernetes"}], "n": 1});
        assert_eq!(module.literal_value("__rego_input__"), Some(want));
        assert_eq!(
            (module.literal_value("b"), module.literal_value("c"), module.literal_value("d")),
            (None, None, None)
        );
        assert!(module.defines("b") && !module.defines("d"));
    }
}
