//! Policies of simulated clusters: each in its language, and as a plain function of all objects that computes the
//! expected results.

mod admission_policies;
mod parameters;
mod rego;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::parameters::{ParameterReference, SelectedParameters};
use crate::cluster::{KINDS, NAMESPACE};

/// All objects by kind, namespace and name.
pub type ObjectsByName = BTreeMap<(usize, String, String), Value>;

/// The condition of a policy. Messages contain names of other objects within a word, so that they are not mistaken for
/// the object's own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyCondition {
    /// The label `team` exists; the message has the object's name.
    HasTeam,
    /// The label `team` does not exist; the message has its value.
    HasNoTeam,
    /// The partner exists in the same namespace.
    HasPartner(usize),
    /// No object of the kind has the same `unit`.
    IsUnique(usize),
    /// There are at most two objects of the kind in the namespace.
    HasRoom(usize),
    /// It has the `team` of its Namespace.
    HasTeamOfNamespace,
    /// Its date has not passed.
    IsValid,
    /// Evaluation fails for odd objects.
    Fails,
    /// The annotation `noise` does not change: a transition, whose violation does not stay open.
    NoiseStays,
    /// It has the `team` of each of its parameters that has one; the message has the parameter's name and team.
    HasTeamOfParameters(ParameterReference),
}

/// How a policy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// conftest, in Rego v1.
    Conftest,
    /// conftest, in Rego v0.
    ConftestV0,
    /// OPA admission control.
    Admission,
    /// A Gatekeeper template and a Constraint.
    Gatekeeper,
    /// A Trivy check.
    Trivy,
    /// A rule in Kubescape's layout, which gets all objects of a namespace at once if it has lookups.
    Kubescape,
    /// A `ValidatingAdmissionPolicy` and its binding.
    Cel,
}

/// The objects that a binding of an admission policy applies to, among those of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundObjects {
    /// All of them.
    All,
    /// Those in namespaces with this `team`, and cluster-scoped ones.
    OfNamespacesWithTeam(u8),
    /// Those with this `unit`.
    OfUnit(u8),
}

/// The directory of rules in Kubescape's layout, below that of all policies.
const RULES: &str = "library/rules";

/// Excused pairs of policy and namespace.
#[derive(Debug, Default)]
pub struct Excused {
    /// By objects, if the policy allows it.
    pub by_teams: BTreeSet<(String, String)>,
    /// By files.
    pub by_operators: BTreeSet<(String, String)>,
}

/// A policy in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Its file is `p0.rego`, or `p0.yaml`.
    pub number: u8,
    /// Its package is `p0_1`.
    pub variant: u8,
    /// Its condition.
    pub condition: PolicyCondition,
    /// The kinds that it applies to, indexes of [`KINDS`].
    pub kinds: [usize; 2],
    /// The objects of these kinds that it applies to: all of them except in [`Dialect::Cel`].
    pub bound: BoundObjects,
    /// Whether its results are warnings.
    pub is_warning: bool,
    /// The language.
    pub dialect: Dialect,
    /// The variant of its text, with the same meaning.
    pub edition: u8,
    /// Whether teams may excuse its violations.
    pub is_excusable: bool,
    /// The length of the text that follows each message, in bytes; 0 in [`Dialect::Cel`].
    pub text_bytes: u16,
    /// Whether it is invalid.
    pub is_broken: bool,
}

/// A result of a policy for an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyFinding {
    /// The policy's name.
    pub policy: String,
    /// The rule's name; empty for an error.
    pub rule: String,
    /// The object's kind.
    pub kind: &'static str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// `fail`, `warn` or `error`.
    pub result: &'static str,
    /// The message; empty for an error, whose text may change.
    pub message: String,
}

/// The kinds whose objects are not read.
#[derive(Debug, Default)]
pub struct UnreadKinds {
    /// The kind that kaudit excludes: its objects are not evaluated either.
    pub excluded: Option<usize>,
    /// The kinds that the server does not serve: they have no objects, but parameters must be of a kind that is served.
    pub not_served: BTreeSet<usize>,
}

/// Returns the name of a policy: its package, the kind of its Constraint, or that of its object.
pub fn policy_name(number: u8, variant: u8, dialect: Dialect) -> String {
    match dialect {
        Dialect::Gatekeeper => format!("P{number}V{variant}"),
        Dialect::Trivy => format!("builtin.kubernetes.p{number}_{variant}"),
        Dialect::Kubescape => format!("kubescape-{number}-{variant}"),
        Dialect::Cel => format!("admission-{number}-{variant}"),
        _ => format!("p{number}_{variant}"),
    }
}

impl Policy {
    /// Returns its name.
    pub fn name(&self) -> String {
        policy_name(self.number, self.variant, self.dialect)
    }

    /// Returns the name of its rule.
    pub fn rule(&self) -> String {
        match (self.dialect, self.is_warning) {
            (Dialect::Gatekeeper, _) => format!("p{}-{}", self.number, self.variant),
            (Dialect::Cel, _) => format!("binding-{}-{}", self.number, self.variant),
            (Dialect::Kubescape, _) | (_, false) => "deny".to_owned(),
            (_, true) => "warn".to_owned(),
        }
    }

    /// Returns its files with their contents.
    pub fn files(&self) -> Vec<(String, String)> {
        if matches!(self.dialect, Dialect::Gatekeeper | Dialect::Cel) {
            let documents = self.documents().map(|document| format!("---\n{document}\n"));
            return vec![(format!("p{}.yaml", self.number), documents.concat())];
        }
        let kinds = self.kinds.map(|kind| KINDS[kind].kind);
        let object = self.object();
        let condition = format!("\t{{\"{}\", \"{}\"}}[{object}.kind]\n", kinds[0], kinds[1]);
        if self.dialect == Dialect::Kubescape {
            let folder = format!("{RULES}/p{}", self.number);
            let text = self.module(&format!("\titem := input[_]\n{condition}"));
            return vec![
                (format!("{folder}/raw.rego"), text),
                (format!("{folder}/rule.metadata.json"), self.metadata().to_string()),
            ];
        }
        let text = format!(
            "# METADATA\n# title: Policy {}\n# description: Edition {}\n# custom: {{excusable: {}, severity: {}{}}}\n{}",
            self.number,
            self.edition,
            self.is_excusable,
            self.severity().unwrap_or_default(),
            if self.dialect == Dialect::Trivy { ", id: P, input: {selector: [{type: kubernetes}]}" } else { "" },
            self.module(&condition)
        );
        vec![(format!("p{}.rego", self.number), text)]
    }

    /// Returns the metadata of a Kubescape rule. The rule gets the objects that it looks up together with those that it
    /// applies to.
    fn metadata(&self) -> Value {
        let kinds: BTreeSet<&str> = self.concerns().map(|kind| KINDS[kind].kind).collect();
        json!({"name": self.name(), "ruleLanguage": "Rego", "description": format!("Edition {}", self.edition),
            "match": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": kinds}]})
    }

    /// Returns its template and its Constraint, or its admission policy and its binding.
    pub fn documents(&self) -> [Value; 2] {
        if self.dialect == Dialect::Cel { self.admission_policy() } else { self.template() }
    }

    fn template(&self) -> [Value; 2] {
        let (name, kind) = (self.name().to_lowercase(), self.name());
        let annotations = json!({"example.com/edition": self.edition.to_string(),
            "policy.kaudit.dev/excusable": self.is_excusable.to_string()});
        let action = if self.is_warning { "warn" } else { "deny" };
        let kinds = self.kinds.map(|kind| KINDS[kind].kind);
        let template = json!({"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"crd": {"spec": {"names": {"kind": kind}}},
                "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": self.module("")}]}});
        let constraint = json!({"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": kind,
            "metadata": {"name": self.rule()},
            "spec": {"enforcementAction": action, "match": {"kinds": [{"apiGroups": ["*"], "kinds": kinds}]}}});
        [template, constraint]
    }

    /// Returns the path of the object.
    fn object(&self) -> &'static str {
        match self.dialect {
            Dialect::Conftest | Dialect::ConftestV0 | Dialect::Trivy => "input",
            Dialect::Admission => "input.request.object",
            Dialect::Gatekeeper => "input.review.object",
            Dialect::Kubescape => "item",
            Dialect::Cel => "object",
        }
    }

    /// Returns the Rego module, whose rule begins with these lines.
    fn module(&self, condition: &str) -> String {
        let rule = self.rule();
        let (head, import) = match self.dialect {
            Dialect::Kubescape => ("deny contains result if {".to_owned(), "import rego.v1\n"),
            Dialect::Trivy => ("deny contains result.new(msg, input) if {".to_owned(), "import rego.v1\n"),
            Dialect::ConftestV0 => (format!("{rule}[msg] {{"), ""),
            Dialect::Gatekeeper => ("violation[{\"msg\": msg}] {".to_owned(), ""),
            Dialect::Conftest | Dialect::Admission | Dialect::Cel => {
                (format!("{rule} contains msg if {{"), "import rego.v1\n")
            }
        };
        let (body, rest) = self.condition.rego(self.dialect);
        let mut body = body.replace("OBJECT", self.object());
        if self.text_bytes > 0 {
            body = body.replace("msg :=", "short :=");
            body = format!("{body}\tmsg := concat(\" \", [short, \"{}\"])\n", self.text());
        }
        if self.dialect == Dialect::Kubescape {
            let status = if self.is_warning { "warning" } else { "failed" };
            body = format!(
                "{body}\tresult := {{\"alertMessage\": msg, \"ruleStatus\": \"{status}\", \"alertObject\": {{\"k8sApiObjects\": [item]}}}}\n"
            );
        }
        let package = match self.dialect {
            Dialect::Gatekeeper => "template".to_owned(),
            Dialect::Kubescape => "armo_builtins".to_owned(),
            _ => self.name(),
        };
        let end = if self.is_broken { "broken := \n" } else { "" };
        format!("package {package}\n{import}\n{head}\n{condition}{body}}}\n{rest}{end}")
    }

    /// Returns the text that follows each message.
    fn text(&self) -> String {
        "x".repeat(self.text_bytes.into())
    }

    /// Returns a message of its condition as it reports it.
    fn message(&self, message: String) -> String {
        if message.is_empty() || self.text_bytes == 0 { message } else { format!("{message} {}", self.text()) }
    }

    /// Whether its results depend on other objects.
    pub fn looks_up(&self) -> bool {
        self.condition.looks_up("any").is_some()
    }

    /// Returns the kinds that it applies to, looks up, or is bound by.
    pub fn concerns(&self) -> impl Iterator<Item = usize> {
        let by_namespace = matches!(self.bound, BoundObjects::OfNamespacesWithTeam(_)).then_some(NAMESPACE);
        self.kinds.into_iter().chain(self.condition.looks_up("any")).chain(by_namespace)
    }

    /// Returns its results for all objects at the time `now`, without excused ones. It reads values of Secrets if
    /// `full_secrets` is set.
    pub fn findings(
        &self,
        objects: &ObjectsByName,
        excused: &Excused,
        at: (Timestamp, bool),
        unread: &UnreadKinds,
    ) -> BTreeSet<PolicyFinding> {
        let mut findings = BTreeSet::new();
        let is_evaluated = |kind: usize| self.kinds.contains(&kind) && Some(kind) != unread.excluded;
        for ((kind, namespace, name), object) in objects.iter().filter(|((kind, ..), _)| is_evaluated(*kind)) {
            let key = (*kind, namespace.as_str(), name.as_str());
            if !self.bound.includes(key, object, objects) {
                continue;
            }
            let messages = if self.condition.is_blind(namespace, unread) {
                vec![String::new()]
            } else {
                self.condition.messages(key, object, objects, at)
            };
            let here = (self.name(), namespace.clone());
            let is_excused =
                excused.by_operators.contains(&here) || self.is_excusable && excused.by_teams.contains(&here);
            let reported = messages.into_iter().filter(|message| message.is_empty() || !is_excused);
            findings.extend(reported.map(|message| self.finding(key, self.message(message))));
        }
        findings
    }

    /// Returns the result with a message, which is empty for an error.
    fn finding(&self, (kind, namespace, name): (usize, &str, &str), message: String) -> PolicyFinding {
        let result = match (message.is_empty(), self.is_warning) {
            (true, _) => "error",
            (false, true) => "warn",
            (false, false) => "fail",
        };
        PolicyFinding {
            policy: self.name(),
            rule: if result == "error" { String::new() } else { self.rule() },
            kind: KINDS[kind].kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            result,
            message,
        }
    }

    /// Whether it can report this for an object in this state, with the other objects at any time. A binding may for a
    /// moment be in force with an older or newer version of its policy, so it does not count which objects it selects.
    pub fn may_report(
        &self,
        (kind, namespace, name): (usize, &str, &str),
        object: &Value,
        clusters: &[ObjectsByName],
        message: &str,
    ) -> bool {
        if !self.kinds.contains(&kind) {
            return false;
        }
        // A date may have passed since.
        if self.condition == PolicyCondition::IsValid {
            return true;
        }
        let others = if self.condition.looks_up("any").is_some() { clusters } else { &clusters[..1] };
        let mut seen = others.iter().flat_map(|others| [(others, true), (others, false)]);
        seen.any(|(others, full_secrets)| {
            let at = (Timestamp::UNIX_EPOCH, full_secrets);
            self.condition
                .messages((kind, namespace, name), object, others, at)
                .into_iter()
                .any(|reported| self.message(reported) == message)
        })
    }

    /// Whether it can report this for a transition from the first state to the second.
    pub fn may_report_change(&self, kind: usize, [old, new]: [&Value; 2], message: &str) -> bool {
        let noise = |object: &Value| object["metadata"]["annotations"]["example.com/noise"].as_str().map(str::to_owned);
        let reported = noise(old).zip(noise(new)).filter(|(old, new)| old != new);
        self.condition == PolicyCondition::NoiseStays
            && self.kinds.contains(&kind)
            && reported.is_some_and(|(old, new)| message == self.message(format!("noise_{old} became noise_{new}")))
    }

    /// Returns the severity of its results, if it declares one.
    pub fn severity(&self) -> Option<&'static str> {
        let severities = ["low", "medium", "high"];
        let has_severity = !matches!(self.dialect, Dialect::Gatekeeper | Dialect::Kubescape);
        has_severity.then(|| severities[usize::from(self.edition) % severities.len()])
    }
}

impl PolicyCondition {
    /// Whether its rule may look up objects of a kind.
    pub fn concerns(self, kind: usize) -> bool {
        self.looks_up("any") == Some(kind)
    }

    /// Returns its parameters, if it has any.
    pub const fn parameters(self) -> Option<ParameterReference> {
        if let Self::HasTeamOfParameters(reference) = self { Some(reference) } else { None }
    }

    /// Returns the kind that its rule looks up for an object in a namespace, or in none.
    pub fn looks_up(self, namespace: &str) -> Option<usize> {
        match self {
            Self::HasPartner(kind) | Self::HasRoom(kind) if KINDS[kind].namespaced && namespace.is_empty() => None,
            Self::HasPartner(kind) | Self::IsUnique(kind) | Self::HasRoom(kind) => Some(kind),
            Self::HasTeamOfNamespace => Some(NAMESPACE),
            Self::HasTeamOfParameters(reference) => Some(reference.kind),
            Self::HasTeam | Self::HasNoTeam | Self::IsValid | Self::Fails | Self::NoiseStays => None,
        }
    }

    /// Whether its rule fails for the objects in a namespace, or for cluster-scoped ones, because it looks up objects of a
    /// kind that is not read.
    fn is_blind(self, namespace: &str, unread: &UnreadKinds) -> bool {
        let lacks_parameters = self.parameters().is_some_and(|reference| unread.not_served.contains(&reference.kind));
        lacks_parameters || unread.excluded.is_some() && self.looks_up(namespace) == unread.excluded
    }

    /// Returns the messages about one object; those of errors are empty.
    fn messages(
        self,
        (kind, namespace, name): (usize, &str, &str),
        object: &Value,
        objects: &ObjectsByName,
        (now, full_secrets): (Timestamp, bool),
    ) -> Vec<String> {
        let metadata = &object["metadata"];
        // For Secrets only the keys of annotations are kept, unless kaudit keeps full Secrets.
        let annotation = |key: &str| {
            let value = metadata["annotations"][format!("example.com/{key}")].as_str()?;
            Some(if KINDS[kind].kind == "Secret" && !full_secrets { "" } else { value })
        };
        let place = |looked_up: usize| if KINDS[looked_up].namespaced { namespace } else { "" };
        let when = |condition: bool, message: &str| if condition { vec![message.to_owned()] } else { Vec::new() };
        match self {
            Self::HasTeam => when(label(object, "team").is_none(), &format!("{name} has no team")),
            Self::HasNoTeam => label(object, "team").map(|team| format!("of team {team}")).into_iter().collect(),
            Self::HasPartner(looked_up) => {
                // OPA evaluates `input.metadata.namespace` before `not`: without it the rule is undefined.
                let is_defined = !KINDS[looked_up].namespaced || !namespace.is_empty();
                let partner = annotation("partner").filter(|partner| {
                    is_defined
                        && !objects.contains_key(&(looked_up, place(looked_up).to_owned(), (*partner).to_owned()))
                });
                partner.map(|partner| format!("no partner_{partner}")).into_iter().collect()
            }
            Self::IsUnique(looked_up) => {
                let Some(unit) = label(object, "unit") else { return Vec::new() };
                let others = objects.iter().filter(|((other_kind, other_namespace, other_name), other)| {
                    *other_kind == looked_up
                        && label(other, "unit").as_ref() == Some(&unit)
                        && (*other_kind, &**other_namespace, &**other_name) != (kind, namespace, name)
                });
                others.map(|((_, namespace, name), _)| format!("unit of {namespace}_{name}")).collect()
            }
            Self::HasRoom(looked_up) => {
                if KINDS[looked_up].namespaced && namespace.is_empty() {
                    return Vec::new();
                }
                let place = place(looked_up);
                let there = objects.keys().filter(|(kind, namespace, _)| *kind == looked_up && namespace == place);
                when(there.count() > 2, "crowded")
            }
            Self::HasTeamOfNamespace => {
                let place = if KINDS[kind].namespaced { namespace } else { name };
                let home = objects.get(&(NAMESPACE, String::new(), place.to_owned()));
                let (home, own) = (home.and_then(|home| label(home, "team")), label(object, "team"));
                when(home.is_some() && own.is_some() && home != own, "another team")
            }
            Self::IsValid => {
                let date = annotation("expires").and_then(|date| date.parse::<Timestamp>().ok());
                when(date.is_some_and(|date| date < now), "expired")
            }
            Self::Fails => when(annotation("odd") == Some("yes"), ""),
            Self::NoiseStays => Vec::new(),
            Self::HasTeamOfParameters(reference) => {
                let Some(parameters) = reference.find((kind, namespace, name), objects) else {
                    return vec![String::new()];
                };
                let own = label(object, "team");
                let others = parameters.into_iter().filter_map(|(name, parameter)| {
                    let team = label(parameter, "team").filter(|team| own.as_ref() != Some(team))?;
                    Some(format!("param_{name} has team_{team}"))
                });
                others.collect()
            }
        }
    }
}

impl BoundObjects {
    /// Whether an object is one of them.
    fn includes(self, key: (usize, &str, &str), object: &Value, objects: &ObjectsByName) -> bool {
        match self {
            Self::All => true,
            Self::OfUnit(unit) => label(object, "unit") == Some(format!("u{unit}")),
            Self::OfNamespacesWithTeam(team) => {
                let home = objects.get(&(NAMESPACE, String::new(), request_namespace(key).to_owned()));
                home.is_none_or(|home| label(home, "team") == Some(format!("t{team}")))
            }
        }
    }
}

/// Returns the namespace of the request that creates an object: that of a Namespace is the Namespace itself.
fn request_namespace<'k>((kind, namespace, name): (usize, &'k str, &'k str)) -> &'k str {
    if kind == NAMESPACE { name } else { namespace }
}

/// Returns a label of an object.
fn label(object: &Value, key: &str) -> Option<String> {
    object["metadata"]["labels"][key].as_str().map(str::to_owned)
}
