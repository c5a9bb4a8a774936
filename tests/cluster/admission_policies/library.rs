//! The policies of a library, on its objects and altered ones: kaudit's results are those of the API server.
//!
//! `KAUDIT_TEST_ADMISSION_POLICIES` names a directory with `ValidatingAdmissionPolicies`, the CRDs and objects of their
//! parameters, and objects to evaluate. No library comes with this repository, so the test is skipped without it.

use std::path::{Path, PathBuf};

use kaudit_test_support::files::folder;

use super::*;

/// The number of policies in force at once: the server shortens many warnings of one response.
const AT_ONCE: usize = 8;
/// The number of altered copies of each object.
const COPIES: usize = 14;
const SEED: u64 = 20_261_130;

/// The documents of a directory.
#[derive(Default)]
struct Library {
    crds: Vec<Value>,
    policies: Vec<Value>,
    params: Vec<Value>,
    objects: Vec<Value>,
}

impl Library {
    fn read(directory: &Path) -> Self {
        let mut library = Self::default();
        for path in files(directory) {
            let Ok(documents) = yaml::from_multiple::<Value>(&std::fs::read_to_string(path).unwrap()) else { continue };
            for mut document in documents.into_iter().filter(|document| document["metadata"].is_object()) {
                match document["kind"].as_str() {
                    Some("CustomResourceDefinition") => library.crds.push(document),
                    Some("ValidatingAdmissionPolicy") => {
                        document["apiVersion"] = VERSION.into();
                        library.policies.push(document);
                    }
                    Some("ValidatingAdmissionPolicyBinding") | None => {}
                    Some(_) => library.objects.push(document),
                }
            }
        }
        let defined: BTreeSet<&str> =
            library.crds.iter().filter_map(|crd| crd.pointer("/spec/names/kind")?.as_str()).collect();
        let (params, objects) =
            library.objects.into_iter().partition(|object| defined.contains(object["kind"].as_str().unwrap()));
        Self { params, objects, ..library }
    }
}

/// Returns the YAML files below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the name of a document.
fn name(document: &Value) -> &str {
    document["metadata"]["name"].as_str().unwrap()
}

/// Returns the binding of a policy, with one of the parameters of its kind.
fn binding_of(policy: &Value, params: &[Value]) -> Value {
    let mut spec = json!({"policyName": name(policy), "validationActions": ["Warn"]});
    let kind = policy.pointer("/spec/paramKind/kind");
    if let Some(param) = params.iter().find(|param| Some(&param["kind"]) == kind) {
        spec["paramRef"] = json!({"name": name(param), "parameterNotFoundAction": "Deny"});
        if let Some(namespace) = param.pointer("/metadata/namespace") {
            spec["paramRef"]["namespace"] = namespace.clone();
        }
    }
    binding(name(policy), &spec)
}

/// Returns altered copies of objects, each with a name of its own, in the namespace `default`.
fn altered(objects: &[Value], random: &mut fastrand::Rng) -> Vec<Value> {
    let mut all = Vec::new();
    for object in objects {
        for copy in 0..=COPIES {
            let original = object;
            let mut object = object.clone();
            for _ in 0..copy.div_ceil(7) {
                alter(&mut object, random);
            }
            for field in ["apiVersion", "kind"] {
                object[field] = original[field].clone();
            }
            let kind = original["kind"].as_str().unwrap_or_default();
            let is_cluster_scoped = kind.starts_with("Cluster") || kind == "Namespace";
            let mut metadata = json!({"name": format!("o{}", all.len()), "labels": object["metadata"]["labels"]});
            if !is_cluster_scoped {
                metadata["namespace"] = "default".into();
            }
            object["metadata"] = metadata;
            all.push(object);
        }
    }
    all
}

/// Removes or replaces a part of a value, mostly deep inside.
fn alter(value: &mut Value, random: &mut fastrand::Rng) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(random.usize(..fields.len())).unwrap().clone();
            if random.u8(..6) == 0 { drop(fields.remove(&key)) } else { alter(&mut fields[&key], random) }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = random.usize(..items.len());
            if random.u8(..6) == 0 { drop(items.remove(index)) } else { alter(&mut items[index], random) }
        }
        Value::Bool(flag) => *flag = !*flag,
        Value::Number(_) => *value = random.u32(..70_000).into(),
        Value::String(text) => ["x", "latest", "1Gi", "ALL", "docker.io/a"][random.usize(..5)].clone_into(text),
        _ => {}
    }
}

/// Returns the server's warnings about an object, and the object with the values that the server fills in; `None` if the
/// server refuses the object.
async fn ask_about(client: &Client, object: &Value) -> Option<(Value, BTreeSet<[String; 2]>)> {
    let (response, warnings) = create(client, object).await;
    if response["kind"] == "Status" {
        return None;
    }
    let of_policy = |warning: &String| {
        let rest = warning.strip_prefix("Validation failed for ValidatingAdmissionPolicy '")?;
        let (policy, rest) = rest.split_once("' with binding '")?;
        Some([policy.to_owned(), rest.split_once("': ")?.1.to_owned()])
    };
    let warnings = warnings.iter().filter_map(of_policy).filter(|[policy, _]| !policy.starts_with(SENTINEL)).collect();
    Some((response, warnings))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_a_library_are_those_of_the_api_server() {
    let Some(directory) = std::env::var_os("KAUDIT_TEST_ADMISSION_POLICIES") else { return };
    if !require() {
        return;
    }
    let library = Library::read(Path::new(&directory));
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.admin().unwrap();
    for crd in &library.crds {
        establish(&plane, &crd.to_string(), &[name(crd)]).await;
    }
    // Libraries also have parameters that are wrong on purpose.
    let mut params = Vec::new();
    for param in &library.params {
        params.extend(plane.apply(&param.to_string()).await.is_ok().then(|| param.clone()));
    }
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
    plane.apply(&account.to_string()).await.unwrap();
    let objects = altered(&library.objects, &mut fastrand::Rng::with_seed(SEED));
    let (mut pairs, mut violations, mut differences) = (0, 0, Vec::new());
    for (round, policies) in library.policies.chunks(AT_ONCE).enumerate() {
        let manifests: Vec<Value> =
            policies.iter().flat_map(|policy| [policy.clone(), binding_of(policy, &params)]).collect();
        let installed = install_all(&plane, &client, manifests.clone(), round).await;
        let (mut accepted, mut by_server) = (Vec::new(), BTreeMap::new());
        for object in &objects {
            if let Some((object, warnings)) = ask_about(&client, object).await {
                by_server.insert(name(&object).to_owned(), warnings);
                accepted.push(object);
            }
        }
        remove(&plane, &installed).await;
        let text = |documents: &[Value]| {
            documents.iter().fold(String::new(), |text, one| text + "---\n" + &one.to_string() + "\n")
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        let others: Vec<Value> = params.iter().cloned().chain([namespace]).collect();
        let folder = folder(&[
            ("policies/all.yaml", &text(&manifests)),
            ("manifests/objects.yaml", &text(&accepted)),
            ("manifests/others.yaml", &text(&others)),
        ]);
        let path = |part: &str| folder.path().join(part).to_str().unwrap().to_owned();
        let arguments = [
            "check",
            "-f",
            &path("manifests"),
            "-p",
            &path("policies"),
            "--expand=off",
            "-o",
            "json",
            "--fail-on=none",
        ];
        let ended = run(&plane.kubeconfig(), &arguments).await;
        let mut own: BTreeMap<String, BTreeSet<[String; 2]>> = BTreeMap::new();
        for entry in ended.json()["results"].as_array().unwrap() {
            let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            // The server drops warnings of several lines: an error quotes the expression.
            if !text("/message").contains('\n') {
                own.entry(text("/resource/name")).or_default().insert([text("/policy"), text("/message")]);
            }
        }
        for (name, by_server) in by_server {
            let own = own.remove(&name).unwrap_or_default();
            pairs += policies.len();
            violations += by_server.len();
            if own != by_server {
                let object = accepted.iter().find(|object| self::name(object) == name).unwrap();
                let (more, less): (Vec<_>, Vec<_>) =
                    (own.difference(&by_server).collect(), by_server.difference(&own).collect());
                differences.push(format!("{object}\n  kaudit only {more:?}\n  server only {less:?}"));
            }
        }
    }
    eprintln!("{} policies, {} objects, {pairs} pairs, {violations} violations", library.policies.len(), objects.len());
    assert!(pairs > 0 && violations > 0);
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
