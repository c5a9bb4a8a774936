//! The fields of an object to change, as one patch for all results that name a correct value.

use serde_json::{Value, json};

use crate::{audit::result::Entry, model::object::ObjectRef, source::manifest::field_keys};

/// Lists whose items a strategic merge patch finds by their name.
const BY_NAME: [&str; 4] = ["containers", "initContainers", "ephemeralContainers", "volumes"];
/// API groups that accept a strategic merge patch, of those with lists above; the others accept only a merge patch.
const GROUPS: [&str; 3] = ["", "apps", "batch"];

/// Returns the fields of an object and their correct values, as a strategic merge patch for kinds that accept one and
/// otherwise as a merge patch. Fields within lists whose items have no name are left out. `None` if no result names a value.
pub(super) fn patch(object: &ObjectRef, entries: &[&Entry]) -> Option<Value> {
    let mut patch = json!({});
    for entry in entries.iter().filter(|entry| entry.result.is_violation()) {
        // A dependent has other paths.
        if *entry.resource == *object
            && let (Some(field), Some(value)) = (entry.field(), entry.details.get("fix"))
        {
            let name = entry.details.get("container").and_then(Value::as_str);
            if let Some(steps) = steps(&field_keys(field), name.filter(|_| is_strategic(object))) {
                set(&mut patch, &steps, value);
            }
        }
    }
    patch.as_object().is_some_and(|fields| !fields.is_empty()).then_some(patch)
}

/// Whether an object's kind accepts a strategic merge patch.
pub(super) fn is_strategic(object: &ObjectRef) -> bool {
    GROUPS.contains(&object.group())
}

/// A step of a path in a patch.
enum Step<'k> {
    Field(&'k str),
    /// The item of a list with this name.
    Item(&'k str),
}

/// Returns the steps of a path; `None` if it contains an item of a list that cannot be found by a name.
fn steps<'k>(keys: &[&'k str], item: Option<&'k str>) -> Option<Vec<Step<'k>>> {
    let is_index = |key: &str| key.bytes().all(|byte| byte.is_ascii_digit());
    let mut list = "";
    let mut steps = Vec::new();
    for key in keys {
        steps.push(match is_index(key) {
            true if BY_NAME.contains(&list) => Step::Item(item?),
            true => return None,
            false => Step::Field(key),
        });
        list = key;
    }
    Some(steps)
}

/// Sets the value at the end of a path, and creates what is missing on the way.
fn set(mut place: &mut Value, steps: &[Step<'_>], value: &Value) {
    for step in steps {
        place = match step {
            Step::Field(key) => {
                if !place.is_object() {
                    *place = json!({});
                }
                &mut place[*key]
            }
            Step::Item(name) => {
                if !place.is_array() {
                    *place = json!([]);
                }
                let Value::Array(items) = place else { return };
                let at = items.iter().position(|item| item["name"] == **name).unwrap_or(items.len());
                if at == items.len() {
                    items.push(json!({"name": name}));
                }
                &mut items[at]
            }
        };
    }
    *place = value.clone();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        model::verdict::Outcome,
        output::tests::{entry, resource},
    };

    fn result(details: &Value) -> Entry {
        let mut found = entry(resource("apps/v1", "Deployment", "shop", "web"), "p", "deny", Outcome::Fail, "m");
        found.details = details.as_object().unwrap().clone();
        found
    }

    #[test]
    fn fixes_of_all_results_become_one_patch() {
        let pod = "spec.template.spec";
        let results = [
            json!({"field": format!("{pod}.hostNetwork"), "fix": null}),
            json!({"field": format!("{pod}.containers[1].securityContext.privileged"), "container": "b", "fix": false}),
            json!({"field": format!("{pod}.containers[0].securityContext.privileged"), "container": "a", "fix": false}),
            json!({"field": format!("{pod}.containers[1].securityContext.capabilities.drop"), "container": "b", "fix": ["ALL"]}),
            json!({"field": format!("{pod}.containers[1].ports[0].hostPort"), "container": "b", "fix": null}),
            json!({"field": format!("{pod}.containers[1].resources"), "container": "b"}),
        ]
        .map(|details| result(&details));
        let object = Arc::clone(&results[0].resource);
        let patched = patch(&object, &results.iter().collect::<Vec<_>>()).unwrap();
        let capabilities = json!({"privileged": false, "capabilities": {"drop": ["ALL"]}});
        let containers = json!([
            {"name": "b", "securityContext": capabilities},
            {"name": "a", "securityContext": {"privileged": false}},
        ]);
        assert_eq!(patched, json!({"spec": {"template": {"spec": {"hostNetwork": null, "containers": containers}}}}));
        assert_eq!(patch(&object, &[&results[5]]), None);
        let other = resource("v1", "Pod", "shop", "web");
        assert_eq!(patch(&other, &[&results[0]]), None);
    }

    #[test]
    fn a_merge_patch_does_not_replace_lists() {
        let mut found = result(&json!({"field": "spec.containers[0].image", "container": "a", "fix": "b"}));
        found.resource = resource("example.com/v1", "Widget", "shop", "web").into();
        assert_eq!(patch(&found.resource.clone(), &[&found]), None);
    }
}
