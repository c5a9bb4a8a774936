//! Reads and compiles a `ValidatingAdmissionPolicy`.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, ParamKind, ValidatingAdmissionPolicySpec, Validation as GivenValidation,
};
use kaudit_cel::{CelReads, CelType, CompileError, Environment, PER_POLICY};

use super::{
    document::PolicyDocument,
    expression::{self, Expression},
    matching::AdmissionMatch,
    reads::{self, UnknownPart},
    validation,
};
use crate::{
    judge::rule::RuleText,
    rego::{Problem, ProblemSeverity, analysis::yaml::YamlNode},
};

/// A compiled `ValidatingAdmissionPolicy`.
#[derive(Debug)]
pub(crate) struct AdmissionPolicy {
    pub(crate) name: Arc<str>,
    pub(crate) matching: AdmissionMatch,
    pub(crate) param_kind: Option<ParamKind>,
    /// Whether errors of expressions are results: `failurePolicy: Fail`.
    pub(crate) fails_on_errors: bool,
    pub(crate) engine: PolicyEngine,
    /// The limit of the cost of all validations together.
    pub(crate) budget: u64,
    pub(crate) conditions: Vec<NamedExpression>,
    /// The environment of match conditions, which have no variables.
    pub(crate) condition_environment: Environment,
    pub(crate) environment: Environment,
    /// The variables by name, to show their values.
    pub(crate) variables: Vec<NamedExpression>,
    pub(crate) validations: Vec<PolicyValidation>,
    pub(crate) annotations: Vec<NamedExpression>,
}

/// The program whose results are reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyEngine {
    ApiServer,
    Gatekeeper,
    /// Match conditions can read the Namespace; the first validation that does not hold is the only result; errors of
    /// validations are results whatever the failure policy is; a message may have several lines.
    Kyverno,
}

/// An expression with a name: a match condition, a variable or an audit annotation.
#[derive(Debug)]
pub(crate) struct NamedExpression {
    pub(crate) name: Arc<str>,
    pub(crate) expression: Expression,
}

/// An entry of `validations`.
#[derive(Debug)]
pub(crate) struct PolicyValidation {
    pub(crate) expression: Expression,
    pub(crate) message: Option<Arc<str>>,
    pub(crate) message_expression: Option<Expression>,
    pub(crate) reason: Option<Arc<str>>,
}

impl AdmissionPolicy {
    /// Reads a policy; `None` if it is refused, with the reasons added to `problems`.
    pub(super) fn read(document: &PolicyDocument<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let spec = spec::<ValidatingAdmissionPolicySpec>(document, problems)?;
        let before = problems.len();
        validation::policy(document, problems);
        let is_valid = !problems[before..].iter().any(Problem::is_refusal);
        let environment = Environment::admission(spec.param_kind.is_some());
        Self::compile(document, spec, (environment, PolicyEngine::ApiServer), problems).filter(|_| is_valid)
    }

    /// Compiles a specification for an engine, in its environment; `None` if it is refused, with the reasons added to `problems`.
    pub(crate) fn compile(
        document: &PolicyDocument<'_>,
        spec: ValidatingAdmissionPolicySpec,
        (environment, engine): (Environment, PolicyEngine),
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let before = problems.len();
        let mut compiler =
            ExpressionCompiler { document, spec: document.node.get("spec"), problems, of_gatekeeper: false };
        let fails_on_errors = compiler.failure_policy(spec.failure_policy.as_deref());
        let matching = compiler.matching(&spec);
        let condition_environment = environment.clone();
        let conditions =
            compiler.conditions(&condition_environment, "matchConditions", &spec.match_conditions.unwrap_or_default());
        let mut environment = environment;
        let mut variables = Vec::new();
        for (index, variable) in spec.variables.iter().flatten().enumerate() {
            let node = compiler.node("variables", index, "expression");
            if let Some(expression) = compiler.expression(&environment, node, &variable.expression, &[]) {
                variables.push(NamedExpression { name: variable.name.as_str().into(), expression });
                if let Err(error) = environment.add_variable(&variable.name, &variable.expression) {
                    compiler.refuse(node, &variable.expression, &error);
                }
            }
        }
        let validations = compiler.validations(&environment, &spec.validations.unwrap_or_default());
        let mut annotations = Vec::new();
        for (index, annotation) in spec.audit_annotations.iter().flatten().enumerate() {
            let node = compiler.node("auditAnnotations", index, "valueExpression");
            let types = [CelType::String, CelType::Null];
            let expression = compiler.expression(&environment, node, &annotation.value_expression, &types);
            annotations.extend(
                expression.map(|expression| NamedExpression { name: annotation.key.as_str().into(), expression }),
            );
        }
        if validations.is_empty() && annotations.is_empty() && compiler.problems.len() == before {
            let node = document.node.get("spec");
            compiler.problem(node, "at least one of spec.validations and spec.auditAnnotations is required");
        }
        let policy = Self {
            name: document.name().into(),
            matching: matching?,
            param_kind: spec.param_kind,
            fails_on_errors,
            engine,
            budget: PER_POLICY,
            conditions,
            condition_environment,
            environment,
            variables,
            validations,
            annotations,
        };
        let is_refused = problems[before..].iter().any(Problem::is_refusal);
        (!is_refused).then_some(policy)
    }

    /// Returns everything that its expressions can read.
    pub(crate) fn reads(&self) -> CelReads {
        let mut all = CelReads::default();
        self.expressions().for_each(|expression| all.extend(expression.program.reads()));
        all
    }

    /// Returns what its expressions need and an audit does not know, each with the expression.
    pub(super) fn unknown(&self) -> impl Iterator<Item = (&UnknownPart, &Expression)> {
        self.expressions().filter_map(|expression| Some((expression.unknown.as_ref()?, expression)))
    }

    /// Returns the source of each validation.
    pub(crate) fn texts(&self) -> Vec<RuleText> {
        let expressions = self.validations.iter().map(|validation| &validation.expression);
        expressions.map(|own| RuleText { source: own.source.clone(), text: Arc::clone(&own.text) }).collect()
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let named = self.conditions.iter().chain(&self.annotations).map(|named| &named.expression);
        let validations = self.validations.iter();
        named.chain(validations.flat_map(|one| [&one.expression].into_iter().chain(&one.message_expression)))
    }
}

/// Reads the `spec` of a document; `None` if it is refused.
pub(crate) fn spec<S: serde::de::DeserializeOwned>(
    document: &PolicyDocument<'_>,
    problems: &mut Vec<Problem>,
) -> Option<S> {
    let node = document.node.get("spec");
    match serde_json::from_value(node.json()) {
        Ok(spec) => Some(spec),
        Err(why) => {
            let message = format!("{}: invalid spec: {why}", document.label());
            problems.push(document.problem(if node.is_null() { &document.node } else { node }, message));
            None
        }
    }
}

/// Compiles the expressions of a policy.
pub(crate) struct ExpressionCompiler<'d, 'f> {
    pub(crate) document: &'d PolicyDocument<'f>,
    /// The node with the lists of expressions.
    pub(crate) spec: &'d YamlNode,
    pub(crate) problems: &'d mut Vec<Problem>,
    /// Whether the expressions are those of a Gatekeeper template: all parts of the request count as known, as in its
    /// audit, and a messageExpression that does not compile is not used.
    pub(crate) of_gatekeeper: bool,
}

impl<'d> ExpressionCompiler<'d, '_> {
    pub(crate) fn node(&self, list: &str, index: usize, field: &str) -> &'d YamlNode {
        let entry = self.spec.get(list).items().get(index);
        entry.map_or(&self.document.node, |entry| entry.get(field))
    }

    pub(crate) fn problem(&mut self, node: &YamlNode, message: &str) {
        let message = format!("{}: {message}", self.document.label());
        self.problems.push(self.document.problem(node, message));
    }

    pub(crate) fn failure_policy(&mut self, given: Option<&str>) -> bool {
        match given {
            None | Some("Fail") => true,
            Some("Ignore") => false,
            Some(other) => {
                let node = self.spec.get("failurePolicy");
                self.problem(node, &format!("unknown failurePolicy {other:?}: use Fail or Ignore"));
                true
            }
        }
    }

    fn matching(&mut self, spec: &ValidatingAdmissionPolicySpec) -> Option<AdmissionMatch> {
        let path = ["spec", "matchConstraints"];
        match AdmissionMatch::read(spec.match_constraints.as_ref()?) {
            Ok(matching) => Some(matching),
            Err((field, why)) => {
                let node = self.document.node.at(&path).get(field);
                self.problem(node, &format!("matchConstraints.{field}: {why}"));
                None
            }
        }
    }

    /// Compiles the conditions in a list of this name.
    pub(crate) fn conditions(
        &mut self,
        environment: &Environment,
        list: &str,
        given: &[MatchCondition],
    ) -> Vec<NamedExpression> {
        let mut conditions = Vec::new();
        for (index, condition) in given.iter().enumerate() {
            let node = self.node(list, index, "expression");
            let expression = self.expression(environment, node, &condition.expression, &[CelType::Bool]);
            conditions.extend(
                expression.map(|expression| NamedExpression { name: condition.name.as_str().into(), expression }),
            );
        }
        conditions
    }

    pub(crate) fn validations(
        &mut self,
        environment: &Environment,
        given: &[GivenValidation],
    ) -> Vec<PolicyValidation> {
        let of_messages = environment.clone().without_authorizer();
        let mut validations = Vec::new();
        for (index, validation) in given.iter().enumerate() {
            let node = self.node("validations", index, "expression");
            let expression = self.expression(environment, node, &validation.expression, &[CelType::Bool]);
            let message = validation.message_expression.as_deref().filter(|text| !text.is_empty()).and_then(|text| {
                let node = self.node("validations", index, "messageExpression");
                let before = self.problems.len();
                let message = self.expression(&of_messages, node, text, &[CelType::String]);
                if self.of_gatekeeper {
                    self.problems[before..].iter_mut().for_each(unused_message);
                }
                message
            });
            let text = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
            validations.extend(expression.map(|expression| PolicyValidation {
                expression,
                message: text(&validation.message),
                message_expression: message,
                reason: text(&validation.reason),
            }));
        }
        validations
    }

    /// Compiles an expression whose value must be of one of these types, or of any if there are none; `None` if it is
    /// refused.
    pub(crate) fn expression(
        &mut self,
        environment: &Environment,
        node: &YamlNode,
        text: &str,
        types: &[CelType],
    ) -> Option<Expression> {
        let compiled = expression::compile((self.document, node), environment, text, types, self.problems)?;
        let unknown = reads::unknown(compiled.program.reads()).filter(|_| !self.of_gatekeeper);
        Some(Expression { unknown, ..compiled })
    }

    /// Reports the problems of an expression.
    pub(crate) fn refuse(&mut self, node: &YamlNode, text: &str, error: &CompileError) {
        expression::refuse((self.document, node), text, error, self.problems);
    }
}

/// Turns the problem of a messageExpression into a warning.
fn unused_message(problem: &mut Problem) {
    problem.severity = ProblemSeverity::Warning;
    "as in Gatekeeper, message or the expression is shown instead".clone_into(&mut problem.help);
}
