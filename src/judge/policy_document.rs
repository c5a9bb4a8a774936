//! A policy that is a Kubernetes object, such as a Gatekeeper template, and how its problems and positions are reported.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    judge::unjudged::Unjudged,
    model::verdict::Source,
    rego::{
        File, Form, Position, Problem, ProblemSeverity,
        analysis::{
            data::yaml_problem,
            yaml::{self, YamlContent, YamlDialect, YamlError, YamlNode},
        },
    },
};

/// One document of a file.
pub(crate) struct PolicyDocument<'f> {
    pub(crate) file: &'f File,
    pub(crate) node: YamlNode,
    /// Whether the same directory or one above contains a test suite.
    pub(crate) example: bool,
}

impl PolicyDocument<'_> {
    pub(crate) fn name(&self) -> &str {
        self.node.at(&["metadata", "name"]).text().unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.node.get("kind").text().unwrap_or_default()
    }

    /// Returns the API group and the kind.
    pub(crate) fn type_of(&self) -> (&str, &str) {
        let version = self.node.get("apiVersion").text().unwrap_or_default();
        (version.split_once('/').map_or("", |(group, _)| group), self.kind())
    }

    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.kind(), self.name()).trim_end().to_owned()
    }

    pub(crate) fn problem(&self, node: &YamlNode, message: impl Into<String>) -> Problem {
        self.problem_at(node.at, message)
    }

    pub(crate) fn problem_at(&self, at: Position, message: impl Into<String>) -> Problem {
        Problem::refused(&self.file.shown, message).at(&self.file.text, at.line, at.column)
    }

    /// Returns the problem of a Constraint whose template is refused.
    pub(crate) fn left_out(&self, template: &Self) -> Problem {
        let message = format!(
            "left out: {} uses {} of {}, which is not loaded",
            self.label(),
            template.label(),
            template.file.shown
        );
        Problem { line: self.node.at.line, ..Problem::left_out(&self.file.shown, message) }
    }

    /// Returns a problem of the whole document, without an excerpt: its first line would explain nothing.
    pub(crate) fn whole(&self, message: impl Into<String>) -> Problem {
        Problem { line: self.node.at.line, ..Problem::refused(&self.file.shown, message) }
    }

    pub(crate) fn source(&self) -> Source {
        Source { file: Arc::clone(&self.file.shown), line: self.node.at.line }
    }

    pub(crate) fn unjudged(&self, reason: impl Into<String>) -> Unjudged {
        Unjudged { name: self.label(), reason: reason.into(), source: self.source(), controls: Vec::new() }
    }
}

/// Reads the documents of a file of a dialect, whose problem is added to `problems` if it cannot be read; `None` if no document
/// is of the dialect. `example` is whether the file belongs to a test suite.
pub(crate) fn of_dialect<'f>(
    file: &'f File,
    example: bool,
    is_own: impl Fn(&PolicyDocument<'f>) -> bool,
    problems: &mut Vec<Problem>,
) -> Option<Vec<PolicyDocument<'f>>> {
    match read(file) {
        Ok(nodes) => {
            let documents = nodes.into_iter().map(|node| PolicyDocument { file, node, example });
            let documents: Vec<PolicyDocument<'f>> = documents.collect();
            documents.iter().any(is_own).then_some(documents)
        }
        Err(problem) => {
            problems.push(problem);
            Some(Vec::new())
        }
    }
}

/// Reads all documents of a file, and the items of `List`s separately. Empty documents are skipped.
///
/// # Errors
/// Returns the syntax error of the text.
pub(crate) fn read(file: &File) -> Result<Vec<YamlNode>, Problem> {
    let documents = match yaml::documents(&file.text, YamlDialect::Kubectl) {
        Ok(documents) => documents,
        // Not all JSON is YAML: surrogate pairs in strings are not. Such a file is read without positions.
        Err(why) if file.form == Form::Json => {
            let json = serde_json::from_str::<serde_json::Value>(&file.text);
            vec![json.map_err(|_| refused(file, &why))?.into()]
        }
        Err(why) => return Err(refused(file, &why)),
    };
    let mut flat = Vec::new();
    for document in documents {
        flatten(document, &mut flat);
    }
    Ok(flat)
}

/// Returns the problem of a file; without the line of the text if that may have the value of a Secret, as in fixtures of
/// tests.
fn refused(file: &File, why: &YamlError) -> Problem {
    let mut problem = yaml_problem(file, why);
    if file.text.contains("Secret") {
        problem.excerpt.clear();
    }
    problem
}

fn flatten(mut document: YamlNode, into: &mut Vec<YamlNode>) {
    let list = document.get("kind").text().is_some_and(|kind| kind.ends_with("List"));
    if list
        && let YamlContent::Map(fields) = &mut document.content
        && let Some(field) = fields.iter_mut().find(|field| field.key == "items")
        && let YamlContent::List(items) = &mut field.value.content
    {
        for item in std::mem::take(items) {
            flatten(item, into);
        }
    } else if !document.is_null() {
        into.push(document);
    }
}

/// Removes exact duplicates; two different definitions of one object are a problem.
pub(crate) fn distinct<'f>(documents: Vec<PolicyDocument<'f>>, problems: &mut Vec<Problem>) -> Vec<PolicyDocument<'f>> {
    let mut kept: Vec<PolicyDocument<'f>> = Vec::new();
    let mut first: BTreeMap<[String; 3], usize> = BTreeMap::new();
    for document in documents {
        let namespace = document.node.at(&["metadata", "namespace"]).text().unwrap_or_default();
        let key = [document.kind(), namespace, document.name()].map(str::to_owned);
        match first.get(&key).map(|index| &kept[*index]) {
            Some(other) if other.node == document.node => {}
            Some(other) => {
                let Source { file, line } = other.source();
                let message = format!("{} is also defined at {file}:{line}, with different content", document.label());
                problems.push(document.whole(message).help("keep one of the two"));
            }
            None => {
                first.insert(key, kept.len());
                kept.push(document);
            }
        }
    }
    kept
}

/// Turns a problem into a warning.
pub(crate) fn warning(problem: Problem) -> Problem {
    Problem { severity: ProblemSeverity::Warning, ..problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, text: &str) -> Vec<YamlNode> {
        super::read(&File::new("f".into(), form, text.to_owned())).unwrap()
    }

    #[test]
    fn a_broken_file_with_a_secret_is_refused_without_the_line() {
        let refused = |kind: &str| {
            let text = format!("kind: {kind}\nstringData:\n  password: \"hunter2\n");
            super::read(&File::new("f".into(), Form::Yaml, text)).unwrap_err().to_string()
        };
        assert!(refused("ConfigMap").contains("hunter2"));
        assert!(!refused("Secret").contains("hunter2"), "{}", refused("Secret"));
    }

    #[test]
    fn documents_and_items_of_lists_are_read_with_their_positions() {
        let text = "kind: A\nb: 1\n---\n---\nkind: XList\nitems:\n- {a: 1}\n- {a: \"2\"}\n";
        let nodes = read(Form::Yaml, text);
        assert_eq!(nodes.len(), 3);
        assert_eq!(nodes[1].get("a").at, Position { line: 7, column: 7 });
        assert_eq!(nodes[2].get("a").text(), Some("2"));
    }

    #[test]
    fn json_that_is_not_yaml_is_read() {
        let nodes = read(Form::Json, "{\"a\": \"\\ud83d\\ude00\", \"b\": [1, 2.5]}");
        assert_eq!(nodes[0].json(), serde_json::json!({"a": "😀", "b": [1, 2.5]}));
    }
}
