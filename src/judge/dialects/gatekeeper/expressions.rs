//! Templates whose code is CEL (engine `K8sNativeValidation`): their expressions are those of a
//! `ValidatingAdmissionPolicy` whose parameter is the Constraint.
//!
//! As in Gatekeeper's package `pkg/drivers/k8scel`, only variables can read the Constraint (`params`); the other
//! expressions read `variables.params`, its parameters, and `variables.anyObject`, the object or that which is deleted.
//! What Gatekeeper would report as an error for every object, such as an expression that does not compile, is refused.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{MatchCondition, Validation, Variable};
use kaudit_cel::{Environment, PER_EXPRESSION};
use serde::Deserialize;
use serde_json::Value as Json;

use super::template;
use crate::{
    judge::{
        dialects::cel::{
            binding::BoundPolicy,
            matching::AdmissionMatch,
            policy::{AdmissionPolicy, ExpressionCompiler, NamedExpression, PolicyEngine},
        },
        metadata::Metadata,
        policy_document::PolicyDocument,
    },
    model::verdict::Outcome,
    rego::{Problem, analysis::yaml::YamlNode},
};

/// The prefix of names that Gatekeeper reserves.
const RESERVED_PREFIX: &str = "gatekeeper_internal_";
/// The variable with the parameters of the Constraint.
const PARAMS: &str = "params";
/// The variable with the object, or the old one of a deletion.
const ANY_OBJECT: &str = "anyObject";

/// The variables that Gatekeeper defines, each with its expression.
const VARIABLES: [(&str, &str); 2] = [
    (ANY_OBJECT, "has(request.operation) && request.operation == 'DELETE' && object == null ? oldObject : object"),
    (PARAMS, "has(params.spec) && has(params.spec.parameters) ? params.spec.parameters : null"),
];

/// The code of a template.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TemplateSource {
    failure_policy: Option<String>,
    /// The conditions; the field has the name of a single one.
    #[serde(rename = "matchCondition", default)]
    conditions: Option<Vec<MatchCondition>>,
    variables: Option<Vec<Variable>>,
    validations: Option<Vec<Validation>>,
}

/// A Constraint of a template whose code is CEL.
#[derive(Debug, Clone)]
pub(crate) struct ConstraintExpressions {
    /// The expressions, with the Constraint's name as rule.
    pub(crate) bound: BoundPolicy,
    /// The Constraint, with the defaults of its parameters.
    pub(crate) constraint: Json,
}

impl ConstraintExpressions {
    /// Joins the expressions of a template with a Constraint.
    pub(super) fn new(
        document: &PolicyDocument<'_>,
        policy: &Arc<AdmissionPolicy>,
        metadata: Metadata,
        outcome: Outcome,
    ) -> Self {
        let bound = BoundPolicy::new(document, document.name().into(), policy, metadata, (None, None, outcome));
        let bound = BoundPolicy { errors_are_violations: true, ..bound };
        Self { bound, constraint: document.node.json() }
    }
}

/// Compiles the expressions of a template; `None` if it is refused, with the reasons added to `problems`.
pub(crate) fn compile(
    document: &PolicyDocument<'_>,
    kind: &Arc<str>,
    problems: &mut Vec<Problem>,
) -> Option<AdmissionPolicy> {
    let before = problems.len();
    let node = template::expressions(document)?;
    let given = match serde_json::from_value::<TemplateSource>(node.json()) {
        Ok(given) => given,
        Err(why) => {
            let message = format!("{}: invalid source: {why}", document.label());
            problems.push(document.problem(node, message).help("source needs validations, each with an expression"));
            return None;
        }
    };
    let mut compiler = ExpressionCompiler { document, spec: node, problems, of_gatekeeper: true };
    let fails_on_errors = compiler.failure_policy(given.failure_policy.as_deref());
    let mut environment = Environment::admission(true).without_authorizer();
    let variables = compiler.template_variables(&mut environment, &given.variables.unwrap_or_default());
    let restricted = environment.clone().without_params();
    let conditions = given.conditions.unwrap_or_default();
    compiler.check_names(&conditions);
    let conditions = compiler.conditions(&restricted, "matchCondition", &conditions);
    let validations = compiler.validations(&restricted, &given.validations.unwrap_or_default());
    let policy = AdmissionPolicy {
        name: Arc::clone(kind),
        matching: AdmissionMatch::default(),
        param_kind: None,
        fails_on_errors,
        engine: PolicyEngine::Gatekeeper,
        // Gatekeeper limits all validations together as the API server limits one.
        budget: PER_EXPRESSION,
        conditions,
        // In Gatekeeper, conditions can use variables.
        condition_environment: environment.clone(),
        environment,
        variables,
        validations,
        annotations: Vec::new(),
    };
    (!problems[before..].iter().any(Problem::is_refusal)).then_some(policy)
}

impl ExpressionCompiler<'_, '_> {
    /// Declares the variables that Gatekeeper defines, and those of a template. Returns them, without the whole object.
    fn template_variables(&mut self, environment: &mut Environment, given: &[Variable]) -> Vec<NamedExpression> {
        let mut variables = Vec::new();
        let own = given.iter().enumerate().map(|(index, variable)| {
            (self.node("variables", index, "expression"), variable.name.as_str(), variable.expression.as_str())
        });
        let nodes: Vec<(&YamlNode, &str, &str)> =
            VARIABLES.iter().map(|(name, text)| (self.spec, *name, *text)).chain(own).collect();
        for (index, (node, name, text)) in nodes.into_iter().enumerate() {
            if index >= VARIABLES.len() && (VARIABLES.iter().any(|(own, _)| *own == name) || is_reserved(name)) {
                self.problem(node, &format!("the name {name} is reserved: give the variable another"));
            }
            let Some(expression) = self.expression(environment, node, text, &[]) else { continue };
            if name != ANY_OBJECT {
                variables.push(NamedExpression { name: name.into(), expression });
            }
            if let Err(error) = environment.add_variable(name, text) {
                self.refuse(node, text, &error);
            }
        }
        variables
    }

    fn check_names(&mut self, conditions: &[MatchCondition]) {
        for (index, condition) in conditions.iter().enumerate().filter(|(_, one)| is_reserved(&one.name)) {
            let node = self.node("matchCondition", index, "name");
            self.problem(node, &format!("the name {} is reserved: give the condition another", condition.name));
        }
    }
}

fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}
