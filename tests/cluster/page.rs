//! The page, served by a long run on a real API server.

mod forwarded;
mod pictures;
mod questions;
mod readers;
mod sizes;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::mpsc,
};

use kaudit_controlplane::{require, shared};
use kaudit_test_support::long_run::get;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, ENTER, TAB, require_browser},
    support::{PATIENCE, Running, denies_marked, marked, policies, run, wait_for},
};

/// The manifests of the example.
fn example_manifests() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/manifests");
    let names = ["namespace", "api", "cleanup", "db", "log-agent", "web", "worker"];
    names.into_iter().map(|name| fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap()).collect()
}

/// Asserts that nothing is wider than the window.
fn assert_fits(browser: &Browser) {
    let widths = browser.evaluate("return [document.documentElement.scrollWidth, innerWidth]");
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{}: {widths}", browser.url());
}

/// Asserts that the browser's console is empty.
fn assert_silent(browser: &Browser) {
    let console = browser.console();
    assert!(console.is_empty(), "{console:#?}");
}

/// Asserts that a view with everything opened fits the window, and is accessible in both colour schemes.
fn assert_readable(browser: &Browser, url: &str, width: u32) {
    browser.resize(width);
    browser.go(url);
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
    assert_fits(browser);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        assert_eq!(browser.accessibility_violations(), json!([]), "{url} in {scheme}, {width} pixels wide");
    }
}

/// Opens the stream of events; returns their names and ids.
fn events(address: SocketAddr) -> mpsc::Receiver<(String, String)> {
    let (sender, receiver) = mpsc::channel();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    // Ends with the connection, which ends with kaudit.
    std::thread::spawn(move || {
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let mut name = String::new();
        for line in lines {
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(id) = line.strip_prefix("id: ")
                && sender.send((name.clone(), id.to_owned())).is_err()
            {
                return;
            }
        }
    });
    receiver
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_is_updated() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("page").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    plane.apply(&marked("v1", "ConfigMap", &namespace, "first", &namespace)).await.unwrap();
    let arguments = [
        "-p",
        directory.path().to_str().unwrap(),
        "-n",
        &namespace,
        "--record=none",
        "--listen-ui=127.0.0.1:0",
        "--excusable=*",
    ];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let address = kaudit.page().await;
    let names = |view: &str| -> Option<Vec<String>> {
        let page: Value = serde_json::from_str(&get(address, view)?).unwrap();
        let name = |entry: &Value| entry["resource"]["name"].as_str().unwrap().to_owned();
        Some(page["results"].as_array().unwrap().iter().map(name).collect())
    };
    wait_for("the first", || async { names("/?format=json").filter(|names| names == &["first"]) }).await;

    let stream = events(address);
    let seen = RefCell::new(BTreeSet::new());
    let note = |(name, id): (String, String)| {
        assert_eq!(name, "changed");
        assert!(seen.borrow_mut().insert(id.clone()), "{id} comes twice: nothing has changed");
    };
    let changed = || note(stream.recv_timeout(PATIENCE).unwrap());
    // The existing violations.
    changed();
    plane.apply(&marked("v1", "ConfigMap", &namespace, "second", &namespace)).await.unwrap();
    let until = |expected: &[&str]| loop {
        changed();
        if names("/?format=json").unwrap() == expected {
            return;
        }
    };
    until(&["first", "second"]);
    assert_eq!(names("/?format=json&q=SECOND").unwrap(), ["second"]);
    assert_eq!(names("/?format=json&namespace=other").unwrap(), [""; 0]);
    let html = get(address, &format!("/?object=ConfigMap%2F{namespace}%2Fsecond")).unwrap();
    assert!(html.contains("Exception to copy") && html.contains("marked.rego:"), "{html}");

    // The fixed violation is listed as resolved in the HTML.
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "first"]).await.unwrap();
    until(&["second"]);
    let html = get(address, "/?view=changes").unwrap();
    assert!(html.contains("1 resolved") && html.contains("ConfigMap") && html.contains("/first"), "{html}");
    // Kinds that other tests create and delete also change the page.
    stream.try_iter().for_each(note);
    assert_eq!(kaudit.stop().await, Some(0));
}

/// A message with code that a browser would run.
const HOSTILE: &str = "<img src=x onerror=document.title=1><script>document.title=2</script>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_works_in_a_browser() {
    if !require() || !require_browser() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("browser").await.unwrap();
    let about = "# METADATA\n# title: Marked\n# description: Remove the mark.\n# custom:\n#   severity: high\n";
    let policy = format!(
        "{about}{}",
        denies_marked(&namespace).trim_start().replace("marked %v", &format!("marked %v {HOSTILE}"))
    );
    let directory = policies(&[("marked.rego", &policy)]);
    plane.apply(&marked("v1", "ConfigMap", &namespace, "first", &namespace)).await.unwrap();
    let arguments = [
        "-p",
        directory.path().to_str().unwrap(),
        "-n",
        &namespace,
        "--record=none",
        "--listen-ui=127.0.0.1:0",
        "--excusable=*",
    ];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let origin = format!("http://{}", kaudit.page().await);
    let (with, without) = (Browser::open(1_200, true), Browser::open(400, false));

    // Changes appear on the open page.
    with.go(&format!("{origin}/?view=objects"));
    with.until("document.querySelectorAll('.objects > li').length === 1");
    with.evaluate(
        "const first = document.querySelector('.objects details'); first.open = true; \
         window.kept = first.querySelector('p a'); getSelection().selectAllChildren(kept); kept.focus()",
    );
    plane.apply(&marked("v1", "ConfigMap", &namespace, "a-second", &namespace)).await.unwrap();
    with.until("document.querySelectorAll('.objects > li').length === 2");
    // A started click, the selected text, the focus and the opened object are preserved.
    assert_eq!(
        with.evaluate(
            "return [kept === document.activeElement, [...document.querySelectorAll('.objects > li')].indexOf(kept.closest('.objects > li')), \
             getSelection().toString(), kept.closest('details').open]"
        ),
        json!([true, 1, "how to fix and explain", true])
    );

    // With the keyboard: / for the search, which applies while one types; then the object. Updates do not disturb typing.
    with.evaluate("document.activeElement.blur()");
    with.press("/");
    with.until("document.activeElement.type === 'search'");
    with.press("SEC");
    with.until("location.search.includes('q=SEC') && document.querySelectorAll('.objects > li').length === 1");
    plane.apply(&marked("v1", "ConfigMap", &namespace, "b-second", &namespace)).await.unwrap();
    with.until("document.querySelectorAll('.objects > li').length === 2");
    with.press("OND");
    with.until("location.search.includes('q=SECOND') && document.activeElement.value === 'SECOND'");
    let until = |inside: &str| {
        for _ in 0..60 {
            with.press(TAB);
            if with.evaluate(&format!("return document.activeElement.matches('{inside}')")) == true {
                return;
            }
        }
    };
    until(".objects summary");
    with.press(ENTER);
    until(".objects a[href*=\"object=\"]");
    with.press(ENTER);
    with.until("location.search.includes('object=')");
    let object = with.url().replace(&format!("{origin}/"), "");
    let text = with.text();
    for words in
        ["high", HOSTILE, "Remove the mark.", "Since", "marked.rego:", "Source of the rule", "Exception to copy"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(with.evaluate("return document.querySelectorAll('main img, main script').length"), 0);

    let views = ["", "?view=namespaces", "?view=rules", "?view=rules&rule=marked", "?view=objects", "?view=changes"];
    let views =
        views.into_iter().chain(["?view=frameworks", "?view=exceptions", "?view=coverage", "?q=nothing", &object]);
    for (width, view) in views.flat_map(|view| [(1_200, view), (800, view), (390, view)]) {
        assert_readable(&with, &format!("{origin}/{view}"), width);
    }

    // Without scripts and on a phone: the same views, none wider than the screen.
    without.go(&format!("{origin}/?view=objects&q=first"));
    let objects = without.evaluate("return document.querySelector('.objects').innerText").to_string();
    assert!(objects.contains("first") && !objects.contains("-second"), "{objects}");
    assert_eq!(without.evaluate("return document.querySelector('#filter button').checkVisibility()"), true);
    assert_eq!(with.evaluate("return document.querySelector('#filter button')?.checkVisibility() ?? false"), false);
    assert_fits(&without);

    for browser in [&with, &without] {
        assert_silent(browser);
        let (own, elsewhere): (Vec<String>, Vec<String>) =
            browser.requests().into_iter().partition(|url| url.starts_with(&origin));
        assert!(!own.is_empty());
        assert!(elsewhere.is_empty(), "{elsewhere:#?}");
    }
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_file_is_searched_in_a_browser() {
    if !require_browser() {
        return;
    }
    let directory = policies(&[]);
    let file = directory.path().join("audit.html");
    let output = format!("html={}", file.display());
    let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/manifests");
    let ended = run(Path::new("none"), &["check", "-f", manifests, "-p", "builtin", "-o", &output]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let url = format!("file://{}", file.display());
    let shown = "[...document.querySelectorAll('.objects li[data-rule]')].filter((one) => !one.hidden).length";
    let objects = "[...document.querySelectorAll('.objects > li')].filter((one) => !one.hidden).length";
    let (with, without) = (Browser::open(1_200, true), Browser::open(400, false));

    // One view at a time; the first is the overview.
    with.go(&url);
    let all = with.evaluate(&format!("return {shown}")).as_u64().unwrap();
    let headline = "document.querySelector('.view.current .headline').innerText";
    assert!(all > 10 && with.evaluate(&format!("return {headline}")).to_string().contains(" of "), "{}", with.text());
    let views = "[...document.querySelectorAll('.view')].filter((one) => one.checkVisibility()).map((one) => one.id)";
    assert_eq!(with.evaluate(&format!("return {views}")), json!(["view=overview"]));

    // A link to a severity goes to its objects, and filters apply to all numbers.
    with.evaluate("document.querySelector('ul.counts .critical').closest('a').click()");
    with.until(&format!("{views}[0] === 'view=objects' && {shown} === 1"));
    assert_eq!(with.evaluate(&format!("return {headline}")), "1 failure in 1 object");
    let choose = |field: &str, value: &str| {
        with.evaluate(&format!(
            "const one = document.querySelector('#filter [name={field}]'); one.value = '{value}'; \
             one.dispatchEvent(new Event('input', {{bubbles: true}}))"
        ));
    };
    choose("severity", "");
    with.until(&format!("{shown} === {all}"));
    with.press("/");
    with.until("document.activeElement.type === 'search'");
    with.press("PRIVILEGED log-agent");
    with.until(&format!("{shown} > 0 && {shown} < {all} && {objects} === 1"));
    choose("q", "");
    choose("framework", "pss");
    with.until(&format!("{shown} > 0 && {shown} < {all} && location.hash.includes('framework=pss')"));
    let of_framework = with.evaluate(&format!("return {shown}"));
    with.evaluate("[...document.querySelectorAll('nav.views a')].find((one) => one.innerText === 'Rules').click()");
    with.until(&format!("{views}[0] === 'view=rules'"));
    let counted = "[...document.querySelectorAll('.view.current tr[data-rule]')].filter((one) => !one.hidden) \
                   .map((one) => Number(one.querySelector('[data-label=Failing]').innerText)).reduce((a, b) => a + b)";
    assert_eq!(with.evaluate(&format!("return {counted}")), of_framework, "each result is of another object or rule");
    with.evaluate("document.querySelector('#filter .reset').click()");
    with.until(&format!("{shown} === {all}"));

    // Links lead to a rule, and from it to its object.
    with.evaluate("document.querySelector('.view.current tr[data-rule] a').click()");
    with.until("document.querySelector('details.rule[open]').checkVisibility()");
    assert!(with.text().contains("Source:"), "{}", with.text());
    with.evaluate("document.querySelector('details.rule[open] a[href*=\"object=\"]').click()");
    with.until(&format!("{views}[0] === 'view=objects' && document.querySelector('.objects details[open]')"));
    let views_of_file = ["overview", "namespaces", "rules", "frameworks", "objects", "exceptions", "coverage"];
    for (view, width) in views_of_file.into_iter().flat_map(|view| [(view, 1_200), (view, 390)]) {
        assert_readable(&with, &format!("{url}#view={view}"), width);
    }

    // Without scripts, everything can be opened and found with the browser's search.
    without.go(&url);
    let text = without.evaluate("return document.body.textContent");
    let text = text.as_str().unwrap();
    assert!(text.contains("log-agent") && text.contains("examples/manifests/log-agent.yaml:"), "{text}");
    assert_eq!(without.evaluate("return document.getElementById('filter').checkVisibility()"), false);
    assert_fits(&without);
    for browser in [&with, &without] {
        assert_silent(browser);
        assert_eq!(browser.requests(), [""; 0], "it needs no network");
    }
}
