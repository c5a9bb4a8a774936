use std::{fmt::Write as _, sync::Arc};

use super::*;
use crate::{
    audit::result::Summary,
    judge::{
        load_options::LoadOptions,
        set::PolicySet,
        sources::{FileSource, FileTree},
    },
    record::memory::MemoryUse,
    rego::LoadError,
};

const GOOD: &str = "package good\n\ndeny contains \"no\" if input.spec.bad\n";
const BROKEN: &str = "package broken\n\ndeny contains if\n";

/// Loads policies by file name; messages name files relative to their folder.
fn load(files: &[(&str, &str)]) -> Result<PolicySet, LoadError> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let relative = |problems: &mut Vec<problem::Problem>| {
        for problem in problems {
            let name = problem.file.rsplit('/').next().unwrap_or_default();
            problem.file = name.into();
        }
    };
    let mut loaded = PolicySet::load_with(&[directory.path().to_owned()], &LoadOptions::allowing_refused());
    match &mut loaded {
        Ok(policies) => relative(&mut policies.problems),
        Err(error) => relative(&mut error.problems),
    }
    loaded
}

fn kind(resource: &str, state: State, message: &str) -> Coverage {
    Coverage {
        group: String::new(),
        version: "v1".to_owned(),
        kind: resource.to_owned(),
        resource: resource.to_owned(),
        state,
        objects: 1,
        inactive: 0,
        message: message.to_owned(),
    }
}

/// Everything is read and evaluated.
fn well() -> Overview {
    let coverage = vec![kind("pods", State::Synced, ""), kind("events", State::Excluded, "by default")];
    Overview { coverage, ..Overview::sample(load(&[("good.rego", GOOD)]).unwrap()) }
}

fn health(trouble: &str, note: &str) -> Health {
    Health { trouble: trouble.to_owned(), note: note.to_owned(), ..Health::default() }
}

#[test]
fn each_condition_in_each_state() {
    let syncing = || {
        let coverage = vec![kind("pods", State::Syncing, ""), kind("nodes", State::Synced, "")];
        Overview { synced: false, evaluated: false, complete: false, coverage, ..well() }
    };
    let unread = || {
        let coverage = vec![
            kind("pods", State::Synced, ""),
            kind("secrets", State::Forbidden, "no"),
            kind("nodes", State::TimedOut, "late"),
        ];
        Overview { complete: false, coverage, ..well() }
    };
    let partial =
        |files: &[(&str, &str)]| Overview { complete: false, policies: Arc::new(load(files).unwrap()), ..well() };
    let refused = load(&[("broken.rego", BROKEN)]).unwrap_err();
    let errors = Summary { error: 3, ..Summary::default() };
    let none = PolicySet::load_followed(
        &[FileSource::Tree(Arc::new(FileTree { name: "cluster".into(), files: Vec::new() }))],
        &LoadOptions::default(),
    );
    let states: [(&str, Overview, Health); 13] = [
        ("all is well", well(), Health::default()),
        ("syncing", syncing(), Health::default()),
        (
            "syncing, and a kind is not read",
            Overview { synced: false, evaluated: false, ..unread() },
            Health::default(),
        ),
        ("kinds are not read", unread(), Health::default()),
        (
            "an object is not read",
            Overview { complete: false, coverage: vec![kind("pods", State::Synced, "1 object is odd")], ..well() },
            Health::default(),
        ),
        ("a policy failed", Overview { complete: false, summary: errors, ..well() }, Health::default()),
        ("a policy is refused", partial(&[("good.rego", GOOD), ("broken.rego", BROKEN)]), Health::default()),
        (
            "two policies are refused",
            partial(&[("good.rego", GOOD), ("broken.rego", BROKEN), ("other.rego", BROKEN)]),
            Health::default(),
        ),
        (
            "no policy is in the cluster",
            Overview { complete: false, policies: Arc::new(none.unwrap()), ..well() },
            Health::default(),
        ),
        ("a reload failed", Overview { policy_error: Some(refused), ..well() }, Health::default()),
        (
            "no inventory",
            Overview { complete: false, inventory_error: "too large".to_owned(), ..well() },
            Health::default(),
        ),
        ("writes fail", well(), health("Events wait: no answer", "no reports are written")),
        ("no report API", well(), health("", "no reports are written")),
    ];
    let mut shown = String::new();
    for (name, overview, health) in states {
        writeln!(shown, "## {name}").unwrap();
        for AuditCondition { kind, status, reason, message } in conditions(&overview, &health, None) {
            let known = status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
            writeln!(shown, "{}", format!("{kind}={known} {reason}: {message}").trim_end_matches(": ")).unwrap();
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn the_memory_has_a_condition_where_it_has_a_limit() {
    let shown = |is_high| {
        let memory = MemoryUse { used: 240 << 20, limit: 256 << 20 };
        let conditions = conditions(&well(), &Health::default(), Some(Pressure { is_high, memory }));
        let Some(AuditCondition { kind, status, reason, message }) = conditions.into_iter().nth(5) else { panic!() };
        format!("{kind}={} {reason}: {message}", status.unwrap())
    };
    assert_eq!(shown(false), "MemoryPressure=false BelowLimit: ");
    assert!(shown(true).starts_with("MemoryPressure=true NearLimit: 240 of 256 MiB"), "{}", shown(true));
}

#[test]
fn the_time_is_that_of_the_last_change_of_the_status() {
    let (mut known, at) = (ConditionTimes::default(), |second| Timestamp::from_second(second).unwrap());
    let mut stamps = |overview: &Overview, trouble: &str, now: Timestamp| -> Vec<String> {
        let stamped = known.stamp(&conditions(overview, &health(trouble, ""), None), now);
        stamped.iter().map(|condition| condition["lastTransitionTime"].as_str().unwrap().to_owned()).collect()
    };
    let (first, second) = ("1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z");
    assert_eq!(stamps(&well(), "", at(0)), [first; 5]);
    assert_eq!(stamps(&well(), "no", at(1)), [first, first, first, second, first]);
    assert_eq!(
        stamps(&well(), "still no", at(2)),
        [first, first, first, second, first],
        "the message alone is no transition"
    );
    assert_eq!(stamps(&Overview { complete: false, ..well() }, "", at(3))[2..4], ["1970-01-01T00:00:03Z"; 2]);
}

#[test]
fn times_of_an_earlier_process_are_kept_where_the_status_is_the_same() {
    let (mut known, now) = (ConditionTimes::default(), Timestamp::from_second(1).unwrap());
    let before = json!([{"type": "Synced", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "Recording", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "ExceptionsValid", "status": "True", "reason": "Valid", "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
    let syncing = Overview { evaluated: false, ..well() };
    let stamp = |known: &mut ConditionTimes, overview, now| {
        Value::from(known.stamp(&conditions(overview, &Health::default(), None), now))
    };
    stamp(&mut known, &syncing, now);
    known.adopt(&before);
    let stamped = stamp(&mut known, &syncing, now);
    let times = |conditions: &Value| [0, 3].map(|index| conditions[index]["lastTransitionTime"].clone());
    assert_eq!(times(&stamped), ["2020-01-01T00:00:00Z", "1970-01-01T00:00:01Z"]);
    assert_eq!(stamped[4], before[2], "which exceptions are used is not known yet");
    let later = Timestamp::from_second(9).unwrap();
    let stamped = stamp(&mut known, &well(), later);
    assert_eq!(times(&stamped), ["2020-01-01T00:00:00Z", "1970-01-01T00:00:01Z"]);
    assert_eq!(stamped[4]["lastTransitionTime"], "2020-01-01T00:00:00Z", "its status is unchanged");
}

#[test]
fn long_messages_are_cut() {
    let overview = Overview { inventory_error: "ä".repeat(3_000), ..well() };
    let stamped =
        ConditionTimes::default().stamp(&conditions(&overview, &Health::default(), None), Timestamp::UNIX_EPOCH);
    assert_eq!(stamped[1]["message"].as_str().unwrap().len(), MESSAGE_BYTES);
}
