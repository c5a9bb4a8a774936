//! Policies of simulated clusters: each as Rego, and as a plain function of all objects, by which results are compared.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::{KINDS, NAMESPACE};

/// All objects: kind, namespace and name.
pub type ObjectsByName = BTreeMap<(usize, String, String), Value>;

/// What a policy is about. Messages name other objects within a word, so that they are not taken for the object's own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyCondition {
    /// The label `team` is there; the message has the object's name.
    HasTeam,
    /// The label `team` is not there; the message has its value.
    HasNoTeam,
    /// The partner is there, in the same namespace.
    HasPartner(usize),
    /// No object of the kind has the same `unit`.
    IsUnique(usize),
    /// There are at most two objects of the kind in the namespace.
    HasRoom(usize),
    /// It has the `team` of its Namespace.
    HasTeamOfNamespace,
    /// Its date is not over.
    IsValid,
    /// Evaluation fails for odd objects.
    Fails,
}

/// How a policy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As for conftest, in Rego v1.
    Conftest,
    /// As for conftest, in Rego v0.
    ConftestV0,
    /// As for OPA's admission control.
    Admission,
}

/// A policy in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Its file is `p0.rego`.
    pub number: u8,
    /// Its package is `p0_1`.
    pub variant: u8,
    /// What it is about.
    pub condition: PolicyCondition,
    /// The kinds of the objects that it judges, indexes of [`KINDS`].
    pub kinds: [usize; 2],
    /// It has rules `warn` instead of `deny`.
    pub is_warning: bool,
    /// The language.
    pub dialect: Dialect,
    /// Another text of the same meaning.
    pub edition: u8,
    /// Teams may be excused from it.
    pub is_excusable: bool,
}

/// What a policy says of an object: policy, kind, namespace, name, result, and message.
pub type Finding = (String, &'static str, String, String, &'static str, String);

/// Returns the package of a policy.
pub fn package(number: u8, variant: u8) -> String {
    format!("p{number}_{variant}")
}

impl Policy {
    fn package(&self) -> String {
        package(self.number, self.variant)
    }

    /// Returns the name of its file and what is in it.
    pub fn file(&self) -> (String, String) {
        let rule = if self.is_warning { "warn" } else { "deny" };
        let object = if self.dialect == Dialect::Admission { "input.request.object" } else { "input" };
        let (head, import) = match self.dialect {
            Dialect::ConftestV0 => (format!("{rule}[msg] {{"), ""),
            _ => (format!("{rule} contains msg if {{"), "import rego.v1\n"),
        };
        let kinds = self.kinds.map(|kind| KINDS[kind].kind);
        let (body, rest) = self.condition.rego(self.dialect == Dialect::ConftestV0);
        let body = body.replace("OBJECT", object);
        let (number, edition, package) = (self.number, self.edition, self.package());
        let text = format!(
            "# METADATA\n# title: Policy {number}\n# description: Edition {edition}\n# custom: {{excusable: {}}}\npackage {package}\n{import}\n{head}\n\
             \t{{\"{}\", \"{}\"}}[{object}.kind]\n{body}}}\n{rest}",
            self.is_excusable, kinds[0], kinds[1]
        );
        (format!("p{number}.rego"), text)
    }

    /// Returns the kinds that it is about, or looks up.
    pub fn concerns(&self) -> impl Iterator<Item = usize> {
        self.kinds.into_iter().chain(self.condition.looks_up("any"))
    }

    /// Returns what it finds among all objects at a moment, but for what is excused: packages and namespaces. Values of
    /// Secrets are seen if they are `full`.
    pub fn findings(
        &self,
        objects: &ObjectsByName,
        excused: &BTreeSet<(String, String)>,
        (now, full_secrets): (Timestamp, bool),
        excluded: Option<usize>,
    ) -> BTreeSet<Finding> {
        let mut findings = BTreeSet::new();
        let is_judged = |kind: usize| self.kinds.contains(&kind) && Some(kind) != excluded;
        for ((kind, namespace, name), object) in objects.iter().filter(|((kind, ..), _)| is_judged(*kind)) {
            // A rule that looks up what is left out fails, where it does look something up.
            let is_blind = excluded.is_some() && self.condition.looks_up(namespace) == excluded;
            let result = if is_blind || self.condition == PolicyCondition::Fails {
                "error"
            } else if self.is_warning {
                "warn"
            } else {
                "fail"
            };
            let is_excused = self.is_excusable && excused.contains(&(self.package(), namespace.clone()));
            if is_excused && result != "error" {
                continue;
            }
            let messages = if is_blind {
                vec![String::new()]
            } else {
                self.condition.messages((*kind, namespace, name), object, objects, (now, full_secrets))
            };
            for message in messages {
                let about = (KINDS[*kind].kind, namespace.clone(), name.clone());
                findings.insert((self.package(), about.0, about.1, about.2, result, message));
            }
        }
        findings
    }
}

impl PolicyCondition {
    /// Returns the kind that its rule looks up for an object in a namespace, or in none.
    fn looks_up(self, namespace: &str) -> Option<usize> {
        match self {
            Self::HasPartner(kind) | Self::HasRoom(kind) if KINDS[kind].namespaced && namespace.is_empty() => None,
            Self::HasPartner(kind) | Self::IsUnique(kind) | Self::HasRoom(kind) => Some(kind),
            Self::HasTeamOfNamespace => Some(NAMESPACE),
            Self::HasTeam | Self::HasNoTeam | Self::IsValid | Self::Fails => None,
        }
    }

    /// Returns the lines of a rule's body about `OBJECT`, and what else the module needs.
    fn rego(self, is_v0: bool) -> (String, &'static str) {
        let looked_up = |kind: usize| format!("data.kubernetes.{}", KINDS[kind].plural);
        match self {
            Self::HasTeam => {
                let text =
                    "\tnot OBJECT.metadata.labels.team\n\tmsg := sprintf(\"%s has no team\", [OBJECT.metadata.name])\n";
                (text.to_owned(), "")
            }
            Self::HasNoTeam => ("\tmsg := sprintf(\"of team %s\", [OBJECT.metadata.labels.team])\n".to_owned(), ""),
            Self::HasPartner(kind) => {
                let namespace = if KINDS[kind].namespaced { "[OBJECT.metadata.namespace]" } else { "" };
                let looked_up = looked_up(kind);
                let text = format!(
                    "\tpartner := OBJECT.metadata.annotations[\"example.com/partner\"]\n\
                     \tnot {looked_up}{namespace}[partner]\n\tmsg := sprintf(\"no partner_%s\", [partner])\n"
                );
                (text, "")
            }
            Self::IsUnique(kind) => {
                let path = if KINDS[kind].namespaced { "[namespace][name]" } else { "[name]" };
                let (bind, is_other) = if KINDS[kind].namespaced {
                    (
                        "",
                        "\t[other.kind, namespace, name] != [OBJECT.kind, object.get(OBJECT.metadata, \"namespace\", \"\"), OBJECT.metadata.name]\n",
                    )
                } else {
                    ("\tnamespace := \"\"\n", "\t[other.kind, name] != [OBJECT.kind, OBJECT.metadata.name]\n")
                };
                let looked_up = looked_up(kind);
                let text = format!(
                    "\tother := {looked_up}{path}\n{bind}\tother.metadata.labels.unit == OBJECT.metadata.labels.unit\n{is_other}\
                     \tmsg := sprintf(\"unit of %s_%s\", [namespace, name])\n"
                );
                (text, "")
            }
            Self::HasRoom(kind) => {
                let namespace = if KINDS[kind].namespaced { "[OBJECT.metadata.namespace]" } else { "" };
                let looked_up = looked_up(kind);
                (format!("\tcount({looked_up}{namespace}) > 2\n\tmsg := \"crowded\"\n"), "")
            }
            Self::HasTeamOfNamespace => {
                let text = "\thome := object.get(OBJECT.metadata, \"namespace\", OBJECT.metadata.name)\n\
                            \tdata.kubernetes.namespaces[home].metadata.labels.team != OBJECT.metadata.labels.team\n\
                            \tmsg := \"another team\"\n";
                (text.to_owned(), "")
            }
            Self::IsValid => {
                let text = "\tdate := OBJECT.metadata.annotations[\"example.com/expires\"]\n\
                            \ttime.parse_rfc3339_ns(date) < time.now_ns()\n\tmsg := \"expired\"\n";
                (text.to_owned(), "")
            }
            Self::Fails => {
                let rest = if is_v0 {
                    "odd(x) = 1 { x == \"yes\" }\nodd(x) = 2 { x == \"yes\" }\n"
                } else {
                    "odd(x) := 1 if x == \"yes\"\nodd(x) := 2 if x == \"yes\"\n"
                };
                ("\todd(OBJECT.metadata.annotations[\"example.com/odd\"]) > 0\n\tmsg := \"odd\"\n".to_owned(), rest)
            }
        }
    }

    /// Returns the messages about one object; what an error says is left out.
    fn messages(
        self,
        (kind, namespace, name): (usize, &str, &str),
        object: &Value,
        objects: &ObjectsByName,
        (now, full_secrets): (Timestamp, bool),
    ) -> Vec<String> {
        let metadata = &object["metadata"];
        // Of a Secret's annotations only the keys are kept, unless kaudit is to keep all.
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
        }
    }
}
