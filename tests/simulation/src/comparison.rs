//! Compares kaudit's output for a cluster with the expected results of its policies.

mod bucket;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    cluster::{HOME, KINDS},
    excuses::{EXCEPTIONS, Excuse},
    owners,
    policies::{Excused, ObjectsByName, Policy, PolicyFinding, UnreadKinds},
    replica::ReplicaSettings,
};

/// API versions and kinds of kaudit's records.
const RECORDS: [(&str, &str); 4] = [
    ("openreports.io/v1alpha1", "Report"),
    ("openreports.io/v1alpha1", "ClusterReport"),
    ("events.k8s.io/v1", "Event"),
    ("kaudit.dev/v1alpha1", "Audit"),
];

/// All objects used in a comparison, by kind.
#[derive(Debug, Default)]
pub struct ListedObjects(BTreeMap<&'static str, Vec<Value>>);

impl ListedObjects {
    /// Lists them with a function that returns the objects of an API version and kind, if that is served.
    pub fn list(mut list: impl FnMut(&'static str, &'static str) -> Option<Vec<Value>>) -> Self {
        Self(Self::kinds().filter_map(|(api_version, kind)| Some((kind, list(api_version, kind)?))).collect())
    }

    /// Creates them from lists by kind.
    pub fn from_lists(lists: impl IntoIterator<Item = (&'static str, Vec<Value>)>) -> Self {
        Self(lists.into_iter().collect())
    }

    /// Returns the API versions and kinds to list.
    pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
        let audited = KINDS.iter().map(|kind| (kind.api_version, kind.kind));
        audited.chain([EXCEPTIONS]).chain(RECORDS)
    }

    fn of(&self, kind: &str) -> &[Value] {
        self.0.get(kind).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the objects that policies may read.
    pub fn audited(&self) -> ObjectsByName {
        let mut objects = ObjectsByName::new();
        for (index, kind) in KINDS.iter().enumerate() {
            let key =
                |object: &Value| (index, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
            objects.extend(self.of(kind.kind).iter().map(|object| (key(object), object.clone())));
        }
        objects
    }

    /// Returns the kinds that are not served, indexes of [`KINDS`].
    fn not_served(&self) -> BTreeSet<usize> {
        (0..KINDS.len()).filter(|kind| !self.0.contains_key(KINDS[*kind].kind)).collect()
    }

    /// Returns the uids of the objects that policies may read.
    pub fn uids(&self) -> BTreeSet<String> {
        let objects = KINDS.iter().flat_map(|kind| self.of(kind.kind));
        objects.map(|object| text(&object["metadata"]["uid"])).collect()
    }

    /// Returns the uids of all objects.
    fn uids_by_object(&self) -> BTreeMap<(String, String, String), String> {
        let own = |((kind, namespace, name), object): ((usize, String, String), Value)| {
            ((KINDS[kind].kind.to_owned(), namespace, name), text(&object["metadata"]["uid"]))
        };
        self.audited().into_iter().map(own).collect()
    }

    /// Returns the policies and namespaces excused by teams, and until when.
    fn excused(&self) -> impl Iterator<Item = ((String, String), Option<Timestamp>)> {
        self.of(EXCEPTIONS.1).iter().map(|one| {
            let key = (text(&one["spec"]["policies"][0]["name"]), text(&one["metadata"]["namespace"]));
            (key, one["spec"]["expiresAt"].as_str().and_then(|end| end.parse().ok()))
        })
    }

    /// Returns the policies and namespaces excused by teams without an end, as far as all these policies allow it.
    pub fn excused_for_ever(&self, policies: &[Policy]) -> BTreeSet<(String, String)> {
        let endless = self.excused().filter(|(_, end)| end.is_none()).map(|(excused, _)| excused);
        let is_refused = |(excused, _): &(String, String)| {
            policies.iter().any(|policy| policy.name() == *excused && !policy.is_excusable)
        };
        endless.filter(|excused| !is_refused(excused)).collect()
    }

    /// Returns the policies from which teams are excused until a date.
    pub fn excused_until_a_date(&self) -> impl Iterator<Item = String> {
        self.excused().filter(|(_, end)| end.is_some()).map(|((policy, _), _)| policy)
    }

    /// Returns the Audit objects of these names.
    fn audits(&self, names: &[String]) -> Vec<&Value> {
        let is_audit = |audit: &&Value| {
            let metadata = &audit["metadata"];
            metadata["namespace"] == HOME && names.iter().any(|name| metadata["name"] == **name)
        };
        self.of("Audit").iter().filter(is_audit).collect()
    }

    /// Returns the number of objects by API version and kind in the coverage of Audits.
    pub fn covered(&self, settings: &ReplicaSettings) -> BTreeMap<(String, String), usize> {
        let mut covered = BTreeMap::new();
        let audits = self.audits(&settings.audits());
        let kinds = audits.iter().flat_map(|audit| audit["status"]["coverage"].as_array().into_iter().flatten());
        for kind in kinds.filter(|kind| kind["state"] == "synced") {
            let (group, version) = (text(&kind["group"]), text(&kind["version"]));
            let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
            let objects = kind["objects"].as_u64().and_then(|objects| usize::try_from(objects).ok());
            *covered.entry((api_version, text(&kind["kind"]))).or_default() += objects.unwrap_or_default();
        }
        covered
    }

    /// Returns the results in all reports.
    fn reported(&self) -> impl Iterator<Item = &Value> {
        let reports = ["Report", "ClusterReport"].into_iter().flat_map(|kind| self.of(kind));
        reports.flat_map(|report| report["results"].as_array().into_iter().flatten())
    }

    /// Returns the violations of Events about transitions.
    pub fn changes(&self) -> impl Iterator<Item = ViolationKey> {
        let events =
            self.of("Event").iter().filter(|event| event["reason"] == "PolicyViolation" && is_about_change(event));
        events.map(|event| Announcement::event(event, true).about)
    }

    /// Returns the Events about open and resolved violations, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// If an Event has no version.
    pub fn events(&self) -> anyhow::Result<Vec<Announcement>> {
        let mut events = Vec::new();
        for event in self.of("Event").iter().filter(|event| !is_about_change(event)) {
            let is_new = match event["reason"].as_str() {
                Some("PolicyViolation") => true,
                Some("PolicyResolved") => false,
                _ => continue,
            };
            let version: u64 = text(&event["metadata"]["resourceVersion"]).parse()?;
            events.push((version, Announcement::event(event, is_new)));
        }
        events.sort_by_key(|(version, _)| *version);
        Ok(events.into_iter().map(|(_, event)| event).collect())
    }
}

/// Whether an Event is about a transition: Events about open violations have a `since` annotation.
fn is_about_change(event: &Value) -> bool {
    event["metadata"]["annotations"]["kaudit.dev/since"].is_null()
}

/// A violation of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ViolationKey {
    /// The object's uid; unknown for expected violations.
    pub uid: String,
    /// Kind, namespace and name of the object.
    pub object: (String, String, String),
    /// Policy and rule, with a slash between them.
    pub rule: String,
    /// The message.
    pub message: String,
}

impl ViolationKey {
    fn expected(finding: &PolicyFinding) -> Self {
        let PolicyFinding { policy, rule, kind, namespace, name, message, .. } = finding;
        let object = ((*kind).to_owned(), namespace.clone(), name.clone());
        Self { uid: String::new(), object, rule: format!("{policy}/{rule}"), message: message.clone() }
    }
}

/// An Event, a notification or a line: a violation is new, or resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The violation.
    pub about: ViolationKey,
    /// Whether the violation is new, not resolved.
    pub is_new: bool,
    /// The id, the same if it is repeated.
    pub id: String,
}

impl Announcement {
    fn event(event: &Value, is_new: bool) -> Self {
        let annotation = |name: &str| text(&event["metadata"]["annotations"][format!("kaudit.dev/{name}")]);
        let rule = format!("{}/{}", annotation("policy"), annotation("rule"));
        let about = about(&event["regarding"], rule, annotation("message"));
        Self { about, is_new, id: text(&event["metadata"]["name"]) }
    }

    /// Parses a line of a receiver or of `-o ndjson`, unless it is about an error.
    pub fn line(line: &Value) -> Option<Self> {
        let is_new = match line["event"].as_str() {
            Some("appeared") => true,
            Some("resolved") => false,
            _ => return None,
        };
        let rule = format!("{}/{}", text(&line["policy"]), text(&line["rule"]));
        let about = about(&line["resource"], rule, text(&line["message"]));
        // Lines have the id of the violation, which is constant.
        let id = if line["violation"].is_null() { String::new() } else { text(&line["id"]) };
        (line["result"] != "error").then_some(Self { about, is_new, id })
    }
}

fn about(resource: &Value, rule: String, message: String) -> ViolationKey {
    let object = (text(&resource["kind"]), text(&resource["namespace"]), text(&resource["name"]));
    ViolationKey { uid: text(&resource["uid"]), object, rule, message }
}

/// The expected results.
#[derive(Debug)]
pub struct ExpectedFindings {
    /// The listed results.
    pub listed: BTreeSet<PolicyFinding>,
    /// The results covered by an owner.
    pub covered: BTreeSet<PolicyFinding>,
    /// Whether the audited kinds have no objects.
    pub found_nothing: bool,
    /// The severity by policy.
    severities: BTreeMap<String, &'static str>,
    /// The excused results.
    skipped: BTreeSet<PolicyFinding>,
    /// A kind and policies that are excluded from the comparison.
    spared: Option<(&'static str, BTreeSet<String>)>,
}

impl ExpectedFindings {
    /// Returns the expected results of policies in a cluster.
    pub fn new<'p>(
        listed: &ListedObjects,
        policies: impl Iterator<Item = &'p Policy> + Clone,
        settings: &ReplicaSettings,
        excused_by_operators: &BTreeSet<Excuse>,
    ) -> Self {
        let now = Timestamp::now();
        let (objects, at) = (listed.audited(), (now, settings.full_secrets));
        let unread = UnreadKinds { excluded: settings.excluded, not_served: listed.not_served() };
        let holds = |(key, end): ((String, String), Option<Timestamp>)| end.is_none_or(|end| now < end).then_some(key);
        let by_operators = excused_by_operators.iter().map(|excuse| (excuse.key(), excuse.end())).filter_map(holds);
        let excused =
            Excused { by_teams: listed.excused().filter_map(holds).collect(), by_operators: by_operators.collect() };
        let findings = |policy: &Policy| policy.findings(&objects, &excused, at, &unread);
        let mut listed: BTreeSet<PolicyFinding> = policies.clone().flat_map(findings).collect();
        let covered = if settings.by_object { BTreeSet::new() } else { owners::covered(&objects, &listed) };
        let all = |policy: &Policy| policy.findings(&objects, &Excused::default(), at, &unread);
        let excused = policies
            .clone()
            .flat_map(all)
            .filter(|finding: &PolicyFinding| finding.result != "error" && !listed.contains(finding));
        let mut skipped: BTreeSet<_> = excused.map(|finding| PolicyFinding { result: "skip", ..finding }).collect();
        if !settings.by_object {
            let covered = owners::covered(&objects, &skipped);
            skipped.retain(|finding| !covered.contains(finding));
        }
        listed.retain(|finding| !covered.contains(finding));
        // If only these kinds are read, objects of other kinds do not count.
        let is_read = |kind: &usize| Some(*kind) != settings.excluded;
        let severities = policies.clone().filter_map(|policy| Some((policy.name(), policy.severity()?))).collect();
        let mut concerned = policies.flat_map(Policy::concerns).filter(is_read);
        let found_nothing = settings.judged_kinds && !concerned.any(|kind| objects.keys().any(|key| key.0 == kind));
        Self { listed, covered, found_nothing, severities, skipped, spared: None }
    }

    /// Excludes the results of these policies, and those of objects of a kind.
    #[must_use]
    pub fn without(mut self, kind: &'static str, policies: BTreeSet<String>) -> Self {
        self.spared = Some((kind, policies));
        let listed = std::mem::take(&mut self.listed);
        self.listed = listed.into_iter().filter(|finding| self.is_compared(finding)).collect();
        self
    }

    /// Excludes the results of `dependents`.
    #[must_use]
    pub fn without_dependents(mut self, dependents: &BTreeSet<(String, String, String)>) -> Self {
        self.listed.retain(|one| !dependents.contains(&ViolationKey::expected(one).object));
        self
    }

    fn is_compared(&self, finding: &PolicyFinding) -> bool {
        self.spared.as_ref().is_none_or(|(kind, policies)| finding.kind != *kind && !policies.contains(&finding.policy))
    }

    /// Returns the listed violations, with their outcomes.
    pub fn violations(&self, cluster: &ListedObjects) -> BTreeMap<ViolationKey, &'static str> {
        violations(&self.listed, cluster)
    }

    /// Whether a result with this outcome is listed.
    fn has(&self, result: &str) -> bool {
        self.listed.iter().any(|finding| finding.result == result)
    }

    /// Compares the reports.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_reports(&self, cluster: &ListedObjects) -> anyhow::Result<()> {
        self.compare_severities("reports", cluster.reported())?;
        if self.spared.is_none() {
            let uids = cluster.uids_by_object();
            let is_old = |entry: &&Value| {
                let about = about(&entry["resources"][0], String::new(), String::new());
                uids.get(&about.object).is_some_and(|uid| *uid != about.uid)
            };
            let old = cluster.reported().find(is_old);
            ensure!(old.is_none(), "reports: about an earlier object: {old:?}");
            let skipped = cluster.reported().filter_map(|entry| skipped(entry, &entry["resources"][0])).collect();
            same("reports, skipped", &skipped, &self.skipped)?;
        }
        let recorded = cluster.reported().filter_map(|entry| finding(entry, &entry["resources"][0]));
        let recorded = recorded.filter(|finding| self.is_compared(finding)).collect();
        same("reports", &recorded, &self.listed).map_err(|failure| {
            let mut errors = cluster.reported().filter(|entry| entry["result"] == "error");
            match errors.find_map(|entry| entry["message"].as_str()) {
                Some(error) => anyhow::anyhow!("{failure}; an error: {error}"),
                None => failure,
            }
        })
    }

    fn compare_severities<'e>(
        &self,
        subject: &str,
        mut entries: impl Iterator<Item = &'e Value>,
    ) -> anyhow::Result<()> {
        let is_wrong = |entry: &&Value| {
            let is_rated = matches!(entry["result"].as_str(), Some("fail" | "warn"));
            let expected = entry["policy"].as_str().and_then(|policy| self.severities.get(policy));
            is_rated && expected.is_some_and(|severity| entry["severity"] != *severity)
        };
        let wrong = entries.find(is_wrong).filter(|_| self.spared.is_none());
        ensure!(wrong.is_none(), "{subject}: another severity is expected of {wrong:?}");
        Ok(())
    }

    /// Compares the announcements of one kind, of which some may be repeated: each violation must be announced
    /// alternately as new and resolved, and the last one must match its current state.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_announcements(
        &self,
        subject: &str,
        cluster: &ListedObjects,
        announcements: &[Announcement],
        most_repeated: usize,
    ) -> anyhow::Result<()> {
        let mut by_violation: BTreeMap<&ViolationKey, Vec<&Announcement>> = BTreeMap::new();
        for announcement in announcements {
            let turns = by_violation.entry(&announcement.about).or_default();
            // Receivers recognize repetitions by the id.
            if turns.iter().all(|known| known.id != announcement.id) || announcement.id.is_empty() {
                turns.push(announcement);
            }
        }
        let mut open = BTreeSet::new();
        for (about, turns) in &by_violation {
            let repeated = turns.windows(2).filter(|pair| pair[0].is_new == pair[1].is_new).count();
            let begins_well = turns.first().is_some_and(|first| first.is_new);
            ensure!(begins_well && repeated <= most_repeated, "{subject}: {about:?}: {:?}", in_short(turns));
            if turns.last().is_some_and(|last| last.is_new) {
                open.insert((*about).clone());
            }
        }
        // A violation that was announced before an owner covered it is not resolved by that.
        let covered: BTreeSet<ViolationKey> = violations(&self.covered, cluster).into_keys().collect();
        let expected: BTreeSet<ViolationKey> = self.violations(cluster).into_keys().collect();
        open.retain(|about| !covered.contains(about));
        same(subject, &open, &expected).map_err(|failure| {
            let first = open.symmetric_difference(&expected).next();
            let turns = by_violation.iter().find(|(about, _)| first == Some(*about));
            anyhow::anyhow!("{failure}; of the first, {:?}", turns.map(|(_, turns)| in_short(turns)))
        })
    }

    /// Compares the counts and conditions of the Audit objects.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_status(&self, cluster: &ListedObjects, settings: &ReplicaSettings) -> anyhow::Result<()> {
        let names = settings.audits();
        let audits = cluster.audits(&names);
        ensure!(audits.len() == names.len(), "{} Audits, not {}", audits.len(), names.len());
        for result in ["fail", "warn", "error"] {
            let expected = self.listed.iter().filter(|finding| finding.result == result).count();
            let counts = audits.iter().map(|audit| audit["status"]["summary"][result].as_u64().unwrap_or_default());
            let found: u64 = counts.sum();
            ensure!(usize::try_from(found)? == expected, "Audit: {found} with {result}, not {expected}");
        }
        let expected = self.listed.iter().filter(|finding| ["fail", "warn"].contains(&finding.result)).count();
        let severities = audits.iter().filter_map(|audit| audit["status"]["summary"]["bySeverity"].as_object());
        let found: u64 = severities.flat_map(|counts| counts.values()).filter_map(Value::as_u64).sum();
        ensure!(usize::try_from(found)? == expected, "Audit: {found} violations by severity, not {expected}");
        let mut is_complete = true;
        // Other shards may have the objects.
        let found_nothing = self.found_nothing && !settings.sharded;
        for audit in audits {
            is_complete &= compare_conditions(audit, found_nothing)?;
        }
        ensure!(is_complete == (!self.has("error") && !found_nothing), "Audit: complete is {is_complete}");
        cluster.of(EXCEPTIONS.1).iter().try_for_each(compare_exception)
    }

    /// Compares the `/status` of replicas: with shards each has a part, else everything.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_served(&self, results: &[Value], settings: &ReplicaSettings) -> anyhow::Result<()> {
        self.compare_parts("/status", results, false, settings)?;
        self.compare_parts("/status, covered", results, true, settings)
    }

    /// Compares the pages of replicas, which omit covered results.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_pages(&self, results: &[Value], settings: &ReplicaSettings) -> anyhow::Result<()> {
        self.compare_parts("the page", results, false, settings)
    }

    fn compare_parts(
        &self,
        subject: &str,
        results: &[Value],
        is_covered: bool,
        settings: &ReplicaSettings,
    ) -> anyhow::Result<()> {
        let expected = if is_covered { &self.covered } else { &self.listed };
        for result in results {
            self.compare_severities(subject, result["results"].as_array().into_iter().flatten())?;
        }
        if subject == "/status" {
            let parts: Vec<&[Value]> = if settings.sharded { vec![results] } else { results.chunks(1).collect() };
            for part in parts {
                same("/status, skipped", &all_skipped(part), &self.skipped)?;
            }
        }
        let mut found: Vec<_> = results.iter().map(|result| findings(result, is_covered)).collect();
        if settings.sharded {
            found = vec![found.into_iter().flatten().collect()];
        }
        found.iter().try_for_each(|found| same(subject, found, expected))
    }

    /// Compares the gauges of open violations.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_metrics(&self, metrics: &[String], settings: &ReplicaSettings) -> anyhow::Result<()> {
        let value = |line: &str| {
            line.rsplit_once(' ').and_then(|(_, value)| value.trim_end_matches(".0").parse::<usize>().ok())
        };
        for result in ["fail", "warn", "error"] {
            let label = format!("result=\"{result}\"");
            let matches = |line: &&str| line.starts_with("kaudit_violations{") && line.contains(&label);
            let sum = |metrics: &String| metrics.lines().filter(matches).filter_map(value).sum();
            let expected = self.listed.iter().filter(|finding| finding.result == result).count();
            let counts: Vec<usize> = metrics.iter().map(sum).collect();
            let counts = if settings.sharded { vec![counts.iter().sum()] } else { counts };
            for found in counts {
                ensure!(found == expected, "metrics: {found} with {result}, not {expected}");
            }
        }
        let expected = self.failing_objects();
        let mut all: Vec<BTreeMap<String, usize>> = Vec::new();
        for metrics in metrics {
            let counts = metrics.lines().filter_map(|line| {
                let labels = line.strip_prefix("kaudit_rule_objects{")?.split_once(",outcome=\"failing\"")?.0;
                Some((labels.to_owned(), value(line).filter(|objects| *objects > 0)?))
            });
            all.push(counts.collect());
        }
        if settings.sharded {
            let mut sum: BTreeMap<String, usize> = BTreeMap::new();
            all.drain(..).flatten().for_each(|(rule, objects)| *sum.entry(rule).or_default() += objects);
            all.push(sum);
        }
        for found in all {
            ensure!(found == expected, "metrics: objects by rule are {found:?}, not {expected:?}");
        }
        Ok(())
    }

    /// Returns the number of objects that violate each rule, by metric labels.
    fn failing_objects(&self) -> BTreeMap<String, usize> {
        let open = self.listed.iter().filter(|finding| finding.result != "error");
        let objects: BTreeSet<_> = open
            .map(|PolicyFinding { policy, rule, kind, namespace, name, .. }| {
                (format!("policy=\"{policy}\",rule=\"{rule}\""), kind, namespace, name)
            })
            .collect();
        let mut rules = BTreeMap::new();
        for (rule, ..) in objects {
            *rules.entry(rule).or_default() += 1;
        }
        rules
    }

    /// Compares the exit code and the result of a fresh check.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_once(&self, outcome: anyhow::Result<(u8, Value)>) -> anyhow::Result<()> {
        if self.found_nothing {
            ensure!(outcome.is_err(), "check --once has a result without any object");
            return Ok(());
        }
        let (code, result) = outcome?;
        same("check --once", &findings(&result, false), &self.listed)?;
        same("check --once, skipped", &all_skipped([&result]), &self.skipped)?;
        let is_complete = !self.has("error");
        let expected = if self.has("fail") { 1 } else { u8::from(!is_complete) * 3 };
        ensure!(code == expected, "check --once ends with {code}, not {expected}");
        ensure!(result["complete"] == is_complete, "check --once: complete is {}", result["complete"]);
        same("check --once, covered", &findings(&result, true), &self.covered)
    }

    /// Checks the exit code and the result of a fresh check that cannot read all kinds, with the expected results
    /// before and after it.
    ///
    /// # Errors
    ///
    /// If it is not marked incomplete, or has a wrong result.
    pub fn compare_part(right: [&Self; 2], outcome: anyhow::Result<(u8, Value)>) -> anyhow::Result<()> {
        // Without readable objects there is no result.
        let Ok((code, result)) = outcome else { return Ok(()) };
        let found = |is_covered: bool| findings(&result, is_covered).into_iter();
        let wrong = found(false)
            .chain(found(true))
            .filter(|finding| finding.result != "error")
            .find(|finding| !right.iter().any(|one| one.listed.contains(finding) || one.covered.contains(finding)));
        ensure!(wrong.is_none(), "it has a wrong result: {wrong:?}");
        ensure!(result["complete"] == false, "it is complete");
        let expected = if found(false).any(|finding| finding.result == "fail") { 1 } else { 3 };
        ensure!(code == expected, "it ends with {code}, not {expected}");
        Ok(())
    }
}

/// Returns the violations among results, with their outcomes.
fn violations(findings: &BTreeSet<PolicyFinding>, cluster: &ListedObjects) -> BTreeMap<ViolationKey, &'static str> {
    let uids = cluster.uids_by_object();
    let open = findings.iter().filter(|finding| finding.result != "error");
    let with_uid = open.map(|finding| {
        let about = ViolationKey::expected(finding);
        let uid = uids.get(&about.object).cloned().unwrap_or_default();
        (ViolationKey { uid, ..about }, finding.result)
    });
    with_uid.collect()
}

/// Returns the time since when each violation is open according to reports, by object and message.
pub fn first_seen(cluster: &ListedObjects) -> BTreeMap<ViolationKey, Value> {
    let violations = cluster.reported().filter(|entry| matches!(entry["result"].as_str(), Some("fail" | "warn")));
    let times = violations.map(|entry| {
        let rule = format!("{}/{}", text(&entry["policy"]), text(&entry["rule"]));
        (about(&entry["resources"][0], rule, text(&entry["message"])), entry["timestamp"].clone())
    });
    times.collect()
}

/// Checks that the conditions of an Audit are as expected; returns whether it is complete.
fn compare_conditions(audit: &Value, found_nothing: bool) -> anyhow::Result<bool> {
    let conditions = audit["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for kind in ["Synced", "PoliciesLoaded", "Recording"] {
        let condition = conditions.iter().find(|condition| condition["type"] == kind);
        let is_true = condition.is_some_and(|condition| condition["status"] == "True");
        ensure!(
            is_true != (found_nothing && kind == "Synced"),
            "Audit: {}",
            condition.map_or_else(|| format!("no {kind}"), Value::to_string)
        );
    }
    let complete = conditions.iter().find(|one| one["type"] == "Complete").unwrap_or(&Value::Null);
    let message = text(&complete["message"]);
    ensure!(!message.contains("not covered"), "Audit: {message}");
    Ok(complete["status"] == "True")
}

/// Returns the findings of a result, either the covered or the other ones.
fn findings(result: &Value, is_covered: bool) -> BTreeSet<PolicyFinding> {
    let entries = result["results"].as_array().into_iter().flatten();
    let wanted = entries.filter(|entry| entry["coveredBy"].is_object() == is_covered);
    wanted.filter_map(|entry| finding(entry, &entry["resource"])).collect()
}

/// Returns the excused findings of results.
fn all_skipped<'r>(results: impl IntoIterator<Item = &'r Value>) -> BTreeSet<PolicyFinding> {
    let entries = results.into_iter().flat_map(|result| result["results"].as_array().into_iter().flatten());
    entries.filter_map(|entry| skipped(entry, &entry["resource"])).collect()
}

/// Returns an excused finding.
fn skipped(entry: &Value, resource: &Value) -> Option<PolicyFinding> {
    let is_skipped = entry["result"] == "skip" && !entry["coveredBy"].is_object();
    let violation = is_skipped.then(|| finding(&with_result(entry, "fail"), resource))??;
    Some(PolicyFinding { result: "skip", ..violation })
}

fn with_result(entry: &Value, result: &str) -> Value {
    let mut entry = entry.clone();
    entry["result"] = result.into();
    entry
}

/// Returns a finding of a report or a check, unless it is excused.
fn finding(entry: &Value, resource: &Value) -> Option<PolicyFinding> {
    let kind = KINDS.iter().find(|kind| resource["kind"] == kind.kind).map_or("another kind", |kind| kind.kind);
    let (rule, message) = (text(&entry["rule"]), text(&entry["message"]));
    let (result, rule, message) = match entry["result"].as_str() {
        Some("fail") => ("fail", rule, message),
        Some("warn") => ("warn", rule, message),
        Some("error") => ("error", String::new(), String::new()),
        Some("skip") => return None,
        _ => ("another result", rule, message),
    };
    let (namespace, name) = (text(&resource["namespace"]), text(&resource["name"]));
    Some(PolicyFinding { policy: text(&entry["policy"]), rule, kind, namespace, name, result, message })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn in_short(turns: &[&Announcement]) -> Vec<String> {
    turns.iter().map(|one| format!("{} {}", if one.is_new { "new" } else { "resolved" }, one.id)).collect()
}

/// Returns an error with the differences between two sets.
fn same<T: Ord + std::fmt::Debug>(subject: &str, found: &BTreeSet<T>, expected: &BTreeSet<T>) -> anyhow::Result<()> {
    let missing: Vec<_> = expected.difference(found).take(3).collect();
    let surplus: Vec<_> = found.difference(expected).take(3).collect();
    ensure!(missing.is_empty() && surplus.is_empty(), "{subject}: missing {missing:?}, too much {surplus:?}");
    Ok(())
}

/// Compares the status of a `PolicyException` with its specification.
fn compare_exception(exception: &Value) -> anyhow::Result<()> {
    let (metadata, condition) = (&exception["metadata"], &exception["status"]["conditions"][0]);
    let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    ensure!(condition["observedGeneration"] == metadata["generation"], "{name}: the status is {condition}");
    let end: Option<Timestamp> = exception["spec"]["expiresAt"].as_str().and_then(|end| end.parse().ok());
    let has_ended = end.is_some_and(|end| end <= Timestamp::now());
    let is_invalid = ["NotExcusable", "UnknownRule"].iter().any(|reason| condition["reason"] == **reason);
    ensure!(is_invalid || has_ended == (condition["reason"] == "Expired"), "{name}: the status is {condition}");
    let is_accepted = !is_invalid && !has_ended;
    ensure!((condition["status"] == "True") == is_accepted, "{name}: the status is {condition}");
    Ok(())
}
