//! Authorization by the stored roles and bindings.

use serde_json::{Value, json};

use super::{
    request::RequestInfo,
    status::{ApiResult, ErrorStatus},
    store::Store,
};

/// The admin group.
const MASTERS: &str = "system:masters";
/// A user in that group.
pub const ADMIN: &str = "system:admin";

/// The attributes of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Attributes {
    pub(super) verb: String,
    pub(super) group: String,
    /// The resource with its subresource, for example `audits/status`.
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The path of a non-resource request.
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
            name: if request.name.is_empty() { request.selected.clone() } else { request.name.clone() },
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

/// Returns the rules for every authenticated user.
fn for_all_users() -> [Value; 2] {
    [
        json!({"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi",
            "/openapi/*", "/readyz", "/version", "/version/"]}),
        json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]}),
    ]
}

/// Authorizes a user; returns the reason.
///
/// # Errors
/// If not allowed, with the problem of the bindings, or an empty text.
pub(super) fn decide(store: &Store, user: &str, groups: &[String], attributes: &Attributes) -> Result<String, String> {
    let GrantedRules { rules, missing } = GrantedRules::of(store, user, groups, &attributes.namespace);
    if groups.iter().any(|group| group == MASTERS) || for_all_users().iter().any(|rule| covers(rule, attributes)) {
        return Ok(String::new());
    }
    if let Some((_, binding)) = rules.iter().find(|(rule, _)| covers(rule, attributes)) {
        return Ok(format!("RBAC: allowed by {binding}"));
    }
    match &missing[..] {
        [] => Err(String::new()),
        [one] => Err(format!("RBAC: {one}")),
        several => Err(format!("RBAC: [{}]", several.join(", "))),
    }
}

/// The rules that roles grant a user, and the bound roles that do not exist.
#[derive(Default)]
pub(super) struct GrantedRules {
    /// Each with a description of its binding.
    pub(super) rules: Vec<(Value, String)>,
    missing: Vec<String>,
}

impl GrantedRules {
    /// Returns the rules granted cluster-wide and in a namespace.
    pub(super) fn of(store: &Store, user: &str, groups: &[String], namespace: &str) -> Self {
        let mut found = Self::default();
        for (_, binding) in store.all("clusterrolebindings.rbac.authorization.k8s.io") {
            found.add(store, &binding.value, (user, groups), "");
        }
        let of_namespace = store.all("rolebindings.rbac.authorization.k8s.io");
        for (_, binding) in of_namespace.filter(|(_, binding)| binding.metadata("namespace") == namespace) {
            found.add(store, &binding.value, (user, groups), namespace);
        }
        found
    }

    /// Adds the rules of a binding, if it includes this user.
    fn add(&mut self, store: &Store, binding: &Value, (user, groups): (&str, &[String]), namespace: &str) {
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        let Some(subject) = subjects.find(|subject| is_subject(subject, user, groups, namespace)) else { return };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
        let resource = format!("{}.rbac.authorization.k8s.io", kind.to_lowercase());
        let key = if kind == "ClusterRole" { name.clone() } else { format!("{namespace}/{name}") };
        let Some(role) = store.get(&resource.replacen("role", "roles", 1), &key) else {
            self.missing.push(format!("{resource} {name:?} not found"));
            return;
        };
        let place = if namespace.is_empty() { "Cluster" } else { "" };
        let inside = |name: String, namespace: &str| {
            if namespace.is_empty() { format!("{name:?}") } else { format!("{:?}", format!("{name}/{namespace}")) }
        };
        let binding = inside(text(&binding["metadata"]["name"]), namespace);
        let who = inside(text(&subject["name"]), subject["namespace"].as_str().unwrap_or_default());
        let to = format!("{} {who}", text(&subject["kind"]));
        let description = format!("{place}RoleBinding {binding} of {kind} {name:?} to {to}");
        let rules = role.value["rules"].as_array().into_iter().flatten();
        self.rules.extend(rules.map(|rule| (rule.clone(), description.clone())));
    }
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

/// Authorizes a request.
///
/// # Errors
/// If it is forbidden, with the server's message.
pub(super) fn check(store: &Store, request: &RequestInfo) -> ApiResult<()> {
    let attributes = Attributes::of(request);
    let user = &request.user;
    let Err(problem) = decide(store, user, &groups(user), &attributes) else { return Ok(()) };
    let problem = if problem.is_empty() { problem } else { format!(": {problem}") };
    if !attributes.path.is_empty() {
        let why = format!("User {user:?} cannot {} path {:?}{problem}", attributes.verb, attributes.path);
        return Err(ErrorStatus::forbidden_path(&why));
    }
    let scope = match attributes.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {user:?} cannot {} resource {:?} in API group {:?} {scope}{problem}",
        attributes.verb, attributes.resource, attributes.group
    );
    Err(ErrorStatus::forbidden_resource(&request.group, &request.resource, &attributes.name, &why))
}
