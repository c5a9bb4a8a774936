//! Exceptions excuse violations for a time, with a reason. If one applies, the result is `skip`.
//!
//! In: `PolicyException`s, in files and in the cluster, and the policies in force. Out: results with the exception that excuses
//! them. Nothing else decides this, so that reports, Events, metrics and all output formats agree.

mod exception;
mod listed;
mod rules;
mod status;
mod summary;
mod system;

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};

pub(crate) use self::exception::MOST_ITEMS;
use self::{
    exception::{Author, Exception},
    listed::{FoundException, FoundExceptions, ListedException},
    rules::{RuleIndex, RulesInForce},
};
pub use self::{
    status::{ExceptionObject, ExceptionStatus},
    summary::ExceptionSummary,
};
use crate::{
    judge::{profile::Profile, set::PolicySet},
    model::{
        body::Body,
        exception::{ExceptionProblem, ExceptionState},
        object::{Location, Object, ObjectKey},
        text::shortened,
        verdict::Finding,
    },
    source::{
        change::Change,
        manifest::{self, FieldLines, ManifestFile},
        received::Secrets,
        selection::Selection,
    },
};

/// The longest message about an exception that cannot be parsed, in bytes: it may quote the text.
const LONGEST_MESSAGE: usize = 1_024;

/// How long before its end there is a warning about an exception.
pub const NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);

/// All exceptions, and the rules that they can be about.
#[derive(Debug, Clone, Default)]
pub struct Exceptions {
    /// Those of `--exceptions`, each with its file and line, and then those for system components.
    given: Vec<(Option<Location>, ListedException)>,
    /// Why the newest version of the files could not be loaded.
    refused_given: Option<String>,
    /// Those among them that name a rule, by its index.
    given_by_rule: BTreeMap<RuleIndex, Vec<usize>>,
    found: FoundExceptions,
    rules: RulesInForce,
    /// How far in the future the end of a team's exception may be.
    longest: Option<SignedDuration>,
}

/// Returns file and line of a field of an exception, or of what is nearest above it, for the begin of a message.
fn place_of(exception: Option<&Location>, field: &str) -> String {
    let Some(Location { file, line }) = exception else { return String::new() };
    let lines = FieldLines::read(Path::new(&**file));
    format!("{file}:{}: ", lines.and_then(|lines| lines.line(*line, field)).unwrap_or(*line))
}

/// Returns the field that a message about an exception begins with, or the unknown one that it names.
fn named_field(why: &str) -> String {
    let (field, rest) = why.split_once(": ").unwrap_or_default();
    match rest.strip_prefix("unknown field ").and_then(|rest| rest.split_once(',')) {
        Some((unknown, _)) => format!("{field}.{unknown}"),
        None => field.to_owned(),
    }
}

impl Exceptions {
    /// Reads exceptions from files, directories, and standard input (`-`).
    ///
    /// # Errors
    /// When a file cannot be read, holds something else than exceptions, or repeats a name, with file and line.
    pub fn load(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut given = Vec::new();
        let mut places = HashMap::new();
        for file in manifest::files(paths).context("reading exceptions")? {
            for object in objects(file)? {
                let exception = Exception::read(&object, Author::Operator);
                let place = object.location.as_ref().map(|at| format!("{}:{}", at.file, at.line)).unwrap_or_default();
                let exception = exception.map_err(|why| {
                    let place = place_of(object.location.as_ref(), &named_field(&why));
                    anyhow::anyhow!("{place}{} {why}", object.key.name)
                })?;
                let by = &exception.excuse.by;
                if let Some(first) = places.insert(Arc::clone(by), place.clone()) {
                    anyhow::bail!("{place}: {by} is the name of the exception at {first}, too: give each its own");
                }
                given.push((object.location, ListedException::new(Arc::new(exception))));
            }
        }
        let mut exceptions = Self::default();
        exceptions.replace_given(Self { given, ..Self::default() });
        Ok(exceptions)
    }

    /// Limits how far in the future the end of a team's exception may be.
    #[must_use]
    pub fn limited(mut self, longest: Option<SignedDuration>) -> Self {
        self.longest = longest;
        self
    }

    /// Returns them if all of them are about rules that are in force.
    ///
    /// # Errors
    /// Names each that is not, and the nearest rule.
    pub fn checked(mut self, policies: &PolicySet) -> anyhow::Result<Self> {
        self.set_policies(policies);
        let written = self.given.iter().filter(|(_, exception)| exception.author != Author::Library);
        let wrong = written.filter_map(|(location, exception)| {
            let unknown = exception.named.unknown.as_ref()?;
            let place = place_of(location.as_ref(), "spec.policies");
            Some(format!("{place}{}: {unknown}", exception.excuse.by))
        });
        let wrong: Vec<String> = wrong.collect();
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(self)
    }

    /// Takes the exceptions of files from another set.
    pub(crate) fn replace_given(&mut self, other: Self) {
        let system = self.given.extract_if(.., |(_, exception)| exception.author == Author::Library);
        (self.given, self.refused_given) = (other.given.into_iter().chain(system).collect(), None);
        self.resolve_given();
    }

    /// Finds the rules that the exceptions of files name.
    fn resolve_given(&mut self) {
        self.given_by_rule.clear();
        for (index, (_, exception)) in self.given.iter_mut().enumerate() {
            exception.resolve(&self.rules);
            for rule in exception.named.rules.iter() {
                self.given_by_rule.entry(rule).or_default().push(index);
            }
        }
    }

    /// Notes that the newest version of the files could not be loaded: those loaded before stay in force.
    pub(crate) fn refuse_given(&mut self, why: String) {
        self.refused_given = Some(why);
    }

    /// Notes which rules are in force, and whether violations of system components are excused.
    pub fn set_policies(&mut self, policies: &PolicySet) {
        self.rules = RulesInForce::new(policies);
        self.given.retain(|(_, exception)| exception.author != Author::Library);
        if policies.profile.is_some_and(Profile::excuses_system) {
            self.given.extend(system::exceptions().map(|exception| (None, ListedException::new(exception))));
        }
        self.resolve_given();
        self.found.readable_mut().for_each(|exception| exception.resolve(&self.rules));
    }

    /// Takes in the present state of an exception of the cluster. Returns whether it may excuse something else than before: a
    /// write of its status changes nothing.
    pub(crate) fn put(&mut self, object: &Object) -> bool {
        let about = Arc::new(ExceptionObject::of(object));
        if let Some(known) = self.found.get_mut(&object.key)
            && known.object.has_same_spec(&about)
        {
            known.object = about;
            return false;
        }
        let exception = Exception::read(object, Author::Team).map(Arc::new);
        let listed = exception.map_err(|why| shortened(&why, LONGEST_MESSAGE).into_owned()).map(|exception| {
            let mut listed = ListedException::new(exception);
            listed.resolve(&self.rules);
            listed
        });
        self.found.insert(&object.key, FoundException { object: about, read: listed });
        true
    }

    /// Forgets an exception of the cluster.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.found.remove(key);
    }

    /// Returns those that can be read, without those for system components.
    fn all(&self) -> impl Iterator<Item = &ListedException> {
        let given = self.given.iter().map(|(_, exception)| exception);
        given.filter(|exception| exception.author != Author::Library).chain(self.found.readable())
    }

    /// Excuses the results of an object that an exception matches at a time, and only those, whatever was excused before.
    /// `subjects` are the object and then its owners, each with its JSON: an exception for any of them excuses the object.
    /// Results of rules that are no longer in force stay as they are until the object is evaluated again.
    pub(crate) fn apply(&self, subjects: &[(ObjectKey, Body)], findings: &mut [Finding], now: Timestamp) {
        let subjects: Vec<_> = subjects.iter().map(|(key, body)| (key, LazyCell::new(move || body.labels()))).collect();
        let namespaces: BTreeSet<&str> = subjects.iter().filter_map(|(key, _)| key.namespace.as_deref()).collect();
        let mut matching: HashMap<*const Exception, bool> = HashMap::new();
        for finding in findings {
            let Some(rule) = self.rules.find(&finding.rule.policy, &finding.rule.name) else { continue };
            finding.restore();
            let given = self.given_by_rule.get(&rule).into_iter().flatten();
            let given = given.filter_map(|index| self.given.get(*index)).map(|(_, exception)| exception);
            let is_excusable = self.may_be_excused(finding);
            let found = self.found.naming(rule, &namespaces).filter(|_| is_excusable);
            let mut applying = given.chain(found).filter(|exception| {
                exception.expires > now
                    && exception.covers(finding)
                    && !self.is_too_long(exception, now)
                    && *matching.entry(std::ptr::from_ref::<Exception>(exception)).or_insert_with(|| {
                        let considered = if exception.counts_for_dependents() { subjects.len() } else { 1 };
                        let mut considered = subjects.iter().take(considered);
                        considered.any(|(key, labels)| exception.matches(key, || &**labels))
                    })
            });
            let Some(first) = applying.next() else { continue };
            for other in applying {
                other.preceded_by.get_or_init(|| Arc::clone(&first.excuse.by));
            }
            finding.excuse(&first.excuse);
        }
    }

    /// Whether an exception selects objects by their labels.
    pub(crate) fn select_by_labels(&self) -> bool {
        self.all().any(|exception| exception.selects_by_labels())
    }

    /// Whether one of them may be about an object or its owners.
    pub(crate) fn may_concern(&self, key: &ObjectKey) -> bool {
        let is_of_system = |exception: &ListedException| {
            exception.author == Author::Library && exception.concerns(key.namespace.as_deref())
        };
        self.all().next().is_some() || self.given.iter().any(|(_, exception)| is_of_system(exception))
    }

    /// Returns when, after a time, the next exception expires, or the warning about it is due.
    pub(crate) fn next_turn(&self, now: Timestamp) -> Option<Timestamp> {
        let turns = |exception: &ListedException| {
            let end = exception.expires;
            // There is a warning about an exception that expires within `NOTICE`.
            let notice =
                end.checked_sub(NOTICE).ok().and_then(|from| from.checked_add(SignedDuration::from_nanos(1)).ok());
            let valid = self.longest.filter(|_| exception.author == Author::Team);
            let valid = valid.and_then(|longest| end.checked_sub(longest).ok());
            notice.into_iter().chain([end]).chain(valid)
        };
        self.all().flat_map(turns).filter(|turn| *turn > now).min()
    }

    /// Whether a team's exception ends later than one may.
    fn is_too_long(&self, exception: &Exception, now: Timestamp) -> bool {
        let is_over = |longest: SignedDuration| exception.expires.duration_since(now) > longest;
        exception.author == Author::Team && self.longest.is_some_and(is_over)
    }

    /// Whether a namespace may excuse a violation.
    pub(crate) fn may_be_excused(&self, finding: &Finding) -> bool {
        let rule = self.rules.find(&finding.rule.policy, &finding.rule.name);
        rule.is_some_and(|rule| self.rules.excusability(rule).allows(finding.severity))
    }

    /// Returns why an exception is not in force, or only in part.
    fn problem(&self, exception: &ListedException, now: Timestamp) -> Option<(ExceptionProblem, String)> {
        if let Some(why) = &exception.named.unknown {
            return Some((ExceptionProblem::UnknownRule, why.clone()));
        }
        if let Some(longest) = self.longest.filter(|_| self.is_too_long(exception, now)) {
            // Without a duration that changes with time: the text is in the status, which is written when it changes.
            let begins = exception.expires.checked_sub(longest).unwrap_or(Timestamp::MIN);
            let why = format!(
                "spec.expiresAt: {:.0} is later than --max-exception-duration allows before {begins:.0}: choose an earlier end",
                exception.expires
            );
            return Some((ExceptionProblem::EndsTooLate, why));
        }
        exception.named.not_excusable.clone().map(|why| (ExceptionProblem::NotExcusable, why))
    }

    /// Returns all of them as they are at a time, given how many results each excuses; sorted by name.
    pub(crate) fn summaries(&self, excused: &HashMap<Arc<str>, usize>, now: Timestamp) -> Vec<ExceptionSummary> {
        // One for a component that is not there is of no interest.
        let is_shown = |(_, exception): &&(_, ListedException)| {
            exception.author != Author::Library || excused.contains_key(&exception.excuse.by)
        };
        let given = self.given.iter().filter(is_shown);
        let given = given.map(|(location, exception)| self.summary(exception, location.clone(), excused, now));
        let invalid = |name: String, message: String| ExceptionSummary {
            name,
            state: ExceptionState::Invalid,
            reason: "".into(),
            expires_at: None,
            results: 0,
            location: None,
            message,
            problem: Some(ExceptionProblem::Unreadable),
            refused_rules: 0,
            object: None,
        };
        let found = self.found.iter().map(|(key, found)| {
            let summary = match &found.read {
                Ok(exception) => self.summary(exception, None, excused, now),
                Err(why) => {
                    invalid(format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name), why.clone())
                }
            };
            ExceptionSummary { object: Some(Arc::clone(&found.object)), ..summary }
        });
        let refused = self.refused_given.iter().map(|why| {
            let why = format!("cannot be loaded; the exceptions loaded before stay in force: {why}");
            invalid("--exceptions".to_owned(), why)
        });
        let mut all: Vec<_> = given.chain(found).chain(refused).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn summary(
        &self,
        exception: &ListedException,
        location: Option<Location>,
        excused: &HashMap<Arc<str>, usize>,
        now: Timestamp,
    ) -> ExceptionSummary {
        let excuse = &exception.excuse;
        let results = excused.get(&excuse.by).copied().unwrap_or(0);
        let expires = exception.expires;
        let left = expires.duration_since(now);
        let problem = self.problem(exception, now);
        let (state, message) = if let Some((_, why)) = &problem {
            (ExceptionState::Invalid, why.clone())
        } else if expires <= now {
            (ExceptionState::Expired, format!("expired at {expires:.0}"))
        } else if results == 0 {
            (ExceptionState::Unused, exception.unused(excused))
        } else if left < NOTICE {
            let days = left.as_hours() / 24;
            let when = if days == 0 { "in less than a day".to_owned() } else { format!("in {days} days") };
            (ExceptionState::Expiring, format!("expires {when}"))
        } else {
            (ExceptionState::Active, String::new())
        };
        ExceptionSummary {
            name: excuse.by.to_string(),
            state,
            reason: Arc::clone(&excuse.reason),
            expires_at: excuse.expires,
            results,
            location,
            message,
            problem: problem.map(|(problem, _)| problem),
            refused_rules: exception.named.refused,
            object: None,
        }
    }
}

/// Reads the objects of a file; anything else in it is an error.
fn objects(file: ManifestFile) -> anyhow::Result<Vec<Object>> {
    let (mut objects, mut problem) = (Vec::new(), None);
    manifest::read_with(&[file], &Selection::default(), Secrets::Redact, false, &mut |change| match change {
        Change::Seen(_, object) => objects.push(object),
        Change::Skipped(_, place, why) if problem.is_none() => problem = Some(anyhow::anyhow!("{place}: {why}")),
        _ => {}
    });
    problem.map_or(Ok(objects), Err)
}

#[cfg(test)]
mod tests;
