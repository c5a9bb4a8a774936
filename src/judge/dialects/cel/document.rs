//! The documents of the policy files that are admission policies or their bindings.

pub(super) use crate::judge::policy_document::PolicyDocument;
use crate::{
    judge::{
        policy_document::{self, warning},
        unjudged::Unjudged,
    },
    rego::{File, Problem},
};

/// The API group of admission policies.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// The API groups of Kyverno's policies and of CRDs, whose documents are read by other dialects.
const OF_OTHERS: [&str; 2] = ["policies.kyverno.io", "apiextensions.k8s.io"];

/// Why policies that change requests are not evaluated.
const MUTATES: &str = "it changes requests, and an existing object is not a request";

/// The admission policies among the policy files, before compilation.
#[derive(Default)]
pub(crate) struct AdmissionLibrary<'f> {
    pub(super) policies: Vec<PolicyDocument<'f>>,
    pub(super) bindings: Vec<PolicyDocument<'f>>,
    /// Those that do not apply to existing objects.
    pub(super) left_out: Vec<Unjudged>,
}

impl<'f> AdmissionLibrary<'f> {
    /// Adds the documents of a file if one of them is an admission policy or a binding; returns whether that was the
    /// case. `example` is whether the file belongs to a test suite.
    pub(crate) fn add(&mut self, file: &'f File, example: bool, problems: &mut Vec<Problem>) -> bool {
        if !file.text.contains(GROUP) || !file.text.contains("AdmissionPolicy") {
            return false;
        }
        let Some(documents) = policy_document::of_dialect(file, example, is_policy, problems) else { return false };
        for document in documents {
            match document.kind() {
                _ if !is_policy(&document) => {
                    if !example && !OF_OTHERS.contains(&document.type_of().0) {
                        let label = document.label();
                        let message =
                            format!("{label}: a Kubernetes object is neither policy nor data; it is not used");
                        let help = "move it out of the policy paths; parameters of admission policies are read from \
                                    the checked manifests or the cluster";
                        problems.push(warning(document.whole(message)).help(help));
                    }
                }
                "ValidatingAdmissionPolicy" => self.policies.push(document),
                "ValidatingAdmissionPolicyBinding" => self.bindings.push(document),
                _ => self.left_out.push(document.unjudged(MUTATES)),
            }
        }
        true
    }
}

/// Whether a document is an admission policy or a binding.
fn is_policy(document: &PolicyDocument<'_>) -> bool {
    let (group, kind) = document.type_of();
    let kinds = ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"];
    group == GROUP && kinds.into_iter().any(|of| kind.strip_suffix("Binding").unwrap_or(kind) == of)
}
