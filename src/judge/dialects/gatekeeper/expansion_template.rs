//! `ExpansionTemplate`s: which objects Gatekeeper expands, and into what.
//!
//! What is refused, and that all templates of a cycle are, follows Gatekeeper's `pkg/expansion`.

use std::collections::BTreeSet;

use crate::{
    judge::{
        expansion::{ExpandedKind, Expansion},
        policy_document::PolicyDocument,
    },
    model::verdict::Outcome,
    rego::{Problem, analysis::yaml::YamlNode},
};

/// The maximum length of a template's name.
const NAME_BYTES: usize = 63;

/// Reads the templates; the problems of those that are refused are added to `problems`.
pub(crate) fn read(documents: &[PolicyDocument<'_>], problems: &mut Vec<Problem>) -> Vec<Expansion> {
    let mut names = BTreeSet::new();
    let mut read: Vec<(usize, Expansion)> = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        match expansion(document) {
            Ok(_) if !names.insert(document.name()) => {
                let message = format!("{} is defined more than once", document.label());
                problems.push(document.whole(message).help("keep one of them"));
            }
            Ok(expansion) => read.push((index, expansion)),
            Err(problem) => problems.push(problem),
        }
    }
    let all: Vec<Expansion> = read.iter().map(|(_, expansion)| expansion.clone()).collect();
    read.retain(|(index, expansion)| {
        let is_cyclic = is_in_cycle(expansion, &all);
        if is_cyclic {
            let document = &documents[*index];
            let is_own = expansion.applies_to(&expansion.generated(true));
            let cycle = if is_own { "expands what it generates" } else { "and others expand each other in a cycle" };
            let message = format!("{} {cycle}", document.label());
            problems.push(document.whole(message).help("change spec.applyTo or spec.generatedGVK"));
        }
        !is_cyclic
    });
    read.into_iter().map(|(_, expansion)| expansion).collect()
}

/// Reads one template.
fn expansion(document: &PolicyDocument<'_>) -> Result<Expansion, Problem> {
    let name = document.name();
    let problem = |node: &YamlNode, why: String| document.problem(node, format!("{}: {why}", document.label()));
    if name.is_empty() || name.len() > NAME_BYTES {
        let why = format!("metadata.name must have 1 to {NAME_BYTES} characters");
        return Err(problem(document.node.at(&["metadata", "name"]), why));
    }
    let spec = document.node.get("spec");
    let text = |node: &YamlNode| node.text().unwrap_or_default().to_owned();
    let path = text(spec.get("templateSource"));
    if path.is_empty() || path.split('.').any(str::is_empty) {
        let why = "spec.templateSource must be a path such as spec.template".to_owned();
        return Err(problem(spec.get("templateSource"), why));
    }
    let generated = spec.get("generatedGVK");
    let [group, version, kind] = ["group", "version", "kind"].map(|field| text(generated.get(field)));
    if version.is_empty() || kind.is_empty() {
        return Err(problem(generated, "spec.generatedGVK needs a version and a kind".to_owned()));
    }
    let applies_to: Vec<ExpandedKind> = spec.get("applyTo").items().iter().flat_map(kinds).collect();
    if applies_to.is_empty() {
        let why = "spec.applyTo must list groups, versions and kinds".to_owned();
        return Err(problem(spec.get("applyTo"), why));
    }
    let outcome = action(spec.get("enforcementAction")).map_err(|why| problem(spec.get("enforcementAction"), why))?;
    let path = path.split('.').map(str::to_owned).collect();
    let template = Some(name.into());
    Ok(Expansion { outcome, ..Expansion::new(template, applies_to, path, [group, version, kind]) })
}

/// Returns every combination of the groups, versions and kinds of an entry of `applyTo`.
fn kinds(entry: &YamlNode) -> Vec<ExpandedKind> {
    let texts = |field: &str| entry.get(field).texts().map(str::to_owned).collect::<Vec<_>>();
    let (groups, versions, names) = (texts("groups"), texts("versions"), texts("kinds"));
    let mut kinds = Vec::new();
    for group in &groups {
        for version in &versions {
            let kind = |kind: &String| ExpandedKind {
                group: group.clone(),
                version: Some(version.clone()),
                kind: kind.clone(),
            };
            kinds.extend(names.iter().map(kind));
        }
    }
    kinds
}

/// Returns the outcome of violations; `None` if it is that of the Constraint.
fn action(node: &YamlNode) -> Result<Option<Outcome>, String> {
    match node.text() {
        None | Some("") => Ok(None),
        Some("deny") => Ok(Some(Outcome::Fail)),
        Some("warn" | "dryrun") => Ok(Some(Outcome::Warn)),
        Some(other) => Err(format!("unknown action {other:?}: use deny, warn or dryrun")),
    }
}

/// Whether what a template generates is expanded into an object that it expands itself.
fn is_in_cycle(template: &Expansion, all: &[Expansion]) -> bool {
    let mut open = vec![template];
    let mut seen = BTreeSet::new();
    while let Some(next) = open.pop() {
        let generated = next.generated(true);
        if template.applies_to(&generated) {
            return true;
        }
        let following = all.iter().filter(|one| one.applies_to(&generated));
        open.extend(following.filter(|one| seen.insert(one.template.clone())));
    }
    false
}
