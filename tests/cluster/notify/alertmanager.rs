//! Alerts, in Alertmanager's own store.

use std::{net::SocketAddr, process::Command};

use kaudit_controlplane::{Tool, require, require_tool, shared, tool};
use kaudit_test_support::long_run::get;
use serde_json::{Value, json};

use super::{config, start};
use crate::{events::Scene, program::Program, support::wait_for};

/// A real Alertmanager; ends with the test.
struct Alertmanager {
    _program: Program,
    address: SocketAddr,
}

impl Alertmanager {
    fn start() -> Self {
        let mut command = Command::new(tool(Tool::Alertmanager).unwrap());
        let (program, address) = Program::start(&mut command, |line| line.parse().ok());
        Self { _program: program, address }
    }

    /// Returns the firing alerts, sorted by the name of the object.
    fn firing(&self) -> Vec<Value> {
        let alerts = get(self.address, "/api/v2/alerts").unwrap_or_default();
        let mut alerts: Vec<Value> = serde_json::from_str(&alerts).unwrap_or_default();
        alerts.sort_by_key(|alert| alert["labels"]["name"].to_string());
        alerts
    }

    async fn until_firing(&self, wanted: &[&str]) -> Vec<Value> {
        wait_for(&format!("{wanted:?} to fire, instead of {:?}", self.firing()), || async {
            let firing = self.firing();
            firing
                .iter()
                .map(|alert| alert["labels"]["name"].as_str().unwrap())
                .eq(wanted.iter().copied())
                .then_some(firing)
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_fire_while_the_violation_is_open_and_kaudit_runs() {
    if !require() || !require_tool(Tool::Alertmanager) {
        return;
    }
    let scene = Scene::new(shared().await, "notify-alerts").await;
    scene.create(["a", "b"].map(str::to_owned), "yes").await;
    let alertmanager = Alertmanager::start();
    let url = format!("http://{}", alertmanager.address);
    let receivers = json!({"externalURL": "https://kaudit.example.com", "receivers": [{
        "name": "pager",
        "alertmanager": {"url": url, "resendEvery": "1s", "labels": {"cluster": "prod"}},
        "batch": {"maxWait": 0},
    }]});
    let config = config(&receivers);
    let kaudit = start(&scene, &config).await;
    let first = alertmanager.until_firing(&["a", "b"]).await;
    assert_eq!(first[0]["labels"]["cluster"], "prod");
    assert_eq!(first[0]["labels"]["namespace"], scene.namespace.as_str());
    let url = format!("https://kaudit.example.com/?object=ConfigMap%2F{}%2Fa", scene.namespace);
    assert_eq!(first[0]["generatorURL"], url.as_str());
    // It is sent again before it would end, after four seconds.
    let end = |alert: &Value| alert["endsAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let later = wait_for("another end", || async {
        let firing = alertmanager.firing();
        firing.iter().find(|alert| alert["labels"]["name"] == "a" && end(alert) > end(&first[0])).cloned()
    })
    .await;
    assert_eq!((&later["labels"], &later["startsAt"]), (&first[0]["labels"], &first[0]["startsAt"]));
    scene.mark("a", None).await;
    alertmanager.until_firing(&["b"]).await;

    // After a restart it is the same alert; without kaudit it expires.
    kaudit.kill();
    alertmanager.until_firing(&[]).await;
    let kaudit = start(&scene, &config).await;
    let again = alertmanager.until_firing(&["b"]).await;
    assert_eq!(again[0]["labels"], first[1]["labels"]);
    assert_eq!(kaudit.stop().await, Some(0));
}
