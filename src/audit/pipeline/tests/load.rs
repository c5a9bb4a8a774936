//! A pipeline under load that never ends: everything else is evaluated all the same.

use super::*;
use crate::{
    judge::{
        evaluate::{Job, evaluate},
        sharing::SharedVerdicts,
    },
    model::verdict::Verdict,
};

/// It reads all labels, so that their changes are evaluated.
const BAD: &str = "package bad\ndeny contains \"bad\" if { some key, _ in input.metadata.labels; key == \"bad\" }\n";
const NEW: &str = "package new\ndeny contains \"new\" if input.kind == \"Ingress\"\n";

const TICK: &str = "package tick\ndeny contains \"tick\" if input.metadata.labels.tick == \"never\"\n";

/// Evaluates Pods so slowly that they change faster.
fn slow(job: &Job, _: &SharedVerdicts) -> Verdict {
    if job.object.key.kind.kind == "Pod" {
        std::thread::sleep(Duration::from_millis(10));
    }
    evaluate(job)
}

#[tokio::test]
async fn lookups_new_policies_and_new_objects_are_evaluated_while_other_objects_never_stop_changing() {
    let live = Live::start_with(load(&[("hosts.rego", UNIQUE_HOST), ("bad.rego", BAD)]), SETTINGS, |pipeline| {
        pipeline.schedule.judges.evaluate = slow;
    });
    live.sync(vec![ingress("n", "a", 1, "x"), ingress("m", "b", 2, "y")]).await;
    live.until(&[]).await;
    let changes = live.changes.clone();
    let writer = tokio::spawn(async move {
        for version in 10_u64.. {
            for pod in 0..40 {
                let labels = json!({"metadata": {"labels": {"tick": version.to_string()}}});
                let pod = object("Pod", "hot", &format!("p{pod}"), version, &labels);
                if changes.send(Change::Seen(scope("Pod"), pod)).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    live.until_evaluated(400).await;
    live.seen(ingress("m", "b", 3, "x")).await;
    live.until(&["b: host x is also that of n/a", "a: host x is also that of m/b"]).await;
    live.gone(ingress("n", "a", 1, "x")).await;
    live.until(&[]).await;
    live.seen(object("Pod", "n", "p", 1, &json!({"metadata": {"labels": {"bad": "yes"}}}))).await;
    live.until(&["p: bad"]).await;
    live.reload(Ok(load(&[("new.rego", NEW), ("tick.rego", TICK)]))).await;
    live.until(&["b: new"]).await;
    assert!(!writer.is_finished());
    writer.abort();
}
