//! `with`: checks of targets and replacements. This is OPA's stage `RewriteWithValues`.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    fault::{Code, Fault},
    term::{
        DATA, ResolvedBody, ResolvedRule, ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue,
        ResolvedWith, Variables, WithTargetValue,
    },
    tree::RuleTree,
};
use crate::{builtins::declarations, syntax::Name};

pub(super) struct Replacer<'a> {
    pub(super) tree: &'a RuleTree,
    /// The number of parameters of each rule.
    pub(super) arities: &'a [usize],
    pub(super) variables: &'a mut Variables,
    /// The builtins that some `with` replaces.
    pub(super) replaced: &'a mut BTreeSet<Name>,
    pub(super) faults: &'a mut Vec<Fault>,
}

impl Replacer<'_> {
    /// Checks a definition and its `else` branches; moves replacement values into statements before the one with the
    /// `with`.
    pub(super) fn rule(&mut self, rule: &mut ResolvedRule) {
        let module = rule.module;
        let mut next = Some(rule);
        while let Some(rule) = next {
            self.body(&mut rule.body, module);
            next = rule.otherwise.as_deref_mut();
        }
    }

    fn body(&mut self, body: &mut ResolvedBody, module: usize) {
        let mut result = Vec::with_capacity(body.len());
        for mut statement in std::mem::take(body) {
            match &mut statement.kind {
                ResolvedStatementKind::Term(term) => self.term(term, module),
                ResolvedStatementKind::Call(call) => {
                    call.arguments.iter_mut().for_each(|argument| self.term(argument, module));
                }
                ResolvedStatementKind::Unify(left, right) => {
                    self.term(left, module);
                    self.term(right, module);
                }
                ResolvedStatementKind::Every(every) => self.body(&mut every.body, module),
                ResolvedStatementKind::Not(inner) => self.body(inner, module),
            }
            for with in &mut statement.with {
                self.term(&mut with.value, module);
                match self.evaluated(with) {
                    Ok(false) => {}
                    Ok(true) => {
                        let variable = self.variables.generated();
                        let at = with.value.at;
                        if let ResolvedValue::Builtin(name) = &with.value.value {
                            // A function is not a value: its name is treated as a variable here.
                            let first = name.split('.').next().unwrap_or_default().into();
                            with.value.value = ResolvedValue::Variable(self.variables.free(&first));
                        }
                        let value = std::mem::replace(&mut with.value, ResolvedTerm::variable(at, variable));
                        result.push(ResolvedStatement::capture(variable, value));
                    }
                    Err((code, message)) => {
                        let fault = Fault::new(code, module, with.target.at, message);
                        self.faults.push(fault.help("`with` can replace input, data, paths below them, or functions"));
                    }
                }
            }
            result.push(statement);
        }
        *body = result;
    }

    fn term(&mut self, term: &mut ResolvedTerm, module: usize) {
        match &mut term.value {
            ResolvedValue::Constant(_)
            | ResolvedValue::Variable(_)
            | ResolvedValue::Builtin(_)
            | ResolvedValue::Template(_) => {}
            ResolvedValue::Ref(items) | ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
                for item in items.iter_mut() {
                    self.term(item, module);
                }
            }
            ResolvedValue::Object(fields) => {
                for (key, value) in fields {
                    self.term(key, module);
                    self.term(value, module);
                }
            }
            ResolvedValue::Call(call) => call.arguments.iter_mut().for_each(|argument| self.term(argument, module)),
            ResolvedValue::Comprehension(comprehension) => self.body(&mut comprehension.body, module),
        }
    }

    /// Returns whether the value has to be evaluated before the statement, or why the `with` is refused.
    fn evaluated(&mut self, with: &ResolvedWith) -> Result<bool, (Code, String)> {
        match &with.target.value {
            WithTargetValue::Other | WithTargetValue::Variable(_) => {
                let message = "with keyword target must reference existing input, data, or a function";
                return Err((Code::Type, message.to_owned()));
            }
            WithTargetValue::Builtin(name) => {
                replaceable(name).map_err(|message| (Code::Compile, message))?;
                self.replaced.insert(Arc::clone(name));
                if self.is_function_or_rule(&with.value) {
                    return Ok(false);
                }
            }
            WithTargetValue::Ref(items) if items.first().and_then(ResolvedTerm::as_variable) == Some(DATA) => {
                let mut node = Some(self.tree);
                for (index, key) in items.iter().enumerate().skip(1) {
                    node = node.zip(key.constant()).and_then(|(node, key)| node.child(&key));
                    let last = index + 1 == items.len();
                    let Some(node) = node.filter(|node| !node.rules.is_empty()) else { continue };
                    if !last {
                        let message = "with keyword cannot partially replace virtual document(s)";
                        return Err((Code::Compile, message.to_owned()));
                    }
                    let function = node.rules.iter().any(|rule| self.arities[*rule] > 0);
                    if function && self.is_function_or_rule(&with.value) {
                        return Ok(false);
                    }
                }
                if self.rules_of(&with.value).is_some_and(|node| node.rules.iter().any(|rule| self.arities[*rule] > 0))
                {
                    return Ok(false);
                }
            }
            WithTargetValue::Ref(_) => {}
        }
        Ok(with.value.requires_evaluation() || matches!(with.value.value, ResolvedValue::Builtin(_)))
    }

    fn rules_of(&self, value: &ResolvedTerm) -> Option<&RuleTree> {
        let ResolvedValue::Ref(items) = &value.value else { return None };
        let (head, keys) = items.split_first()?;
        let keys: Vec<_> = keys.iter().map(ResolvedTerm::constant).collect::<Option<_>>()?;
        if head.as_variable() == Some(DATA) { self.tree.at(&keys) } else { None }
    }

    fn is_function_or_rule(&self, value: &ResolvedTerm) -> bool {
        matches!(value.value, ResolvedValue::Builtin(_)) || self.rules_of(value).is_some()
    }
}

/// Checks that a builtin can be replaced.
fn replaceable(name: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("with keyword replacing built-in function: {why}"));
    if matches!(name, "eq" | "rego.metadata.chain" | "rego.metadata.rule") || name.starts_with("internal.") {
        return refused(&format!("replacement of {name} invalid"));
    }
    match declarations::declaration(name) {
        Some(declaration) if declaration.relation => refused("target must not be a relation"),
        Some(declaration) if !declaration.has_result() => refused("target must not be a void function"),
        _ => Ok(()),
    }
}
