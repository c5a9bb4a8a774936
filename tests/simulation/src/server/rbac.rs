//! Authorisation by the roles and bindings that are stored in the server.

use serde_json::{Value, json};

use super::{
    request::RequestInfo,
    status::{Answer, Status},
    store::Store,
};

/// The group whose members may do everything.
const MASTERS: &str = "system:masters";
/// A user in that group.
pub const ADMIN: &str = "system:admin";

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Attributes {
    pub(super) verb: String,
    pub(super) group: String,
    /// With the subresource: `audits/status`.
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// A path, if it is no resource.
    pub(super) path: String,
}

impl Attributes {
    pub(super) fn of(request: &RequestInfo) -> Self {
        if !request.is_resource() {
            return Self { verb: request.verb.clone(), path: request.path.clone(), ..Self::default() };
        }
        let subresource = if request.subresource.is_empty() { "" } else { "/" };
        Self {
            verb: request.verb.clone(),
            group: request.group.clone(),
            resource: format!("{}{subresource}{}", request.resource, request.subresource),
            namespace: request.namespace.clone(),
            name: request.name.clone(),
            path: String::new(),
        }
    }
}

/// Returns the groups of a user.
pub(super) fn groups(user: &str) -> Vec<String> {
    let mut groups = vec!["system:authenticated".to_owned()];
    if user == ADMIN {
        groups.push(MASTERS.to_owned());
    }
    if let Some(account) = user.strip_prefix("system:serviceaccount:") {
        let namespace = account.split(':').next().unwrap_or_default();
        groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    }
    groups
}

/// What everybody may do who is known to the server.
fn for_everybody() -> [Value; 2] {
    [
        json!({"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi",
            "/openapi/*", "/readyz", "/version", "/version/"]}),
        json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]}),
    ]
}

/// Whether a user may do something.
pub(super) fn allows(store: &Store, user: &str, groups: &[String], attributes: &Attributes) -> bool {
    groups.iter().any(|group| group == MASTERS)
        || for_everybody().iter().any(|rule| covers(rule, attributes))
        || rules(store, user, groups, &attributes.namespace).iter().any(|rule| covers(rule, attributes))
}

/// Returns the rules that roles grant a user, cluster-wide and in a namespace.
pub(super) fn rules(store: &Store, user: &str, groups: &[String], namespace: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    let bound = |binding: &Value, of: &str| {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        subjects.into_iter().any(|subject| is_subject(subject, user, groups, of))
    };
    for (_, binding) in store.all("clusterrolebindings.rbac.authorization.k8s.io") {
        if bound(&binding.value, "") {
            rules.extend(role(store, &binding.value["roleRef"], ""));
        }
    }
    if !namespace.is_empty() {
        for (_, binding) in store.all("rolebindings.rbac.authorization.k8s.io") {
            if binding.metadata("namespace") == namespace && bound(&binding.value, namespace) {
                rules.extend(role(store, &binding.value["roleRef"], namespace));
            }
        }
    }
    rules
}

fn is_subject(subject: &Value, user: &str, groups: &[String], namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => name == user,
        Some("Group") => groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let namespace = subject["namespace"].as_str().unwrap_or(namespace);
            user.strip_prefix("system:serviceaccount:") == Some(&format!("{namespace}:{name}"))
        }
        _ => false,
    }
}

fn role(store: &Store, reference: &Value, namespace: &str) -> Vec<Value> {
    let name = reference["name"].as_str().unwrap_or_default();
    let role = if reference["kind"] == "ClusterRole" {
        store.get("clusterroles.rbac.authorization.k8s.io", name)
    } else {
        store.get("roles.rbac.authorization.k8s.io", &format!("{namespace}/{name}"))
    };
    role.and_then(|role| role.value["rules"].as_array().cloned()).unwrap_or_default()
}

fn covers(rule: &Value, wanted: &Attributes) -> bool {
    let any = |field: &str, matches: &dyn Fn(&str) -> bool| {
        rule[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .any(|value| value == "*" || matches(value))
    };
    if !any("verbs", &|verb| verb == wanted.verb) {
        return false;
    }
    if !wanted.path.is_empty() {
        let covers = |url: &str| {
            url == wanted.path || url.strip_suffix('*').is_some_and(|prefix| wanted.path.starts_with(prefix))
        };
        return any("nonResourceURLs", &covers);
    }
    let resource = |known: &str| {
        let subresource = wanted.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        known == wanted.resource || subresource.as_deref() == Some(known)
    };
    let names = rule["resourceNames"].as_array().is_none_or(Vec::is_empty)
        || !wanted.name.is_empty() && any("resourceNames", &|name| name == wanted.name);
    names && any("apiGroups", &|group| group == wanted.group) && any("resources", &resource)
}

/// Checks that a user may make a request.
///
/// # Errors
/// With what the server says who may not.
pub(super) fn check(store: &Store, request: &RequestInfo) -> Answer<()> {
    let attributes = Attributes::of(request);
    let user = &request.user;
    if allows(store, user, &groups(user), &attributes) {
        return Ok(());
    }
    if !attributes.path.is_empty() {
        return Err(Status::forbidden_path(&format!(
            "User {user:?} cannot {} path {:?}",
            attributes.verb, attributes.path
        )));
    }
    let scope = match attributes.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {user:?} cannot {} resource {:?} in API group {:?} {scope}",
        attributes.verb, attributes.resource, attributes.group
    );
    Err(Status::forbidden_resource(&request.group, &request.resource, &request.name, &why))
}
