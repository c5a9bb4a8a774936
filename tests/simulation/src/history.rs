//! The history of a run, to check guarantees over time.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    cluster::KINDS,
    comparison::{self, Announcement, ListedObjects, ViolationKey},
    excuses::EXCEPTIONS,
    policies::{ObjectsByName, Policy},
};

/// So many Events about an object are written at once; further ones wait, while the cluster may already be quiet.
const BURST_OF_OBJECT: usize = 25;

/// A state of an object: its kind, namespace and name, and the whole object.
type ObjectState = ((usize, String, String), Value);

/// The history of a run.
#[derive(Debug, Default)]
pub struct History {
    /// All states of all objects since the first replica started, by uid.
    states: BTreeMap<String, Vec<ObjectState>>,
    /// All objects, after each change since then.
    clusters: Vec<ObjectsByName>,
    /// All policies.
    policies: Vec<Policy>,
    /// Since when violations were open at the last successful comparison.
    first_seen: BTreeMap<ViolationKey, Value>,
    /// The Events at that time.
    events: BTreeSet<String>,
    /// Violations that existed in each state since then, with their outcomes.
    lasting: Option<BTreeMap<ViolationKey, &'static str>>,
    /// Policies and namespaces that were excused in each state since then.
    excused: Option<BTreeSet<(String, String)>>,
    /// Whether kaudit may have received changes of different kinds in another order since then.
    is_disordered: bool,
    /// Policies that were evaluated without some of the objects that they look up since then.
    lacking: BTreeSet<String>,
}

impl History {
    /// Records a policy that is now in force.
    pub fn note_policy(&mut self, policy: &Policy) {
        if !self.policies.contains(policy) {
            self.policies.push(*policy);
        }
    }

    /// Returns all policies that were in force.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Clears the states of objects, and what was excused, when the first replica starts.
    pub fn begin(&mut self, objects: ObjectsByName, excused: BTreeSet<(String, String)>) {
        self.states.clear();
        self.clusters.clear();
        self.excused = Some(excused);
        self.note_objects(objects);
    }

    /// Records the state of all objects.
    pub fn note_objects(&mut self, objects: ObjectsByName) {
        self.clusters.push(objects.clone());
        for (key, object) in objects {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let states = self.states.entry(uid).or_default();
            if states.last().is_none_or(|(_, last)| *last != object) {
                states.push((key, object));
            }
        }
    }

    /// Records the current violations, with their outcomes.
    pub fn note_violations(&mut self, violations: BTreeMap<ViolationKey, &'static str>) {
        match &mut self.lasting {
            Some(lasting) => lasting.retain(|about, result| violations.get(about) == Some(result)),
            None => self.lasting = Some(violations),
        }
    }

    /// Records the policies and namespaces that are excused now.
    pub fn note_excused(&mut self, excused: BTreeSet<(String, String)>) {
        match &mut self.excused {
            Some(known) => known.retain(|one| excused.contains(one)),
            None => self.excused = Some(excused),
        }
    }

    /// Records that kaudit may receive changes of different kinds in another order than that in which they happen.
    pub const fn note_disorder(&mut self) {
        self.is_disordered = true;
    }

    /// Records that policies may be evaluated without the objects of a group that they look up, or without exceptions.
    pub fn note_lacking(&mut self, group: &str) {
        if EXCEPTIONS.0.split('/').next() == Some(group) {
            self.excused = Some(BTreeSet::new());
        }
        let of_group = |kind: usize| KINDS[kind].api_version.split('/').next() == Some(group);
        let lacking = self.policies.iter().filter(|policy| policy.concerns().any(of_group));
        self.lacking.extend(lacking.map(Policy::name));
    }

    /// Records that violations of a policy may appear and disappear: a replica that starts while the policy is refused
    /// does not have it, and an exception may be read before it is no longer allowed.
    pub fn note_unsettled(&mut self, policy: &str) {
        let is_of = |about: &ViolationKey| about.rule.split('/').next() == Some(policy);
        self.lasting.iter_mut().for_each(|lasting| lasting.retain(|about, _| !is_of(about)));
        self.excused.iter_mut().for_each(|excused| excused.retain(|(excused, _)| excused != policy));
    }

    /// Records that violations of these policies may also appear and disappear with time.
    pub fn note_passing_of_time(&mut self, policies: &BTreeSet<String>) {
        let is_of = |about: &ViolationKey| about.rule.split('/').next().is_some_and(|own| policies.contains(own));
        self.lasting.iter_mut().for_each(|lasting| lasting.retain(|about, _| !is_of(about)));
    }

    /// Returns kind, namespace and name of the objects that have had owners.
    pub fn dependents(&self) -> BTreeSet<(String, String, String)> {
        let states = self.states.values().flatten();
        let dependents = states.filter(|(_, object)| object["metadata"]["ownerReferences"].is_array());
        dependents
            .map(|((kind, namespace, name), _)| (KINDS[*kind].kind.to_owned(), namespace.clone(), name.clone()))
            .collect()
    }

    /// Checks after a successful comparison that no Event is about a state that never existed, or about a violation that
    /// was excused, and that the times at which violations were first seen are unchanged. If nothing `has_changed` in
    /// the cluster since the last time, there must be no new Event.
    ///
    /// # Errors
    ///
    /// If a check fails.
    pub fn check(&mut self, cluster: &ListedObjects, has_changed: bool) -> anyhow::Result<()> {
        let events = cluster.events()?;
        let is_later = |event: &&Announcement| !self.events.contains(&event.id);
        let later: Vec<&Announcement> = events.iter().filter(is_later).collect();
        for event in &later {
            ensure!(has_changed, "nothing has changed, but there is a new Event: {event:?}");
            let was_open = self.lasting.as_ref().is_some_and(|lasting| lasting.contains_key(&event.about));
            let of_object = events.iter().filter(|other| other.about.uid == event.about.uid).count();
            ensure!(
                !was_open || of_object > BURST_OF_OBJECT,
                "an Event is about a violation that was open all the time: {event:?}"
            );
            self.check_appearance(event)?;
        }
        for about in cluster.changes() {
            ensure!(self.change_was_possible(&about), "an Event is about a change that never happened: {about:?}");
        }
        (self.lasting, self.excused, self.is_disordered) = (None, None, false);
        self.lacking.clear();
        let first_seen = comparison::first_seen(cluster);
        for (about, since) in &first_seen {
            let before = self.first_seen.get(about).filter(|_| !later.iter().any(|event| event.about == *about));
            // When kaudit starts, it replaces a time before the object's creation by that of the creation.
            let is_earlier = |before: &Value| before["seconds"].as_i64() < since["seconds"].as_i64();
            let is_same = |before: &Value| {
                before == since || is_earlier(before) && Some(since) == self.created(&about.uid).as_ref()
            };
            ensure!(before.is_none_or(is_same), "{about:?} was first seen {before:?}, now {since}");
        }
        self.first_seen = first_seen;
        self.events = events.into_iter().map(|event| event.id).collect();
        Ok(())
    }

    /// Checks an Event about a new violation.
    fn check_appearance(&self, event: &Announcement) -> anyhow::Result<()> {
        let about = &event.about;
        let policy = about.rule.split('/').next().unwrap_or_default().to_owned();
        if !event.is_new || self.lacking.contains(&policy) {
            return Ok(());
        }
        ensure!(self.was_possible(about), "an Event is about a violation that never existed: {event:?}");
        let existed = self.is_disordered || self.existed(about);
        ensure!(existed, "an Event is about a violation by objects that never existed together: {event:?}");
        let was_excused =
            self.excused.as_ref().is_some_and(|excused| excused.contains(&(policy, about.object.1.clone())));
        ensure!(!was_excused, "an Event is about a violation that was excused all the time: {event:?}");
        Ok(())
    }

    /// Returns the creation time of an object, in the format of reports.
    fn created(&self, uid: &str) -> Option<Value> {
        let (_, object) = self.states.get(uid)?.first()?;
        let created: Timestamp = object["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
        Some(json!({"seconds": created.as_second(), "nanos": 0}))
    }

    /// Whether some policy can report this for a transition from any state of the object to any later one, as kaudit
    /// need not see each state.
    fn change_was_possible(&self, about: &ViolationKey) -> bool {
        let policies =
            || self.policies.iter().filter(|policy| format!("{}/{}", policy.name(), policy.rule()) == about.rule);
        let states = self.states.get(&about.uid).map(Vec::as_slice).unwrap_or_default();
        states.iter().enumerate().any(|(place, ((kind, ..), old))| {
            let mut later = states[place + 1..].iter();
            later.any(|(_, new)| policies().any(|one| one.may_report_change(*kind, [old, new], &about.message)))
        })
    }

    /// Whether some policy can report this for some state of the whole cluster.
    fn existed(&self, about: &ViolationKey) -> bool {
        let (kind, namespace, name) = &about.object;
        let Some(kind) = KINDS.iter().position(|known| known.kind == *kind) else { return false };
        let key = (kind, namespace.clone(), name.clone());
        let policies =
            || self.policies.iter().filter(|policy| format!("{}/{}", policy.name(), policy.rule()) == about.rule);
        let mut with_object = self.clusters.iter().filter_map(|cluster| Some((cluster, cluster.get(&key)?)));
        with_object.any(|(cluster, object)| {
            let together = std::slice::from_ref(cluster);
            object["metadata"]["uid"] == *about.uid
                && policies().any(|policy| policy.may_report((kind, namespace, name), object, together, &about.message))
        })
    }

    /// Whether some policy can report this for some state of the object.
    fn was_possible(&self, about: &ViolationKey) -> bool {
        let policies =
            || self.policies.iter().filter(|policy| format!("{}/{}", policy.name(), policy.rule()) == about.rule);
        let states = self.states.get(&about.uid).map(Vec::as_slice).unwrap_or_default();
        states.iter().any(|((kind, namespace, name), object)| {
            policies().any(|policy| policy.may_report((*kind, namespace, name), object, &self.clusters, &about.message))
        })
    }
}
