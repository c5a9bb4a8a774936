//! The API version through which an object was written, which is only visible in managedFields.

use kaudit_controlplane::{ControlPlane, Options, require};
use serde_json::Value;

use crate::support::{Running, run, wait_for};

/// Served by this release only if enabled, and removed in the next one.
const OLD: &str = "networking.k8s.io/v1beta1";

fn range(version: &str, team: &str) -> String {
    format!(
        "apiVersion: {version}\nkind: ServiceCIDR\nmetadata: {{name: spare, labels: {{team: {team}}}}}\nspec: {{cidrs: \
         [10.9.0.0/24]}}\n"
    )
}

/// Returns the results for the object of the test; the server has one of its own.
fn about(status: &Value) -> Vec<&str> {
    let results = status["results"].as_array().unwrap().iter();
    let about = results.filter(|result| result["resource"]["name"] == "spare");
    about.map(|result| result["message"].as_str().unwrap()).collect()
}

async fn kubectl(plane: &ControlPlane, arguments: &[&str], manifest: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), manifest).unwrap();
    let arguments = [arguments, &["-f", file.path().to_str().unwrap()]].concat();
    plane.kubectl(&arguments).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_written_through_an_old_version_violate_until_rewritten() {
    if !require() {
        return;
    }
    let apiserver_args = vec![format!("--runtime-config={OLD}=true")];
    let plane = ControlPlane::start(Options { apiserver_args, ..Options::default() }).await.unwrap();
    kubectl(&plane, &["create", "--field-manager=pipeline"], &range(OLD, "a")).await;
    // Other objects written by the server are not checked.
    let scope = ["--policies=builtin:deprecated_apis", "--exclude=*", "--include=servicecidrs", "--record=none"];
    let kaudit = Running::start(&plane.kubeconfig(), &scope).await;
    kaudit.ready().await;
    let want = "\"pipeline\" wrote it through networking.k8s.io/v1beta1, which Kubernetes 1.37 no longer serves: use networking.k8s.io/v1";
    let found = || async { (about(&kaudit.status()) == [want]).then_some(()) };
    wait_for("the writer", found).await;

    // The same writer again: only the time and the fields in managedFields change, which no policy reads.
    let (skipped, evaluated) =
        (kaudit.metric("kaudit_changes_skipped_total"), kaudit.metric("kaudit_evaluations_total"));
    kubectl(&plane, &["replace", "--field-manager=pipeline"], &range(OLD, "b")).await;
    let seen = || async { (kaudit.metric("kaudit_changes_skipped_total") > skipped).then_some(()) };
    wait_for("the change to be left out", seen).await;
    assert_eq!(kaudit.metric("kaudit_evaluations_total"), evaluated);
    let once = run(&plane.kubeconfig(), &["check", "--once", "-p", "builtin:deprecated_apis", "-o", "json"]).await;
    assert_eq!((once.code, about(&once.json())), (Some(0), vec![want]), "{once:?}");

    plane.kubectl(&["delete", "servicecidr", "spare"]).await.unwrap();
    kubectl(&plane, &["create", "--field-manager=pipeline"], &range("networking.k8s.io/v1", "b")).await;
    let resolved = || async { about(&kaudit.status()).is_empty().then_some(()) };
    wait_for("the new object", resolved).await;
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
