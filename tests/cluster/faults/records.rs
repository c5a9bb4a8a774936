//! kaudit's writes are refused: by an admission policy, and by a terminating namespace.

use kaudit_controlplane::{require, shared};

use super::Scene;
use crate::{
    kubectl::operator,
    support::{Running, wait_for},
    truth::{EventOrder, violation_events},
};

/// Returns a policy that refuses the writes of one user.
fn admission_policy(name: &str, user: &str) -> String {
    format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}}
  matchConditions:
    - {{name: one-user, expression: "request.userInfo.username == '{user}'"}}
  validations:
    - {{expression: "false", message: nobody writes here}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}, validationActions: [Deny]}}
"#
    )
}

/// Returns the number of Events dropped for these reasons.
fn dropped(kaudit: &Running, reasons: &[&str]) -> usize {
    let metric = |reason: &&str| {
        kaudit.metric(&format!("kaudit_recorder_drops_total{{recorder=\"events\",reason=\"{reason}\"}}"))
    };
    reasons.iter().filter_map(metric).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_refused() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "refused").await;
    let home = scene.namespaces[0].clone();
    let user = operator(plane, &home).await;
    let kaudit = scene.start(user.kubeconfig_path()).await;

    // A namespace that is stuck in termination accepts changes of existing objects, but no new ones. Its finalizer
    // stays, as no controllers run.
    let stuck = scene.namespaces[1].clone();
    scene.truth.namespaces = vec![home.clone()];
    let terminating = async || {
        plane.kubectl(&["delete", "namespace", &stuck, "--wait=false"]).await.unwrap();
        wait_for("Events to be dropped", || async { (dropped(&kaudit, &["namespace_terminating"]) > 0).then_some(()) })
            .await;
    };
    scene.through("a namespace stuck in termination", &kaudit, terminating).await;

    let policy = home.clone();
    let refused = ["forbidden", "invalid"];
    let denied = async || {
        plane.apply(&admission_policy(&policy, user.name())).await.unwrap();
        wait_for("Events to be refused", || async { (dropped(&kaudit, &refused) > 3).then_some(()) }).await;
        let both = format!("validatingadmissionpolicybinding/{policy}");
        plane.kubectl(&["delete", &both, &format!("validatingadmissionpolicy/{policy}")]).await.unwrap();
    };
    // Refused Events are lost and counted; the verdicts are right.
    scene.truth.event_order = EventOrder::Lossy;
    scene.through("an admission policy that refuses all writes", &kaudit, denied).await;

    // Later violations are recorded.
    let create = ["-n", &home, "create", "configmap", "reported"];
    plane.kubectl(&create).await.unwrap();
    let client = plane.admin().unwrap();
    let mut value = 0;
    wait_for("an Event", || {
        value += 1;
        let (label, home, client) = (format!("bad=reported-{value}"), &home, &client);
        async move {
            plane.kubectl(&["-n", home, "label", "--overwrite", "configmap", "reported", &label]).await.unwrap();
            let events = violation_events(client, std::slice::from_ref(home)).await;
            events.keys().any(|(_, note)| note.contains("bad is reported-")).then_some(())
        }
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
}
