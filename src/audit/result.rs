//! The result of an audit: the one model from which every form of output is made.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    ops::Range,
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{exceptions::ExceptionSummary, fingerprint::Fingerprint, pairing::Distinction};
use crate::{
    cluster::identity::API_VERSION,
    judge::{
        builtin,
        bundle::Edition,
        excusable::Excusability,
        frameworks::FrameworkTable,
        metadata::{Metadata, RelatedResource},
        policy::Policy,
        profile::Profile,
        rule::{Rule, RuleText},
        rule_example::RuleExample,
        rule_settings::SkippedRule,
        unjudged::Unjudged,
    },
    model::{
        coverage::Coverage,
        exception::Excuse,
        object::{Location, ObjectName, ObjectRef},
        rule_counts::{ObjectOutcome, RuleCounts},
        shard::Shard,
        verdict::{Finding, Outcome, RuleInfo, Severity, Source, rule_id},
    },
    rego::Problem,
};

/// The kind of an [`AuditResult`].
pub const KIND: &str = "AuditResult";

/// The whole result at one moment: what `-o json` and `/status` show, and others rely on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditResult {
    /// The version of the format; readers have to check it.
    #[serde(skip_deserializing, default = "api_version")]
    pub api_version: &'static str,
    /// Always `AuditResult`; readers have to check it.
    #[serde(skip_deserializing, default = "kind")]
    pub kind: &'static str,
    /// What was checked, if the audit ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<AuditScope>,
    /// Whether every kind in scope was read and every policy ran.
    pub complete: bool,
    /// Objects and results, counted.
    pub summary: Summary,
    /// What was read, by kind; sorted by group, resource.
    pub coverage: Vec<Coverage>,
    /// The policies in force; sorted by name.
    pub policies: Vec<PolicySummary>,
    /// The bundles that policies come from, in the order in which they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<Edition>,
    /// Why policy files were refused; sorted by file and line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Problem>,
    /// Policies that are valid but not evaluated, e.g. templates in CEL; sorted by name.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<Unjudged>,
    /// The frameworks of libraries among the policies, for the page only.
    #[serde(skip)]
    pub frameworks: Arc<[FrameworkTable]>,
    /// The profile of the builtin library, if it is used and the profile is not `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Rules that are switched off; sorted by policy and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped_rules: Vec<SkippedRule>,
    /// The least severity that is reported, if one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_severity: Option<Severity>,
    /// Namespaces whose objects are not checked, as globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_namespaces: Vec<String>,
    /// The exceptions, with their states; sorted by name.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<ExceptionSummary>,
    /// How the baseline compares with this result, if one was given.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineSummary>,
    /// Fail, warn, error and skip; sorted by resource, policy, rule, message.
    pub results: Vec<Entry>,
    /// Violations that were resolved within a week and since this process began, the newest first; at most 1,000.
    #[serde(skip)]
    pub ended: Vec<Ended>,
    /// Objects in each namespace that was checked, if that is known; `None` counts objects of the cluster.
    #[serde(skip)]
    pub namespaces: BTreeMap<Option<Arc<str>>, usize>,
    /// The team of each namespace that has one.
    #[serde(skip)]
    pub teams: BTreeMap<Arc<str>, Arc<str>>,
    /// Objects that more than one document of the manifests defines.
    #[serde(skip)]
    pub repeated: HashSet<ObjectName>,
}

/// A violation that was resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// When it was resolved.
    pub at: Timestamp,
    /// The violation.
    pub entry: Entry,
}

impl AuditResult {
    /// Sorts the results, which a pipeline returns in no order.
    pub fn sort(&mut self) {
        self.results.sort_by(|a, b| a.order().cmp(&b.order()));
    }

    /// Returns it without the results that an owner covers, as people read it.
    pub fn rolled_up(&self) -> Cow<'_, Self> {
        if self.results.iter().all(|entry| entry.covered_by.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut rolled_up = self.clone();
        rolled_up.roll_up();
        Cow::Owned(rolled_up)
    }

    /// Whether the namespace of a result may excuse it with a `PolicyException`.
    pub fn may_be_excused(&self, entry: &Entry) -> bool {
        let policies = self.policies.iter().filter(|policy| *policy.name == *entry.policy);
        // Several sources may have a rule of one name, as Constraints do: all of them have to allow it.
        let rules = policies.filter_map(|policy| policy.excusable.get(&*entry.rule).copied());
        let excusable = rules.reduce(Excusability::and).unwrap_or_default();
        entry.resource.namespace.is_some() && excusable.allows(entry.severity)
    }

    /// Counts the objects with results of each rule again, after results were changed or left out.
    pub(crate) fn count_objects(&mut self) {
        let mut rules: BTreeMap<(&str, &str), BTreeMap<&ObjectRef, ObjectOutcome>> = BTreeMap::new();
        for entry in self.results.iter().filter(|entry| entry.covered_by.is_none()) {
            let objects = rules.entry((&*entry.policy, &*entry.rule)).or_default();
            let worst = objects.entry(&*entry.resource).or_insert(ObjectOutcome::Excused);
            *worst = ObjectOutcome::from(entry.result).max(*worst);
        }
        for policy in &mut self.policies {
            for (rule, counts) in &mut policy.objects {
                let objects = rules.get(&(policy.name.as_str(), rule.as_str()));
                counts.count(objects.into_iter().flat_map(BTreeMap::values).copied());
            }
        }
    }

    /// Returns it with other results, and otherwise as it is.
    pub(crate) fn with_results(&self, results: Vec<Entry>) -> Self {
        Self {
            scope: self.scope.clone(),
            coverage: self.coverage.clone(),
            policies: self.policies.clone(),
            bundles: self.bundles.clone(),
            refused: self.refused.clone(),
            not_judged: self.not_judged.clone(),
            frameworks: Arc::clone(&self.frameworks),
            skipped_rules: self.skipped_rules.clone(),
            excluded_namespaces: self.excluded_namespaces.clone(),
            exceptions: self.exceptions.clone(),
            baseline: self.baseline.clone(),
            results,
            ended: self.ended.clone(),
            namespaces: self.namespaces.clone(),
            teams: self.teams.clone(),
            repeated: self.repeated.clone(),
            ..*self
        }
    }

    /// Leaves out the results that an owner covers, which the summary does not count among the others anyway.
    pub fn roll_up(&mut self) {
        self.results.retain(|entry| entry.covered_by.is_none());
    }
}

#[cfg(test)]
impl AuditResult {
    /// A complete result without any entries.
    pub(crate) fn sample(objects: usize) -> Self {
        Self {
            api_version: API_VERSION,
            kind: KIND,
            scope: None,
            complete: true,
            summary: Summary { objects, ..Summary::default() },
            coverage: vec![],
            policies: vec![],
            bundles: vec![],
            refused: vec![],
            not_judged: vec![],
            frameworks: Arc::default(),
            profile: None,
            skipped_rules: vec![],
            min_severity: None,
            excluded_namespaces: vec![],
            exceptions: vec![],
            baseline: None,
            results: vec![],
            ended: vec![],
            namespaces: BTreeMap::new(),
            teams: BTreeMap::new(),
            repeated: HashSet::new(),
        }
    }
}

fn api_version() -> &'static str {
    API_VERSION
}

fn kind() -> &'static str {
    KIND
}

/// What an audit checked; the kinds are in the coverage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditScope {
    /// The clusters, by their contexts, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// Where the objects were.
    pub source: ObjectSource,
    /// The only namespaces; empty is all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The part of the objects.
    #[serde(default, skip_serializing_if = "is_whole")]
    pub shard: Shard,
    /// The labels that the objects have, as in `kubectl get -l`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_whole(shard: &Shard) -> bool {
    shard.is_whole()
}

/// Where objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say all")]
pub enum ObjectSource {
    Cluster,
    Manifests,
}

/// Shows it as a part of a sentence.
impl fmt::Display for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "a cluster",
            Self::Manifests => "manifests",
        })
    }
}

/// Counts of an audit. A result that an owner covers counts as covered only, so that each violation counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Objects that were evaluated.
    pub objects: usize,
    /// (object, rule) pairs that were evaluated without a result.
    pub pass: usize,
    /// Results with the outcome `fail`.
    pub fail: usize,
    /// Results with the outcome `warn`.
    pub warn: usize,
    /// Results with the outcome `error`.
    pub error: usize,
    /// Results with the outcome `skip`.
    pub skip: usize,
    /// Results of dependents covered by a result of their owner.
    #[serde(default, skip_serializing_if = "crate::model::text::is_zero")]
    pub covered: usize,
}

impl Summary {
    /// Returns the count of one outcome, to change it.
    pub fn of(&mut self, outcome: Outcome) -> &mut usize {
        match outcome {
            Outcome::Fail => &mut self.fail,
            Outcome::Warn => &mut self.warn,
            Outcome::Error => &mut self.error,
            Outcome::Skip => &mut self.skip,
        }
    }
}

/// How a result compares with a baseline.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BaselineSummary {
    /// The number of results that the baseline lists, which are skipped.
    pub known: usize,
    /// Listed violations that no longer exist.
    pub fixed: Vec<BaselineEntry>,
    /// Whether this run removes them from the baseline.
    #[serde(skip)]
    pub is_pruned: bool,
    /// Listed violations of objects that were not read because their files were not given, and those that are less severe
    /// than the violations that are reported.
    #[serde(rename = "notFound", skip_serializing_if = "Vec::is_empty")]
    pub not_found: Vec<BaselineEntry>,
    /// Listed violations that cannot be compared, each with the reason.
    pub incomparable: Vec<IncomparableEntry>,
}

/// A violation in a baseline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineEntry {
    /// Kind, with its group if it has one: `Deployment.apps`.
    pub kind: String,
    /// `namespace/name`, or `name`.
    pub name: String,
    /// Package without `data.`, or a Constraint's kind.
    pub policy: String,
    /// Name of the rule's head, or of the Constraint.
    pub rule: String,
    /// Identifies the violation; equal in every audit that finds it.
    pub id: Fingerprint,
    /// The message of the policy.
    pub message: String,
    /// Distinguishes it from others of its id; baselines of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Fingerprint>,
    /// File of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl BaselineEntry {
    /// Returns what tells it apart from others of its id.
    pub(crate) fn distinction(&self) -> Distinction<'_> {
        let file = self.file.as_deref().unwrap_or_default();
        Distinction { value: self.value, message: &self.message, file, name: "" }
    }
}

/// A violation in a baseline of which it is not known whether it is still open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IncomparableEntry {
    /// The violation.
    #[serde(flatten)]
    pub entry: BaselineEntry,
    /// Why it cannot be compared.
    pub reason: String,
}

/// One policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicySummary {
    /// Package without `data.`, or a Constraint's kind.
    pub name: String,
    /// `conftest`, `admission`, `gatekeeper`.
    pub dialect: String,
    /// File it comes from.
    pub source: String,
    /// Its rules, sorted.
    pub rules: Vec<String>,
    /// Its own annotations.
    #[serde(flatten)]
    pub about: About,
    /// How many objects its rules apply to, by the name of the rule; without rules that apply to none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub objects: BTreeMap<String, RuleCounts>,
    /// Annotations of its rules, by name, where they differ from its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub about_rules: BTreeMap<String, About>,
    /// The definitions of its rules, by name.
    #[serde(skip)]
    pub texts: BTreeMap<String, Vec<RuleText>>,
    /// Which violations of its rules a namespace may excuse, by name.
    #[serde(skip)]
    pub excusable: BTreeMap<String, Excusability>,
}

/// The METADATA annotations of a policy or rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `title`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// `description`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
    /// `custom.severity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// `custom.id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Arc<str>>,
    /// `custom.category`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Arc<str>>,
    /// `related_resources`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<RelatedResource>,
    /// `custom.frameworks`: the controls that the rule serves, by framework.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub frameworks: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// How to fix the violation: `custom.recommended_action` of Trivy's checks, `remediation` of Kubescape's controls.
    #[serde(rename = "recommendedAction", default, skip_serializing_if = "Option::is_none")]
    pub recommended_action: Option<Arc<str>>,
    /// `custom.long_id`.
    #[serde(rename = "longId", default, skip_serializing_if = "Option::is_none")]
    pub long_id: Option<Arc<str>>,
    /// `custom.avd_id` and `custom.aliases`: other ids by which exceptions of Trivy and its documentation know it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Arc<str>>,
    /// `custom.example`, for the page only.
    #[serde(skip)]
    pub example: Option<Arc<RuleExample>>,
}

impl About {
    /// Returns the controls that the rule serves, for example `cis-1.12: 5.1.1, 5.1.3; nsa-1.2: rbac`.
    pub fn served_controls(&self) -> String {
        let controls = self.frameworks.iter().map(|(name, controls)| format!("{name}: {}", controls.join(", ")));
        controls.collect::<Vec<_>>().join("; ")
    }
}

impl From<&Metadata> for About {
    fn from(metadata: &Metadata) -> Self {
        let Metadata { info, description, severity, related_resources, custom, .. } = metadata.clone();
        let RuleInfo { title, id, category } = RuleInfo::clone(&info);
        let text = |value: &serde_json::Value| value.as_str().map(|text| Arc::<str>::from(text.trim()));
        let named = |names: &[&str]| names.iter().find_map(|name| text(custom.get(*name)?));
        let mut aliases: Vec<Arc<str>> = named(&["avd_id"]).into_iter().collect();
        aliases.extend(custom.get("aliases").and_then(|list| list.as_array()).into_iter().flatten().filter_map(text));
        let mut known = BTreeSet::new();
        aliases.retain(|alias| known.insert(Arc::clone(alias)));
        Self {
            title,
            description,
            severity,
            id,
            category,
            links: related_resources,
            frameworks: metadata.frameworks(),
            recommended_action: named(&["recommended_action", "recommended_actions", "remediation"]),
            long_id: named(&["long_id"]),
            aliases,
            example: metadata.example().map(Arc::new),
        }
    }
}

/// One result. There may be very many, so the parts that they have in common are shared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Identifies the result; equal in every audit that finds it.
    pub id: Fingerprint,
    /// Package without `data.`, or a Constraint's kind.
    pub policy: Arc<str>,
    /// Name of the rule's head, or of the Constraint.
    pub rule: Arc<str>,
    /// fail, warn, error or skip.
    pub result: Outcome,
    /// `None` if neither the rule nor the result names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The id of the rule in its METADATA, such as `IMG-01`.
    #[serde(rename = "ruleId", default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<Arc<str>>,
    /// The title of the rule in its METADATA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Arc<str>>,
    /// `None` if the policy names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<Arc<str>>,
    /// The message of the policy.
    pub message: Arc<str>,
    /// The object that was evaluated.
    pub resource: Arc<ObjectRef>,
    /// What controls the object, directly or through others: the topmost such object that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Arc<ObjectRef>>,
    /// The owner that has the same violation, and at which it is listed where people read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered_by: Option<Arc<ObjectRef>>,
    /// How many results of dependents this one covers.
    #[serde(default, skip_serializing_if = "crate::model::text::is_zero")]
    pub dependents: usize,
    /// Other keys of the policy's result.
    pub details: serde_json::Map<String, serde_json::Value>,
    /// What excuses it, if the result is skip and it is not the policy itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excuse: Option<Arc<Excuse>>,
    /// File and line of the rule.
    pub source: Source,
    /// File and line of the manifest; only with `-f`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// The line of the field that the result is about, in the file of the manifest; only with `-f`.
    #[serde(default, rename = "fieldLine", skip_serializing_if = "Option::is_none")]
    pub field_line: Option<usize>,
    /// The edit that fixes its manifest; only with `-f`, for SARIF.
    #[serde(skip)]
    pub edit: Option<Arc<LineEdit>>,
    /// When it was seen first, by this process or one that recorded it; `None` where only the present is known.
    #[serde(skip)]
    pub since: Option<Timestamp>,
    /// It is not reported as new yet, as an owner covered it until a moment ago.
    #[serde(skip)]
    pub is_handed_over: bool,
}

/// An edit that replaces lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineEdit {
    /// The replaced lines, from 1.
    pub lines: Range<usize>,
    /// The new lines, with line breaks.
    pub text: String,
}

impl LineEdit {
    /// Returns the edit from the first line that differs between two texts, which begin at a line, to the last.
    pub fn between(first: usize, old: &str, new: &str) -> Self {
        let [old, new] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
        let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let (rest, changed) = (&old[same..], &new[same..]);
        let same_end = rest.iter().rev().zip(changed.iter().rev()).take_while(|(old, new)| old == new).count();
        let begin = first + same;
        let lines = begin..begin + rest.len() - same_end;
        Self { lines, text: changed[..changed.len() - same_end].concat() }
    }
}

impl Entry {
    /// Returns the id of its rule, or `POLICY/RULE`.
    pub fn id_of_rule(&self) -> String {
        rule_id(&self.policy, &self.rule, self.rule_id.as_deref())
    }

    /// Returns the field of the object that it is about, if the policy names it as `details.field`.
    pub fn field(&self) -> Option<&str> {
        self.details.get("field")?.as_str()
    }

    /// Returns what tells it apart from others of its id.
    pub(crate) fn distinction(&self) -> Distinction<'_> {
        let file = self.location.as_ref().map_or("", |location| &location.file);
        Distinction { value: Some(self.value()), message: &self.message, file, name: &self.resource.name }
    }

    /// Returns what its evidence is recognised by, numbers included.
    pub(crate) fn value(&self) -> Fingerprint {
        Fingerprint::of_evidence(&self.message, &self.details, &self.resource, self.owner.as_deref())
    }

    /// Returns what results are sorted by.
    pub fn order(&self) -> impl Ord + use<'_> {
        let Self { policy, rule, result, message, resource, location, .. } = self;
        (resource, location, policy, rule, *result, message)
    }

    /// Makes a result of a finding.
    pub fn new(
        finding: &Finding,
        resource: &Arc<ObjectRef>,
        location: Option<&Location>,
        owner: Option<&Arc<ObjectRef>>,
    ) -> Self {
        let RuleInfo { title, id: rule_id, category } = RuleInfo::clone(&finding.rule.info);
        Self {
            id: Fingerprint::of(finding, resource, owner.map(|owner| &**owner)),
            policy: finding.rule.policy.clone(),
            rule: finding.rule.name.clone(),
            result: finding.outcome,
            severity: finding.severity,
            rule_id,
            title,
            category,
            message: finding.message.clone(),
            resource: resource.clone(),
            owner: owner.cloned(),
            covered_by: None,
            dependents: 0,
            field_line: None,
            edit: None,
            details: finding.details.as_deref().cloned().unwrap_or_default(),
            excuse: finding.excused.as_ref().map(|excused| Arc::clone(&excused.excuse)),
            source: finding.rule.source.clone(),
            location: location.cloned(),
            since: None,
            is_handed_over: false,
        }
    }
}

/// Lists a result.
impl From<&Entry> for BaselineEntry {
    fn from(entry: &Entry) -> Self {
        // Names below an owner are generated.
        let (object, name) = (&entry.resource, &entry.owner.as_ref().unwrap_or(&entry.resource).name);
        let namespace = object.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
        Self {
            kind: object.kind_with_group(),
            name: format!("{namespace}{name}"),
            policy: entry.policy.to_string(),
            rule: entry.rule.to_string(),
            id: entry.id,
            message: entry.message.to_string(),
            value: Some(entry.value()),
            file: entry.location.as_ref().map(|location| location.file.to_string()).filter(|file| file != "-"),
        }
    }
}

impl PolicySummary {
    /// Returns the annotations of a rule.
    pub fn about_rule(&self, rule: &str) -> &About {
        self.about_rules.get(rule).unwrap_or(&self.about)
    }
}

impl From<&Policy> for PolicySummary {
    fn from(policy: &Policy) -> Self {
        let mut rules: Vec<_> = policy.rules.iter().map(|rule| rule.name.to_string()).collect();
        rules.sort();
        let about = About::from(&policy.metadata);
        let about_rule = |rule: &Rule| {
            let mut own = About::from(&*rule.metadata);
            let page = own.id.as_deref().filter(|_| policy.is_builtin).and_then(builtin::page);
            own.links.splice(..0, page.map(|page| RelatedResource { reference: page.into(), description: None }));
            (rule.name.to_string(), own)
        };
        let about_rules = policy.rules.iter().map(about_rule);
        Self {
            about_rules: about_rules.filter(|(_, own)| *own != about).collect(),
            about,
            name: policy.name.to_string(),
            dialect: policy.dialect.to_string(),
            source: policy.source.to_string(),
            rules,
            objects: BTreeMap::new(),
            texts: policy.rules.iter().map(|rule| (rule.name.to_string(), rule.texts.clone())).collect(),
            excusable: policy.rules.iter().map(|rule| (rule.name.to_string(), rule.excusable)).collect(),
        }
    }
}
