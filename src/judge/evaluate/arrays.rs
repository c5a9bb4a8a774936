//! Evaluates rules that relate objects to each other, at most once for each array of objects and state of the
//! inventory.

use std::{collections::BTreeSet, sync::Arc};

use super::array_rules::array_results;
use crate::judge::{
    dialects::kubescape::{
        arrays::{ArraySource, Identity, RuleArrays},
        rule::RuleInput,
    },
    inventory::Inventory,
    set::PolicySet,
    unit::UnitForm,
};

/// Returns the policies with an inventory for lookups.
#[must_use]
pub fn with_inventory(policies: &PolicySet, inventory: &Inventory) -> PolicySet {
    with_arrays(policies.with_objects(inventory), inventory, None)
}

/// Provides the rules that relate objects with the arrays of an inventory. Results for arrays whose objects are the
/// same as in `before` are kept.
pub(crate) fn with_arrays(mut policies: PolicySet, inventory: &Inventory, before: Option<&PolicySet>) -> PolicySet {
    for (index, unit) in policies.units.iter_mut().enumerate() {
        let before = before.and_then(|before| before.units.get(index)?.arrays());
        if let UnitForm::Kubescape { rule, arrays } = &mut unit.form
            && rule.input != RuleInput::One
        {
            let source = ArraySource::new(inventory, &rule.matching, rule.input == RuleInput::Cluster);
            *arrays = Some(Arc::new(RuleArrays::new(&source, before.map(|before| &**before))));
        }
    }
    policies
}

/// Returns the objects for which rules that relate objects may have different results, because related objects changed.
/// The rules are evaluated to find out, and their results are kept for the verdicts on these objects.
pub(crate) fn with_other_results(policies: &PolicySet) -> BTreeSet<Identity> {
    let mut all = BTreeSet::new();
    for unit in &policies.units {
        let (Some(arrays), Some(group)) = (unit.arrays(), unit.groups.first()) else { continue };
        all.extend(arrays.differing(|array| array_results(unit, group, array)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::evaluate::{Job, evaluate},
        model::{
            object::{Kind, Object, ObjectKey},
            verdict::Finding,
        },
        rego::value,
    };

    /// Writes a rule in Kubescape's layout that lists the kinds of its array and returns the list for each Pod.
    fn library(directory: &std::path::Path) {
        let rule = directory.join("rules/listed");
        std::fs::create_dir_all(&rule).unwrap();
        let matching = r#"{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["Namespace", "Pod", "Node"]}"#;
        let metadata = format!(r#"{{"name": "listed", "ruleLanguage": "Rego", "match": [{}]}}"#, {
            let one = |kind: &str| matching.replace(r#""Namespace", "Pod", "Node""#, &format!(r#""{kind}""#));
            ["Namespace", "Pod", "Node"].map(one).join(", ")
        });
        std::fs::write(rule.join("rule.metadata.json"), metadata).unwrap();
        let module = "package armo_builtins\n\ndeny contains result if {\n\tpod := input[_]\n\tpod.kind == \"Pod\"\n\t\
            kinds := [object.kind | object := input[_]]\n\t\
            result := {\"alertMessage\": concat(\" \", kinds), \"alertObject\": {\"k8sApiObjects\": [pod]}}\n}\n";
        std::fs::write(rule.join("raw.rego"), module).unwrap();
    }

    fn object(kind: &str, namespace: Option<&str>, name: &str) -> (ObjectKey, String) {
        let place = namespace.map_or(String::new(), |namespace| format!(r#","namespace":"{namespace}""#));
        let json = format!(r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"{name}"{place}}}}}"#);
        let kind = Kind::sample("", &format!("{}s", kind.to_lowercase()), kind);
        (ObjectKey { kind, namespace: namespace.map(Into::into), name: name.into(), copy: 0 }, json)
    }

    #[test]
    fn an_array_is_ordered_by_match_and_evaluated_only_for_its_objects() {
        let directory = tempfile::tempdir().unwrap();
        library(directory.path());
        let loaded = PolicySet::load(&[directory.path().to_owned()]).unwrap();
        let objects = [
            object("Pod", Some("a"), "p"),
            object("Pod", Some("b"), "p"),
            object("Namespace", None, "a"),
            object("Namespace", None, "b"),
            object("Node", None, "n"),
        ];
        let mut inventory = Inventory::default();
        for (key, json) in &objects {
            inventory.put(key, Some(&value::from_json(json.as_bytes()).unwrap()));
        }
        let policies = Arc::new(with_inventory(&loaded, &inventory));
        let evaluated = |policies: &PolicySet| policies.units[0].arrays().unwrap().evaluated();
        assert_eq!(evaluated(&policies), 0);
        let (key, json) = &objects[0];
        let object = Object::sample(key.clone(), json.as_bytes());
        let job = Job { object, previous: None, deleted: false, namespace: None, policies: Arc::clone(&policies) };
        let results: Vec<Finding> = evaluate(&job).results;
        assert_eq!(results.iter().map(|finding| &*finding.message).collect::<Vec<_>>(), ["Namespace Pod Node"]);
        assert_eq!(evaluated(&policies), 1, "that of the other namespace is not needed");
        let again = with_arrays(loaded.with_objects(&inventory), &inventory, Some(&policies));
        assert_eq!(evaluated(&again), 1, "its objects are the same");
        assert!(with_other_results(&again).is_empty());
    }
}
