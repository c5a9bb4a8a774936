//! All definitions of a path.

use super::{Pattern, PlanKind, Planned, ProgramPlanner, invariants, unsupported, value_of};
use crate::{
    compile::{
        plan::body::BodyPlanner,
        term::{
            self, DATA, Function, INPUT, ResolvedResult, ResolvedStatement, ResolvedStatementKind, ResolvedTerm,
            ResolvedValue,
        },
        tree::RuleTree,
        visit,
    },
    constant::Constant,
    program::{Block, Operand, PlannedDefinition, PlannedRule, ProgramStep, RuleForm, RuleId, SourceLocation},
};

impl ProgramPlanner<'_> {
    /// Whether a node is more than the definitions of one rule with one kind of value.
    pub(super) fn is_document(&self, node: &RuleTree) -> bool {
        let definitions: Vec<&term::ResolvedRule> = node.rules.iter().map(|index| &self.rules[*index]).collect();
        !node.is_leaf() || form(&definitions).is_none()
    }

    /// Plans all definitions at a node.
    pub(super) fn new_rule(&mut self, node: &RuleTree, place: SourceLocation) -> Planned<PlannedRule> {
        let all = self.rules;
        let definitions: Vec<&term::ResolvedRule> = node.rules.iter().map(|index| &all[*index]).collect();
        let form = form(&definitions).ok_or_else(|| unsupported(place, "a mix of several kinds of rules"))?;
        let path = definitions.first().map(|rule| rule.ground_path()).unwrap_or_default();
        let arity = definitions.iter().map(|rule| rule.arity()).max().unwrap_or(0);
        let mut rule = PlannedRule::new(form, Some(keys(&path)), arity);
        // OPA's early exit, which a trace must not take.
        let exits_early = self.kind != PlanKind::Traced;
        rule.decided_by_first = exits_early && form == RuleForm::Complete && gives_one_value(&definitions);
        let mut planned = Vec::new();
        for definition in definitions {
            if definition.default {
                let (ResolvedResult::Value(value) | ResolvedResult::Element(value)) = &definition.result;
                let default_at = SourceLocation { module: definition.module, at: value.at };
                rule.default_at = (self.kind == PlanKind::Covered).then_some(default_at);
                rule.default = Some(match value_of(value) {
                    Some(value) => Operand::Constant(value),
                    None => Operand::Rule(self.default(definition)?),
                });
                continue;
            }
            planned.push(self.definition(definition, (path.len(), &Pattern::new()), &mut rule)?);
        }
        rule.definitions = planned.into();
        self.mark_invariants(&mut rule);
        Ok(rule)
    }

    /// Plans a rule from a single definition; the keys of its path after `depth` are keys of its value.
    pub(super) fn single_rule(&mut self, definition: &term::ResolvedRule, depth: usize) -> Planned<PlannedRule> {
        let form = match (&definition.result, definition.path.len() == depth) {
            (ResolvedResult::Value(_), true) => RuleForm::Complete,
            (ResolvedResult::Element(_), true) => RuleForm::Set,
            _ => RuleForm::Document,
        };
        let mut rule = PlannedRule::new(form, None, 0);
        rule.decided_by_first = form == RuleForm::Complete && gives_one_value(&[definition]);
        rule.definitions = Box::new([self.definition(definition, (depth, &Pattern::new()), &mut rule)?]);
        Ok(rule)
    }

    /// Finds work that a rule need not repeat, unless each repetition counts.
    fn mark_invariants(&mut self, rule: &mut PlannedRule) {
        if self.kind == PlanKind::Fast {
            invariants::mark(rule, &mut self.program);
        }
    }

    /// Plans the part of a node's document that matches a pattern.
    pub(super) fn new_document(
        &mut self,
        path: &[Constant],
        node: &RuleTree,
        pattern: &Pattern,
    ) -> Planned<PlannedRule> {
        let mut document = PlannedRule::new(RuleForm::Document, Some(keys(path)), 0);
        let mut planned = Vec::new();
        if node.rules.is_empty() {
            self.children(path, node, pattern, &mut planned)?;
        } else {
            self.extent(node, (path.len(), pattern), &mut document, &mut planned)?;
        }
        document.definitions = planned.into();
        self.mark_invariants(&mut document);
        Ok(document)
    }

    /// Plans the children of a node without rules, key by key.
    fn children(
        &mut self,
        path: &[Constant],
        node: &RuleTree,
        pattern: &Pattern,
        planned: &mut Vec<PlannedDefinition>,
    ) -> Planned<()> {
        let wanted = pattern.first().and_then(Option::as_ref);
        for (name, child) in node.children().filter(|(key, _)| wanted.is_none_or(|wanted| wanted == *key)) {
            let is_hidden = path.is_empty() && self.hidden.as_ref() == Some(name);
            if is_hidden || child.rules.iter().any(|rule| self.rules[*rule].is_function()) {
                continue;
            }
            let below: Vec<Constant> = path.iter().chain([name]).cloned().collect();
            let rule = self.value_at(&below, child, pattern.iter().skip(1).cloned().collect())?;
            let key = child.first().and_then(|rule| value_of(self.rules[rule].path.get(path.len())?));
            let key = key.or_else(|| name.value()).unwrap_or(regorus::Value::Undefined);
            planned.push(PlannedDefinition::of_rule([key], rule));
        }
        Ok(())
    }

    /// Plans all rules at a node and below it together, as OPA does if a rule at the node has a variable as a key:
    /// undefined rules then leave no empty objects.
    fn extent(
        &mut self,
        node: &RuleTree,
        (depth, pattern): (usize, &Pattern),
        document: &mut PlannedRule,
        planned: &mut Vec<PlannedDefinition>,
    ) -> Planned<()> {
        let all = self.rules;
        for definition in node.rules.iter().map(|index| &all[*index]) {
            // A default does not count in this case.
            if fits(definition, depth, pattern) && !definition.is_function() && !definition.default {
                planned.push(self.definition(definition, (depth, pattern), document)?);
            }
        }
        node.children().try_for_each(|(_, child)| self.extent(child, (depth, pattern), document, planned))
    }

    /// Plans a part of a document as a rule of its own.
    pub(super) fn part(&mut self, path: &[Constant]) -> Planned<RuleId> {
        let keys = path.iter().map(|key| ResolvedTerm::new(super::START.at, ResolvedValue::Constant(key.clone())));
        let items: Vec<ResolvedTerm> =
            std::iter::once(ResolvedTerm::variable(super::START.at, DATA)).chain(keys).collect();
        let mut body = BodyPlanner::new(self, 0, 0);
        let value = body.reference(&items)?;
        let (block, registers) = body.finish(ProgramStep::Yield { keys: Box::default(), value });
        Ok(self.add(block, registers))
    }

    /// Adds a rule for a part of another one.
    fn add(&mut self, block: Block, registers: usize) -> RuleId {
        let branches = Box::new([block]);
        let rule = PlannedRule {
            registers,
            definitions: Box::new([PlannedDefinition { branches, at: None, gives_elements: false }]),
            ..PlannedRule::new(RuleForm::Complete, None, 0)
        };
        self.program.rules.push(rule);
        RuleId(self.program.rules.len() - 1)
    }

    /// Plans a default that has to be evaluated as a rule of its own.
    fn default(&mut self, default: &term::ResolvedRule) -> Planned<RuleId> {
        let (block, registers) = self.branch(default, (default.path.len(), &Pattern::new()))?;
        Ok(self.add(block, registers))
    }

    /// Plans a definition and its `else` branches, as far as it matches a pattern below the first `depth` keys of its
    /// path.
    fn definition(
        &mut self,
        definition: &term::ResolvedRule,
        place: (usize, &Pattern),
        rule: &mut PlannedRule,
    ) -> Planned<PlannedDefinition> {
        let branches = definition.chain().map(|branch| {
            let (block, registers) = self.branch(branch, place)?;
            rule.registers = rule.registers.max(registers);
            Ok(block)
        });
        Ok(PlannedDefinition {
            branches: branches.collect::<Planned<_>>()?,
            at: Some(SourceLocation { module: definition.module, at: definition.at }),
            gives_elements: matches!(definition.result, ResolvedResult::Element(_)),
        })
    }

    /// Plans a definition without its `else` branches; returns its block and the number of its registers.
    fn branch(&mut self, branch: &term::ResolvedRule, (depth, pattern): (usize, &Pattern)) -> Planned<(Block, usize)> {
        let parameters = branch.parameters.as_deref().unwrap_or_default();
        let mut body = BodyPlanner::new(self, branch.module, parameters.len());
        body.parameters(parameters)?;
        // Only this value of a key is read.
        for (key, wanted) in branch.path.iter().skip(depth).zip(pattern) {
            if let (Some(variable), Some(wanted)) = (key.as_variable(), wanted.as_ref().and_then(Constant::value)) {
                body.variables.insert(variable, Operand::Constant(wanted));
            }
        }
        let is_fast = body.planner.kind == PlanKind::Fast;
        let statements = branch.body.iter().filter(|statement| !statement.erased);
        let (guards, others): (Vec<_>, Vec<_>) = statements.partition(|statement| is_fast && is_guard(statement));
        for statement in guards {
            body.statement(statement)?;
        }
        if is_fast && others.iter().any(|statement| may_fail(statement)) {
            for (items, other) in others.iter().filter_map(|statement| needed(statement)) {
                let path = body.reference(items)?;
                match other {
                    Some(ResolvedValue::Array(items)) => body.has_constants(&path, items)?,
                    _ => body.push(ProgramStep::Defined(path)),
                }
            }
        }
        for statement in others {
            body.statement(statement)?;
        }
        let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &branch.result;
        body.reached(result.at);
        let keys = branch.path.iter().skip(depth).map(|key| body.operand(key)).collect::<Planned<_>>()?;
        let value = body.operand(result)?;
        Ok(body.finish(ProgramStep::Yield { keys, value }))
    }
}

/// Returns constants that can be keys, as values.
fn keys(path: &[Constant]) -> Box<[regorus::Value]> {
    path.iter().map(|key| key.value().unwrap_or(regorus::Value::Undefined)).collect()
}

/// Whether a definition may have a value that matches a pattern below the first `depth` keys of its path.
fn fits(rule: &term::ResolvedRule, depth: usize, pattern: &Pattern) -> bool {
    rule.path.iter().skip(depth).zip(pattern).all(|(key, wanted)| match (key.constant(), wanted) {
        (Some(key), Some(wanted)) => key == *wanted,
        _ => true,
    })
}

/// Returns the kind of value that the definitions of a path have; `None` for a document.
fn form(definitions: &[&term::ResolvedRule]) -> Option<RuleForm> {
    let of_one = |rule: &term::ResolvedRule| match (&rule.result, rule.path.len() - rule.ground()) {
        (ResolvedResult::Element(_), 0) => Some(RuleForm::Set),
        (ResolvedResult::Value(_), 0) => Some(RuleForm::Complete),
        (ResolvedResult::Value(_), 1) => Some(RuleForm::Object),
        _ => None,
    };
    let first = of_one(definitions.first()?)?;
    definitions.iter().all(|rule| of_one(rule) == Some(first)).then_some(first)
}

/// Whether all definitions have the same constant value.
fn gives_one_value(definitions: &[&term::ResolvedRule]) -> bool {
    let mut values = definitions.iter().filter(|rule| !rule.default).flat_map(|rule| rule.chain()).map(|rule| {
        let (ResolvedResult::Value(value) | ResolvedResult::Element(value)) = &rule.result;
        value_of(value)
    });
    let Some(Some(first)) = values.next() else { return false };
    values.all(|value| value.as_ref() == Some(&first))
}

/// Whether a statement only compares a value of the input with a constant. Such statements come first, as OPA indexes
/// rules by them.
fn is_guard(statement: &ResolvedStatement) -> bool {
    let constant = |term: &ResolvedTerm| matches!(term.value, ResolvedValue::Constant(_));
    compared(statement).is_some_and(|(left, right)| {
        input(left).is_some() && constant(right) || constant(left) && input(right).is_some()
    })
}

/// Returns the input path that must be defined for a statement to hold, if OPA's index checks it before the definition
/// is evaluated: the path is the whole statement, or is compared or unified with a term that needs no evaluation, which
/// is returned as well.
fn needed(statement: &ResolvedStatement) -> Option<(&[ResolvedTerm], Option<&ResolvedValue>)> {
    if let ResolvedStatementKind::Term(term) = &statement.kind {
        return input(term).filter(|_| is_plain(statement)).map(|items| (items, None));
    }
    let (left, right) = compared(statement)?;
    let sides = [(left, right), (right, left)].into_iter();
    sides.filter(|(_, other)| is_indexed(other)).find_map(|(own, other)| Some((input(own)?, Some(&other.value))))
}

/// Whether OPA's index accepts a term as the other side of a comparison.
fn is_indexed(term: &ResolvedTerm) -> bool {
    match &term.value {
        ResolvedValue::Constant(_) | ResolvedValue::Variable(_) => true,
        ResolvedValue::Array(items) => {
            items.iter().all(|item| matches!(item.value, ResolvedValue::Constant(_) | ResolvedValue::Variable(_)))
        }
        _ => false,
    }
}

/// Whether a statement may end in an error: of another rule, or of a builtin if evaluation is strict.
fn may_fail(statement: &ResolvedStatement) -> bool {
    let mut found = false;
    visit::terms_of_statement(statement, &mut |term| {
        found |= term.as_variable() == Some(DATA) || matches!(&term.value, ResolvedValue::Call(_));
        true
    });
    found || matches!(statement.kind, ResolvedStatementKind::Call(_))
}

/// Returns both sides of an equality comparison or a unification.
fn compared(statement: &ResolvedStatement) -> Option<(&ResolvedTerm, &ResolvedTerm)> {
    match &statement.kind {
        _ if !is_plain(statement) => None,
        ResolvedStatementKind::Unify(left, right) => Some((left, right)),
        ResolvedStatementKind::Call(call) => match (&call.function, call.arguments.as_slice()) {
            (Function::Builtin(name), [left, right]) if matches!(&**name, "equal" | "eq") => Some((left, right)),
            _ => None,
        },
        _ => None,
    }
}

fn is_plain(statement: &ResolvedStatement) -> bool {
    !statement.negated && statement.with.is_empty()
}

/// Returns a term that is a reference to the input with constant keys.
fn input(term: &ResolvedTerm) -> Option<&[ResolvedTerm]> {
    let ResolvedValue::Ref(items) = &term.value else { return None };
    let (first, keys) = items.split_first()?;
    let constant = |key: &ResolvedTerm| matches!(key.value, ResolvedValue::Constant(_));
    (first.as_variable() == Some(INPUT) && keys.iter().all(constant)).then_some(items)
}
