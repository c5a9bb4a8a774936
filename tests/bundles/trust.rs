//! Confidentiality and integrity: credentials, secrets in URLs, the cache, and signatures of other repositories.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use data_encoding::BASE64;
use kaudit::{
    bundle::{
        follower::follow,
        settings::{BundleSettings, Verification, VerificationKey},
    },
    judge::{bundle::BundleReference, sources::PolicySource},
};
use kaudit_test_support::files::write;
use serde_json::{Value, json};

use super::{
    artifact::{FakeRegistry, payload},
    program::{ProgramOutput, check, kaudit, policy, run},
    server::{ServerAnswer, answer, digest, serve},
    signatures::{keys, signed},
};

const POLICY: &str = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego";

/// Builds a challenge from the address of a server.
type Challenge = fn(&str) -> String;

fn ok(body: &[u8]) -> ServerAnswer {
    answer("200 OK", &[], body)
}

/// Returns the manifest of an artifact with one module.
fn manifest(module: &str, created: &str) -> String {
    let annotations = json!({"org.opencontainers.image.title": "own.rego"});
    let layer = json!({"mediaType": POLICY, "digest": digest(module.as_bytes()), "size": module.len(), "annotations": annotations});
    let created = json!({"org.opencontainers.image.created": created});
    json!({"schemaVersion": 2, "layers": [layer], "annotations": created}).to_string()
}

/// Writes credentials for hosts; returns the value of the variable that locates them.
fn login(at: &Path, hosts: &[&str]) -> String {
    let secret = json!({"auth": BASE64.encode(b"robot:PASSWORD")});
    let auths: Value = hosts.iter().map(|host| ((*host).to_owned(), secret.clone())).collect();
    let directory = at.join("docker");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.json"), json!({"auths": auths}).to_string()).unwrap();
    directory.to_str().unwrap().to_owned()
}

/// A server that records the credentials it receives and answers with a challenge.
fn greedy(challenge: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (noted, own) = (Arc::clone(&seen), Arc::new(Mutex::new(String::new())));
    let host = Arc::clone(&own);
    let (address, _) = serve(move |request| {
        let secrets = request.headers.lines().filter(|line| line.starts_with("authorization"));
        noted.lock().unwrap().extend(secrets.map(str::to_owned));
        if request.path.starts_with("/token") {
            return ok(br#"{"token": "t"}"#);
        }
        let challenge = challenge(&host.lock().unwrap());
        answer("401 Unauthorized", &[("WWW-Authenticate", &challenge)], b"")
    });
    address.clone_into(&mut own.lock().unwrap());
    (address, seen)
}

#[test]
fn redirect_targets_receive_no_credentials() {
    let module = policy("own");
    let whole = manifest(&module, "2026-01-01T00:00:00Z");
    let challenges: [Challenge; 3] = [
        |host| format!("Bearer realm=\"http://{host}/token\",service=\"x\""),
        |_| "Basic realm=\"x\"".to_owned(),
        |host| format!("Bearer realm=\"http://{host}/token\", Basic realm=\"x\""),
    ];
    for (number, challenge) in challenges.into_iter().enumerate() {
        for redirected in ["/manifests/", "/blobs/", "/b.tar.gz"] {
            let (store, seen) = greedy(challenge);
            let (body, to) = (whole.clone(), store.clone());
            let (host, _) = serve(move |request| {
                if request.path.contains(redirected) {
                    let location = format!("http://{to}{}", request.path);
                    return answer("307 Temporary Redirect", &[("Location", &location)], b"");
                }
                if request.path.contains("/manifests/") {
                    return ok(body.as_bytes());
                }
                answer("404 Not Found", &[], b"")
            });
            let directory = tempfile::tempdir().unwrap();
            let docker = login(directory.path(), &[&host, &store]);
            let reference =
                if redirected == "/b.tar.gz" { format!("http://{host}/b.tar.gz") } else { format!("oci://{host}/p:1") };
            let output = check(directory.path(), &[("DOCKER_CONFIG", &docker)], &reference, &[]);
            assert!(output.code == 2 && output.err.contains("401"), "{number} {redirected}: {}", output.err);
            let seen = seen.lock().unwrap().clone();
            assert!(seen.is_empty(), "{number} {redirected}: {seen:?}");
        }
    }
}

#[test]
fn credentials_are_not_sent_without_tls() {
    // An attacker between kaudit and the server, played by a proxy.
    let (network, seen) = greedy(|_| "Basic realm=\"x\"".to_owned());
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let docker = login(at, &["bundles.example.com", "registry.example.com", &network]);
    fs::write(at.join("key"), "shared").unwrap();
    let proxy = format!("http://{network}");
    for source in ["http://bundles.example.com/b.tar.gz", "http://BUNDLES.example.com:80/b.tar.gz"] {
        let variables = [("DOCKER_CONFIG", &*docker), ("http_proxy", &*proxy)];
        let output = check(at, &variables, source, &["--verification-key", "key"]);
        assert!(output.code == 2 && output.err.contains("no credentials without TLS"), "{source}: {}", output.err);
        assert!(seen.lock().unwrap().is_empty(), "{source}: {:?}", seen.lock().unwrap());
    }
    // Loopback traffic cannot be read on the network, unless it is sent to a proxy, which is never done.
    let port = network.rsplit(':').next().unwrap_or_default();
    let docker = login(at, &[&network, &format!("localhost:{port}")]);
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "HTTPS_PROXY"] {
        let (proxy, requests) = serve(|_| answer("502 Bad Gateway", &[], b""));
        let proxy = format!("http://{proxy}");
        for host in [&*network, &format!("localhost:{port}"), "127.9.9.9:1", "[::1]:1"] {
            for source in [format!("http://{host}/b.tar.gz"), format!("oci://{host}/p:1")] {
                let variables = [("DOCKER_CONFIG", &*docker), (variable, &*proxy)];
                let output = check(at, &variables, &source, &[]);
                assert_eq!(output.code, 2, "{source}: {}", output.err);
                assert!(requests.lock().unwrap().is_empty(), "{variable} {source}: {:?}", requests.lock().unwrap());
            }
        }
        // The proxy is used for other hosts.
        let source = if variable == "HTTPS_PROXY" { "https" } else { "http" };
        let source = format!("{source}://bundles.example.com/b.tar.gz");
        check(at, &[(variable, &proxy)], &source, &["--verification-key", "key"]);
        assert!(!requests.lock().unwrap().is_empty(), "{variable}");
    }
    assert!(!seen.lock().unwrap().is_empty());
    seen.lock().unwrap().clear();
    let output = check(at, &[("DOCKER_CONFIG", &docker)], &format!("http://{network}/b.tar.gz"), &[]);
    assert_eq!((output.code, seen.lock().unwrap().len()), (2, 1), "{}", output.err);
}

#[test]
fn secrets_in_urls_are_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(
        at,
        &[
            ("pack/own.rego", &policy("served")),
            ("pod.yaml", super::program::POD),
            ("more/own.rego", "package more\n\ndeny["),
        ],
    );
    assert_eq!(run("tar", at, &[], &["-czf", "a.tar.gz", "-C", "pack", "own.rego"]).code, 0);
    let archive = fs::read(at.join("a.tar.gz")).unwrap();
    let (host, log) =
        serve(
            move |request| {
                if request.path.starts_with("/good") { ok(&archive) } else { answer("403 Forbidden", &[], b"no") }
            },
        );
    let url = |path: &str| format!("http://{host}/{path}.tar.gz?sig=URLSECRET#URLSECRET");
    let hidden = |output: &ProgramOutput, what: &[&str]| {
        let all = format!("{}{}", output.out, output.err);
        assert!(!all.contains("URLSECRET") && all.contains("?[hidden]"), "{what:?}: {all}");
    };
    for path in ["good", "bad"] {
        let url = url(path);
        for format in ["json", "text", "markdown", "html", "sarif", "junit"] {
            let arguments = ["check", "-f", "pod.yaml", "-p", &url, "-p", "more", "--allow-refused", "-o", format];
            let output = kaudit(at, &[("RUST_LOG", "debug")], &arguments);
            assert!(
                !format!("{}{}", output.out, output.err).contains("URLSECRET"),
                "{format}: {}{}",
                output.out,
                output.err
            );
        }
        for arguments in [&["policies", &*url][..], &["policies", &url, "-o", "json"]] {
            hidden(&kaudit(at, &[], arguments), arguments);
        }
    }
    // Addresses without a server, and invalid URLs.
    for url in [
        "https://127.0.0.1:1/b.tar.gz?sig=URLSECRET",
        "https://user:URLSECRET@r.example.com/b?x",
        "https://[/?URLSECRET",
    ] {
        for arguments in [
            &["policies", url][..],
            &["check", "-f", "pod.yaml", "-p", url],
            &["test", url],
            &["diff", url, "builtin", "-f", "pod.yaml"],
        ] {
            hidden(&kaudit(at, &[], arguments), arguments);
        }
    }
    assert!(log.lock().unwrap().iter().any(|request| request.contains("URLSECRET")), "it was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_bundles_are_verified_like_downloads() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    if !keys(at, "own", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]) {
        assert!(std::env::var_os("CI").is_none(), "no openssl");
        return;
    }
    let module = policy("strict");
    let whole = manifest(&module, "2026-01-01T00:00:00Z");
    let named = digest(whole.as_bytes());
    let simple = payload(&named, "cosign container image signature");
    let annotations = json!({"dev.cosignproject.cosign/signature": signed(at, "own.key", simple.as_bytes())});
    let layer = json!({"mediaType": "x", "digest": digest(simple.as_bytes()), "size": simple.len(), "annotations": annotations});
    let signature = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
    let is_down = Arc::new(AtomicBool::new(false));
    let (down, blobs) = (Arc::clone(&is_down), [module.clone(), simple, whole.clone()]);
    let (host, _) = serve(move |request| {
        if down.load(Ordering::SeqCst) {
            return answer("503 Service Unavailable", &[], b"");
        }
        if request.path.split('.').next_back() == Some("sig") {
            return ok(signature.as_bytes());
        }
        let found = blobs.iter().find(|blob| request.path.ends_with(&digest(blob.as_bytes())));
        let tagged = request.path.ends_with("manifests/1").then_some(&blobs[2]);
        found.or(tagged).map_or_else(|| answer("404 Not Found", &[], b""), |blob| ok(blob.as_bytes()))
    });
    let key = VerificationKey::read(&at.join("own.pub")).unwrap();
    let key = Arc::new(Verification::Key { key, scope: String::new() });
    let pinned = format!("oci://{host}/p:1@{named}");
    let cases = [(pinned.clone(), Some(key.clone())), (pinned, None), (format!("oci://{host}/p:1"), Some(key))];
    for (number, (text, verification)) in cases.into_iter().enumerate() {
        is_down.store(false, Ordering::SeqCst);
        let PolicySource::Bundle(reference) = PolicySource::from(&*text) else { panic!("{text}") };
        let cache = at.join(format!("cache{number}"));
        let settings = BundleSettings {
            poll: None,
            timeout: std::time::Duration::from_secs(5),
            cache: Some(cache.clone()),
            ca: None,
            verification,
            repository: None,
        };
        let read = async |reference: &BundleReference| {
            let followed = follow(reference, &settings).await.map_err(|why| format!("{why:#}"))?;
            let bundle = Arc::clone(&followed.bundle.borrow());
            Ok::<_, String>(bundle)
        };
        let first = read(&reference).await.unwrap();
        is_down.store(true, Ordering::SeqCst);
        let kept = read(&reference).await.unwrap();
        assert_eq!((&kept.tree, kept.edition.verified), (&first.tree, settings.verification.is_some()), "{text}");

        // Each byte that matters: the module, its digest in the manifest, and the signature.
        let file = fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
        let written = fs::read(&file).unwrap();
        let other = module.replace("strict", "absent");
        let (of_module, of_other) = (digest(module.as_bytes()), digest(other.as_bytes()));
        let (manifest_digest, changed_manifest) =
            (named.clone(), digest(whole.replace(&of_module, &of_other).as_bytes()));
        let changes: [&[(&str, &str)]; 4] = [
            &[("strict", "absent")],
            &[("strict", "absent"), (&of_module, &of_other)],
            &[("strict", "absent"), (&of_module, &of_other), (&manifest_digest, &changed_manifest)],
            &[(&manifest_digest, &changed_manifest)],
        ];
        for change in changes {
            let mut forged = written.clone();
            for (from, to) in change {
                replace(&mut forged, from.as_bytes(), to.as_bytes());
            }
            fs::write(&file, &forged).unwrap();
            let outcome = read(&reference).await;
            assert!(outcome.is_err(), "{text} {change:?}");
        }
        fs::write(&file, &written).unwrap();
        read(&reference).await.unwrap();
    }
}

/// Replaces all occurrences by bytes of the same length.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    assert_eq!(from.len(), to.len());
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if &bytes[at..at + from.len()] == from {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_older_than_the_one_in_force_causes_a_warning() {
    let newer = (policy("newer"), "2026-02-01T00:00:00Z");
    let older = (policy("older"), "2026-01-01T00:00:00Z");
    let served = Arc::new(Mutex::new(newer.clone()));
    let serving = Arc::clone(&served);
    let (host, _) = serve(move |request| {
        let (module, created) = serving.lock().unwrap().clone();
        if request.path.contains("/manifests/1") {
            ok(manifest(&module, created).as_bytes())
        } else {
            ok(module.as_bytes())
        }
    });
    let PolicySource::Bundle(reference) = PolicySource::from(&*format!("oci://{host}/p:1")) else { panic!() };
    let directory = tempfile::tempdir().unwrap();
    let settings = BundleSettings {
        poll: Some(std::time::Duration::from_millis(20)),
        timeout: std::time::Duration::from_secs(5),
        cache: Some(directory.path().to_owned()),
        ca: None,
        verification: None,
        repository: None,
    };
    let mut followed = follow(&reference, &settings).await.unwrap();
    assert_eq!(followed.bundle.borrow().problem, None);
    *served.lock().unwrap() = older;
    let went_back = |bundle: &Arc<kaudit::judge::bundle::Bundle>| {
        let problem = bundle.problem.as_ref();
        problem.is_some_and(|problem| !problem.is_refusal() && problem.message.contains("was created at 2026-01-01"))
    };
    let waiting = tokio::time::timeout(std::time::Duration::from_secs(30), followed.bundle.wait_for(went_back)).await;
    assert!(waiting.unwrap().unwrap().edition.stale.is_empty());
    drop(followed);
    // The cache keeps this across a restart.
    *served.lock().unwrap() = newer;
    let followed = follow(&reference, &settings).await.unwrap();
    assert_eq!(followed.bundle.borrow().problem, None);
    drop(followed);
    *served.lock().unwrap() = (policy("older"), "2025-01-01T00:00:00Z");
    let followed = follow(&reference, &settings).await.unwrap();
    assert!(followed.bundle.borrow().problem.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_signed_after_publication_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    if !keys(at, "own", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]) {
        assert!(std::env::var_os("CI").is_none(), "no openssl");
        return;
    }
    // By tag: the manifest, and its signature; everything else by digest.
    let served: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let publish = |module: &str| {
        let whole = manifest(module, "2026-01-01T00:00:00Z");
        let mut served = served.lock().unwrap();
        served.extend([&whole, module].map(|thing| (digest(thing.as_bytes()), thing.to_owned())));
        served.insert("1".to_owned(), whole.clone());
        digest(whole.as_bytes())
    };
    let sign = |named: &str| {
        let simple = payload(named, "cosign container image signature");
        let annotations = json!({"dev.cosignproject.cosign/signature": signed(at, "own.key", simple.as_bytes())});
        let layer = json!({"mediaType": "x", "digest": digest(simple.as_bytes()), "size": simple.len(), "annotations": annotations});
        let signature = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
        let tag = format!("{}.sig", named.replace(':', "-"));
        served.lock().unwrap().extend([(digest(simple.as_bytes()), simple), (tag, signature)]);
    };
    sign(&publish(&policy("the first")));
    // Some registries do not report the digest of a tag.
    for says_digest in [true, false] {
        let serving = Arc::clone(&served);
        let (host, log) = serve(move |request| {
            let things = serving.lock().unwrap();
            let name = request.path.rsplit('/').next().unwrap_or_default();
            match things.get(name) {
                Some(_) if request.method == "HEAD" && !says_digest => answer("405 Method Not Allowed", &[], b""),
                Some(thing) if request.method == "HEAD" => {
                    answer("200 OK", &[("Docker-Content-Digest", &digest(thing.as_bytes()))], b"")
                }
                Some(thing) => ok(thing.as_bytes()),
                None => answer("404 Not Found", &[], b""),
            }
        });
        let PolicySource::Bundle(reference) = PolicySource::from(&*format!("oci://{host}/p:1")) else { panic!() };
        let key = VerificationKey::read(&at.join("own.pub")).unwrap();
        let settings = BundleSettings {
            poll: Some(std::time::Duration::from_millis(20)),
            timeout: std::time::Duration::from_secs(5),
            cache: None,
            ca: None,
            verification: Some(Arc::new(Verification::Key { key, scope: String::new() })),
            repository: None,
        };
        let mut followed = follow(&reference, &settings).await.unwrap();
        let module = policy(if says_digest { "the second" } else { "the third" });
        let second = publish(&module);
        let limit = std::time::Duration::from_secs(30);
        let is_refused = |bundle: &Arc<kaudit::judge::bundle::Bundle>| bundle.edition.stale.contains("is not signed");
        let waiting = tokio::time::timeout(limit, followed.bundle.wait_for(is_refused)).await;
        assert_ne!(waiting.unwrap().unwrap().edition.digest, second);
        sign(&second);
        let is_accepted = |bundle: &Arc<kaudit::judge::bundle::Bundle>| {
            bundle.edition.digest == second && bundle.edition.stale.is_empty()
        };
        tokio::time::timeout(limit, followed.bundle.wait_for(is_accepted)).await.unwrap().unwrap();
        drop(followed);
        // A refused artifact is not downloaded at each poll if the registry reports the same digest.
        let of_module = format!("blobs/{}", digest(module.as_bytes()));
        let downloads = log.lock().unwrap().iter().filter(|request| request.ends_with(&of_module)).count();
        assert!(!says_digest || downloads == 2, "{downloads}");
    }
}

#[test]
fn a_signature_can_be_required_for_a_repository() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    if !keys(at, "own", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]) {
        assert!(std::env::var_os("CI").is_none(), "no openssl");
        return;
    }
    let registry = FakeRegistry::new();
    let own = registry.artifact.digest.clone();
    let sign = |repository: &str| {
        let signed_of = json!({"critical": {"identity": {"docker-reference": repository},
            "image": {"docker-manifest-digest": own}, "type": "cosign container image signature"}})
        .to_string();
        let annotations = json!({"dev.cosignproject.cosign/signature": signed(at, "own.key", signed_of.as_bytes())});
        registry.artifact.annotated(&signed_of, &annotations)
    };
    let wanted = ["--verification-key", "own.pub", "--verification-repository", "r.example.com/policies"];
    for (repository, code) in [("r.example.com/policies", 1), ("r.example.com/policies-dev", 2), ("", 2)] {
        registry.attach(sign(repository));
        let output = check(at, &[], &registry.reference(), &wanted);
        assert_eq!(output.code, code, "{repository}: {}", output.err);
        assert!(
            code == 1 || output.err.contains("for another repository than r.example.com/policies"),
            "{}",
            output.err
        );
        assert_eq!(check(at, &[], &registry.reference(), &wanted[..2]).code, 1, "any will do where none is named");
    }
    let output = check(at, &[], &registry.reference(), &wanted[2..]);
    assert!(output.code == 2 && output.err.contains("needs --verification-key"), "{}", output.err);
    for other in ["http://127.0.0.1:1/b.tar.gz", "b.tar.gz"] {
        let output = check(at, &[], other, &wanted);
        assert!(output.code == 2 && output.err.contains("only an artifact in a registry has"), "{}", output.err);
    }
}
