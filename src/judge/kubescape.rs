//! Kubescape: directories in the layout of its library become units that judge as its scans do.
//!
//! In: directories with `rule.metadata.json` and `raw.rego`, and the controls, frameworks and config inputs beside them. Out: a
//! unit for each rule, as all rules share one package, and a policy for each control that names it. What a rule needs that
//! kaudit has not (a scanner on the nodes, a cloud's description, image scans, signatures) has it left out, by name.
//! `filter.rego` is not read: it decides which objects count as scanned and passed, and changes no failing result.

pub(crate) mod arrays;
mod controls;
mod document;
pub(crate) mod matching;
mod needs;
pub(crate) mod rule;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
    sync::Arc,
};

use serde_json::{Map, Value};

use self::{
    arrays::Aggregator,
    controls::{missing_controls, missing_rules, unjudged_rule},
    document::{Control, Document, FixedInput, Framework, INPUTS, RuleMetadata},
    needs::{needs_builtin, why_unjudged},
    rule::{ControlRule, ENTRY, KubescapeRule, PACKAGE, RuleInput},
};
use super::{
    compile::compile,
    dialect::Dialect,
    entrypoints::Purpose,
    metadata::{Metadata, RelatedResource},
    policy::Policy,
    reads::Matches,
    rule::{Rule, RuleDescriptors},
    sources::PolicySource,
    unit::{Unit, UnitForm},
    unjudged::Unjudged,
};
use crate::{
    model::{rule_numbers::RuleNumber, spelling::nearest, verdict::RuleInfo},
    rego::{
        data::Data,
        file::{File, Form},
        limits::Limits,
        missing::Missing,
        problem::Problem,
    },
};

const UNKNOWN_FRAMEWORK: &str = "no framework of this name is among the policies";
const METADATA: &str = "rule.metadata.json";
const RULE: &str = "raw.rego";
/// What the rules of a library may share, in kaudit's words.
const CAUTILS: &str = include_str!("kubescape/cautils.rego");
/// Directories of a library that hold neither policies nor data.
const BESIDE: [&str; 8] = [
    "rules",
    "controls",
    "frameworks",
    "attack-tracks",
    "categories",
    "controlIDsmigration",
    "exceptions",
    "testrunner",
];
/// Controls that Kubescape gives all objects of a cluster at once although they do not ask for it: its list
/// `wholeClusterControlIDsFallback`.
const WHOLE_CLUSTER: [&str; 4] = ["C-0261", "C-0266", "C-0267", "C-0272"];

/// The libraries among the policies, not compiled yet.
#[derive(Default)]
pub(crate) struct Library<'f> {
    rules: Vec<RuleFiles<'f>>,
    controls: Vec<Control>,
    /// Each with the file that it is in.
    frameworks: Vec<(Framework, Arc<str>)>,
    /// By document and name; what comes later counts.
    inputs: BTreeMap<String, Map<String, Value>>,
    own: HashSet<&'f str>,
}

/// Inputs by document and name, and whether they are others than the library's own.
type GivenInputs = (bool, BTreeMap<String, Map<String, Value>>);

/// One rule.
struct RuleFiles<'f> {
    metadata: RuleMetadata,
    file: &'f File,
    module: Option<&'f File>,
}

impl RuleFiles<'_> {
    /// Returns its name and the file that has it.
    fn named(&self) -> (&str, &Arc<str>) {
        (&self.metadata.name, &self.file.shown)
    }
}

/// Libraries that are compiled.
#[derive(Default)]
pub(crate) struct LoadedLibrary {
    pub(crate) units: Vec<Unit>,
    pub(crate) policies: Vec<Policy>,
    /// Rules that need what kaudit has not.
    pub(crate) unjudged: Vec<Unjudged>,
    /// Rules that no chosen control names.
    pub(crate) left_out: Vec<Unjudged>,
}

/// Returns the directories of rules in Kubescape's layout, whose modules all share one package without meeting.
pub(crate) fn rule_directories(files: &[File]) -> BTreeSet<&Path> {
    files.iter().filter(|file| is_called(file, METADATA)).map(directory).collect()
}

/// Whether it is the problem of a framework that a library does not have.
pub(crate) fn is_unknown_framework(problem: &Problem) -> bool {
    problem.message == UNKNOWN_FRAMEWORK
}

fn directory(file: &File) -> &Path {
    Path::new(&*file.shown).parent().unwrap_or(Path::new(""))
}

fn is_called(file: &File, name: &str) -> bool {
    Path::new(&*file.shown).file_name().is_some_and(|own| own == name)
}

impl<'f> Library<'f> {
    /// Finds the libraries among the files of a source; `shared` are files of others with inputs, controls and frameworks.
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
                Ok(false) if is_beside(path, &roots) => {}
                Ok(false) => continue,
                Err(problem) => problems.push(problem),
            }
            library.own.insert(&file.shown);
        }
        for file in shared {
            // Its problems are those of the source that brings it.
            let _ignored = library.document(file, &mut inputs);
        }
        // The library's own come first, whatever the order of the paths.
        inputs.sort_by_key(|(own, _)| *own);
        for (document, values) in inputs.into_iter().flat_map(|(_, inputs)| inputs) {
            library.inputs.entry(document).or_default().extend(values);
        }
        library.controls.sort_by(|a, b| a.id.cmp(&b.id));
        library
    }

    /// Adds a document of another file than those of rules; returns whether it is one of a library.
    fn document(&mut self, file: &File, inputs: &mut Vec<GivenInputs>) -> Result<bool, Problem> {
        match document::read(file)? {
            Some(Document::Control(control)) => self.controls.push(*control),
            Some(Document::Framework(framework)) => self.frameworks.push((framework, Arc::clone(&file.shown))),
            Some(Document::Inputs(given)) => inputs.push((!is_called(file, "default-config-inputs.json"), given)),
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
                let help = "Kubescape's layout has name, match and ruleLanguage here";
                problems.push(Problem::refused(&file.shown, message).help(help));
            }
        }
    }

    /// Whether a file is of a library, and neither data nor a module by itself.
    pub(crate) fn has(&self, file: &File) -> bool {
        self.own.contains(&*file.shown)
    }

    /// Compiles the rules of the frameworks among `sources`, or all if there is none.
    pub(crate) fn load(self, sources: &[PolicySource], limits: &Limits, problems: &mut Vec<Problem>) -> LoadedLibrary {
        let mut loaded = LoadedLibrary::default();
        let frameworks: Vec<&str> = sources
            .iter()
            .filter_map(|source| match source {
                PolicySource::Framework(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        let controls = self.chosen(&frameworks, problems);
        self.unknown_rules(problems);
        let chosen = frameworks.iter().filter_map(|name| self.framework(name));
        loaded.unjudged.extend(chosen.flat_map(|framework| missing_controls(framework, &self.controls)));
        loaded.unjudged.extend(missing_rules(&controls, &self.rule_names()));
        for rule in &self.rules {
            let own: Vec<&Control> =
                controls.iter().filter(|control| control.rules_names.contains(&rule.metadata.name)).collect();
            if own.is_empty() && !frameworks.is_empty() {
                continue;
            }
            match (why_unjudged(&rule.metadata, rule.module.is_some()), rule.module) {
                (None, Some(module)) if self.controls.is_empty() || !own.is_empty() => {
                    self.compile(rule, module, &own, limits, problems, &mut loaded);
                }
                (None, _) => loaded.left_out.push(unjudged_rule(rule.named(), &[], self.why_unnamed(rule))),
                (Some(why), _) => loaded.unjudged.push(unjudged_rule(rule.named(), &own, why)),
            }
        }
        loaded.unjudged.sort();
        loaded.left_out.sort();
        loaded
    }

    /// Returns why a rule is not among those of the controls that are for any cluster.
    fn why_unnamed(&self, rule: &RuleFiles<'_>) -> &'static str {
        if self.controls.iter().any(|control| control.rules_names.contains(&rule.metadata.name)) {
            "its controls are for one cloud; --framework chooses them"
        } else {
            "no control names it"
        }
    }

    /// Returns the controls of frameworks as these word them; all that are not for one cloud if no framework is named.
    fn chosen(&self, names: &[&str], problems: &mut Vec<Problem>) -> Vec<Control> {
        if names.is_empty() {
            return self.controls.iter().filter(|control| control.is_for_any_cluster()).cloned().collect();
        }
        let mut chosen: BTreeMap<&str, Control> = BTreeMap::new();
        for name in names {
            let Some((framework, _)) = self.framework(name) else {
                problems.push(self.unknown_framework(name));
                continue;
            };
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

    /// Finds a framework by its name or that of its file.
    fn framework(&self, name: &str) -> Option<&(Framework, Arc<str>)> {
        let stem = |file: &str| Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        self.frameworks.iter().find(|(framework, file)| is(&framework.name) || is(&stem(file)))
    }

    fn unknown_framework(&self, name: &str) -> Problem {
        let shown: Arc<str> = PolicySource::Framework(name.to_owned()).shown();
        let mut known: Vec<&str> = self.frameworks.iter().map(|(framework, _)| framework.name.as_str()).collect();
        known.sort_unstable();
        let help = match nearest(name, known.iter().copied()) {
            _ if known.is_empty() => {
                "name the directory of a library in Kubescape's layout, with its frameworks, with --policies".to_owned()
            }
            Some(near) => format!("did you mean {near}? There are {}", known.join(", ")),
            None => format!("there are {}", known.join(", ")),
        };
        Problem::refused(&shown, UNKNOWN_FRAMEWORK).help(help)
    }

    fn rule_names(&self) -> HashSet<&str> {
        self.rules.iter().map(|rule| rule.metadata.name.as_str()).collect()
    }

    /// Warns of controls that name a rule which is not there: nobody would notice that it is not judged.
    fn unknown_rules(&self, problems: &mut Vec<Problem>) {
        let known = self.rule_names();
        let first = self.rules.first().map(|rule| &rule.file.shown);
        for control in &self.controls {
            for name in control.rules_names.iter().filter(|name| !known.contains(name.as_str())) {
                let message = format!("control {} names the rule {name}, which is not there", control.id);
                problems.extend(first.map(|file| Problem::warning(file, message.clone())));
            }
        }
    }

    /// Compiles a rule once for all its controls, and once more for each that has config inputs of its own.
    fn compile(
        &self,
        rule: &RuleFiles<'f>,
        module: &File,
        controls: &[&Control],
        limits: &Limits,
        problems: &mut Vec<Problem>,
        loaded: &mut LoadedLibrary,
    ) {
        let mut groups: Vec<(Option<&FixedInput>, Vec<&Control>)> = Vec::new();
        for control in controls {
            let fixed = control.fixed_input.as_ref().filter(|fixed| !fixed.is_empty());
            match groups.iter_mut().find(|(known, _)| *known == fixed) {
                Some((_, group)) => group.push(control),
                None => groups.push((fixed, vec![control])),
            }
        }
        if groups.is_empty() {
            groups.push((None, Vec::new()));
        }
        for (fixed, group) in groups {
            let mut found = Vec::new();
            let helpers = File::new("cautils.rego".into(), Form::Rego, CAUTILS.to_owned());
            let imports = module.text.contains("data.cautils").then_some(&helpers);
            let files: Vec<&File> = [module].into_iter().chain(imports).collect();
            let compiled =
                compile(files, &self.data(fixed), limits, Missing::default(), &mut found, Purpose::Kubescape);
            if let Some(why) = needs_builtin(&found) {
                loaded.unjudged.push(unjudged_rule(rule.named(), controls, why));
                return;
            }
            problems.extend(found);
            match compiled {
                Some((policies, unit)) if !policies.is_empty() => loaded.bind(&policies[0], unit, rule, &group),
                Some(_) => {
                    let message = format!("there is no rule {ENTRY} in package {PACKAGE}");
                    let help = "Kubescape asks for deny contains result if { … }";
                    problems.push(Problem::refused(&module.shown, message).help(help));
                }
                None => {}
            }
        }
    }

    /// Returns what rules find below `data`.
    fn data(&self, fixed: Option<&FixedInput>) -> Data {
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

impl LoadedLibrary {
    /// Joins a compiled rule with its controls: a unit, and a policy for each of them.
    fn bind(&mut self, own: &Policy, mut unit: Unit, rule: &RuleFiles<'_>, controls: &[&Control]) {
        let metadata = &rule.metadata;
        let aggregator = metadata.attribute("resourcesAggregator").and_then(Aggregator::of);
        let relates = unit.relates(aggregator == Some(Aggregator::Subjects));
        let mut bound = KubescapeRule {
            matching: metadata.matching.clone(),
            aggregator,
            controls: Vec::new(),
            input: match relates {
                false => RuleInput::One,
                true if controls.iter().any(|control| sees_whole_cluster(control)) => RuleInput::Cluster,
                true => RuleInput::Namespace,
            },
        };
        let names = bound.kind_names();
        let names = names.as_ref().map(|names| names.iter().map(AsRef::as_ref).collect());
        let matches = if relates { Matches::All } else { own.matches.clone() }.and(names);
        let mut add = |policy: Arc<str>, name: Arc<str>, about: Metadata| {
            let number = RuleNumber::of(&policy, &name);
            let rule = Rule { name, number, metadata: Arc::new(about), ..own.rules[0].clone() };
            let mut depends = own.depends;
            depends.inventory |= relates;
            self.policies.push(Policy {
                name: Arc::clone(&policy),
                dialect: Dialect::Kubescape,
                metadata: Metadata::clone(&rule.metadata),
                depends,
                matches: matches.clone(),
                reads: unit.element_reads(),
                rules: vec![rule.clone()],
                ..own.clone()
            });
            let definitions = unit.groups.first().and_then(|group| group.entrypoints.first());
            let definitions = definitions.map_or(&[][..], |entrypoint| &entrypoint.definitions);
            // The library has no METADATA; what a rule is called depends on the control.
            let none = Metadata::default();
            let described = definitions.iter().map(|definition| (&definition.source, &none));
            let names = [&policy, &rule.name];
            let descriptors = RuleDescriptors::new(names, &rule.metadata.info, (&rule.source, &none), described);
            bound.controls.push(ControlRule { policy, rule, descriptors });
        };
        for control in controls {
            add(control.id.as_str().into(), metadata.name.as_str().into(), about(control, metadata));
        }
        if controls.is_empty() {
            let text = |text: &str| (!text.is_empty()).then(|| text.into());
            let mut custom = Map::new();
            custom.extend(text(&metadata.remediation).map(|text: String| ("remediation".to_owned(), text.into())));
            let about = Metadata {
                description: text(&metadata.description).map(|text: String| text.into()),
                custom,
                ..Metadata::default()
            };
            add(metadata.name.as_str().into(), ENTRY.into(), about);
        }
        unit.form = UnitForm::Kubescape { rule: Arc::new(bound), arrays: None };
        self.units.push(unit);
    }
}

/// Whether a path is one of a library that holds neither policies nor data.
fn is_beside(path: &Path, roots: &BTreeSet<&Path>) -> bool {
    let below = path.ancestors().find(|above| roots.contains(above)).and_then(|root| path.strip_prefix(root).ok());
    let first = below.and_then(|below| below.components().next());
    first.is_some_and(|first| BESIDE.iter().any(|name| first.as_os_str() == *name))
}

/// Whether the rules of a control get all objects of a cluster at once, and not namespace by namespace.
fn sees_whole_cluster(control: &Control) -> bool {
    match control.attributes.get("requiresWholeClusterInput") {
        Some(Value::Bool(whole)) => *whole,
        Some(Value::String(word)) => word.eq_ignore_ascii_case("true"),
        _ => WHOLE_CLUSTER.contains(&control.id.as_str()),
    }
}

/// Returns what a control says of one of its rules.
fn about(control: &Control, rule: &RuleMetadata) -> Metadata {
    let text = |text: &str| (!text.is_empty()).then(|| Arc::<str>::from(text));
    let remediation = text(&control.remediation).or_else(|| text(&rule.remediation));
    let mut custom = Map::new();
    custom.extend(remediation.map(|text| ("remediation".to_owned(), Value::from(&*text))));
    custom.insert("baseScore".to_owned(), Value::from(control.base_score));
    let category = control.category.as_ref();
    let category = category.map(|category| category.sub_category.as_deref().unwrap_or(category).name.as_str());
    let references = control.references.iter().flatten().filter(|url| url.starts_with("http"));
    Metadata {
        info: Arc::new(RuleInfo {
            title: text(&control.name),
            id: text(&control.id),
            category: category.and_then(text),
        }),
        description: text(&control.description),
        severity: control.severity(),
        related_resources: references
            .map(|url| RelatedResource { reference: url.as_str().into(), description: None })
            .collect(),
        entrypoint: false,
        custom,
    }
}
