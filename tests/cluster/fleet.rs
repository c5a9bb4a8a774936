//! Results of clusters in buckets of a real NATS server, and one view of all of them.

mod chart;
mod guide;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::SocketAddr,
    process::{Command, Stdio},
};

use async_nats::{
    ConnectOptions,
    jetstream::{self, stream::Stream},
};
use futures::TryStreamExt as _;
use kaudit_controlplane::{NatsServer, Tool, free_port, require, require_tool, shared};
use kaudit_test_support::{child::ChildGuard, files::folder, long_run};
use serde_json::Value;

use crate::{
    events::Scene,
    support::{Running, bare_plane, run, wait_for},
};

/// A server, and a file with the password of each user of the template.
struct Fleet {
    server: NatsServer,
    passwords: tempfile::TempDir,
}

impl Fleet {
    /// Starts a server on which everyone may do everything.
    async fn open() -> Self {
        Self::configured("").await
    }

    /// Starts a server with these lines in its configuration, on which everyone may do everything.
    async fn configured(lines: &str) -> Self {
        Self { server: NatsServer::start(lines, &[]).await.unwrap(), passwords: folder(&[]) }
    }

    /// Starts a server with the users of `examples/fleet`, each with a password.
    async fn with_users() -> Self {
        let mut accounts = include_str!("../../examples/fleet/accounts.conf").to_owned();
        let users = ["blue", "green", "view", "admin"];
        for user in users {
            accounts = accounts.replace(&format!("${}_PASSWORD", user.to_uppercase()), &password(user));
        }
        let server = NatsServer::start(&accounts, &[]).await.unwrap();
        Self {
            server,
            passwords: folder(
                &users.map(|user| (user, password(user))).each_ref().map(|(user, password)| (*user, password.as_str())),
            ),
        }
    }

    fn url(&self) -> String {
        format!("nats://{}", self.server.address())
    }

    /// Returns the options to log in as a user of the template; none for an open server.
    fn login(&self, user: &str) -> Vec<String> {
        let file = self.passwords.path().join(user);
        if !file.exists() {
            return Vec::new();
        }
        vec![format!("--nats-user={user}"), format!("--nats-password-file={}", file.display())]
    }

    /// Starts a kaudit that mirrors the results of a scene as those of a cluster.
    async fn mirror(&self, scene: &Scene, cluster: &str, more: &[&str]) -> Running {
        let kubeconfig = shared().await.kubeconfig();
        self.mirror_of(&kubeconfig, scene, cluster, more).await
    }

    async fn mirror_of(&self, kubeconfig: &std::path::Path, scene: &Scene, cluster: &str, more: &[&str]) -> Running {
        let (url, login) = (format!("--fleet={}", self.url()), self.login(cluster));
        let (policies, name) = (scene.policies.path().to_str().unwrap(), format!("--cluster-name={cluster}"));
        let mut arguments = vec!["--include=configmaps", "--exclude=*", "-p", policies, &url, &name];
        arguments.extend(login.iter().map(String::as_str));
        arguments.extend(if more.iter().any(|option| option.starts_with("--record")) {
            &[]
        } else {
            &["--record=none"][..]
        });
        arguments.extend(more);
        Running::start(kubeconfig, &arguments).await
    }

    /// Returns the results of all clusters as JSON, with the exit code; `None` without a result.
    async fn results(&self, more: &[&str]) -> Option<(Value, Option<i32>)> {
        let (url, login) = (self.url(), self.login("view"));
        let mut arguments = vec!["fleet", "--nats", &url, "-o", "json"];
        arguments.extend(login.iter().map(String::as_str));
        arguments.extend(more);
        let ended = run(std::path::Path::new("/nonexistent"), &arguments).await;
        (!ended.stdout.is_empty()).then(|| (ended.json(), ended.code))
    }

    /// Waits until a cluster is complete with violations of these objects.
    async fn until(&self, cluster: &str, wanted: &[&str]) -> Value {
        wait_for(&format!("{wanted:?} in {cluster}"), || async {
            let (result, code) = self.results(&["--cluster", cluster]).await?;
            let code_wanted = i32::from(!wanted.is_empty());
            (result["complete"] == true && names(&result) == wanted && code == Some(code_wanted)).then_some(result)
        })
        .await
    }

    /// Starts a view; returns it with the address of its page.
    fn serve(&self) -> (ChildGuard, SocketAddr) {
        let page = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_kaudit"));
        command.args(["fleet", "--nats", &self.url(), &format!("--listen-ui={page}")]).args(self.login("view"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        (ChildGuard(command.spawn().unwrap()), page)
    }

    /// Returns the stream of a bucket, as a user who may do everything.
    async fn stream(&self, cluster: &str) -> Stream {
        let client = ConnectOptions::new().user_and_password("admin".into(), password("admin"));
        let client = client.connect(self.server.address()).await.unwrap();
        jetstream::new(client).get_stream(format!("KV_kaudit-{cluster}")).await.unwrap()
    }
}

/// Returns the password of a user, which has no word that occurs in messages: secrets are hidden there.
fn password(user: &str) -> String {
    format!("{}7", user.chars().rev().collect::<String>())
}

/// Returns the names of the objects with violations, sorted.
fn names(result: &Value) -> Vec<&str> {
    let results = result["results"].as_array().unwrap();
    let mut names: Vec<&str> = results.iter().map(|entry| entry["resource"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Returns the sequence of the value of each key whose name contains a word.
async fn sequences(stream: &Stream, word: &str) -> BTreeMap<String, u64> {
    let subjects: Vec<(String, usize)> = stream.info_with_subjects("$KV.>").await.unwrap().try_collect().await.unwrap();
    let mut sequences = BTreeMap::new();
    for (subject, _) in subjects.into_iter().filter(|(subject, _)| subject.contains(word)) {
        let message = stream.direct_get_last_for_subject(subject.clone()).await.unwrap();
        sequences.insert(subject, message.sequence);
    }
    sequences
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_follows_the_results_of_its_cluster_through_failures() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::open().await;
    let scene = Scene::new(shared().await, "fleet").await;
    scene.create(["a", "b", "c"].map(str::to_owned), "yes").await;
    // Events keep the times when violations were first seen.
    let recorded = ["--record=events", "-n", &scene.namespace];
    let kaudit = fleet.mirror(&scene, "blue", &[&recorded[..], &["--cluster-label=env=prod"]].concat()).await;
    let result = fleet.until("blue", &["a", "b", "c"]).await;
    let first = &result["results"][0];
    assert_eq!((&first["resource"]["cluster"], &first["message"]), (&"blue".into(), &"marked yes".into()), "{result}");
    assert_eq!(first, &{
        let mut live = kaudit.status()["results"][0].clone();
        live["resource"]["cluster"] = "blue".into();
        live
    });
    assert_eq!(result["policies"][0]["objects"]["deny"]["failing"], 3, "{result}");
    scene.mark("a", None).await;
    fleet.until("blue", &["b", "c"]).await;

    // Labels select clusters.
    assert!(fleet.results(&["-l", "env=dev"]).await.is_none());
    assert_eq!(names(&fleet.results(&["-l", "env=prod"]).await.unwrap().0), ["b", "c"]);
    // A cluster that is expected and missing makes the answer incomplete.
    let (expected, code) = fleet.results(&["--expect-cluster=blue,green", "--fail-on=none"]).await.unwrap();
    assert_eq!((&expected["complete"], code), (&false.into(), Some(3)), "{expected}");

    // What happens while the server is down is in the bucket when it is up again.
    fleet.server.kill().unwrap();
    scene.mark("b", None).await;
    scene.create(["d".to_owned()], "yes").await;
    fleet.server.start_again().await.unwrap();
    fleet.until("blue", &["c", "d"]).await;

    // A restart writes differences only: no part of the results, and not the policies.
    let stream = fleet.stream("blue").await;
    let written = [sequences(&stream, ".results.").await, sequences(&stream, ".policies").await];
    let heartbeat = sequences(&stream, ".heartbeat").await;
    kaudit.kill();
    let kaudit = fleet.mirror(&scene, "blue", &recorded).await;
    wait_for("a heartbeat", || async { (sequences(&stream, ".heartbeat").await != heartbeat).then_some(()) }).await;
    scene.create(["quiet".to_owned()], "").await;
    fleet.until("blue", &["c", "d"]).await;
    let now = [sequences(&stream, ".results.").await, sequences(&stream, ".policies").await];
    assert_eq!(now, written);

    // A bucket that is deleted is created again.
    let admin = jetstream::new(async_nats::connect(fleet.server.address()).await.unwrap());
    admin.delete_stream("KV_kaudit-blue").await.unwrap();
    scene.mark("c", None).await;
    fleet.until("blue", &["d"]).await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_in_the_hub_follows_a_region_that_was_cut_off() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let port = free_port().unwrap();
    let domain = |name: &str| format!("jetstream {{ store_dir: \"FOLDER/data\", domain: {name} }}\n");
    let listen = format!("leafnodes {{ listen: \"127.0.0.1:{port}\" }}");
    let remotes = format!("leafnodes {{ reconnect: 1, remotes: [{{ url: \"nats://127.0.0.1:{port}\" }}] }}");
    let hub = Fleet::configured(&format!("{}{listen}", domain("hub"))).await;
    let region = Fleet::configured(&format!("{}{remotes}", domain("eu"))).await;
    let scene = Scene::new(shared().await, "fleet-region").await;
    scene.create(["a", "b"].map(str::to_owned), "yes").await;
    let kaudit = region.mirror(&scene, "prod-eu", &[]).await;
    region.until("prod-eu", &["a", "b"]).await;
    let mirror = serde_json::from_str(include_str!("../../examples/fleet/mirror.json")).unwrap();
    let mirror: jetstream::stream::Config = mirror;
    let admin = jetstream::new(async_nats::connect(hub.server.address()).await.unwrap());
    admin.create_stream(mirror).await.unwrap();
    hub.until("prod-eu", &["a", "b"]).await;

    hub.server.kill().unwrap();
    scene.mark("a", None).await;
    region.until("prod-eu", &["b"]).await;
    hub.server.start_again().await.unwrap();
    hub.until("prod-eu", &["b"]).await;
    // A mirror has the versions of values that its bucket has, and no former ones.
    let stream = admin.get_stream("KV_kaudit-prod-eu").await.unwrap();
    let expected = region.stream("prod-eu").await.cached_info().state.messages;
    wait_for("the same values", || async { (stream.get_info().await.ok()?.state.messages == expected).then_some(()) })
        .await;
    drop(kaudit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_too_large_for_the_server_holds_up_no_other() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::configured("max_payload: 4096").await;
    let scene = Scene::new(shared().await, "fleet-large").await;
    scene.create(["a".to_owned()], "yes").await;
    let mut random = fastrand::Rng::with_seed(1);
    let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(8_000).collect();
    let policy = format!("# METADATA\n# description: {text}\npackage large\n\ndeny contains \"never\" if false\n");
    std::fs::write(scene.policies.path().join("large.rego"), policy).unwrap();
    let kaudit = fleet.mirror(&scene, "blue", &[]).await;
    wait_for("the refusal", || async { kaudit.log().contains("more than max_payload").then_some(()) }).await;
    wait_for("the results", || async {
        let (result, code) = fleet.results(&[]).await?;
        (names(&result) == ["a"] && code == Some(1)).then_some(())
    })
    .await;
    drop(kaudit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_shows_what_a_restored_server_has() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::open().await;
    let scene = Scene::new(shared().await, "fleet-restored").await;
    scene.create(["a", "b"].map(str::to_owned), "yes").await;
    let kaudit = fleet.mirror(&scene, "blue", &[]).await;
    fleet.until("blue", &["a", "b"]).await;
    let (view, page) = fleet.serve();
    let shown = async |wanted: &[&str]| {
        wait_for(&format!("{wanted:?} on the page"), || async {
            let page = long_run::get(page, "/?cluster=blue&format=json")?;
            let page: Value = serde_json::from_str(&page).ok()?;
            (names(&page) == wanted).then_some(())
        })
        .await;
    };
    shown(&["a", "b"]).await;
    let backup = fleet.server.back_up().await.unwrap();
    let all = ["a", "b", "c", "d", "e"];
    for count in 3..=all.len() {
        scene.create([all[count - 1].to_owned()], "yes").await;
        fleet.until("blue", &all[..count]).await;
    }
    shown(&all).await;
    // kaudit runs no longer, so that only the view could notice.
    kaudit.kill();
    fleet.server.restore(&backup).await.unwrap();
    shown(&["a", "b"]).await;
    drop(view);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_would_lose_values_is_refused() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::open().await;
    let context = jetstream::new(async_nats::connect(fleet.server.address()).await.unwrap());
    let (bucket, history) = ("kaudit-blue".to_owned(), 1);
    let (max_age, limit_markers) = (std::time::Duration::from_secs(90), Some(std::time::Duration::from_mins(1)));
    let config = jetstream::kv::Config { bucket, history, max_age, limit_markers, ..Default::default() };
    context.create_key_value(config).await.unwrap();
    let created = run(std::path::Path::new("/"), &["fleet", "--nats", &fleet.url(), "--create-bucket=blue"]).await;
    assert_eq!(created.code, Some(2), "{created:?}");
    assert!(created.stderr.contains("--max-age 0"), "{created:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_jetstream_is_named_as_such() {
    if !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::configured("jetstream: false").await;
    for arguments in
        [&["fleet", "--nats", &fleet.url()][..], &["fleet", "--nats", &fleet.url(), "--create-bucket=blue"]]
    {
        let ended = run(std::path::Path::new("/nonexistent"), arguments).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("JetStream is not enabled there"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clusters_of_one_name_are_told_apart() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::open().await;
    let scene = Scene::new(shared().await, "fleet-name").await;
    scene.create(["a".to_owned()], "yes").await;
    let kaudit = fleet.mirror(&scene, "prod", &[]).await;
    fleet.until("prod", &["a"]).await;
    let other = bare_plane().await;
    let second = fleet.mirror_of(&other.kubeconfig(), &scene, "prod", &[]).await;
    wait_for("the refusal", || async {
        second.log().contains("the bucket kaudit-prod belongs to another cluster of the name prod").then_some(())
    })
    .await;
    // It goes on to check its cluster.
    second.ready().await;
    // Another kaudit of the same cluster has another instance, too.
    let third = fleet.mirror(&scene, "prod", &["--audit-name=other"]).await;
    wait_for("the refusal", || async {
        third.log().contains("is written by another kaudit of this cluster").then_some(())
    })
    .await;
    scene.mark("a", None).await;
    fleet.until("prod", &[]).await;
    drop((kaudit, second, third));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_of_a_cluster_open_its_own_bucket_only() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::with_users().await;
    let scene = Scene::new(shared().await, "fleet-users").await;
    scene.create(["a".to_owned()], "yes").await;
    // Without its bucket a cluster says what to do.
    let kaudit = fleet.mirror(&scene, "blue", &[]).await;
    wait_for("the missing bucket", || async {
        kaudit.log().contains("kaudit-blue, and it cannot be created").then_some(())
    })
    .await;
    let (url, admin) = (fleet.url(), fleet.login("admin"));
    let mut create = vec!["fleet", "--nats", &url, "--create-bucket=blue,green"];
    create.extend(admin.iter().map(String::as_str));
    let created = run(std::path::Path::new("/nonexistent"), &create).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    assert!(created.stderr.contains("the bucket kaudit-green exists"), "{created:?}");
    fleet.until("blue", &["a"]).await;
    let green = fleet.mirror(&scene, "green", &[]).await;
    fleet.until("green", &["a"]).await;

    // With blue's password, nothing reaches the bucket of green.
    let before = sequences(&fleet.stream("green").await, "").await.len();
    let attacker = ConnectOptions::new()
        .user_and_password("blue".into(), password("blue"))
        .custom_inbox_prefix("_INBOX_kaudit-blue")
        .request_timeout(Some(std::time::Duration::from_millis(500)))
        .connect(fleet.server.address())
        .await
        .unwrap();
    let mut context = jetstream::new(attacker.clone());
    context.set_timeout(std::time::Duration::from_millis(500));
    attacker.publish("$KV.kaudit-green.0-1.state", "stolen".into()).await.unwrap();
    // The server sends an answer wherever the request says: the acknowledgement of a value, or a value of its own bucket.
    attacker.publish_with_reply("$KV.kaudit-blue.own", "$KV.kaudit-green.stolen", "stolen".into()).await.unwrap();
    let own = "$JS.API.DIRECT.GET.KV_kaudit-blue.$KV.kaudit-blue.own";
    attacker.publish_with_reply(own, "$KV.kaudit-green.0-1.stolen", "".into()).await.unwrap();
    attacker.publish_with_reply("fleet.info.blue", "$KV.kaudit-green.info", "".into()).await.unwrap();
    assert!(context.delete_stream("KV_kaudit-green").await.is_err());
    assert!(context.get_stream("KV_kaudit-green").await.is_err());
    let config = |name: &str| jetstream::stream::Config { name: name.to_owned(), ..Default::default() };
    let republished = jetstream::stream::Config {
        subjects: vec!["blue.>".to_owned()],
        republish: Some(jetstream::stream::Republish {
            source: ">".to_owned(),
            destination: "$KV.kaudit-green.>".to_owned(),
            headers_only: false,
        }),
        ..config("mine")
    };
    assert!(context.create_stream(republished.clone()).await.is_err());
    assert!(
        context
            .update_stream(jetstream::stream::Config { name: "KV_kaudit-blue".into(), ..republished })
            .await
            .is_err()
    );
    let consumer = r#"{"stream_name":"KV_kaudit-blue","config":{"deliver_subject":"$KV.kaudit-green.0-1.state","ack_policy":"none"}}"#;
    assert!(attacker.request("$JS.API.CONSUMER.CREATE.KV_kaudit-blue", consumer.into()).await.is_err());
    assert!(attacker.request("$JS.API.STREAM.PURGE.KV_kaudit-green", "".into()).await.is_err());
    attacker.flush().await.unwrap();
    scene.mark("a", None).await;
    fleet.until("green", &[]).await;
    fleet.until("blue", &[]).await;
    let ended = sequences(&fleet.stream("green").await, ".ended.").await.len();
    assert_eq!(sequences(&fleet.stream("green").await, "").await.len(), before + ended);
    drop((kaudit, green));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_share_a_bucket_and_leave_nothing_behind() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let fleet = Fleet::open().await;
    let (one, two) =
        (Scene::new(shared().await, "fleet-shard-a").await, Scene::new(shared().await, "fleet-shard-b").await);
    one.create(["a".to_owned()], "yes").await;
    let mut policies = std::fs::read_to_string(one.policies.path().join("marked.rego")).unwrap();
    writeln!(policies, "deny contains \"other\" if input.metadata.labels[\"{}\"]", two.namespace).unwrap();
    std::fs::write(one.policies.path().join("marked.rego"), policies).unwrap();
    two.create(["b".to_owned()], "yes").await;
    let shards =
        [fleet.mirror(&one, "sharded", &["--shard=0/2"]).await, fleet.mirror(&one, "sharded", &["--shard=1/2"]).await];
    fleet.until("sharded", &["a", "b"]).await;
    let stream = fleet.stream("sharded").await;
    assert!(!sequences(&stream, ".0-2.").await.is_empty() && !sequences(&stream, ".1-2.").await.is_empty());
    shards.into_iter().for_each(Running::kill);
    // The results of the only shard replace those of both as soon as it lives; it deletes theirs when they are old.
    let whole = fleet.mirror(&one, "sharded", &[]).await;
    two.mark("b", None).await;
    fleet.until("sharded", &["a"]).await;
    drop(whole);
}
