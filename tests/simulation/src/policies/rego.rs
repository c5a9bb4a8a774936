//! Conditions of simulated policies in Rego.

use super::{Dialect, PolicyCondition};
use crate::cluster::{AuditedKind, KINDS, NAMESPACE};

impl PolicyCondition {
    /// Returns the lines of a rule's body about `OBJECT`, and the other parts of the module.
    pub(super) fn rego(self, dialect: Dialect) -> (String, &'static str) {
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
            // Only admission policies have parameters.
            Self::HasTeamOfParameters(_) => ("\tfalse\n\tmsg := \"\"\n".to_owned(), ""),
            Self::Fails => {
                let rest = match dialect {
                    Dialect::ConftestV0 | Dialect::Gatekeeper => {
                        "odd(x) = 1 { x == \"yes\" }\nodd(x) = 2 { x == \"yes\" }\n"
                    }
                    Dialect::Conftest | Dialect::Admission | Dialect::Trivy | Dialect::Kubescape | Dialect::Cel => {
                        "odd(x) := 1 if x == \"yes\"\nodd(x) := 2 if x == \"yes\"\n"
                    }
                };
                ("\todd(OBJECT.metadata.annotations[\"example.com/odd\"]) > 0\n\tmsg := \"odd\"\n".to_owned(), rest)
            }
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
