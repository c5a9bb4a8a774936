//! Access to the page, checked by the real API server with the rights granted by the chart.

use std::{collections::BTreeSet, net::SocketAddr};

use kaudit_controlplane::{ControlPlane, Tool, require_tool, shared};
use kaudit_test_support::long_run::ask;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, ENTER, require_browser},
    chart::render,
    support::{Running, denies_marked, establish_audits, marked, policies, wait_for},
};

/// Creates an account that may get the `Audit`, and list these reports in a namespace, or everywhere without a
/// namespace; returns its token.
async fn reader(plane: &ControlPlane, release: &str, name: &str, lists: Option<(Option<&str>, &[&str])>) -> String {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": release}});
    let mut objects = vec![account];
    let audits = json!({"apiGroups": ["kaudit.dev"], "resources": ["audits"], "verbs": ["get"]});
    let mut grant = |namespace: Option<&str>, rule: Value| {
        let scope = if namespace.is_some() { "" } else { "Cluster" };
        let role = format!("{release}-{name}-{}", rule["resources"][0].as_str().unwrap());
        let metadata = json!({"name": role, "namespace": namespace});
        let api = "rbac.authorization.k8s.io";
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": release});
        let version = format!("{api}/v1");
        objects.push(
            json!({"apiVersion": version, "kind": format!("{scope}Role"), "metadata": metadata, "rules": [rule]}),
        );
        objects.push(json!({
            "apiVersion": version, "kind": format!("{scope}RoleBinding"), "metadata": metadata, "subjects": [subject],
            "roleRef": {"apiGroup": api, "kind": format!("{scope}Role"), "name": role},
        }));
    };
    if let Some((namespace, reports)) = lists {
        grant(Some(release), audits);
        grant(namespace, json!({"apiGroups": ["openreports.io"], "resources": reports, "verbs": ["list"]}));
    }
    let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
    plane.apply(&objects.join("\n---\n")).await.unwrap();
    plane.kubectl(&["-n", release, "create", "token", name]).await.unwrap().trim().to_owned()
}

/// Gets a view with a token, with a host that is not loopback; returns the code and the body.
fn view(address: SocketAddr, path: &str, token: &str) -> (u16, String) {
    let headers = format!("Host: kaudit.example.com\r\nAuthorization: Bearer {token}");
    let (head, body) = ask(address, path, &headers).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

/// Returns the names of the objects whose results a reader sees.
fn seen(address: SocketAddr, token: &str) -> BTreeSet<String> {
    let (code, body) = view(address, "/?format=json", token);
    assert_eq!(code, 200, "{body}");
    let page: Value = serde_json::from_str(&body).unwrap();
    let results = page["results"].as_array().unwrap();
    assert_eq!(page["summary"]["fail"], results.len(), "{page}");
    results.iter().map(|entry| entry["resource"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_what_they_may_list() {
    if !require_tool(Tool::Helm) || !require_browser() {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let (shop, bank) = (plane.temp_namespace("shop").await.unwrap(), plane.temp_namespace("bank").await.unwrap());
    plane.apply(&marked("v1", "ConfigMap", &shop, "first", &shop)).await.unwrap();
    plane.apply(&marked("v1", "ConfigMap", &bank, "second", &shop)).await.unwrap();
    plane.kubectl(&["label", "namespace", &bank, &format!("{shop}=yes")]).await.unwrap();
    let some = reader(plane, &release, "some", Some((Some(&shop), &["reports"]))).await;
    let every = reader(plane, &release, "every", Some((None, &["reports"]))).await;
    let all = reader(plane, &release, "all", Some((None, &["reports", "clusterreports"]))).await;
    let stranger = reader(plane, &release, "stranger", None).await;

    let rendered = render(&release, &["ui.enabled=true", "ui.auth=token", "record={status}"]).await;
    rendered.install(plane).await;
    let user = plane.service_account(&release, rendered.name("ServiceAccount")).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&shop))]);
    assert!(rendered.text.contains("--listen-ui=0.0.0.0:8082"));
    let arguments = rendered.arguments(directory.path().to_str().unwrap());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let position = plane.audit_position().unwrap();
    let kaudit = Running::start(user.kubeconfig_path(), &arguments).await;
    kaudit.ready().await;
    let address = kaudit.page().await;
    wait_for("all violations", || async { (seen(address, &all).len() == 3).then_some(()) }).await;

    assert_eq!(seen(address, &some), BTreeSet::from(["first".to_owned()]));
    assert_eq!(seen(address, &every), BTreeSet::from(["first".to_owned(), "second".to_owned()]));
    for path in ["/", &format!("/?namespace={bank}"), "/?q=second", &format!("/?object=ConfigMap%2F{bank}%2Fsecond")] {
        let (code, html) = view(address, path, &some);
        assert!(code == 200 && html.contains(&format!("system:serviceaccount:{release}:some")), "{path}: {html}");
        assert!(!html.contains("marked second") && !html.contains("/second</a>"), "{path}: {html}");
        assert_eq!(path.contains(&bank), html.contains(&bank), "only requested text is echoed: {html}");
    }
    let coverage = |token: &str| view(address, "/?view=coverage", token).1;
    assert!(coverage(&some).contains("are left out") && !coverage(&all).contains("are left out"));

    // An unknown reader gets the sign-in form; a reader without access gets the reason, also for the event stream.
    for path in ["/", "/?format=json", "/events"] {
        let (head, body) = ask(address, path, "Host: kaudit.example.com").unwrap();
        assert!(head.contains(" 401 ") && head.to_lowercase().contains("www-authenticate: bearer"), "{head}");
        assert!(body.contains("type=\"password\"") && !body.contains(&shop), "{body}");
        assert_eq!(view(address, path, "made-up").0, 401);
        let (code, body) = view(address, path, &stranger);
        assert!(code == 403 && body.contains(&format!("may not get audits.kaudit.dev {release}/kaudit")), "{body}");
    }

    // Sign in with the token, and sign out.
    let browser = Browser::open(1_200, true);
    let origin = format!("http://{address}");
    browser.go(&format!("{origin}/?view=objects&q=first"));
    for (token, then) in [("made-up", "[role=alert]"), (&some, ".objects")] {
        assert_eq!(browser.accessibility_violations(), json!([]));
        browser.until("document.activeElement.type === 'password'");
        browser.press(token);
        browser.press(ENTER);
        browser.until(&format!("document.querySelector('{then}')"));
        assert_eq!(
            browser.text().contains("The token is invalid or has expired"),
            token == "made-up",
            "{}",
            browser.text()
        );
    }
    assert!(browser.url().ends_with("/?view=objects&q=first"), "{}", browser.url());
    assert_eq!(browser.evaluate("return [document.cookie, localStorage.length]"), json!(["", 0]), "no script has it");
    assert_eq!(browser.accessibility_violations(), json!([]));
    plane.apply(&marked("v1", "ConfigMap", &shop, "first-more", &shop)).await.unwrap();
    browser.until("document.querySelectorAll('.objects > li').length === 2");
    browser.evaluate("document.querySelector('form[action=logout] button').click()");
    browser.until("document.querySelector('input[type=password]')");

    assert!(!kaudit.log().contains(&some) && !kaudit.log().contains("made-up"));
    assert_eq!(kaudit.stop().await, Some(0));
    let requests = plane.audit_log_since(position).unwrap();
    let refused: Vec<_> =
        requests.iter().filter(|request| request.user == user.name() && matches!(request.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
