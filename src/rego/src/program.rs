//! Programs: rules in the form that the [machine](super::machine) runs, built by the [planner](super::compile::plan).
//!
//! A body is a [`Block`]: a sequence of steps that ends at the first one that does not hold. A step that iterates comes
//! last and has the rest of the body as a block of its own, so that backtracking becomes nested loops. The last step
//! yields a result: to a rule, to a comprehension, or to a condition, which only requires that there is one. Variables
//! are registers, each written by one step; values that do not change during an evaluation (constants, paths below
//! `input` or `data`, rules without parameters) are read in place.

use std::{collections::BTreeMap, fmt, sync::Arc};

use regorus::Value;

use super::{builtins::Callee, file::File, order, problem::Problem, references::Path, syntax::Position};

/// A self-contained set of rules that depend only on each other, `input` and `data`.
#[derive(Debug, Default)]
pub struct Program {
    /// The names of the modules.
    pub(crate) files: Vec<Arc<str>>,
    pub(crate) rules: Vec<PlannedRule>,
    pub(crate) paths: Vec<PathNode>,
    /// The planned rules by their paths below `data`, or why they are unsupported.
    pub entries: BTreeMap<Path, Result<RuleId, UnsupportedFeature>>,
    /// The number of comprehensions that are computed once per evaluation.
    pub(crate) memos: usize,
    /// The number of loops that have a filter.
    pub(crate) filters: usize,
}

impl Program {
    /// Sets the file names of the modules, in their order, for the locations of errors.
    #[must_use]
    pub fn with_files(self, files: Vec<Arc<str>>) -> Self {
        Self { files, ..self }
    }

    /// Returns the unsupported rules as problems of the files of the modules.
    pub fn unsupported(&self, files: &[&File]) -> Vec<Problem> {
        let problem = |UnsupportedFeature { reason, at: SourceLocation { module, at } }: &UnsupportedFeature| {
            let file = files.get(*module)?;
            let message = format!("{reason} is not supported");
            Some(Problem::refused(&file.shown, message).at(&file.text, at.line, at.column))
        };
        let mut all: Vec<&UnsupportedFeature> =
            self.entries.values().filter_map(|entry| entry.as_ref().err()).collect();
        all.sort_by_key(|unsupported| unsupported.at);
        all.dedup();
        all.into_iter().filter_map(problem).collect()
    }
}

/// A location in one of the modules of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    /// Index of the module.
    pub module: usize,
    /// The position in the module.
    pub at: Position,
}

/// Why a rule cannot be part of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedFeature {
    /// The unsupported feature, as the subject of a sentence.
    pub reason: String,
    /// Where it is used.
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

/// Index of a comprehension that is computed once per evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoId(pub(crate) usize);

/// Selects the elements that a loop visits when it runs repeatedly over one collection.
#[derive(Debug)]
pub(crate) struct LoopFilter {
    /// Index of the filter.
    pub(crate) id: usize,
    /// The number of leading steps in the block that depend only on the element: if they fail once, they always do.
    pub(crate) steps: usize,
    /// The condition after them: a value of the element equals one from outside the loop.
    pub(crate) key: Option<FilterKey>,
    /// Function calls in the block that do not depend on the element: if one does not hold, the block never yields.
    pub(crate) guards: Box<[Guard]>,
}

/// A function call as a condition.
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
    /// The value of the element.
    pub(crate) own: Operand,
    /// The value known before the loop starts.
    pub(crate) wanted: Operand,
}

/// A document, or the value at a key of another path; each is looked up once per evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PathNode {
    Input,
    Data,
    Below(PathId, Value),
    /// As `Below`, for a number as the key of an object in `data`, which OPA treats as a string.
    BelowData(PathId, Value),
}

/// All definitions of one path.
#[derive(Debug)]
pub(crate) struct PlannedRule {
    pub(crate) form: RuleForm,
    /// Its path below `data`; `None` for a part of another rule.
    pub(crate) path: Option<Box<[Value]>>,
    /// The number of registers of its definitions; the first ones hold the arguments.
    pub(crate) registers: usize,
    pub(crate) arity: usize,
    /// The value if no definition has one: a constant, or a rule that returns it.
    pub(crate) default: Option<Operand>,
    /// Where the default is written, for coverage.
    pub(crate) default_at: Option<SourceLocation>,
    pub(crate) definitions: Box<[PlannedDefinition]>,
    /// Whether all definitions have the same value, so that the first one that holds decides.
    pub(crate) decided_by_first: bool,
    /// Whether its evaluation never ends in an error, other than one of a limit or of a builtin.
    pub(crate) cannot_fail: bool,
}

impl PlannedRule {
    /// Returns a rule without definitions.
    pub(crate) fn new(form: RuleForm, path: Option<Box<[Value]>>, arity: usize) -> Self {
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

/// The kind of value of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleForm {
    /// A single value; also that of a function.
    Complete,
    Set,
    Object,
    /// Everything below the path: entries at any depth, the rules there, and data.
    Document,
}

/// A definition with its `else` branches: the first branch that holds decides.
#[derive(Debug)]
pub(crate) struct PlannedDefinition {
    pub(crate) branches: Box<[Block]>,
    /// Where it is written; `None` if it is generated.
    pub(crate) at: Option<SourceLocation>,
    /// For a document: whether it yields elements of sets.
    pub(crate) gives_elements: bool,
}

impl PlannedDefinition {
    /// Returns a definition that yields the value of another rule, at these keys of a document.
    pub(crate) fn of_rule(keys: impl IntoIterator<Item = Value>, rule: RuleId) -> Self {
        let keys = keys.into_iter().map(Operand::Constant).collect();
        let step = ProgramStep::Yield { keys, value: Operand::Rule(rule) };
        Self { branches: Box::new([Box::new([step])]), at: None, gives_elements: false }
    }
}

/// Steps in order; the block ends at the first one that does not hold.
pub(crate) type Block = Box<[ProgramStep]>;

/// The source of a value.
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

/// One step of a body. A step that reads an undefined value does not hold.
#[derive(Debug)]
pub(crate) enum ProgramStep {
    /// Holds if the value is neither undefined nor false.
    Test(Operand),
    /// Holds if the value is not undefined.
    Defined(Operand),
    /// Reads `from[key][key]…`.
    Get {
        into: Register,
        from: Operand,
        keys: Box<[Operand]>,
    },
    Equal(Operand, Operand),
    /// A comparison as a condition, or its boolean value.
    Compare {
        by: ComparisonOperator,
        left: Operand,
        right: Operand,
        into: Option<Register>,
    },
    /// Holds for an array of this length.
    Array(Operand, usize),
    /// Holds for an object with this number of fields.
    Object(Operand, usize),
    /// Calls a builtin; without a register it holds if the result is not false.
    Call {
        callee: Callee,
        arguments: Box<[Operand]>,
        into: Option<Register>,
        at: SourceLocation,
    },
    /// Calls a function, likewise.
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
    /// Collects everything that the block yields into one value.
    Comprehension {
        into: Register,
        form: Collection,
        block: Block,
        at: SourceLocation,
        /// The index of its cached value, if it depends on nothing that changes.
        memo: Option<MemoId>,
    },
    /// Holds if the block yields nothing.
    Not(Block),
    /// Holds if the block yields something for each element.
    Every {
        operand: Operand,
        key: Register,
        value: Register,
        block: Block,
    },
    /// Runs the block for each element.
    Each {
        operand: Operand,
        key: Register,
        value: Register,
        block: Block,
        filter: Option<LoopFilter>,
    },
    /// Runs the block for each nested value, with its path.
    Walk {
        operand: Operand,
        path: Register,
        value: Register,
        block: Block,
    },
    /// Evaluates the block with replaced documents and functions. Its results become an array; without a register it
    /// only has to yield something.
    With {
        replaced: Box<[Replacement]>,
        block: Block,
        into: Option<Register>,
    },
    /// Records the values of collections: those of a `print`, or those at a point of a trace.
    Note {
        point: Option<usize>,
        arguments: Box<[Operand]>,
    },
    /// Records that a location was evaluated.
    Reached(SourceLocation),
    /// Ends a body with a result. An object has one key, a document the path of the entry.
    Yield {
        keys: Box<[Operand]>,
        value: Operand,
    },
}

/// A replacement by `with`.
#[derive(Debug)]
pub(crate) enum Replacement {
    /// The value at these keys of the input.
    Input(Box<[Operand]>, Operand),
    /// The value at these keys of `data`, including rules.
    Data(Box<[Operand]>, Operand),
    Function(Callable, Substitute),
}

/// A function or builtin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Callable {
    Rule(RuleId),
    Builtin(Callee),
}

/// The replacement of a function.
#[derive(Debug, Clone)]
pub(crate) enum Substitute {
    Function(Callable),
    /// The value of each call.
    Value(Operand),
    /// An array with the value of a rule, empty if the rule is undefined. As in OPA, a call as a condition then always
    /// holds.
    Rule(Operand),
}

/// The kind of collection that a comprehension builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collection {
    Array,
    Set,
    Object,
}

/// Equality, inequality, and the comparisons by order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl ComparisonOperator {
    /// Returns the comparison for a builtin.
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
