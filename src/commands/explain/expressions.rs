//! Explains admission policies and Gatekeeper's templates in CEL, whose rules are expressions instead of definitions in Rego.

use serde_json::Value as Json;

use super::{
    explanation::{CHOOSING, Explained, TracedDefinition},
    trace::{ShownBody, ShownStatement},
};
use crate::{
    commands::explainer::{Explanation, NamedValue, masking::SecretMask, show},
    judge::{
        dialects::cel::explain::{ExplainedExpression, PolicyExplanation},
        evaluate::{Job, read_json},
        reads::Segment,
    },
    rego::value,
    source::received::Secrets,
};

impl Explained {
    /// Adds the value of each validation that `explain` returns for an object, and those of the variables and fields in it. Values that depend on what may be a
    /// secret are hidden, unless policies see the values of Secrets.
    ///
    /// # Errors
    /// When the object cannot be read.
    pub(super) fn trace_expressions(
        &mut self,
        job: &Job,
        secrets: Secrets,
        explain: impl Fn(&Json) -> Result<PolicyExplanation, String>,
    ) -> Result<(), String> {
        let namespace = job.object.key.own_namespace();
        if !job.policies.rule_changes.applies(&self.policy, &self.rule, namespace) {
            self.not_asked = Some("the rule settings limit it to other namespaces".to_owned());
            return Ok(());
        }
        let (object, _) = read_json(&job.object)?;
        let explained = match explain(&object)? {
            PolicyExplanation::Evaluated(explained) => explained,
            PolicyExplanation::NotEvaluated(why) => {
                // An error is a result, which says why.
                self.not_asked = self.results.is_empty().then_some(why);
                return Ok(());
            }
        };
        let others = match other_object(&object, secrets)? {
            Some(other) => explain(&other)?,
            None => PolicyExplanation::Evaluated(Vec::new()),
        };
        let PolicyExplanation::Evaluated(others) = others else { return Ok(()) };
        for (index, one) in explained.iter().enumerate() {
            self.definitions.push(definition(one, others.get(index)));
        }
        let mut failed = explained.iter().filter(|one| one.failed.is_some());
        if let (Some(only), None, [entry]) = (failed.next(), failed.next(), &self.results[..]) {
            let followed = only.field.as_deref().map(shown).filter(|field| !CHOOSING.contains(&field.as_str()));
            self.field = entry.field().map(str::to_owned).or(followed);
        }
        Ok(())
    }
}

/// Returns the object with other values in place of what may be secrets; `None` if there are none, or none are hidden.
fn other_object(object: &Json, secrets: Secrets) -> Result<Option<Json>, String> {
    if secrets != Secrets::Redact {
        return Ok(None);
    }
    let object = value::from_tree(object.clone()).map_err(|why| why.to_string())?;
    let other = SecretMask::of(&object).with_other_secrets(&object);
    other.map(|other| serde_json::to_value(&other).map_err(|why| why.to_string())).transpose()
}

/// Describes one expression; `other` is its evaluation with other secrets.
fn definition(explained: &ExplainedExpression, other: Option<&ExplainedExpression>) -> TracedDefinition {
    let ExplainedExpression { source, text, failed, values, .. } = explained;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let last = source.line + u32::try_from(lines.len().saturating_sub(1)).unwrap_or_default();
    let values = values.iter().map(|(name, value)| {
        let is_secret = other.is_some_and(|other| !other.values.contains(&(name.clone(), value.clone())));
        let value = if is_secret { "***".to_owned() } else { show::code(value) };
        NamedValue { name: name.clone(), value }
    });
    let (mut statements, mut explanation) = (Vec::new(), None);
    match failed {
        None => statements.push(ShownStatement { line: last, values: values.collect() }),
        Some(reason) => {
            let (file, code) = (source.file.to_string(), show::code(text));
            let (reason, values) = (reason.clone(), values.collect());
            explanation = Some(Explanation { file, line: last, reason, code, values });
        }
    }
    let body = ShownBody { holds: Some(u64::from(failed.is_none())), statements, failed: explanation };
    TracedDefinition { file: source.file.clone(), line: source.line, lines, bodies: vec![body] }
}

/// Writes a path as `kubectl` writes fields.
fn shown(path: &[Segment]) -> String {
    let names = path.iter().filter_map(|segment| if let Segment::Field(name) = segment { Some(&**name) } else { None });
    names.collect::<Vec<_>>().join(".")
}
