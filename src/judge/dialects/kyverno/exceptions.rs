//! Reads Kyverno's exceptions, and finds those for a policy.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MatchCondition;
use kaudit_cel::Environment;
use serde::Deserialize;

use crate::{
    judge::{
        dialects::cel::{
            exemption::PolicyExemption,
            policy::{ExpressionCompiler, spec},
        },
        policy_document::{PolicyDocument, warning},
    },
    model::exception::Excuse,
    rego::Problem,
};

/// The annotation with the reason.
const DESCRIPTION: &str = "policies.kyverno.io/description";

/// A `PolicyException`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct KyvernoExceptionSpec {
    policy_refs: Vec<PolicyReference>,
    match_conditions: Vec<MatchCondition>,
    images: Vec<String>,
    allowed_values: Vec<String>,
    expires_at: Option<String>,
}

/// A policy that an exception is for.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PolicyReference {
    kind: String,
    name: String,
}

/// The exceptions of all policies.
pub(super) struct KyvernoExceptions(Vec<(Vec<PolicyReference>, Arc<PolicyExemption>)>);

impl KyvernoExceptions {
    /// Reads the exceptions, and warns of those for policies that are not evaluated; invalid ones are problems.
    pub(super) fn read(
        documents: &[PolicyDocument<'_>],
        policies: &[PolicyDocument<'_>],
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut exceptions = Vec::new();
        for document in documents {
            let Some((references, exemption)) = read(document, problems) else { continue };
            let is_known = |one: &PolicyReference| policies.iter().any(|policy| one.names(policy));
            // KyvernoExceptions for other kinds of policies are of no interest here.
            let missing = references
                .iter()
                .filter(|one| one.kind.ends_with("ValidatingPolicy"))
                .find(|one| !one.kind.contains("Image") && !is_known(one));
            if let Some(PolicyReference { kind, name }) = missing {
                let message = format!("{}: there is no {kind} {name}", document.label());
                problems.push(warning(document.whole(message)).help("correct spec.policyRefs, or add the policy"));
            }
            exceptions.push((references, Arc::new(exemption)));
        }
        Self(exceptions)
    }

    /// Returns the exceptions for a policy.
    pub(super) fn of(&self, policy: &PolicyDocument<'_>) -> Vec<Arc<PolicyExemption>> {
        let named = self.0.iter().filter(|(references, _)| references.iter().any(|one| one.names(policy)));
        named.map(|(_, exemption)| Arc::clone(exemption)).collect()
    }
}

impl PolicyReference {
    fn names(&self, policy: &PolicyDocument<'_>) -> bool {
        self.kind == policy.kind() && self.name == policy.name()
    }
}

/// Reads an exception; `None` if it is refused, with the reasons added to `problems`.
fn read(document: &PolicyDocument<'_>, problems: &mut Vec<Problem>) -> Option<(Vec<PolicyReference>, PolicyExemption)> {
    let before = problems.len();
    let given = spec::<KyvernoExceptionSpec>(document, problems)?;
    let expires = given.expires_at.as_deref().map(str::parse::<Timestamp>).transpose().unwrap_or_else(|_| {
        let label = document.label();
        let message = format!("{label}: spec.expiresAt must be an RFC 3339 time, for example 2026-12-31T00:00:00Z");
        problems.push(document.problem(document.node.at(&["spec", "expiresAt"]), message));
        None
    });
    let spec = document.node.get("spec");
    let mut compiler = ExpressionCompiler { document, spec, problems, of_gatekeeper: false };
    let conditions = compiler.conditions(&Environment::kyverno(), "matchConditions", &given.match_conditions);
    let metadata = document.node.get("metadata");
    let namespace = metadata.get("namespace").text().map_or(String::new(), |namespace| format!("{namespace}/"));
    let reason = metadata.get("annotations").get(DESCRIPTION).text().unwrap_or_default().trim();
    let exemption = PolicyExemption {
        excuse: Arc::new(Excuse::kyverno(&format!("{namespace}{}", document.name()), reason, expires)),
        conditions,
        images: given.images,
        values: given.allowed_values,
        expires,
    };
    let is_refused = problems[before..].iter().any(Problem::is_refusal);
    (!is_refused).then_some((given.policy_refs, exemption))
}
