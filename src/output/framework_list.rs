//! How the rules in force cover the controls of the chosen frameworks.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use crate::{
    judge::{
        frameworks::{ControlCoverage, FrameworkControls, FrameworkTable, is_same},
        rule::Rule,
        set::PolicySet,
    },
    model::verdict::rule_id,
};

/// A framework with its controls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedFramework {
    /// Its name.
    pub name: String,
    /// Its title; `None` for a framework that only rules name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A page about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
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
    pub title: Option<String>,
    /// How rules cover it.
    pub coverage: ControlCoverage,
    /// The rules in force that serve it, by their ids, or else `POLICY/RULE`; sorted.
    pub rules: Vec<String>,
    /// What rules do not cover, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CoverageCounts {
    /// Whether no control is checked.
    fn is_none(&self) -> bool {
        self.full + self.partial == 0
    }
}

impl ListedFramework {
    /// Lists the chosen frameworks, each once.
    pub(super) fn chosen(policies: &PolicySet) -> Vec<Self> {
        let mut frameworks: Vec<Self> = Vec::new();
        let chosen = &policies.rule_changes.frameworks;
        for selector in chosen {
            if frameworks.iter().all(|known| known.name != *selector.framework) {
                let name = &selector.framework;
                let is_chosen = |id: &str| chosen.iter().any(|selector| selector.selects(name, id));
                let listed = Self::of(name, is_chosen, policies);
                // The name may be that of a framework in a library that is loaded instead of the builtin one.
                let is_other = |listed: &Self| !policies.frameworks.is_empty() && listed.summary.is_none();
                frameworks.extend(listed.filter(|listed| !is_other(listed)));
            }
        }
        // With a chosen framework, those of libraries are the chosen ones.
        let tables = policies.frameworks.iter().filter(|_| !chosen.is_empty());
        let missing = tables.filter(|table| frameworks.iter().all(|known| known.name != table.name));
        let missing: Vec<Self> = missing.filter_map(|table| Self::of(&table.name, |_| true, policies)).collect();
        frameworks.extend(missing);
        frameworks
    }

    /// Lists the framework of a selector; `None` if neither the library nor a rule has it.
    fn of(name: &str, is_chosen: impl Fn(&str) -> bool, policies: &PolicySet) -> Option<Self> {
        let rules = policies.policies.iter().flat_map(|policy| {
            policy.rules.iter().map(|Rule { name, metadata, .. }| {
                (rule_id(&policy.name, name, metadata.info.id.as_deref()), metadata.frameworks())
            })
        });
        Self::new(name, &policies.frameworks, is_chosen, rules)
    }

    /// Lists the chosen controls of a framework: those of its table, or else those that rules serve. `of_libraries` are the
    /// tables of libraries that are loaded, `rules` the names of the rules in force with the controls that they serve. `None` if no control is chosen.
    pub(super) fn new<C: Borrow<FrameworkControls>>(
        name: &str,
        of_libraries: &[FrameworkTable],
        is_chosen: impl Fn(&str) -> bool,
        rules: impl Iterator<Item = (String, C)>,
    ) -> Option<Self> {
        let mut served = served(name, rules);
        let table = FrameworkTable::find(of_libraries, name);
        let controls: Vec<ListedControl> = if let Some(table) = table {
            let controls = table.controls.iter().filter(|control| is_chosen(&control.id));
            let listed = controls.map(|control| {
                let rules = served.remove(&control.id).unwrap_or_default();
                let (coverage, reason) = control.coverage(!rules.is_empty());
                let (title, reason) = (Some(control.title.clone()), reason.map(str::to_owned));
                ListedControl { id: control.id.clone(), title, coverage, rules, reason }
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
            title: table.map(|table| table.title.clone()),
            version: table.and_then(|table| table.version.clone()),
            link: table.and_then(|table| table.link.clone()),
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
