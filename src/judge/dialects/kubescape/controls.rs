//! The controls that no rule evaluates. Users read frameworks by their controls, so each control that is not evaluated
//! has to be reported.

use std::{collections::HashSet, sync::Arc};

use super::{
    FRAMEWORK_PREFIX,
    document::{Control, Framework},
};
use crate::{
    judge::{
        frameworks::{FrameworkTable, TableControl},
        unjudged::{ControlName, Unjudged},
    },
    model::verdict::Source,
};

impl Control {
    fn named(&self) -> ControlName {
        ControlName { id: self.id.clone(), title: self.name.clone() }
    }

    fn unjudged(&self, name: &str, reason: &str) -> Unjudged {
        unjudged_rule((name, &self.file), &[self], reason)
    }
}

impl Framework {
    /// Returns the name of a control, which the framework may override.
    fn title_of(&self, control: &Control) -> String {
        let active = self.active_controls.iter().find(|active| active.id == control.id);
        let patched = active.and_then(|active| active.patch.get("name")?.as_str());
        patched.unwrap_or(&control.name).to_owned()
    }

    /// Returns the ids of its controls, or their names in older libraries.
    fn controls(&self) -> impl Iterator<Item = &str> {
        let ids = self.active_controls.iter().map(|active| active.id.as_str());
        ids.chain(self.controls_names.iter().map(String::as_str))
    }
}

/// Returns the controls of a framework, and why rules of them are not evaluated.
pub(crate) fn table(framework: &Framework, known: &[Control], unjudged: &[Unjudged]) -> FrameworkTable {
    let control = |id: &str| {
        let control = known.iter().find(|control| control.id == id || control.name == id);
        let Some(control) = control else {
            let unchecked = Some("the library does not define it".to_owned());
            return TableControl { id: id.to_owned(), unchecked, ..TableControl::default() };
        };
        let of_control = |rule: &&Unjudged| rule.controls.iter().any(|own| own.id == control.id);
        let reasons = unjudged.iter().filter(of_control).map(|rule| format!("{}: {}", rule.name, rule.reason));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let reason = Some(reasons).filter(|reasons| !reasons.is_empty());
        let only_in_clouds = (!control.is_for_any_cluster()).then(|| "it applies to one cloud".to_owned());
        TableControl {
            id: control.id.clone(),
            title: framework.title_of(control),
            unchecked: reason.clone().or(only_in_clouds),
            partial: reason,
            checks: vec![control.id.clone()],
            ..TableControl::default()
        }
    };
    FrameworkTable {
        name: format!("{FRAMEWORK_PREFIX}{}", framework.name.to_lowercase()),
        title: format!("{} (Kubescape)", framework.name),
        version: None,
        link: None,
        aliases: Vec::new(),
        controls: framework.controls().map(control).collect(),
    }
}

/// Returns a rule that is not evaluated, with the controls that use it.
pub(crate) fn unjudged_rule(
    (name, file): (&str, &Arc<str>),
    controls: &[&Control],
    reason: impl Into<String>,
) -> Unjudged {
    let source = Source { file: Arc::clone(file), line: 1 };
    let controls = controls.iter().map(|control| control.named()).collect();
    Unjudged { name: name.to_owned(), reason: reason.into(), source, controls }
}

/// Returns the rules of the chosen controls that are not among `rules`, and the controls without rules.
pub(crate) fn missing_rules(chosen: &[Control], rules: &HashSet<&str>) -> Vec<Unjudged> {
    let missing = |control: &Control| {
        let unknown = control.rules_names.iter().filter(|name| !rules.contains(name.as_str()));
        let unknown = unknown.map(|name| control.unjudged(name, "there is no such rule"));
        let none = control.rules_names.is_empty().then(|| control.unjudged(&control.id, "it has no rule"));
        unknown.chain(none).collect::<Vec<_>>()
    };
    chosen.iter().flat_map(missing).collect()
}

/// Returns the controls of a framework that the library does not define.
pub(crate) fn missing_controls((framework, file): &(Framework, Arc<str>), known: &[Control]) -> Vec<Unjudged> {
    let unknown = |id: &&str| !known.iter().any(|control| control.id == **id || control.name == **id);
    let missing = framework.controls().filter(unknown).map(|id| {
        let controls = vec![ControlName { id: id.to_owned(), title: String::new() }];
        Unjudged { controls, ..unjudged_rule((id, file), &[], "there is no such control") }
    });
    missing.collect()
}
