//! What loops need not do again each time: comprehensions that depend on nothing that changes, and first steps of inner loops.
//!
//! Steps and values are the same with and without it, and so are errors: what is remembered was evaluated at the same place
//! before, and only lookups, which cannot fail, go ahead of a loop.

use std::collections::BTreeSet;

use crate::rego::program::{Block, Filter, FilterKey, MemoId, Operand, Program, Register, Rule, Step};

/// Marks what a rule may remember.
pub(super) fn mark(rule: &mut Rule, program: &mut Program) {
    // A function is called again and again.
    let repeated = rule.arity > 0;
    for definition in &mut rule.definitions {
        for branch in &mut definition.branches {
            let block = std::mem::take(branch);
            let mut marker = Marker { program: &mut *program, same: BTreeSet::new() };
            *branch = marker.block(block, repeated);
        }
    }
}

struct Marker<'p> {
    program: &'p mut Program,
    /// Registers that have the same value all through an evaluation.
    same: BTreeSet<Register>,
}

impl Marker<'_> {
    fn block(&mut self, block: Block, repeated: bool) -> Block {
        let mut steps = Vec::with_capacity(block.len());
        for step in block {
            self.step(step, repeated, &mut steps);
        }
        steps.into()
    }

    fn step(&mut self, mut step: Step, repeated: bool, steps: &mut Vec<Step>) {
        let is_same = uses_only(&step, &|register| self.same.contains(&register));
        match &mut step {
            Step::Each { of, key, value, block, filter } => {
                if repeated && self.is_same(of) {
                    let (ahead, rest, found) = self.filter((*key, *value), std::mem::take(block));
                    steps.extend(ahead);
                    (*block, *filter) = (rest, found);
                }
                *block = self.block(std::mem::take(block), true);
            }
            Step::Walk { block, .. } | Step::Every { block, .. } => {
                *block = self.block(std::mem::take(block), true);
            }
            Step::Not(block) => *block = self.block(std::mem::take(block), repeated),
            Step::Comprehension { block, memo, .. } => {
                if is_same && repeated {
                    *memo = Some(MemoId(self.program.memos));
                    self.program.memos += 1;
                }
                *block = self.block(std::mem::take(block), repeated && !is_same);
            }
            _ => {}
        }
        if is_same {
            self.same.extend(output(&step));
        }
        steps.push(step);
    }

    fn is_same(&self, of: &Operand) -> bool {
        match of {
            Operand::Constant(_) => false,
            Operand::Path(_) | Operand::Rule(_) => true,
            Operand::Register(register) => self.same.contains(register),
        }
    }

    /// Returns lookups that go ahead of a loop, what is left of its block, and its filter.
    fn filter(&mut self, (key, value): (Register, Register), block: Block) -> (Vec<Step>, Block, Option<Filter>) {
        let mut own = BTreeSet::from([key, value]);
        let (mut ahead, mut steps, mut rest) = (Vec::new(), Vec::new(), block.into_iter().peekable());
        let mut cannot_fail = true;
        while let Some(step) = rest.peek() {
            if matches!(step, Step::Each { .. } | Step::Walk { .. } | Step::Yield { .. }) {
                break;
            }
            let is_own = |register| own.contains(&register);
            let goes_ahead = matches!(step, Step::Get { .. }) && cannot_fail && !uses_any(step, &is_own);
            if !goes_ahead && !uses_only(step, &|register| is_own(register) || self.same.contains(&register)) {
                break;
            }
            if !goes_ahead {
                cannot_fail &= !matches!(
                    step,
                    Step::Call { .. }
                        | Step::Invoke { .. }
                        | Step::Comprehension { .. }
                        | Step::Not(_)
                        | Step::Every { .. }
                );
                own.extend(output(step));
            }
            let to = if goes_ahead { &mut ahead } else { &mut steps };
            to.extend(rest.next());
        }
        let is_own = |of: &Operand| matches!(of, Operand::Register(register) if own.contains(register));
        let key = match rest.peek() {
            Some(Step::Equal(left, right)) if is_own(left) && !is_own(right) => Some((left, right)),
            Some(Step::Equal(left, right)) if is_own(right) && !is_own(left) => Some((right, left)),
            _ => None,
        };
        let key = key.map(|(own, wanted)| FilterKey { own: own.clone(), wanted: wanted.clone() });
        let filter = (key.is_some() || !steps.is_empty()).then(|| {
            self.program.filters += 1;
            Filter { id: self.program.filters - 1, steps: steps.len(), key }
        });
        steps.extend(rest);
        (ahead, steps.into(), filter)
    }
}

/// Whether all registers that a step reads are of these, or its own.
fn uses_only(step: &Step, known: &dyn Fn(Register) -> bool) -> bool {
    let own = written(step);
    read(step).into_iter().all(|register| known(register) || own.contains(&register))
}

fn uses_any(step: &Step, known: &dyn Fn(Register) -> bool) -> bool {
    read(step).into_iter().any(known)
}

/// Returns the registers that a step reads, those of its blocks included.
fn read(step: &Step) -> Vec<Register> {
    let mut operands: Vec<&Operand> = Vec::new();
    let mut found = Vec::new();
    match step {
        Step::Test(of) | Step::Defined(of) | Step::Array(of, _) | Step::Object(of, _) => operands.push(of),
        Step::Get { from, keys, .. } => operands.extend(std::iter::once(from).chain(keys)),
        Step::Equal(left, right) | Step::Compare { left, right, .. } => operands.extend([left, right]),
        Step::Call { arguments, .. } | Step::Invoke { arguments, .. } => operands.extend(arguments),
        Step::MakeArray { items, .. } | Step::MakeSet { items, .. } => operands.extend(items),
        Step::MakeObject { fields, .. } => operands.extend(fields.iter().flat_map(|(key, value)| [key, value])),
        Step::Every { of, .. } | Step::Each { of, .. } | Step::Walk { of, .. } => operands.push(of),
        Step::Yield { key, value } => operands.extend(key.iter().chain([value])),
        Step::Comprehension { .. } | Step::Not(_) => {}
    }
    found.extend(operands.into_iter().filter_map(|operand| match operand {
        Operand::Register(register) => Some(*register),
        _ => None,
    }));
    found.extend(inner(step).iter().flat_map(read));
    found
}

/// Returns the registers that a step writes, those of its blocks included.
fn written(step: &Step) -> Vec<Register> {
    let mut found: Vec<Register> = output(step).into_iter().collect();
    if let Step::Every { key, value, .. } | Step::Each { key, value, .. } | Step::Walk { path: key, value, .. } = step {
        found.extend([*key, *value]);
    }
    found.extend(inner(step).iter().flat_map(written));
    found
}

/// Returns the register that a step leaves its value in.
fn output(step: &Step) -> Option<Register> {
    match step {
        Step::Get { into, .. }
        | Step::MakeArray { into, .. }
        | Step::MakeSet { into, .. }
        | Step::MakeObject { into, .. }
        | Step::Comprehension { into, .. } => Some(*into),
        Step::Compare { into, .. } | Step::Call { into, .. } | Step::Invoke { into, .. } => *into,
        _ => None,
    }
}

/// Returns the block of a step.
fn inner(step: &Step) -> &[Step] {
    match step {
        Step::Comprehension { block, .. }
        | Step::Not(block)
        | Step::Every { block, .. }
        | Step::Each { block, .. }
        | Step::Walk { block, .. } => block,
        _ => &[],
    }
}
