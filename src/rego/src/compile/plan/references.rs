//! References: paths that are constant at load, keys that are looked up, and keys that iterate.

use super::{Planned, body::BodyPlanner};
use crate::{
    compile::{
        term::{DATA, INPUT, ResolvedTerm, ResolvedValue},
        tree::RuleTree,
    },
    constant::Constant,
    program::{Operand, PathNode, ProgramStep},
};

impl BodyPlanner<'_, '_> {
    /// Returns the operand of a reference. Variables without a value iterate as keys, and are bound.
    pub(super) fn reference(&mut self, items: &[ResolvedTerm]) -> Planned<Operand> {
        let Some((head, keys)) = items.split_first() else { return Err(self.unsupported("an empty reference")) };
        let (from, keys) = match head.as_variable() {
            Some(INPUT) => self.document(PathNode::Input, keys),
            Some(DATA) => self.data(keys)?,
            _ => (self.operand(head)?, keys),
        };
        self.keys(from, keys)
    }

    /// Follows a document as long as the keys are constants.
    fn document<'k>(&mut self, document: PathNode, keys: &'k [ResolvedTerm]) -> (Operand, &'k [ResolvedTerm]) {
        let in_data = document == PathNode::Data;
        let mut path = self.planner.path(document);
        let mut rest = keys;
        while let Some((key, after)) = rest.split_first()
            && let ResolvedValue::Constant(constant) = &key.value
            && let Some(key) = constant.value()
        {
            path = self.planner.path(match key {
                // OPA also looks numbers up among the keys of objects in data.
                regorus::Value::Number(_) if in_data => PathNode::BelowData(path, key),
                key => PathNode::Below(path, key),
            });
            rest = after;
        }
        (Operand::Path(path), rest)
    }

    /// Returns the rule that a reference below `data` leads to, the document that its variables select from, or the
    /// path in the data.
    fn data<'k>(&mut self, keys: &'k [ResolvedTerm]) -> Planned<(Operand, &'k [ResolvedTerm])> {
        let (mut node, mut path) = (self.planner.tree, Vec::new());
        for (index, key) in keys.iter().enumerate() {
            let Some(key) = key.constant() else { break };
            let Some(child) = node.child(&key) else { return Ok(self.document(PathNode::Data, keys)) };
            node = child;
            path.push(key);
            if !node.rules.is_empty() {
                return self.value_at(&path, node, &keys[index + 1..]);
            }
        }
        let rest = &keys[path.len()..];
        self.value_at(&path, node, rest)
    }

    fn value_at<'k>(
        &mut self,
        path: &[Constant],
        node: &RuleTree,
        rest: &'k [ResolvedTerm],
    ) -> Planned<(Operand, &'k [ResolvedTerm])> {
        let pattern = rest.iter().map(ResolvedTerm::constant).collect();
        let rule = self.planner.value_at(path, node, pattern)?;
        if self.planner.program.rules[rule.0].arity > 0 {
            // A function has no value.
            self.push(ProgramStep::Test(Operand::Constant(regorus::Value::Bool(false))));
        }
        Ok((Operand::Rule(rule), rest))
    }

    fn keys(&mut self, mut from: Operand, keys: &[ResolvedTerm]) -> Planned<Operand> {
        let mut looked_up = Vec::new();
        for key in keys {
            if self.is_known(key) {
                looked_up.push(self.operand(key)?);
                continue;
            }
            from = self.get(from, std::mem::take(&mut looked_up));
            let (of_key, value) = self.each(from);
            self.bind(key, &of_key)?;
            from = value;
        }
        Ok(self.get(from, looked_up))
    }

    /// Looks keys up.
    pub(super) fn get(&mut self, from: Operand, keys: Vec<Operand>) -> Operand {
        if keys.is_empty() {
            return from;
        }
        let into = self.register();
        self.push(ProgramStep::Get { into, from, keys: keys.into() });
        Operand::Register(into)
    }
}
