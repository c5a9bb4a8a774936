//! Shards judge together what one process judges, each a part of its own, however many there are.

use std::collections::BTreeSet;

use kaudit_controlplane::{require, shared};
use serde_json::{Value, json};

use crate::support::{Ended, denies_marked, policies, run};

const NAMESPACES: usize = 12;

/// Denies whatever lives in a Namespace with the label `mark`.
fn in_marked_namespace(mark: &str) -> String {
    format!(
        r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: inmarked}}
spec:
  crd: {{spec: {{names: {{kind: InMarked}}}}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package inmarked
        violation[{{"msg": msg}}] {{ msg := sprintf("%v is in a marked namespace", [input.review.object.metadata.name]) }}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InMarked
metadata: {{name: configmaps}}
spec:
  match:
    kinds: [{{apiGroups: [""], kinds: [ConfigMap]}}]
    namespaceSelector: {{matchLabels: {{{mark}: "yes"}}}}
"#
    )
}

/// The results, each as text.
fn results(ended: &Ended) -> BTreeSet<String> {
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let result = ended.json();
    result["results"].as_array().unwrap().iter().map(Value::to_string).collect()
}

#[tokio::test]
async fn shards_judge_together_what_one_process_judges_and_nothing_twice() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mark = plane.temp_namespace("mark").await.unwrap();
    let mut objects = vec![
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1, "metadata": {"name": mark, "labels": {&mark: "yes"}}}),
    ];
    let mut namespaces = Vec::new();
    for number in 0..NAMESPACES {
        let namespace = plane.temp_namespace("shards").await.unwrap();
        for (kind, name) in [("ConfigMap", "one"), ("ServiceAccount", "two")] {
            let metadata = json!({"name": name, "namespace": namespace, "labels": {&mark: "yes"}});
            objects.push(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}));
        }
        if number % 2 == 0 {
            plane.kubectl(&["label", "namespace", &namespace, &format!("{mark}=yes")]).await.unwrap();
        }
        namespaces.push(namespace);
    }
    let objects: Vec<_> = objects.iter().map(ToString::to_string).collect();
    plane.apply(&objects.join("\n---\n")).await.unwrap();
    let files = [("marked.rego", &*denies_marked(&mark)), ("namespaces.yaml", &*in_marked_namespace(&mark))];
    let directory = policies(&files);
    let arguments = ["check", "--once", "-o", "json", "--policies", directory.path().to_str().unwrap()];
    let all = results(&run(&plane.kubeconfig(), &arguments).await);
    // Both objects of each namespace, the ConfigMaps of marked ones once more, marked ones, and what is in none.
    let marked = NAMESPACES.div_ceil(2);
    assert_eq!(all.len(), 2 * NAMESPACES + marked + marked + 1, "{all:#?}");

    for of in [2, 3] {
        let mut together = BTreeSet::new();
        let mut busy = 0;
        for index in 0..of {
            let ended =
                run(&plane.kubeconfig(), &[&arguments[..], &["--shard", &format!("{index}/{of}")]].concat()).await;
            let own = results(&ended);
            busy += usize::from(!own.is_empty());
            let places: BTreeSet<_> = own
                .iter()
                .filter_map(|text| {
                    let entry: Value = serde_json::from_str(text).unwrap();
                    let namespace = entry["resource"]["namespace"].as_str().map(str::to_owned);
                    assert!(index == 0 || namespace.is_some(), "{entry}");
                    namespace
                })
                .collect();
            let twice: Vec<_> = own.intersection(&together).collect();
            assert!(twice.is_empty(), "{twice:?}");
            println!("shard {index}/{of}: {} results in {} namespaces", own.len(), places.len());
            together.extend(own);
        }
        assert_eq!(together, all);
        assert!(busy > 1, "the test is to spread {namespaces:?}");
    }
}
