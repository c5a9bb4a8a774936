//! An artifact with one policy and its attachments, on a server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};

use super::{
    program::policy,
    server::{ServerAnswer, answer, digest, serve},
};

/// The content of a registry, by path in the repository.
pub(crate) type Things = Vec<(String, String)>;

const OF_BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

fn layer(media_type: &str, content: &str, annotations: &Value) -> Value {
    let (digest, size) = (digest(content.as_bytes()), content.len());
    json!({"mediaType": media_type, "digest": digest, "size": size, "annotations": annotations})
}

fn blob(content: &str) -> (String, String) {
    (format!("blobs/{}", digest(content.as_bytes())), content.to_owned())
}

/// An artifact with a policy whose message for every Pod is "signed".
pub(crate) struct Artifact {
    module: String,
    manifest: String,
    /// Digest of its manifest.
    pub(crate) digest: String,
}

impl Artifact {
    pub(crate) fn new() -> Self {
        let module = policy("signed");
        let title = json!({"org.opencontainers.image.title": "own.rego"});
        let layer = layer("application/vnd.cncf.openpolicyagent.policy.layer.v1+rego", &module, &title);
        let manifest = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
        let digest = digest(manifest.as_bytes());
        Self { module, manifest, digest }
    }

    /// Returns a payload with annotations, as cosign stores it.
    pub(crate) fn annotated(&self, payload: &str, annotations: &Value) -> Things {
        let layer = layer("application/vnd.dev.cosign.simplesigning.v1+json", payload, annotations);
        let manifest = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
        vec![(format!("manifests/{}.sig", self.digest.replace(':', "-")), manifest), blob(payload)]
    }

    /// Returns a Sigstore bundle that refers to the artifact.
    pub(crate) fn referred(&self, bundle: &str) -> Things {
        let layer = layer(OF_BUNDLE, bundle, &json!({}));
        let manifest = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
        let of_manifest = "application/vnd.oci.image.manifest.v1+json";
        let digest = digest(manifest.as_bytes());
        let referrer =
            json!({"mediaType": of_manifest, "digest": digest, "size": manifest.len(), "artifactType": OF_BUNDLE});
        let referrers = json!({"schemaVersion": 2, "manifests": [referrer]}).to_string();
        let named = format!("manifests/{digest}");
        vec![(format!("referrers/{}", self.digest), referrers), (named, manifest), blob(bundle)]
    }
}

/// Returns the payload signed by `cosign sign` in the old format.
pub(crate) fn payload(digest: &str, kind: &str) -> String {
    json!({"critical": {"identity": {}, "image": {"docker-manifest-digest": digest}, "type": kind}}).to_string()
}

/// Returns the statement signed by `cosign sign` in the new format.
pub(crate) fn statement(digest: &str, predicate: &str) -> String {
    let hash = digest.trim_start_matches("sha256:");
    let subject = json!([{"digest": {"sha256": hash}}]);
    let kind = "https://in-toto.io/Statement/v1";
    json!({"_type": kind, "subject": subject, "predicateType": predicate, "predicate": {}}).to_string()
}

/// A registry with one artifact and its latest attachments.
pub(crate) struct FakeRegistry {
    pub(crate) artifact: Artifact,
    host: String,
    beside: Arc<Mutex<BTreeMap<String, String>>>,
    is_down: Arc<AtomicBool>,
}

impl FakeRegistry {
    pub(crate) fn new() -> Self {
        let (artifact, beside) = (Artifact::new(), Arc::new(Mutex::new(BTreeMap::new())));
        let always = BTreeMap::from([("manifests/1".to_owned(), artifact.manifest.clone()), blob(&artifact.module)]);
        let shared: Arc<Mutex<BTreeMap<String, String>>> = Arc::clone(&beside);
        let is_down = Arc::new(AtomicBool::new(false));
        let down = Arc::clone(&is_down);
        let (host, _) = serve(move |request| -> ServerAnswer {
            if down.load(Ordering::SeqCst) {
                return answer("503 Service Unavailable", &[], b"");
            }
            let beside = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let path = request.path.trim_start_matches("/v2/p/");
            let thing = always.get(path).or_else(|| beside.get(path));
            thing.map_or_else(|| answer("404 Not Found", &[], b""), |text| answer("200 OK", &[], text.as_bytes()))
        });
        Self { artifact, host, beside, is_down }
    }

    pub(crate) fn attach(&self, things: Things) {
        *self.beside.lock().unwrap_or_else(PoisonError::into_inner) = things.into_iter().collect();
    }

    /// Refuses all further requests.
    pub(crate) fn go_down(&self) {
        self.is_down.store(true, Ordering::SeqCst);
    }

    pub(crate) fn reference(&self) -> String {
        format!("oci://{}/p:1", self.host)
    }
}
