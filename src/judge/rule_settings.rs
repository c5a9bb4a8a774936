//! The user's rule settings: rules may be switched off, have another severity, or apply only in some namespaces.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::{Map, Value};

use super::{
    builtin,
    excusable::{ExcusablePattern, excusability},
    frameworks::{FrameworkControls, FrameworkSelector, FrameworkTable, is_same},
    metadata::{LookupNeed, Metadata},
    parameters::{self, ParameterValues},
    policy::Policy,
    profile::Profile,
    rule::Rule,
    rule_pattern::RulePattern,
    served_controls::served_by,
};
use crate::{
    model::{
        glob::Glob,
        rule_numbers::RuleNumbers,
        spelling::nearest,
        verdict::{Finding, Outcome, Severity},
    },
    rego::{
        Problem,
        analysis::yaml::{self, YamlDialect},
    },
};

/// A change to some rules. Unset fields leave the policy's value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleChange {
    off: Option<bool>,
    severity: Option<Severity>,
    namespaces: Option<Arc<[Glob]>>,
    /// Values of the rules' parameters, by name.
    parameters: Map<String, Value>,
}

impl RuleChange {
    /// Switches rules off.
    fn off() -> Self {
        Self { off: Some(true), ..Self::default() }
    }

    /// Whether rules apply in a namespace; `None` for cluster-scoped objects.
    fn applies_in(&self, namespace: Option<&str>) -> bool {
        let is_in = |globs: &Arc<[Glob]>| namespace.is_some_and(|own| globs.iter().any(|glob| glob.matches(own)));
        self.namespaces.as_ref().is_none_or(is_in)
    }

    /// Returns the combination of both; `later` takes precedence.
    fn and(self, later: &Self) -> Self {
        let mut parameters = self.parameters;
        parameters.extend(later.parameters.clone());
        Self {
            off: later.off.or(self.off),
            severity: later.severity.or(self.severity),
            namespaces: later.namespaces.clone().or(self.namespaces),
            parameters,
        }
    }
}

/// Parses `off`, or a mapping with `severity`, `off`, `namespaces` and parameters, which are checked when the rules are
/// known.
impl<'de> Deserialize<'de> for RuleChange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct RuleChangeFields {
            off: Option<bool>,
            severity: Option<String>,
            namespaces: Option<Vec<String>>,
            #[serde(flatten)]
            parameters: Map<String, Value>,
        }
        let value = Value::deserialize(deserializer)?;
        // In YAML 1.1, `off` is the boolean false.
        if value == "off" || value == false {
            return Ok(Self::off());
        }
        if !value.is_object() {
            return Err(D::Error::custom("expected off, or a mapping with severity, off, namespaces or parameters"));
        }
        let RuleChangeFields { off, severity, namespaces, parameters } =
            RuleChangeFields::deserialize(value).map_err(D::Error::custom)?;
        let severity = severity.map(|word| {
            Severity::from_word(&word).ok_or_else(|| {
                D::Error::custom(format!("unknown severity {word:?}: use critical, high, medium, low or info"))
            })
        });
        let namespaces = namespaces.map(|globs| globs.iter().map(|glob| Glob::new(glob)).collect());
        Ok(Self { off, severity: severity.transpose()?, namespaces, parameters })
    }
}

/// The settings of rules; later sources take precedence, and in each source the more precise names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSettings {
    /// Those of each source, for example of a file and of the command line.
    sources: Vec<Vec<(RulePattern, RuleChange)>>,
    /// The lowest severity that is reported.
    min_severity: Option<Severity>,
    /// The rules that a namespace may excuse; if empty, the default applies.
    excusable: Vec<ExcusablePattern>,
    /// Whether rules that report what does not exist are switched off: see [`LookupNeed::Complete`].
    objects_are_incomplete: bool,
}

impl RuleSettings {
    /// Returns settings that switch rules off.
    pub fn skipping(patterns: impl IntoIterator<Item = RulePattern>) -> Self {
        let entries = patterns.into_iter().map(|pattern| (pattern, RuleChange::off())).collect();
        Self { sources: vec![entries], ..Self::default() }
    }

    /// Limits reported violations to this severity and more severe ones, and those without a severity.
    #[must_use]
    pub fn from_severity(self, min_severity: Option<Severity>) -> Self {
        Self { min_severity: min_severity.or(self.min_severity), ..self }
    }

    /// Sets the rules that a namespace may excuse.
    #[must_use]
    pub fn with_excusable(self, excusable: Vec<ExcusablePattern>) -> Self {
        Self { excusable, ..self }
    }

    /// Switches rules off that report what does not exist, if the objects are not everything that exists.
    #[must_use]
    pub fn for_incomplete_objects(self, objects_are_incomplete: bool) -> Self {
        Self { objects_are_incomplete, ..self }
    }

    /// Parses a mapping from patterns to rule changes, in YAML or JSON. Ids and names of rules take precedence over names of
    /// policies, and those over globs.
    ///
    /// # Errors
    /// Returns the error in the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries = yaml::single(text, YamlDialect::Settings).and_then(|settings| settings.deserialize());
        let entries: BTreeMap<String, RuleChange> = entries.map_err(|error| error.why)?;
        let entries = entries.into_iter().map(|(pattern, change)| (RulePattern::new(&pattern), change));
        let entries: Vec<_> = entries.collect();
        let sources = if entries.is_empty() { Vec::new() } else { vec![entries] };
        Ok(Self { sources, ..Self::default() })
    }

    /// Adds settings that take precedence.
    pub fn extend(&mut self, later: Self) {
        self.sources.extend(later.sources);
        self.min_severity = later.min_severity.or(self.min_severity);
        if !later.excusable.is_empty() {
            self.excusable = later.excusable;
        }
    }

    /// Whether there are no settings.
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none() && self.min_severity.is_none() && self.excusable.is_empty()
    }

    fn entries(&self) -> impl Iterator<Item = &(RulePattern, RuleChange)> {
        self.sources.iter().flatten()
    }

    /// Returns the change to a rule.
    fn of(&self, policy: &str, rule: &str, metadata: &Metadata) -> RuleChange {
        let of_source = |entries: &Vec<(RulePattern, RuleChange)>| {
            let matching = entries.iter().filter(|(pattern, _)| pattern.matches(policy, rule, metadata));
            let mut matching: Vec<&(RulePattern, RuleChange)> = matching.collect();
            matching.sort_by_key(|(pattern, _)| pattern.precision(policy));
            matching.into_iter().fold(RuleChange::default(), |all, (_, later)| all.and(later))
        };
        self.sources.iter().fold(RuleChange::default(), |all, entries| all.and(&of_source(entries)))
    }

    /// Returns a problem for each parameter that no rule of its pattern has, and for each wrong value. The rules are those
    /// of `policies` and those that are left out. Patterns without rules have problems of their own.
    fn invalid_parameters(&self, policies: &[Policy], left_out: &[LeftOutRule]) -> Vec<Problem> {
        let of_entry = |(pattern, change): &(RulePattern, RuleChange)| {
            let left_out = left_out.iter().filter(|rule| pattern.matches(&rule.policy, &rule.rule, &rule.metadata));
            let in_force = matching(pattern, policies).map(|rule| &*rule.metadata);
            let rules: Vec<&Metadata> = in_force.chain(left_out.map(|rule| &rule.metadata)).collect();
            if rules.is_empty() { Vec::new() } else { parameters::problems(pattern, &rules, &change.parameters) }
        };
        let mut problems: Vec<Problem> = self.entries().flat_map(of_entry).collect();
        problems.dedup();
        problems
    }
}

/// Shows the settings, as part of the digest of a policy set.
impl fmt::Display for RuleSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rules:")?;
        self.min_severity.map_or(Ok(()), |least| write!(f, " from {}", least.word()))?;
        for (pattern, RuleChange { off, severity, namespaces, parameters }) in self.entries() {
            write!(f, " {pattern}")?;
            off.map_or(Ok(()), |off| write!(f, " off={off}"))?;
            severity.map_or(Ok(()), |severity| write!(f, " severity={}", severity.word()))?;
            for glob in namespaces.iter().flat_map(|globs| &**globs) {
                write!(f, " namespace={glob}")?;
            }
            parameters.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
        }
        self.excusable.iter().try_for_each(|pattern| write!(f, " excusable={pattern}"))
    }
}

/// A rule that is switched off.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SkippedRule {
    /// The package without `data.`, or the kind of a Constraint.
    pub policy: Arc<str>,
    /// The name of the rule's head, or of the Constraint.
    pub rule: Arc<str>,
    /// `custom.id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Arc<str>>,
    /// Why it is switched off, if not by a setting of its own: the same text for all rules with this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// Why a rule is off that belongs to no chosen framework.
const NOT_CHOSEN: &str = "not in the chosen framework";
/// Why a rule is off that reports what does not exist, if only manifests were read.
const NEEDS_CLUSTER: &str = "off without the cluster: --with-cluster or --files-are-complete";

impl SkippedRule {
    fn new(policy: &Arc<str>, rule: &Arc<str>, metadata: &Metadata, reason: Option<&str>) -> Self {
        let id = metadata.info.id.clone();
        Self { policy: Arc::clone(policy), rule: Arc::clone(rule), id, reason: reason.map(Into::into) }
    }

    /// Whether it is off because it reports what does not exist, and only manifests were read.
    pub(crate) fn needs_cluster(&self) -> bool {
        self.reason.as_deref() == Some(NEEDS_CLUSTER)
    }
}

/// Shows the id, or else policy and name.
impl fmt::Display for SkippedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => f.write_str(id),
            None => write!(f, "{}/{}", self.policy, self.rule),
        }
    }
}

/// The settings, the profile and the frameworks during loading, and the rules that they leave out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSelection {
    settings: RuleSettings,
    profile: Profile,
    /// If empty, frameworks switch off no rule.
    frameworks: Vec<FrameworkSelector>,
    /// Frameworks outside of METADATA.
    tables: Vec<FrameworkTable>,
    /// The controls that rules serve, also those that are switched off.
    served: RefCell<FrameworkControls>,
    skipped: RefCell<BTreeSet<SkippedRule>>,
    /// Rules of the library that the profile does not contain.
    unselected: RefCell<BTreeSet<SkippedRule>>,
    /// All rules that are not used, whose settings are checked all the same.
    left_out: RefCell<Vec<LeftOutRule>>,
}

/// A rule that is not used.
#[derive(Debug, PartialEq, Eq)]
struct LeftOutRule {
    policy: Arc<str>,
    rule: Arc<str>,
    metadata: Metadata,
}

/// The selection of the rules of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceSelection<'r> {
    pub(crate) selection: &'r RuleSelection,
    /// Whether the source is the builtin library, to which the profile applies.
    pub(crate) is_builtin: bool,
}

impl SourceSelection<'_> {
    /// Whether a rule is used: it is on, and belongs to a chosen framework. Rules that are not are recorded.
    pub(crate) fn takes(&self, policy: &Arc<str>, rule: &Arc<str>, metadata: &Metadata) -> bool {
        let RuleSelection { frameworks, tables, served, .. } = self.selection;
        let controls = served_by(metadata, tables);
        let is_chosen = frameworks.is_empty() || frameworks.iter().any(|chosen| chosen.takes(&controls));
        for (framework, controls) in controls {
            served.borrow_mut().entry(framework).or_default().extend(controls);
        }
        let is_on = self.is_on(policy, rule, metadata);
        if is_on && !is_chosen {
            self.selection.skip(policy, rule, metadata, Some(NOT_CHOSEN));
            self.selection.leave_out(policy, rule, metadata);
        }
        is_on && is_chosen
    }

    /// Whether a rule is on: neither a setting nor the profile leaves it out, and it does not need objects that have not been
    /// read. Rules that are not are recorded. A setting takes precedence over the profile.
    pub(crate) fn is_on(&self, policy: &Arc<str>, rule: &Arc<str>, metadata: &Metadata) -> bool {
        let Self { selection, is_builtin } = self;
        let change = selection.settings.of(policy, rule, metadata);
        let severity = change.severity.or(metadata.severity);
        let is_left_out = change.off.is_none() && *is_builtin && !selection.profile.contains(severity);
        let needs_cluster = selection.settings.objects_are_incomplete && metadata.lookups() == LookupNeed::Complete;
        if change.off == Some(true) {
            selection.skip(policy, rule, metadata, None);
        } else if is_left_out {
            selection.unselected.borrow_mut().insert(SkippedRule::new(policy, rule, metadata, None));
        } else if needs_cluster {
            selection.skip(policy, rule, metadata, Some(NEEDS_CLUSTER));
        } else {
            return true;
        }
        selection.leave_out(policy, rule, metadata);
        false
    }

    /// Returns the parameters that the settings give to the rules of the source, by id and name. Invalid ones are left
    /// out, and [`RuleSelection::finish`] reports them.
    pub(crate) fn parameters(&self, policies: &[Policy]) -> ParameterValues {
        let mut given = ParameterValues::new();
        for (policy, rule) in all_rules(policies) {
            let change = self.selection.settings.of(&policy.name, &rule.name, &rule.metadata);
            parameters::add_valid(&rule.metadata, change.parameters, &mut given);
        }
        given
    }
}

impl RuleSelection {
    pub(crate) fn new(
        settings: RuleSettings,
        profile: Profile,
        frameworks: &[String],
        tables: Vec<FrameworkTable>,
    ) -> Self {
        let frameworks = frameworks.iter().map(|name| FrameworkSelector::new(name)).collect();
        Self { settings, profile, frameworks, tables, ..Self::default() }
    }

    /// Returns the selection for a source.
    pub(crate) fn of_source(&self, is_builtin: bool) -> SourceSelection<'_> {
        SourceSelection { selection: self, is_builtin }
    }

    fn skip(&self, policy: &Arc<str>, rule: &Arc<str>, metadata: &Metadata, reason: Option<&str>) {
        self.skipped.borrow_mut().insert(SkippedRule::new(policy, rule, metadata, reason));
    }

    fn leave_out(&self, policy: &Arc<str>, rule: &Arc<str>, metadata: &Metadata) {
        let (policy, rule, metadata) = (Arc::clone(policy), Arc::clone(rule), metadata.clone());
        self.left_out.borrow_mut().push(LeftOutRule { policy, rule, metadata });
    }

    /// Returns the problems of chosen frameworks that neither the library, nor a rule, nor one of `others` has.
    pub(crate) fn unknown_frameworks(&self, others: &BTreeSet<String>) -> Vec<Problem> {
        let served = self.served.borrow();
        let unknown = self.frameworks.iter().filter(|chosen| {
            let tables = self.tables.iter().map(|table| &table.name);
            let is_named = others.iter().chain(tables).any(|name| is_same(name, &chosen.framework));
            chosen.table().is_none() && !chosen.takes(&served) && !is_named
        });
        unknown
            .map(|chosen| chosen.unknown(served.keys().map(ToString::to_string).chain(others.clone()).collect()))
            .collect()
    }

    /// Finishes loading: applies severities to the rules of `policies`, and decides which of them may be excused.
    pub(crate) fn finish(self, policies: &mut [Policy]) -> RuleChanges {
        let Self { settings, frameworks, skipped, unselected, left_out, .. } = self;
        let mut changes = HashMap::new();
        let (unmatched, invalid) = {
            let (skipped, unselected) = (skipped.borrow(), unselected.borrow());
            let excusable = settings.excusable.iter().filter_map(ExcusablePattern::rules);
            let patterns = settings.entries().map(|(pattern, _)| pattern).chain(excusable);
            let unmatched = patterns.filter(|pattern| {
                let is_named = matching(pattern, policies).next().is_some();
                let is_skipped = |SkippedRule { policy, rule, id, .. }: &SkippedRule| {
                    pattern.matches(policy, rule, &Metadata::of_id(id.clone()))
                };
                !is_named && !skipped.iter().chain(&*unselected).any(is_skipped)
            });
            let unmatched = unmatched.map(|pattern| Arc::clone(pattern.written())).collect();
            (unmatched, settings.invalid_parameters(policies, &left_out.borrow()))
        };
        for policy in policies {
            for rule in &mut policy.rules {
                let change = settings.of(&policy.name, &rule.name, &rule.metadata);
                if let Some(severity) = change.severity {
                    Arc::make_mut(&mut rule.metadata).severity = Some(severity);
                }
                let of = (&*policy.name, policy.is_builtin);
                rule.excusable = excusability(&settings.excusable, of, &rule.name, &rule.metadata);
                if change.severity.is_some() || change.namespaces.is_some() {
                    changes.insert((Arc::clone(&policy.name), Arc::clone(&rule.name)), change);
                }
            }
        }
        let mut skipped: Vec<SkippedRule> = skipped.into_inner().into_iter().collect();
        skipped.sort_by_cached_key(ToString::to_string);
        let unselected = unselected.into_inner().into_iter().collect();
        let min_severity = settings.min_severity;
        RuleChanges { changes, min_severity, frameworks, skipped, unselected, unmatched, invalid }
    }
}

fn all_rules(policies: &[Policy]) -> impl Iterator<Item = (&Policy, &Rule)> {
    policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)))
}

/// Returns the rules that a pattern matches.
fn matching<'p>(pattern: &'p RulePattern, policies: &'p [Policy]) -> impl Iterator<Item = &'p Rule> {
    let matches = |(policy, rule): &(&Policy, &Rule)| pattern.matches(&policy.name, &rule.name, &rule.metadata);
    all_rules(policies).filter(matches).map(|(_, rule)| rule)
}

/// The rule settings of a [`PolicySet`](super::set::PolicySet).
#[derive(Debug, Clone, Default)]
pub struct RuleChanges {
    /// The changes, by policy and rule.
    changes: HashMap<(Arc<str>, Arc<str>), RuleChange>,
    /// The lowest severity that is reported; violations without a severity are reported as well.
    pub min_severity: Option<Severity>,
    /// The chosen frameworks.
    pub frameworks: Vec<FrameworkSelector>,
    /// Rules that are switched off, sorted by their display text.
    pub skipped: Vec<SkippedRule>,
    /// Rules of the builtin library that the profile does not contain.
    pub(crate) unselected: Vec<SkippedRule>,
    /// Patterns that match no rule.
    pub unmatched: Vec<Arc<str>>,
    /// Parameters that no rule has, or whose values are wrong.
    pub(crate) invalid: Vec<Problem>,
}

impl RuleChanges {
    /// Applies the configured severities to the results of an object, and removes results of rules that do not apply in
    /// its namespace. A Namespace counts as being in itself; cluster-scoped objects are in no listed namespace.
    pub(crate) fn apply(&self, findings: &mut Vec<Finding>, namespace: Option<&str>) {
        if self.changes.is_empty() && self.min_severity.is_none() {
            return;
        }
        findings.retain_mut(|finding| {
            let change = self.of(&finding.rule.policy, &finding.rule.name);
            finding.severity = change.and_then(|change| change.severity).or(finding.severity);
            let is_severe =
                || self.min_severity.zip(finding.severity).is_none_or(|(least, severity)| severity <= least);
            change.is_none_or(|change| change.applies_in(namespace))
                && (finding.outcome == Outcome::Error || is_severe())
        });
    }

    /// Removes rules that do not apply to an object in a namespace.
    pub(crate) fn apply_to_passed(&self, passed: &mut RuleNumbers, namespace: Option<&str>) {
        if self.changes.values().any(|change| change.namespaces.is_some()) {
            passed.retain(|rule| {
                let [policy, rule] = rule.name();
                self.applies(&policy, &rule, namespace)
            });
        }
    }

    /// Whether a rule applies in a namespace.
    pub(crate) fn applies(&self, policy: &Arc<str>, rule: &Arc<str>, namespace: Option<&str>) -> bool {
        self.of(policy, rule).is_none_or(|change| change.applies_in(namespace))
    }

    fn of(&self, policy: &Arc<str>, rule: &Arc<str>) -> Option<&RuleChange> {
        if self.changes.is_empty() { None } else { self.changes.get(&(Arc::clone(policy), Arc::clone(rule))) }
    }

    /// Returns an error if patterns match no rule.
    ///
    /// # Errors
    /// Lists each of them with the nearest rule or id.
    pub fn check(&self, policies: &[Policy]) -> anyhow::Result<()> {
        let names: BTreeSet<String> = all_rules(policies)
            .flat_map(|(policy, rule)| {
                let ids = rule.metadata.ids().map(str::to_owned);
                ids.chain([format!("{}/{}", policy.name, rule.name), rule.name.to_string(), policy.name.to_string()])
            })
            .collect();
        let lines: Vec<String> = (self.unmatched.iter())
            .map(|pattern| {
                let near = || {
                    let near = nearest(pattern, names.iter().map(String::as_str));
                    near.map_or(String::new(), |near| format!("; did you mean {near}?"))
                };
                let known = builtin::part_with_rule(pattern).map(|part| builtin::named(&part));
                let hint = known.map_or_else(near, |part| format!(": it is in {part}; add -p {part}"));
                format!("no rule or policy matches {pattern}{hint}")
            })
            .collect();
        anyhow::ensure!(lines.is_empty(), "{}\n  help: kaudit policies lists all rules", lines.join("\n"));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
