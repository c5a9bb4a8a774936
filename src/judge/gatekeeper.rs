//! Gatekeeper: `ConstraintTemplate`s and Constraints among the policies become units that judge as Gatekeeper's audit does.
//!
//! In: the YAML and JSON files with objects of `gatekeeper.sh`. Out: a unit for each template that has Constraints, so that
//! libraries of templates do not meet, and a policy for each Constraint. What Gatekeeper would refuse is refused here, at its place
//! in the file.

mod annotations;
mod config;
pub(crate) mod constraint;
mod document;
mod index;
pub(crate) mod matching;
pub(crate) mod node;
mod schema;
pub(crate) mod template;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    sync::Arc,
};

pub(crate) use self::{config::Config, constraint::EnforcementPoint, index::ConstraintIndex};
use self::{
    constraint::{BoundTemplate, Constraint, ReadConstraint},
    document::{Document, warning},
    node::YamlNode,
    template::{ENTRY, Template},
};
use super::{
    compile::compile,
    dependencies::Dependencies,
    dialect::Dialect,
    entrypoints::Purpose,
    metadata::Metadata,
    policy::Policy,
    rule::{Definition, RuleDescriptors},
    unit::{Unit, UnitForm},
    unjudged::Unjudged,
};
use crate::{
    model::verdict::Source,
    rego::{data::Data, file::File, limits::Limits, missing::Missing, problem::Problem},
};

/// The objects of Gatekeeper among the policies, not compiled yet.
#[derive(Default)]
pub(crate) struct Library<'f> {
    templates: Vec<Document<'f>>,
    constraints: Vec<Document<'f>>,
    config: Config,
    /// Whether a `Config` in the files that are added is left out.
    pub(crate) ignores_config: bool,
}

/// A library that is compiled.
#[derive(Default)]
pub(crate) struct LoadedLibrary {
    pub(crate) units: Vec<Unit>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) unjudged: Vec<Unjudged>,
    pub(crate) config: Config,
}

/// Returns the directories that hold a test suite: the objects below them are its examples.
pub(crate) fn suites(files: &[File]) -> BTreeSet<&Path> {
    let suites = files.iter().filter(|file| file.text.contains("test.gatekeeper.sh/"));
    suites.filter_map(|file| Path::new(&*file.shown).parent()).collect()
}

impl<'f> Library<'f> {
    /// Adds the documents of a file if one of them is of Gatekeeper; returns whether that was so.
    pub(crate) fn add(&mut self, file: &'f File, example: bool, problems: &mut Vec<Problem>) -> bool {
        if !file.text.contains("gatekeeper.sh/") {
            return false;
        }
        let documents = match YamlNode::read(file) {
            Ok(documents) => documents,
            Err(problem) => {
                problems.push(problem);
                return true;
            }
        };
        let documents: Vec<Document<'f>> = documents.into_iter().map(|node| Document { file, node, example }).collect();
        if !documents.iter().any(|document| document.type_of().0.ends_with(".gatekeeper.sh")) {
            return false;
        }
        for document in documents {
            match document.type_of() {
                ("templates.gatekeeper.sh", "ConstraintTemplate") => self.templates.push(document),
                ("constraints.gatekeeper.sh", _) => self.constraints.push(document),
                ("config.gatekeeper.sh", "Config") if !self.ignores_config => self.config.add(&document.node),
                ("config.gatekeeper.sh", "Config") => {
                    let message =
                        format!("{}: it would exempt namespaces from Constraints of other sources", document.label());
                    let help = "it is read from local paths and cluster:gatekeeper only";
                    problems.push(warning(document.whole(message)).help(help));
                }
                // The inventory holds everything that policies look up, so there is nothing to choose.
                ("syncset.gatekeeper.sh", "SyncSet") | ("test.gatekeeper.sh", _) => {}
                (group, _) if group.ends_with(".gatekeeper.sh") => {
                    let message =
                        format!("{}: this part of Gatekeeper is not supported; it is not used", document.label());
                    problems.push(warning(document.whole(message)));
                }
                _ if example => {}
                _ => {
                    let message =
                        format!("{}: a Kubernetes object is neither policy nor data; it is not used", document.label());
                    let problem = warning(document.whole(message));
                    problems.push(problem.help("move it out of the policy paths"));
                }
            }
        }
        true
    }

    pub(crate) fn has_templates(&self) -> bool {
        !self.templates.is_empty()
    }

    /// Compiles the templates and joins them with their Constraints.
    pub(crate) fn load(self, limits: &Limits, point: EnforcementPoint, problems: &mut Vec<Problem>) -> LoadedLibrary {
        let mut loaded = LoadedLibrary { config: self.config, ..LoadedLibrary::default() };
        let mut constraints: BTreeMap<String, Vec<Document<'f>>> = BTreeMap::new();
        for document in distinct(self.constraints, problems) {
            constraints.entry(document.kind().to_owned()).or_default().push(document);
        }
        for document in distinct(self.templates, problems) {
            let kind = document.node.at(&["spec", "crd", "spec", "names", "kind"]).text().unwrap_or_default();
            let constraints = constraints.remove(kind).unwrap_or_default();
            match template::read(&document, problems) {
                Ok(template) => loaded.template(&document, &template, constraints, (limits, point), problems),
                Err(problem) => {
                    problems.push(problem);
                    problems.extend(constraints.iter().map(|constraint| constraint.left_out(&document)));
                }
            }
        }
        for document in constraints.into_values().flatten() {
            let message = format!("{}: there is no ConstraintTemplate for this kind", document.label());
            let help = "put the template into the policy paths too";
            problems.push(document.whole(message).help(help));
        }
        loaded.policies.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.rules[0].name.cmp(&b.rules[0].name)));
        loaded.unjudged.sort();
        loaded
    }
}

/// Leaves out exact duplicates; two different definitions of one object are a problem.
fn distinct<'f>(documents: Vec<Document<'f>>, problems: &mut Vec<Problem>) -> Vec<Document<'f>> {
    let mut first: HashMap<(String, String), usize> = HashMap::new();
    let mut kept: Vec<Document<'f>> = Vec::new();
    for document in documents {
        let key = (document.kind().to_owned(), document.name().to_lowercase());
        match first.get(&key).map(|index| &kept[*index]) {
            Some(other) if other.node == document.node => {}
            Some(other) => {
                let Source { file, line } = other.source();
                let message = format!("{} is also defined at {file}:{line}, in other words", document.label());
                let problem = document.whole(message);
                // Each test of a suite has a Constraint of its own, often under one name.
                problems.push(if document.example {
                    warning(problem).help("the first is in force; rename the other to use both")
                } else {
                    problem.help("keep one of the two")
                });
            }
            None => {
                first.insert(key, kept.len());
                kept.push(document);
            }
        }
    }
    kept
}

impl LoadedLibrary {
    /// Compiles one template and adds what its Constraints make of it.
    fn template(
        &mut self,
        document: &Document<'_>,
        template: &Template,
        constraints: Vec<Document<'_>>,
        (limits, point): (&Limits, EnforcementPoint),
        problems: &mut Vec<Problem>,
    ) {
        if template.modules.is_empty() {
            let reason = "it is written in CEL only, and kaudit evaluates Rego";
            let message = format!("{} is not evaluated: {reason}", document.label());
            problems.push(warning(document.whole(message)));
            self.unjudged.extend([document].into_iter().chain(&constraints).map(|one| one.unjudged(reason)));
            return;
        }
        let before = problems.len();
        let modules: Vec<&File> = template.modules.iter().collect();
        let mut found = Vec::new();
        let compiled = compile(modules, &Data::default(), limits, Missing::default(), &mut found, Purpose::Template);
        problems.extend(found.into_iter().map(|problem| template.in_file(document.file, problem)));
        let own = compiled.as_ref().and_then(|(policies, _)| policies.first());
        if let Some((policies, _)) = &compiled
            && policies.is_empty()
        {
            let message = format!("{}: its Rego has no rule {ENTRY}", document.label());
            let help = "Gatekeeper asks for violation[{\"msg\": msg, \"details\": {}}] { … }";
            problems.push(document.whole(message).help(help));
        }
        let of_rule = own.map(|policy| Metadata::clone(&policy.rules[0].metadata)).unwrap_or_default();
        if template.prefers_cel {
            let message =
                format!("{} holds CEL too, which Gatekeeper would take; its Rego is evaluated", document.label());
            problems.push(warning(document.whole(message)));
        }
        if constraints.is_empty() && !problems[before..].iter().any(Problem::is_refusal) {
            let reason = "no Constraint uses it";
            problems.push(warning(document.whole(format!("{} has no effect: {reason}", document.label()))));
            self.unjudged.push(document.unjudged(reason));
        }
        if own.is_none() {
            problems.extend(constraints.iter().map(|constraint| constraint.left_out(document)));
        }
        let judging = self.constraints(constraints, template, &of_rule, point, problems);
        if let Some((policies, unit)) = compiled
            && let Some(own) = policies.first()
            && !judging.is_empty()
        {
            self.bind(own, unit, document, template, judging);
        }
    }

    /// Reads the Constraints of a template; returns those that judge.
    fn constraints(
        &mut self,
        constraints: Vec<Document<'_>>,
        template: &Template,
        of_rule: &Metadata,
        point: EnforcementPoint,
        problems: &mut Vec<Problem>,
    ) -> Vec<Constraint> {
        let mut judging = Vec::new();
        for mut constraint in constraints {
            match constraint::read(&mut constraint, template, of_rule, point, problems) {
                Some(ReadConstraint::Judges(read)) => judging.push(*read),
                Some(ReadConstraint::Silent(reason)) => {
                    let message = format!("{} is not evaluated: {reason}", constraint.label());
                    problems.push(warning(constraint.whole(message)));
                    self.unjudged.push(constraint.unjudged(reason));
                }
                None => {}
            }
        }
        judging
    }

    /// Joins a compiled template with its Constraints: a unit, and a policy for each of them.
    fn bind(
        &mut self,
        own: &Policy,
        mut unit: Unit,
        document: &Document<'_>,
        template: &Template,
        mut constraints: Vec<Constraint>,
    ) {
        let place = |source: &mut Source| {
            // Modules whose lines are not lines of the file have another name than it.
            if source.file != document.file.shown {
                *source = Source { line: template.line, ..document.source() };
            }
        };
        for entrypoint in unit.groups.iter_mut().flat_map(|group| &mut group.entrypoints) {
            entrypoint.definitions.iter_mut().for_each(|definition| place(&mut definition.source));
        }
        let entrypoint = unit.groups.first().and_then(|group| group.entrypoints.first());
        let mut rule = own.rules[0].clone();
        rule.texts.iter_mut().map(|text| &mut text.source).chain([&mut rule.source]).for_each(place);
        for constraint in &mut constraints {
            constraint.rule.texts.clone_from(&rule.texts);
            let own_source = std::mem::replace(&mut constraint.rule.source, rule.source.clone());
            let (nearer, of_rule) = (&constraint.rule.metadata.info, (&rule.source, &*rule.metadata));
            let names = [&constraint.policy, &constraint.rule.name];
            let definitions = entrypoint.into_iter().flat_map(|entrypoint| &entrypoint.definitions);
            let definitions = definitions.map(Definition::described);
            constraint.descriptors = RuleDescriptors::new(names, nearer, of_rule, definitions);
            let namespace = own.depends.namespace || constraint.matching.needs_namespace();
            self.policies.push(Policy {
                name: Arc::clone(&constraint.policy),
                dialect: Dialect::Gatekeeper,
                source: own_source.file,
                line: own_source.line,
                is_builtin: false,
                metadata: Metadata::clone(&constraint.rule.metadata),
                versions: own.versions.clone(),
                depends: Dependencies { namespace, ..own.depends },
                matches: own.matches.clone().and(constraint.matching.kind_names()),
                reads: own.reads.with(&constraint.matching.reads()),
                scans_inventory: own.scans_inventory,
                rules: vec![constraint.rule.clone()],
            });
        }
        unit.form =
            UnitForm::Template(BoundTemplate { constraints, blocks: template.blocks.clone(), depends: own.depends });
        self.units.push(unit);
    }
}
