//! Notifications in streams of a real NATS server.

use async_nats::{
    ConnectOptions,
    jetstream::{
        self,
        stream::{Config, DiscardPolicy, Stream},
    },
};
use cloudevents::AttributesReader as _;
use kaudit_controlplane::{NatsServer, TestAuthority, Tool, require, require_tool, shared};
use kaudit_test_support::files::folder;
use nkeys::KeyPair;
use serde_json::json;

use super::{
    bus::{Stored, changes, drops, lengthen_messages, receiver, until_logged, until_retried},
    config, start,
};
use crate::{events::Scene, support::wait_for};

/// Creates a stream, as a user with these options.
async fn stream(options: ConnectOptions, server: &NatsServer, config: Config) -> Stream {
    let client = options.connect(server.address()).await.unwrap();
    jetstream::new(client).create_stream(config).await.unwrap()
}

/// Returns the settings of a stream with one subject.
fn settings(name: &str, subject: &str) -> Config {
    Config { name: name.to_owned(), subjects: vec![subject.to_owned()], ..Config::default() }
}

/// Returns the messages of a stream in their order; nothing while the server is down.
async fn stored(stream: &Stream) -> Vec<Stored> {
    let Ok(info) = stream.get_info().await else { return Vec::new() };
    let mut stored = Vec::new();
    for sequence in 1..=info.state.last_sequence {
        let Ok(message) = stream.get_raw_message(sequence).await else { return Vec::new() };
        let content_type = message.headers.get("content-type").unwrap().as_str();
        assert_eq!(content_type, "application/cloudevents+json; charset=utf-8");
        stored.push(Stored {
            address: message.subject.to_string(),
            id: message.headers.get("Nats-Msg-Id").unwrap().to_string(),
            event: serde_json::from_slice(&message.payload).unwrap(),
        });
    }
    stored
}

async fn until_stored(stream: &Stream, number: usize) -> Vec<Stored> {
    wait_for(&format!("{number} messages"), || async {
        let stored = stored(stream).await;
        (stored.len() == number).then_some(stored)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_store_each_change_once_and_in_order_through_failures_of_the_server() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let scene = Scene::new(shared().await, "notify-nats").await;
    let server = NatsServer::start("", &[]).await.unwrap();
    let stream = stream(ConnectOptions::new(), &server, settings("kaudit", "kaudit.>")).await;
    let servers = json!({"servers": [format!("nats://{}", server.address())]});
    let config = config(&json!({"cluster": "prod.eu", "receivers": [receiver("bus", "nats", &servers)]}));
    scene.create(["a", "b"].map(str::to_owned), "yes").await;
    let kaudit = start(&scene, &config).await;
    let first = until_stored(&stream, 2).await;
    for stored in &first {
        assert_eq!(stored.address, format!("kaudit.prod_eu.{}.appeared", scene.namespace));
        assert_eq!([&*stored.id; 2], [stored.data()["id"].as_str().unwrap(), stored.event.id()]);
    }
    let events =
        wait_for("Events", || async { Some(scene.events(None).await).filter(|events| events.len() == 2) }).await;
    let mut names: Vec<_> = events.into_iter().map(|event| event.metadata.name.unwrap()).collect();
    let mut ids: Vec<_> = first.iter().map(|stored| stored.id.clone()).collect();
    names.sort();
    ids.sort();
    assert_eq!(names, ids);

    // Changes while the server is down are stored when it is up again, those of a violation in their order.
    server.kill().unwrap();
    scene.mark("a", None).await;
    until_retried(&kaudit, "bus").await;
    scene.mark("a", Some("yes")).await;
    scene.create(["c".to_owned()], "yes").await;
    until_retried(&kaudit, "bus").await;
    server.start_again().await.unwrap();
    let all = until_stored(&stream, 5).await;
    assert_eq!(changes(&all)["a"], ["appeared", "resolved", "appeared"]);

    // A message that the server got, but did not acknowledge in time, is sent again and stored once.
    server.pause().unwrap();
    scene.mark("b", None).await;
    until_retried(&kaudit, "bus").await;
    server.resume().unwrap();
    let all = until_stored(&stream, 6).await;
    assert_eq!(changes(&all)["b"], ["appeared", "resolved"]);

    // A restart of kaudit repeats nothing.
    kaudit.kill();
    let kaudit = start(&scene, &config).await;
    scene.mark("c", None).await;
    let all = until_stored(&stream, 7).await;
    assert_eq!(all[6].change(), "c resolved");
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_stream_delays_notifications_and_a_large_one_does_not_block_others() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let scene = Scene::new(shared().await, "notify-nats-full").await;
    lengthen_messages(&scene);
    let server = NatsServer::start("", &[]).await.unwrap();
    let full = Config { max_messages: 2, discard: DiscardPolicy::New, ..settings("full", "full.>") };
    let filling = stream(ConnectOptions::new(), &server, full.clone()).await;
    let small = Config { max_message_size: 3_000, ..settings("small", "small.>") };
    let limited = stream(ConnectOptions::new(), &server, small).await;
    let to = |name: &str| {
        let servers = [format!("nats://{}", server.address())];
        receiver(name, "nats", &json!({"servers": servers, "subject": format!("{name}.{{policy}}")}))
    };
    let config = config(&json!({"receivers": [to("full"), to("small"), to("nowhere")]}));
    scene.create(["big".to_owned()], "big").await;
    scene.create((0..5).map(|number| format!("o-{number}")), "yes").await;
    let kaudit = start(&scene, &config).await;
    until_logged(&kaudit, "receiver full did not store a message: maximum messages exceeded").await;
    until_logged(&kaudit, "receiver nowhere has no stream with the subject nowhere.marked").await;
    // All but the large one, which is counted.
    let others = until_stored(&limited, 5).await;
    assert!(others.iter().all(|stored| !stored.change().starts_with("big")), "{others:?}");
    wait_for("the large one to be counted", || async {
        drops(&kaudit, "small", "refused").filter(|drops| *drops == 1)
    })
    .await;
    // Nothing else is lost.
    assert_eq!(stored(&filling).await.len(), 2);
    let client = async_nats::connect(server.address()).await.unwrap();
    jetstream::new(client).update_stream(Config { max_messages: 100, ..full }).await.unwrap();
    assert_eq!(changes(&until_stored(&filling, 6).await).len(), 6);
    assert_eq!(drops(&kaudit, "full", "refused"), None);
    kaudit.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_and_certificates_are_explained_and_can_be_replaced() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let scene = Scene::new(shared().await, "notify-nats-tls").await;
    let (authority, other) = (TestAuthority::new().unwrap(), TestAuthority::new().unwrap());
    let ((certificate, key), (client, client_key)) = (authority.server().unwrap(), authority.client("kaudit").unwrap());
    let pair = KeyPair::new_user();
    let lines = format!(
        r#"
tls {{ cert_file: "FOLDER/server.pem", key_file: "FOLDER/server.key", ca_file: "FOLDER/ca.pem", verify: true }}
authorization {{ users: [
  {{ user: admin, password: admin-password }}
  {{ user: kaudit, password: right-password, permissions: {{ publish: ["login.>"] }} }}
  {{ nkey: {} }}
] }}
"#,
        pair.public_key()
    );
    let files = [("server.pem", &*certificate), ("server.key", &key), ("ca.pem", &authority.pem())];
    let server = NatsServer::start(&lines, &files).await.unwrap();
    let secrets = folder(&[
        ("ca.pem", &authority.pem()),
        ("other.pem", &other.pem()),
        ("client.pem", &client),
        ("client.key", &client_key),
        ("password", "wrong-password"),
        ("seed", &pair.seed().unwrap()),
    ]);
    let file = |name: &str| secrets.path().join(name);
    let admin = || {
        ConnectOptions::with_user_and_password("admin".to_owned(), "admin-password".to_owned())
            .add_root_certificates(file("ca.pem"))
            .add_client_certificate(file("client.pem"), file("client.key"))
            .require_tls(true)
    };
    let logins = stream(admin(), &server, settings("login", "login.>")).await;
    let keys = stream(admin(), &server, settings("nkey", "nkey.>")).await;
    let servers = [format!("tls://{}", server.address())];
    let tls = json!({"caFile": file("ca.pem"), "certFile": file("client.pem"), "keyFile": file("client.key")});
    let password = json!({"username": "kaudit", "password": {"file": file("password")}});
    let config = config(&json!({"receivers": [
        receiver("login", "nats", &json!({"servers": servers, "subject": "login.{event}", "tls": tls, "basicAuth": password})),
        receiver("denied", "nats", &json!({"servers": servers, "subject": "nkey.{event}", "tls": tls, "basicAuth": password})),
        receiver("nkey", "nats", &json!({"servers": servers, "subject": "nkey.{event}", "tls": tls, "nkey": {"file": file("seed")}})),
        receiver("stranger", "nats", &json!({"servers": servers, "tls": {"caFile": file("other.pem")}})),
    ]}));
    scene.create(["a".to_owned()], "yes").await;
    let kaudit = start(&scene, &config).await;
    until_stored(&keys, 1).await;
    until_logged(&kaudit, "receiver login cannot be reached: nats: authorization violation").await;
    until_logged(&kaudit, "receiver stranger cannot be reached: invalid peer certificate").await;
    // The right password is used without a restart.
    std::fs::write(file("password"), "right-password").unwrap();
    until_stored(&logins, 1).await;
    until_logged(&kaudit, "receiver denied did not acknowledge a message in time: the server reported").await;
    for secret in ["wrong-password", "right-password", &pair.seed().unwrap()] {
        assert!(!kaudit.log().contains(secret));
    }
    kaudit.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_and_credentials_files_are_accepted() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let scene = Scene::new(shared().await, "notify-nats-jwt").await;
    let account = Account::new();
    let tokens = NatsServer::start("authorization { token: the-token }", &[]).await.unwrap();
    let accounts = NatsServer::start(&account.settings, &[]).await.unwrap();
    let secrets = folder(&[("token", "the-token"), ("kaudit.creds", &account.credentials)]);
    let file = |name: &str| json!({"file": secrets.path().join(name)});
    let options = ConnectOptions::with_token("the-token".to_owned());
    let with_token = stream(options, &tokens, settings("kaudit", "kaudit.>")).await;
    let options = ConnectOptions::with_credentials(&account.credentials).unwrap();
    let with_credentials = stream(options, &accounts, settings("kaudit", "kaudit.>")).await;
    let servers = |server: &NatsServer| json!([server.address()]);
    let config = config(&json!({"receivers": [
        receiver("token", "nats", &json!({"servers": servers(&tokens), "token": file("token")})),
        receiver("creds", "nats", &json!({"servers": servers(&accounts), "credentials": file("kaudit.creds")})),
    ]}));
    scene.create(["a".to_owned()], "yes").await;
    let kaudit = start(&scene, &config).await;
    assert_eq!(until_stored(&with_token, 1).await[0].change(), "a appeared");
    assert_eq!(until_stored(&with_credentials, 1).await[0].change(), "a appeared");
    assert_eq!(kaudit.stop().await, Some(0));
}

/// An operator of NATS with one account and one user.
struct Account {
    /// Lines of the server's configuration.
    settings: String,
    /// The user's credentials file.
    credentials: String,
}

impl Account {
    fn new() -> Self {
        let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
        // With operators, JetStream needs an account of its own.
        let system = KeyPair::new_account();
        let unlimited = json!({
            "subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1, "wildcards": true,
            "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        });
        let claims = json!({"type": "account", "version": 2, "limits": unlimited});
        let account_token = token(&operator, &account.public_key(), &claims);
        let mut claims = claims;
        for jetstream in ["mem_storage", "disk_storage", "streams", "consumer"] {
            claims["limits"][jetstream] = 0.into();
        }
        let system_token = token(&operator, &system.public_key(), &claims);
        let operator_token = token(&operator, &operator.public_key(), &json!({"type": "operator", "version": 2}));
        let claims = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {}});
        let user_token = token(&account, &user.public_key(), &claims);
        Self {
            settings: format!(
                "operator: {operator_token}\nsystem_account: {system}\nresolver: MEMORY\n\
                 resolver_preload: {{ {}: {account_token}, {system}: {system_token} }}\n",
                account.public_key(),
                system = system.public_key()
            ),
            credentials: format!(
                "-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n\
                 -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
                user.seed().unwrap()
            ),
        }
    }
}

/// Returns a JWT as NATS signs it.
fn token(issuer: &KeyPair, subject: &str, claims: &serde_json::Value) -> String {
    let encode = |value: &[u8]| data_encoding::BASE64URL_NOPAD.encode(value);
    let header = encode(br#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let claims = json!({
        "jti": "kaudit", "iat": 1_700_000_000, "iss": issuer.public_key(), "name": "kaudit", "sub": subject, "nats": claims,
    });
    let signed = format!("{header}.{}", encode(claims.to_string().as_bytes()));
    let signature = encode(&issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}
