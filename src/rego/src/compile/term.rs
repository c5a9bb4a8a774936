//! Rules as OPA's compiler sees them: names resolved, each variable with a number of its own, positions as they are written.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    constant::Constant,
    references::Path,
    syntax::{ComprehensionKind, Name, Position},
};

/// A variable, by its number in [`Variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(u32);

impl Variable {
    /// Whether it is one of the two documents.
    pub fn is_document(self) -> bool {
        self == DATA || self == INPUT
    }
}

pub(crate) type VariableSet = BTreeSet<Variable>;

/// The two documents are variables that always have a value.
pub const DATA: Variable = Variable(0);
pub const INPUT: Variable = Variable(1);

/// What the variables are called.
pub(super) struct Variables {
    /// No name for those that stand for a part of an expression; and whether the rule declares them.
    names: Vec<(Option<Name>, bool)>,
}

impl Variables {
    pub(super) fn new() -> Self {
        Self { names: vec![(Some("data".into()), false), (Some("input".into()), false)] }
    }

    /// Returns a new variable that a rule declares by this name.
    pub(super) fn declared(&mut self, name: &Name) -> Variable {
        self.add(Some(Arc::clone(name)), true)
    }

    /// Returns a new variable of this name that nothing declares.
    pub(super) fn free(&mut self, name: &Name) -> Variable {
        self.add(Some(Arc::clone(name)), false)
    }

    /// Returns a new variable that stands for a part of an expression.
    pub(super) fn generated(&mut self) -> Variable {
        self.add(None, true)
    }

    fn add(&mut self, name: Option<Name>, declared: bool) -> Variable {
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push((name, declared));
        Variable(number)
    }

    /// Returns the name that the user wrote.
    pub(super) fn name(&self, variable: Variable) -> Option<&Name> {
        self.names.get(variable.0 as usize)?.0.as_ref()
    }

    /// Whether a variable was written as `_`.
    pub(super) fn is_wildcard(&self, variable: Variable) -> bool {
        self.name(variable).is_some_and(|name| &**name == "_")
    }

    /// Whether a rule declares it, or it stands for a part of an expression.
    pub(super) fn is_declared(&self, variable: Variable) -> bool {
        self.names.get(variable.0 as usize).is_some_and(|(_, declared)| *declared)
    }
}

#[derive(Debug, Clone)]
pub struct Term {
    pub at: Position,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub enum Value {
    Constant(Constant),
    Variable(Variable),
    /// What stands first, and the keys behind it.
    Ref(Vec<Term>),
    Array(Vec<Term>),
    Set(Vec<Term>),
    Object(Vec<(Term, Term)>),
    Comprehension(Box<Comprehension>),
    Call(Box<Call>),
    Template(Vec<Part>),
    /// A builtin as what `with` puts in the place of another function.
    Builtin(Name),
}

#[derive(Debug, Clone)]
pub struct Call {
    pub function: Function,
    pub arguments: Vec<Term>,
}

/// What is called: a builtin, or a path below `data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    Builtin(Name),
    Rule(Vec<Constant>),
    /// No function at all.
    Unknown(Name),
}

#[derive(Debug, Clone)]
pub struct Comprehension {
    pub form: ComprehensionKind,
    /// The key of an object.
    pub key: Option<Term>,
    pub term: Term,
    pub body: Body,
}

/// A part of a template string.
#[derive(Debug, Clone)]
pub enum Part {
    Constant(Constant),
    Statement(Box<Statement>),
}

pub type Body = Vec<Statement>;

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each says another thing, and any of them may hold")]
pub struct Statement {
    pub at: Position,
    pub negated: bool,
    /// It stands for a part of an expression.
    pub generated: bool,
    /// It was written with `:=`.
    pub(crate) assigned: bool,
    /// It is checked, but not evaluated: what is printed.
    pub erased: bool,
    pub what: What,
    pub with: Vec<With>,
}

#[derive(Debug, Clone)]
pub enum What {
    Term(Term),
    Call(Call),
    /// `a = b`.
    Unify(Term, Term),
    Every(Box<Every>),
    /// The negation of Rego that imports `future.keywords.not`.
    Not(Body),
}

#[derive(Debug, Clone)]
pub struct Every {
    pub key: Option<Variable>,
    pub value: Variable,
    pub domain: Term,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub struct With {
    pub target: Target,
    pub value: Term,
}

/// What `with` replaces.
#[derive(Debug, Clone)]
pub struct Target {
    pub at: Position,
    pub value: TargetValue,
}

#[derive(Debug, Clone)]
pub enum TargetValue {
    /// Something below `data` or `input`.
    Ref(Vec<Term>),
    Builtin(Name),
    /// A variable, which cannot be replaced.
    Variable(Variable),
    /// Nothing that can be replaced.
    Other,
}

/// One definition, or what follows an `else`.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Index of the module.
    pub module: usize,
    pub at: Position,
    /// The package and the name with its keys, below `data`.
    pub path: Vec<Term>,
    pub parameters: Option<Vec<Term>>,
    pub result: Outcome,
    pub default: bool,
    pub body: Body,
    /// The definition that comes into question if this one has no value.
    pub otherwise: Option<Box<Self>>,
}

/// What a definition gives.
#[derive(Debug, Clone)]
pub enum Outcome {
    Value(Term),
    /// An element of a set.
    Element(Term),
}

impl Term {
    pub fn new(at: Position, value: Value) -> Self {
        Self { at, value }
    }

    pub fn variable(at: Position, variable: Variable) -> Self {
        Self::new(at, Value::Variable(variable))
    }

    pub fn text(at: Position, text: &str) -> Self {
        Self::new(at, Value::Constant(Constant::String(text.into())))
    }

    pub fn truth(at: Position) -> Self {
        Self::new(at, Value::Constant(Constant::Boolean(true)))
    }

    pub fn as_variable(&self) -> Option<Variable> {
        match self.value {
            Value::Variable(variable) => Some(variable),
            _ => None,
        }
    }

    /// Returns the text that it is.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match &self.value {
            Value::Constant(constant) => constant.as_text(),
            _ => None,
        }
    }

    /// Returns the keys of a reference that are constant texts, from the first one on.
    pub fn texts(keys: &[Self]) -> Path {
        keys.iter().map_while(Self::as_text).map(ToString::to_string).collect()
    }

    /// Returns its value if nothing has to be evaluated for it.
    pub fn constant(&self) -> Option<Constant> {
        Some(match &self.value {
            Value::Constant(constant) => constant.clone(),
            Value::Array(items) => Constant::Array(items.iter().map(Self::constant).collect::<Option<_>>()?),
            Value::Set(items) => {
                let mut items = items.iter().map(Self::constant).collect::<Option<Vec<_>>>()?;
                items.sort();
                items.dedup();
                Constant::Array(items)
            }
            Value::Object(fields) => {
                let field = |(key, value): &(Self, Self)| Some((key.constant()?, value.constant()?));
                let mut fields = fields.iter().map(field).collect::<Option<Vec<_>>>()?;
                fields.sort();
                Constant::Object(fields)
            }
            _ => return None,
        })
    }

    /// Whether there is no variable in it.
    pub(crate) fn is_ground(&self) -> bool {
        match &self.value {
            Value::Constant(_) => true,
            Value::Array(items) | Value::Set(items) => items.iter().all(Self::is_ground),
            Value::Object(fields) => fields.iter().all(|(key, value)| key.is_ground() && value.is_ground()),
            Value::Ref(items) => ref_is_ground(items),
            _ => false,
        }
    }

    /// Whether it has to be evaluated before it can be a value: it holds references or comprehensions.
    pub(super) fn requires_evaluation(&self) -> bool {
        match &self.value {
            Value::Constant(_) | Value::Variable(_) | Value::Builtin(_) => false,
            Value::Ref(_) | Value::Comprehension(_) | Value::Call(_) | Value::Template(_) => true,
            Value::Array(items) | Value::Set(items) => items.iter().any(Self::requires_evaluation),
            Value::Object(fields) => {
                fields.iter().any(|(key, value)| key.requires_evaluation() || value.requires_evaluation())
            }
        }
    }
}

/// Whether no key of a reference is a variable.
pub(super) fn ref_is_ground(items: &[Term]) -> bool {
    items.iter().skip(1).all(Term::is_ground)
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

impl Call {
    /// Returns both sides of `==` as a condition, which is evaluated as a unification.
    pub fn as_equality(&self) -> Option<(&Term, &Term)> {
        match (&self.function, self.arguments.as_slice()) {
            (Function::Builtin(name), [left, right]) if matches!(&**name, "equal" | "eq") => Some((left, right)),
            _ => None,
        }
    }
}

impl Statement {
    pub fn new(at: Position, what: What) -> Self {
        Self { at, negated: false, generated: false, assigned: false, erased: false, what, with: Vec::new() }
    }

    /// Whether it is `true` and nothing else.
    pub(super) fn is_true(&self) -> bool {
        let truth = Constant::Boolean(true);
        matches!(&self.what, What::Term(Term { value: Value::Constant(value), .. }) if *value == truth)
            && !self.negated
            && self.with.is_empty()
    }

    /// `variable = term`, for a part of an expression.
    pub(super) fn capture(variable: Variable, term: Term) -> Self {
        let at = term.at;
        Self { generated: true, ..Self::new(at, What::Unify(Term::variable(at, variable), term)) }
    }
}

impl Rule {
    /// Returns this definition and those behind `else`.
    pub fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rule| rule.otherwise.as_deref())
    }

    /// Returns how much of its path is constant.
    pub(crate) fn ground(&self) -> usize {
        self.path.iter().position(|key| !key.is_ground()).unwrap_or(self.path.len())
    }

    /// Returns its path, as far as its keys are constant texts.
    pub fn text_path(&self) -> Path {
        Term::texts(&self.path)
    }

    /// Whether it has no conditions.
    pub fn is_unconditional(&self) -> bool {
        self.body.iter().all(Statement::is_true)
    }

    /// Returns the constant beginning of its path.
    pub(crate) fn ground_path(&self) -> Vec<Constant> {
        self.path[..self.ground()].iter().map_while(Term::constant).collect()
    }

    /// Whether it has parameters.
    pub fn is_function(&self) -> bool {
        self.arity() > 0
    }

    pub fn arity(&self) -> usize {
        self.parameters.as_ref().map_or(0, Vec::len)
    }
}

/// Returns the parts of two patterns that are unified with each other; `None` unless both are arrays of one length, or objects
/// with the same keys.
pub fn paired<'t>(left: &'t Term, right: &'t Term) -> Option<Vec<(&'t Term, &'t Term)>> {
    match (&left.value, &right.value) {
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            Some(left.iter().zip(right).collect())
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => same_keys(left, right),
        _ => None,
    }
}

/// Pairs the values of two objects, if their keys are the same constants.
fn same_keys<'t>(left: &'t [(Term, Term)], right: &'t [(Term, Term)]) -> Option<Vec<(&'t Term, &'t Term)>> {
    let pair = |(key, value): &'t (Term, Term)| {
        let key = key.constant()?;
        let other = right.iter().find(|(other, _)| other.constant().as_ref() == Some(&key))?;
        Some((value, &other.1))
    };
    left.iter().map(pair).collect()
}

/// Writes a path below `data` as Rego does.
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
