//! What a pipeline says of itself in metrics.

use super::*;

const BAD_HOST: &str = r#"
# METADATA
# custom: {severity: critical}
package hosts
deny contains "the host is bad" if input.spec.host == "bad"
"#;

/// Waits until a metric has a value.
async fn until(live: &Live, series: &str, value: u64) {
    let begin = Instant::now();
    let wanted = format!("{series} {value}");
    while !live.metrics.encode().lines().any(|line| line == wanted) {
        assert!(begin.elapsed() < PATIENCE, "no {wanted} in {}", live.metrics.encode());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn violations(namespace: &str) -> String {
    let labels = r#"policy="hosts",severity="critical",result="fail""#;
    format!(r#"kaudit_violations{{resource_namespace="{namespace}",{labels}}}"#)
}

fn reported(what: &str, lane: &str) -> String {
    format!(r#"kaudit_violations_{what}_total{{policy="hosts",severity="critical",result="fail",lane="{lane}"}}"#)
}

#[tokio::test]
async fn violations_are_counted_by_namespace_and_as_they_are_reported() {
    let live = Live::start(load(&[("hosts.rego", BAD_HOST)]), SETTINGS);
    until(&live, &violations(""), 0).await;
    for lane in ["change", "snapshot"] {
        until(&live, &reported("appeared", lane), 0).await;
        until(&live, &reported("resolved", lane), 0).await;
    }
    until(&live, "kaudit_complete", 0).await;
    let all = [("a", "1"), ("a", "2"), ("b", "1")];
    live.sync(all.iter().map(|(namespace, name)| ingress(namespace, name, 1, "bad")).collect()).await;
    until(&live, &violations("a"), 2).await;
    until(&live, &violations("_other"), 1).await;
    until(&live, &reported("appeared", "snapshot"), 3).await;
    until(&live, "kaudit_complete", 1).await;
    live.seen(ingress("b", "2", 1, "bad")).await;
    live.seen(ingress("b", "3", 1, "bad")).await;
    until(&live, &violations("b"), 3).await;
    until(&live, &violations("_other"), 2).await;
    until(&live, &reported("appeared", "change"), 2).await;
    assert!(!live.metrics.encode().contains(&violations("a")), "it is no longer the worst");
    live.seen(ingress("b", "2", 2, "good")).await;
    live.gone(ingress("b", "3", 1, "bad")).await;
    until(&live, &reported("resolved", "change"), 2).await;
    until(&live, &violations("a"), 2).await;
    let rows = live.metrics.encode();
    let rows = rows.lines().filter(|line| line.starts_with("kaudit_violations{"));
    assert_eq!(rows.count(), 3, "a, the other and what is in none");
}

#[tokio::test]
async fn new_violations_are_counted_where_they_are_as_far_as_namespaces_are_named() {
    let by_rule = |namespace: &str, lane: &str| {
        format!(
            r#"kaudit_violations_appeared_by_rule_total{{resource_namespace="{namespace}",policy="hosts",rule="deny",severity="critical",result="fail",lane="{lane}"}}"#
        )
    };
    let live = Live::start(load(&[("hosts.rego", BAD_HOST)]), SETTINGS);
    live.sync(vec![ingress("a", "1", 1, "bad"), ingress("a", "2", 1, "bad")]).await;
    until(&live, &by_rule("a", "snapshot"), 2).await;
    live.seen(ingress("a", "3", 1, "bad")).await;
    until(&live, &by_rule("a", "change"), 1).await;
    live.seen(ingress("b", "1", 1, "bad")).await;
    until(&live, &by_rule("_other", "change"), 1).await;
}

#[tokio::test]
async fn without_a_term_nothing_is_recorded() {
    let live = Live::recording(load(&[("hosts.rego", BAD_HOST)]), SETTINGS, None);
    live.sync(vec![ingress("a", "1", 1, "bad")]).await;
    until(&live, &violations("a"), 1).await;
    until(&live, &reported("appeared", "snapshot"), 0).await;
}

#[tokio::test]
async fn the_series_of_what_is_no_longer_served_go() {
    let live = Live::start(load(&[("hosts.rego", BAD_HOST)]), SETTINGS);
    let down = crate::source::change::Unserved {
        group: "down.example.com".into(),
        version: "v1".into(),
        message: "no".into(),
    };
    live.sync(vec![ingress("a", "1", 1, "good")]).await;
    live.send(Change::Discovered(Discovered { unserved: vec![down], ..Discovered::default() })).await;
    until(&live, r#"kaudit_kind_state{group="down.example.com",resource="*",state="failed"}"#, 1).await;
    live.send(Change::Discovered(Discovered::default())).await;
    until(&live, "kaudit_complete", 1).await;
    assert!(!live.metrics.encode().contains("down.example.com"), "{}", live.metrics.encode());
    live.send(Change::Vanished(scope("Pod"))).await;
    live.until(&[]).await;
    until(&live, r#"kaudit_kind_state{group="",resource="namespaces",state="synced"}"#, 1).await;
    let begin = Instant::now();
    while live.metrics.encode().contains(r#"resource="pods""#) {
        assert!(begin.elapsed() < PATIENCE, "{}", live.metrics.encode());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_watch_that_has_nothing_to_tell_is_active_and_no_change() {
    let live = Live::start(load(&[("hosts.rego", BAD_HOST)]), SETTINGS);
    live.sync(vec![ingress("a", "1", 1, "good")]).await;
    let pods = r#"kaudit_watch_activity_timestamp_seconds{group="",resource="pods"}"#;
    until(&live, r#"kaudit_kind_state{group="",resource="pods",state="synced"}"#, 1).await;
    live.until_evaluated(1).await;
    let (before, changed) = (live.metric(pods), live.metric("kaudit_last_change_timestamp_seconds"));
    assert!(changed > 0);
    // The other kinds are silent; time passes until there is a difference to see.
    let begin = Instant::now();
    while live.metric(pods) == before {
        live.send(Change::Quiet(scope("Pod"))).await;
        assert!(begin.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let budgets = r#"kaudit_watch_activity_timestamp_seconds{group="policy",resource="poddisruptionbudgets"}"#;
    assert!(live.metric(budgets) <= before, "another kind is not heard of by that");
    assert_eq!(live.metric("kaudit_last_change_timestamp_seconds"), changed);
    let forbidden = Unreadable { state: State::Forbidden, message: "no".into() };
    live.send(Change::Unreadable(scope("Pod"), forbidden)).await;
    until(&live, r#"kaudit_kind_state{group="",resource="pods",state="forbidden"}"#, 1).await;
    assert!(!live.metrics.encode().contains(pods), "its state says more");
}
