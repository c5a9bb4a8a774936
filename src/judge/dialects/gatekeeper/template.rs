//! `ConstraintTemplate`s: the code embedded in the YAML, and for Rego its lines and Gatekeeper's restrictions on it.

use std::sync::Arc;

use super::{engine::GatekeeperEngine, schema::Schema};
use crate::{
    judge::{
        dialects::{cel::policy::AdmissionPolicy, trivy},
        metadata::Metadata,
        policy_annotations,
        policy_document::PolicyDocument,
    },
    rego::{
        Declared, File, Form, Problem, Version,
        analysis::{
            references::{self, Path},
            syntax::{self, Module, Position},
            yaml::YamlNode,
        },
    },
};

/// The only target that Gatekeeper supports.
const TARGET: &str = "admission.k8s.gatekeeper.sh";
/// The name of the engine for CEL.
const CEL: &str = "K8sNativeValidation";
/// The package that the entry module is moved to, whatever package it declares.
pub(crate) const PACKAGE: &str = "template";
/// The entrypoint.
pub(crate) const ENTRY: &str = "violation";

/// One template, parsed but not compiled.
pub(crate) struct Template {
    /// The kind of its Constraints.
    pub(crate) kind: Arc<str>,
    /// The entry module, followed by the libraries; empty if its CEL is evaluated.
    pub(crate) modules: Vec<File>,
    /// The line at which the entry module starts.
    pub(crate) line: u32,
    /// The positions of the modules in the file.
    pub(crate) blocks: Vec<BlockScalar>,
    pub(crate) schema: Schema,
    pub(crate) metadata: Metadata,
    /// Whether its CEL is evaluated.
    pub(crate) is_cel: bool,
    /// Its compiled CEL; set before its Constraints are read.
    pub(crate) expressions: Option<Arc<AdmissionPolicy>>,
}

/// The YAML block scalar of one module: its lines in the file, and its indentation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockScalar {
    first: u32,
    last: u32,
    indent: u32,
}

/// Converts a column of a module to a column of the file.
pub(crate) fn column(blocks: &[BlockScalar], line: u32, column: u32) -> u32 {
    let block = blocks.iter().find(|block| (block.first..=block.last).contains(&line));
    column + block.filter(|_| column > 0).map_or(0, |block| block.indent)
}

/// Reads a template; its code is compiled later. If it has code for both engines, that for the preferred one is read.
///
/// # Errors
/// Returns the problem of an invalid template, which Gatekeeper would also refuse.
pub(crate) fn read(
    document: &PolicyDocument<'_>,
    preferred: GatekeeperEngine,
    problems: &mut Vec<Problem>,
) -> Result<Template, Problem> {
    let node = &document.node;
    let (kind, target) = identity(document)?;
    let legacy = !node.get("apiVersion").text().is_some_and(|version| version.ends_with("/v1"));
    let mut template = Template {
        kind: kind.into(),
        modules: Vec::new(),
        line: node.at.line,
        blocks: Vec::new(),
        schema: Schema::new(node.at(&["spec", "crd", "spec", "validation"]), legacy),
        metadata: policy_annotations::read(document, problems),
        is_cel: engine(target, CEL).is_some() && (preferred == GatekeeperEngine::Cel || !has_rego(target)),
        expressions: None,
    };
    if !template.is_cel {
        let (source, version) = source(document, kind, target)?;
        template.line = source.get("rego").at.line;
        template.add(document, source.get("rego"), "rego", version);
        for (index, library) in source.get("libs").items().iter().enumerate() {
            template.add(document, library, &format!("libs[{index}]"), version);
        }
    }
    Ok(template)
}

/// Returns the kind of a template's Constraints, and its only target.
fn identity<'n>(document: &'n PolicyDocument<'_>) -> Result<(&'n str, &'n YamlNode), Problem> {
    let node = &document.node;
    let name = node.at(&["metadata", "name"]);
    let kind = node.at(&["spec", "crd", "spec", "names", "kind"]).text().unwrap_or_default();
    if kind.is_empty() {
        return Err(document.whole("the ConstraintTemplate has no spec.crd.spec.names.kind"));
    }
    if !name.text().is_some_and(|name| name.eq_ignore_ascii_case(kind)) {
        let given = name.text().unwrap_or_default();
        let message = format!("the name of ConstraintTemplate {given:?} must be its kind {kind} in lower case");
        let help = format!("metadata.name: {}", kind.to_lowercase());
        return Err(document.problem(if name.is_null() { node } else { name }, message).help(help));
    }
    let targets = node.at(&["spec", "targets"]);
    let [target] = targets.items() else {
        let message = format!("ConstraintTemplate {kind} has {} targets, but must have one", targets.items().len());
        return Err(document.problem(if targets.is_null() { node } else { targets }, message));
    };
    if target.get("target").text() != Some(TARGET) {
        let message = format!("ConstraintTemplate {kind}: the target must be {TARGET}");
        return Err(document.problem(target, message).help(format!("target: {TARGET}")));
    }
    Ok((kind, target))
}

/// Returns the code of a target for an engine.
fn engine<'n>(target: &'n YamlNode, wanted: &str) -> Option<&'n YamlNode> {
    target.get("code").items().iter().find(|code| code.get("engine").text() == Some(wanted))
}

/// Returns the node with the expressions of a template; `None` if it has none.
pub(super) fn expressions<'n>(document: &'n PolicyDocument<'_>) -> Option<&'n YamlNode> {
    let target = document.node.at(&["spec", "targets"]).items().first()?;
    Some(engine(target, CEL)?.get("source"))
}

/// Whether `rego` of the target itself has code, which overrides that of `code`, as in Gatekeeper.
fn has_legacy_rego(target: &YamlNode) -> bool {
    target.get("rego").text().is_some_and(|text| !text.is_empty())
}

fn has_rego(target: &YamlNode) -> bool {
    has_legacy_rego(target) || engine(target, "Rego").is_some()
}

/// Returns the node with `rego` and `libs`, and their version.
fn source<'n>(
    document: &PolicyDocument<'_>,
    kind: &str,
    target: &'n YamlNode,
) -> Result<(&'n YamlNode, Version), Problem> {
    if has_legacy_rego(target) {
        return Ok((target, Version::V0));
    }
    match engine(target, "Rego") {
        Some(code) if code.at(&["source", "rego"]).text().is_none() => {
            let message = format!("ConstraintTemplate {kind}: engine Rego without source.rego");
            Err(document.problem(code, message))
        }
        Some(code) => {
            let source = code.get("source");
            let v1 = source.get("version").text() == Some("v1");
            Ok((source, if v1 { Version::V1 } else { Version::V0 }))
        }
        None => {
            let help = "write Rego under rego, or code with engine: Rego or engine: K8sNativeValidation";
            Err(document.problem(target, format!("ConstraintTemplate {kind} has neither Rego nor CEL")).help(help))
        }
    }
}

impl Template {
    /// Adds a module, padded so that its line numbers are those of the file and every problem and result refers to the
    /// right line.
    fn add(&mut self, document: &PolicyDocument<'_>, node: &YamlNode, part: &str, version: Version) {
        let text = node.text().unwrap_or_default();
        let entry = self.modules.is_empty();
        let block = block(&document.file.text, node);
        let shown: Arc<str> = match &block {
            Some(_) => Arc::clone(&document.file.shown),
            // The text is folded or quoted, so lines of the file are not lines of the module.
            None => format!("{} ({part} of {})", document.file.shown, self.kind).into(),
        };
        let text = if entry { in_package(text) } else { text.to_owned() };
        let above = block.as_ref().map_or(0, |block| block.first as usize - 1);
        let file = File::new(shown, Form::Rego, "\n".repeat(above) + &text);
        let help = "move it to code with engine: Rego and version: v1, or import future.keywords";
        let declared = Some(Declared { version, by: "the template", help });
        self.modules.push(File { declared, ..file });
        self.blocks.extend(block);
    }

    /// Converts the column and the excerpt of a module's problem to those of the enclosing file.
    pub(crate) fn in_file(&self, file: &File, problem: Problem) -> Problem {
        if problem.file != file.shown || problem.line == 0 {
            return problem;
        }
        let column = column(&self.blocks, problem.line, problem.column);
        let excerpt = file.text.lines().nth(problem.line as usize - 1).unwrap_or_default().trim_end();
        let excerpt = if problem.excerpt.is_empty() { String::new() } else { excerpt.to_owned() };
        Problem { column, excerpt, ..problem }
    }
}

/// Finds the lines of a literal block scalar, which follow its indicator, or of a one-line text in the text of the file.
fn block(file: &str, node: &YamlNode) -> Option<BlockScalar> {
    let text = node.text()?;
    let begin = node.at.line;
    [begin + 1, begin].into_iter().find_map(|first| {
        let mut lines = file.lines().skip(first as usize - 1);
        let mut indent = None;
        let mut last = first;
        for (number, line) in (first..).zip(text.lines()) {
            let around = lines.next()?;
            if !line.trim().is_empty() {
                let before = around.strip_suffix(line).or_else(|| around.trim_end().strip_suffix(line))?;
                if !before.bytes().all(|byte| byte == b' ') || *indent.get_or_insert(before.len()) != before.len() {
                    return None;
                }
            }
            last = number;
        }
        Some(BlockScalar { first, last, indent: u32::try_from(indent?).ok()? })
    })
}

/// Moves an entry module to [`PACKAGE`], so that it cannot conflict with a library.
fn in_package(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(path) = syntax::package_path(&text) {
        text.replace_range(path, PACKAGE);
    }
    text
}

/// Returns violations of Gatekeeper's restrictions on valid modules: only its own packages, imports and data are
/// allowed.
pub(crate) fn check(files: &[&File], modules: &[&Module], nodes: &[references::Node]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, (file, module)) in files.iter().zip(modules).enumerate() {
        let package = module.package_path();
        let library = package.len() > 1 && package[0] == "lib";
        if index > 0 && !library {
            let message = format!("package {} is not a library", package.join("."));
            let help = "packages of libs must start with lib, e.g. `package lib.images`";
            problems.push(
                Problem::refused(&file.shown, message).at(&file.text, module.at.line, module.at.column).help(help),
            );
        }
        problems.extend(imports(file, module));
    }
    let allowed = |path: &&Path| path.first().is_some_and(|key| matches!(key.as_str(), PACKAGE | "lib" | "inventory"));
    for node in nodes {
        let foreign = |call: &&references::Call| call.rule.is_none() && trivy::FUNCTIONS.contains(&call.name.as_str());
        for call in node.calls.iter().filter(foreign) {
            let problem = Problem::refused(&files[node.module].shown, format!("unknown function {}", call.name));
            let help = "only Trivy checks can call it; return an object with msg and details instead";
            problems.push(problem.at(&files[node.module].text, call.line, call.column).help(help));
        }
        for path in node.uses.iter().filter(|path| !allowed(path)) {
            let name = std::iter::once("data").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(".");
            let file = files[node.module];
            let problem = Problem::refused(&file.shown, format!("{name} cannot be used in a template"));
            let help = "Gatekeeper provides only data.inventory and data.lib";
            problems.push(problem.at(&file.text, node.line, node.column).help(help));
        }
    }
    problems
}

/// Returns the imports that Gatekeeper refuses.
fn imports(file: &File, module: &Module) -> Vec<Problem> {
    let problem = |(name, at): (String, Position)| {
        let help = match name.split('.').collect::<Vec<_>>()[..] {
            ["data", "lib", ..] | ["future", ..] => return None,
            ["rego", "v1"] => "for Rego v1, move the Rego to code with engine: Rego and version: v1",
            _ => "Gatekeeper allows only imports of data.lib and future.keywords",
        };
        let problem = Problem::refused(&file.shown, format!("import {name} is not allowed in a template"));
        Some(problem.at(&file.text, at.line, at.column).help(help))
    };
    module.imported_paths().filter_map(problem).collect()
}
