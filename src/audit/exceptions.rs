//! Exceptions: violations that somebody excused for a time, with a reason. Where one applies, the result is `skip`.
//!
//! In: `PolicyException`s, in files and in the cluster, and the policies in force. Out: findings with what excuses them. This
//! is the only place that decides about it, so that reports, Events, metrics and every form of output say the same.

mod exception;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;

use self::exception::{Author, Exception};
use super::result::ExceptionSummary;
use crate::{
    judge::{rule::Rule, set::PolicySet},
    model::{
        body::Body,
        exception::ExceptionState,
        object::{Location, Object, ObjectKey},
        spelling::nearest,
        verdict::Finding,
    },
    source::{
        change::Change,
        manifest::{self, ManifestFile},
        received::Secrets,
        selection::Selection,
    },
};

/// How long before its end an exception is pointed at.
const NOTICE: SignedDuration = SignedDuration::from_hours(14 * 24);

/// All exceptions, and the rules that they can be about.
#[derive(Debug, Default)]
pub struct Exceptions {
    /// Of whoever runs kaudit, with where they stand.
    given: Vec<(Option<Location>, Arc<Exception>)>,
    /// Of the cluster; or why one cannot be read.
    found: BTreeMap<ObjectKey, Result<Arc<Exception>, String>>,
    /// Those that may apply to results of a policy, the first first.
    by_policy: HashMap<Arc<str>, Vec<Arc<Exception>>>,
    /// The rules in force by policy, and whether teams may excuse what they find.
    rules: BTreeMap<Arc<str>, BTreeMap<Arc<str>, bool>>,
}

impl Exceptions {
    /// Reads files of exceptions.
    ///
    /// # Errors
    /// When a file cannot be read, or holds something else than exceptions, with file and line.
    pub fn load(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut given = Vec::new();
        for path in paths {
            for object in objects(path)? {
                let exception = Exception::read(&object, Author::Operator);
                let place = object.location.as_ref().map(|at| format!("{}:{}", at.file, at.line)).unwrap_or_default();
                let exception = exception.map_err(|why| anyhow::anyhow!("{place}: {} {why}", object.key.name))?;
                given.push((object.location, Arc::new(exception)));
            }
        }
        let mut exceptions = Self { given, ..Self::default() };
        exceptions.index();
        Ok(exceptions)
    }

    /// Returns them if all of them are about rules that are in force.
    ///
    /// # Errors
    /// Names each that is not, and the nearest rule.
    pub fn checked(mut self, policies: &PolicySet) -> anyhow::Result<Self> {
        self.judged_by(policies);
        let wrong = self.given.iter().filter_map(|(location, exception)| {
            let place = location.as_ref().map_or(String::new(), |at| format!("{}:{}: ", at.file, at.line));
            Some(format!("{place}{}: {}", exception.excuse.by, self.unknown(exception)?))
        });
        let wrong: Vec<String> = wrong.collect();
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(self)
    }

    /// Takes the exceptions of files from another set.
    pub(crate) fn replace_given(&mut self, other: Self) {
        self.given = other.given;
        self.index();
    }

    /// Notes which rules are in force.
    pub fn judged_by(&mut self, policies: &PolicySet) {
        let excusable = |rule: &Rule| {
            rule.metadata.custom.get("excusable").is_some_and(|value| *value == serde_json::Value::Bool(true))
        };
        self.rules = BTreeMap::new();
        for policy in &policies.policies {
            let rules = policy.rules.iter().map(|rule| (Arc::clone(&rule.name), excusable(rule)));
            self.rules.entry(Arc::clone(&policy.name)).or_default().extend(rules);
        }
    }

    /// Takes in the present state of an exception of the cluster.
    pub(crate) fn put(&mut self, object: &Object) {
        let exception = Exception::read(object, Author::Team).map(Arc::new);
        self.found.insert(object.key.clone(), exception);
        self.index();
    }

    /// Forgets an exception of the cluster.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.found.remove(key);
        self.index();
    }

    fn index(&mut self) {
        let given = self.given.iter().map(|(_, exception)| exception);
        self.by_policy.clear();
        for exception in given.chain(self.found.values().flatten()) {
            let policies: BTreeSet<_> = exception.policies.iter().map(|policy| &policy.name).collect();
            for policy in policies {
                self.by_policy.entry(Arc::clone(policy)).or_default().push(Arc::clone(exception));
            }
        }
    }

    /// Excuses what is excused at a time of what was found about an object, and nothing else, whatever was excused before.
    /// `subjects` are the object and its owners, each with its JSON: what is excused for one of them is for the object.
    pub(crate) fn apply(&self, subjects: &[(ObjectKey, Body)], findings: &mut [Finding], now: Timestamp) {
        for finding in findings {
            finding.restore();
            let Some(candidates) = self.by_policy.get(&finding.policy) else { continue };
            let applies = |exception: &&Arc<Exception>| {
                exception.expires > now
                    && exception.names(&finding.policy, &finding.rule)
                    && (exception.author == Author::Operator || self.may_be_excused(&finding.policy, &finding.rule))
                    && subjects.iter().any(|(key, body)| exception.matches(key, body))
            };
            if let Some(exception) = candidates.iter().find(applies) {
                finding.excuse(&exception.excuse);
            }
        }
    }

    /// Whether any of them selects objects by their labels.
    pub(crate) fn select_by_labels(&self) -> bool {
        self.by_policy.values().flatten().any(|exception| exception.selects_by_labels())
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_policy.is_empty()
    }

    /// Returns when, after a time, the next one ends or is pointed at.
    pub(crate) fn next_turn(&self, now: Timestamp) -> Option<Timestamp> {
        let turns = |exception: &Arc<Exception>| {
            let end = exception.expires;
            // One that has less than `NOTICE` left is pointed at.
            let notice =
                end.checked_sub(NOTICE).ok().and_then(|from| from.checked_add(SignedDuration::from_nanos(1)).ok());
            notice.into_iter().chain([end])
        };
        self.by_policy.values().flatten().flat_map(turns).filter(|turn| *turn > now).min()
    }

    fn may_be_excused(&self, policy: &str, rule: &str) -> bool {
        self.rules.get(policy).and_then(|rules| rules.get(rule)).is_some_and(|excusable| *excusable)
    }

    /// Returns which policy or rule that an exception names is not in force, and what may be meant.
    fn unknown(&self, exception: &Exception) -> Option<String> {
        let meant = |word: &str, known: Vec<&str>| {
            nearest(word, known).map_or(String::new(), |near| format!("; did you mean {near}?"))
        };
        exception.policies.iter().find_map(|policy| {
            let Some(rules) = self.rules.get(&policy.name) else {
                let meant = meant(&policy.name, self.rules.keys().map(|name| &**name).collect());
                return Some(format!("there is no policy {}{meant}", policy.name));
            };
            let rule = policy.rules.iter().find(|rule| !rules.contains_key(*rule))?;
            let meant = meant(rule, rules.keys().map(|name| &**name).collect());
            Some(format!("policy {} has no rule {rule}{meant}", policy.name))
        })
    }

    /// Returns what a team may not excuse of what its exception names.
    fn refused(&self, exception: &Exception) -> Option<String> {
        if exception.author == Author::Operator {
            return None;
        }
        let refused = exception.policies.iter().find_map(|policy| {
            let rules = self.rules.get(&policy.name)?;
            let named = |rule: &Arc<str>| exception.names(&policy.name, rule);
            let mut named = rules.iter().filter(|(rule, _)| named(rule)).peekable();
            let none = named.peek().is_some() && !named.any(|(_, excusable)| *excusable);
            none.then(|| Arc::clone(&policy.name))
        })?;
        Some(format!(
            "policy {refused} has no rule that a namespace may excuse (custom.excusable: true in its METADATA)"
        ))
    }

    /// Returns all of them as they are at a time, given how many results each excuses; sorted by name.
    pub(crate) fn summaries(&self, excused: &HashMap<Arc<str>, usize>, now: Timestamp) -> Vec<ExceptionSummary> {
        let given =
            self.given.iter().map(|(location, exception)| self.summary(exception, location.clone(), excused, now));
        let found = self.found.iter().map(|(key, exception)| match exception {
            Ok(exception) => self.summary(exception, None, excused, now),
            Err(why) => ExceptionSummary {
                name: format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name),
                state: ExceptionState::Invalid,
                reason: "".into(),
                expires_at: None,
                results: 0,
                location: None,
                message: why.clone(),
            },
        });
        let mut all: Vec<_> = given.chain(found).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn summary(
        &self,
        exception: &Exception,
        location: Option<Location>,
        excused: &HashMap<Arc<str>, usize>,
        now: Timestamp,
    ) -> ExceptionSummary {
        let excuse = &exception.excuse;
        let results = excused.get(&excuse.by).copied().unwrap_or(0);
        let expires = exception.expires;
        let left = expires.duration_since(now);
        let (state, message) = if let Some(why) = self.unknown(exception).or_else(|| self.refused(exception)) {
            (ExceptionState::Invalid, why)
        } else if expires <= now {
            (ExceptionState::Expired, format!("expired at {expires:.0}"))
        } else if results == 0 {
            (ExceptionState::Unused, "excuses nothing".to_owned())
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
            expires_at: Some(expires),
            results,
            location,
            message,
        }
    }
}

/// Reads the objects of a file; what is no object is an error.
fn objects(path: &Path) -> anyhow::Result<Vec<Object>> {
    let file = ManifestFile { path: path.to_owned(), is_settings: false };
    path.metadata().with_context(|| format!("reading exceptions from {}", path.display()))?;
    let (changes, mut read) = mpsc::channel(64);
    std::thread::scope(|scope| {
        // The receiver ends with the thread that takes from it: whoever reads must not wait for one that has seen enough.
        let taken = scope.spawn(move || {
            let mut objects = Vec::new();
            while let Some(change) = read.blocking_recv() {
                match change {
                    Change::Seen(_, object) => objects.push(object),
                    Change::Skipped(_, place, why) => anyhow::bail!("{place}: {why}"),
                    _ => {}
                }
            }
            Ok(objects)
        });
        manifest::read(&[file], &Selection::default(), Secrets::Redact, &changes);
        drop(changes);
        taken.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests;
