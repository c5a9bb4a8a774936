use super::*;

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
",
        file.display()
    ))
    .unwrap();
    assert_eq!(config.cluster().as_deref(), Some("production"));
    assert_eq!(config.label_keys().into_iter().collect::<Vec<_>>(), ["team"]);
    let shown = format!("{config:?}");
    assert!(!shown.contains("hidden"), "{shown}");
    let [all, people, _, pager, disk] = config.receivers() else { panic!("{config:?}") };
    let batching = Batching { items: 7, wait: Duration::ZERO, queued: 70 };
    assert_eq!((all.batching, people.batching), (batching, FOR_PEOPLE));
    assert_eq!((pager.resend_every(), disk.resend_every()), (Some(Duration::from_secs(30)), None));
    let ReceiverTarget::File(rotated) = &disk.target else { panic!("{disk:?}") };
    assert_eq!((rotated.max_bytes, rotated.max_files), (1 << 20, 2));
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

#[test]
fn the_example_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(&folder, "https://hooks.example.com/T0/B0/secret");
    let example = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/notify.yaml")).unwrap();
    let example = example
        .replace("/notify.d/kaudit-notify/slack-url", &secret)
        .replace("/notify.d/kaudit-notify/signing-secret", &secret)
        .replace("{env: TICKETS_TOKEN}", &format!("{{file: {secret}}}"))
        .replace("/var/log/kaudit", &folder.path().display().to_string());
    let config = load(&example).unwrap();
    assert_eq!((config.receivers().len(), config.label_keys().len()), (6, 1));
}
