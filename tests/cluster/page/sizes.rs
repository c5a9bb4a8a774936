//! The page with very many results and with none, in a browser.

use std::fs;

use kaudit_controlplane::{require, shared};
use kaudit_test_support::long_run::get;
use serde_json::json;

use super::{assert_fits, assert_silent};
use crate::{
    browser::{Browser, require_browser},
    support::{Running, policies, wait_for},
};

/// Numbers of objects and rules. One rule has five times as many violations per object as the others. They are 20,000
/// in total, within the limits per rule and object.
const OBJECTS: usize = 246;
const RULES: usize = 8;
const EACH: usize = 10;
const OF_FIRST: usize = 50;
/// Maximum size of a view's HTML, however many results there are.
const MOST: usize = 120_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_violations_are_paginated() {
    if !require() || !require_browser() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("large").await.unwrap();
    let map = |number: usize| {
        let metadata = json!({"name": format!("m{number:03}"), "namespace": namespace, "labels": {"large": "yes"}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string()
    };
    plane.apply(&(0..OBJECTS).map(map).collect::<Vec<_>>().join("\n---\n")).await.unwrap();
    let rule = |rule: usize| {
        format!(
            "deny_{rule} contains sprintf(\"finding %d of rule {rule} of %s\", [number, input.metadata.name]) if {{\n\t\
             input.metadata.labels.large\n\tsome number in numbers.range(1, count_of[input.metadata.name == \"m000\"])\n}}\n"
        )
    };
    let policy = format!("package large\n\ncount_of := {{true: {OF_FIRST}, false: {EACH}}}\n\n")
        + &(0..RULES).map(rule).collect::<String>();
    let directory = policies(&[("large.rego", &policy)]);
    let arguments =
        ["-p", directory.path().to_str().unwrap(), "-n", &namespace, "--record=none", "--listen-ui=127.0.0.1:0"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let address = kaudit.page().await;
    wait_for("all violations", || async { get(address, "/").filter(|html| html.contains("20000 failures")) }).await;
    let origin = format!("http://{address}");
    let (with, without) = (Browser::open(1_200, true), Browser::open(400, false));

    let object = format!("?object=ConfigMap%2F{namespace}%2Fm000");
    let views = ["", "?view=namespaces", "?view=rules", "?view=changes", "?view=objects", "?view=objects&q=finding"];
    let last = format!("{object}&page=8");
    for view in views.into_iter().chain(["?view=objects&page=3", "?view=coverage", &object, &last]) {
        let html = get(address, &format!("/{view}")).unwrap();
        assert!(html.len() < MOST, "{view}: {} characters", html.len());
        for browser in [&with, &without] {
            browser.go(&format!("{origin}/{view}"));
            assert_fits(browser);
            assert_silent(browser);
        }
        assert_eq!(with.accessibility_violations(), json!([]), "{view}");
    }

    // The most severe results come first, and links lead to the next pages, with and without scripts.
    let rows = "[...document.querySelectorAll('.objects > li')]";
    for browser in [&with, &without] {
        browser.go(&format!("{origin}/?view=objects"));
        let first = browser.evaluate(&format!("return [{rows}.length, {rows}[0].innerText.includes('m000')]"));
        assert_eq!(first, json!([30, true]));
        let mut pages = vec![30];
        while browser.evaluate("return document.querySelector('a[rel=next]') !== null") == true {
            let url = browser.url();
            browser.evaluate("document.querySelector('a[rel=next]').click()");
            browser.until(&format!("location.href !== '{url}' && document.querySelector('nav.pages')"));
            pages.push(browser.evaluate(&format!("return {rows}.length")).as_u64().unwrap());
        }
        assert_eq!(pages, [30, 30, 30, 30, 30, 30, 30, 30, 6]);
        browser.go(&format!("{origin}/?view=objects&q=m123"));
        assert_eq!(browser.evaluate(&format!("return {rows}.length")), 1);
        browser
            .evaluate(&format!("{rows}[0].querySelector('summary').click(); {rows}[0].querySelector('p a').click()"));
        browser.until(
            "document.querySelectorAll('main > .results > li').length === 50 && document.querySelector('a[rel=next]')",
        );
        assert!(browser.text().contains("80 results"), "{}", browser.text());
        assert_silent(browser);
    }
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clean_and_incomplete_pages_look_different() {
    if !require() || !require_browser() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("clean").await.unwrap();
    plane.kubectl(&["-n", &namespace, "create", "configmap", "one"]).await.unwrap();
    let directory =
        policies(&[("clean.rego", "package clean\ndeny contains \"never\" if input.kind == \"Nothing\"\n")]);
    let arguments = [
        "-p",
        directory.path().to_str().unwrap(),
        "-n",
        &namespace,
        "--record=none",
        "--allow-refused",
        "--listen-ui=127.0.0.1:0",
    ];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let origin = format!("http://{}", kaudit.page().await);
    let (with, without) = (Browser::open(1_200, true), Browser::open(400, false));
    let state = "document.querySelector('header .state').innerText";
    let look = |browser: &Browser| {
        browser.evaluate(&format!(
            "return [{state}, getComputedStyle(document.querySelector('header .state')).backgroundColor]"
        ))
    };
    with.go(&origin);
    with.until(&format!("{state} === 'live · everything checked'"));
    without.go(&origin);
    let clean = look(&with);
    assert_eq!(look(&without), clean);
    for browser in [&with, &without] {
        let text = browser.text();
        for words in ["no violations in ", "Everything in scope is checked by 1 rule.", "No violations.", "No results."]
        {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(browser.evaluate("return document.title"), "no violations · kaudit");
        assert_fits(browser);
    }
    assert_eq!(with.accessibility_violations(), json!([]));

    // A refused file: the open page shows it with its location.
    fs::write(directory.path().join("broken.rego"), "package broken\n\ndeny contains msg if nope(input)\n").unwrap();
    with.until(&format!("{state} === 'incomplete: 1 part not checked'"));
    without.go(&origin);
    let incomplete = look(&with);
    assert_eq!(look(&without), incomplete);
    assert_ne!(clean[1], incomplete[1], "the colours differ, too");
    for browser in [&with, &without] {
        let text = browser.text();
        assert!(text.contains("1 part not checked.") && !text.contains("Everything in scope"), "{text}");
        assert_fits(browser);
        browser.evaluate("document.querySelector('header .state').click()");
        browser.until("location.search === '?view=coverage' && document.querySelector('#trust')");
        let text = browser.text();
        assert!(text.contains("Not everything is checked.") && text.contains("broken.rego:3"), "{text}");
        assert_silent(browser);
    }
    assert_eq!(with.accessibility_violations(), json!([]));
    assert_eq!(kaudit.stop().await, Some(0));
}
