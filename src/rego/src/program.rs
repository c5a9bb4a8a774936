//! Programs: rules as the [machine](super::machine) runs them, made by the [planner](super::compile::plan).
//!
//! A body is a [`Block`]: steps that each hold or end it. A step that iterates comes last and has the rest of the body as a
//! block of its own, so that backtracking is a loop in a loop. What is found at the end is yielded: to a rule, a comprehension,
//! or a condition, for which it only counts that there is something. Variables are registers, written by one step each; what has the same
//! value all through an evaluation (a constant, a path below `input` or `data`, a rule without parameters) is read in place.

use std::{collections::BTreeMap, fmt, sync::Arc};

use regorus::Value;

use super::{builtins::Callee, file::File, order, problem::Problem, references::Path, syntax::Position};

/// Rules that need nothing else than each other, `input` and `data`.
#[derive(Debug, Default)]
pub struct Program {
    /// The names of the modules.
    pub(crate) files: Vec<Arc<str>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) paths: Vec<PathNode>,
    /// What can be asked for, by its keys below `data`: each rule, or why it is none of the program's.
    pub entries: BTreeMap<Path, Result<RuleId, NotTaken>>,
    /// How many comprehensions are made once an evaluation.
    pub(crate) memos: usize,
    /// How many loops have a filter.
    pub(crate) filters: usize,
}

impl Program {
    /// Names the files of the modules, in their order, for the places of errors.
    #[must_use]
    pub fn with_files(self, files: Vec<Arc<str>>) -> Self {
        Self { files, ..self }
    }

    /// Returns the rules that cannot be evaluated, as problems of the files of the modules.
    pub fn unsupported(&self, files: &[&File]) -> Vec<Problem> {
        let problem = |NotTaken { reason, at: SourceLocation { module, at } }: &NotTaken| {
            let file = files.get(*module)?;
            let message = format!("{reason} is not supported");
            Some(Problem::refused(&file.shown, message).at(&file.text, at.line, at.column))
        };
        let mut all: Vec<&NotTaken> = self.entries.values().filter_map(|entry| entry.as_ref().err()).collect();
        all.sort_by_key(|unsupported| unsupported.at);
        all.dedup();
        all.into_iter().filter_map(problem).collect()
    }
}

/// A place in one of the modules that a program is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    /// Index of the module.
    pub module: usize,
    /// Where in the module.
    pub at: Position,
}

/// Why a rule cannot be a part of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTaken {
    /// What is not supported, as the subject of a sentence.
    pub reason: String,
    /// Where it is written.
    pub at: SourceLocation,
}

/// Index of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub(crate) usize);

/// Index of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathId(pub(crate) usize);

/// Index of a register in the frame of a rule.
pub(crate) type Register = usize;

/// Index of a comprehension that is made once an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoId(pub(crate) usize);

/// Which elements a loop has to look at that runs again and again over one collection.
#[derive(Debug)]
pub(crate) struct Filter {
    /// Index of the filter.
    pub(crate) id: usize,
    /// How many of the first steps of the block depend on the element alone: where they do not hold once, they never do.
    pub(crate) steps: usize,
    /// What follows them: that something of the element equals what the loop stands in.
    pub(crate) key: Option<FilterKey>,
    /// Calls of functions in the block that do not depend on the element: where one does not hold, the block never yields.
    pub(crate) guards: Box<[Guard]>,
}

/// A call of a function as a condition.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) function: RuleId,
    pub(crate) arguments: Box<[Operand]>,
    /// Whether it only has to be defined.
    pub(crate) defined: bool,
}

/// Two values that have to be equal.
#[derive(Debug)]
pub(crate) struct FilterKey {
    /// Of the element.
    pub(crate) own: Operand,
    /// Known before the loop begins.
    pub(crate) wanted: Operand,
}

/// A document, or what is at a key of another path: each is looked up once an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PathNode {
    Input,
    Data,
    Below(PathId, Value),
    /// The same for a number as the key of an object in `data`, where OPA takes it for the text.
    BelowData(PathId, Value),
}

/// All definitions of one path.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) form: Form,
    /// Where it is, below `data`; `None` for a part of another rule.
    pub(crate) path: Option<Box<[Value]>>,
    /// How many registers its definitions need; the first ones are its arguments.
    pub(crate) registers: usize,
    pub(crate) arity: usize,
    /// The value where no definition has one: a constant, or a rule that gives it.
    pub(crate) default: Option<Operand>,
    /// Where the default is written, for coverage.
    pub(crate) default_at: Option<SourceLocation>,
    pub(crate) definitions: Box<[Definition]>,
    /// Whether all definitions give one and the same value, so that the first one that holds decides.
    pub(crate) decided_by_first: bool,
    /// Whether its evaluation never ends in an error, unless one of a limit or of a builtin.
    pub(crate) cannot_fail: bool,
}

impl Rule {
    /// Makes one without definitions.
    pub(crate) fn new(form: Form, path: Option<Box<[Value]>>, arity: usize) -> Self {
        Self {
            form,
            path,
            registers: arity,
            arity,
            default: None,
            default_at: None,
            definitions: Box::default(),
            decided_by_first: false,
            cannot_fail: false,
        }
    }
}

/// What a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One value; also a function's.
    Complete,
    Set,
    Object,
    /// All that is below the path: entries at any depth, the rules there, and what is given as data.
    Document,
}

/// A definition, with what follows each `else`: the first of them that holds decides.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) branches: Box<[Block]>,
    /// Where it is written; `None` for what no module defines.
    pub(crate) at: Option<SourceLocation>,
    /// Of a document: whether it gives elements of sets.
    pub(crate) gives_elements: bool,
}

impl Definition {
    /// Gives the value of another rule, at these keys of a document.
    pub(crate) fn of_rule(keys: impl IntoIterator<Item = Value>, rule: RuleId) -> Self {
        let keys = keys.into_iter().map(Operand::Constant).collect();
        let step = Step::Yield { keys, value: Operand::Rule(rule) };
        Self { branches: Box::new([Box::new([step])]), at: None, gives_elements: false }
    }
}

/// Steps that hold one after the other, or not.
pub(crate) type Block = Box<[Step]>;

/// Where a value is.
#[derive(Clone, PartialEq)]
pub(crate) enum Operand {
    Constant(Value),
    Register(Register),
    Path(PathId),
    Rule(RuleId),
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(value) => write!(f, "{value}"),
            Self::Register(register) => write!(f, "r{register}"),
            Self::Path(PathId(path)) => write!(f, "path{path}"),
            Self::Rule(RuleId(rule)) => write!(f, "rule{rule}"),
        }
    }
}

/// One step of a body. What reads a value that is undefined does not hold.
#[derive(Debug)]
pub(crate) enum Step {
    /// Holds for what is neither undefined nor false.
    Test(Operand),
    /// Holds for what is not undefined.
    Defined(Operand),
    /// `from[key][key]…`
    Get {
        into: Register,
        from: Operand,
        keys: Box<[Operand]>,
    },
    Equal(Operand, Operand),
    /// A comparison as a condition, or its value.
    Compare {
        by: Comparison,
        left: Operand,
        right: Operand,
        into: Option<Register>,
    },
    /// Holds for an array of this length.
    Array(Operand, usize),
    /// Holds for an object with as many fields.
    Object(Operand, usize),
    /// A builtin; without a register it holds for what is not false.
    Call {
        callee: Callee,
        arguments: Box<[Operand]>,
        into: Option<Register>,
        at: SourceLocation,
    },
    /// A function, likewise.
    Invoke {
        function: RuleId,
        arguments: Box<[Operand]>,
        into: Option<Register>,
    },
    MakeArray {
        into: Register,
        items: Box<[Operand]>,
    },
    MakeSet {
        into: Register,
        items: Box<[Operand]>,
    },
    MakeObject {
        into: Register,
        fields: Box<[(Operand, Operand)]>,
    },
    /// Whatever the block yields becomes one value.
    Comprehension {
        into: Register,
        form: Collection,
        block: Block,
        at: SourceLocation,
        /// For one that depends on nothing that changes.
        memo: Option<MemoId>,
    },
    /// Holds if the block yields nothing.
    Not(Block),
    /// Holds if the block yields something for each element.
    Every {
        of: Operand,
        key: Register,
        value: Register,
        block: Block,
    },
    /// Runs the block for each element.
    Each {
        of: Operand,
        key: Register,
        value: Register,
        block: Block,
        filter: Option<Filter>,
    },
    /// Runs the block for each value in a value, with the path to it.
    Walk {
        of: Operand,
        path: Register,
        value: Register,
        block: Block,
    },
    /// Evaluates the block with other documents and functions. What it yields becomes an array; without a register it only has
    /// to yield something.
    With {
        replaced: Box<[Replacement]>,
        block: Block,
        into: Option<Register>,
    },
    /// Notes the values of collections: those that are printed, or those at a point of a trace.
    Note {
        point: Option<usize>,
        arguments: Box<[Operand]>,
    },
    /// Notes that a place was evaluated.
    Reached(SourceLocation),
    /// The end of a body. An object has one key, a document the path of the entry.
    Yield {
        keys: Box<[Operand]>,
        value: Operand,
    },
}

/// What `with` replaces, and by what.
#[derive(Debug)]
pub(crate) enum Replacement {
    /// What is at these keys of the input.
    Input(Box<[Operand]>, Operand),
    /// What is at these keys of `data`, rules included.
    Data(Box<[Operand]>, Operand),
    Function(Callable, Substitute),
}

/// What can be called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Callable {
    Rule(RuleId),
    Builtin(Callee),
}

/// What takes the place of a function.
#[derive(Debug, Clone)]
pub(crate) enum Substitute {
    Function(Callable),
    /// The value of each call.
    Value(Operand),
}

/// What a comprehension makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collection {
    Array,
    Set,
    Object,
}

/// `!=` and the comparisons by order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the comparison that a builtin is.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "equal" | "eq" => Self::Equal,
            "neq" => Self::NotEqual,
            "lt" => Self::Less,
            "lte" => Self::LessOrEqual,
            "gt" => Self::Greater,
            "gte" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Whether it holds.
    pub(crate) fn holds(self, left: &Value, right: &Value) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => order::compare(left, right).is_lt(),
            Self::LessOrEqual => order::compare(left, right).is_le(),
            Self::Greater => order::compare(left, right).is_gt(),
            Self::GreaterOrEqual => order::compare(left, right).is_ge(),
        }
    }
}
