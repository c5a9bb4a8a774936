//! Kubescape: directories in the layout of its library become units that are evaluated like its scans.
//!
//! Input: directories with `rule.metadata.json` and `raw.rego`, and the controls, frameworks and config inputs next to
//! them. Output: a unit for each rule, as all rules share one package, and a policy for each control that uses it.
//! Rules that need something kaudit does not provide (a scanner on the nodes, cloud metadata, image scans, signatures)
//! are left out and reported by name. `filter.rego` is not read: it decides which objects count as scanned and passed,
//! and changes no failing result.

pub(crate) mod arrays;
pub(crate) mod controls;
pub(crate) mod document;
pub(crate) mod needs;
pub(crate) mod results;
pub(crate) mod rule;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
    sync::Arc,
};

use serde_json::{Map, Value};

use self::{
    document::{Control, FixedInput, Framework, INPUTS, LibraryDocument, RuleMetadata},
    rule::{ENTRY, PACKAGE},
};
use super::conftest;
use crate::{
    judge::{
        dialect::{Dialect, DialectDescription, InputForm, SingleRule, WorkloadRules},
        frameworks::is_same,
    },
    rego::{File, Form, Problem, analysis::data::Data},
};

/// The input is an array of the objects that `rule.metadata.json` selects. Any rule whose value has the form of
/// results is accepted.
pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    workloads: WorkloadRules::Own,
    single: Some(SingleRule { package: PACKAGE, name: ENTRY, or_only_set: true }),
    ..DialectDescription::new("kubescape", InputForm::Array, conftest::findings)
});

/// Begins the names of its frameworks on the page and in results: some have the names of others.
pub(crate) const FRAMEWORK_PREFIX: &str = "kubescape-";
const METADATA: &str = "rule.metadata.json";
const RULE: &str = "raw.rego";
/// kaudit's implementation of the helper functions that the rules of a library may import.
pub(crate) const CAUTILS: &str = include_str!("kubescape/cautils.rego");
/// Directories of a library that contain neither policies nor data.
const OTHER_DIRECTORIES: [&str; 8] = [
    "rules",
    "controls",
    "frameworks",
    "attack-tracks",
    "categories",
    "controlIDsmigration",
    "exceptions",
    "testrunner",
];
/// Controls that Kubescape evaluates on all objects of a cluster at once although they do not require it: its list
/// `wholeClusterControlIDsFallback`.
const WHOLE_CLUSTER: [&str; 4] = ["C-0261", "C-0266", "C-0267", "C-0272"];

/// The libraries among the policies, before compilation.
#[derive(Default)]
pub(crate) struct ControlLibrary<'f> {
    pub(crate) rules: Vec<RuleFiles<'f>>,
    pub(crate) controls: Vec<Control>,
    /// Each with the file that defines it.
    pub(crate) frameworks: Vec<(Framework, Arc<str>)>,
    /// By document and name; later values override earlier ones.
    pub(crate) inputs: BTreeMap<String, Map<String, Value>>,
    own: HashSet<&'f str>,
}

/// Inputs by document and name, and whether they differ from the library's defaults.
type GivenInputs = (bool, BTreeMap<String, Map<String, Value>>);

/// One rule.
pub(crate) struct RuleFiles<'f> {
    pub(crate) metadata: RuleMetadata,
    pub(crate) file: &'f File,
    pub(crate) module: Option<&'f File>,
}

impl RuleFiles<'_> {
    /// Returns its name and its file.
    pub(crate) fn named(&self) -> (&str, &Arc<str>) {
        (&self.metadata.name, &self.file.shown)
    }
}

/// Returns the directories of rules in Kubescape's layout. Their modules share one package but are compiled separately.
pub(crate) fn rule_directories(files: &[File]) -> BTreeSet<&Path> {
    files.iter().filter(|file| is_called(file, METADATA)).map(directory).collect()
}

fn directory(file: &File) -> &Path {
    Path::new(&*file.shown).parent().unwrap_or(Path::new(""))
}

fn is_called(file: &File, name: &str) -> bool {
    Path::new(&*file.shown).file_name().is_some_and(|own| own == name)
}

impl<'f> ControlLibrary<'f> {
    /// Finds the libraries among the files of a source; `shared` are files of other sources with inputs, controls and
    /// frameworks.
    pub(crate) fn read(files: &'f [File], shared: &'f [File], problems: &mut Vec<Problem>) -> Self {
        let mut library = Self::default();
        let described = files.iter().filter(|file| is_called(file, METADATA));
        let rules: BTreeSet<&Path> = described.map(directory).collect();
        if rules.is_empty() {
            return library;
        }
        let roots: BTreeSet<&Path> = rules.iter().filter_map(|rule| rule.parent()?.parent()).collect();
        let mut inputs = Vec::new();
        for file in files {
            let path = Path::new(&*file.shown);
            if let Some(rule) = path.ancestors().skip(1).find(|above| rules.contains(above)) {
                library.own.insert(&file.shown);
                if directory(file) == rule && is_called(file, METADATA) {
                    library.rule(file, files, problems);
                }
                continue;
            }
            if file.form == Form::Rego {
                continue;
            }
            match library.document(file, &mut inputs) {
                Ok(true) => {}
                Ok(false) if is_in_other_directory(path, &roots) => {}
                Ok(false) => continue,
                Err(problem) => problems.push(problem),
            }
            library.own.insert(&file.shown);
        }
        for file in shared {
            // Its problems are reported by the source that contains it.
            let _ignored = library.document(file, &mut inputs);
        }
        // The library's own inputs come first, whatever the order of the paths.
        inputs.sort_by_key(|(own, _)| *own);
        for (document, values) in inputs.into_iter().flat_map(|(_, inputs)| inputs) {
            library.inputs.entry(document).or_default().extend(values);
        }
        library.controls.sort_by(|a, b| a.id.cmp(&b.id));
        library
    }

    /// Adds a document that is not part of a rule; returns whether it belongs to a library.
    fn document(&mut self, file: &File, inputs: &mut Vec<GivenInputs>) -> Result<bool, Problem> {
        match document::read(file)? {
            Some(LibraryDocument::Control(control)) => self.controls.push(*control),
            Some(LibraryDocument::Framework(framework)) => self.frameworks.push((framework, Arc::clone(&file.shown))),
            Some(LibraryDocument::Inputs(given)) => {
                inputs.push((!is_called(file, "default-config-inputs.json"), given));
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    fn rule(&mut self, file: &'f File, files: &'f [File], problems: &mut Vec<Problem>) {
        match serde_json::from_str::<RuleMetadata>(&file.text) {
            Ok(metadata) => {
                let beside = |other: &&File| is_called(other, RULE) && directory(other) == directory(file);
                self.rules.push(RuleFiles { metadata, file, module: files.iter().find(beside) });
            }
            Err(why) => {
                let message = format!("not the metadata of a rule: {why}");
                let help = "Kubescape's layout requires name, match and ruleLanguage";
                problems.push(Problem::refused(&file.shown, message).help(help));
            }
        }
    }

    /// Whether a file belongs to a library and is neither data nor a separate module.
    pub(crate) fn has(&self, file: &File) -> bool {
        self.own.contains(&*file.shown)
    }

    /// Returns why no control for any cluster uses a rule.
    pub(crate) fn why_unnamed(&self, rule: &RuleFiles<'_>) -> &'static str {
        if self.controls.iter().any(|control| control.rules_names.contains(&rule.metadata.name)) {
            "its controls apply to one cloud; select them with --framework"
        } else {
            "no control uses it"
        }
    }

    /// Returns the controls of the given frameworks, with their texts. Without a framework, returns all controls that
    /// are not specific to one cloud.
    pub(crate) fn chosen(&self, names: &[String]) -> Vec<Control> {
        if names.is_empty() {
            return self.controls.iter().filter(|control| control.is_for_any_cluster()).cloned().collect();
        }
        let mut chosen: BTreeMap<&str, Control> = BTreeMap::new();
        for name in names {
            let Some((framework, _)) = self.framework(name) else { continue };
            for control in &self.controls {
                let active = framework.active_controls.iter().find(|active| active.id == control.id);
                if active.is_none() && !framework.controls_names.contains(&control.name) {
                    continue;
                }
                chosen.entry(&control.id).or_insert_with(|| {
                    let patched = |field: &str| Some(active?.patch.get(field)?.as_str()?.to_owned());
                    Control {
                        name: patched("name").unwrap_or_else(|| control.name.clone()),
                        description: patched("description").unwrap_or_else(|| control.description.clone()),
                        remediation: patched("remediation").unwrap_or_else(|| control.remediation.clone()),
                        ..control.clone()
                    }
                });
            }
        }
        chosen.into_values().collect()
    }

    /// Finds a framework by its name or by its file name.
    pub(crate) fn framework(&self, name: &str) -> Option<&(Framework, Arc<str>)> {
        let stem = |file: &str| Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.strip_prefix(FRAMEWORK_PREFIX).unwrap_or(name);
        let is = |other: &str| is_same(other, name);
        self.frameworks.iter().find(|(framework, file)| is(&framework.name) || is(&stem(file)))
    }

    /// Returns the names of its frameworks, and those of the given names that select one by its file.
    pub(crate) fn framework_names(&self, given: &[String]) -> impl Iterator<Item = String> {
        let given = given.iter().filter(|name| self.framework(name).is_some()).cloned();
        self.frameworks.iter().map(|(framework, _)| framework.name.clone()).chain(given)
    }

    pub(crate) fn rule_names(&self) -> HashSet<&str> {
        self.rules.iter().map(|rule| rule.metadata.name.as_str()).collect()
    }

    /// Warns of controls that refer to an unknown rule; otherwise users would not notice that the rule is not
    /// evaluated.
    pub(crate) fn unknown_rules(&self, problems: &mut Vec<Problem>) {
        let known = self.rule_names();
        let first = self.rules.first().map(|rule| &rule.file.shown);
        for control in &self.controls {
            for name in control.rules_names.iter().filter(|name| !known.contains(name.as_str())) {
                let message = format!("control {} refers to the rule {name}, which does not exist", control.id);
                problems.extend(first.map(|file| Problem::warning(file, message.clone())));
            }
        }
    }

    /// Returns the `data` document for the rules.
    pub(crate) fn data(&self, fixed: Option<&FixedInput>) -> Data {
        let mut data = Data::default();
        for document in INPUTS {
            let mut values = self.inputs.get(document).cloned().unwrap_or_default();
            if document == INPUTS[0] {
                values.extend(fixed.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
            } else {
                values.entry("cloudProvider").or_insert_with(|| Value::from(""));
            }
            data.document.insert(document.to_owned(), Value::Object(values));
        }
        data
    }
}

/// Whether a path is in a directory of a library that contains neither policies nor data.
fn is_in_other_directory(path: &Path, roots: &BTreeSet<&Path>) -> bool {
    let below = path.ancestors().find(|above| roots.contains(above)).and_then(|root| path.strip_prefix(root).ok());
    let first = below.and_then(|below| below.components().next());
    first.is_some_and(|first| OTHER_DIRECTORIES.iter().any(|name| first.as_os_str() == *name))
}

/// Whether the rules of a control are evaluated on all objects of a cluster at once, not namespace by namespace.
pub(crate) fn sees_whole_cluster(control: &Control) -> bool {
    match control.attributes.get("requiresWholeClusterInput") {
        Some(Value::Bool(whole)) => *whole,
        Some(Value::String(word)) => word.eq_ignore_ascii_case("true"),
        _ => WHOLE_CLUSTER.contains(&control.id.as_str()),
    }
}
