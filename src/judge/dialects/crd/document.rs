//! The documents of the policy files that are CRDs.

use crate::{
    judge::{
        policy_document::{self, PolicyDocument, warning},
        unjudged::Unjudged,
    },
    rego::{File, Problem, analysis::yaml::YamlNode},
};

/// The API group of CRDs.
const GROUP: &str = "apiextensions.k8s.io";
/// The API groups of policies that other dialects read.
const OF_OTHERS: [&str; 2] = ["admissionregistration.k8s.io", "policies.kyverno.io"];
/// The field of a schema with its rules.
pub(super) const RULES: &str = "x-kubernetes-validations";

/// The CRDs among the policy files, before compilation.
#[derive(Default)]
pub(crate) struct CrdLibrary<'f> {
    pub(super) documents: Vec<PolicyDocument<'f>>,
    /// Those without rules.
    pub(super) left_out: Vec<Unjudged>,
}

impl<'f> CrdLibrary<'f> {
    /// Adds the documents of a file if one of them is a CRD with rules; returns whether that was the case. `example` is
    /// whether the file belongs to a test suite.
    pub(crate) fn add(&mut self, file: &'f File, example: bool, problems: &mut Vec<Problem>) -> bool {
        if !file.text.contains(GROUP) || !file.text.contains(RULES) {
            return false;
        }
        let Some(documents) = policy_document::of_dialect(file, example, has_rules, problems) else { return false };
        for document in documents {
            if has_rules(&document) {
                self.documents.push(document);
            } else if is_crd(&document) {
                self.left_out.push(document.unjudged("its schemas have no validation rules"));
            } else {
                problems.extend(not_used(&document));
            }
        }
        true
    }
}

/// Returns the warning about a document that is no policy; none about an example, or one that another dialect reads.
fn not_used(document: &PolicyDocument<'_>) -> Option<Problem> {
    let (group, _) = document.type_of();
    if document.example || OF_OTHERS.contains(&group) {
        return None;
    }
    let message = format!("{}: a Kubernetes object is neither policy nor data; it is not used", document.label());
    Some(warning(document.whole(message)).help("move it out of the policy paths"))
}

/// Whether a document is a CRD.
fn is_crd(document: &PolicyDocument<'_>) -> bool {
    document.type_of() == (GROUP, "CustomResourceDefinition")
}

/// Whether a schema of a CRD has rules.
fn has_rules(document: &PolicyDocument<'_>) -> bool {
    is_crd(document) && document.node.at(&["spec", "versions"]).items().iter().any(has_rules_below)
}

fn has_rules_below(node: &YamlNode) -> bool {
    let is_list = |node: &YamlNode| !node.items().is_empty();
    node.items().iter().any(has_rules_below)
        || node
            .fields()
            .iter()
            .any(|field| field.key == RULES && is_list(&field.value) || has_rules_below(&field.value))
}
