//! Explains the results of a rule for one object: its value at each place where it is evaluated, and those of the fields in
//! it.

use std::{sync::Arc, time::Instant};

use kaudit_cel::{Budget, Root};
use serde_json::Value as Json;

use super::{
    evaluation::{RuleValue, each_part, evaluate},
    field_path::FieldPath,
    load::CustomKind,
    rules::{RuleNode, ValidationRule},
};
use crate::judge::dialects::cel::explain::{ExplainedExpression, PolicyExplanation, named_values};

/// The number of places that are explained.
const PLACES: usize = 50;

/// Explains a rule for an object that was read in a version.
pub(crate) fn explain(
    custom: &CustomKind,
    rule: &str,
    version: &str,
    object: &Json,
    deadline: Instant,
) -> PolicyExplanation {
    let mut object = object.clone();
    let served = match custom.read(version, &mut object) {
        Ok(served) => served,
        Err(why) => return PolicyExplanation::NotEvaluated(why),
    };
    let mut explanation = RuleExplanation { rule, deadline, explained: Vec::new() };
    if let Some(root) = &served.root {
        explanation.node(root, &FieldPath::default(), &object);
    }
    if explanation.explained.is_empty() {
        return PolicyExplanation::NotEvaluated("the object has no value that the rule is about".to_owned());
    }
    PolicyExplanation::Evaluated(explanation.explained)
}

struct RuleExplanation<'r> {
    rule: &'r str,
    deadline: Instant,
    explained: Vec<ExplainedExpression>,
}

impl RuleExplanation<'_> {
    fn node(&mut self, node: &RuleNode, path: &FieldPath, value: &Json) {
        if value.is_null() || self.explained.len() >= PLACES {
            return;
        }
        for rule in node.rules.iter().filter(|rule| *rule.rule.name == *self.rule) {
            let explained = self.rule(node, rule, path, value);
            self.explained.push(explained);
        }
        node.all_of.iter().for_each(|part| self.node(part, path, value));
        let Ok(()) = each_part::<std::convert::Infallible>(node, path, value, &mut |part, path, value| {
            self.node(part, path, value);
            Ok(())
        });
    }

    fn rule(&self, node: &RuleNode, rule: &ValidationRule, path: &FieldPath, value: &Json) -> ExplainedExpression {
        let place = match path.shown() {
            path if path.is_empty() => String::new(),
            path => format!(" for {path}"),
        };
        let expression = &rule.expression;
        let mut values = Vec::new();
        let reads = expression.program.reads();
        named_values(
            &[&expression.text],
            reads,
            |path| path.root == Root::Itself,
            &mut values,
            |path| node.schema.at(value, &path.steps),
        );
        ExplainedExpression {
            source: expression.source.clone(),
            text: Arc::clone(&expression.text),
            failed: match evaluate(node, rule, value, &mut Budget::default().until(self.deadline)) {
                RuleValue::Holds => None,
                RuleValue::Violated => Some(format!("is false{place}")),
                RuleValue::Failed(why) => Some(format!("fails{place}: {why}")),
                RuleValue::Ended(error) => Some(format!("fails{place}: {error}")),
            },
            values,
            field: None,
        }
    }
}
