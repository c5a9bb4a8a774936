//! Rules after OPA's first stages: names resolved, variables numbered, positions as in the source.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    constant::Constant,
    references::Path,
    syntax::{ComprehensionKind, Name, Position},
};

/// A variable, by its index in [`Variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(u32);

impl Variable {
    /// Whether it is one of the two documents.
    pub fn is_document(self) -> bool {
        self == DATA || self == INPUT
    }
}

pub(crate) type VariableSet = BTreeSet<Variable>;

/// The document `data`. Both documents are variables that always have a value.
pub const DATA: Variable = Variable(0);
/// The document `input`.
pub const INPUT: Variable = Variable(1);

/// The names of variables.
pub(super) struct Variables {
    /// The name, `None` for a variable that represents a part of an expression; and whether the rule declares it.
    names: Vec<(Option<Name>, bool)>,
}

impl Variables {
    pub(super) fn new() -> Self {
        Self { names: vec![(Some("data".into()), false), (Some("input".into()), false)] }
    }

    /// Returns a new variable that a rule declares with this name.
    pub(super) fn declared(&mut self, name: &Name) -> Variable {
        self.add(Some(Arc::clone(name)), true)
    }

    /// Returns a new variable with this name that nothing declares.
    pub(super) fn free(&mut self, name: &Name) -> Variable {
        self.add(Some(Arc::clone(name)), false)
    }

    /// Returns a new variable for a part of an expression.
    pub(super) fn generated(&mut self) -> Variable {
        self.add(None, true)
    }

    fn add(&mut self, name: Option<Name>, declared: bool) -> Variable {
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push((name, declared));
        Variable(index)
    }

    /// Returns the name in the source.
    pub(super) fn name(&self, variable: Variable) -> Option<&Name> {
        self.names.get(variable.0 as usize)?.0.as_ref()
    }

    /// Whether a variable was written as `_`.
    pub(super) fn is_wildcard(&self, variable: Variable) -> bool {
        self.name(variable).is_some_and(|name| &**name == "_")
    }

    /// Whether a rule declares it, or it represents a part of an expression.
    pub(super) fn is_declared(&self, variable: Variable) -> bool {
        self.names.get(variable.0 as usize).is_some_and(|(_, declared)| *declared)
    }
}

/// A term with its position.
#[derive(Debug, Clone)]
pub struct ResolvedTerm {
    /// Where it begins.
    pub at: Position,
    /// The kind and content of the term.
    pub value: ResolvedValue,
}

/// The kind and content of a term.
#[derive(Debug, Clone)]
pub enum ResolvedValue {
    /// A scalar, or a collection of constants.
    Constant(Constant),
    /// A variable.
    Variable(Variable),
    /// A reference: its head and its keys.
    Ref(Vec<ResolvedTerm>),
    /// An array.
    Array(Vec<ResolvedTerm>),
    /// A set.
    Set(Vec<ResolvedTerm>),
    /// An object, by keys and values.
    Object(Vec<(ResolvedTerm, ResolvedTerm)>),
    /// A comprehension.
    Comprehension(Box<ResolvedComprehension>),
    /// A call used as a value.
    Call(Box<ResolvedCall>),
    /// A template string, by its parts.
    Template(Vec<TemplatePart>),
    /// A builtin with which `with` replaces another function.
    Builtin(Name),
}

/// A call of a builtin or a function.
#[derive(Debug, Clone)]
pub struct ResolvedCall {
    /// The function.
    pub function: Function,
    /// The arguments; one more than the parameters if the last one takes the result.
    pub arguments: Vec<ResolvedTerm>,
}

/// The function of a call: a builtin, or a path below `data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// A builtin, by its name.
    Builtin(Name),
    /// A rule, by its path below `data`.
    Rule(Vec<Constant>),
    /// An unknown function.
    Unknown(Name),
}

/// A comprehension.
#[derive(Debug, Clone)]
pub struct ResolvedComprehension {
    /// The kind of collection that it makes.
    pub form: ComprehensionKind,
    /// The key of an object.
    pub key: Option<ResolvedTerm>,
    /// The element, or the value of an object.
    pub term: ResolvedTerm,
    /// The statements that bind its variables.
    pub body: ResolvedBody,
}

/// A part of a template string.
#[derive(Debug, Clone)]
pub enum TemplatePart {
    /// A constant part.
    Constant(Constant),
    /// An expression, as the statement that binds its value.
    Statement(Box<ResolvedStatement>),
}

/// Statements that must all hold.
pub type ResolvedBody = Vec<ResolvedStatement>;

/// A statement of a body.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties, which can be combined")]
pub struct ResolvedStatement {
    /// Where it begins.
    pub at: Position,
    /// Whether it was written with `not`.
    pub negated: bool,
    /// Whether it represents a part of an expression.
    pub generated: bool,
    /// Whether it was written with `:=`.
    pub(crate) assigned: bool,
    /// Whether it is checked, but not evaluated: a `print`.
    pub erased: bool,
    /// The condition.
    pub kind: ResolvedStatementKind,
    /// The replacements by `with` during its evaluation.
    pub with: Vec<ResolvedWith>,
}

/// The condition of a statement.
#[derive(Debug, Clone)]
pub enum ResolvedStatementKind {
    /// A term that must be neither false nor undefined.
    Term(ResolvedTerm),
    /// A call that must not return false.
    Call(ResolvedCall),
    /// `a = b`.
    Unify(ResolvedTerm, ResolvedTerm),
    /// `every x in xs { … }`.
    Every(Box<ResolvedEvery>),
    /// The negated body of modules that import `future.keywords.not`.
    Not(ResolvedBody),
}

/// An `every`: a body that must hold for all elements of a collection.
#[derive(Debug, Clone)]
pub struct ResolvedEvery {
    /// The variable of the key, if it has one.
    pub key: Option<Variable>,
    /// The variable of the element.
    pub value: Variable,
    /// The collection.
    pub domain: ResolvedTerm,
    /// The body.
    pub body: ResolvedBody,
}

/// A `with`.
#[derive(Debug, Clone)]
pub struct ResolvedWith {
    /// The target.
    pub target: WithTarget,
    /// Its replacement.
    pub value: ResolvedTerm,
}

/// The target of a `with`.
#[derive(Debug, Clone)]
pub struct WithTarget {
    /// Where it is written.
    pub at: Position,
    /// The document or function.
    pub value: WithTargetValue,
}

/// The document or function that `with` replaces.
#[derive(Debug, Clone)]
pub enum WithTargetValue {
    /// A path below `data` or `input`.
    Ref(Vec<ResolvedTerm>),
    /// A builtin, by its name.
    Builtin(Name),
    /// A variable, which cannot be replaced.
    Variable(Variable),
    /// Anything else that cannot be replaced.
    Other,
}

/// A definition, or one of its `else` branches.
#[derive(Debug, Clone)]
pub struct ResolvedRule {
    /// Index of the module.
    pub module: usize,
    /// Where it begins.
    pub at: Position,
    /// The package and the name with its keys, below `data`.
    pub path: Vec<ResolvedTerm>,
    /// The parameters of a function.
    pub parameters: Option<Vec<ResolvedTerm>>,
    /// The value or the element that it defines.
    pub result: ResolvedResult,
    /// Whether it is a `default`.
    pub default: bool,
    /// The statements that must hold.
    pub body: ResolvedBody,
    /// The `else` branch, which is evaluated if this one has no value.
    pub otherwise: Option<Box<Self>>,
}

/// The result of a definition.
#[derive(Debug, Clone)]
pub enum ResolvedResult {
    /// A value.
    Value(ResolvedTerm),
    /// An element of a set.
    Element(ResolvedTerm),
}

impl ResolvedTerm {
    /// Returns a term at a position.
    pub fn new(at: Position, value: ResolvedValue) -> Self {
        Self { at, value }
    }

    /// Returns a variable at a position.
    pub fn variable(at: Position, variable: Variable) -> Self {
        Self::new(at, ResolvedValue::Variable(variable))
    }

    /// Returns a string at a position.
    pub fn text(at: Position, text: &str) -> Self {
        Self::new(at, ResolvedValue::Constant(Constant::String(text.into())))
    }

    /// Returns `true` at a position.
    pub fn truth(at: Position) -> Self {
        Self::new(at, ResolvedValue::Constant(Constant::Boolean(true)))
    }

    /// Returns the variable, if the term is one.
    pub fn as_variable(&self) -> Option<Variable> {
        match self.value {
            ResolvedValue::Variable(variable) => Some(variable),
            _ => None,
        }
    }

    /// Returns the string, if the term is a constant one.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match &self.value {
            ResolvedValue::Constant(constant) => constant.as_text(),
            _ => None,
        }
    }

    /// Returns the leading keys of a reference that are constant strings.
    pub fn texts(keys: &[Self]) -> Path {
        keys.iter().map_while(Self::as_text).map(ToString::to_string).collect()
    }

    /// Returns the value of a term that needs no evaluation.
    pub fn constant(&self) -> Option<Constant> {
        Some(match &self.value {
            ResolvedValue::Constant(constant) => constant.clone(),
            ResolvedValue::Array(items) => Constant::Array(items.iter().map(Self::constant).collect::<Option<_>>()?),
            ResolvedValue::Set(items) => {
                let mut items = items.iter().map(Self::constant).collect::<Option<Vec<_>>>()?;
                items.sort();
                items.dedup();
                Constant::Array(items)
            }
            ResolvedValue::Object(fields) => {
                let field = |(key, value): &(Self, Self)| Some((key.constant()?, value.constant()?));
                let mut fields = fields.iter().map(field).collect::<Option<Vec<_>>>()?;
                fields.sort();
                Constant::Object(fields)
            }
            _ => return None,
        })
    }

    /// Whether it contains no variable.
    pub(crate) fn is_ground(&self) -> bool {
        match &self.value {
            ResolvedValue::Constant(_) => true,
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => items.iter().all(Self::is_ground),
            ResolvedValue::Object(fields) => fields.iter().all(|(key, value)| key.is_ground() && value.is_ground()),
            ResolvedValue::Ref(items) => ref_is_ground(items),
            _ => false,
        }
    }

    /// Whether it has to be evaluated to become a value: it contains references, comprehensions or calls.
    pub(super) fn requires_evaluation(&self) -> bool {
        match &self.value {
            ResolvedValue::Constant(_) | ResolvedValue::Variable(_) | ResolvedValue::Builtin(_) => false,
            ResolvedValue::Ref(_)
            | ResolvedValue::Comprehension(_)
            | ResolvedValue::Call(_)
            | ResolvedValue::Template(_) => true,
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => items.iter().any(Self::requires_evaluation),
            ResolvedValue::Object(fields) => {
                fields.iter().any(|(key, value)| key.requires_evaluation() || value.requires_evaluation())
            }
        }
    }
}

/// Whether no key of a reference contains a variable.
pub(super) fn ref_is_ground(items: &[ResolvedTerm]) -> bool {
    items.iter().skip(1).all(ResolvedTerm::is_ground)
}

impl Function {
    /// Returns the path of a rule below `data`; `None` for a builtin.
    pub fn path(&self) -> Option<Path> {
        match self {
            Self::Rule(path) => path.iter().map(|key| key.as_text().map(ToString::to_string)).collect(),
            Self::Builtin(_) | Self::Unknown(_) => None,
        }
    }
}

impl ResolvedCall {
    /// Returns both sides of `==` as a condition, which is evaluated as a unification.
    pub fn as_equality(&self) -> Option<(&ResolvedTerm, &ResolvedTerm)> {
        match (&self.function, self.arguments.as_slice()) {
            (Function::Builtin(name), [left, right]) if matches!(&**name, "equal" | "eq") => Some((left, right)),
            _ => None,
        }
    }
}

impl ResolvedStatement {
    /// Returns a statement without `not` and `with`.
    pub fn new(at: Position, kind: ResolvedStatementKind) -> Self {
        Self { at, negated: false, generated: false, assigned: false, erased: false, kind, with: Vec::new() }
    }

    /// Whether it is just `true`.
    pub(super) fn is_true(&self) -> bool {
        let truth = Constant::Boolean(true);
        matches!(&self.kind, ResolvedStatementKind::Term(ResolvedTerm { value: ResolvedValue::Constant(value), .. }) if *value == truth)
            && !self.negated
            && self.with.is_empty()
    }

    /// Returns `variable = term`, for a part of an expression.
    pub(super) fn capture(variable: Variable, term: ResolvedTerm) -> Self {
        let at = term.at;
        Self {
            generated: true,
            ..Self::new(at, ResolvedStatementKind::Unify(ResolvedTerm::variable(at, variable), term))
        }
    }
}

impl ResolvedRule {
    /// Returns this definition and its `else` branches.
    pub fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rule| rule.otherwise.as_deref())
    }

    /// Returns the length of the constant prefix of its path.
    pub(crate) fn ground(&self) -> usize {
        self.path.iter().position(|key| !key.is_ground()).unwrap_or(self.path.len())
    }

    /// Returns the prefix of its path whose keys are constant strings.
    pub fn text_path(&self) -> Path {
        ResolvedTerm::texts(&self.path)
    }

    /// Whether it has no conditions.
    pub fn is_unconditional(&self) -> bool {
        self.body.iter().all(ResolvedStatement::is_true)
    }

    /// Returns the constant prefix of its path.
    pub(crate) fn ground_path(&self) -> Vec<Constant> {
        self.path[..self.ground()].iter().map_while(ResolvedTerm::constant).collect()
    }

    /// Whether it has parameters.
    pub fn is_function(&self) -> bool {
        self.arity() > 0
    }

    /// Returns the number of parameters; 0 for a rule.
    pub fn arity(&self) -> usize {
        self.parameters.as_ref().map_or(0, Vec::len)
    }
}

/// Returns the parts of two patterns that are unified with each other; `None` unless both are arrays of the same
/// length, or objects with the same keys.
pub fn paired<'t>(
    left: &'t ResolvedTerm,
    right: &'t ResolvedTerm,
) -> Option<Vec<(&'t ResolvedTerm, &'t ResolvedTerm)>> {
    match (&left.value, &right.value) {
        (ResolvedValue::Array(left), ResolvedValue::Array(right)) if left.len() == right.len() => {
            Some(left.iter().zip(right).collect())
        }
        (ResolvedValue::Object(left), ResolvedValue::Object(right)) if left.len() == right.len() => {
            same_keys(left, right)
        }
        _ => None,
    }
}

/// Pairs the values of two objects, if their keys are the same constants.
fn same_keys<'t>(
    left: &'t [(ResolvedTerm, ResolvedTerm)],
    right: &'t [(ResolvedTerm, ResolvedTerm)],
) -> Option<Vec<(&'t ResolvedTerm, &'t ResolvedTerm)>> {
    let pair = |(key, value): &'t (ResolvedTerm, ResolvedTerm)| {
        let key = key.constant()?;
        let other = right.iter().find(|(other, _)| other.constant().as_ref() == Some(&key))?;
        Some((value, &other.1))
    };
    left.iter().map(pair).collect()
}

/// Returns a path below `data` as Rego writes it.
pub(super) fn path_text(path: &[Constant]) -> String {
    let mut text = "data".to_owned();
    for key in path {
        push(&mut text, key);
    }
    text
}

/// Adds a key to the text of a reference.
pub(super) fn push(text: &mut String, key: &Constant) {
    match key {
        Constant::String(key) => crate::references::push_key(text, key),
        other => text.extend(["[", &other.to_string(), "]"]),
    }
}

impl std::fmt::Display for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Builtin(name) | Self::Unknown(name) => f.write_str(name),
            Self::Rule(path) => f.write_str(&path_text(path)),
        }
    }
}
