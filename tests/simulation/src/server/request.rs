//! Parsed requests.

use std::collections::BTreeMap;

use http::{Method, Request, header};

use super::selectors;

/// The attributes of a request, as used for authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The user.
    pub user: String,
    /// The RBAC verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for a
    /// non-resource path the method in lower case.
    pub verb: String,
    /// The API group; empty for the core group and non-resource paths.
    pub group: String,
    /// The version of the group.
    pub version: String,
    /// The resource; empty for non-resource paths.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object, or empty.
    pub name: String,
    /// The one object that a list or a watch selects by name.
    pub selected: String,
    /// The path.
    pub path: String,
    /// The query, decoded.
    pub query: BTreeMap<String, String>,
    /// The media types that the client accepts.
    pub accept: String,
    /// The media type of the body.
    pub content_type: String,
    /// The user agent of the client.
    pub user_agent: String,
    /// The entity tag of the document that the client has.
    pub if_none_match: String,
}

impl RequestInfo {
    /// Parses a request of a user.
    pub(super) fn read<B>(user: &str, request: &Request<B>) -> Self {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default();
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect::<BTreeMap<_, _>>();
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut info = Self {
            user: user.to_owned(),
            verb: request.method().as_str().to_lowercase(),
            path: path.clone(),
            accept: header(header::ACCEPT).to_owned(),
            content_type: header(header::CONTENT_TYPE).to_owned(),
            user_agent: header(header::USER_AGENT).to_owned(),
            if_none_match: header(header::IF_NONE_MATCH).to_owned(),
            query,
            ..Self::default()
        };
        info.resource(request.method(), &path);
        info
    }

    /// Parses the path of a resource.
    fn resource(&mut self, method: &Method, path: &str) {
        let decoded = |part: &str| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match &parts[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return,
        };
        let (namespace, rest) = match rest {
            ["namespaces", name, "status" | "finalize"] => ("", &["namespaces", *name, rest[2]][..]),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let Some(resource) = rest.first() else { return };
        let at = |place: usize| rest.get(place).copied().unwrap_or_default().to_owned();
        version.clone_into(&mut self.version);
        group.clone_into(&mut self.group);
        namespace.clone_into(&mut self.namespace);
        (self.resource, self.name, self.subresource) =
            ((*resource).to_owned(), at(1), rest[2.min(rest.len())..].join("/"));
        let collection = self.name.is_empty();
        let verb = match (method, collection) {
            (&Method::GET | &Method::HEAD, true) if self.flag("watch") => "watch",
            (&Method::GET | &Method::HEAD, true) => "list",
            (&Method::GET | &Method::HEAD, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            _ => "",
        };
        verb.clone_into(&mut self.verb);
        if collection && self.verb != "create" && selectors::are_labels(self.parameter("labelSelector")) {
            // Rights on one object suffice to list it by name.
            let selected =
                self.parameter("fieldSelector").split(',').find_map(|part| part.strip_prefix("metadata.name="));
            let selected = selected.unwrap_or_default().trim_start_matches('=').to_owned();
            self.selected = selected;
        }
        // Rights on a Namespace are checked in that namespace.
        if self.group.is_empty() && *resource == "namespaces" {
            self.namespace.clone_from(&self.name);
        }
    }

    /// Whether it is a resource request.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// Returns a query parameter; empty if it is missing.
    pub fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// Whether a query parameter is true.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.query.get(name).map(String::as_str), Some("1" | "true" | "True"))
    }

    /// Whether the client prefers this form, for example `PartialObjectMetadata`, to the plain one.
    pub(super) fn accepts(&self, form: &str) -> bool {
        let wanted = format!("as={form};");
        self.accept.split(',').next().is_some_and(|first| format!("{};", first.replace(' ', "")).contains(&wanted))
    }

    /// Returns the field manager of the written fields.
    pub fn manager(&self) -> &str {
        let agent = self.user_agent.split('/').next().unwrap_or_default();
        match self.parameter("fieldManager") {
            "" if agent.is_empty() => "unknown",
            "" => agent,
            manager => manager,
        }
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.parameter("dryRun") == "All"
    }
}
