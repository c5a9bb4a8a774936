//! Compares the expansion of objects by `ExpansionTemplate`s with that of gator.

use super::*;

/// Constraint, object, message and action.
type Violations = BTreeSet<[String; 4]>;

#[test]
fn gator_expands_the_same_objects() {
    if !require_tool(Tool::Gator) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let namespaces = documents("namespaces.yaml");
    // Scoped actions depend on the enforcement point, and gator matches cluster-scoped objects as if in a nameless Namespace.
    let is_compared = |constraint: &Value| {
        constraint.pointer("/spec/enforcementAction").is_none_or(|action| action != "scoped")
            && constraint.pointer("/spec/match/scope").is_none()
            && constraint.pointer("/spec/match/namespaceSelector").is_none()
    };
    let echo = documents("constraints.yaml").into_iter().filter(is_compared);
    let policies = documents("template.yaml").into_iter().chain(echo).chain(documents("expansion/templates.yaml"));
    for (index, policy) in policies.enumerate() {
        write(root.path(), &format!("policy-{index}.yaml"), &policy);
    }
    let policies = Arc::new(PolicySet::load(&[root.path().to_owned()]).unwrap());
    let objects = documents("expansion/objects.yaml");
    let mut own = Violations::new();
    for object in &objects {
        for finding in evaluate_object(&policies, object, &namespaces) {
            let name = object["metadata"].to_string();
            let action = finding.outcome.word().to_owned();
            own.insert([finding.rule.name.to_string(), name, finding.message.to_string(), action]);
        }
    }
    for (index, object) in objects.iter().chain(&namespaces).enumerate() {
        write(root.path(), &format!("object-{index}.yaml"), object);
    }
    let output = gator(&["test", "--filename", root.path().to_str().unwrap(), "--output", "json"]);
    let results: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)));
    // gator also checks the policies and the Namespaces.
    let is_checked = |object: &Value| objects.iter().any(|one| one["metadata"] == object["metadata"]);
    let checked = results.iter().filter(|result| is_checked(&result["violatingObject"]));
    let by_gator: Violations = checked
        .map(|result| {
            let action = if result["enforcementAction"] == "deny" { "fail" } else { "warn" };
            let [name, message] = ["/constraint/metadata/name", "/msg"].map(|pointer| text(result, pointer).to_owned());
            [name, result["violatingObject"]["metadata"].to_string(), message, action.to_owned()]
        })
        .collect();
    let implied = by_gator.iter().filter(|violation| violation[2].starts_with("[Implied by ")).count();
    assert!(implied > 100, "{implied} of {}", by_gator.len());
    let (more, less): (Vec<_>, Vec<_>) = (own.difference(&by_gator).collect(), by_gator.difference(&own).collect());
    assert!(more.is_empty() && less.is_empty(), "kaudit only: {more:#?}\ngator only: {less:#?}");
}

#[test]
fn results_of_generated_objects_name_the_field_of_the_workload() {
    let root = tempfile::tempdir().unwrap();
    for (index, policy) in documents("expansion/templates.yaml").iter().enumerate() {
        write(root.path(), &format!("policy-{index}.yaml"), policy);
    }
    let policies = Arc::new(PolicySet::load(&[root.path().to_owned()]).unwrap());
    let objects = documents("expansion/objects.yaml");
    let cron_job = objects.iter().find(|object| object["kind"] == "CronJob").unwrap();
    let findings = evaluate_object(&policies, cron_job, &documents("namespaces.yaml"));
    let fields: BTreeSet<String> = findings
        .iter()
        .filter(|finding| &*finding.rule.name == "show-generated")
        .map(|finding| finding.details.as_ref().unwrap()["field"].as_str().unwrap().to_owned())
        .collect();
    let expected = ["spec.jobTemplate.spec.containers", "spec.jobTemplate.spec.template.spec.containers"];
    assert_eq!(fields, BTreeSet::from(expected.map(str::to_owned)));
}
