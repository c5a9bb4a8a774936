//! Reviews: authentication and authorization requests.

use serde_json::{Value, json};

use super::{
    ServerState,
    rbac::{self, Attributes},
    request::RequestInfo,
};

impl ServerState {
    /// Returns the review with its status.
    pub(super) fn review(&self, request: &RequestInfo, mut review: Value, api_version: &str, kind: &str) -> Value {
        let spec = review["spec"].clone();
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let status = match kind {
            "TokenReview" => self.token_review(&text("token"), &spec["audiences"]),
            "SelfSubjectRulesReview" => {
                let groups = rbac::groups(&request.user);
                let rules = rbac::GrantedRules::of(&self.store, &request.user, &groups, &text("namespace")).rules;
                let rules: Vec<Value> = rules.into_iter().map(|(rule, _)| rule).collect();
                let (paths, resources): (Vec<_>, Vec<_>) =
                    rules.into_iter().partition(|rule| rule["nonResourceURLs"].is_array());
                json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
            }
            _ => {
                let (user, groups) = if kind == "SelfSubjectAccessReview" {
                    (request.user.clone(), rbac::groups(&request.user))
                } else {
                    let given = spec["groups"].as_array().into_iter().flatten();
                    (text("user"), given.filter_map(|group| group.as_str().map(str::to_owned)).collect())
                };
                match rbac::decide(&self.store, &user, &groups, &attributes(&spec)) {
                    Ok(why) if why.is_empty() => json!({"allowed": true}),
                    Ok(why) => json!({"allowed": true, "reason": why}),
                    Err(problem) if problem.is_empty() => json!({"allowed": false}),
                    Err(problem) => json!({"allowed": false, "reason": problem}),
                }
            }
        };
        review["kind"] = kind.into();
        review["apiVersion"] = api_version.into();
        if !review["metadata"].is_object() {
            review["metadata"] = json!({});
        }
        review["status"] = status;
        review
    }

    fn token_review(&self, token: &str, audiences: &Value) -> Value {
        let Some(user) = self.tokens.get(token) else {
            return json!({"user": {}, "error": "invalid bearer token"});
        };
        let mut status = json!({"authenticated": true, "user": {"username": user, "groups": rbac::groups(user)}});
        if audiences.is_array() {
            status["audiences"] = audiences.clone();
        }
        status
    }
}

fn attributes(spec: &Value) -> Attributes {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let of = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    if path.is_object() {
        return Attributes { verb: of(path, "verb"), path: of(path, "path"), ..Attributes::default() };
    }
    let (name, subresource) = (of(resource, "resource"), of(resource, "subresource"));
    Attributes {
        verb: of(resource, "verb"),
        group: of(resource, "group"),
        resource: if subresource.is_empty() { name } else { format!("{name}/{subresource}") },
        namespace: of(resource, "namespace"),
        name: of(resource, "name"),
        path: String::new(),
    }
}
