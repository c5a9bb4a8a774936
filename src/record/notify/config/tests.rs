use super::{
    super::{
        notification::{AuditIdentity, Batch, Notification},
        receiver::Outgoing,
    },
    *,
};
use crate::{audit::ledger::Lifecycle, model::object::ObjectRef};

fn load(text: &str) -> anyhow::Result<NotifyConfig> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.yaml");
    fs::write(&path, text).unwrap();
    let shown = format!("{}/", folder.path().display());
    NotifyConfig::load(&path).map_err(|error| anyhow::anyhow!("{}", format!("{error:#}").replace(&shown, "")))
}

fn secret(folder: &tempfile::TempDir, text: &str) -> String {
    let path = folder.path().join("secret");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn all_settings_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(&folder, "https://hooks.example.com/T0/hidden");
    let file = folder.path().join("violations.ndjson");
    let config = load(&format!(
        r"
externalURL: https://kaudit.example.com
cluster: production
receivers:
  - name: all
    webhook:
      url: https://hooks.example.com/kaudit
      signingSecret: {{file: {secret}}}
      template: '{{{{ notifications|length }}}}'
    http:
      headers: {{X-Team: shop, X-Key: {{file: {secret}}}}}
      basicAuth: {{username: kaudit, password: {{file: {secret}}}}}
      timeout: 3s
    match:
      namespaces: [shop, 'shop-*']
      labelSelector: {{matchLabels: {{team: shop}}}}
      minSeverity: high
      policies: ['pod_security.*']
      results: [fail]
      events: [appeared]
    batch: {{maxItems: 7, maxWait: 0}}
    maxQueued: 70
  - name: people
    slack: {{url: {{file: {secret}}}}}
  - name: bus
    cloudEvents: {{url: 'http://127.0.0.1:1', mode: batched}}
    http: {{bearerToken: {{file: {secret}}}}}
  - name: pager
    alertmanager: {{url: 'http://127.0.0.1:1', resendEvery: 30s, labels: {{cluster: prod}}}}
  - name: disk
    file: {{path: {}, maxSize: 1Mi, maxFiles: 2}}
  - name: nats
    nats:
      servers: ['nats://127.0.0.1:1', '127.0.0.1:2']
      subject: 'k.{{policy}}'
      token: {{file: {secret}}}
      tls: {{}}
      timeout: 3s
  - name: kafka
    kafka:
      brokers: ['127.0.0.1:1']
      topic: 'k.{{namespace}}'
      mode: binary
      sasl: {{mechanism: SCRAM-SHA-512, username: kaudit, password: {{file: {secret}}}}}
",
        file.display()
    ))
    .unwrap();
    assert_eq!(config.cluster().as_deref(), Some("production"));
    assert_eq!(config.label_keys().into_iter().collect::<Vec<_>>(), ["team"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("hidden"), "{shown}");
    let [all, people, _, pager, disk, nats, kafka] = config.receivers() else { panic!("{config:?}") };
    let batching = Batching { items: 7, wait: Duration::ZERO, queued: 70 };
    assert_eq!((all.batching, people.batching), (batching, FOR_PEOPLE));
    assert_eq!((pager.resend_every(), disk.resend_every()), (Some(Duration::from_secs(30)), None));
    let ReceiverTarget::File(rotated) = &disk.target else { panic!("{disk:?}") };
    assert_eq!((rotated.max_bytes, rotated.max_files), (1 << 20, 2));
    assert!(
        [nats, kafka].iter().all(|bus| matches!(bus.target, ReceiverTarget::Bus(_)) && bus.batching == FOR_PROGRAMS)
    );
}

#[test]
fn mistakes_are_named_with_their_place_and_no_secret() {
    let receivers = |yaml: &str| format!("receivers:\n- name: a\n  {}\n", yaml.replace('\n', "\n  "));
    let webhook = |more: &str| receivers(&format!("webhook: {{url: 'https://hooks.example.com'}}\n{more}"));
    let wrong = [
        String::new(),
        "receivers: []".to_owned(),
        "receiver: []".to_owned(),
        receivers("match: {}"),
        receivers("webhook: {url: 'https://a'}\nslack: {url: {env: KAUDIT_TEST_NO_SUCH}}"),
        receivers("slack: {url: 'https://hooks.example.com/hidden'}"),
        receivers("slack:\n  url: {env: KAUDIT_TEST_NO_SUCH}"),
        receivers("slack:\n  url: {file: /nowhere/at/all}"),
        receivers("webhook: {url: 'https://user:hidden@example.com'}"),
        receivers("webhook: {url: hooks.example.com}"),
        receivers("webhook: {url: 'https://a', secret: hidden}"),
        receivers("file: {path: /nowhere/at/all}"),
        receivers("file: {path: /dev/null}\nhttp: {timeout: 1s}"),
        receivers("file: {path: /dev/null, maxSize: 10MB}"),
        receivers("alertmanager: {url: 'http://a'}\nmatch: {events: [appeared]}"),
        receivers("cloudEvents: {url: 'http://a', mode: batch}"),
        receivers("webhook: {url: 'http://a', contentType: text/plain}"),
        receivers("webhook: {url: 'http://a', contentType: text/csv, template: '{{ a'}"),
        receivers("nats: {servers: []}"),
        receivers("nats: {servers: ['https://a']}"),
        receivers("nats: {servers: ['nats://kaudit:hidden@a']}"),
        receivers("nats: {servers: [a], subject: 'a.{name}'}"),
        receivers("nats: {servers: [a], token: hidden}"),
        receivers("nats: {servers: [a], token: {env: PATH}, nkey: {env: PATH}}"),
        receivers("nats: {servers: [a], nkey: {env: PATH}}"),
        receivers("nats: {servers: [a], credentials: {env: PATH}}"),
        receivers("nats: {servers: [a], tls: {caFile: /nowhere/at/all}}"),
        receivers("nats: {servers: [a], tls: {certFile: /dev/null}}"),
        receivers("nats: {servers: [a]}\nhttp: {timeout: 1s}"),
        receivers("kafka: {brokers: [a]}"),
        receivers("kafka: {brokers: ['a:9092'], topic: 'a.{event}'}"),
        receivers("kafka: {brokers: ['a:9092'], mode: batched}"),
        receivers("kafka: {brokers: ['a:9092'], sasl: {mechanism: GSSAPI, username: a, password: {env: PATH}}}"),
        webhook("match: {namespace: shop}"),
        webhook("match: {minSeverity: urgent}"),
        webhook("match: {labelSelector: {team: shop}}"),
        webhook("batch: {maxWait: 5}"),
        webhook("maxQueued: 0"),
        webhook("http: {caFile: /nowhere/at/all}"),
        webhook("http: {headers: {'X Y': a}}"),
        webhook("http: {bearerToken: hidden}"),
        webhook("http: {bearerToken: {env: KAUDIT_TEST_NO_SUCH}}"),
        webhook("http: {basicAuth: 'kaudit:hidden'}"),
        receivers("webhook:\n  url: https://a\n  template: |\n    {{ notification }}"),
        "receivers:\n- {name: Shop, webhook: {url: 'http://a'}}".to_owned(),
        "receivers:\n- {name: a, webhook: {url: 'http://a'}}\n- {name: a, webhook: {url: 'http://a'}}".to_owned(),
        "cluster: ''\nreceivers:\n- {name: a, webhook: {url: 'http://a'}}".to_owned(),
        "cluster: \"two\\nlines\"\nreceivers:\n- {name: a, webhook: {url: 'http://a'}}".to_owned(),
        "externalURL: kaudit\nreceivers:\n- {name: a, webhook: {url: 'http://a'}}".to_owned(),
    ];
    let errors = wrong.map(|text| format!("{text}\n=> {:#}\n", load(&text).map(drop).unwrap_err()));
    assert!(errors.iter().all(|text| !text.split("=> ").nth(1).unwrap().contains("hidden")));
    insta::assert_snapshot!(errors.join("\n"));
}

/// Writes a credentials file of NATS, whose JWT has no valid signature.
fn credentials_file(folder: &tempfile::TempDir) -> String {
    let seed = nkeys::KeyPair::new_user().seed().unwrap();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    let path = folder.path().join("nats.creds");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Writes the certificate of an authority.
fn authority_file(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("ca.crt");
    fs::write(&path, kaudit_controlplane::serving_certificate().unwrap().authority).unwrap();
    path.display().to_string()
}

#[test]
fn the_example_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(&folder, "https://hooks.example.com/T0/B0/secret");
    let example = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/notify.yaml")).unwrap();
    let example = example
        .replace("/notify.d/kaudit-notify/slack-url", &secret)
        .replace("/notify.d/kaudit-notify/signing-secret", &secret)
        .replace("/notify.d/kaudit-notify/kafka-password", &secret)
        .replace("/notify.d/kaudit-notify/nats.creds", &credentials_file(&folder))
        .replace("/notify.d/kaudit-notify/ca.crt", &authority_file(&folder))
        .replace("{env: TICKETS_TOKEN}", &format!("{{file: {secret}}}"))
        .replace("/var/log/kaudit", &folder.path().display().to_string());
    let config = load(&example).unwrap();
    assert_eq!((config.receivers().len(), config.label_keys().len()), (8, 1));
}

#[test]
fn messages_for_chats_are_valid_and_within_their_limits() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(&folder, "https://hooks.example.com/T0/B0/secret");
    let example = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/notify-chat.yaml")).unwrap();
    let names = ["teams", "mattermost", "discord", "lark"];
    let example = names
        .iter()
        .fold(example, |example, name| example.replace(&format!("/notify.d/kaudit-notify/{name}-url"), &secret));
    let config = load(&example).unwrap();
    // The longest and most hostile texts, more of them than fit.
    let hostile = "\"}], {{ x }} @everyone <!channel> [a](http://b) \\ \u{1}\u{7f}\n\u{1f4a5}".repeat(100);
    let long = Notification {
        resource: Arc::new(ObjectRef {
            cluster: None,
            api_version: "v1".to_owned(),
            kind: "K".repeat(63),
            namespace: Some("n".repeat(63).into()),
            name: "o".repeat(253).into(),
            uid: "u".into(),
        }),
        ..Notification::sample(Lifecycle::Appeared, &hostile)
    };
    let batch = Batch { notifications: std::iter::repeat_n(Arc::new(long), 100).collect(), left_out: 7 };
    for (receiver, limit) in config.receivers().iter().zip([28_000, 16_383, 8_000, 20_000]) {
        let outgoing = receiver.outgoing(&batch, &AuditIdentity::sample()).unwrap();
        let [Outgoing::Message(message)] = &outgoing[..] else { panic!("{outgoing:?}") };
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        assert!(message.body.len() <= limit, "{}: {}", receiver.name, message.body.len());
        let count = |pointer: &str| body.pointer(pointer).and_then(serde_json::Value::as_array).map(Vec::len);
        match &*receiver.name {
            "teams" => assert_eq!(count("/attachments/0/content/body"), Some(22)),
            "mattermost" => assert_eq!((count("/attachments"), body.to_string().contains("@e")), (Some(10), false)),
            "discord" => {
                assert_eq!((count("/embeds"), count("/allowed_mentions/parse")), (Some(10), Some(0)));
                let length = |embed: &serde_json::Value| {
                    ["title", "description"]
                        .iter()
                        .map(|key| embed[key].as_str().unwrap().chars().count())
                        .sum::<usize>()
                };
                let embeds = body["embeds"].as_array().unwrap();
                assert!(embeds.iter().map(length).sum::<usize>() <= 6_000);
            }
            _ => assert_eq!(count("/card/elements"), Some(21)),
        }
        if receiver.name == "discord" {
            assert!(body["content"].as_str().unwrap().ends_with("not shown: 97"), "{body}");
        }
    }
}
