//! The files that a suite names: templates, Constraints, objects, reviews.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use regorus::Value;

use crate::{
    judge::policy_document,
    model::object::Object,
    rego::{File, Form, analysis::yaml::YamlNode, value},
    source::{
        manifest,
        received::{Received, Secrets},
    },
};

/// The fields that the API server writes into the request of an `AdmissionReview`.
const REQUEST: &[&str] = &[
    "uid",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "options",
];

/// Resolves a path that is relative to the suite.
pub(super) fn path(suite: &File, path: &str) -> PathBuf {
    let folder = Path::new(&*suite.shown).parent().unwrap_or(Path::new(""));
    // `a/../b` becomes `b`, even if `a` is a link, as in gator.
    let mut clean = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(clean.components().next_back(), Some(Component::Normal(_))) => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

/// Reads all documents of a file.
pub(super) fn read(path: &Path) -> Result<Vec<YamlNode>, String> {
    let text = fs::read_to_string(path).map_err(|why| format!("{}: cannot be read: {why}", path.display()))?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let file = File::new(path.to_string_lossy().into(), Form::Yaml, text);
    policy_document::read(&file).map_err(|problem| problem.to_string())
}

/// Reads the only document of a file.
pub(super) fn single(path: &Path) -> Result<YamlNode, String> {
    let mut documents = read(path)?;
    match (documents.len(), documents.pop()) {
        (1, Some(document)) => Ok(document),
        (count, _) => Err(format!("{}: must hold one object, and holds {count}", path.display())),
    }
}

/// Checks that the files of a test hold a template and a Constraint of its kind. gator accepts nothing else either, whatever
/// the test expects.
pub(super) fn check_pair(template: &Path, constraint: &Path) -> Result<(), String> {
    let (node, given) = (single(template)?, single(constraint)?);
    if (group(&node), node.get("kind").text()) != ("templates.gatekeeper.sh", Some("ConstraintTemplate")) {
        return Err(format!("{}: is not a ConstraintTemplate", template.display()));
    }
    let kind = node.at(&["spec", "crd", "spec", "names", "kind"]).text();
    if group(&given) != "constraints.gatekeeper.sh" {
        return Err(format!("{}: is not a Constraint", constraint.display()));
    }
    if given.get("kind").text() != kind {
        let (given, kind) = (given.get("kind").text().unwrap_or_default(), kind.unwrap_or_default());
        return Err(format!("{}: is a {given}, and the template is for {kind}", constraint.display()));
    }
    Ok(())
}

/// Checks that a file has `ExpansionTemplate`s and nothing else, as gator does.
pub(super) fn check_expansions(file: &Path) -> Result<(), String> {
    let documents = read(file)?;
    let is_template = |node: &YamlNode| {
        (group(node), node.get("kind").text()) == ("expansion.gatekeeper.sh", Some("ExpansionTemplate"))
    };
    if documents.is_empty() || !documents.iter().all(is_template) {
        return Err(format!("{}: must have ExpansionTemplates, and nothing else", file.display()));
    }
    Ok(())
}

fn group(node: &YamlNode) -> &str {
    node.get("apiVersion").text().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// Converts a document into an object.
pub(super) fn object(node: &YamlNode) -> Result<(Object, Value), String> {
    let received = Received::read(&node.json().to_string());
    let (Some(api_version), Some(kind)) = (&received.api_version, &received.kind) else {
        return Err("not a Kubernetes object: apiVersion or kind is missing".to_owned());
    };
    let kind = Arc::new(manifest::kind_of(api_version, kind));
    let object = received.into_object(&kind, Secrets::Full, 0)?;
    let json = object.body.json().map_err(|why| why.to_string())?;
    let value = value::from_json(&json).map_err(|why| why.to_string())?;
    Ok((object, value))
}

/// Whether a document is a review and not an object.
pub(super) fn is_review(node: &YamlNode) -> bool {
    (group(node), node.get("kind").text()) == ("admission.k8s.io", Some("AdmissionReview"))
}

/// Checks that a review has only fields that the API server would send.
pub(super) fn check_review(node: &YamlNode) -> Result<(), String> {
    let unknown = |node: &YamlNode, known: &[&str]| {
        node.fields().iter().map(|field| field.key.clone()).find(|name| !known.contains(&name.as_str()))
    };
    let request = node.get("request");
    let wrong = unknown(node, &["apiVersion", "kind", "request", "response"])
        .or_else(|| unknown(request, REQUEST).map(|name| format!("request.{name}")));
    if let Some(name) = wrong {
        return Err(format!("an AdmissionReview has no field {name}"));
    }
    for name in ["object", "oldObject"] {
        let state = request.get(name);
        if !state.is_null() && state.get("kind").text().is_none_or(str::is_empty) {
            return Err(format!("request.{name} of an AdmissionReview has no kind"));
        }
    }
    Ok(())
}
