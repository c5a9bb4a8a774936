//! Evaluates programs within limits: every evaluation ends with a value or a [`Failure`].

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use regorus::Value;

use super::{
    builtins::budget,
    error::PolicyError,
    limits::Limits,
    machine::{self, Answer, Bounds, Halt, RuntimeError, Trace},
    memory,
    program::{Program, RuleId, SourceLocation},
    references::Path,
    value,
};

/// The number of array elements per unit of the limits.
const ELEMENTS: usize = 1_000;
/// The largest multiple of the limits for one array.
const MOST_LIMITS: u8 = 12;

/// A program with the data on which it is evaluated.
#[derive(Debug, Clone)]
pub struct Evaluator {
    program: Arc<Program>,
    data: Value,
    bounds: Bounds,
    /// See [`Limits::value_bytes`].
    largest: usize,
}

/// Why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// An error of the policy.
    Error(PolicyError),
    /// The machine panicked.
    Panicked,
    /// It took longer than this limit, or was aborted because it got too little CPU time.
    TimedOut(Duration),
    /// The value is larger than this many bytes.
    TooLarge(usize),
    /// It used more memory than this many bytes.
    OutOfMemory(usize),
    /// It was not started, because earlier evaluations of the same input took longer than this limit.
    NotStarted(Duration),
}

impl Failure {
    /// Returns an error without a location.
    pub fn error(reason: String) -> Self {
        Self::Error(PolicyError { place: None, reason })
    }

    /// Returns the reason on one line, without the location.
    pub fn reason(&self) -> String {
        match self {
            Self::Error(error) => error.reason.clone(),
            Self::Panicked => "the evaluator panicked on this rule; please report the policy as a bug".to_owned(),
            Self::TimedOut(limit) => format!("took longer than {} s", limit.as_secs_f64()),
            Self::TooLarge(bytes) => format!("its value is larger than {} MiB", bytes >> 20),
            Self::OutOfMemory(bytes) => format!("needs more than {} MiB of memory", bytes >> 20),
            Self::NotStarted(limit) => {
                format!("not evaluated: the rules before it took longer than {} s", limit.as_secs_f64())
            }
        }
    }
}

/// Formats as `file:line:column: reason`, or only the reason if there is no location.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Error(PolicyError { place: Some((file, line, column)), .. }) = self {
            write!(f, "{file}:{line}:{column}: ")?;
        }
        f.write_str(&self.reason())
    }
}

impl std::error::Error for Failure {}

impl Evaluator {
    /// Returns an evaluator of a program on data.
    pub fn new(program: Program, data: Value, limits: &Limits) -> Self {
        let bounds = Bounds { time: limits.evaluation, stack: limits.stack, strict: limits.strict };
        Self { program: Arc::new(program), data, bounds, largest: limits.value_bytes }
    }

    /// Returns an evaluator of another program on the same data.
    pub(crate) fn with_program(&self, program: Program) -> Self {
        Self { program: Arc::new(program), ..self.clone() }
    }

    /// Returns the evaluator with `documents` added to its data, replacing existing ones.
    #[must_use]
    pub fn with_data(&self, documents: impl IntoIterator<Item = (Value, Value)>) -> Self {
        let mut data = self.data.clone();
        if let Value::Object(fields) = &mut data {
            regorus::Rc::make_mut(fields).extend(documents);
        }
        Self { data, ..self.clone() }
    }

    /// Returns the data, without the values of rules.
    pub fn data(&self) -> &Value {
        &self.data
    }

    /// Returns the planned rule at a path.
    pub fn rule(&self, path: &Path) -> Option<RuleId> {
        self.program.entries.get(path)?.as_ref().ok().copied()
    }

    /// Evaluates a single rule at a path; `Undefined` if it has no value.
    ///
    /// # Errors
    /// Returns an error of the policy, an exceeded limit, or that no rule was prepared for this path.
    pub fn value(&self, path: &Path, input: &Value) -> Result<Value, Failure> {
        let unknown = || Failure::error(format!("data.{} was not prepared", path.join(".")));
        let rule = self.rule(path).ok_or_else(unknown)?;
        let answers = self.run(input, std::iter::once(rule))?;
        Ok(answers.into_iter().next().map_or(Value::Undefined, |answer| answer.value))
    }

    /// Evaluates rules of the program together.
    pub fn run(&self, input: &Value, rules: impl Iterator<Item = RuleId>) -> Result<Vec<Answer>, Failure> {
        self.run_noting(input, rules).0
    }

    /// Evaluates one rule of the program; also returns the trace, up to the error if there is one.
    pub fn run_traced(&self, input: &Value, rule: RuleId) -> (Result<Answer, Failure>, Trace) {
        let (answers, trace) = self.run_noting(input, std::iter::once(rule));
        (answers.and_then(|answers| answers.into_iter().next().ok_or(Failure::Panicked)), trace)
    }

    fn run_noting(&self, input: &Value, rules: impl Iterator<Item = RuleId>) -> (Result<Vec<Answer>, Failure>, Trace) {
        budget::renew();
        let (time, largest) = self.limits_of(input);
        let bounds = Bounds { time, ..self.bounds };
        let run = AssertUnwindSafe(|| machine::evaluate(&self.program, (input, &self.data), bounds, rules));
        let Ok((answers, trace)) = catch_unwind(run) else { return (Err(Failure::Panicked), Trace::default()) };
        let answers = match answers {
            Ok(answers) if answers.iter().all(|answer| value::fits(&answer.value, largest)) => Ok(answers),
            Ok(_) => Err(Failure::TooLarge(largest)),
            Err(Halt::TimedOut) => Err(Failure::TimedOut(time)),
            Err(Halt::OutOfMemory) => Err(Failure::OutOfMemory(memory::share())),
            Err(Halt::Failed(error)) => Err(Failure::Error(located(&self.program, error))),
        };
        (answers, trace)
    }

    /// Returns the limits of CPU time and value size for an input: several times the limits for an array, whose
    /// elements are evaluated together.
    fn limits_of(&self, input: &Value) -> (Duration, usize) {
        let more = value::array(input).map_or(0, |elements| elements.len() / ELEMENTS);
        let times = u8::try_from(more + 1).unwrap_or(MOST_LIMITS).min(MOST_LIMITS);
        (self.bounds.time * u32::from(times), self.largest * usize::from(times))
    }
}

/// Resolves the locations of an error to file names.
fn located(program: &Program, error: RuntimeError) -> PolicyError {
    let place = |at: SourceLocation| Some((program.files.get(at.module)?.to_string(), at.at.line, at.at.column));
    let reason = match error.other.and_then(place) {
        Some((file, line, _)) => format!("rule conflicts with the rule at {file}:{line}: they have different values"),
        None => error.reason,
    };
    PolicyError { place: error.at.and_then(place), reason }
}
