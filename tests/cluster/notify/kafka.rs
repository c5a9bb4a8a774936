//! Notifications in topics of a real Kafka broker.

use std::collections::{BTreeMap, BTreeSet};

use kaudit_controlplane::{KafkaBroker, KafkaOptions, TestAuthority, require, require_kafka, shared};
use kaudit_test_support::files::folder;
use rskafka::client::{Client, ClientBuilder, partition::UnknownTopicHandling};
use serde_json::json;

use super::{
    bus::{Stored, changes, drops, lengthen_messages, receiver, until_logged, until_retried},
    config, start,
};
use crate::{events::Scene, support::wait_for};

const PARTITIONS: i32 = 3;
const USER: &str = "kaudit";
const PASSWORD: &str = "right-password";

/// A broker whose second listener needs TLS and SASL.
async fn broker(authority: &TestAuthority) -> KafkaBroker {
    let (certificate, key) = authority.server().unwrap();
    let options = KafkaOptions {
        certificate: Some((certificate, key, authority.pem())),
        user: Some((USER.to_owned(), PASSWORD.to_owned())),
        lines: "message.max.bytes=3000".to_owned(),
    };
    KafkaBroker::start(&options).await.unwrap()
}

async fn client(broker: &KafkaBroker, topics: &[&str]) -> Client {
    let client = ClientBuilder::new(vec![broker.plain()]).build().await.unwrap();
    let controller = client.controller_client().unwrap();
    for topic in topics {
        controller.create_topic(*topic, PARTITIONS, 1, 60_000).await.unwrap();
    }
    client
}

/// Returns the records of a topic, partition by partition.
async fn stored(client: &Client, topic: &str) -> Vec<Stored> {
    let mut stored = Vec::new();
    for partition in 0..PARTITIONS {
        let partition = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await.unwrap();
        let mut next = 0;
        loop {
            let (records, end) = partition.fetch_records(next, 1..1_000_000, 100).await.unwrap();
            for record in records {
                next = record.offset + 1;
                let header = |name: &str| String::from_utf8(record.record.headers[name].clone()).unwrap();
                let body = record.record.value.as_deref().unwrap();
                let event = if header("content-type").starts_with("application/cloudevents+json") {
                    serde_json::from_slice(body).unwrap()
                } else {
                    assert_eq!(header("content-type"), "application/json");
                    binary(&header, body)
                };
                let id = String::from_utf8(record.record.key.clone().unwrap()).unwrap();
                stored.push(Stored { address: topic.to_owned(), id, event });
            }
            if next >= end {
                break;
            }
        }
    }
    stored
}

/// Reads an event whose attributes are headers.
fn binary(header: &dyn Fn(&str) -> String, body: &[u8]) -> cloudevents::Event {
    let names = ["specversion", "id", "source", "type", "subject", "time"];
    let mut event: BTreeMap<_, _> =
        names.into_iter().map(|name| (name, json!(header(&format!("ce_{name}"))))).collect();
    event.insert("datacontenttype", json!("application/json"));
    event.insert("data", serde_json::from_slice(body).unwrap());
    serde_json::from_value(json!(event)).unwrap()
}

async fn until_stored(client: &Client, topic: &str, wanted: &[(&str, &[&str])]) -> Vec<Stored> {
    let wanted: BTreeMap<String, Vec<String>> = wanted
        .iter()
        .map(|(name, events)| ((*name).to_owned(), events.iter().map(|event| (*event).to_owned()).collect()))
        .collect();
    wait_for(&format!("{wanted:?} in {topic}"), || async {
        let stored = stored(client, topic).await;
        (changes(&stored) == wanted).then_some(stored)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_store_every_change_in_order_through_failures_and_mistakes_are_explained() {
    if !require() || !require_kafka() {
        return;
    }
    let scene = Scene::new(shared().await, "notify-kafka").await;
    lengthen_messages(&scene);
    let (authority, other) = (TestAuthority::new().unwrap(), TestAuthority::new().unwrap());
    let broker = broker(&authority).await;
    let topics = ["plain", "binary-prod", "scram-256", "scram-512"];
    let kafka = client(&broker, &topics).await;
    let (certificate, key) = authority.client("kaudit").unwrap();
    let secrets = folder(&[
        ("ca.pem", &authority.pem()),
        ("other.pem", &other.pem()),
        ("client.pem", &certificate),
        ("client.key", &key),
        ("right", PASSWORD),
        ("changing", "wrong-password"),
    ]);
    let file = |name: &str| secrets.path().join(name);
    let tls = json!({"caFile": file("ca.pem"), "certFile": file("client.pem"), "keyFile": file("client.key")});
    let secured = |name: &str, topic: &str, mechanism: &str, password: &str, tls: &serde_json::Value| {
        let sasl = json!({"mechanism": mechanism, "username": USER, "password": {"file": file(password)}});
        receiver(name, "kafka", &json!({"brokers": [broker.secured()], "topic": topic, "sasl": sasl, "tls": tls}))
    };
    let plain = json!({"brokers": [broker.plain()], "topic": "plain"});
    let binary = json!({"brokers": [broker.plain()], "topic": "binary-{cluster}", "mode": "binary"});
    let missing = json!({"brokers": [broker.plain()], "topic": "missing"});
    let config = config(&json!({"cluster": "prod", "receivers": [
        receiver("plain", "kafka", &plain),
        receiver("binary", "kafka", &binary),
        receiver("missing", "kafka", &missing),
        secured("scram-256", "scram-256", "SCRAM-SHA-256", "right", &tls),
        secured("scram-512", "scram-512", "SCRAM-SHA-512", "changing", &tls),
        secured("sasl-plain", "scram-256", "PLAIN", "right", &tls),
        secured("stranger", "scram-256", "PLAIN", "right", &json!({"caFile": file("other.pem")})),
    ]}));
    scene.create(["a", "b", "c"].map(str::to_owned), "yes").await;
    scene.create(["big".to_owned()], "big").await;
    let kaudit = start(&scene, &config).await;
    let first: [(&str, &[&str]); 3] = [("a", &["appeared"]), ("b", &["appeared"]), ("c", &["appeared"])];
    for stored in until_stored(&kafka, "plain", &first).await {
        assert_eq!(stored.id, stored.data()["violation"].as_str().unwrap());
    }
    until_stored(&kafka, "binary-prod", &first).await;
    until_stored(&kafka, "scram-256", &first).await;
    wait_for("the large record to be counted", || async {
        drops(&kaudit, "plain", "refused").filter(|drops| *drops == 1)
    })
    .await;
    until_logged(&kaudit, "receiver missing has no topic missing").await;
    until_logged(&kaudit, "receiver scram-512 cannot be reached: ").await;
    until_logged(&kaudit, "receiver stranger cannot be reached: ").await;
    assert!(kaudit.log().contains("invalid peer certificate"), "{}", kaudit.log());
    // The right password is used without a restart.
    std::fs::write(file("changing"), PASSWORD).unwrap();
    until_stored(&kafka, "scram-512", &first).await;
    let sasl_plain = r#"kaudit_notifications_pending{receiver="sasl-plain"}"#;
    wait_for("PLAIN to be accepted", || async { kaudit.metric(sasl_plain).filter(|pending| *pending == 0) }).await;

    // Changes while the broker is down or frozen are stored when it answers again, those of a violation in their order.
    broker.kill().unwrap();
    scene.mark("a", None).await;
    until_retried(&kaudit, "plain").await;
    scene.mark("a", Some("yes")).await;
    broker.start_again().await.unwrap();
    let second: [(&str, &[&str]); 3] =
        [("a", &["appeared", "resolved", "appeared"]), ("b", &["appeared"]), ("c", &["appeared"])];
    let kafka = client(&broker, &[]).await;
    until_stored(&kafka, "plain", &second).await;
    broker.pause().unwrap();
    scene.mark("b", None).await;
    until_retried(&kaudit, "plain").await;
    broker.resume().unwrap();
    let third: [(&str, &[&str]); 3] =
        [("a", &["appeared", "resolved", "appeared"]), ("b", &["appeared", "resolved"]), ("c", &["appeared"])];
    let all = until_stored(&kafka, "plain", &third).await;
    let keys: BTreeSet<_> = all.iter().map(|stored| &stored.id).collect();
    assert_eq!(keys.len(), 3);
    for secret in [PASSWORD, "wrong-password"] {
        assert!(!kaudit.log().contains(secret));
    }
    kaudit.kill();
}
