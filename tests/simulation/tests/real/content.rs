//! Random objects.

use serde_json::{Value, json};

use crate::generator::{Generator, WrittenKind};

impl Generator {
    /// Returns a random object of a kind; `partial` omits most fields.
    pub(crate) fn content(&mut self, kind: WrittenKind, partial: bool) -> Value {
        let mut object = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}});
        if self.one_of(2) {
            let label = self.pick(&["x", "y", "z"]);
            object["metadata"]["labels"] = json!({self.pick(&["app", "tier"]): label});
        }
        if self.one_of(6) {
            object["metadata"]["annotations"] = json!({"example.com/note": self.random.u32(0..3).to_string()});
        }
        if self.one_of(8) {
            object["metadata"]["finalizers"] = json!(["example.com/wait"]);
        }
        match kind.kind {
            "ConfigMap" => {
                for key in ["a", "b", "c"] {
                    if self.one_of(2) {
                        object["data"][key] = self.random.u32(0..3).to_string().into();
                    }
                }
            }
            "Lease" => {
                object["spec"]["holderIdentity"] = self.pick(&["x", "y"]).into();
                if self.one_of(2) {
                    object["spec"]["leaseDurationSeconds"] = self.random.u32(10..13).into();
                }
            }
            "Event" if kind.api_version == "v1" => {
                let namespace = self.namespace_name(0);
                object["involvedObject"] = json!({"kind": "Pod", "namespace": namespace, "name": "p"});
                object["reason"] = "Tested".into();
                object["message"] = self.pick(&["one", "two"]).into();
                object["type"] = "Normal".into();
            }
            "Event" => {
                let namespace = self.namespace_name(0);
                object["regarding"] = json!({"kind": "Pod", "namespace": namespace, "name": "p"});
                object["eventTime"] = "2026-01-02T03:04:05.000006Z".into();
                object["note"] = self.pick(&["one", "two"]).into();
                for (field, value) in [
                    ("action", "Test"),
                    ("reason", "Tested"),
                    ("type", "Normal"),
                    ("reportingController", "example.com/c"),
                    ("reportingInstance", "i"),
                ] {
                    if field != "action" || !self.one_of(20) {
                        object[field] = value.into();
                    }
                }
            }
            "Thing" => {
                object["spec"] = json!({"n": self.random.u32(0..3), "list": [self.random.u32(0..2)]});
                if self.one_of(3) {
                    object["spec"]["deep"] = json!({self.pick(&["k", "l"]): {"m": self.random.u32(0..2)}});
                }
                if !self.mixes_versions() && self.one_of(4) {
                    object["status"] = json!({"seen": self.random.u32(0..3)});
                }
            }
            _ => self.boxed(&mut object, partial),
        }
        object
    }

    fn boxed(&mut self, object: &mut Value, partial: bool) {
        object["spec"] = json!({});
        if !partial && !self.one_of(12) {
            object["spec"]["size"] = self.random.u32(1..4).into();
        }
        if self.one_of(10) {
            object["spec"]["size"] = self.pick(&[json!(0), json!("big"), json!(null)]);
        }
        if self.one_of(4) {
            object["spec"]["colour"] = self.pick(&["red", "blue", "blue", "green"]).into();
        }
        if self.one_of(5) {
            object["spec"]["name"] = self.pick(&["short", "short", "too long"]).into();
        }
        if self.one_of(3) {
            object["spec"]["tags"] = self.pick(&[&["a"][..], &["b"], &["a", "b"]]).into();
        }
        if self.one_of(3) {
            let part = |id: &str, n: u32| json!({"id": id, "n": n});
            let (first, second) = (part("p", self.random.u32(0..2)), part("q", self.random.u32(0..2)));
            object["spec"]["parts"] = if self.one_of(2) { json!([first]) } else { json!([second, first]) };
        }
        if self.one_of(4) {
            object["spec"]["labels"] = json!({self.pick(&["k", "l"]): "v"});
        }
        if self.one_of(15) {
            object["spec"]["unknown"] = json!({"a": 1});
        }
    }
}
