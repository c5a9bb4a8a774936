//! Random inputs in the shape of Kubernetes objects.

use serde_json::{Value, json};

use super::ModuleGenerator;

/// Paths that may get an unusual value.
const PLACES: [&str; 11] = [
    "/kind",
    "/apiVersion",
    "/metadata/name",
    "/metadata/labels",
    "/metadata/annotations",
    "/spec/replicas",
    "/spec/containers",
    "/spec/ports",
    "/spec/volumes",
    "/spec/template",
    "/spec",
];

impl ModuleGenerator {
    /// Returns a value that a field rarely has.
    pub fn odd(&mut self) -> Value {
        match self.random.u8(..12) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(false),
            3 => json!(0),
            4 => json!(1.5),
            5 => json!("web"),
            6 => json!([]),
            7 => json!({}),
            8 => json!(["a", "b"]),
            9 => json!(-9_007_199_254_740_993_i64),
            10 => json!({"ä": [{"": null}], "0": 0}),
            _ => json!({"name": "a", "image": "b"}),
        }
    }

    fn container(&mut self, index: usize) -> Value {
        if self.rarely(6) {
            return self.odd();
        }
        let images = ["web", "web:latest", "a", "registry.example.com:5000/team/web@sha256:00ff", ""];
        let mut container = json!({"name": format!("c{index}"), "image": self.one(&images)});
        if self.bool() {
            container["args"] = json!(["a", "web"]);
        }
        if self.bool() {
            container["resources"] = json!({"limits": {"memory": self.one(&["64Mi", "1G", "0.5Gi", "128"]), "cpu": 1}});
        }
        if self.bool() {
            container["securityContext"] = json!({"privileged": self.bool(), "runAsUser": self.random.u16(..3)});
        }
        if self.rarely(3) {
            container["ports"] = json!([{"containerPort": 80, "name": "web"}, {"containerPort": self.random.u16(..)}]);
        }
        if self.rarely(3) {
            container["env"] =
                json!([{"name": "a", "value": "b"}, {"name": "web", "valueFrom": {"secretKeyRef": {"name": "a"}}}]);
        }
        container
    }

    fn containers(&mut self) -> Vec<Value> {
        (0..self.random.usize(..4)).map(|index| self.container(index)).collect()
    }

    /// Returns an input in the shape of a Kubernetes object, with some unusual values.
    pub fn input(&mut self) -> Value {
        let mut input = json!({
            "kind": self.one(&["Pod", "Deployment", "a"]),
            "apiVersion": self.one(&["v1", "apps/v1"]),
            "metadata": {"name": self.one(&["web", "a"]), "labels": {"app": "web", "a": "b"}},
            "spec": {
                "replicas": self.random.u8(..4),
                "containers": self.containers(),
                "ports": [{"name": "web", "port": 80}, {"port": 81}],
            },
        });
        if self.bool() {
            input["metadata"]["namespace"] = json!(self.one(&["default", "kube-system", "a"]));
            input["metadata"]["annotations"] = json!({"example.com/a": "1", "ä": "", "web": "{\"a\": [1, 2]}"});
        }
        if self.rarely(3) {
            input["spec"]["template"] =
                json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": self.containers()}});
        }
        if self.rarely(3) {
            input["spec"]["volumes"] =
                json!([{"name": "a", "hostPath": {"path": "/var"}}, {"name": "web", "emptyDir": {}}]);
            input["spec"]["securityContext"] = json!({"runAsNonRoot": self.bool(), "fsGroup": 1000});
        }
        if self.bool() {
            input["spec"]["hostNetwork"] = json!(self.bool());
        }
        for pointer in PLACES {
            if self.rarely(14) {
                let odd = self.odd();
                if let Some(value) = input.pointer_mut(pointer) {
                    *value = odd;
                }
            }
        }
        input
    }
}
