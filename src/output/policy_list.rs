//! The [`PolicyList`]: what is loaded, and what is wrong with it.

use std::{collections::BTreeSet, io, sync::Arc};

use serde::Serialize;

use super::safe::write_json_pretty;
use crate::{
    audit::result::About,
    cluster::identity::API_VERSION,
    judge::{
        bundle::Edition, dependencies::Dependencies, dialects::kubescape, policy::Policy, reads::Matches, rule::Rule,
        set::PolicySet, unjudged::Unjudged,
    },
    model::verdict::{Outcome, Source},
    rego::{LoadError, Problem, Version},
};

/// Everything that is known of the policies; the contract of `kaudit policies -o json` and `/policies`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyList {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// Always `PolicyList`.
    pub kind: &'static str,
    /// The digest of the files; empty if nothing was loaded.
    pub digest: String,
    /// Whether the files as they are now are what is judged by. Where they were refused as a whole, what was loaded
    /// before stays in force.
    pub up_to_date: bool,
    /// Counts.
    pub summary: PolicyCounts,
    /// The policies that are judged by; sorted by name.
    pub policies: Vec<ListedPolicy>,
    /// The bundles that policies come from, in the order in which they were named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<Edition>,
    /// Policies that would judge if kaudit had what they need, such as templates in CEL; sorted by name.
    pub not_judged: Vec<Unjudged>,
    /// Policies that are not meant to judge here, such as checks of Dockerfiles; sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Unjudged>,
    /// What is wrong; sorted by file and line.
    pub problems: Vec<Problem>,
}

/// Counts of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PolicyCounts {
    /// Policies that are judged by.
    pub policies: usize,
    /// Their rules.
    pub rules: usize,
    /// Files that are not judged by.
    pub refused: usize,
    /// Warnings.
    pub warnings: usize,
    /// The controls that were chosen of Kubescape's library; `None` without such a library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controls: Option<ControlCounts>,
}

/// Counts of controls. Those that are not judged, or in part only, are named in [`PolicyList::not_judged`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlCounts {
    /// All their rules are judged.
    pub judged: usize,
    /// Some of their rules are judged.
    pub partly_judged: usize,
    /// None of their rules is.
    pub not_judged: usize,
}

impl ControlCounts {
    fn of(policies: &[ListedPolicy], not_judged: &[Unjudged]) -> Option<Self> {
        let of_library = |policy: &&ListedPolicy| policy.dialect == kubescape::DIALECT.name;
        // A rule that no control names is a policy without an id.
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
    /// Package without `data.`, a Constraint's kind, or the id of a control.
    pub name: String,
    /// `conftest`, `trivy`, `admission`, `gatekeeper`, `kubescape`.
    pub dialect: String,
    /// The versions of Rego that it is written in.
    pub rego: BTreeSet<Version>,
    /// Where its first rule stands, or the Constraint.
    pub source: Source,
    /// What it says of itself.
    #[serde(flatten)]
    pub about: About,
    /// The kinds that it can say anything about, by name; `*` is all.
    pub kinds: Vec<String>,
    /// What its results depend on beside the object: `inventory`, `namespace`, `clock`, `transition`.
    pub depends_on: Vec<&'static str>,
    /// What it reads of the object: a change of anything else changes none of its results.
    pub reads: Vec<String>,
    /// Whether it goes through all objects of a kind for each object that it checks.
    pub scans_inventory: bool,
    /// The rules that judge, sorted by name.
    pub rules: Vec<ListedRule>,
}

/// One rule that judges.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedRule {
    /// Name of the rule's head, or of a Constraint.
    pub name: String,
    /// What its results are: `fail` or `warn`.
    pub result: Outcome,
    /// Whether a namespace may excuse its violations.
    pub excusable: bool,
    /// Where its first definition stands.
    pub source: Source,
    /// What it says of itself, and its policy of all of its rules.
    #[serde(flatten)]
    pub about: About,
}

impl PolicyList {
    /// Lists a set that was just loaded.
    pub fn new(policies: &PolicySet) -> Self {
        Self::in_force(policies, None)
    }

    /// Lists the set in force, and why newer files are not.
    pub fn in_force(policies: &PolicySet, newer: Option<&LoadError>) -> Self {
        let listed = policies.policies.iter().map(ListedPolicy::from).collect();
        // What is wrong with the files as they are now; what was wrong before has no place in them.
        let problems = newer.map_or(&policies.problems, |newer| &newer.problems);
        let list = Self::of(listed, problems.clone());
        let (digest, bundles) = (policies.digest.to_string(), policies.bundles.clone());
        let (not_judged, left_out) = (policies.unjudged.clone(), policies.left_out.clone());
        let summary = PolicyCounts { controls: ControlCounts::of(&list.policies, &not_judged), ..list.summary };
        Self { digest, up_to_date: newer.is_none(), bundles, not_judged, left_out, summary, ..list }
    }

    /// Lists what is wrong where nothing was loaded.
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
            summary,
            policies,
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
            source,
            about: About::from(&*rule.metadata),
        }
    }
}

fn words(depends: Dependencies) -> Vec<&'static str> {
    let Dependencies { inventory, namespace, clock, transition } = depends;
    let all = [(inventory, "inventory"), (namespace, "namespace"), (clock, "clock"), (transition, "transition")];
    all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}
