//! The model of an explanation, from which text and JSON are made.

use std::{fmt::Write as _, io, sync::Arc};

use jiff::Timestamp;
use regorus::Value;
use serde::Serialize;

use super::trace::{self, ShownBody};
use crate::{
    audit::result::{About, Entry},
    cluster::identity::API_VERSION,
    commands::explainer::{Explainer, masking::SecretMask},
    judge::{
        evaluate::{Job, RuleApplicability, explain_constraint, explain_policy, explain_rule, rule_input},
        modules,
    },
    model::object::{Location, ObjectRef},
    output::safe::write_json_pretty,
    rego::{
        self, File, SourceLocation,
        analysis::excerpt,
        trace::{ModuleUses, TracedBody, TracedBranch, Tracer},
    },
    source::received::Secrets,
};

/// Fields that identify an object: they are never the field to change.
pub(super) const CHOOSING: [&str; 4] = ["apiVersion", "kind", "metadata.name", "metadata.namespace"];

/// How a rule comes to its result for an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explained {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) resource: ObjectRef,
    /// The object that it would create, on which the rule is evaluated in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generated: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) location: Option<Location>,
    pub(super) policy: Arc<str>,
    pub(super) rule: Arc<str>,
    pub(super) about: About,
    /// The results of the rule; empty if the object passes.
    pub(super) results: Vec<Entry>,
    /// When the results were first seen, according to reports in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    /// Why the rule is not evaluated for the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_asked: Option<String>,
    /// Why its violations are not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_reported: Option<String>,
    /// The path of the field to change: that which the only result names, or else that which holding conditions read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    pub(super) definitions: Vec<TracedDefinition>,
}

/// Explanations of one rule for several objects of one name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplanationList<'e> {
    api_version: &'static str,
    kind: &'static str,
    items: &'e [Explained],
}

/// Writes one explanation, or a list of several, as an indented document and a newline.
pub(super) fn write_json(all: &[Explained], out: &mut dyn io::Write) -> io::Result<()> {
    match all {
        [one] => write_json_pretty(&mut *out, one)?,
        items => {
            let list = ExplanationList { api_version: API_VERSION, kind: "ExplanationList", items };
            write_json_pretty(&mut *out, &list)?;
        }
    }
    out.write_all(b"\n")
}

/// One definition of the rule.
#[derive(Debug, Serialize)]
pub(super) struct TracedDefinition {
    pub(super) file: Arc<str>,
    /// Its first line, from 1.
    pub(super) line: u32,
    /// Its source.
    pub(super) lines: Vec<String>,
    pub(super) bodies: Vec<ShownBody>,
}

impl Explained {
    /// Adds the trace of each definition; `texts` are the files of the policies. Strings that may be secrets are
    /// hidden, unless policies see the values of Secrets.
    ///
    /// # Errors
    /// When the object cannot be read.
    pub(super) fn trace(&mut self, job: &Job, texts: &[File], secrets: Secrets) -> Result<(), String> {
        if let Some(bound) = job.policies.admission.named(&self.policy, &self.rule, &job.object.key.kind) {
            return self.trace_expressions(job, secrets, |object| explain_policy(job, bound, object));
        }
        if let Some(custom) = job.policies.custom.named(&self.policy, &self.rule) {
            let rule = Arc::clone(&self.rule);
            return self.trace_expressions(job, secrets, |object| Ok(explain_rule(job, custom, &rule, object)));
        }
        if let Some(constraint) = job.policies.constraint_in_cel(&self.policy, &self.rule) {
            return self.trace_expressions(job, secrets, |object| explain_constraint(job, constraint, object));
        }
        let question = match rule_input(job, &self.policy, &self.rule)? {
            Some(RuleApplicability::Evaluated(question)) => question,
            Some(RuleApplicability::NotEvaluated(why)) => {
                self.not_asked = Some(why);
                return Ok(());
            }
            None => return Ok(()),
        };
        let files = &question.unit.files;
        let modules = modules::read(&files.iter().collect::<Vec<_>>());
        let modules = modules.into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| error.why)?;
        let evaluator = &question.unit.evaluator;
        let all: Vec<&_> = modules.iter().collect();
        let uses = ModuleUses::new(&all, &rego::analysis::compile::resolve(&all, std::iter::empty()).nodes(&all));
        let tracer = Tracer { files, modules: &modules, uses: &uses, evaluator, input: &question.input };
        let mut mask = (secrets == Secrets::Redact).then(|| SecretMask::of(&question.input));
        let other_input = mask.as_ref().and_then(|mask| mask.with_other_secrets(&question.input));
        let mut fields = Vec::new();
        for definition in question.definitions {
            let file = &files[definition.at.module];
            let text: &str =
                texts.iter().find(|written| written.shown == file.shown).map_or("", |written| &written.text);
            let branches = tracer.trace(definition.at);
            if let (Some(mask), Some(input)) = (&mut mask, &other_input) {
                let other = Tracer { files, modules: &modules, uses: &uses, evaluator, input };
                mask.add_derived(&branches, &other.trace(definition.at));
            }
            let explainer = Explainer { file: &file.shown, text, mask: mask.as_ref() };
            for (index, branch) in branches.iter().enumerate() {
                let Some(TracedBranch { body, .. }) = branch else { continue };
                if body.solutions > 0 && !body.statements.is_empty() {
                    // Each of several solutions may read another field.
                    let is_one = body.solutions == 1;
                    fields
                        .push(is_one.then(|| field(&tracer, (definition.at, index), body, question.object)).flatten());
                }
            }
            let bodies = branches.iter().filter_map(|branch| trace::body(explainer, branch.as_ref())).collect();
            let (line, last) = tracer.lines(definition.at).unwrap_or_default();
            let lines = excerpt::between(line, last, &text.lines().collect::<Vec<_>>());
            self.definitions.push(TracedDefinition { file: Arc::clone(&file.shown), line, lines, bodies });
        }
        let least = job.policies.rule_changes.min_severity.filter(|_| self.results.is_empty() && !fields.is_empty());
        self.not_reported =
            least.map(|least| format!("only violations of severity {} or worse are reported", least.word()));
        // Each of several results may be about another field.
        if let [only] = &self.results[..] {
            let followed = if let [Some(field)] = &fields[..] { Some(field.as_str()) } else { None };
            // The place of a generated object is less than a field of it.
            let followed_first = self.generated.is_some().then_some(followed).flatten();
            self.field = followed_first.or(only.field()).or(followed).map(str::to_owned);
        }
        Ok(())
    }

    /// Returns the field to change for a result.
    pub(super) fn field_of<'e>(&'e self, entry: &'e Entry) -> Option<&'e str> {
        let own = self.generated.as_ref().and(self.field.as_deref());
        own.or(entry.field()).or(self.field.as_deref())
    }
}

/// Returns the field that the conditions of a holding body read; `None` if that is not certain.
fn field(
    tracer: &Tracer<'_>,
    (definition, branch): (SourceLocation, usize),
    body: &TracedBody,
    object: &[&str],
) -> Option<String> {
    let object: Vec<Value> = object.iter().map(|key| Value::from(*key)).collect();
    let places = tracer.places(definition, branch, body, &object)?;
    // Other parts of the input, such as parameters, are not fields of the object.
    let inside = places.iter().filter_map(|place| place.strip_prefix(object.as_slice()));
    let mut fields: Vec<String> = inside.map(shown).collect();
    fields.retain(|field| !field.is_empty() && !CHOOSING.contains(&field.as_str()));
    fields.sort();
    fields.dedup();
    if fields.len() == 1 { fields.pop() } else { None }
}

/// Writes a path as `kubectl` writes fields: `spec.containers[0].image`.
fn shown(path: &[Value]) -> String {
    let mut text = String::new();
    for part in path {
        match part {
            Value::String(name) if name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') => {
                text.push_str(if text.is_empty() { "" } else { "." });
                text.push_str(name);
            }
            other => {
                let _ = write!(text, "[{other}]");
            }
        }
    }
    text
}
