//! The frameworks that rules in force serve, with the numbers of their controls.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::{prepared::Page, selection::PageSelection};
use crate::{
    judge::frameworks::{FrameworkSelector, FrameworkTable},
    model::{object::ObjectRef, rule_counts::RuleCounts, verdict::rule_id},
    output::framework_list::ListedFramework,
};

/// A framework with the numbers of its controls.
pub(super) struct FrameworkRow {
    pub(super) listed: ListedFramework,
    /// In the order of the framework.
    pub(super) controls: Vec<ControlNumbers>,
}

/// The numbers of a control.
pub(super) struct ControlNumbers {
    /// The ids of its rules, with those of controls that it includes, as a level includes another one.
    pub(super) rules: BTreeSet<String>,
    /// The objects with violations of its rules.
    pub(super) failing: usize,
    /// The counts of its rules, added up; `None` if filters select objects.
    pub(super) checks: Option<RuleCounts>,
}

/// Returns the names of the frameworks that rules in force serve.
pub(super) fn names(page: &Page) -> BTreeSet<Arc<str>> {
    page.rules().flat_map(|(_, _, about)| about.frameworks.keys()).map(|name| canonical(page, name)).collect()
}

/// Returns the name of a framework's table, or the name itself.
fn canonical(page: &Page, name: &Arc<str>) -> Arc<str> {
    FrameworkTable::find(&page.result.frameworks, name)
        .map_or_else(|| Arc::clone(name), |table| table.name.as_str().into())
}

/// Returns the frameworks that rules in force serve, with their selected controls.
pub(super) fn frameworks(selection: &PageSelection<'_>) -> Vec<FrameworkRow> {
    let (page, query) = (selection.page, selection.query);
    let selector = query.framework.as_deref().map(FrameworkSelector::new);
    let numbers = SelectedRules::of(selection);
    let row = |name: Arc<str>| {
        let is_chosen = |control: &str| selector.as_ref().is_none_or(|chosen| chosen.selects(&name, control));
        let rules =
            page.rules().map(|(policy, rule, about)| (rule_id(policy, rule, about.id.as_deref()), &about.frameworks));
        let listed = ListedFramework::new(&name, &page.result.frameworks, is_chosen, rules)?;
        let controls =
            listed.controls.iter().map(|control| numbers.of_control(page, &control_name(&name, &control.id)));
        Some(FrameworkRow { controls: controls.collect(), listed })
    };
    names(page).into_iter().filter_map(row).collect()
}

/// Returns a control as `--framework` and a query select it.
pub(super) fn control_name(framework: &str, control: &str) -> String {
    format!("{framework}:{control}")
}

/// The numbers of the selected rules, by policy and name.
struct SelectedRules<'p> {
    failing: HashMap<(&'p str, &'p str), BTreeSet<&'p ObjectRef>>,
    checks: Option<HashMap<(&'p str, &'p str), RuleCounts>>,
}

impl<'p> SelectedRules<'p> {
    fn of(selection: &PageSelection<'p>) -> Self {
        let mut failing: HashMap<_, BTreeSet<&ObjectRef>> = HashMap::new();
        for entry in selection.violations() {
            failing.entry((&*entry.policy, &*entry.rule)).or_default().insert(&entry.resource);
        }
        let checks = selection.query.selects_rules_only().then(|| {
            let rows = selection.rules().into_iter();
            rows.map(|row| ((row.policy, row.rule), row.total.unwrap_or_default())).collect()
        });
        Self { failing, checks }
    }

    /// Returns the numbers of a control. An object that several of its rules report counts once.
    fn of_control(&self, page: &'p Page, control: &str) -> ControlNumbers {
        let serving: Vec<_> = page.serving(control).collect();
        let keys = || serving.iter().map(|(policy, rule, _)| (*policy, *rule));
        let failing: BTreeSet<&ObjectRef> =
            keys().filter_map(|rule| self.failing.get(&rule)).flatten().copied().collect();
        let checks = self.checks.as_ref().map(|checks| {
            let mut sum = RuleCounts::default();
            keys().filter_map(|rule| checks.get(&rule)).for_each(|counts| sum += *counts);
            sum
        });
        let rules = serving.iter().map(|(policy, rule, about)| rule_id(policy, rule, about.id.as_deref())).collect();
        ControlNumbers { rules, failing: failing.len(), checks }
    }
}
