//! Evaluates templates whose code is CEL for Constraints: the variables of their expressions are those that Gatekeeper
//! would set.

use std::time::Instant;

use serde_json::{Map, Value as Json, json};

use super::{
    admission_policies::read_json,
    constraints::matches,
    input::{Extent, JobValues, Operation, Review},
    job::Job,
    object::{ObjectEvaluation, error},
};
use crate::judge::dialects::{
    cel::{
        evaluation::{BindingResults, Evaluation},
        explain::PolicyExplanation,
    },
    gatekeeper::{constraint::Constraint, expressions::ConstraintExpressions},
};

/// The variables of a template's expressions, except for those of the Constraint.
pub(super) struct ExpressionInput {
    /// Null if the object is deleted.
    object: Json,
    /// Null unless the object is changed or deleted.
    old: Json,
    request: Json,
    namespace: Option<Json>,
}

impl ExpressionInput {
    /// Reads the object of a job as Gatekeeper's audit does: no operation, and no old object.
    ///
    /// # Errors
    /// Returns why the object or its Namespace cannot be read.
    pub(super) fn of_job(job: &Job, review: &Review) -> Result<Self, String> {
        let (object, _) = read_json(&job.object)?;
        let namespace = job.namespace.as_ref().map(read_json).transpose()?.map(|(namespace, _)| namespace);
        Ok(Self { object, old: Json::Null, request: request(review)?, namespace })
    }

    /// Takes the objects of a given `AdmissionReview`. `object` of a deletion is null, as in the API server.
    ///
    /// # Errors
    /// Returns why the request cannot be converted to JSON.
    pub(super) fn given(given: &Json, review: &Review, namespace: Option<Json>) -> Result<Self, String> {
        let (request, state) = (request(review)?, |name: &str| given["request"][name].clone());
        let object = if request["operation"] == "DELETE" { Json::Null } else { state("object") };
        Ok(Self { object, old: state("oldObject"), request, namespace })
    }

    fn evaluation<'e>(&'e self, expressions: &'e ConstraintExpressions, deadline: Instant) -> Evaluation<'e> {
        Evaluation {
            policy: &expressions.bound.policy,
            object: &self.object,
            old: Some(&self.old),
            request: &self.request,
            params: Some(&expressions.constraint),
            namespace: self.namespace.as_ref(),
            exceptions: None,
            others: None,
            deadline,
        }
    }
}

/// Returns `request` of the expressions: the admission request without the objects.
fn request(review: &Review) -> Result<Json, String> {
    let document = serde_json::to_value(&review.document).map_err(|why| why.to_string())?;
    let given = |field: &str| Some(document[field].clone()).filter(|value| !value.is_null());
    let (kind, resource) = (document["kind"].clone(), document["resource"].clone());
    let operation = document["operation"].as_str().filter(|name| OPERATIONS.contains(name)).unwrap_or_default();
    let mut request = json!({
        "uid": "",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "operation": operation,
        "userInfo": given("userInfo").unwrap_or_else(|| Map::new().into()),
        "dryRun": document["dryRun"] == true,
        "options": document["options"],
    });
    let named = ["name", "namespace", "subResource"].map(|field| (field, given(field)));
    let sub_resource = ("requestSubResource", given("subResource"));
    for (field, value) in named.into_iter().chain([sub_resource]) {
        if let Some(value) = value.filter(|value| value != "") {
            request[field] = value;
        }
    }
    Ok(request)
}

/// The operations of requests.
const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

impl ObjectEvaluation<'_> {
    /// Evaluates the expressions of one Constraint for one review; `input` reads their variables.
    pub(super) fn expressions<'i>(
        &mut self,
        (constraint, expressions): (&Constraint, &ConstraintExpressions),
        review: &Review,
        input: impl FnOnce() -> Result<&'i ExpressionInput, String>,
    ) {
        let rule = &constraint.rule;
        let failed = |why: &str| error(&constraint.policy, &rule.name, rule.source.clone(), why);
        match matches(constraint, review) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => return self.results.push(failed(&format!("cannot be matched: {why}"))),
        }
        let input = match input() {
            Ok(input) => input,
            Err(why) => return self.results.push(failed(&format!("the object cannot be read: {why}"))),
        };
        let evaluation = input.evaluation(expressions, Instant::now() + self.limits.input);
        let mut own = BindingResults::default();
        expressions.bound.evaluate_with(&evaluation, &mut own);
        self.results.unfinished |= own.unfinished;
        if own.is_evaluated && own.findings.is_empty() && own.undecided.is_empty() {
            self.results.pass(rule);
        }
        self.results.extend(own.findings);
        own.undecided.into_iter().for_each(|error| self.results.push_undecided(error));
    }
}

/// Explains a Constraint of a template whose code is CEL, for the object of a job in this state.
///
/// # Errors
/// Returns why the object or its Namespace cannot be read.
pub(crate) fn explain_constraint(
    job: &Job,
    constraint: &Constraint,
    object: &Json,
) -> Result<PolicyExplanation, String> {
    let values = JobValues::read(job, Extent::All)?;
    let review = match applicable(job, &values, constraint) {
        Ok(review) => review,
        Err(why) => return Ok(PolicyExplanation::NotEvaluated(why)),
    };
    let Some(expressions) = &constraint.expressions else { return Ok(PolicyExplanation::Evaluated(Vec::new())) };
    let input = ExpressionInput { object: object.clone(), ..ExpressionInput::of_job(job, &review)? };
    let evaluation = input.evaluation(expressions, Instant::now() + job.policies.limits.input);
    Ok(evaluation.explain().map_or_else(PolicyExplanation::NotEvaluated, PolicyExplanation::Evaluated))
}

/// Returns the review of a job's object for a Constraint.
///
/// # Errors
/// Returns why the Constraint does not apply to it.
pub(super) fn applicable(job: &Job, values: &JobValues<'_>, constraint: &Constraint) -> Result<Review, String> {
    let review = values.review(Operation::Audit);
    match matches(constraint, &review) {
        Err(why) => Err(format!("the Constraint cannot be matched: {why}")),
        Ok(false) => Err("spec.match of the Constraint does not match it".to_owned()),
        Ok(true) if job.policies.config.exempts(&job.object.key, &values.object) => {
            Err("a Config of Gatekeeper exempts its namespace".to_owned())
        }
        Ok(true) => Ok(review),
    }
}
