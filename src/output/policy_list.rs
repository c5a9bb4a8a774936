//! The [`PolicyList`]: the loaded policies, and the problems of their files.

use std::{collections::BTreeSet, io, sync::Arc};

use serde::Serialize;

use super::{framework_list::ListedFramework, safe::write_json_pretty};
use crate::{
    audit::result::About,
    cluster::identity::API_VERSION,
    judge::{
        bundle::Edition, dependencies::Dependencies, dialects::kubescape, parameters::Parameter, policy::Policy,
        profile::Profile, reads::Matches, rule::Rule, set::PolicySet, unjudged::Unjudged,
    },
    model::verdict::{Outcome, Source},
    rego::{LoadError, Problem, Version},
};

/// The loaded policies, as in the output of `kaudit policies -o json` and `/policies`, whose fields are a contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyList {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// Always `PolicyList`.
    pub kind: &'static str,
    /// The digest of the files; empty if nothing was loaded.
    pub digest: String,
    /// Whether the current files are in force. If they are invalid as a whole, the last valid version stays in force.
    pub up_to_date: bool,
    /// The profile of the builtin library, if it is used and the profile is not `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The counts.
    pub summary: PolicyCounts,
    /// The policies in force; sorted by name.
    pub policies: Vec<ListedPolicy>,
    /// The controls of the frameworks that were chosen with `--framework`, and the rules that cover them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frameworks: Vec<ListedFramework>,
    /// The bundles that policies come from, in the order in which they were configured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<Edition>,
    /// Unsupported policies, for example templates in CEL; sorted by name.
    pub not_judged: Vec<Unjudged>,
    /// Policies that do not apply to Kubernetes objects, for example checks of Dockerfiles; sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Unjudged>,
    /// Problems of the files; sorted by file and line.
    pub problems: Vec<Problem>,
}

/// Counts of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PolicyCounts {
    /// Policies in force.
    pub policies: usize,
    /// Their rules.
    pub rules: usize,
    /// Refused files.
    pub refused: usize,
    /// Warnings.
    pub warnings: usize,
    /// The selected controls of Kubescape's library; `None` without such a library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controls: Option<ControlCounts>,
}

/// Counts of controls. Those that are evaluated in part or not at all are named in [`PolicyList::not_judged`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlCounts {
    /// Controls of which all rules are evaluated.
    pub judged: usize,
    /// Controls of which some rules are evaluated.
    pub partly_judged: usize,
    /// Controls of which no rule is evaluated.
    pub not_judged: usize,
}

impl ControlCounts {
    fn of(policies: &[ListedPolicy], not_judged: &[Unjudged]) -> Option<Self> {
        let of_library = |policy: &&ListedPolicy| policy.dialect == kubescape::DIALECT.name;
        // A rule without a control is a policy without an id.
        let judged = policies.iter().filter(of_library).filter_map(|policy| policy.about.id.as_deref());
        let judged: BTreeSet<&str> = judged.collect();
        let controls = not_judged.iter().flat_map(|policy| &policy.controls);
        let missing: BTreeSet<&str> = controls.map(|control| control.id.as_str()).collect();
        let counts = Self {
            judged: judged.difference(&missing).count(),
            partly_judged: judged.intersection(&missing).count(),
            not_judged: missing.difference(&judged).count(),
        };
        (counts != Self::default()).then_some(counts)
    }
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedPolicy {
    /// Package without `data.`, the kind of a Constraint, or the id of a control.
    pub name: String,
    /// `conftest`, `trivy`, `admission`, `gatekeeper`, `kubescape`.
    pub dialect: String,
    /// The versions of Rego that it is written in.
    pub rego: BTreeSet<Version>,
    /// Location of its first rule, or of the Constraint.
    pub source: Source,
    /// Its annotations.
    #[serde(flatten)]
    pub about: About,
    /// Names of the kinds that it applies to; `*` is all.
    pub kinds: Vec<String>,
    /// The inputs of its results besides the object: `inventory`, `namespace`, `clock`, `transition`.
    pub depends_on: Vec<&'static str>,
    /// The fields of the object that it reads; changes of other fields do not change its results.
    pub reads: Vec<String>,
    /// Whether it iterates over all objects of a kind for each object that it checks.
    pub scans_inventory: bool,
    /// The rules in force, sorted by name.
    pub rules: Vec<ListedRule>,
}

/// One rule in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRule {
    /// Name of the rule's head, or of a Constraint.
    pub name: String,
    /// The outcome of its results: `fail` or `warn`.
    pub result: Outcome,
    /// Whether a namespace may excuse its violations.
    pub excusable: bool,
    /// `custom.lookups`: `optional` or `complete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookups: Option<&'static str>,
    /// Location of its first definition.
    pub source: Source,
    /// Its annotations, and those of its policy that apply to all rules.
    #[serde(flatten)]
    pub about: About,
    /// Its parameters, which `rules` in the settings can set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
}

impl PolicyList {
    /// Lists a set that was just loaded.
    pub fn new(policies: &PolicySet) -> Self {
        Self::in_force(policies, None)
    }

    /// Lists the set in force, and why newer files are not in force.
    pub fn in_force(policies: &PolicySet, newer: Option<&LoadError>) -> Self {
        let listed = policies.policies.iter().map(ListedPolicy::from).collect();
        // The problems of the current files; those of the previous version do not apply to them.
        let problems = newer.map_or(&policies.problems, |newer| &newer.problems);
        let list = Self::of(listed, problems.clone());
        let (digest, bundles) = (policies.digest.to_string(), policies.bundles.clone());
        let (not_judged, left_out) = (policies.unjudged.clone(), policies.left_out.clone());
        let summary = PolicyCounts { controls: ControlCounts::of(&list.policies, &not_judged), ..list.summary };
        let frameworks = ListedFramework::chosen(policies);
        Self {
            digest,
            profile: policies.shown_profile(),
            up_to_date: newer.is_none(),
            frameworks,
            bundles,
            not_judged,
            left_out,
            summary,
            ..list
        }
    }

    /// Lists the problems if nothing could be loaded.
    pub fn failed(why: &LoadError) -> Self {
        Self::of(Vec::new(), why.problems.clone())
    }

    /// Writes one indented document and a newline.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write_json_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }

    pub(super) fn of(policies: Vec<ListedPolicy>, problems: Vec<Problem>) -> Self {
        let refused: BTreeSet<&Arc<str>> =
            problems.iter().filter(|problem| problem.is_refusal()).map(|problem| &problem.file).collect();
        let summary = PolicyCounts {
            policies: policies.len(),
            rules: policies.iter().map(|policy| policy.rules.len()).sum(),
            refused: refused.len(),
            warnings: problems.iter().filter(|problem| !problem.is_refusal()).count(),
            controls: None,
        };
        Self {
            api_version: API_VERSION,
            kind: "PolicyList",
            digest: String::new(),
            up_to_date: true,
            profile: None,
            summary,
            policies,
            frameworks: Vec::new(),
            bundles: Vec::new(),
            not_judged: Vec::new(),
            left_out: Vec::new(),
            problems,
        }
    }
}

impl From<&Policy> for ListedPolicy {
    fn from(policy: &Policy) -> Self {
        Self {
            name: policy.name.to_string(),
            dialect: policy.dialect.to_string(),
            rego: policy.versions.clone(),
            source: Source { file: Arc::clone(&policy.source), line: policy.line },
            about: About::from(&policy.metadata),
            kinds: match &policy.matches {
                Matches::All => vec!["*".to_owned()],
                Matches::Kinds(kinds) => kinds.iter().map(ToString::to_string).collect(),
            },
            depends_on: words(policy.depends),
            reads: policy.reads.paths(),
            scans_inventory: policy.scans_inventory,
            rules: policy.rules.iter().map(ListedRule::from).collect(),
        }
    }
}

impl From<&Rule> for ListedRule {
    fn from(rule: &Rule) -> Self {
        let (name, source) = (rule.name.to_string(), rule.source.clone());
        Self {
            name,
            result: rule.outcome,
            excusable: rule.excusable.is_possible(),
            lookups: rule.metadata.lookups().word(),
            source,
            about: About::from(&*rule.metadata),
            parameters: Parameter::all(&rule.metadata),
        }
    }
}

fn words(depends: Dependencies) -> Vec<&'static str> {
    let Dependencies { inventory, namespace, clock, transition } = depends;
    let all = [(inventory, "inventory"), (namespace, "namespace"), (clock, "clock"), (transition, "transition")];
    all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}
