//! One object can only affect its own results: neither characters nor refused results prevent other records.

use kaudit_controlplane::require;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use super::{NAMES, plane, reports_in};
use crate::support::{Running, establish_audits, policies, results_in, wait_for};

const POLICY: &str = r#"
package says
deny contains sprintf("says %v", [input.data.text]) if input.kind == "ConfigMap"
"#;

/// Returns texts with every character of the Basic Multilingual Plane and some others, within the length limit of
/// messages.
fn texts() -> Vec<String> {
    let astral = (1..=16).flat_map(|plane: u32| [0, 1, 0xf600, 0xfffd, 0xfffe, 0xffff].map(|low| plane << 16 | low));
    let all: Vec<char> = (0..=0xffff).chain(astral).filter_map(char::from_u32).collect();
    all.chunks(1_000).map(|chunk| chunk.iter().collect()).collect()
}

#[tokio::test]
async fn no_character_prevents_reports_or_the_status() {
    if !require() {
        return;
    }
    let plane = plane().await;
    establish_audits(&plane).await;
    let namespace = plane.temp_namespace("characters").await.unwrap();
    let api = |group: &str, version: &str, kind: &str| -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(plane.admin().unwrap(), &namespace, &resource)
    };
    // kubectl reads YAML, which does not allow some of them.
    let create = async |api: Api<DynamicObject>, object: Value| {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    };
    let texts = texts();
    for (number, text) in texts.iter().enumerate() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")},
            "data": {"text": text}});
        create(api("", "v1", "ConfigMap"), object).await;
    }
    let odd = "odd\u{7f}\u{85}\u{9b}\u{2028}\u{feff}\u{fffe}\u{ffff}\u{1fffe}";
    let exception = json!({"apiVersion": "kaudit.dev/v1alpha1", "kind": "PolicyException", "metadata": {"name": "odd"},
        "spec": {"policies": [{"name": odd}], "reason": odd, "expiresAt": "2099-12-31T00:00:00Z"}});
    create(api("kaudit.dev", "v1alpha1", "PolicyException"), exception).await;
    let directory = policies(&[("says.rego", POLICY)]);
    let path = directory.path().to_str().unwrap();
    let kaudit = Running::start(&plane.kubeconfig(), &["-p", path, "-n", &namespace, "--audit-name", &namespace]).await;
    kaudit.ready().await;
    wait_for("a report of all", || async {
        let reports = reports_in(&plane, NAMES[0][0], &namespace).await;
        let results = reports.iter().flat_map(|report| report["results"].as_array().unwrap());
        let messages: Vec<String> = results.map(|result| result["message"].as_str().unwrap().to_owned()).collect();
        texts.iter().all(|text| messages.contains(&format!("says {text}"))).then_some(())
    })
    .await;
    let get = ["get", "audit", &namespace, "-o", "json"];
    wait_for("the status", || async {
        let audit: Value = serde_json::from_str(&plane.kubectl(&get).await.ok()?).unwrap();
        let conditions = audit["status"]["conditions"].as_array()?;
        let message =
            |kind: &str| conditions.iter().find(|one| one["type"] == kind).map(|one| one["message"].to_string());
        let is_whole = audit["status"]["summary"]["fail"] == results_in(&kaudit.status(), &namespace).len();
        (is_whole && message("ExceptionsValid")?.contains("odd") && message("Recording")? == "\"\"").then_some(())
    })
    .await;
    assert_eq!(kaudit.stop().await, Some(0));
}

#[tokio::test]
async fn results_refused_by_the_server_are_left_out_of_reports() {
    if !require() {
        return;
    }
    let plane = plane().await;
    establish_audits(&plane).await;
    let namespace = plane.temp_namespace("refusing").await.unwrap();
    let admission = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": namespace},
            "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["openreports.io"], "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"], "resources": ["reports"]}]},
                "validations": [{"expression": "!has(object.results) || object.results.all(r, !r.message.contains('unspeakable'))",
                    "message": "an unspeakable word"}]}},
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": namespace},
            "spec": {"policyName": namespace, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}}}]});
    plane.apply(&admission.to_string()).await.unwrap();
    let refused = json!({"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "metadata": {"name": "try", "namespace": namespace},
        "results": [{"policy": "p", "message": "unspeakable"}]});
    wait_for("the server to refuse", || async { plane.apply(&refused.to_string()).await.err() }).await;
    // A request may have been accepted before the policy was in force.
    plane.kubectl(&["-n", &namespace, "delete", NAMES[0][0], "try", "--ignore-not-found"]).await.unwrap();
    let say = async |name: &str, text: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": {"text": text}});
        plane.apply(&object.to_string()).await.unwrap();
    };
    for number in 0..9 {
        say(&format!("m{number}"), if number % 4 == 1 { "unspeakable" } else { "good" }).await;
    }
    let directory = policies(&[("says.rego", POLICY)]);
    let path = directory.path().to_str().unwrap();
    let arguments = ["-p", path, "-n", &namespace, "--audit-name", &namespace];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let until_listed = async |number: usize| {
        wait_for(&format!("{number} results"), || async {
            let reports = reports_in(&plane, NAMES[0][0], &namespace).await;
            let [report] = &reports[..] else { return None };
            let listed = report["results"].as_array().unwrap().len();
            (listed == number && report["summary"]["fail"] == number).then_some(())
        })
        .await;
    };
    let recording = async |words: &str| {
        let get = ["get", "audit", &namespace, "-o", "json"];
        wait_for(words, || async {
            let audit: Value = serde_json::from_str(&plane.kubectl(&get).await.ok()?).unwrap();
            let conditions = audit["status"]["conditions"].as_array()?;
            let recording = conditions.iter().find(|condition| condition["type"] == "Recording")?;
            recording["message"].as_str()?.contains(words).then_some(())
        })
        .await;
    };
    until_listed(7).await;
    recording("2 results not listed in reports").await;
    let dropped = r#"kaudit_recorder_drops_total{recorder="reports",reason="refused_result"} "#;
    assert_eq!(kaudit.metric(dropped), Some(2), "each is counted once");
    // Other results continue to be reported, and fixed ones are reported again.
    say("more", "good").await;
    until_listed(8).await;
    say("m1", "good now").await;
    until_listed(9).await;
    recording("1 result not listed in reports").await;
    say("m5", "good now").await;
    until_listed(10).await;
    assert_eq!(kaudit.stop().await, Some(0));
    for kind in ["validatingadmissionpolicy", "validatingadmissionpolicybinding"] {
        plane.kubectl(&["delete", kind, &namespace]).await.unwrap();
    }
}
