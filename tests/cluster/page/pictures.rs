//! The README's screenshots of the page with the example, on a separate control plane.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kaudit_controlplane::require;
use serde_json::json;

use super::{assert_fits, assert_silent, example_manifests};
use crate::{
    browser::{Browser, require_browser},
    support::{Running, bare_plane},
};

/// Returns the folder for the screenshots, if set.
fn folder() -> Option<PathBuf> {
    std::env::var_os("KAUDIT_PICTURES").map(PathBuf::from)
}

/// Writes pictures of each view for review, in three widths, light and dark.
fn review(browser: &Browser, origin: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    let views = ["overview", "namespaces", "rules", "frameworks", "objects", "changes", "exceptions", "coverage"];
    let pages = views.map(|view| (view, format!("?view={view}")));
    let object = ("object", "?object=DaemonSet.apps%2Fshop%2Flog-agent".to_owned());
    let rule = ("rule", "?view=rules&rule=KPS-B03".to_owned());
    for (name, query) in pages.into_iter().chain([object, rule]) {
        for (width, scheme) in [1_280, 800, 390].into_iter().flat_map(|width| [(width, "light"), (width, "dark")]) {
            browser.view(width, 1_000);
            browser.prefer(scheme);
            browser.go(&format!("{origin}{query}"));
            fs::write(folder.join(format!("{name}-{width}-{scheme}.png")), browser.picture()).unwrap();
        }
    }
}

/// Maximum size of a screenshot.
const BYTES: usize = 150_000;

/// A blog in addition to the shop of `examples/manifests`.
const BLOG: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: blog, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: comments, namespace: blog}
spec:
  selector: {matchLabels: {app: comments}}
  template:
    metadata: {labels: {app: comments}}
    spec:
      containers:
        - {name: comments, image: "registry.example.com/comments:latest"}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_show_the_example() {
    if !require() || !require_browser() {
        return;
    }
    let plane = bare_plane().await;
    let manifests = [vec![BLOG.to_owned()], example_manifests()].concat();
    plane.apply(&manifests.join("\n---\n")).await.unwrap();
    let arguments = ["-p", "builtin", "-n", "shop", "-n", "blog", "--record=none", "--listen-ui=127.0.0.1:0"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let origin = format!("http://{}/", kaudit.page().await);
    let browser = Browser::open(1_100, true);
    browser.go(&origin);
    browser.until("document.querySelector('header .state').innerText === 'live · everything checked'");

    // One violation is fixed and another appears while the page is open.
    plane.kubectl(&["-n", "shop", "delete", "cronjob", "cleanup"]).await.unwrap();
    browser.until("document.querySelector('main').innerText.includes('cleanup')");
    let text = browser.text();
    for words in ["everything checked", "Status", "Namespaces", "Rules", "resolved", "critical", "blog", "shop"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    for (name, scheme, width) in [("page", "light", 960), ("page-dark", "dark", 960), ("phone", "light", 390)] {
        browser.view(width, 900);
        browser.prefer(scheme);
        assert_eq!(browser.accessibility_violations(), json!([]), "{name}");
        assert_fits(&browser);
        let picture = browser.picture();
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        if let Some(folder) = folder() {
            fs::write(folder.join(format!("{name}.png")), &picture).unwrap();
            assert!(picture.len() < BYTES, "{name}: {} bytes", picture.len());
        }
    }
    if folder().is_some() {
        review(&browser, &origin);
    }
    assert_silent(&browser);
    assert_eq!(kaudit.stop().await, Some(0));
}
