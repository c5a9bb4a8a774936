//! Random requests.

use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

use crate::{normal::Captures, sides::TestRequest};

/// A kind whose objects are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenKind {
    base: &'static str,
    plural: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
}

const KINDS: &[WrittenKind] = &[
    WrittenKind { base: "/api/v1", plural: "configmaps", api_version: "v1", kind: "ConfigMap" },
    WrittenKind { base: "/api/v1", plural: "configmaps", api_version: "v1", kind: "ConfigMap" },
    WrittenKind {
        base: "/apis/coordination.k8s.io/v1",
        plural: "leases",
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
    },
    WrittenKind { base: "/apis/events.k8s.io/v1", plural: "events", api_version: "events.k8s.io/v1", kind: "Event" },
    WrittenKind { base: "/api/v1", plural: "events", api_version: "v1", kind: "Event" },
    WrittenKind {
        base: "/apis/shop.example.com/v1",
        plural: "things",
        api_version: "shop.example.com/v1",
        kind: "Thing",
    },
    WrittenKind {
        base: "/apis/shop.example.com/v2",
        plural: "things",
        api_version: "shop.example.com/v2",
        kind: "Thing",
    },
    WrittenKind { base: "/apis/shop.example.com/v1", plural: "boxes", api_version: "shop.example.com/v1", kind: "Box" },
    WrittenKind { base: "/apis/shop.example.com/v2", plural: "boxes", api_version: "shop.example.com/v2", kind: "Box" },
];
const NAMES: &[&str] = &["a", "a", "b", "b", "c", "d"];
const USER: &str = "system:serviceaccount:default:reader";

pub(crate) struct Generator {
    pub(crate) random: Rng,
    seed: u64,
    number: usize,
    /// The last request.
    last: Option<TestRequest>,
    /// Lists that have more pages, with the index of the token.
    pages: Vec<(TestRequest, usize)>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), seed, number: 0, last: None, pages: Vec::new() }
    }

    /// Returns the next request.
    pub(crate) fn next(&mut self, captures: &Captures) -> TestRequest {
        let known = self.pages.last().map_or(0, |(_, token)| token + 1);
        if let Some(last) = self.last.take()
            && captures.tokens.len() > known
        {
            self.pages.push((last, captures.tokens.len() - 1));
        }
        let request = self.make(captures);
        self.last = Some(request.clone());
        request
    }

    fn make(&mut self, captures: &Captures) -> TestRequest {
        self.number += 1;
        if self.number <= 2 {
            let name = self.namespace_name(self.number - 1);
            return TestRequest::new(
                Method::POST,
                "/api/v1/namespaces".to_owned(),
                Some(json!({"metadata": {"name": name}})),
            );
        }
        match self.random.u32(0..100) {
            0..22 => self.create(),
            22..40 => self.apply(captures),
            40..50 => self.merge(captures),
            50..58 => self.update(captures),
            58..66 => self.delete(captures),
            66..74 => self.list(captures),
            74..78 => self.watch(captures),
            78..83 => self.get(),
            83..88 => self.as_user(),
            88..92 => self.rights(),
            92..96 => self.bad(),
            _ => self.namespaces(),
        }
    }

    pub(crate) fn namespace_name(&self, number: usize) -> String {
        format!("sim-{}-{number}", self.seed)
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.random.usize(0..from.len())].clone()
    }

    pub(crate) fn one_of(&mut self, chance: u32) -> bool {
        self.random.u32(0..chance) == 0
    }

    fn namespace(&mut self) -> String {
        let number = self.pick(&[0, 0, 0, 1]);
        self.namespace_name(number)
    }

    /// Returns a kind to read.
    fn kind(&mut self) -> WrittenKind {
        self.pick(KINDS)
    }

    /// Returns a kind to write. Objects with a status are only written in one version: otherwise the real server mixes
    /// up the owner of a status that it does not change.
    fn written(&mut self) -> WrittenKind {
        loop {
            let kind = self.kind();
            let other = if self.seed % 3 == 1 { "/v1" } else { "/v2" };
            if self.mixes_versions() || !kind.base.contains("shop") || !kind.base.ends_with(other) {
                return kind;
            }
        }
    }

    pub(crate) fn mixes_versions(&self) -> bool {
        self.seed.is_multiple_of(3)
    }

    /// Returns a kind whose objects can be changed.
    fn changeable(&mut self) -> WrittenKind {
        loop {
            let kind = self.written();
            if kind.kind != "Event" {
                return kind;
            }
        }
    }

    fn collection(&mut self, kind: WrittenKind) -> String {
        format!("{}/namespaces/{}/{}", kind.base, self.namespace(), kind.plural)
    }

    fn object_path(&mut self, kind: WrittenKind) -> (String, &'static str) {
        let name = self.pick(NAMES);
        (format!("{}/{name}", self.collection(kind)), name)
    }

    fn create(&mut self) -> TestRequest {
        let kind = self.written();
        let mut object = self.content(kind, false);
        if self.one_of(12) {
            object["metadata"]["generateName"] = format!("gen{}-", self.number).into();
        } else {
            object["metadata"]["name"] = self.pick(NAMES).into();
        }
        let dry = if self.one_of(12) { "?dryRun=All" } else { "" };
        let path = format!("{}{dry}", self.collection(kind));
        TestRequest::new(Method::POST, path, Some(object))
    }

    fn apply(&mut self, captures: &Captures) -> TestRequest {
        let kind = self.changeable();
        let mut object = self.content(kind, self.seed.is_multiple_of(2));
        let (path, name) = self.object_path(kind);
        object["metadata"]["name"] = name.into();
        self.precondition(&mut object, captures, 15);
        let status = kind.base.contains("shop") && !self.mixes_versions() && self.one_of(4);
        if status && kind.kind == "Box" {
            object["status"] =
                json!({"conditions": [{"type": self.pick(&["A", "B"]), "status": self.pick(&["True", "False"])}]});
        } else if status {
            object["status"] = json!({"seen": self.random.u32(0..3)});
        }
        if status {
            object["spec"].take();
            if let Some(map) = object.as_object_mut() {
                map.remove("spec");
            }
        }
        let (manager, force) = (self.pick(&["one", "two"]), if self.one_of(2) { "&force=true" } else { "" });
        let path = format!("{path}{}?fieldManager={manager}{force}", if status { "/status" } else { "" });
        TestRequest {
            content_type: "application/apply-patch+yaml",
            ..TestRequest::new(Method::PATCH, path, Some(object))
        }
    }

    fn merge(&mut self, captures: &Captures) -> TestRequest {
        let kind = self.changeable();
        let mut change = self.content(kind, true);
        if let Some(map) = change.as_object_mut() {
            map.remove("apiVersion");
            map.remove("kind");
            map.remove("eventTime");
        }
        if self.one_of(4) {
            change["metadata"]["finalizers"] = Value::Null;
        }
        if self.one_of(6) {
            change["metadata"]["labels"] = Value::Null;
        }
        self.precondition(&mut change, captures, 10);
        let (path, _) = self.object_path(kind);
        let status =
            if kind.base.contains("shop") && !self.mixes_versions() && self.one_of(4) { "/status" } else { "" };
        if !status.is_empty()
            && let Some(spec) = change["spec"].as_object_mut()
        {
            // The real server loses field owners when the ignored part of an update has a wrong type.
            spec.remove("size");
        }
        let manager = if self.one_of(2) { "?fieldManager=three" } else { "" };
        let path = format!("{path}{status}{manager}");
        TestRequest {
            content_type: "application/merge-patch+json",
            ..TestRequest::new(Method::PATCH, path, Some(change))
        }
    }

    fn update(&mut self, captures: &Captures) -> TestRequest {
        let kind = self.changeable();
        let mut object = self.content(kind, false);
        let (path, name) = self.object_path(kind);
        object["metadata"]["name"] = name.into();
        self.precondition(&mut object, captures, 2);
        TestRequest::new(Method::PUT, path, Some(object))
    }

    /// Sets a version or a uid as precondition with a probability of one in `chance`.
    fn precondition(&mut self, object: &mut Value, captures: &Captures, chance: u32) {
        if self.one_of(chance) && !captures.versions.is_empty() {
            object["metadata"]["resourceVersion"] = self.late("v", captures.versions.len()).into();
        }
        if self.one_of(chance * 4) && !captures.uids.is_empty() {
            object["metadata"]["uid"] = self.late("u", captures.uids.len()).into();
        }
    }

    /// Returns a reference to a captured value, mostly a recent one.
    fn late(&mut self, letter: &str, count: usize) -> String {
        let back = if self.one_of(3) { count } else { count.min(6) };
        format!("{{{letter}{}}}", count - 1 - self.random.usize(0..back))
    }

    /// Returns a reference to a version of an object or a list.
    fn any_version(&mut self, captures: &Captures) -> String {
        if self.one_of(2) { self.late("l", captures.lists.len()) } else { self.late("v", captures.versions.len()) }
    }

    fn delete(&mut self, captures: &Captures) -> TestRequest {
        let kind = self.kind();
        if self.one_of(10) {
            let path = format!("{}?labelSelector=app%3Dx", self.collection(kind));
            return TestRequest::new(Method::DELETE, path, None);
        }
        let (path, _) = self.object_path(kind);
        let mut options = json!({});
        if self.one_of(4) && !captures.uids.is_empty() {
            options["preconditions"]["uid"] = self.late("u", captures.uids.len()).into();
        }
        if self.one_of(6) && !captures.versions.is_empty() {
            options["preconditions"]["resourceVersion"] = self.late("v", captures.versions.len()).into();
        }
        if self.one_of(8) {
            options["propagationPolicy"] = self.pick(&["Foreground", "Orphan", "Background"]).into();
        }
        let body = Some(options).filter(|options| *options != json!({}));
        TestRequest::new(Method::DELETE, path, body)
    }

    fn get(&mut self) -> TestRequest {
        let kind = self.kind();
        let (path, _) = self.object_path(kind);
        let mut request = TestRequest::new(Method::GET, path, None);
        if self.one_of(4) {
            request.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        }
        request
    }

    fn selectors(&mut self, kind: WrittenKind, query: &mut Vec<String>) {
        if self.one_of(3) {
            let selector =
                self.pick(&["app", "!app", "app=x", "app!=x", "app in (x,y)", "app notin (x)", "tier==y,app", "a b c"]);
            query.push(format!(
                "labelSelector={}",
                selector.replace(' ', "%20").replace('=', "%3D").replace(',', "%2C")
            ));
        }
        if self.one_of(6) {
            let selectors: &[&str] = match kind.kind {
                "Event" if kind.api_version != "v1" => {
                    &["reportingController=example.com/c", "reason=Tested", "regarding.name=p"]
                }
                "Event" => &["reportingComponent=example.com/c", "involvedObject.name=p", "type=Normal"],
                _ => &["metadata.name=a", "metadata.name!=a", "spec.n=1"],
            };
            query.push(format!("fieldSelector={}", self.pick(selectors).replace('=', "%3D")));
        }
    }

    fn list(&mut self, captures: &Captures) -> TestRequest {
        if self.one_of(3) && !self.pages.is_empty() {
            let (list, token) = self.pages[self.random.usize(0..self.pages.len())].clone();
            let (path, query) = list.path.split_once('?').unwrap_or((&list.path, ""));
            let kept =
                query.split('&').filter(|part| !part.starts_with("resourceVersion") && !part.starts_with("continue"));
            let query: Vec<&str> = kept.collect();
            return TestRequest { path: format!("{path}?{}&continue={{c{token}}}", query.join("&")), ..list };
        }
        let kind = self.kind();
        let mut query = Vec::new();
        self.selectors(kind, &mut query);
        if self.one_of(2) {
            query.push(format!("limit={}", self.random.u32(1..3)));
        }
        match self.random.u32(0..10) {
            0..2 if !captures.versions.is_empty() && !captures.lists.is_empty() => {
                query.push(format!("resourceVersion={}", self.any_version(captures)));
                let matching = self.pick(&["", "Exact", "NotOlderThan", "Odd"]);
                query.push(format!("resourceVersionMatch={matching}"));
            }
            2 => query
                .push(self.pick(&["resourceVersion=0", "resourceVersion=x", "resourceVersionMatch=Exact"]).to_owned()),
            _ => {}
        }
        let path = self.collection(kind);
        let mut request = TestRequest::new(Method::GET, format!("{path}?{}", query.join("&")), None);
        if self.one_of(6) {
            request.accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        }
        request
    }

    fn watch(&mut self, captures: &Captures) -> TestRequest {
        let kind = self.kind();
        let mut query = vec!["watch=1".to_owned(), "timeoutSeconds=1".to_owned()];
        self.selectors(kind, &mut query);
        match self.random.u32(0..6) {
            0 => query.push("resourceVersion=0".to_owned()),
            // Without a cache, as for Events, the end of the initial events is late.
            1 if kind.kind != "Event" => query
                .push("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true".to_owned()),
            2..6 if !captures.versions.is_empty() && !captures.lists.is_empty() => {
                query.push(format!("resourceVersion={}", self.any_version(captures)));
            }
            _ => {}
        }
        TestRequest::new(Method::GET, format!("{}?{}", self.collection(kind), query.join("&")), None)
    }

    fn as_user(&mut self) -> TestRequest {
        let request = match self.random.u32(0..5) {
            0 => self.get(),
            1 => self.create(),
            2 => self.list(&Captures::default()),
            3 => TestRequest::new(
                Method::GET,
                self.pick(&[
                    "/api",
                    "/metrics",
                    "/apis/coordination.k8s.io/v1",
                    "/apis/shop.example.com/v1",
                    "/api/v1/nodes/n",
                    "/api/v1/namespaces",
                    "/apis/none.example.com/v1/nones",
                ])
                .to_owned(),
                None,
            ),
            _ => {
                let attributes = json!({"namespace": self.namespace(), "verb": self.pick(&["get", "list", "create"]),
                    "resource": self.pick(&["configmaps", "leases", "things"]), "group": self.pick(&["", "shop.example.com"]),
                    "name": self.pick(&["", "a"])});
                let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": attributes}});
                TestRequest::new(
                    Method::POST,
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
                    Some(review),
                )
            }
        };
        TestRequest { user: Some(USER), ..request }
    }

    /// Grants or revokes rights of the user.
    fn rights(&mut self) -> TestRequest {
        let namespace = self.namespace();
        let base = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        if self.one_of(3) {
            let path = format!("{base}/{}", self.pick(&["roles/r", "rolebindings/r"]));
            return TestRequest::new(Method::DELETE, path, None);
        }
        if self.one_of(2) {
            let binding = json!({"metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
                "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]});
            return TestRequest::new(Method::POST, format!("{base}/rolebindings"), Some(binding));
        }
        let mut rule = json!({"apiGroups": [self.pick(&["", "*", "shop.example.com"])],
            "resources": [self.pick(&["configmaps", "things", "*"])], "verbs": [self.pick(&["get", "list", "*"]), "create"]});
        if self.one_of(3) {
            rule["resourceNames"] = json!(["a"]);
        }
        TestRequest::new(
            Method::PUT,
            format!("{base}/roles/r"),
            Some(json!({"metadata": {"name": "r"}, "rules": [rule]})),
        )
    }

    /// Returns an invalid request.
    fn bad(&mut self) -> TestRequest {
        let kind = self.changeable();
        let (path, name) = self.object_path(kind);
        let collection = self.collection(kind);
        let mut object = self.content(kind, false);
        object["metadata"]["name"] = name.into();
        match self.random.u32(0..14) {
            0 => TestRequest::new(Method::POST, path, Some(object)),
            1 => TestRequest::new(Method::PUT, collection, Some(object)),
            2 => {
                object["metadata"]["name"] = self.pick(&["Upper", "a_b", "-a", "a..b", "", "ok.name"]).into();
                TestRequest::new(Method::POST, collection, Some(object))
            }
            3 => {
                object["metadata"]["namespace"] = "default".into();
                TestRequest::new(Method::POST, collection, Some(object))
            }
            4 => {
                object["kind"] = "Other".into();
                TestRequest::new(Method::POST, collection, Some(object))
            }
            5 => {
                object["metadata"]["name"] = "other".into();
                TestRequest::new(Method::PUT, path, Some(object))
            }
            6 => TestRequest { content_type: "text/plain", ..TestRequest::new(Method::PATCH, path, Some(object)) },
            7 => {
                let path = self.pick(&[
                    "/nothing",
                    "/apis/none.example.com/v1",
                    "/api/v1/nothings",
                    "/apis/apps/v1/nothings",
                    "/api/v2/pods",
                    "/apis/shop.example.com/v3/things",
                    "/apis/shop.example.com/v1/nothings",
                    "/apis/shop.example.com",
                ]);
                TestRequest::new(Method::GET, path.to_owned(), None)
            }
            8 => TestRequest {
                content_type: "application/apply-patch+yaml",
                ..TestRequest::new(Method::PATCH, path, Some(object))
            },
            9 => {
                object["metadata"]["managedFields"] = json!([{"manager": "m"}]);
                let path = format!("{path}?fieldManager=one");
                TestRequest {
                    content_type: "application/apply-patch+yaml",
                    ..TestRequest::new(Method::PATCH, path, Some(object))
                }
            }
            10 => {
                let collection = collection.replace("/sim-", "/absent-");
                TestRequest::new(self.pick(&[&Method::GET, &Method::POST]).clone(), collection, Some(object))
            }
            11 => {
                object["metadata"]["resourceVersion"] = "12".into();
                TestRequest::new(Method::POST, collection, Some(object))
            }
            12 => {
                object["metadata"] = json!({"name": name});
                let path = format!("{path}?fieldManager=one&force=true");
                let mut request = TestRequest::new(Method::PATCH, path, Some(object));
                let character =
                    self.pick(&["\u{7f}", "\u{85}", "\u{9b}", "\u{2028}", "\u{feff}", "\u{fffe}", "\u{1f600}"]);
                request.body = request.body.map(|body| {
                    body.replace(
                        "\"metadata\":{",
                        &format!("\"metadata\":{{\"annotations\":{{\"x\":\"a{character}b\"}},"),
                    )
                });
                request.content_type = "application/apply-patch+yaml";
                request
            }
            _ => TestRequest::new(Method::GET, format!("{path}/{}", self.pick(&["status", "scale", "x/y"])), None),
        }
    }

    fn namespaces(&mut self) -> TestRequest {
        let name = self.pick(&["n", "n", "m"]);
        let name = format!("sim-{}-{name}", self.seed);
        let path = format!("/api/v1/namespaces/{name}");
        match self.random.u32(0..6) {
            0..2 => {
                let mut namespace = json!({"metadata": {"name": name}});
                if self.one_of(2) {
                    namespace["metadata"]["finalizers"] = json!(["example.com/wait"]);
                }
                TestRequest::new(Method::POST, "/api/v1/namespaces".to_owned(), Some(namespace))
            }
            2 => TestRequest::new(Method::DELETE, path, None),
            3 => TestRequest::new(Method::GET, path, None),
            4 => {
                let change = json!({"metadata": {"labels": {"a": self.pick(&["b", "c"])}}});
                TestRequest {
                    content_type: "application/merge-patch+json",
                    ..TestRequest::new(Method::PATCH, path, Some(change))
                }
            }
            _ => {
                let object = json!({"metadata": {"name": "a"}, "data": {"a": "b"}});
                TestRequest::new(Method::POST, format!("{path}/configmaps"), Some(object))
            }
        }
    }
}
