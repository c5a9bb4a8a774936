//! Work that loops need not repeat: comprehensions whose value does not change, and elements that cannot match.
//!
//! Values and errors stay the same: a remembered value was evaluated at the same place before, and a lookup only moves
//! ahead of a loop if it passes no step that can fail.

use std::collections::BTreeSet;

use crate::program::{
    Block, Collection, Filter, FilterKey, Guard, MemoId, Operand, Program, Register, Replacement, Rule, Step,
    Substitute,
};

/// Marks what a rule may remember. The functions that it calls must be marked before.
pub(super) fn mark(rule: &mut Rule, program: &mut Program) {
    // A function may be called repeatedly.
    let repeated = rule.arity > 0;
    for definition in &mut rule.definitions {
        for branch in &mut definition.branches {
            let mut marker = Marker { program: &mut *program, same: BTreeSet::new() };
            *branch = marker.block(std::mem::take(branch), repeated);
        }
    }
    let mut steps = rule.definitions.iter().flat_map(|definition| &definition.branches).flatten();
    rule.cannot_fail = rule.decided_by_first && steps.all(|step| cannot_fail(step, program));
}

struct Marker<'p> {
    program: &'p mut Program,
    /// Registers that keep their value during one evaluation.
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
                    let (ahead, rest, found) = self.filter([*key, *value], std::mem::take(block));
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
            // Includes `with`: nothing remembered outside is valid inside.
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

    /// Returns the lookups to run ahead of a loop, the remaining block, and the filter of the loop.
    fn filter(&mut self, loops: [Register; 2], block: Block) -> (Vec<Step>, Block, Option<Filter>) {
        let mut own = BTreeSet::from(loops);
        let (mut ahead, mut steps, mut rest) = (Vec::new(), Vec::new(), block.into_iter().peekable());
        let mut none_fails = true;
        while let Some(step) = rest.peek().filter(|step| !iterates(step)) {
            let is_own = |register| own.contains(&register);
            let goes_ahead = matches!(step, Step::Get { .. }) && none_fails && !read(step).into_iter().any(is_own);
            if !goes_ahead && !uses_only(step, &|register| is_own(register) || self.same.contains(&register)) {
                break;
            }
            if !goes_ahead {
                none_fails &= only_looks(step);
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
        let first = steps.len();
        steps.extend(rest);
        let guards = self.guards(loops, &steps);
        let filter = (key.is_some() || first > 0 || !guards.is_empty()).then(|| {
            self.program.filters += 1;
            Filter { id: self.program.filters - 1, steps: first, key, guards }
        });
        (ahead, steps.into(), filter)
    }

    /// Returns the calls in the block of a loop whose arguments are the same for all elements.
    fn guards(&self, loops: [Register; 2], block: &[Step]) -> Box<[Guard]> {
        let mut inside = BTreeSet::from(loops);
        let mut guards = Vec::new();
        for step in block {
            match step {
                Step::Invoke { function, arguments, into } if !read(step).iter().any(|read| inside.contains(read)) => {
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
fn only_looks(step: &Step) -> bool {
    let looks = matches!(
        step,
        Step::Test(_)
            | Step::Defined(_)
            | Step::Get { .. }
            | Step::Equal(..)
            | Step::Compare { .. }
            | Step::Array(..)
            | Step::Object(..)
    );
    looks && !evaluates_rule(step)
}

/// Whether a step never ends in an error, other than one of a limit or of a builtin.
fn cannot_fail(step: &Step, program: &Program) -> bool {
    let own = match step {
        Step::Invoke { function, .. } => program.rules.get(function.0).is_some_and(|rule| rule.cannot_fail),
        Step::Comprehension { form, .. } => *form != Collection::Object,
        Step::With { .. } => false,
        _ => true,
    };
    own && !evaluates_rule(step) && inner(step).iter().all(|step| cannot_fail(step, program))
}

fn iterates(step: &Step) -> bool {
    matches!(step, Step::Each { .. } | Step::Walk { .. } | Step::Yield { .. })
}

/// Whether a step reads only the given registers, or those that it writes itself.
fn uses_only(step: &Step, known: &dyn Fn(Register) -> bool) -> bool {
    let own = written(step);
    read(step).into_iter().all(|register| known(register) || own.contains(&register))
}

/// Returns the registers that a step reads, including those of its blocks.
fn read(step: &Step) -> Vec<Register> {
    let registers = operands(step).into_iter().filter_map(|operand| match operand {
        Operand::Register(register) => Some(*register),
        _ => None,
    });
    registers.chain(inner(step).iter().flat_map(read)).collect()
}

/// Whether a step evaluates a rule, which may fail.
fn evaluates_rule(step: &Step) -> bool {
    operands(step).iter().any(|operand| matches!(operand, Operand::Rule(_)))
}

/// Returns the operands that a step reads outside its blocks.
fn operands(step: &Step) -> Vec<&Operand> {
    match step {
        Step::Test(of)
        | Step::Defined(of)
        | Step::Array(of, _)
        | Step::Object(of, _)
        | Step::Every { of, .. }
        | Step::Each { of, .. }
        | Step::Walk { of, .. } => vec![of],
        Step::Get { from, keys, .. } => std::iter::once(from).chain(keys).collect(),
        Step::Equal(left, right) | Step::Compare { left, right, .. } => vec![left, right],
        Step::Call { arguments, .. } | Step::Invoke { arguments, .. } | Step::Note { arguments, .. } => {
            arguments.iter().collect()
        }
        Step::MakeArray { items, .. } | Step::MakeSet { items, .. } => items.iter().collect(),
        Step::MakeObject { fields, .. } => fields.iter().flat_map(|(key, value)| [key, value]).collect(),
        Step::Yield { keys, value } => keys.iter().chain([value]).collect(),
        Step::With { replaced, .. } => replaced.iter().flat_map(replacing).collect(),
        Step::Comprehension { .. } | Step::Not(_) | Step::Reached(_) => Vec::new(),
    }
}

/// Returns the operands that a replacement reads.
fn replacing(replacement: &Replacement) -> Vec<&Operand> {
    match replacement {
        Replacement::Input(keys, value) | Replacement::Data(keys, value) => keys.iter().chain([value]).collect(),
        Replacement::Function(_, Substitute::Value(value)) => vec![value],
        Replacement::Function(_, Substitute::Function(_)) => Vec::new(),
    }
}

/// Returns the registers that a step writes, including those of its blocks.
fn written(step: &Step) -> Vec<Register> {
    let mut found: Vec<Register> = output(step).into_iter().collect();
    if let Step::Every { key, value, .. } | Step::Each { key, value, .. } | Step::Walk { path: key, value, .. } = step {
        found.extend([*key, *value]);
    }
    found.extend(inner(step).iter().flat_map(written));
    found
}

/// Returns the register that holds the value of a step.
fn output(step: &Step) -> Option<Register> {
    match step {
        Step::Get { into, .. }
        | Step::MakeArray { into, .. }
        | Step::MakeSet { into, .. }
        | Step::MakeObject { into, .. }
        | Step::Comprehension { into, .. } => Some(*into),
        Step::Compare { into, .. } | Step::Call { into, .. } | Step::Invoke { into, .. } | Step::With { into, .. } => {
            *into
        }
        _ => None,
    }
}

/// Returns the block of a step.
fn inner(step: &Step) -> &[Step] {
    match step {
        Step::Comprehension { block, .. }
        | Step::Not(block)
        | Step::With { block, .. }
        | Step::Every { block, .. }
        | Step::Each { block, .. }
        | Step::Walk { block, .. } => block,
        _ => &[],
    }
}
