//! Work that loops need not repeat: comprehensions whose value does not change, and elements that cannot match.
//!
//! Values and errors stay the same: a cached value was evaluated at the same place before, and a lookup only moves
//! ahead of a loop if it passes no step that can fail.

use std::collections::BTreeSet;

use crate::program::{
    Block, Collection, FilterKey, Guard, LoopFilter, MemoId, Operand, PlannedRule, Program, ProgramStep, Register,
    Replacement, Substitute,
};

/// Marks the comprehensions of a rule whose values may be cached, and adds filters to its loops. The functions that it
/// calls must be marked first.
pub(super) fn mark(rule: &mut PlannedRule, program: &mut Program) {
    // A function may be called repeatedly.
    let repeated = rule.arity > 0;
    for definition in &mut rule.definitions {
        for branch in &mut definition.branches {
            let mut marker = Marker { program: &mut *program, invariant: BTreeSet::new() };
            *branch = marker.block(std::mem::take(branch), repeated);
        }
    }
    let mut steps = rule.definitions.iter().flat_map(|definition| &definition.branches).flatten();
    rule.cannot_fail = rule.decided_by_first && steps.all(|step| cannot_fail(step, program));
}

struct Marker<'p> {
    program: &'p mut Program,
    /// Registers that keep their value during one evaluation.
    invariant: BTreeSet<Register>,
}

impl Marker<'_> {
    fn block(&mut self, block: Block, repeated: bool) -> Block {
        let mut steps = Vec::with_capacity(block.len());
        for step in block {
            self.step(step, repeated, &mut steps);
        }
        steps.into()
    }

    fn step(&mut self, mut step: ProgramStep, repeated: bool, steps: &mut Vec<ProgramStep>) {
        let is_invariant = uses_only(&step, &|register| self.invariant.contains(&register));
        match &mut step {
            ProgramStep::Each { operand, key, value, block, filter } => {
                if repeated && self.is_invariant(operand) {
                    let (ahead, rest, found) = self.filter([*key, *value], std::mem::take(block));
                    steps.extend(ahead);
                    (*block, *filter) = (rest, found);
                }
                *block = self.block(std::mem::take(block), true);
            }
            ProgramStep::Walk { block, .. } | ProgramStep::Every { block, .. } => {
                *block = self.block(std::mem::take(block), true);
            }
            ProgramStep::Not(block) => *block = self.block(std::mem::take(block), repeated),
            ProgramStep::Comprehension { block, memo, .. } => {
                if is_invariant && repeated {
                    *memo = Some(MemoId(self.program.memos));
                    self.program.memos += 1;
                }
                *block = self.block(std::mem::take(block), repeated && !is_invariant);
            }
            // This includes `with`: values that were cached outside are not valid inside.
            _ => {}
        }
        if is_invariant {
            self.invariant.extend(output(&step));
        }
        steps.push(step);
    }

    fn is_invariant(&self, operand: &Operand) -> bool {
        match operand {
            Operand::Constant(_) => false,
            Operand::Path(_) | Operand::Rule(_) => true,
            Operand::Register(register) => self.invariant.contains(register),
        }
    }

    /// Returns the lookups to run ahead of a loop, the remaining block, and the filter of the loop.
    fn filter(&mut self, loops: [Register; 2], block: Block) -> (Vec<ProgramStep>, Block, Option<LoopFilter>) {
        let mut own = BTreeSet::from(loops);
        let (mut ahead, mut steps, mut rest) = (Vec::new(), Vec::new(), block.into_iter().peekable());
        let mut none_fails = true;
        while let Some(step) = rest.peek().filter(|step| !iterates(step)) {
            let is_own = |register| own.contains(&register);
            let goes_ahead =
                matches!(step, ProgramStep::Get { .. }) && none_fails && !read(step).into_iter().any(is_own);
            if !goes_ahead && !uses_only(step, &|register| is_own(register) || self.invariant.contains(&register)) {
                break;
            }
            if !goes_ahead {
                none_fails &= only_reads(step);
                own.extend(output(step));
            }
            let to = if goes_ahead { &mut ahead } else { &mut steps };
            to.extend(rest.next());
        }
        let is_own = |operand: &Operand| matches!(operand, Operand::Register(register) if own.contains(register));
        let key = match rest.peek() {
            Some(ProgramStep::Equal(left, right)) if is_own(left) && !is_own(right) => Some((left, right)),
            Some(ProgramStep::Equal(left, right)) if is_own(right) && !is_own(left) => Some((right, left)),
            _ => None,
        };
        let key = key.map(|(own, wanted)| FilterKey { own: own.clone(), wanted: wanted.clone() });
        let first = steps.len();
        steps.extend(rest);
        let guards = self.guards(loops, &steps);
        let filter = (key.is_some() || first > 0 || !guards.is_empty()).then(|| {
            self.program.filters += 1;
            LoopFilter { id: self.program.filters - 1, steps: first, key, guards }
        });
        (ahead, steps.into(), filter)
    }

    /// Returns the calls in the block of a loop whose arguments are the same for all elements.
    fn guards(&self, loops: [Register; 2], block: &[ProgramStep]) -> Box<[Guard]> {
        let mut inside = BTreeSet::from(loops);
        let mut guards = Vec::new();
        for step in block {
            match step {
                ProgramStep::Invoke { function, arguments, into }
                    if !read(step).iter().any(|read| inside.contains(read)) =>
                {
                    guards.push(Guard { function: *function, arguments: arguments.clone(), defined: into.is_some() });
                }
                _ => {}
            }
            if !cannot_fail(step, self.program) {
                break;
            }
            inside.extend(output(step));
        }
        guards.into()
    }
}

/// Whether a step only reads values that already exist.
fn only_reads(step: &ProgramStep) -> bool {
    let reads = matches!(
        step,
        ProgramStep::Test(_)
            | ProgramStep::Defined(_)
            | ProgramStep::Get { .. }
            | ProgramStep::Equal(..)
            | ProgramStep::Compare { .. }
            | ProgramStep::Array(..)
            | ProgramStep::Object(..)
    );
    reads && !evaluates_rule(step)
}

/// Whether a step never ends in an error, other than one of a limit or of a builtin.
fn cannot_fail(step: &ProgramStep, program: &Program) -> bool {
    let own = match step {
        ProgramStep::Invoke { function, .. } => program.rules.get(function.0).is_some_and(|rule| rule.cannot_fail),
        ProgramStep::Comprehension { form, .. } => *form != Collection::Object,
        ProgramStep::With { .. } => false,
        _ => true,
    };
    own && !evaluates_rule(step) && inner(step).iter().all(|step| cannot_fail(step, program))
}

fn iterates(step: &ProgramStep) -> bool {
    matches!(step, ProgramStep::Each { .. } | ProgramStep::Walk { .. } | ProgramStep::Yield { .. })
}

/// Whether a step reads only the given registers, or those that it writes itself.
fn uses_only(step: &ProgramStep, known: &dyn Fn(Register) -> bool) -> bool {
    let own = written(step);
    read(step).into_iter().all(|register| known(register) || own.contains(&register))
}

/// Returns the registers that a step reads, including those of its blocks.
fn read(step: &ProgramStep) -> Vec<Register> {
    let registers = operands(step).into_iter().filter_map(|operand| match operand {
        Operand::Register(register) => Some(*register),
        _ => None,
    });
    registers.chain(inner(step).iter().flat_map(read)).collect()
}

/// Whether a step evaluates a rule, which may fail.
fn evaluates_rule(step: &ProgramStep) -> bool {
    operands(step).iter().any(|operand| matches!(operand, Operand::Rule(_)))
}

/// Returns the operands that a step reads outside its blocks.
fn operands(step: &ProgramStep) -> Vec<&Operand> {
    match step {
        ProgramStep::Test(operand)
        | ProgramStep::Defined(operand)
        | ProgramStep::Array(operand, _)
        | ProgramStep::Object(operand, _)
        | ProgramStep::Every { operand, .. }
        | ProgramStep::Each { operand, .. }
        | ProgramStep::Walk { operand, .. } => vec![operand],
        ProgramStep::Get { from, keys, .. } => std::iter::once(from).chain(keys).collect(),
        ProgramStep::Equal(left, right) | ProgramStep::Compare { left, right, .. } => vec![left, right],
        ProgramStep::Call { arguments, .. }
        | ProgramStep::Invoke { arguments, .. }
        | ProgramStep::Note { arguments, .. } => arguments.iter().collect(),
        ProgramStep::MakeArray { items, .. } | ProgramStep::MakeSet { items, .. } => items.iter().collect(),
        ProgramStep::MakeObject { fields, .. } => fields.iter().flat_map(|(key, value)| [key, value]).collect(),
        ProgramStep::Yield { keys, value } => keys.iter().chain([value]).collect(),
        ProgramStep::With { replaced, .. } => replaced.iter().flat_map(replacing).collect(),
        ProgramStep::Comprehension { .. } | ProgramStep::Not(_) | ProgramStep::Reached(_) => Vec::new(),
    }
}

/// Returns the operands that a replacement reads.
fn replacing(replacement: &Replacement) -> Vec<&Operand> {
    match replacement {
        Replacement::Input(keys, value) | Replacement::Data(keys, value) => keys.iter().chain([value]).collect(),
        Replacement::Function(_, Substitute::Value(value) | Substitute::Rule(value)) => vec![value],
        Replacement::Function(_, Substitute::Function(_)) => Vec::new(),
    }
}

/// Returns the registers that a step writes, including those of its blocks.
fn written(step: &ProgramStep) -> Vec<Register> {
    let mut found: Vec<Register> = output(step).into_iter().collect();
    if let ProgramStep::Every { key, value, .. }
    | ProgramStep::Each { key, value, .. }
    | ProgramStep::Walk { path: key, value, .. } = step
    {
        found.extend([*key, *value]);
    }
    found.extend(inner(step).iter().flat_map(written));
    found
}

/// Returns the register that holds the value of a step.
fn output(step: &ProgramStep) -> Option<Register> {
    match step {
        ProgramStep::Get { into, .. }
        | ProgramStep::MakeArray { into, .. }
        | ProgramStep::MakeSet { into, .. }
        | ProgramStep::MakeObject { into, .. }
        | ProgramStep::Comprehension { into, .. } => Some(*into),
        ProgramStep::Compare { into, .. }
        | ProgramStep::Call { into, .. }
        | ProgramStep::Invoke { into, .. }
        | ProgramStep::With { into, .. } => *into,
        _ => None,
    }
}

/// Returns the block of a step.
fn inner(step: &ProgramStep) -> &[ProgramStep] {
    match step {
        ProgramStep::Comprehension { block, .. }
        | ProgramStep::Not(block)
        | ProgramStep::With { block, .. }
        | ProgramStep::Every { block, .. }
        | ProgramStep::Each { block, .. }
        | ProgramStep::Walk { block, .. } => block,
        _ => &[],
    }
}
