//! System components: their violations of the library's rules are excused, and no others.

use std::collections::BTreeSet;

use insta_cmd::assert_cmd_snapshot;
use kaudit_test_support::files::folder;
use serde_json::Value;

use crate::kaudit;

const COMPONENTS: &str = include_str!("system.yaml");

/// Checks manifests with the library.
fn check(manifests: &str, arguments: &[&str]) -> Value {
    let folder = folder(&[("system.yaml", manifests)]);
    let command = [&["check", "-f", ".", "-o", "json", "-p", "builtin"], arguments].concat();
    let ended = kaudit(folder.path(), &command).output().unwrap();
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"))
}

/// Returns the results that have one of these outcomes, as object and rule.
fn results(result: &Value, outcomes: &[&str]) -> BTreeSet<String> {
    let entries = result["results"].as_array().unwrap().iter();
    let entries = entries.filter(|entry| outcomes.iter().any(|outcome| entry["result"] == *outcome));
    let shown =
        |entry: &Value| format!("{} {}", entry["resource"]["name"].as_str().unwrap(), entry["rule"].as_str().unwrap());
    entries.map(shown).collect()
}

/// Returns violations of all outcomes.
fn violations(result: &Value) -> BTreeSet<String> {
    results(result, &["fail", "warn"])
}

#[test]
fn violations_of_system_components_are_excused_except_with_the_strict_profile() {
    let result = check(COMPONENTS, &[]);
    assert_eq!(violations(&result), BTreeSet::new());
    let excused = results(&result, &["skip"]);
    let strict = violations(&check(COMPONENTS, &["--profile", "strict"]));
    assert!(excused.is_subset(&strict) && excused.len() > 40, "{excused:?}");
    let folder = folder(&[("system.yaml", COMPONENTS)]);
    assert_cmd_snapshot!(
        "system_components",
        kaudit(folder.path(), &["check", "-f", ".", "-p", "builtin", "--profile", "minimal"])
    );
    let exceptions = result["exceptions"].as_array().unwrap();
    let exception = exceptions.iter().find(|one| one["name"] == "system:kube-proxy").unwrap();
    assert_eq!((&exception["state"], exception.get("expiresAt")), (&"active".into(), None));
    assert!(exceptions.iter().all(|one| one["results"] != 0), "unused ones are not listed");
}

#[test]
fn other_namespaces_names_and_rules_are_not_excused() {
    for (from, to, violation) in [
        ("namespace: kube-system", "namespace: shop", "kube-proxy deny_privileged"),
        ("name: kube-proxy, ", "name: proxy, ", "proxy deny_privileged"),
        ("kind: DaemonSet", "kind: StatefulSet", "kindnet deny_host_namespaces"),
        ("\"eks:addon-cluster-admin\"}\nroleRef", "\"eks:others\"}\nroleRef", "eks:others deny_cluster_admin"),
        ("User, name: \"eks:addon-manager\"", "User, name: ann", "eks:addon-cluster-admin deny_cluster_admin"),
        (
            "User, name: \"eks:addon-manager\"",
            "ServiceAccount, name: \"eks:addon-manager\", namespace: shop",
            "eks:addon-cluster-admin deny_cluster_admin",
        ),
        (
            "namespace: kube-system, name: helm-traefik}",
            "namespace: shop, name: helm-traefik}",
            "helm-kube-system-traefik deny_cluster_admin",
        ),
        ("kube-public", "kube-system", "kubeadm:bootstrap-signer-clusterinfo deny_anonymous"),
    ] {
        let changed = COMPONENTS.replace(from, to);
        assert_ne!(changed, COMPONENTS, "{from}");
        let found = violations(&check(&changed, &[]));
        assert!(found.contains(violation), "{from} → {to}: {found:?}");
    }
    // coredns does not need privileges, so they are not excused.
    let privileged = COMPONENTS.replace("allowPrivilegeEscalation: false\n", "privileged: true\n");
    assert_eq!(violations(&check(&privileged, &[])), ["coredns deny_privileged".to_owned()].into());
}

#[test]
fn rules_of_other_sources_are_not_excused() {
    let folder = folder(&[
        ("system.yaml", COMPONENTS),
        (
            "own/own.rego",
            "# METADATA\n# custom: {id: KPS-B03}\npackage own\n\ndeny contains \"own\" if input.kind == \"DaemonSet\"\n",
        ),
    ]);
    let arguments = ["check", "-f", "system.yaml", "-p", "builtin", "-p", "own", "-o", "json"];
    let result: Value = serde_json::from_slice(&kaudit(folder.path(), &arguments).output().unwrap().stdout).unwrap();
    assert_eq!(result["summary"]["fail"], 5);
}

#[test]
fn an_object_of_the_cluster_is_not_excused_as_the_dependent_of_a_component() {
    let role = |name: &str, more: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}, {more}}}\nrules:\n\
             - {{apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}}\n"
        )
    };
    let owner = "ownerReferences: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: \
                 local-path-provisioner-role, uid: u1, controller: true}]";
    let forged = role("forged", owner);
    let manifests = [role("local-path-provisioner-role", "uid: u1"), forged.clone()].join("---\n");
    let of_forged = |found: BTreeSet<String>| found.into_iter().filter(|row| row.starts_with("forged ")).collect();
    let found: BTreeSet<String> = of_forged(violations(&check(&manifests, &[])));
    let alone: BTreeSet<String> = of_forged(violations(&check(&forged, &[])));
    assert!(!alone.is_empty() && found == alone, "{found:?} {alone:?}");
    let excused = results(&check(&manifests, &[]), &["skip"]);
    assert!(excused.iter().any(|row| row.starts_with("local-path-provisioner-role ")), "{excused:?}");
}
