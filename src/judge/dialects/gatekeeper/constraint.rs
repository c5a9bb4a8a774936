//! Constraints: the objects that a template is evaluated on, its parameters, and the outcome of its violations.

use std::sync::Arc;

use regorus::Value;

use super::{
    expressions::ConstraintExpressions,
    matching::{ConstraintMatch, is_subdomain},
    template::{BlockScalar, Template},
};
use crate::{
    judge::{
        dependencies::Dependencies,
        dialects::cel::binding::BoundPolicy,
        excusable::Excusability,
        metadata::Metadata,
        policy_annotations,
        policy_document::{PolicyDocument, warning},
        rule::{Rule, RuleDescriptors},
    },
    model::{
        rule_numbers::RuleNumber,
        verdict::{Outcome, Source},
    },
    rego::{Problem, analysis::yaml::YamlNode},
};

/// The enforcement points of Gatekeeper: the names that `scopedEnforcementActions` uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnforcementPoint {
    /// Its audit, which kaudit replaces.
    Audit,
    /// Its command `gator`, which tests policies.
    Gator,
}

impl EnforcementPoint {
    fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit.gatekeeper.sh",
            Self::Gator => "gator.gatekeeper.sh",
        }
    }
}

/// One Constraint, ready for evaluation.
#[derive(Debug, Clone)]
pub(crate) struct Constraint {
    /// Its kind, which results name as the policy.
    pub(crate) policy: Arc<str>,
    /// Its name and outcome; source and texts are copied from the template's rule when the two are joined.
    pub(crate) rule: Rule,
    pub(crate) matching: ConstraintMatch,
    /// `input.parameters`.
    pub(crate) parameters: Value,
    /// The expressions to evaluate, if the template's code is CEL.
    pub(crate) expressions: Option<Arc<ConstraintExpressions>>,
    /// The parts that its violations share; complete once the Constraint is joined with its template.
    pub(crate) descriptors: RuleDescriptors,
}

/// A template with the Constraints that use its rule.
#[derive(Debug, Clone)]
pub(crate) struct BoundTemplate {
    pub(crate) constraints: Vec<Constraint>,
    /// The positions of its modules in the file.
    pub(crate) blocks: Vec<BlockScalar>,
    /// What its rule depends on besides the object.
    pub(crate) depends: Dependencies,
}

impl BoundTemplate {
    /// Returns the expressions of a template whose code is CEL, with one of its Constraints: all read the same.
    pub(crate) fn expressions(&self) -> Option<&BoundPolicy> {
        Some(&self.constraints.first()?.expressions.as_ref()?.bound)
    }
}

/// A valid Constraint.
pub(crate) enum ReadConstraint {
    Judges(Box<Constraint>),
    /// It has no effect at this enforcement point, for this reason.
    Silent(&'static str),
}

/// Reads a Constraint of a template; `None` if it is refused. Its problems are added to `problems`.
pub(crate) fn read(
    document: &mut PolicyDocument<'_>,
    template: &Template,
    of_rule: &Metadata,
    point: EnforcementPoint,
    problems: &mut Vec<Problem>,
) -> Option<ReadConstraint> {
    if !is_valid(document, template, problems) {
        return None;
    }
    let (name, label) = (document.name().to_owned(), document.label());
    template.schema.fill(&mut document.node);
    if template.schema.loses_defaults(&document.node) {
        let message = format!("{label}: without parameters the defaults of its template are not filled in");
        let problem = warning(document.whole(message));
        problems.push(problem.help("Gatekeeper does the same; add `parameters: {}` to spec"));
    }
    let spec = document.node.get("spec");
    let matching = ConstraintMatch::read(spec.get("match"));
    let matching =
        matching.map_err(|(node, why)| problems.push(document.problem(node, format!("{label}: {why}")))).ok()?;
    let outcome = action(document, point).map_err(|problem| problems.push(problem)).ok()?;
    let Some(outcome) = outcome else {
        return Some(ReadConstraint::Silent("its scopedEnforcementActions contain no action for the audit"));
    };
    let metadata = policy_annotations::read(document, problems).or(&template.metadata).or(of_rule);
    let expressions = template.expressions.as_ref();
    let expressions =
        expressions.map(|policy| Arc::new(ConstraintExpressions::new(document, policy, metadata.clone(), outcome)));
    let parameters = spec.get("parameters");
    let (name, source) =
        (Arc::from(name), Source { file: Arc::clone(&document.file.shown), line: document.node.at.line });
    let descriptors = RuleDescriptors::new([&template.kind, &name], &metadata.info, (&source, &metadata), []);
    Some(ReadConstraint::Judges(Box::new(Constraint {
        policy: Arc::clone(&template.kind),
        matching,
        parameters: if parameters.is_null() { Value::new_object() } else { parameters.value() },
        expressions,
        descriptors,
        rule: Rule {
            number: RuleNumber::of(&template.kind, &name),
            name,
            outcome,
            metadata: Arc::new(metadata),
            source,
            texts: Vec::new(),
            excusable: Excusability::default(),
        },
    })))
}

/// Checks the name, the version and the parameters of a Constraint.
fn is_valid(document: &PolicyDocument<'_>, template: &Template, problems: &mut Vec<Problem>) -> bool {
    let before = problems.len();
    let name = document.name();
    let label = document.label();
    if !is_subdomain(name) {
        let message = format!("{} {name:?}: not a valid object name", template.kind);
        problems.push(document.whole(message).help("use a-z, 0-9, - and . for metadata.name"));
    }
    let version = document.node.get("apiVersion").text().unwrap_or_default();
    if !matches!(version.rsplit('/').next(), Some("v1beta1" | "v1alpha1")) {
        let message = format!("{label}: unsupported apiVersion {version}");
        let help = "use apiVersion: constraints.gatekeeper.sh/v1beta1";
        problems.push(document.problem(document.node.get("apiVersion"), message).help(help));
    }
    for error in template.schema.check(&document.node) {
        problems.push(document.problem_at(error.at, format!("{label}: {}", error.message)).help(error.help));
    }
    problems.len() == before
}

/// Returns the outcome of violations; `None` if no action is given for this enforcement point.
fn action(document: &PolicyDocument<'_>, point: EnforcementPoint) -> Result<Option<Outcome>, Problem> {
    let spec = document.node.get("spec");
    let enforcement = spec.get("enforcementAction");
    match enforcement.text() {
        None | Some("deny") => Ok(Some(Outcome::Fail)),
        Some("warn" | "dryrun") => Ok(Some(Outcome::Warn)),
        Some("scoped") => {
            let scoped = spec.get("scopedEnforcementActions");
            if scoped.is_null() {
                let message = format!("{}: enforcementAction scoped needs scopedEnforcementActions", document.label());
                return Err(document.problem(enforcement, message));
            }
            let mut strongest = None;
            for action in scoped.items() {
                let points = action.get("enforcementPoints").items();
                let mut points = points.iter().filter_map(|point| point.get("name").text());
                if points.any(|name| name == "*" || name == point.name()) {
                    let outcome = match action.get("action").text() {
                        Some("deny") => Outcome::Fail,
                        Some("warn" | "dryrun") => Outcome::Warn,
                        _ => return Err(unknown_action(document, action.get("action"))),
                    };
                    strongest = Some(strongest.map_or(outcome, |other: Outcome| other.min(outcome)));
                }
            }
            Ok(strongest)
        }
        Some(_) => Err(unknown_action(document, enforcement)),
    }
}

fn unknown_action(document: &PolicyDocument<'_>, node: &YamlNode) -> Problem {
    let message = format!("{}: unknown action {}", document.label(), node.json());
    document.problem(node, message).help("use deny, warn, dryrun or scoped")
}
