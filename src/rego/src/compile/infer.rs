//! Type inference: the possible types of each expression, and whether it can ever have a value. This is
//! OPA's stage `CheckTypes`.
//!
//! Types are inferred only as far as OPA does, so that the same modules are refused: in `every` and in negated bodies,
//! references are checked and calls are not.

mod learn;
mod references;

use std::{collections::HashMap, sync::Arc};

use super::{
    env::{Env, Replaced, TypeTree},
    fault::{Code, Fault},
    order::Order,
    show,
    term::{
        DATA, Function, ResolvedBody, ResolvedCall, ResolvedComprehension, ResolvedResult, ResolvedRule,
        ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue, Variables, WithTargetValue,
        ref_is_ground,
    },
    visit,
};
use crate::{
    builtins::declarations,
    constant::Constant,
    syntax::{ComprehensionKind, Position},
    types::{self, InferredType, Type, unifies},
};

/// The most statements that are checked before types count as unknown: nested bodies are checked repeatedly.
const MOST_STATEMENTS: usize = 500_000;

/// One type error.
#[derive(Debug, Clone)]
struct Mismatch {
    at: Position,
    message: String,
    /// Whether it may just follow from another error.
    unknown: bool,
}

/// The result of checking the body of a comprehension.
#[derive(Clone)]
struct Inferred {
    faults: Vec<Mismatch>,
    ty: InferredType,
}

pub(super) struct Checker<'a> {
    rules: &'a [ResolvedRule],
    order: &'a Order,
    variables: &'a Variables,
    env: Env,
    /// The results for comprehensions by address, each with the version of the types around it.
    seen: HashMap<*const ResolvedComprehension, (u64, Inferred)>,
    statements_left: usize,
    /// By module, whether lookups in values that are always empty are accepted.
    lenient: &'a [bool],
    /// Whether they are accepted in the current rule.
    is_lenient: bool,
}

/// Checks all rules; those that are not `checked` may have any type.
pub(super) fn check(
    rules: &[ResolvedRule],
    (checked, lenient): (&[bool], &[bool]),
    order: &Order,
    variables: &Variables,
) -> Vec<Fault> {
    let mut inference = Checker {
        rules,
        order,
        variables,
        env: Env::new(),
        seen: HashMap::new(),
        statements_left: MOST_STATEMENTS,
        lenient,
        is_lenient: false,
    };
    let mut faults = Vec::new();
    for index in order.sorted() {
        let rule = &rules[*index];
        for rule in rule.chain() {
            if checked[*index] && !order.is_recursive(*index) {
                faults.extend(inference.rule(rule));
            } else {
                inference.env.rules().put(&rule.ground_path(), Some(Type::any()));
            }
        }
    }
    if inference.statements_left == 0 { Vec::new() } else { faults }
}

impl<'a> Checker<'a> {
    fn rule(&mut self, rule: &'a ResolvedRule) -> Vec<Fault> {
        self.is_lenient = self.lenient.get(rule.module).is_some_and(|lenient| *lenient);
        self.env.enter(None);
        let mismatches = self.body(&rule.body);
        let ty = if mismatches.is_empty() { self.head(rule) } else { Some(Type::any()) };
        self.env.leave();
        let path = rule.ground_path();
        if mismatches.is_empty() {
            if let Some(ty) = ty {
                self.env.rules().insert(&path, ty);
            }
        } else if path.len() == rule.path.len() {
            self.env.rules().put(&path, ty);
        }
        let fault = |Mismatch { at, message, .. }| Fault::new(Code::Type, rule.module, at, message).recoverable();
        mismatches.into_iter().map(fault).collect()
    }

    /// Returns the type that a definition gives its document.
    fn head(&mut self, rule: &'a ResolvedRule) -> InferredType {
        if let Some(parameters) = rule.parameters.as_ref().filter(|parameters| !parameters.is_empty()) {
            for parameter in parameters {
                for variable in visit::of(parameter) {
                    if self.env.variable(variable).is_none() {
                        self.env.learn(variable, Some(Type::any()));
                    }
                }
            }
            let ResolvedResult::Value(result) = &rule.result else { return None };
            let parameters = parameters.iter().map(|parameter| self.term(parameter)).collect();
            let function = types::FunctionType { parameters, variadic: None, result: self.term(result) };
            return Some(Type::Function(function.into()));
        }
        let mut ty = match &rule.result {
            ResolvedResult::Value(value) => self.term(value)?,
            ResolvedResult::Element(element) => Type::set(Some(self.term(element)?)),
        };
        for key in rule.path[rule.ground()..].iter().rev() {
            ty = Type::object(Vec::new(), Some((Some(self.term(key)?), Some(ty))));
        }
        Some(ty)
    }

    /// Checks the statements of a body in the current frame.
    fn body(&mut self, body: &'a ResolvedBody) -> Vec<Mismatch> {
        let mut faults = Vec::new();
        for statement in body {
            if self.statements_left == 0 {
                return Vec::new();
            }
            self.statements_left -= 1;
            let replaced = self.replaced(statement);
            let frames = replaced.len();
            for replaced in replaced {
                self.env.enter(Some(Arc::new(replaced)));
            }
            let mut found = self.closures(statement);
            self.references_of(statement, &mut found);
            if let Err(mismatch) = self.statement(statement)
                && (found.is_empty() || !mismatch.unknown)
            {
                found.push(mismatch);
            }
            (0..frames).for_each(|_| self.env.leave());
            faults.append(&mut found);
        }
        faults
    }

    /// Checks the comprehensions of a statement, including the nested ones.
    fn closures(&mut self, statement: &'a ResolvedStatement) -> Vec<Mismatch> {
        let mut found: Vec<&'a ResolvedComprehension> = Vec::new();
        visit::terms_of_statement(statement, &mut |term| {
            if let ResolvedValue::Comprehension(comprehension) = &term.value {
                found.push(comprehension);
                return false;
            }
            true
        });
        let mut faults = Vec::new();
        found.reverse();
        while let Some(comprehension) = found.pop() {
            let inferred = self.comprehension(comprehension);
            if !inferred.faults.is_empty() {
                faults = inferred.faults;
                continue;
            }
            let mut inside = Vec::new();
            for statement in &comprehension.body {
                visit::terms_of_statement(statement, &mut |term| {
                    if let ResolvedValue::Comprehension(comprehension) = &term.value {
                        inside.push(&**comprehension);
                        return false;
                    }
                    true
                });
            }
            found.extend(inside.into_iter().rev());
        }
        faults
    }

    fn comprehension(&mut self, comprehension: &'a ResolvedComprehension) -> Inferred {
        let state = self.env.state();
        let key: *const ResolvedComprehension = comprehension;
        if let Some((known, inferred)) = self.seen.get(&key)
            && *known == state
        {
            return inferred.clone();
        }
        self.env.enter(None);
        let faults = self.body(&comprehension.body);
        let term = self.term(&comprehension.term);
        let key_type = comprehension.key.as_ref().map(|key| self.term(key));
        self.env.leave();
        let ty = match comprehension.form {
            ComprehensionKind::Array => Type::array(Vec::new(), term),
            ComprehensionKind::Set => Type::set(term),
            ComprehensionKind::Object => Type::object(Vec::new(), Some((key_type.flatten(), term))),
        };
        let ty = faults.is_empty().then_some(ty);
        let inferred = Inferred { faults, ty };
        self.seen.insert(key, (state, inferred.clone()));
        inferred
    }

    /// Returns the type of a term.
    fn term(&mut self, term: &'a ResolvedTerm) -> InferredType {
        match &term.value {
            ResolvedValue::Constant(constant) => Some(Type::of(constant)),
            ResolvedValue::Template(_) => Some(Type::String),
            ResolvedValue::Array(items) => Some(Type::array(items.iter().map(|item| self.term(item)).collect(), None)),
            ResolvedValue::Object(fields) => {
                let (mut constant, mut rest) = (Vec::new(), None);
                for (key, value) in fields {
                    let value_type = self.term(value);
                    match key.constant() {
                        Some(key) => constant.push((key, value_type)),
                        None => rest = Some((self.term(key), value_type)),
                    }
                }
                Some(Type::object(constant, rest))
            }
            ResolvedValue::Set(items) => {
                let mut ty = None;
                for item in items {
                    let item = self.term(item);
                    ty = types::or(ty, item);
                }
                Some(Type::set(ty))
            }
            ResolvedValue::Comprehension(comprehension) => self.comprehension(comprehension).ty,
            ResolvedValue::Ref(items) => self.env.reference(items),
            ResolvedValue::Variable(variable) => self.env.variable(*variable),
            ResolvedValue::Builtin(name) => declarations::declaration(name).map(|declaration| declaration.decl.clone()),
            ResolvedValue::Call(_) => None,
        }
    }

    /// Returns the types that `with` sets: those of the replaced documents, and of the rules that depend on them.
    fn replaced(&mut self, statement: &'a ResolvedStatement) -> Vec<Replaced> {
        let mut frames = Vec::new();
        let mut own = Replaced::default();
        for with in &statement.with {
            let WithTargetValue::Ref(items) = &with.target.value else { continue };
            let ty = self.env.reference(items);
            let function = matches!(ty, Some(Type::Function(_)));
            let ground = ref_is_ground(items);
            let path: Vec<Constant> = items.iter().skip(1).map_while(ResolvedTerm::constant).collect();
            if items.first().and_then(ResolvedTerm::as_variable) == Some(DATA) {
                let mut dependents = TypeTree::default();
                for rule in self.order.dependents(&items[1..], self.rules) {
                    let rule = self.rules[rule].ground_path();
                    if !(function && rule == path) {
                        dependents.put(&rule, Some(Type::any()));
                    }
                }
                if !dependents.children.is_empty() {
                    frames.push(Replaced { data: Some(Arc::new(dependents)), input: None });
                }
            }
            if function {
                continue;
            }
            let value = self.term(&with.value);
            let ty = if ground { ty.zip(value).and_then(|(a, b)| types::or(Some(a), Some(b))) } else { None };
            let ty = ty.or_else(|| Some(Type::any()));
            let document = if items.first().and_then(ResolvedTerm::as_variable) == Some(DATA) {
                &mut own.data
            } else {
                &mut own.input
            };
            Arc::make_mut(document.get_or_insert_default()).put(&path, ty);
        }
        if own.input.is_some() || own.data.is_some() {
            frames.push(own);
        }
        frames
    }

    fn statement(&mut self, statement: &'a ResolvedStatement) -> Result<(), Mismatch> {
        self.replacements(statement)?;
        match &statement.kind {
            ResolvedStatementKind::Unify(left, right) => self.unification(statement.at, left, right),
            ResolvedStatementKind::Call(call) => {
                if let Some((left, right)) = call.as_equality() {
                    return self.unification(statement.at, left, right);
                }
                self.membership(statement.at, call)?;
                self.call(statement.at, call)
            }
            ResolvedStatementKind::Term(_) | ResolvedStatementKind::Every(_) | ResolvedStatementKind::Not(_) => Ok(()),
        }
    }

    /// Checks that a function is replaced by one with the same number of parameters.
    fn replacements(&mut self, statement: &'a ResolvedStatement) -> Result<(), Mismatch> {
        for with in &statement.with {
            let (target, name) = match &with.target.value {
                WithTargetValue::Ref(items) => (self.env.reference(items), show::reference(items, self.variables)),
                WithTargetValue::Builtin(name) => {
                    (declarations::declaration(name).map(|declaration| declaration.decl.clone()), name.to_string())
                }
                WithTargetValue::Other | WithTargetValue::Variable(_) => continue,
            };
            let value = self.term(&with.value);
            if let (Some(Type::Function(_)), Some(Type::Function(_))) = (&target, &value)
                && !unifies(&target, &value)
            {
                let message = format!("{name}: arity mismatch: it cannot be replaced by another kind of function");
                return Err(Mismatch { at: with.target.at, message, unknown: false });
            }
        }
        Ok(())
    }

    fn unification(&mut self, at: Position, left: &'a ResolvedTerm, right: &'a ResolvedTerm) -> Result<(), Mismatch> {
        let (a, b) = (self.term(left), self.term(right));
        if self.unify(left, &a, right, &b) { Ok(()) } else { Err(mismatch(at, &a, &b)) }
    }

    /// Checks that the operand of `x in xs` can be an element.
    fn membership(&mut self, at: Position, call: &'a ResolvedCall) -> Result<(), Mismatch> {
        let arity = match &call.function {
            Function::Builtin(name) if &**name == "internal.member_2" => 2,
            Function::Builtin(name) if &**name == "internal.member_3" => 3,
            _ => return Ok(()),
        };
        let Some(collection) = call.arguments.get(arity - 1) else { return Ok(()) };
        let collection = self.term(collection);
        let values = types::values(&collection);
        if values.is_none() {
            return Ok(());
        }
        if arity == 3 {
            self.member(at, &call.arguments[0], &types::keys(&collection))?;
        }
        self.member(at, &call.arguments[arity - 2], &values)
    }

    fn member(&mut self, at: Position, term: &'a ResolvedTerm, ty: &InferredType) -> Result<(), Mismatch> {
        if types::is_unknown(ty) {
            return Ok(());
        }
        let have = self.term(term);
        let fits = types::is_unknown(&have) || unifies(&have, ty);
        if fits && self.learn_from(term, ty, false) { Ok(()) } else { Err(mismatch(at, &have, ty)) }
    }

    fn call(&mut self, at: Position, call: &'a ResolvedCall) -> Result<(), Mismatch> {
        let decl = match &call.function {
            Function::Builtin(name) => declarations::declaration(name).map(|declaration| declaration.decl.clone()),
            Function::Rule(path) => {
                let data = ResolvedTerm::variable(at, DATA);
                let keys = path.iter().map(|key| ResolvedTerm::new(at, ResolvedValue::Constant(key.clone())));
                self.env.reference(&std::iter::once(data).chain(keys).collect::<Vec<_>>())
            }
            Function::Unknown(_) => None,
        };
        let function = match decl {
            Some(Type::Function(function)) => function,
            Some(Type::Any(ty)) if ty.is_empty() => return Ok(()),
            None => return Ok(()),
            Some(_) => {
                let message = format!("undefined function {}: it is a rule without parameters", call.function);
                return Err(Mismatch { at, message, unknown: false });
            }
        };
        let parameters: Vec<&InferredType> =
            function.parameters.iter().chain(function.result.is_some().then_some(&function.result)).collect();
        for (index, argument) in call.arguments.iter().enumerate() {
            let Some(want) = parameters.get(index).copied().or(Some(&function.variadic)).filter(|want| want.is_some())
            else {
                break;
            };
            let have = self.term(argument);
            let fits = types::is_unknown(&have) || unifies(&have, want);
            if !fits || !self.learn_from(argument, want, false) {
                return Err(self.wrong_argument(at, call, index, want));
            }
        }
        Ok(())
    }

    fn wrong_argument(&mut self, at: Position, call: &'a ResolvedCall, index: usize, want: &InferredType) -> Mismatch {
        let name = show::function(&call.function);
        let have: Vec<InferredType> = call.arguments.iter().map(|argument| self.term(argument)).collect();
        let unknown = have.iter().any(types::is_unknown);
        let (have, want) = (show::known(&have[index]), show::known(want));
        let result = |arity: usize| index == arity;
        let arity = match &call.function {
            Function::Builtin(name) => {
                declarations::declaration(name).map_or(usize::MAX, |declaration| declaration.arity)
            }
            _ => call.arguments.len(),
        };
        let what = if result(arity) {
            format!("its result is {want}, not {have}")
        } else {
            format!("argument {} is {have}, and must be {want}", index + 1)
        };
        Mismatch { at, message: format!("{name}: invalid argument(s): {what}"), unknown }
    }
}

fn mismatch(at: Position, a: &InferredType, b: &InferredType) -> Mismatch {
    let message = format!("match error: {} is never {}", show::known(a), show::known(b));
    Mismatch { at, message, unknown: types::is_unknown(a) || types::is_unknown(b) }
}
