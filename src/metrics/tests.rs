use super::*;
use crate::model::{
    rule_counts::RuleCounts,
    verdict::{Outcome, RuleDescriptor},
};

const AT: Timestamp = Timestamp::constant(1_800_000_000, 0);

fn deployments(state: State) -> Coverage {
    Coverage {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
        resource: "deployments".to_owned(),
        state,
        objects: 3,
        inactive: 0,
        message: String::new(),
    }
}

fn finding(class: &Class) -> Finding {
    let Class { policy, severity, outcome } = class.clone();
    let rule = Arc::new(RuleDescriptor::named(policy, "deny_latest_tag"));
    Finding { rule, outcome, severity, ..Finding::object_error("") }
}

/// Updates each metric at least once.
fn sample() -> Metrics {
    let metrics = Metrics::default();
    metrics.set_gate_open(true);
    metrics.start_time_seconds.set(AT.as_second());
    metrics.set_complete(true);
    metrics.set_coverage(&[deployments(State::TimedOut)]);
    metrics.set_watch_activity([("apps", "deployments", AT)]);
    metrics.set_last_change(AT);
    let class = Class { policy: "image".into(), severity: Some(Severity::High), outcome: Outcome::Fail };
    metrics.set_violations([("gone".into(), class.clone(), 2)]);
    metrics.set_violations([("shop".into(), class.clone(), 1), ("".into(), class.clone(), 0)]);
    let counts = RuleCounts { applicable: 7, failing: 3, excused: 1, error: 1 };
    metrics.set_rule_objects([(["image".into(), "deny".into()], counts)].into());
    metrics.expect_violations(&class, "change");
    metrics.limit_namespaces(1);
    metrics.violation_appeared(&finding(&class), Some(&"shop".into()), "change");
    metrics.set_exceptions(&[(ExceptionState::Expiring, Some(AT)), (ExceptionState::Expired, None)]);
    metrics.set_policies(3);
    metrics.recording_start_time_seconds.get_or_create(&[]).set(AT.as_second());
    metrics.evaluated(Duration::from_micros(52));
    metrics.change_skipped();
    metrics.inventory_updated(Duration::from_millis(5));
    metrics.policy_failed("image");
    metrics.verdict_shared(Shared::Hit);
    metrics.shared_verdict_differed();
    metrics.set_memory(200 << 20, 256 << 20);
    metrics.set_queue_length(2);
    metrics.verdict_after(Duration::from_millis(3));
    metrics.event_after(Duration::from_millis(7));
    metrics.recorder_wrote("events");
    metrics.recorder_dropped("events", "rate_limited", 5);
    metrics.recorder_retries("events");
    metrics.recorder_last_write_timestamp_seconds.get_or_create(&RecorderLabels { recorder: "events".into() }).set(7);
    metrics.set_events_pending(6);
    metrics.set_notifications_pending("team", 7);
    metrics.events_superseded(2);
    metrics.watch_restarted("apps", "deployments", "expired");
    metrics.policies_reloaded(false);
    metrics.set_policies_refused(4);
    metrics.set_bundles_stale(1);
    metrics.object_unreadable("apps", "deployments");
    metrics
}

#[test]
fn names_and_labels_are_a_contract() {
    let mut text = sample().encode().replace(env!("CARGO_PKG_VERSION"), "VERSION");
    assert!(text.ends_with("# EOF\n"));
    // The series of a family are unordered.
    let states = |line: &&str| line.starts_with("kaudit_exceptions{");
    let mut exceptions: Vec<&str> = text.lines().filter(states).collect();
    exceptions.sort_unstable();
    let exceptions = exceptions.join("\n");
    text = text.lines().filter(|line| !states(line)).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(format!("{text}\n\n{exceptions}"));
}

#[test]
fn removed_kinds_and_exceptions_leave_no_series() {
    let metrics = sample();
    metrics.set_coverage(&[deployments(State::Excluded)]);
    metrics.set_watch_activity([]);
    metrics.remove_kind("apps", "deployments");
    metrics.set_exceptions(&[(ExceptionState::Expired, Some(AT))]);
    let text = metrics.encode();
    assert!(!text.contains("deployments") && !text.contains("next_end_timestamp_seconds 1"), "{text}");
}
