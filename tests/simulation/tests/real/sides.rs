//! The two servers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::{Method, header};
use http_body_util::BodyExt as _;
use kaudit_controlplane::ControlPlane;
use kaudit_simulation::server::{ADMIN, ApiServer, NoFaults, Settings};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::normal::{Captures, TestAnswer};

/// Timeout of every operation.
const PATIENCE: Duration = Duration::from_mins(2);

/// One request. Texts like `{v0}` are replaced by values of earlier responses of each server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TestRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Option<String>,
    /// The user, if not the administrator.
    pub(crate) user: Option<&'static str>,
}

impl TestRequest {
    pub(crate) fn new(method: Method, path: String, body: Option<Value>) -> Self {
        let body = body.map(|body| body.to_string());
        Self { method, path, accept: "application/json", content_type: "application/json", body, user: None }
    }
}

pub(crate) struct Sides {
    real: Client,
    pub(crate) simulated: ApiServer,
}

impl Sides {
    pub(crate) fn new(plane: &ControlPlane) -> Self {
        Self { real: plane.admin().unwrap(), simulated: ApiServer::new(Settings::default()) }
    }

    /// Creates custom resource definitions in both.
    pub(crate) async fn prepare(&self) {
        for crd in definitions() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
            let request = TestRequest::new(Method::POST, path, Some(crd.clone()));
            let [real, simulated] = self.request_both(&request, &Captures::default()).await;
            assert_eq!((real.code, simulated.code), (201, 201), "{real:?} {simulated:?}");
            self.simulated.tick();
        }
        self.wait_for_custom_resources().await;
    }

    /// Waits until the real server serves the custom resources: it returns 404 and 429 until its caches are filled.
    pub(crate) async fn wait_for_custom_resources(&self) {
        for plural in ["things", "boxes"] {
            let list = TestRequest::new(Method::GET, format!("/apis/shop.example.com/v1/{plural}"), None);
            let deadline = Instant::now() + PATIENCE;
            loop {
                let answer = self.real(&list, &Captures::default()).await;
                if answer.code == 200 {
                    break;
                }
                assert!(Instant::now() < deadline, "{answer:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Waits until the real server has read the roles and bindings of a namespace into its cache.
    pub(crate) async fn wait_for_rights(&self, path: &str) {
        let namespace = path.split('/').skip_while(|part| *part != "namespaces").nth(1).unwrap_or_default();
        let account = "system:serviceaccount:default:reader";
        let deadline = Instant::now() + PATIENCE;
        for (verb, group, resource, name) in [
            ("get", "", "configmaps", "a"),
            ("get", "", "configmaps", "b"),
            ("list", "", "configmaps", ""),
            ("delete", "", "configmaps", "b"),
            ("get", "shop.example.com", "things", "b"),
            ("list", "shop.example.com", "things", ""),
            ("get", "shop.example.com", "boxes", "b"),
            ("get", "coordination.k8s.io", "leases", "b"),
        ] {
            let attributes =
                json!({"namespace": namespace, "verb": verb, "group": group, "resource": resource, "name": name});
            let groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:default"];
            let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {"user": account, "groups": groups, "resourceAttributes": attributes}});
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned();
            let request = TestRequest::new(Method::POST, path, Some(review));
            loop {
                let [real, simulated] = self.request_both(&request, &Captures::default()).await;
                if real.values[0]["status"] == simulated.values[0]["status"] {
                    break;
                }
                assert!(Instant::now() < deadline, "{real:?} {simulated:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    pub(crate) async fn request_both(&self, request: &TestRequest, captures: &Captures) -> [TestAnswer; 2] {
        let (real, simulated) = tokio::join!(self.real(request, captures), self.simulated(request, captures));
        [real, simulated]
    }

    async fn real(&self, request: &TestRequest, captures: &Captures) -> TestAnswer {
        send(&self.real, request, 0, captures).await
    }

    async fn simulated(&self, request: &TestRequest, captures: &Captures) -> TestAnswer {
        let service = self.simulated.service(request.user.unwrap_or(ADMIN), &(Arc::new(NoFaults) as _));
        send(&Client::new(service, "default"), request, 1, captures).await
    }
}

async fn send(client: &Client, request: &TestRequest, side: usize, captures: &Captures) -> TestAnswer {
    let mut builder = http::Request::builder()
        .method(request.method.clone())
        .uri(captures.fill(&request.path, side))
        .header(header::ACCEPT, request.accept)
        .header(header::CONTENT_TYPE, request.content_type);
    if let Some(user) = request.user {
        builder = builder.header("Impersonate-User", user);
    }
    let body = request.body.as_ref().map(|body| captures.fill(body, side)).unwrap_or_default();
    let response = client.send(builder.body(Body::from(body.into_bytes())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let retry_after = response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let lines: Option<Vec<Value>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let values = match serde_json::from_str(&text) {
        Ok(value) => vec![value],
        Err(_) => lines.unwrap_or_else(|| vec![text.trim_end().into()]),
    };
    TestAnswer { code, retry_after, values }
}

fn definitions() -> [Value; 2] {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let strict = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "enum": ["red", "blue"]},
            "name": {"type": "string", "maxLength": 5},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}}}},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}, "conditions": {"type": "array",
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": {"type": "object",
            "required": ["type"], "properties": {"type": {"type": "string"}, "status": {"type": "string"}}}}}}}});
    [("things", "Thing", free), ("boxes", "Box", strict)].map(|(plural, kind, schema)| {
        let version = |name: &str, storage: bool| {
            json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}})
        };
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.shop.example.com")},
            "spec": {"group": "shop.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [version("v1", true), version("v2", false)]}})
    })
}
