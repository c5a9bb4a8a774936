//! Simulated policies as `ValidatingAdmissionPolicies` with a binding, whose expressions are CEL.

use serde_json::{Value, json};

use super::{BoundObjects, Policy, PolicyCondition};
use crate::cluster::KINDS;

const API_VERSION: &str = "admissionregistration.k8s.io/v1";

impl Policy {
    /// Returns the policy and its binding. Which of both an edition changes, and where its condition is, depends on the
    /// edition.
    pub(super) fn admission_policy(&self) -> [Value; 2] {
        let (name, kinds) = (self.name(), self.kinds.map(|kind| KINDS[kind].plural));
        let (mut own, mut of_binding) =
            (json!({"policy.kaudit.dev/excusable": self.is_excusable.to_string()}), json!({}));
        let rated = if self.edition.is_multiple_of(2) { &mut own } else { &mut of_binding };
        rated["policy.kaudit.dev/severity"] = self.severity().into();
        let mut spec = self.validations();
        spec["failurePolicy"] = "Fail".into();
        spec["matchConstraints"] = json!({"resourceRules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": kinds}]});
        let mut binding = json!({"policyName": name, "validationActions": [self.action()]});
        if let Some(reference) = self.condition.parameters() {
            spec["paramKind"] = reference.param_kind();
            binding["paramRef"] = reference.param_ref();
        }
        if let Some(selected) = self.bound.match_resources() {
            binding["matchResources"] = selected;
        }
        if self.is_broken && self.edition.is_multiple_of(2) {
            spec["validations"][0]["expression"] = "object.".into();
        } else if self.is_broken {
            binding["validationActions"] = json!([]);
        }
        [
            json!({"apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": name, "annotations": own}, "spec": spec}),
            json!({"apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": self.rule(), "annotations": of_binding}, "spec": binding}),
        ]
    }

    fn action(&self) -> &'static str {
        match (self.is_warning, self.edition) {
            (false, _) => "Deny",
            (true, 0) => "Audit",
            (true, _) => "Warn",
        }
    }

    /// Returns the fields of the policy with its condition.
    fn validations(&self) -> Value {
        let (holds, message) = self.condition.cel();
        // Match conditions cannot read the Namespace.
        let reads_namespace = self.condition == PolicyCondition::HasTeamOfNamespace;
        match self.edition {
            0 => json!({"validations": [{"expression": holds, "messageExpression": message}]}),
            1 if !reads_namespace => json!({
                "matchConditions": [{"name": "violated", "expression": format!("!({holds})")}],
                "validations": [{"expression": "false", "messageExpression": message}]}),
            _ => json!({
                "variables": [{"name": "holds", "expression": holds}],
                "validations": [{"expression": "variables.holds", "messageExpression": message}]}),
        }
    }
}

impl BoundObjects {
    /// Returns `matchResources` of the binding.
    fn match_resources(self) -> Option<Value> {
        match self {
            Self::All => None,
            Self::OfNamespacesWithTeam(team) => {
                Some(json!({"namespaceSelector": {"matchLabels": {"team": format!("t{team}")}}}))
            }
            Self::OfUnit(unit) => Some(json!({"objectSelector": {"matchLabels": {"unit": format!("u{unit}")}}})),
        }
    }
}

impl PolicyCondition {
    /// Returns the expression that holds without a violation, and that of the message. Conditions that look up other
    /// objects than parameters and Namespaces, or read the time, are not those of admission policies.
    fn cel(self) -> (String, &'static str) {
        let (odd, noise) = ("'example.com/odd'", "'example.com/noise'");
        match self {
            Self::HasTeam => (has_team("object"), "object.metadata.name + ' has no team'"),
            Self::HasNoTeam => (format!("!({})", has_team("object")), "'of team ' + object.metadata.labels.team"),
            Self::HasTeamOfNamespace => {
                let [own, other] = ["object", "namespaceObject"].map(has_team);
                let same = "object.metadata.labels.team == namespaceObject.metadata.labels.team";
                (format!("namespaceObject == null || !({own}) || !({other}) || {same}"), "'another team'")
            }
            Self::HasTeamOfParameters(_) => {
                let [own, other] = ["object", "params"].map(has_team);
                let same = "object.metadata.labels.team == params.metadata.labels.team";
                let message = "'param_' + params.metadata.name + ' has team_' + params.metadata.labels.team";
                (format!("!({other}) || {own} && {same}"), message)
            }
            Self::Fails => {
                let value = format!("object.metadata.annotations[{odd}]");
                let is_odd = format!("{} && {value} == 'yes'", has_annotation("object", odd));
                (format!("!({is_odd}) || int({value}) == 0"), "'odd'")
            }
            Self::NoiseStays => {
                let [new, old] = ["object", "oldObject"].map(|root| has_annotation(root, noise));
                let same = format!("object.metadata.annotations[{noise}] == oldObject.metadata.annotations[{noise}]");
                let message = "'noise_' + oldObject.metadata.annotations['example.com/noise'] + ' became noise_' + \
                               object.metadata.annotations['example.com/noise']";
                (format!("request.operation != 'UPDATE' || !({new}) || !({old}) || {same}"), message)
            }
            Self::HasPartner(_) | Self::IsUnique(_) | Self::HasRoom(_) | Self::IsValid => ("true".to_owned(), "''"),
        }
    }
}

fn has_team(root: &str) -> String {
    format!("has({root}.metadata.labels) && 'team' in {root}.metadata.labels")
}

fn has_annotation(root: &str, name: &str) -> String {
    format!("has({root}.metadata.annotations) && {name} in {root}.metadata.annotations")
}
