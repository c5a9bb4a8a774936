//! Evaluates a bound policy on one object, as the API server evaluates the request that would create it.

use std::{sync::Arc, time::Instant};

use kaudit_cel::{Bindings, Budget, CelValue, EvalError, PER_POLICY, Root};
use serde_json::{Map, Value as Json, json};

use super::{
    binding::BoundPolicy,
    expression::{Expression, usable_message},
    lookup::OtherObjects,
    matching::{AdmissionMatch, MatchedResource},
    params::ParamError,
    policy::{AdmissionPolicy, NamedExpression, PolicyEngine, PolicyValidation},
    reads::UnknownPart,
    request::Subject,
};
use crate::model::verdict::{Finding, Outcome, RuleDescriptor};

/// The budget of match conditions, as in the API server.
const CONDITIONS_BUDGET: u64 = PER_POLICY / 4;

/// The results of a bound policy for one object.
#[derive(Debug, Default)]
pub(crate) struct BindingResults {
    /// Whether the policy was evaluated on the object.
    pub(crate) is_evaluated: bool,
    pub(crate) findings: Vec<Finding>,
    /// Errors that may not recur for the same object.
    pub(crate) undecided: Vec<Finding>,
    /// Whether an evaluation ran out of time.
    pub(crate) unfinished: bool,
}

/// Why a policy is not evaluated on an object.
pub(crate) enum NotEvaluated {
    /// It does not apply, for this reason.
    NotApplicable(String),
    /// It might apply, but cannot be evaluated.
    Error(String),
    /// The same, for a reason that may not recur.
    Undecided(String),
}

/// One evaluation of the expressions of a policy: for one parameter, or without any.
pub(crate) struct Evaluation<'e> {
    pub(crate) policy: &'e AdmissionPolicy,
    pub(crate) object: &'e Json,
    /// `None` if the evaluation is that of a creation.
    pub(crate) old: Option<&'e Json>,
    pub(crate) request: &'e Json,
    pub(crate) params: Option<&'e Json>,
    pub(crate) namespace: Option<&'e Json>,
    /// What Kyverno's exceptions allow; `None` in other policies.
    pub(crate) exceptions: Option<&'e Json>,
    /// The objects among which expressions look up others; `None` if they cannot.
    pub(crate) others: Option<&'e OtherObjects>,
    pub(crate) deadline: Instant,
}

/// Whether the match conditions of a policy hold.
pub(crate) enum MatchConditions {
    Hold,
    /// One is false.
    DoNot(Arc<str>),
    /// None is false, but some cannot be known: the first with what it needs.
    Unknown(Arc<str>, UnknownPart),
    Failed(String),
    Interrupted(EvalError),
}

/// The value of one validation.
pub(crate) enum Validity {
    Holds,
    Violated,
    /// It needs this, which an audit does not know.
    Unknown(UnknownPart),
    Failed(String),
}

impl BoundPolicy {
    /// Evaluates the policy on an object until a deadline.
    pub(crate) fn evaluate(&self, subject: &Subject<'_>, request: &Json, deadline: Instant) -> BindingResults {
        let mut results = BindingResults::default();
        let params = match self.params(subject) {
            Ok(params) => params,
            Err(NotEvaluated::NotApplicable(_)) => return results,
            Err(NotEvaluated::Error(why)) => {
                results.findings.push(self.error(&self.descriptor, &why));
                return results;
            }
            Err(NotEvaluated::Undecided(why)) => {
                results.undecided.push(self.error(&self.descriptor, &why));
                return results;
            }
        };
        let own_request = self.own_request(subject, request);
        let request = own_request.as_ref().unwrap_or(request);
        let exempted = self.exempted(&self.evaluation(subject, request, None, deadline));
        for param in &params {
            let evaluation = self.evaluation(subject, request, param.as_ref(), deadline);
            self.evaluate_with(&Evaluation { exceptions: exempted.allowed(), ..evaluation }, &mut results);
        }
        exempted.apply(self, &mut results);
        results
    }

    /// Returns `request` with the object, if the policy may read it there.
    pub(super) fn own_request(&self, subject: &Subject<'_>, request: &Json) -> Option<Json> {
        self.reads_request_object.then(|| {
            let mut request = request.clone();
            request["object"] = subject.object.clone();
            request
        })
    }

    /// Returns the evaluation for one parameter.
    pub(crate) fn evaluation<'e>(
        &'e self,
        subject: &Subject<'e>,
        request: &'e Json,
        params: Option<&'e Json>,
        deadline: Instant,
    ) -> Evaluation<'e> {
        let namespace = subject.namespace_object;
        Evaluation {
            policy: &self.policy,
            object: subject.object,
            old: subject.old,
            request,
            params,
            namespace,
            exceptions: None,
            others: Some(&self.others),
            deadline,
        }
    }

    /// Returns the parameters with which the policy is evaluated on an object; one that is `None` without `paramRef`.
    ///
    /// # Errors
    /// Returns why it is not evaluated.
    pub(crate) fn params(&self, subject: &Subject<'_>) -> Result<Vec<Option<Json>>, NotEvaluated> {
        if let Some(own) = self.namespace.as_deref().filter(|own| subject.namespace != Some(*own)) {
            return Err(NotEvaluated::NotApplicable(format!("it applies to objects in namespace {own} only")));
        }
        check_match(&self.policy.matching, "matchConstraints", subject)?;
        if let Some(matching) = &self.matching {
            check_match(matching, "matchResources of the binding", subject)?;
        }
        let namespace_is_missing = subject.namespace_object.is_none() && subject.namespace.is_some();
        if let Some(name) = subject.namespace.filter(|_| namespace_is_missing && !subject.is_namespace())
            && self.reads_namespace
        {
            return Err(NotEvaluated::Error(format!("it reads the Namespace {name}, which was not found")));
        }
        if let Some(why) = self.others.unread(subject) {
            return Err(NotEvaluated::Undecided(why));
        }
        let Some(parameters) = &self.parameters else { return Ok(vec![None]) };
        match parameters.find(&self.others, subject) {
            Ok(params) if params.is_empty() && parameters.must_exist => {
                self.invalid("no params found for policy binding with `Deny` parameterNotFoundAction")
            }
            Ok(params) if params.is_empty() => {
                Err(NotEvaluated::NotApplicable("its parameters do not exist, which paramRef allows".to_owned()))
            }
            Ok(params) => Ok(params.into_iter().map(Some).collect()),
            // Without the kind, violations for its former objects do not stay open.
            Err(ParamError::UnknownKind(why)) => Err(NotEvaluated::Error(why)),
            Err(ParamError::Invalid(why)) => self.invalid(&why),
        }
    }

    /// Returns the effect of a wrong configuration, which the failure policy decides about.
    fn invalid<T>(&self, why: &str) -> Result<T, NotEvaluated> {
        let message = format!("failed to configure binding: {why}");
        Err(if self.policy.fails_on_errors {
            NotEvaluated::Error(message)
        } else {
            NotEvaluated::NotApplicable(format!("{message}; failurePolicy ignores it"))
        })
    }

    /// Adds the results of one evaluation.
    pub(crate) fn evaluate_with(&self, evaluation: &Evaluation<'_>, results: &mut BindingResults) {
        let unknown = match evaluation.conditions() {
            MatchConditions::Hold => None,
            MatchConditions::DoNot(_) => return,
            MatchConditions::Unknown(name, part) => Some((format!("the match condition {name}"), part)),
            MatchConditions::Failed(why) => {
                results.is_evaluated = true;
                results.findings.extend(self.failure(&self.descriptor, &why));
                return;
            }
            MatchConditions::Interrupted(error) => return self.interrupt(&error, results),
        };
        results.is_evaluated = true;
        let own = match self.validate(evaluation) {
            Ok(own) => own,
            Err(error @ (EvalError::Deadline | EvalError::TooLarge)) => return self.interrupt(&error, results),
            Err(error) => self.failure(&self.descriptor, &error.to_string()).into_iter().collect(),
        };
        match (unknown, own.first()) {
            (Some((expression, part)), Some(first)) => {
                let message = format!("{}; if it applies: {}", not_known(&expression, &part), first.message);
                results.findings.push(self.error(&first.rule, &message));
            }
            _ => results.findings.extend(own),
        }
    }

    /// Evaluates the validations.
    ///
    /// # Errors
    /// Returns why all of them failed together.
    fn validate(&self, evaluation: &Evaluation<'_>) -> Result<Vec<Finding>, EvalError> {
        let mut budget = Budget::new(self.policy.budget).until(evaluation.deadline);
        let validities = evaluation.validations(&mut budget)?;
        let all = || validities.iter().zip(&self.policy.validations).zip(&self.validations);
        let messages = evaluation.bindings(true);
        let annotations = self.annotations(evaluation)?;
        let mut findings: Vec<Finding> =
            annotations.errors.iter().map(|why| self.error(&self.descriptor, why)).collect();
        for ((validity, validation), descriptor) in all() {
            match validity {
                Validity::Holds => {}
                Validity::Violated => {
                    let message = self.message(validation, &messages, &mut budget)?;
                    let params = self.parameters.as_ref().and(evaluation.params);
                    let details = details(validation, params, &annotations.published);
                    findings.push(Finding { details, ..self.finding(descriptor, self.rule.outcome, &message) });
                }
                Validity::Unknown(part) => {
                    let why = not_known(&format!("the expression '{}'", validation.expression.text), part);
                    findings.push(self.error(descriptor, &why));
                }
                Validity::Failed(why) if self.policy.engine == PolicyEngine::Kyverno => {
                    findings.push(self.error(descriptor, why));
                }
                Validity::Failed(why) => findings.extend(self.failure(descriptor, why)),
            }
        }
        Ok(findings)
    }

    /// Returns the message of a violated validation: that of `messageExpression`, unless it is empty, too long, of several
    /// lines or fails; or else `message`; or else the expression.
    fn message<'v>(
        &self,
        validation: &'v PolicyValidation,
        bindings: &Bindings<'v>,
        budget: &mut Budget,
    ) -> Result<String, EvalError> {
        let may_have_lines = self.policy.engine == PolicyEngine::Kyverno;
        if let Some(expression) = validation.message_expression.as_ref().filter(|one| one.unknown.is_none()) {
            match evaluate(expression, bindings, budget) {
                Ok(Ok(CelValue::String(text))) => {
                    if let Some(text) = usable_message(&text, may_have_lines) {
                        return Ok(text.to_owned());
                    }
                }
                Ok(_) => {}
                Err(EvalError::OutOfBudget) => {
                    let why = format!("failed messageExpression: {}", EvalError::OutOfBudget);
                    return Err(EvalError::Failed(why.into()));
                }
                Err(error) => return Err(error),
            }
        }
        let given = validation.message.as_deref().map(str::trim).filter(|text| !text.is_empty());
        Ok(given.map_or_else(|| format!("failed expression: {}", validation.expression.text.trim()), str::to_owned))
    }

    /// Evaluates the audit annotations.
    fn annotations(&self, evaluation: &Evaluation<'_>) -> Result<AuditAnnotations, EvalError> {
        let mut annotations = AuditAnnotations::default();
        if self.policy.annotations.is_empty() {
            return Ok(annotations);
        }
        let (bindings, mut budget) = (evaluation.bindings(true), Budget::default().until(evaluation.deadline));
        for annotation in self.policy.annotations.iter().filter(|annotation| annotation.expression.unknown.is_none()) {
            match evaluate(&annotation.expression, &bindings, &mut budget)? {
                Ok(CelValue::String(text)) if !text.trim().is_empty() => {
                    annotations.published.insert(annotation.name.to_string(), text.trim().into());
                }
                Err(why) if self.policy.fails_on_errors || self.policy.engine == PolicyEngine::Kyverno => {
                    annotations.errors.push(why);
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(annotations)
    }

    /// Returns the result of an error that the failure policy decides about.
    fn failure(&self, descriptor: &Arc<RuleDescriptor>, why: &str) -> Option<Finding> {
        self.policy.fails_on_errors.then(|| {
            if self.errors_are_violations {
                self.finding(descriptor, self.rule.outcome, why)
            } else {
                self.error(descriptor, why)
            }
        })
    }

    fn interrupt(&self, error: &EvalError, results: &mut BindingResults) {
        results.unfinished |= *error == EvalError::Deadline;
        let finding = self.error(&self.descriptor, &error.to_string());
        if results.unfinished { results.undecided.push(finding) } else { results.findings.push(finding) }
    }

    pub(super) fn error(&self, descriptor: &Arc<RuleDescriptor>, message: &str) -> Finding {
        Finding { severity: None, ..self.finding(descriptor, Outcome::Error, message) }
    }

    fn finding(&self, descriptor: &Arc<RuleDescriptor>, outcome: Outcome, message: &str) -> Finding {
        Finding {
            rule: Arc::clone(descriptor),
            outcome,
            severity: self.rule.metadata.severity,
            message: message.into(),
            details: None,
            excused: None,
        }
    }
}

/// Checks that rules match an object.
///
/// # Errors
/// Returns why the policy is not evaluated on it.
fn check_match(matching: &AdmissionMatch, field: &str, subject: &Subject<'_>) -> Result<(), NotEvaluated> {
    match matching.matches(subject) {
        Ok(MatchedResource::Yes) => Ok(()),
        Ok(MatchedResource::No) => Err(NotEvaluated::NotApplicable(format!("{field} do not match it"))),
        Ok(MatchedResource::InOtherVersions(versions)) => {
            let kind = &subject.key.kind;
            let own = kind.api_version();
            Err(NotEvaluated::Error(format!(
                "cannot be matched: {field} name {} in {versions}, and kaudit reads it in {own} and does not convert \
                 objects; add {} to apiVersions",
                kind.plural, kind.version
            )))
        }
        Err(why) => Err(NotEvaluated::Error(format!("cannot be matched: {why}"))),
    }
}

/// The audit annotations of one evaluation.
#[derive(Default)]
struct AuditAnnotations {
    published: Map<String, Json>,
    errors: Vec<String>,
}

impl<'e> Evaluation<'e> {
    /// Returns the values of variables; `namespaceObject` has none in match conditions.
    pub(crate) fn bindings(&self, has_namespace: bool) -> Bindings<'e> {
        let environment = if has_namespace { &self.policy.environment } else { &self.policy.condition_environment };
        let known = [
            (Root::Object, Some(self.object)),
            (Root::OldObject, self.old),
            (Root::Request, Some(self.request)),
            (Root::Params, self.params),
            (Root::NamespaceObject, self.namespace.filter(|_| has_namespace || self.is_of_kyverno())),
            (Root::Exceptions, self.exceptions),
        ];
        let mut bindings = Bindings::new(environment);
        if let Some(others) = self.others {
            bindings = bindings.with_lookup(others);
        }
        known.into_iter().fold(bindings, |bindings, (root, value)| match value {
            Some(value) => bindings.with(root, value),
            None => bindings,
        })
    }

    fn is_of_kyverno(&self) -> bool {
        self.policy.engine == PolicyEngine::Kyverno
    }

    /// Evaluates the match conditions. One that is false decides, whatever the others are.
    pub(crate) fn conditions(&self) -> MatchConditions {
        self.conditions_of(&self.policy.conditions)
    }

    /// Evaluates conditions that see the same variables as those of the policy.
    pub(super) fn conditions_of(&self, conditions: &'e [NamedExpression]) -> MatchConditions {
        let (bindings, mut budget) = (self.bindings(false), Budget::new(CONDITIONS_BUDGET).until(self.deadline));
        let (mut unknown, mut errors) = (None, Vec::new());
        for condition in conditions {
            match known(&condition.expression, &bindings, &mut budget) {
                Ok(KnownValue::Value(CelValue::Bool(false))) => {
                    return MatchConditions::DoNot(Arc::clone(&condition.name));
                }
                Ok(KnownValue::Value(_)) => {}
                Ok(KnownValue::Unknown(part)) => {
                    unknown.get_or_insert_with(|| (Arc::clone(&condition.name), part.clone()));
                }
                Ok(KnownValue::Failed(why)) => errors.push(why),
                Err(error @ (EvalError::Deadline | EvalError::TooLarge)) => return MatchConditions::Interrupted(error),
                Err(error) => return MatchConditions::Failed(error.to_string()),
            }
        }
        match (&errors[..], unknown) {
            ([], None) => MatchConditions::Hold,
            ([], Some((name, part))) => MatchConditions::Unknown(name, part),
            ([only], _) => MatchConditions::Failed(only.clone()),
            (several, _) => MatchConditions::Failed(format!("[{}]", several.join(", "))),
        }
    }

    /// Evaluates all validations; in Kyverno, those up to the first that does not hold.
    ///
    /// # Errors
    /// Returns the limit that ended the evaluation.
    pub(crate) fn validations(&self, budget: &mut Budget) -> Result<Vec<Validity>, EvalError> {
        let bindings = self.bindings(true);
        let mut validities = Vec::new();
        for PolicyValidation { expression, .. } in &self.policy.validations {
            let validity = match known(expression, &bindings, budget)? {
                KnownValue::Value(CelValue::Bool(true)) => Validity::Holds,
                KnownValue::Value(_) => Validity::Violated,
                KnownValue::Unknown(part) => Validity::Unknown(part.clone()),
                KnownValue::Failed(why) => Validity::Failed(why),
            };
            let is_last = self.is_of_kyverno() && !matches!(validity, Validity::Holds);
            validities.push(validity);
            if is_last {
                break;
            }
        }
        Ok(validities)
    }
}

/// The value of an expression, as far as an audit knows it.
enum KnownValue<'v> {
    Value(CelValue<'v>),
    Unknown(&'v UnknownPart),
    Failed(String),
}

/// Evaluates an expression. One that calls a function that is not implemented is known where the call does not matter.
///
/// # Errors
/// Returns the limit that ended the evaluation of the policy.
fn known<'v>(
    expression: &'v Expression,
    bindings: &Bindings<'v>,
    budget: &mut Budget,
) -> Result<KnownValue<'v>, EvalError> {
    if let Some(part @ UnknownPart::Request(_)) = &expression.unknown {
        return Ok(KnownValue::Unknown(part));
    }
    Ok(match (evaluate(expression, bindings, budget)?, &expression.unknown) {
        (Ok(value), _) => KnownValue::Value(value),
        (Err(_), Some(part)) => KnownValue::Unknown(part),
        (Err(why), None) => KnownValue::Failed(why),
    })
}

/// Evaluates an expression; an error of the expression itself is part of the value.
///
/// # Errors
/// Returns the limit that ended the evaluation of the policy.
fn evaluate<'v>(
    expression: &'v Expression,
    bindings: &Bindings<'v>,
    budget: &mut Budget,
) -> Result<Result<CelValue<'v>, String>, EvalError> {
    match expression.program.evaluate(bindings, budget) {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (EvalError::Failed(_) | EvalError::CostLimit)) => {
            Ok(Err(format!("expression '{}' resulted in error: {error}", expression.text)))
        }
        Err(error) => Err(error),
    }
}

/// Returns further output for a violation: the reason, the parameter, and the audit annotations.
fn details(
    validation: &PolicyValidation,
    params: Option<&Json>,
    annotations: &Map<String, Json>,
) -> Option<Arc<Map<String, Json>>> {
    let mut details = Map::new();
    details.extend(validation.reason.iter().map(|reason| ("reason".to_owned(), (&**reason).into())));
    if let Some(params) = params {
        let metadata = |field: &str| params["metadata"][field].as_str();
        let shown = [params["kind"].as_str(), metadata("namespace"), metadata("name")];
        let [kind, namespace, name] = shown.map(Option::unwrap_or_default);
        let named = json!({"kind": kind, "namespace": namespace, "name": name});
        details.insert("params".to_owned(), named);
    }
    if !annotations.is_empty() {
        details.insert("auditAnnotations".to_owned(), annotations.clone().into());
    }
    (!details.is_empty()).then(|| Arc::new(details))
}

/// Returns the message of a result that depends on something that an audit does not know.
pub(super) fn not_known(expression: &str, part: &UnknownPart) -> String {
    match part {
        UnknownPart::Request(_) => format!("cannot be evaluated on an existing object: {expression} {part}"),
        UnknownPart::Function(_) => format!("cannot be evaluated: {expression} {part}"),
    }
}
