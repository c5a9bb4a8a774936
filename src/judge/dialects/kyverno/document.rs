//! The documents of the policy files that are Kyverno's policies or exceptions.

use crate::{
    judge::{
        policy_document::{self, PolicyDocument, warning},
        unjudged::Unjudged,
    },
    rego::{File, Problem},
};

/// The API group of Kyverno's policies in CEL.
pub(crate) const GROUP: &str = "policies.kyverno.io";

/// The kinds that are not evaluated, without the prefix `Namespaced`, and why.
const NOT_APPLICABLE: [(&str, &str); 4] = [
    ("ImageValidatingPolicy", "it verifies signatures of images, which kaudit does not download"),
    ("MutatingPolicy", "it changes objects, and does not say which are wrong"),
    ("GeneratingPolicy", "it creates objects, and does not say which are wrong"),
    ("DeletingPolicy", "it deletes objects, and does not say which are wrong"),
];

/// Kyverno's policies and exceptions among the policy files, before compilation.
#[derive(Default)]
pub(crate) struct KyvernoLibrary<'f> {
    pub(super) policies: Vec<PolicyDocument<'f>>,
    pub(super) exceptions: Vec<PolicyDocument<'f>>,
    /// Those that do not apply to existing objects.
    pub(super) left_out: Vec<Unjudged>,
}

impl<'f> KyvernoLibrary<'f> {
    /// Adds the documents of a file if one of them is Kyverno's; returns whether that was the case. `example` is whether
    /// the file belongs to a test suite.
    pub(crate) fn add(&mut self, file: &'f File, example: bool, problems: &mut Vec<Problem>) -> bool {
        if !file.text.contains(GROUP) {
            return false;
        }
        let Some(documents) = policy_document::of_dialect(file, example, is_of_kyverno, problems) else { return false };
        for document in documents {
            let kind = document.kind();
            let reason = NOT_APPLICABLE.iter().find(|(name, _)| *name == without_scope(kind));
            match (is_of_kyverno(&document), kind, reason) {
                (false, ..) => problems.extend(not_used(&document)),
                (true, "PolicyException", _) => self.exceptions.push(document),
                (true, _, Some((_, reason))) => self.left_out.push(document.unjudged(*reason)),
                (true, ..) => self.policies.push(document),
            }
        }
        true
    }
}

/// Returns the warning about a document that is no policy; none about an example, or one that another dialect reads.
fn not_used(document: &PolicyDocument<'_>) -> Option<Problem> {
    let (group, _) = document.type_of();
    if document.example || ["admissionregistration.k8s.io", "apiextensions.k8s.io"].contains(&group) {
        return None;
    }
    let message = format!("{}: a Kubernetes object is neither policy nor data; it is not used", document.label());
    Some(warning(document.whole(message)).help("move it out of the policy paths"))
}

/// Returns the kind without the prefix of the variant for one namespace.
fn without_scope(kind: &str) -> &str {
    kind.strip_prefix("Namespaced").unwrap_or(kind)
}

/// Whether a document is a policy or an exception of Kyverno.
pub(crate) fn is_of_kyverno(document: &PolicyDocument<'_>) -> bool {
    let (group, kind) = document.type_of();
    let kind = without_scope(kind);
    let is_known = || kind == "ValidatingPolicy" || NOT_APPLICABLE.iter().any(|(name, _)| *name == kind);
    group == GROUP && (kind == "PolicyException" || is_known())
}
