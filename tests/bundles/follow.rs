//! Bundles that change while they are followed, and the version that stays in force.

use std::{
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kaudit::{
    bundle::{
        follower::{FollowedBundle, follow},
        settings::BundleSettings,
    },
    judge::{
        bundle::{Bundle, BundleReference},
        sources::PolicySource,
    },
};
use kaudit_controlplane::{Tool, require_tool};
use kaudit_test_support::{files::write, registry::Registry};
use tokio::time::timeout;

use super::{
    program::{kaudit, policy, run},
    server::{answer, serve},
};

fn reference(text: &str) -> BundleReference {
    match PolicySource::from(text) {
        PolicySource::Bundle(reference) => reference,
        other => panic!("{other:?} is no bundle"),
    }
}

fn settings(cache: Option<&Path>) -> BundleSettings {
    BundleSettings {
        poll: Some(Duration::from_millis(20)),
        timeout: Duration::from_secs(5),
        cache: cache.map(Path::to_owned),
        ca: None,
        verification: None,
        repository: None,
    }
}

/// Waits until a bundle satisfies a condition.
async fn until(followed: &mut FollowedBundle, what: &str, is: impl Fn(&Bundle) -> bool) -> Arc<Bundle> {
    let waiting = timeout(Duration::from_secs(30), followed.bundle.wait_for(|bundle| is(bundle))).await;
    match waiting {
        Ok(Ok(bundle)) => Arc::clone(&bundle),
        Ok(Err(_)) => panic!("{what}: nobody follows it"),
        Err(late) => panic!("{what}: {late}"),
    }
}

fn says(text: &str) -> impl Fn(&Bundle) -> bool {
    let text = text.to_owned();
    move |bundle| {
        let has = |content: &Vec<u8>| String::from_utf8_lossy(content).contains(&text);
        bundle.tree.files.iter().any(|file| file.content.as_ref().is_ok_and(has))
    }
}

fn is_fresh(bundle: &Bundle) -> bool {
    bundle.edition.stale.is_empty() && bundle.problem.is_none()
}

/// Publishes a policy; returns the reference by digest.
fn publish(at: &Path, reference: &str, text: &str) -> String {
    write(at, &[("policies/own.rego", &policy(text))]);
    let pushed = kaudit(at, &[], &["push", reference, "policies"]);
    assert_eq!(pushed.code, 0, "{}", pushed.err);
    pushed.out.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_followed_and_survives_its_registry() {
    if !require_tool(Tool::Registry) {
        return;
    }
    let (mut registry, directory) = (Registry::open(), tempfile::tempdir().unwrap());
    let (at, cache) = (directory.path(), directory.path().join("cache"));
    let named = registry.artifact("policies:v1");
    let first = publish(at, &named, "the first");
    let mut followed = follow(&reference(&named), &settings(Some(&cache))).await.unwrap();
    until(&mut followed, "the first", says("the first")).await;

    // A bundle pinned by its digest is not requested again.
    let mut pinned = follow(&reference(&first), &settings(None)).await.unwrap();
    assert!(pinned.bundle.borrow().edition.pinned && pinned.bundle.changed().await.is_err());

    publish(at, &named, "the second");
    let second = until(&mut followed, "the second", says("the second")).await;
    assert!(is_fresh(&second));
    assert!(says("the first")(&follow(&reference(&first), &settings(None)).await.unwrap().bundle.borrow()));

    registry.stop();
    let stale = until(&mut followed, "a registry that is down", |bundle| !is_fresh(bundle)).await;
    assert_eq!((&stale.tree, &stale.edition.digest), (&second.tree, &second.edition.digest));
    assert!(stale.edition.stale.contains("cannot be reached"), "{}", stale.edition.stale);
    assert!(!stale.problem.as_ref().unwrap().is_refusal());

    // After a restart there is only the cache.
    let restarted = follow(&reference(&named), &settings(Some(&cache))).await.unwrap();
    let restarted = Arc::clone(&restarted.bundle.borrow());
    assert_eq!((&restarted.tree, is_fresh(&restarted)), (&second.tree, false));
    let Err(why) = follow(&reference(&named), &settings(None)).await else { panic!("there is no cache") };
    assert!(why.to_string().contains("cannot be reached"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_with_broken_policies_is_not_cached() {
    let directory = tempfile::tempdir().unwrap();
    let (good, cache) = (archive(directory.path(), "a.tar.gz", "the first"), directory.path().join("cache"));
    write(directory.path(), &[("broken/own.rego", "package own\n\ndeny contains \"broken\" if if\n")]);
    let packed = run("tar", directory.path(), &[], &["-czf", "b.tar.gz", "-C", "broken", "own.rego"]);
    assert_eq!(packed.code, 0, "{}", packed.err);
    let broken = fs::read(directory.path().join("b.tar.gz")).unwrap();
    let better = archive(directory.path(), "c.tar.gz", "the third");
    let served = Arc::new(Mutex::new(Some(good.clone())));
    let serving = Arc::clone(&served);
    let (host, _) = serve(move |_| match &*serving.lock().unwrap() {
        Some(body) => answer("200 OK", &[], body),
        None => answer("503 Service Unavailable", &[], b""),
    });
    let named = reference(&format!("http://{host}/bundle.tar.gz"));
    let mut followed = follow(&named, &settings(Some(&cache))).await.unwrap();
    until(&mut followed, "the first", says("the first")).await;
    *served.lock().unwrap() = Some(broken.clone());
    // Only loading the policies is decisive: a broken bundle may be valid together with other sources.
    until(&mut followed, "the broken one", says("broken")).await;
    drop(followed);

    // A restart without the server.
    *served.lock().unwrap() = None;
    let restarted = follow(&named, &settings(Some(&cache))).await.unwrap();
    assert!(says("the first")(&restarted.bundle.borrow()) && !is_fresh(&restarted.bundle.borrow()));
    drop(restarted);
    // A restart with the server.
    *served.lock().unwrap() = Some(broken.clone());
    let mut restarted = follow(&named, &settings(Some(&cache))).await.unwrap();
    let stale = until(&mut restarted, "the one in the cache", says("the first")).await;
    assert!(stale.problem.as_ref().unwrap().is_refusal(), "{stale:?}");
    assert!(stale.edition.stale.contains("the policies of sha256:"), "{}", stale.edition.stale);
    *served.lock().unwrap() = Some(better);
    assert!(is_fresh(&*until(&mut restarted, "the third", says("the third")).await));
    // Without a better version there is no fallback.
    *served.lock().unwrap() = Some(broken);
    let other = directory.path().join("other");
    assert!(says("broken")(&follow(&named, &settings(Some(&other))).await.unwrap().bundle.borrow()));
}

/// Packs a policy into an archive.
fn archive(at: &Path, name: &str, text: &str) -> Vec<u8> {
    write(at, &[("pack/own.rego", &policy(text))]);
    let packed = run("tar", at, &[], &["-czf", name, "-C", "pack", "own.rego"]);
    assert_eq!(packed.code, 0, "{}", packed.err);
    fs::read(at.join(name)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_polled_for_a_new_version() {
    let directory = tempfile::tempdir().unwrap();
    let first = archive(directory.path(), "a.tar.gz", "the first");
    let second = archive(directory.path(), "b.tar.gz", "the second");
    let (served, unchanged) = (Arc::new(Mutex::new(("1", first))), Arc::new(AtomicUsize::new(0)));
    let (serving, counted) = (Arc::clone(&served), Arc::clone(&unchanged));
    let (host, _) = serve(move |request| {
        let (etag, body) = serving.lock().unwrap().clone();
        let quoted = format!("\"{etag}\"");
        if request.headers.contains(&format!("if-none-match: {quoted}")) {
            counted.fetch_add(1, Ordering::SeqCst);
            return answer("304 Not Modified", &[], b"");
        }
        answer("200 OK", &[("ETag", &quoted)], &body)
    });
    let named = format!("http://{host}/bundle.tar.gz");
    let mut followed = follow(&reference(&named), &settings(None)).await.unwrap();
    let good = until(&mut followed, "the first", says("the first")).await;

    // An invalid bundle leaves the last valid one in force and sets the problem.
    *served.lock().unwrap() = ("2", b"no archive".to_vec());
    let kept = until(&mut followed, "a broken bundle", |bundle| !is_fresh(bundle)).await;
    assert_eq!(kept.tree, good.tree);
    let problem = kept.problem.as_ref().unwrap();
    assert!(problem.is_refusal() && problem.message.contains(&good.edition.digest), "{problem}");
    // It is not downloaded repeatedly.
    let before = unchanged.load(Ordering::SeqCst);
    timeout(Duration::from_secs(30), async {
        while unchanged.load(Ordering::SeqCst) < before + 3 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(!is_fresh(&followed.bundle.borrow()));

    *served.lock().unwrap() = ("3", second);
    assert!(is_fresh(&*until(&mut followed, "the second", says("the second")).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_reloaded_when_it_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let second = archive(at, "bundle.tar.gz", "the second");
    archive(at, "bundle.tar.gz", "the first");
    let path = at.join("bundle.tar.gz");
    let mut followed = follow(&reference(path.to_str().unwrap()), &settings(None)).await.unwrap();
    fs::remove_file(&path).unwrap();
    let gone = until(&mut followed, "no file", |bundle| !is_fresh(bundle)).await;
    assert!(says("the first")(&gone) && gone.edition.stale.contains("no such file"));
    fs::write(&path, second).unwrap();
    assert!(is_fresh(&*until(&mut followed, "the second", says("the second")).await));
}
