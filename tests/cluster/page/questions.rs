//! The first questions of those who read the page, each answered within two clicks from its first view; and a page whose
//! process has ended or hangs.

use std::time::Instant;

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use kaudit_controlplane::{ControlPlane, require};
use serde_json::json;

use super::example_manifests;
use crate::{
    browser::{Browser, require_browser},
    support::{Running, bare_plane, denies_marked, establish_audits, establish_exceptions, marked, policies, wait_for},
};

/// A question, the elements to click on the way to its answer, and a condition that is true where the answer is shown.
type Question = (&'static str, &'static [&'static str], &'static str);

const MAIN: &str = "document.querySelector('main').innerText";
/// The tab of a view; the script keeps the filters in its link.
const CHANGES: &str = "nav.views a[href*='view=changes']";
const EXCEPTIONS: &str = "nav.views a[href*='view=exceptions']";
const FRAMEWORKS: &str = "nav.views a[href*='view=frameworks']";
const SHOP: &str = "main th a[href*='namespace=shop']";
const AGENT: &str = ".objects details:has(a[href*='DaemonSet.apps%2Fshop%2Flog-agent']) summary";

const QUESTIONS: [Question; 22] = [
    // Of platform engineers.
    (
        "Is everything read, and does every rule run?",
        &[],
        "document.querySelector('.state.pass') && main.includes('Everything in scope is checked')",
    ),
    (
        "Which namespaces are worst?",
        &[],
        "document.querySelector('[aria-label=\"Table of namespaces\"] tbody th')?.innerText === 'shop'",
    ),
    (
        "Which rules fail, for how many of their objects?",
        &[],
        "Number(document.querySelector('[data-label=of]')?.innerText) > 0",
    ),
    ("Is it better than before?", &[], "document.querySelector('.history polygon') && main.includes('3 on ')"),
    ("Which exceptions need attention?", &[EXCEPTIONS], "document.querySelector('.badge.expired')"),
    // Of team leads.
    (
        "How many critical and high violations has my namespace?",
        &[SHOP],
        "document.querySelector('ul.counts .critical') && document.querySelector('ul.counts .high')",
    ),
    (
        "What is new in my namespace since yesterday?",
        &[SHOP, CHANGES],
        "main.includes('Last 24 hours') && location.search.includes('namespace=shop') && main.includes('log-agent')",
    ),
    (
        "What do I have to change in this workload?",
        &[SHOP, AGENT],
        "document.querySelector('.objects details[open] .fix pre')?.innerText.includes('spec:')",
    ),
    (
        "How long has this been open?",
        &[SHOP, AGENT],
        "document.querySelector('.objects details[open] .results time')?.title",
    ),
    // Of those on call.
    ("Is this page live?", &[], "document.querySelector('#live')?.innerText.includes('ago')"),
    ("Which changes were there, one problem or a hundred?", &[CHANGES], "document.querySelector('.changes li')"),
    ("Did it end, and when?", &[CHANGES], "document.querySelector('.changes li:has(.badge.resolved) time')"),
    // Of developers.
    (
        "What does this rule want?",
        &["main th a[href*='rule=KPS-B03']"],
        "main.includes('Description') && main.includes('Source:')",
    ),
    (
        "Why is this reported?",
        &["main .changes li:not(:has(.resolved)) a[href*='object=']"],
        "main.includes('Field') && main.includes('Source of the rule')",
    ),
    (
        "Where else does this rule report something?",
        &["main th a[href*='rule=KPS-B03']"],
        "main.includes('DaemonSet.apps/shop/log-agent')",
    ),
    (
        "Which id does kubectl kaudit explain need?",
        &["main .changes li:not(:has(.resolved)) a[href*='object=']"],
        "/kubectl kaudit explain [0-9a-f]{16}/.test(main)",
    ),
    (
        "How do I excuse this?",
        &[
            "main .changes li:not(:has(.resolved)) a[href*='object=']",
            ".results details[open] details:last-of-type summary",
        ],
        "main.includes('kind: PolicyException')",
    ),
    // Of security officers.
    (
        "How many critical violations, and where?",
        &["ul.counts a:has(.critical)"],
        "document.querySelector('.objects')?.innerText.includes('log-agent')",
    ),
    (
        "Which share of the Pod Security Standards is met?",
        &[FRAMEWORKS, "details.framework:nth-of-type(3) summary"],
        "/baseline.*\\d %/s.test(main)",
    ),
    (
        "What is excused, until when?",
        &[EXCEPTIONS],
        "main.includes('the team is being formed') && document.querySelector('td[data-label=Ends] time')",
    ),
    (
        "What was not checked?",
        &[],
        "document.querySelector('header .state')?.innerText === 'live · everything checked'",
    ),
    (
        "A file for the auditor?",
        &["ul.counts a:has(.critical)"],
        "document.querySelector('main a[href*=\"format=csv\"]')",
    ),
];

/// Writes counts of yesterday, as an earlier process did.
async fn write_history(plane: &ControlPlane) {
    let yesterday = Timestamp::now().to_zoned(TimeZone::UTC).date().checked_sub(1.days()).unwrap();
    plane
        .apply("{apiVersion: kaudit.dev/v1alpha1, kind: Audit, metadata: {name: kaudit, namespace: default}}")
        .await
        .unwrap();
    let history = json!({"last": yesterday.to_string(), "severities": {"critical": "3 2", "high": "4"}});
    let patch = json!({"status": {"history": history}}).to_string();
    let target = ["-n", "default", "patch", "audit", "kaudit", "--subresource=status", "--type=merge", "-p", &patch];
    plane.kubectl(&target).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_question_takes_two_clicks_at_most() {
    if !require() || !require_browser() {
        return;
    }
    let plane = bare_plane().await;
    establish_audits(&plane).await;
    establish_exceptions(&plane).await;
    write_history(&plane).await;
    plane.apply(&example_manifests().join("\n---\n")).await.unwrap();
    let exception = |name: &str, end: &str| {
        format!(
            "---\napiVersion: kaudit.dev/v1alpha1\nkind: PolicyException\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{policies: [{{name: KPS-R05}}], reason: the team is being formed, expiresAt: {end:?}}}\n"
        )
    };
    plane.apply(&(exception("ended", "2020-01-31") + &exception("holds", "2099-01-31"))).await.unwrap();
    let arguments = ["-p=builtin", "-n=shop", "--record=status", "--listen-ui=127.0.0.1:0", "--excusable=*"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let origin = format!("http://{}/", kaudit.page().await);
    let browser = Browser::open(1_280, true);
    browser.go(&origin);
    browser.until("document.querySelector('.state.pass') && document.querySelector('.history polygon')");
    plane.kubectl(&["-n", "shop", "delete", "cronjob", "cleanup"]).await.unwrap();
    browser.until("document.querySelector('.changes .badge.resolved')");

    for (question, clicks, answer) in QUESTIONS {
        assert!(clicks.len() <= 2, "{question}");
        browser.go(&origin);
        for element in clicks {
            browser.until(&format!("document.querySelector(`{element}`)"));
            browser.evaluate(&format!("document.querySelector(`{element}`).click()"));
        }
        browser.until(&format!("((main) => {answer})({MAIN}) /* {question} */"));
    }

    // The counts of this day are in the Audit.
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date().to_string();
    wait_for("the history", || async {
        let path = "jsonpath={.status.history.last} {.status.history.severities.critical}";
        let text = plane.kubectl(&["-n", "default", "get", "audit", "kaudit", "-o", path]).await.ok()?;
        (text == format!("{today} 3 2 1")).then_some(())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_without_its_process_is_marked() {
    if !require() || !require_browser() {
        return;
    }
    let plane = bare_plane().await;
    let namespace = plane.temp_namespace("dead").await.unwrap();
    plane.apply(&marked("v1", "ConfigMap", &namespace, "first", &namespace)).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    let arguments =
        ["-p", directory.path().to_str().unwrap(), "-n", &namespace, "--record=none", "--listen-ui=127.0.0.1:0"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let browser = Browser::open(1_280, true);
    browser.go(&format!("http://{}/", kaudit.page().await));
    browser.until("document.title.startsWith('1 failure')");
    let lost = "document.title.startsWith('(not live) ') && document.querySelector('#live').innerText.includes('not live since')";
    let until_lost = || {
        let begin = Instant::now();
        browser.until(lost);
        assert!(begin.elapsed().as_secs() <= 15, "{:?}", begin.elapsed());
    };
    // One that hangs looks like a quiet cluster otherwise.
    kaudit.signal("STOP");
    until_lost();
    kaudit.signal("CONT");
    browser.until("document.title.startsWith('1 failure')");
    kaudit.kill();
    until_lost();
}
