//! Notifications: each kind of receiver is a real server on loopback.

mod alertmanager;
mod bus;
mod formats;
mod kafka;
mod nats;
mod receiver;

use std::time::Duration;

use kaudit_controlplane::{Tool, require, require_tool, shared};
use kaudit_test_support::files::folder;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::receiver::Receiver;
use crate::{
    chart::render,
    events::Scene,
    support::{Running, denies_marked, wait_for},
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Creates a folder with a file of receivers and their secrets.
fn config(receivers: &Value) -> TempDir {
    let folder = folder(&[("secret", SECRET), ("notify.yaml", "")]);
    let text = receivers.to_string().replace("SECRETS", folder.path().to_str().unwrap());
    std::fs::write(folder.path().join("notify.yaml"), text).unwrap();
    folder
}

/// Returns a webhook without batching delay.
fn webhook(url: &str) -> Value {
    json!({
        "name": "hook",
        "webhook": {"url": url, "signingSecret": {"file": "SECRETS/secret"}},
        "batch": {"maxWait": "100ms"},
        "http": {"timeout": "2s"},
    })
}

async fn start(scene: &Scene, config: &TempDir) -> Running {
    scene.start(&["--notify", config.path().join("notify.yaml").to_str().unwrap()]).await
}

/// Returns the notifications of a webhook: name of the object and event, in order.
fn notified(receiver: &Receiver) -> Vec<String> {
    let text = |notified: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{} {}", text(&notified["resource"]["name"]), text(&notified["event"]))
    };
    notifications(receiver).iter().map(text).collect()
}

fn notifications(receiver: &Receiver) -> Vec<Value> {
    receiver.taken().iter().flat_map(|request| request.json()["notifications"].as_array().unwrap().clone()).collect()
}

/// Waits until a webhook has received these notifications, in any order.
async fn until_notified(receiver: &Receiver, wanted: &[&str]) {
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    wait_for(&format!("{wanted:?}, instead of {:?}", notified(receiver)), || async {
        let mut notified = notified(receiver);
        notified.sort_unstable();
        (notified == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_notifications_are_sent_once_across_restarts_with_event_names() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-hook").await;
    scene.create(["fixed", "stays", "goes"].map(str::to_owned), "yes").await;
    let receiver = Receiver::start().await;
    let config = config(&json!({"receivers": [webhook(&receiver.url("/hook"))]}));
    let kaudit = start(&scene, &config).await;
    let first = ["fixed appeared", "goes appeared", "stays appeared"];
    until_notified(&receiver, &first).await;
    scene.mark("fixed", None).await;
    until_notified(&receiver, &[&first[..], &["fixed resolved"]].concat()).await;
    for request in receiver.taken() {
        request.verify(SECRET);
    }
    // Every Event has a notification of its name, and there are no others.
    wait_for("all Events", || async { (scene.events(None).await.len() == 4).then_some(()) }).await;
    let mut names: Vec<_> = scene.events(None).await.into_iter().map(|event| event.metadata.name.unwrap()).collect();
    let mut ids: Vec<_> =
        notifications(&receiver).iter().map(|notified| notified["id"].as_str().unwrap().to_owned()).collect();
    names.sort();
    ids.sort();
    assert_eq!(names, ids);

    // Changes while kaudit is down are notified by the next run, and nothing else.
    kaudit.kill();
    scene.delete("goes").await;
    scene.create(["new".to_owned()], "yes").await;
    let kaudit = start(&scene, &config).await;
    let second = ["new appeared", "goes resolved"];
    until_notified(&receiver, &[&first[..], &["fixed resolved"], &second].concat()).await;
    // Nothing is pending: the next change is the next notification.
    scene.mark("stays", None).await;
    until_notified(&receiver, &[&first[..], &["fixed resolved"], &second, &["stays resolved"]].concat()).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_of_a_new_violation_get_its_resolution_after_restarts_and_changes() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-ends").await;
    let metadata = "# METADATA\n# scope: rule\n# custom: {severity: high}\ndeny contains msg";
    let policy = denies_marked(&scene.namespace).replace("deny contains msg", metadata);
    std::fs::write(scene.policies.path().join("marked.rego"), policy).unwrap();
    let receiver = Receiver::start().await;
    let of = |name: &str, matching: Value| {
        let mut hook = webhook(&receiver.url(&format!("/{name}")));
        (hook["name"], hook["match"]) = (name.into(), matching);
        hook
    };
    let config = config(&json!({"receivers": [
        of("all", json!({})),
        of("severe", json!({"minSeverity": "medium"})),
        of("team", json!({"labelSelector": {"matchLabels": {"team": "a"}}})),
        of("others", json!({"labelSelector": {"matchLabels": {"team": "z"}}})),
    ]}));
    let label = |name: &'static str, team: &'static str| {
        let patch = json!({"metadata": {"labels": {"team": team}}});
        let objects = scene.objects();
        async move { objects.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap() }
    };
    scene.create(["live", "later", "gone"].map(str::to_owned), "").await;
    for name in ["live", "later", "gone"] {
        label(name, "a").await;
    }
    let kaudit = start(&scene, &config).await;
    for name in ["live", "later", "gone"] {
        scene.mark(name, Some("yes")).await;
    }
    let until = async |wanted: &[&str]| {
        let mut wanted: Vec<_> = ["/all", "/severe", "/team"]
            .iter()
            .flat_map(|path| wanted.iter().map(move |what| format!("{path} {what}")))
            .collect();
        wanted.sort();
        let delivered = || {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let of = |request: &receiver::Request| {
                let notifications = request.json()["notifications"].as_array().unwrap().clone();
                let path = request.path.clone();
                notifications
                    .into_iter()
                    .map(move |sent| format!("{path} {} {}", text(&sent["resource"]["name"]), text(&sent["event"])))
                    .collect::<Vec<_>>()
            };
            let mut all: Vec<_> = receiver.taken().iter().flat_map(of).collect();
            all.sort();
            all
        };
        wait_for(&format!("{wanted:?}"), || async { (delivered() == wanted).then_some(()) }).await;
    };
    let appeared = ["live appeared", "later appeared", "gone appeared"];
    until(&appeared).await;
    label("live", "z").await;
    scene.mark("live", None).await;
    until(&[&appeared[..], &["live resolved"]].concat()).await;
    wait_for("all Events", || async { (scene.events(None).await.len() == 4).then_some(()) }).await;
    kaudit.kill();
    label("later", "z").await;
    scene.delete("gone").await;
    let kaudit = start(&scene, &config).await;
    until(&[&appeared[..], &["live resolved", "gone resolved"]].concat()).await;
    scene.mark("later", None).await;
    until(&[&appeared[..], &["live resolved", "gone resolved", "later resolved"]].concat()).await;
    let severities: Vec<_> = notifications(&receiver).iter().map(|sent| sent["severity"].clone()).collect();
    assert!(severities.iter().all(|severity| severity == "high"), "{severities:?}");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_receivers_are_retried_and_refusing_ones_are_not() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-faults").await;
    let (receiver, refuses) = (Receiver::start().await, Receiver::start().await);
    let mut refusing = webhook(&refuses.url("/hook"));
    refusing["name"] = "refusing".into();
    let config = config(&json!({"receivers": [webhook(&receiver.url("/hook")), refusing]}));
    refuses.answer("/hook", 400, "no");
    // Too slow for the timeout of two seconds, then overloaded, then down.
    receiver.hang("/hook");
    let kaudit = start(&scene, &config).await;
    scene.create(["a".to_owned()], "yes").await;
    wait_for("an attempt", || async { (receiver.attempts("/hook") > 0).then_some(()) }).await;
    wait_for("a timeout", || async { kaudit.metric(r#"kaudit_recorder_retries_total{recorder="notify/hook"}"#) }).await;
    receiver.answer("/hook", 503, "busy");
    let attempts = receiver.attempts("/hook");
    wait_for("more attempts", || async { (receiver.attempts("/hook") > attempts + 1).then_some(()) }).await;
    scene.create(["b".to_owned()], "yes").await;
    let receiver = receiver.down().await;
    let retries = || kaudit.metric(r#"kaudit_recorder_retries_total{recorder="notify/hook"}"#).unwrap_or_default();
    let before = retries();
    wait_for("an attempt that reaches nobody", || async { (retries() > before).then_some(()) }).await;
    let receiver = receiver.up().await;
    receiver.answer("/hook", 200, "");
    until_notified(&receiver, &["a appeared", "b appeared"]).await;

    // A refusing receiver gets each batch once.
    let drops = r#"kaudit_recorder_drops_total{recorder="notify/refusing",reason="refused"}"#;
    wait_for("refusals", || async { (kaudit.metric(drops)? == 2).then_some(()) }).await;
    assert_eq!(refuses.attempts("/hook"), 2);
    let log = kaudit.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("receiver refusing responded 400")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(!log.contains(SECRET), "{log}");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_over_the_limit_are_counted_and_reported() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-overflow").await;
    let receiver = Receiver::start().await;
    receiver.answer("/hook", 503, "");
    let mut hook = webhook(&receiver.url("/hook"));
    hook["maxQueued"] = 5.into();
    hook["batch"]["maxItems"] = 2.into();
    let config = config(&json!({"receivers": [hook]}));
    scene.create((0..30).map(|number| format!("o-{number}")), "yes").await;
    let kaudit = start(&scene, &config).await;
    let dropped = r#"kaudit_recorder_drops_total{recorder="notify/hook",reason="overflow"}"#;
    wait_for("an overflow", || async { kaudit.metric(dropped).filter(|dropped| *dropped >= 23) }).await;
    receiver.answer("/hook", 200, "");
    let sums = || {
        let left_out = receiver.taken().iter().map(|request| request.json()["leftOut"].as_u64().unwrap()).sum::<u64>();
        (notified(&receiver).len() as u64, left_out)
    };
    wait_for("all to be notified or counted", || async { (sums().0 + sums().1 == 30).then_some(()) }).await;
    assert!(sums().1 >= 23, "{:?}", sums());
    assert_eq!(kaudit.metric(dropped).map(|dropped| dropped as u64), Some(sums().1));
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_notifications_are_sent_before_the_end() {
    if !require() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-flush").await;
    let receiver = Receiver::start().await;
    let mut hook = webhook(&receiver.url("/hook"));
    hook["batch"]["maxWait"] = "1h".into();
    let config = config(&json!({"receivers": [hook]}));
    let kaudit = start(&scene, &config).await;
    scene.create(["a".to_owned()], "yes").await;
    wait_for("one to wait", || async {
        kaudit.metric(r#"kaudit_notifications_pending{receiver="hook"}"#).filter(|pending| *pending == 1)
    })
    .await;
    assert!(receiver.taken().is_empty());
    let began = std::time::Instant::now();
    assert_eq!(kaudit.stop().await, Some(0));
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(notified(&receiver), ["a appeared"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_in_the_chart_are_notified() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let scene = Scene::new(shared().await, "notify-chart").await;
    let receiver = Receiver::start().await;
    let url = format!("notify.receivers[0].webhook.url={}", receiver.url("/hook"));
    let settings = [
        "notify.receivers[0].name=hook",
        &url,
        "notify.receivers[0].webhook.signingSecret.file=/notify.d/keys/secret",
        "notify.externalURL=https://kaudit.example.com",
        "notify.secrets={keys}",
    ];
    let rendered = render("kaudit", &settings).await;
    assert!(rendered.arguments("p").contains(&"--notify=/notify/notify.yaml".to_owned()));
    assert!(rendered.text.contains("mountPath: /notify.d/keys\n") && rendered.text.contains("checksum/notify: "));
    let config = config(&json!({}));
    let map = rendered.of_kinds(&["ConfigMap"]).next().unwrap();
    let file = map["data"]["notify.yaml"].as_str().unwrap();
    let file = file.replace("/notify.d/keys", config.path().to_str().unwrap());
    std::fs::write(config.path().join("notify.yaml"), file).unwrap();
    let kaudit = start(&scene, &config).await;
    scene.create(["a".to_owned()], "yes").await;
    until_notified(&receiver, &["a appeared"]).await;
    receiver.taken()[0].verify(SECRET);
    assert_eq!(kaudit.stop().await, Some(0));
}
