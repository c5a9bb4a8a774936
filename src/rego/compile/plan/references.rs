//! References: paths that are known at load, keys that are looked up, and keys that iterate.

use super::{Planned, body::Body, value_of_constant};
use crate::rego::{
    compile::term::{DATA, INPUT, Term, Value},
    constant::Constant,
    program::{Operand, PathNode, Step},
};

impl Body<'_, '_> {
    /// Returns where the value of a reference is. Keys without a value iterate, and get one.
    pub(super) fn reference(&mut self, items: &[Term]) -> Planned<Operand> {
        let Some((head, keys)) = items.split_first() else { return Err(self.not_taken("an empty reference")) };
        let (from, keys) = match head.as_variable() {
            Some(INPUT) => self.document(PathNode::Input, keys),
            Some(DATA) => self.data(keys)?,
            _ => (self.operand(head)?, keys),
        };
        self.keys(from, keys)
    }

    /// Goes down a document as far as the keys are constants.
    fn document<'k>(&mut self, document: PathNode, keys: &'k [Term]) -> (Operand, &'k [Term]) {
        let mut path = self.planner.path(document);
        let mut rest = keys;
        while let Some((key, behind)) = rest.split_first()
            && let Value::Constant(constant) = &key.value
            && let Some(key) = value_of_constant(constant)
        {
            path = self.planner.path(PathNode::Below(path, key));
            rest = behind;
        }
        (Operand::Path(path), rest)
    }

    /// Finds the rule that a reference below `data` leads to, or the path in what is given as data.
    fn data<'k>(&mut self, keys: &'k [Term]) -> Planned<(Operand, &'k [Term])> {
        let mut node = self.planner.tree;
        for (index, key) in keys.iter().enumerate() {
            let Some(constant) = key.constant() else { return Err(self.not_taken("packages by a variable")) };
            match node.child(&constant) {
                Some(child) if !child.rules.is_empty() => {
                    let rule = self.planner.rule(child)?;
                    if self.planner.program.rules[rule.0].arity > 0 {
                        return Err(self.not_taken("a function as a value"));
                    }
                    return Ok((Operand::Rule(rule), &keys[index + 1..]));
                }
                Some(child) => node = child,
                None => return self.given(keys, index),
            }
        }
        Err(self.not_taken("a whole package"))
    }

    /// Goes down what is given as data; no rule has as much of a path as up to this key.
    fn given<'k>(&mut self, keys: &'k [Term], index: usize) -> Planned<(Operand, &'k [Term])> {
        let path: Vec<Constant> = keys[..=index].iter().map_while(Term::constant).collect();
        if self.planner.packages.iter().any(|(package, _)| package.starts_with(&path)) {
            return Err(self.not_taken("a whole package"));
        }
        let (found, rest) = self.document(PathNode::Data, keys);
        // OPA finds numbers among the keys of what is given, too.
        let text = |key: &Term| matches!(key.value, Value::Constant(Constant::String(_)));
        if !keys[..keys.len() - rest.len()].iter().all(text) {
            return Err(self.not_taken("a number as a key of data"));
        }
        Ok((found, rest))
    }

    fn keys(&mut self, mut from: Operand, keys: &[Term]) -> Planned<Operand> {
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
        self.push(Step::Get { into, from, keys: keys.into() });
        Operand::Register(into)
    }
}
