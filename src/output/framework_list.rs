//! How the rules in force cover the controls of the chosen frameworks.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use crate::{
    judge::{
        frameworks::{ControlCoverage, FrameworkControls, FrameworkSelector, FrameworkTable, is_same},
        rule::Rule,
        set::PolicySet,
    },
    model::verdict::rule_id,
};

/// A framework that was chosen with `--framework`, except for those of libraries in Kubescape's layout, whose controls are
/// policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedFramework {
    /// Its name.
    pub name: String,
    /// Its title; `None` for a framework that only rules name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'static str>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<&'static str>,
    /// A page about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<&'static str>,
    /// The counts of its chosen controls.
    pub summary: CoverageCounts,
    /// Its chosen controls, in the order of the framework.
    pub controls: Vec<ListedControl>,
}

/// Counts of controls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CoverageCounts {
    /// Controls that rules cover as far as objects show them.
    pub full: usize,
    /// Controls that rules cover in part.
    pub partial: usize,
    /// Controls that no rule in force checks.
    pub none: usize,
}

/// A control of a framework.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedControl {
    /// Its id, unique in the framework.
    pub id: String,
    /// Its title; `None` in a framework that only rules name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'static str>,
    /// How rules cover it.
    pub coverage: ControlCoverage,
    /// The rules in force that serve it, by their ids, or else `POLICY/RULE`; sorted.
    pub rules: Vec<String>,
    /// What rules do not cover, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

impl ListedFramework {
    /// Lists the chosen frameworks, each once.
    pub(super) fn chosen(policies: &PolicySet) -> Vec<Self> {
        let mut frameworks: Vec<Self> = Vec::new();
        let chosen = &policies.rule_changes.frameworks;
        for selector in chosen {
            if frameworks.iter().all(|known| known.name != *selector.framework) {
                frameworks.extend(Self::of(selector, chosen, policies));
            }
        }
        frameworks
    }

    /// Lists the framework of a selector; `None` if neither the library nor a rule has it.
    fn of(selector: &FrameworkSelector, chosen: &[FrameworkSelector], policies: &PolicySet) -> Option<Self> {
        let name = &selector.framework;
        let rules = policies.policies.iter().flat_map(|policy| {
            policy.rules.iter().map(|Rule { name, metadata, .. }| {
                (rule_id(&policy.name, name, metadata.info.id.as_deref()), metadata.frameworks())
            })
        });
        Self::new(name, |id| chosen.iter().any(|selector| selector.selects(name, id)), rules)
    }

    /// Lists the chosen controls of a framework: those of its table, or else those that rules serve. `rules` are the names of
    /// the rules in force with the controls that they serve. `None` if no control is chosen.
    pub(super) fn new<C: Borrow<FrameworkControls>>(
        name: &str,
        is_chosen: impl Fn(&str) -> bool,
        rules: impl Iterator<Item = (String, C)>,
    ) -> Option<Self> {
        let mut served = served(name, rules);
        let table = FrameworkTable::named(name);
        let controls: Vec<ListedControl> = if let Some(table) = table {
            let controls = table.controls.iter().filter(|control| is_chosen(&control.id));
            let listed = controls.map(|control| {
                let rules = served.remove(&control.id).unwrap_or_default();
                let (coverage, reason) = control.coverage(!rules.is_empty());
                ListedControl { id: control.id.clone(), title: Some(&control.title), coverage, rules, reason }
            });
            listed.collect()
        } else {
            let controls = served.into_iter().filter(|(id, _)| is_chosen(id));
            let coverage = ControlCoverage::Full;
            controls.map(|(id, rules)| ListedControl { id, title: None, coverage, rules, reason: None }).collect()
        };
        let of = |coverage| controls.iter().filter(|control| control.coverage == coverage).count();
        let summary = CoverageCounts {
            full: of(ControlCoverage::Full),
            partial: of(ControlCoverage::Partial),
            none: of(ControlCoverage::None),
        };
        (!controls.is_empty()).then(|| Self {
            name: name.to_owned(),
            title: table.map(|table| table.title.as_str()),
            version: table.and_then(|table| table.version.as_deref()),
            link: table.map(|table| table.link.as_str()),
            summary,
            controls,
        })
    }
}

/// Returns the rules that serve each control of a framework; `rules` are their names with the controls that they serve.
fn served<C: Borrow<FrameworkControls>>(
    framework: &str,
    rules: impl Iterator<Item = (String, C)>,
) -> BTreeMap<String, Vec<String>> {
    let mut served: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (rule, frameworks) in rules {
        let own = frameworks.borrow().iter().filter(|(name, _)| is_same(name, framework));
        for control in own.flat_map(|(_, controls)| controls) {
            served.entry(control.to_string()).or_default().insert(rule.clone());
        }
    }
    served.into_iter().map(|(control, rules)| (control, rules.into_iter().collect())).collect()
}
