//! Evaluation of rules with OPA's meaning and within limits: whatever a policy does, it ends as a value or a [`Failure`].
//!
//! regorus raises errors where OPA's value is undefined, e.g. for operands of the wrong type. Writing every expression so
//! that it does not would slow all of them down; so modules run as they are, and only what fails is evaluated once more, by
//! modules in which such expressions are undefined ([`rewrite::without_type_errors`]). An error that remains is one to OPA, too.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context, Result};
use regorus::{
    Engine, LimitError, Value,
    unstable::{Module, Ref, Rule},
};

use super::{
    builtins::budget,
    cpu_time::CpuTimer,
    error::EngineError,
    limits::{self, Limits, Version},
    machine::{self, Answer, Bounds, Halt, RuntimeError, STARVED},
    memory::{self, MemoryMeter},
    program::{Program, RuleId, SourceLocation},
    references::Path,
    rewrite, value,
};

/// The package of the generated rules. Nobody's policy is called that.
pub(crate) const GENERATED: &str = "kaudit_generated";

/// How many elements of an array may take the limits once.
const ELEMENTS: usize = 1_000;
/// How many times the limits the largest array may take.
const MOST_LIMITS: u8 = 12;

/// Modules and data that are prepared for evaluation.
#[derive(Clone)]
pub(crate) struct Evaluator {
    engine: Engine,
    /// CPU time for one evaluation.
    limit: Duration,
    /// See [`Limits::value_bytes`].
    largest: usize,
    fallback: Fallback,
    compiled: Option<Compiled>,
}

/// The rules that run as programs.
#[derive(Clone)]
struct Compiled {
    program: Arc<Program>,
    data: Value,
    bounds: Bounds,
}

/// An engine for what the first one failed on; made when it is first needed, of the first one's modules and data.
struct Fallback {
    /// An engine without modules.
    bare: Engine,
    engine: OnceLock<Option<Engine>>,
}

impl Clone for Fallback {
    /// The clone makes its own engine: it may be given other data.
    fn clone(&self) -> Self {
        Self { bare: self.bare.clone(), engine: OnceLock::new() }
    }
}

impl Fallback {
    fn of(&self, first: &Engine) -> Option<Engine> {
        self.engine.get_or_init(|| self.make(first).ok()).clone()
    }

    fn make(&self, first: &Engine) -> Result<Engine> {
        let mut engine = self.bare.clone();
        engine.clear_data();
        engine.add_data(first.get_data())?;
        for source in first.get_policies()? {
            let (text, version) =
                rewrite::without_type_errors(source.get_contents()).context("a module that was read before")?;
            engine.set_rego_v0(version == Version::V0);
            engine.add_policy(source.get_path().clone(), text)?;
        }
        prepare(&mut engine)?;
        Ok(engine)
    }
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").finish_non_exhaustive()
    }
}

/// Why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// regorus reports an error.
    Error(EngineError),
    /// The engine panicked.
    Panicked,
    /// It took longer than this limit, or got so little of the CPU that it was given up.
    TimedOut(Duration),
    /// The value is larger than so many bytes.
    TooLarge(usize),
    /// It used more memory than so many bytes.
    TooMuch(usize),
    /// The process had no memory left for it, mostly because of others.
    OutOfMemory,
    /// It did not begin, because those before it used up [`Limits::input`].
    OutOfTime,
}

impl Failure {
    /// A failure without a place.
    pub(crate) fn error(reason: String) -> Self {
        Self::Error(EngineError { place: None, reason })
    }

    /// Says why in one line, without the place.
    pub(crate) fn reason(&self, limits: &Limits) -> String {
        match self {
            Self::Error(error) => error.reason.clone(),
            Self::Panicked => "the evaluator failed on this rule".to_owned(),
            Self::TimedOut(limit) => format!("took longer than {} s", limit.as_secs_f64()),
            Self::TooLarge(bytes) => format!("its value takes more than {} MiB", bytes >> 20),
            Self::TooMuch(bytes) => format!("needs more than {} MiB of memory", bytes >> 20),
            Self::OutOfMemory => "not evaluated: the process is at its memory limit".to_owned(),
            Self::OutOfTime => {
                format!("not evaluated: the rules before it took longer than {} s", limits.input.as_secs_f64())
            }
        }
    }
}

impl Evaluator {
    /// Prepares an engine that holds all modules and data; `bare` is the same engine without modules.
    ///
    /// # Errors
    /// Returns regorus' error about the modules: until here it has parsed them one by one, now it analyses them together.
    pub(crate) fn new(mut engine: Engine, bare: Engine, limits: &Limits) -> Result<Self> {
        engine.set_rego_v0(false);
        engine.add_policy(format!("{GENERATED}.rego"), format!("package {GENERATED}\n\nready := true\n"))?;
        prepare(&mut engine)?;
        let fallback = Fallback { bare, engine: OnceLock::new() };
        Ok(Self { engine, limit: limits.evaluation, largest: limits.value_bytes, fallback, compiled: None })
    }

    /// Returns the evaluator with a program, which holds some of its rules.
    pub(crate) fn with_program(self, program: Program, limits: &Limits) -> Self {
        let bounds = Bounds { time: limits.evaluation, stack: limits.stack, strict: limits.strict };
        let compiled = Compiled { program: Arc::new(program), data: self.engine.get_data(), bounds };
        Self { compiled: Some(compiled), ..self }
    }

    /// Returns the evaluator with more data, which must not contradict what it has.
    pub(crate) fn with_data(&self, data: Value) -> Result<Self> {
        let mut engine = self.engine.clone();
        engine.add_data(data)?;
        prepare(&mut engine)?;
        let data = |compiled: &Compiled| Compiled { data: engine.get_data(), ..compiled.clone() };
        let compiled = self.compiled.as_ref().map(data);
        Ok(Self { engine, limit: self.limit, largest: self.largest, fallback: self.fallback.clone(), compiled })
    }

    /// Returns the CPU time that an evaluation may take, and how many bytes its value: of an array, whose elements it judges
    /// together, several times the limits.
    fn bounds(&self, input: &Value) -> (Duration, usize) {
        let more = value::array(input).map_or(0, |elements| elements.len() / ELEMENTS);
        let times = u8::try_from(more + 1).unwrap_or(MOST_LIMITS).min(MOST_LIMITS);
        (self.limit * u32::from(times), self.largest * usize::from(times))
    }

    /// Returns the data that it was given; the values of rules are not among it.
    pub(crate) fn data(&self) -> Value {
        self.engine.get_data()
    }

    /// Returns an engine of its own with all modules and data, for other evaluations than those of whole rules.
    pub(crate) fn engine(&self) -> Engine {
        self.engine.clone()
    }

    /// Runs rules of the program together; what fails may be evaluated by regorus, whose errors have a place.
    pub(crate) fn run_program(
        &self,
        input: &Value,
        rules: impl Iterator<Item = RuleId>,
    ) -> Result<Vec<Answer>, Failure> {
        let Some(Compiled { program, data, bounds }) = &self.compiled else {
            return Err(Failure::error("there is no program".to_owned()));
        };
        budget::renew();
        let (time, largest) = self.bounds(input);
        let bounds = Bounds { time, ..*bounds };
        let run = AssertUnwindSafe(|| machine::evaluate(program, input, data, bounds, rules));
        match catch_unwind(run) {
            Ok(Ok(answers)) if answers.iter().all(|answer| value::fits(&answer.value, largest)) => Ok(answers),
            Ok(Ok(_)) => Err(Failure::TooLarge(largest)),
            Ok(Err(Halt::TimedOut)) => Err(Failure::TimedOut(bounds.time)),
            Ok(Err(Halt::TooMuch)) => Err(Failure::TooMuch(memory::share())),
            Ok(Err(Halt::Failed(error))) => Err(Failure::Error(located(program, error))),
            Err(_) => Err(Failure::Panicked),
        }
    }

    /// Evaluates one definition of the rule at a path, without its other definitions. Returns also the engine that did,
    /// which knows what was printed and, with `coverage`, what was evaluated.
    pub(crate) fn definition(
        &self,
        input: &Value,
        (module, rule): (&Ref<Module>, &Ref<Rule>),
        path: &Path,
        coverage: bool,
    ) -> (Result<Value, Failure>, Engine) {
        self.run(input, |engine| {
            engine.set_enable_coverage(coverage);
            let (module, rule) = same_rule(engine, rule).unwrap_or_else(|| (module.clone(), rule.clone()));
            let data = engine.eval_rule_in_module(&module, &rule, false)?;
            Ok(path.iter().fold(data, |value, key| value[key.as_str()].clone()))
        })
    }

    /// Runs an evaluation, after an error once more without type errors. Returns also the engine that gave the result.
    fn run(&self, input: &Value, evaluate: impl Fn(&mut Engine) -> Result<Value>) -> (Result<Value, Failure>, Engine) {
        let first = self.run_on(&self.engine, input, &evaluate);
        if !matches!(first.0, Err(Failure::Error(_))) {
            return first;
        }
        let Some(fallback) = self.fallback.of(&self.engine) else { return first };
        // All that the first one made goes before the second one begins.
        drop(first);
        self.run_on(&fallback, input, &evaluate)
    }

    /// Runs an evaluation on a copy of an engine, until it ends or has used up its CPU time. regorus looks at the time that
    /// passes: what it stopped although the thread had less than the limit, as others had the CPU, begins anew and is given
    /// more time.
    fn run_on(
        &self,
        engine: &Engine,
        input: &Value,
        evaluate: impl Fn(&mut Engine) -> Result<Value>,
    ) -> (Result<Value, Failure>, Engine) {
        let (first, largest) = self.bounds(input);
        let mut limit = first;
        loop {
            let mut engine = engine.clone();
            engine.set_execution_timer_config(limits::timer(limit));
            engine.set_input(input.clone());
            let timer = CpuTimer::start();
            let result = guarded_to(largest, first, || evaluate(&mut engine));
            if !matches!(result, Err(Failure::TimedOut(_))) {
                return (result, engine);
            }
            let Some(more) = more_time(first, limit, timer.elapsed()) else { return (result, engine) };
            limit = more;
        }
    }
}

/// Returns an error of a program with the names of files.
fn located(program: &Program, error: RuntimeError) -> EngineError {
    let place = |at: SourceLocation| Some((program.files.get(at.module)?.to_string(), at.at.line, at.at.column));
    let reason = match error.other.and_then(place) {
        Some((file, line, _)) => format!("rule conflicts with the rule at {file}:{line}: they give different values"),
        None => error.reason,
    };
    EngineError { place: error.at.and_then(place), reason }
}

/// Returns how much time may pass in the next attempt, after one in which `passed` did and the thread computed for `used` of
/// it; `None` if that was enough.
fn more_time(limit: Duration, passed: Duration, used: Duration) -> Option<Duration> {
    let most = limit * STARVED;
    if used >= limit.mul_f64(0.9) || passed >= most {
        return None;
    }
    // As much as the same share of the CPU takes for the whole limit, and at least twice as much, so that there are few
    // attempts: each begins anew.
    let share = used.as_secs_f64() / passed.as_secs_f64();
    let same_share = Duration::try_from_secs_f64(limit.as_secs_f64() / share).unwrap_or(most);
    Some(same_share.max(passed * 2).min(most))
}

/// Makes the engine analyse all its modules together.
fn prepare(engine: &mut Engine) -> Result<()> {
    let prepared = catch_unwind(AssertUnwindSafe(|| engine.eval_rule(format!("data.{GENERATED}.ready"))));
    prepared.ok().context("the evaluator failed on these modules")?.map(drop)
}

/// Finds a rule among the modules of another engine.
fn same_rule(engine: &mut Engine, rule: &Ref<Rule>) -> Option<(Ref<Module>, Ref<Rule>)> {
    let wanted = rule.span();
    engine.get_modules().iter().find_map(|module| {
        let rule = module.policy.iter().find(|rule| {
            let span = rule.span();
            (span.line, span.col) == (wanted.line, wanted.col) && span.source.get_path() == wanted.source.get_path()
        })?;
        Some((module.clone(), rule.clone()))
    })
}

/// Runs one evaluation with a budget of its own; panics, time limits and values that are too large become failures. After a
/// failure its engine must not be used again.
pub(crate) fn guarded(evaluate: impl FnOnce() -> Result<Value>) -> Result<Value, Failure> {
    let Limits { value_bytes, evaluation: limit, .. } = Limits::default();
    guarded_to(value_bytes, limit, evaluate)
}

fn guarded_to(largest: usize, limit: Duration, evaluate: impl FnOnce() -> Result<Value>) -> Result<Value, Failure> {
    budget::renew();
    let meter = MemoryMeter::start();
    // The engine is dropped with whatever state the panic left in it.
    match catch_unwind(AssertUnwindSafe(evaluate)) {
        Ok(Ok(value)) if !value::fits(&value, largest) => Err(Failure::TooLarge(largest)),
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(limit_failure(&error, limit, meter.used())),
        Err(_) => Err(Failure::Panicked),
    }
}

/// Returns the failure for an error of regorus, after an evaluation that used so many bytes.
fn limit_failure(error: &anyhow::Error, time: Duration, used: usize) -> Failure {
    // Inside functions regorus keeps only the text of an error.
    let is = |matches: fn(&LimitError) -> bool, text: &str| {
        error.downcast_ref().is_some_and(matches) || format!("{error:#}").contains(text)
    };
    if is(|limit| matches!(limit, LimitError::TimeLimitExceeded { .. }), "execution exceeded time limit") {
        return Failure::TimedOut(time);
    }
    if is(|limit| matches!(limit, LimitError::MemoryLimitExceeded { .. }), "execution exceeded memory limit") {
        let most = memory::share();
        return if used > most / 4 { Failure::TooMuch(most) } else { Failure::OutOfMemory };
    }
    Failure::Error(EngineError::new(error))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::rego::engine;

    const LIMIT: Duration = Duration::from_millis(20);

    /// Runs an evaluation that fails for lack of time so often, each time after `spend`; returns the result and the
    /// number of attempts.
    fn attempts(fail: usize, spend: impl Fn(Duration)) -> (Result<Value, Failure>, usize) {
        let limits = Limits { evaluation: LIMIT, ..Limits::default() };
        let evaluator = Evaluator::new(engine::empty(&limits), engine::empty(&limits), &limits).unwrap();
        let made = Cell::new(0);
        let evaluate = |_: &mut Engine| {
            made.set(made.get() + 1);
            if made.get() > fail {
                return Ok(Value::from(true));
            }
            spend(limits.evaluation);
            Err(LimitError::TimeLimitExceeded { elapsed: limits.evaluation, limit: limits.evaluation }.into())
        };
        (evaluator.run(&Value::Undefined, evaluate).0, made.get())
    }

    #[test]
    fn time_in_which_others_have_the_cpu_does_not_count() {
        let (result, made) = attempts(1, std::thread::sleep);
        assert_eq!((result, made), (Ok(Value::from(true)), 2));
        let (result, made) = attempts(usize::MAX, std::thread::sleep);
        assert_eq!(result, Err(Failure::TimedOut(LIMIT)));
        assert!((2..10).contains(&made), "{made} attempts, each with more time");
        // What computes all the time has no second attempt.
        let (result, made) = attempts(usize::MAX, |limit| {
            let timer = CpuTimer::start();
            while timer.elapsed() < limit {
                std::hint::spin_loop();
            }
        });
        assert_eq!((result, made), (Err(Failure::TimedOut(LIMIT)), 1));
    }

    #[test]
    fn the_next_attempt_may_take_as_long_as_its_share_of_the_cpu_says() {
        let seconds = Duration::from_secs_f64;
        let more =
            |passed, used| more_time(seconds(1.0), seconds(passed), seconds(used)).map(|time| time.as_secs_f64());
        assert_eq!(more(1.0, 0.95), None);
        assert_eq!(more(1.0, 0.5), Some(2.0));
        assert_eq!(more(1.0, 0.25), Some(4.0));
        assert_eq!(more(1.0, 0.85), Some(2.0), "what had nearly enough does not begin anew again and again");
        assert_eq!(more(1.0, 0.0), Some(16.0));
        assert_eq!(more(16.0, 0.5), None, "a backstop");
    }
}
