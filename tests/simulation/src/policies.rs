//! Policies of simulated clusters: each as Rego, and as a plain function of all objects that computes the expected
//! results.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::{AuditedKind, KINDS, NAMESPACE};

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
    /// Whether its results are warnings.
    pub is_warning: bool,
    /// The language.
    pub dialect: Dialect,
    /// The variant of its text, with the same meaning.
    pub edition: u8,
    /// Whether teams may excuse its violations.
    pub is_excusable: bool,
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

/// Returns the name of a policy: its package, or the kind of its Constraint.
pub fn policy_name(number: u8, variant: u8, dialect: Dialect) -> String {
    match dialect {
        Dialect::Gatekeeper => format!("P{number}V{variant}"),
        Dialect::Trivy => format!("builtin.kubernetes.p{number}_{variant}"),
        Dialect::Kubescape => format!("kubescape-{number}-{variant}"),
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
            (Dialect::Kubescape, _) | (_, false) => "deny".to_owned(),
            (_, true) => "warn".to_owned(),
        }
    }

    /// Returns its files with their contents.
    pub fn files(&self) -> Vec<(String, String)> {
        if self.dialect == Dialect::Gatekeeper {
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

    /// Returns its template and its Constraint, if it is for Gatekeeper.
    pub fn documents(&self) -> [Value; 2] {
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

    /// Returns the Rego path of the object.
    fn object(&self) -> &'static str {
        match self.dialect {
            Dialect::Conftest | Dialect::ConftestV0 | Dialect::Trivy => "input",
            Dialect::Admission => "input.request.object",
            Dialect::Gatekeeper => "input.review.object",
            Dialect::Kubescape => "item",
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
            Dialect::Conftest | Dialect::Admission => (format!("{rule} contains msg if {{"), "import rego.v1\n"),
        };
        let (body, rest) = self.condition.rego(self.dialect);
        let mut body = body.replace("OBJECT", self.object());
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

    /// Returns the kinds that it applies to or looks up.
    pub fn concerns(&self) -> impl Iterator<Item = usize> {
        self.kinds.into_iter().chain(self.condition.looks_up("any"))
    }

    /// Returns its results for all objects at the time `now`, without excused ones. It reads values of Secrets if
    /// `full_secrets` is set. Objects of the kind `excluded` are not evaluated.
    pub fn findings(
        &self,
        objects: &ObjectsByName,
        excused: &Excused,
        (now, full_secrets): (Timestamp, bool),
        excluded: Option<usize>,
    ) -> BTreeSet<PolicyFinding> {
        let mut findings = BTreeSet::new();
        let is_evaluated = |kind: usize| self.kinds.contains(&kind) && Some(kind) != excluded;
        for ((kind, namespace, name), object) in objects.iter().filter(|((kind, ..), _)| is_evaluated(*kind)) {
            // A rule that looks up objects of an excluded kind fails.
            let is_blind = excluded.is_some() && self.condition.looks_up(namespace) == excluded;
            let result = if is_blind || self.condition == PolicyCondition::Fails {
                "error"
            } else if self.is_warning {
                "warn"
            } else {
                "fail"
            };
            let here = (self.name(), namespace.clone());
            let is_excused =
                excused.by_operators.contains(&here) || self.is_excusable && excused.by_teams.contains(&here);
            if is_excused && result != "error" {
                continue;
            }
            let messages = if is_blind {
                vec![String::new()]
            } else {
                self.condition.messages((*kind, namespace, name), object, objects, (now, full_secrets))
            };
            findings.extend(messages.into_iter().map(|message| PolicyFinding {
                policy: self.name(),
                rule: if result == "error" { String::new() } else { self.rule() },
                kind: KINDS[*kind].kind,
                namespace: namespace.clone(),
                name: name.clone(),
                result,
                message,
            }));
        }
        findings
    }

    /// Whether it can report this for an object in this state, with the other objects at any time.
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
                .iter()
                .any(|reported| reported == message)
        })
    }

    /// Whether it can report this for a transition from the first state to the second.
    pub fn may_report_change(&self, kind: usize, [old, new]: [&Value; 2], message: &str) -> bool {
        let noise = |object: &Value| object["metadata"]["annotations"]["example.com/noise"].as_str().map(str::to_owned);
        let reported = noise(old).zip(noise(new)).filter(|(old, new)| old != new);
        self.condition == PolicyCondition::NoiseStays
            && self.kinds.contains(&kind)
            && reported.is_some_and(|(old, new)| message == format!("noise_{old} became noise_{new}"))
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

    /// Returns the kind that its rule looks up for an object in a namespace, or in none.
    fn looks_up(self, namespace: &str) -> Option<usize> {
        match self {
            Self::HasPartner(kind) | Self::HasRoom(kind) if KINDS[kind].namespaced && namespace.is_empty() => None,
            Self::HasPartner(kind) | Self::IsUnique(kind) | Self::HasRoom(kind) => Some(kind),
            Self::HasTeamOfNamespace => Some(NAMESPACE),
            Self::HasTeam | Self::HasNoTeam | Self::IsValid | Self::Fails | Self::NoiseStays => None,
        }
    }

    /// Returns the lines of a rule's body about `OBJECT`, and the other parts of the module.
    fn rego(self, dialect: Dialect) -> (String, &'static str) {
        match self {
            Self::HasTeam => {
                let text =
                    "\tnot OBJECT.metadata.labels.team\n\tmsg := sprintf(\"%s has no team\", [OBJECT.metadata.name])\n";
                (text.to_owned(), "")
            }
            Self::HasNoTeam => ("\tmsg := sprintf(\"of team %s\", [OBJECT.metadata.labels.team])\n".to_owned(), ""),
            Self::HasPartner(kind) => {
                let (first, there) = all_objects(kind, "OBJECT.metadata.namespace", dialect);
                let text = format!(
                    "{first}\tpartner := OBJECT.metadata.annotations[\"example.com/partner\"]\n\
                     \tnot {there}[partner]\n\tmsg := sprintf(\"no partner_%s\", [partner])\n"
                );
                (text, "")
            }
            Self::IsUnique(kind) => {
                let (bind, is_other) = if KINDS[kind].namespaced {
                    (
                        "",
                        "\t[other.kind, namespace, name] != [OBJECT.kind, object.get(OBJECT.metadata, \"namespace\", \"\"), OBJECT.metadata.name]\n",
                    )
                } else {
                    ("\tnamespace := \"\"\n", "\t[other.kind, name] != [OBJECT.kind, OBJECT.metadata.name]\n")
                };
                let (first, there) = all_objects(kind, "namespace", dialect);
                let text = format!(
                    "{first}\tother := {there}[name]\n{bind}\tother.metadata.labels.unit == OBJECT.metadata.labels.unit\n{is_other}\
                     \tmsg := sprintf(\"unit of %s_%s\", [namespace, name])\n"
                );
                (text, "")
            }
            Self::HasRoom(kind) => {
                let (first, there) = all_objects(kind, "OBJECT.metadata.namespace", dialect);
                (format!("{first}\tcount({there}) > 2\n\tmsg := \"crowded\"\n"), "")
            }
            Self::HasTeamOfNamespace => {
                let (first, namespaces) = all_objects(NAMESPACE, "", dialect);
                let text = format!(
                    "{first}\thome := object.get(OBJECT.metadata, \"namespace\", OBJECT.metadata.name)\n\
                     \t{namespaces}[home].metadata.labels.team != OBJECT.metadata.labels.team\n\
                     \tmsg := \"another team\"\n"
                );
                (text, "")
            }
            Self::IsValid => {
                let text = "\tdate := OBJECT.metadata.annotations[\"example.com/expires\"]\n\
                            \ttime.parse_rfc3339_ns(date) < time.now_ns()\n\tmsg := \"expired\"\n";
                (text.to_owned(), "")
            }
            Self::NoiseStays => {
                let text = "\tinput.request.operation == \"UPDATE\"\n\
                            \tbefore := input.request.oldObject.metadata.annotations[\"example.com/noise\"]\n\
                            \tafter := OBJECT.metadata.annotations[\"example.com/noise\"]\n\tbefore != after\n\
                            \tmsg := sprintf(\"noise_%s became noise_%s\", [before, after])\n";
                (text.to_owned(), "")
            }
            Self::Fails => {
                let rest = match dialect {
                    Dialect::ConftestV0 | Dialect::Gatekeeper => {
                        "odd(x) = 1 { x == \"yes\" }\nodd(x) = 2 { x == \"yes\" }\n"
                    }
                    Dialect::Conftest | Dialect::Admission | Dialect::Trivy | Dialect::Kubescape => {
                        "odd(x) := 1 if x == \"yes\"\nodd(x) := 2 if x == \"yes\"\n"
                    }
                };
                ("\todd(OBJECT.metadata.annotations[\"example.com/odd\"]) > 0\n\tmsg := \"odd\"\n".to_owned(), rest)
            }
        }
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
        let label = |object: &Value, key: &str| object["metadata"]["labels"][key].as_str().map(str::to_owned);
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
        }
    }
}

/// Returns the Rego expression of all objects of a kind, by name, after the lines that define it: of one namespace, if
/// the kind is namespaced.
fn all_objects(kind: usize, namespace: &str, dialect: Dialect) -> (String, String) {
    let AuditedKind { api_version, kind, plural, namespaced, .. } = KINDS[kind];
    let place = match (dialect, namespaced) {
        (Dialect::Kubescape, _) => {
            let place = if namespaced { format!("\tplace := {namespace}\n") } else { String::new() };
            let is_there = if namespaced { "; other.metadata.namespace == place" } else { "" };
            let found = format!("other := input[_]; other.kind == \"{kind}\"{is_there}");
            return (format!("{place}\tall := {{other.metadata.name: other | {found}}}\n"), "all".to_owned());
        }
        (Dialect::Gatekeeper, true) => format!("data.inventory.namespace[{namespace}][\"{api_version}\"].{kind}"),
        (Dialect::Gatekeeper, false) => format!("data.inventory.cluster[\"{api_version}\"].{kind}"),
        (_, true) => format!("data.kubernetes.{plural}[{namespace}]"),
        (_, false) => format!("data.kubernetes.{plural}"),
    };
    (String::new(), place)
}
