//! Checks the types of the fields that rules iterate over: a rule about each container finds nothing where `containers`
//! is an object, although no API server accepts that.
//!
//! This is not a schema: only the lists and maps that the policy library iterates over, in kinds of Kubernetes' own API
//! groups, and the labels and annotations of every object.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{model::object::Kind, source::json::JsonKey};

/// The type of a field. `null` and missing fields match any type.
enum FieldType {
    Text,
    List(&'static Self),
    /// An object whose fields are all of one type.
    Map(&'static Self),
    /// An object in which some fields have a type.
    Object(&'static [(&'static str, Self)]),
}

use FieldType::{List, Map, Object, Text};

const TEXTS: FieldType = List(&Text);
const OBJECTS: FieldType = List(&Object(&[]));
const METADATA: (&str, FieldType) = ("metadata", Object(&[("labels", Map(&Text)), ("annotations", Map(&Text))]));
const CONTAINERS: FieldType = List(&Object(&[
    ("env", OBJECTS),
    ("ports", OBJECTS),
    ("securityContext", Object(&[("capabilities", Object(&[("add", TEXTS), ("drop", TEXTS)]))])),
]));
const POD_SPEC: (&str, FieldType) = (
    "spec",
    Object(&[
        ("containers", CONTAINERS),
        ("initContainers", CONTAINERS),
        ("ephemeralContainers", CONTAINERS),
        ("volumes", OBJECTS),
        ("securityContext", Object(&[("sysctls", OBJECTS)])),
    ]),
);
const TEMPLATE: (&str, FieldType) = ("template", Object(&[METADATA, POD_SPEC]));
const WORKLOAD: (&str, FieldType) = ("spec", Object(&[TEMPLATE]));
const ROLE_RULES: FieldType =
    List(&Object(&[("apiGroups", TEXTS), ("resources", TEXTS), ("resourceNames", TEXTS), ("verbs", TEXTS)]));

/// Returns the type of the objects of a kind.
fn type_of(kind: &Kind) -> FieldType {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => Object(&[METADATA, POD_SPEC]),
        ("", "PodTemplate") => Object(&[METADATA, TEMPLATE]),
        (
            "" | "apps" | "extensions",
            "DaemonSet" | "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet",
        )
        | ("" | "batch" | "extensions", "Job") => Object(&[METADATA, WORKLOAD]),
        ("" | "batch", "CronJob") => {
            Object(&[METADATA, ("spec", Object(&[("jobTemplate", Object(&[METADATA, WORKLOAD]))]))])
        }
        ("", "LimitRange") => Object(&[METADATA, ("spec", Object(&[("limits", OBJECTS)]))]),
        ("", "Service") => Object(&[METADATA, ("spec", Object(&[("externalIPs", TEXTS), ("ports", OBJECTS)]))]),
        ("extensions" | "networking.k8s.io", "Ingress") => {
            Object(&[METADATA, ("spec", Object(&[("rules", OBJECTS), ("tls", List(&Object(&[("hosts", TEXTS)])))]))])
        }
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => Object(&[METADATA, ("rules", ROLE_RULES)]),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => {
            Object(&[METADATA, ("subjects", OBJECTS)])
        }
        _ => Object(&[METADATA]),
    }
}

/// Returns the first field of an object of `kind` that has a wrong type, and how to fix it; values are not shown.
pub(super) fn problem(kind: &Kind, json: &str) -> Option<String> {
    let mut misfit = None;
    let checked = FieldCheck { wanted: &type_of(kind), misfit: &mut misfit };
    // Invalid JSON is reported where the object is read.
    checked.deserialize(&mut serde_json::Deserializer::from_str(json)).ok()?;
    let Misfit { path, found, wanted } = misfit?;
    let quotes =
        if wanted == "a string" && matches!(found, "a number" | "a boolean") { ": put it in quotes" } else { "" };
    Some(format!("{} is {found}, not {wanted}{quotes}", path.strip_prefix('.').unwrap_or(&path)))
}

/// A value of a wrong type.
struct Misfit {
    /// Its path from the value that is checked, for example `.spec.containers[0].env`.
    path: String,
    found: &'static str,
    wanted: &'static str,
}

/// Checks a value while it is skipped.
struct FieldCheck<'c> {
    wanted: &'c FieldType,
    /// The first misfit so far.
    misfit: &'c mut Option<Misfit>,
}

impl FieldCheck<'_> {
    /// Compares the type of the value with that of the field.
    fn compare(self, found: &'static str) {
        let wanted = match self.wanted {
            Text => "a string",
            List(_) => "a list",
            Map(_) | Object(_) => "an object",
        };
        if wanted != found && self.misfit.is_none() {
            *self.misfit = Some(Misfit { path: String::new(), found, wanted });
        }
    }

    /// Checks a part of the value, which `read` skips; `name` is its name in the path.
    fn part<E>(
        &mut self,
        wanted: &FieldType,
        name: impl FnOnce() -> String,
        read: impl FnOnce(FieldCheck<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut own = None;
        read(FieldCheck { wanted, misfit: &mut own })?;
        if let (None, Some(own)) = (&self.misfit, own) {
            *self.misfit = Some(Misfit { path: name() + &own.path, ..own });
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for FieldCheck<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldCheck<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(JsonKey(key)) = map.next_key::<JsonKey<'de>>()? {
            let wanted = self.wanted;
            match wanted {
                Map(all) => self.part(all, || format!("[{key:?}]"), |part| map.next_value_seed(part))?,
                Object(known) => match known.iter().find(|(name, _)| *name == key) {
                    Some((name, wanted)) => {
                        self.part(wanted, || format!(".{name}"), |part| map.next_value_seed(part))?;
                    }
                    None => drop(map.next_value::<IgnoredAny>()?),
                },
                Text | List(_) => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        self.compare("an object");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        if let List(wanted) = self.wanted {
            let (mut index, mut ended) = (0_usize, false);
            while !ended {
                let read = |part: FieldCheck<'_>| items.next_element_seed(part).map(|item| ended = item.is_none());
                self.part(wanted, || format!("[{index}]"), read)?;
                index += 1;
            }
        } else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
        }
        self.compare("a list");
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.compare("a string");
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.compare("a boolean");
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.compare("a number");
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.compare("a number");
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.compare("a number");
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::parse::kind_of, *};

    fn problem_of(api_version: &str, kind: &str, path: &str, value: &str) -> Option<String> {
        let json = path.rsplit('.').fold(value.to_owned(), |value, part| match part.strip_suffix("[0]") {
            Some(part) => format!("{{\"x\":[1],\"{part}\":[{value}],\"y\":{{}}}}"),
            None => format!("{{\"x\":[1],\"{part}\":{value},\"y\":{{}}}}"),
        });
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
        problem(&kind_of(api_version, kind), &json)
    }

    const VALUES: [(&str, &str); 6] = [
        ("{\"name\":\"a\"}", "an object"),
        ("[]", "a list"),
        ("\"text\"", "a string"),
        ("true", "a boolean"),
        ("1.5", "a number"),
        ("-1", "a number"),
    ];

    /// Asserts that a field of this type accepts `null` and values of the type, and that others are reported.
    fn assert_type(api_version: &str, kind: &str, path: &str, wanted: &str) {
        assert_eq!(problem_of(api_version, kind, path, "null"), None, "{kind} {path}");
        for (value, found) in VALUES {
            let quotes = if wanted == "a string" && matches!(found, "a number" | "a boolean") {
                ": put it in quotes"
            } else {
                ""
            };
            let want = (wanted != found).then(|| format!("{path} is {found}, not {wanted}{quotes}"));
            assert_eq!(problem_of(api_version, kind, path, value), want, "{kind}");
        }
    }

    #[test]
    fn lists_and_objects_of_pods_are_checked_in_every_kind_with_a_pod() {
        for (api_version, kind, holder) in [
            ("v1", "Pod", ""),
            ("v1", "PodTemplate", "template."),
            ("v1", "ReplicationController", "spec.template."),
            ("apps/v1", "Deployment", "spec.template."),
            ("v1", "Deployment", "spec.template."),
            ("extensions/v1beta1", "Deployment", "spec.template."),
            ("apps/v1", "DaemonSet", "spec.template."),
            ("apps/v1beta2", "StatefulSet", "spec.template."),
            ("apps/v1", "ReplicaSet", "spec.template."),
            ("batch/v1", "Job", "spec.template."),
            ("batch/v1", "CronJob", "spec.jobTemplate.spec.template."),
        ] {
            let is = |path: &str, wanted: &str| assert_type(api_version, kind, &format!("{holder}{path}"), wanted);
            for list in ["containers", "initContainers", "ephemeralContainers"] {
                is(&format!("spec.{list}"), "a list");
                is(&format!("spec.{list}[0]"), "an object");
                is(&format!("spec.{list}[0].env"), "a list");
                is(&format!("spec.{list}[0].ports"), "a list");
                is(&format!("spec.{list}[0].securityContext.capabilities.add"), "a list");
                is(&format!("spec.{list}[0].securityContext.capabilities.drop[0]"), "a string");
            }
            is("spec", "an object");
            is("spec.volumes", "a list");
            is("spec.securityContext", "an object");
            is("spec.securityContext.sysctls", "a list");
        }
    }

    #[test]
    fn other_lists_that_the_library_iterates_over_are_checked() {
        const RBAC: &str = "rbac.authorization.k8s.io/v1";
        for (api_version, kind, path, wanted) in [
            ("v1", "LimitRange", "spec.limits", "a list"),
            ("v1", "Service", "spec.externalIPs", "a list"),
            ("v1", "Service", "spec.ports", "a list"),
            ("networking.k8s.io/v1", "Ingress", "spec.rules", "a list"),
            ("networking.k8s.io/v1", "Ingress", "spec.tls", "a list"),
            ("extensions/v1beta1", "Ingress", "spec.tls[0].hosts", "a list"),
            (RBAC, "Role", "rules", "a list"),
            (RBAC, "ClusterRole", "rules[0].verbs", "a list"),
            (RBAC, "ClusterRole", "rules[0].resources[0]", "a string"),
            (RBAC, "RoleBinding", "subjects", "a list"),
            (RBAC, "ClusterRoleBinding", "subjects[0]", "an object"),
        ] {
            assert_type(api_version, kind, path, wanted);
        }
    }

    #[test]
    fn labels_and_annotations_of_all_objects_are_strings() {
        for (api_version, kind) in [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("example.com/v1", "Widget")] {
            for field in ["labels", "annotations"] {
                assert_type(api_version, kind, &format!("metadata.{field}"), "an object");
                let with = |value: &str| {
                    let json = format!(r#"{{"metadata":{{"name":"a","{field}":{{"a":"b","on":{value}}}}}}}"#);
                    problem(&kind_of(api_version, kind), &json)
                };
                assert_eq!([with("null"), with("\"yes\"")], [None, None]);
                let misfit = |found: &str| Some(format!("metadata.{field}[\"on\"] is {found}"));
                assert_eq!(with("true"), misfit("a boolean, not a string: put it in quotes"));
                assert_eq!(with("[1]"), misfit("a list, not a string"));
            }
        }
        let want = "spec.template.metadata.labels[\"a\"] is a number, not a string: put it in quotes";
        let json = r#"{"spec":{"template":{"metadata":{"labels":{"a":12345}}}}}"#;
        assert_eq!(problem(&kind_of("batch/v1", "Job"), json).as_deref(), Some(want));
    }

    #[test]
    fn fields_without_a_known_type_are_not_checked() {
        for (api_version, kind, path) in [
            ("example.com/v1", "Pod", "spec.containers"),
            ("example.com/v1", "Deployment", "spec.template.spec.containers"),
            ("v1", "ConfigMap", "data"),
            ("v1", "Pod", "spec.nodeName"),
            ("v1", "Pod", "status"),
            ("v1", "Pod", "spec.containers[0].image"),
        ] {
            for (value, _) in VALUES {
                assert_eq!(problem_of(api_version, kind, path, value), None, "{kind} {path} {value}");
            }
        }
        assert_eq!(problem(&kind_of("v1", "Pod"), "{\"spec\":"), None);
    }

    #[test]
    fn the_first_of_several_problems_is_reported() {
        let json = r#"{"spec":{"containers":[{},{"env":1},2],"volumes":3},"metadata":{"labels":{"a":4}}}"#;
        let want = "spec.containers[1].env is a number, not a list";
        assert_eq!(problem(&kind_of("v1", "Pod"), json).as_deref(), Some(want));
    }
}
