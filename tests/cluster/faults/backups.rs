//! etcd is restored from a backup: objects, Events and versions are those of an earlier time.

use kaudit_controlplane::{ControlPlane, Options, require};

use crate::{
    events::Scene,
    support::{Running, results_in, run, wait_for},
};

/// Waits until the live results are violations of these objects, and those of a fresh check, too.
async fn until(plane: &ControlPlane, scene: &Scene, kaudit: &Running, wanted: &[&str]) {
    wait_for(&format!("violations of {wanted:?}"), || async {
        let results = results_in(&kaudit.status(), &scene.namespace);
        let names: Vec<&str> = results.iter().filter_map(|entry| entry["resource"]["name"].as_str()).collect();
        (names == wanted).then_some(())
    })
    .await;
    let policies = scene.policies.path().to_str().unwrap();
    let arguments = [
        "check",
        "--once",
        "--include=configmaps",
        "--exclude=*",
        "-o",
        "json",
        "-p",
        policies,
        "-n",
        &scene.namespace,
    ];
    let fresh = results_in(&run(&plane.kubeconfig(), &arguments).await.json(), &scene.namespace);
    let names: Vec<&str> = fresh.iter().filter_map(|entry| entry["resource"]["name"].as_str()).collect();
    assert_eq!(names, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_restored_from_a_backup() {
    if !require() {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let scene = Scene::new(&plane, "backup").await;
    scene.create(["a", "b"].map(str::to_owned), "yes").await;
    let kaudit = scene.start(&[]).await;
    until(&plane, &scene, &kaudit, &["a", "b"]).await;
    wait_for("two Events", || async { (scene.events(None).await.len() == 2).then_some(()) }).await;
    let backup = plane.back_up().await.unwrap();

    scene.mark("a", None).await;
    scene.delete("b").await;
    // Each number of a version is used again after the restoration, by another write.
    scene.create((0..30).map(|number| format!("c{number:02}")), "").await;
    scene.create(["d".to_owned()], "yes").await;
    until(&plane, &scene, &kaudit, &["d"]).await;

    plane.restore(&backup).await.unwrap();
    until(&plane, &scene, &kaudit, &["a", "b"]).await;
    scene.mark("b", None).await;
    until(&plane, &scene, &kaudit, &["a"]).await;
    // The Event that its violation was resolved is lost, and there is a new one that it is open again.
    wait_for("the Events of a", || async {
        (scene.recorded().await["a"] == ["PolicyViolation", "PolicyViolation"]).then_some(())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
    plane.stop().await.unwrap();
}
