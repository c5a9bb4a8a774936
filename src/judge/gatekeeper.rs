//! Gatekeeper: `ConstraintTemplate`s and Constraints among the policies become units that judge as Gatekeeper's audit does.
//!
//! In: the YAML and JSON files that speak of `gatekeeper.sh`. Out: a unit for each template that has Constraints, with
//! its libraries to itself, and a policy for each Constraint. What Gatekeeper would refuse is refused here, at its place
//! in the file.

mod annotations;
mod config;
mod constraint;
pub(crate) mod document;
mod matching;
mod schema;
mod template;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    sync::Arc,
};

use serde::Serialize;

pub use self::{
    config::{GroupVersionKind, Settings},
    constraint::EnforcementPoint,
};
pub(crate) use self::{
    constraint::Constraint,
    matching::{Match, Subject},
    template::{Block, ENTRY, PACKAGE, check, column},
};
use self::{
    constraint::{Read, warning},
    document::{At, Node},
    template::Template,
};
use super::{
    dependencies::Dependencies,
    dialect::Dialect,
    load::{self, Purpose},
    metadata::Metadata,
    policy::Policy,
    unit::Unit,
};
use crate::{
    model::{object::Kind, verdict::Source},
    rego::{data::Data, file::File, limits::Limits, missing::Missing, problem::Problem},
};

/// A template or Constraint that judges nothing, and why. Someone wrote it to be judged by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unjudged {
    /// `ConstraintTemplate k8sfoo` or `K8sFoo all-pods`.
    pub name: String,
    /// Why it judges nothing.
    pub reason: String,
    /// Where it stands.
    pub source: Source,
}

/// One document and its file.
pub(crate) struct Document<'f> {
    pub(crate) file: &'f File,
    pub(crate) node: Node,
    /// Whether it lies beside a test suite.
    example: bool,
}

impl Document<'_> {
    fn name(&self) -> &str {
        self.node.at(&["metadata", "name"]).text().unwrap_or_default()
    }

    fn kind(&self) -> &str {
        self.node.get("kind").text().unwrap_or_default()
    }

    /// The API group and the kind.
    fn type_of(&self) -> (&str, &str) {
        let version = self.node.get("apiVersion").text().unwrap_or_default();
        (version.split_once('/').map_or("", |(group, _)| group), self.kind())
    }

    fn label(&self) -> String {
        format!("{} {}", self.kind(), self.name()).trim_end().to_owned()
    }

    fn problem(&self, node: &Node, message: impl Into<String>) -> Problem {
        self.problem_at(node.at, message)
    }

    fn problem_at(&self, at: At, message: impl Into<String>) -> Problem {
        Problem::refused(&self.file.shown, message).at(&self.file.text, at.line, at.column)
    }

    /// What to say of a Constraint whose template is refused.
    fn left_out(&self, template: &Self) -> Problem {
        let message = format!(
            "left out: {} uses {} of {}, which is not loaded",
            self.label(),
            template.label(),
            template.file.shown
        );
        Problem { line: self.node.at.line, ..Problem::left_out(&self.file.shown, message) }
    }

    /// A problem of the whole document; its first line says nothing that would have to be shown.
    fn whole(&self, message: impl Into<String>) -> Problem {
        Problem { line: self.node.at.line, ..Problem::refused(&self.file.shown, message) }
    }

    fn source(&self) -> Source {
        Source { file: Arc::clone(&self.file.shown), line: self.node.at.line }
    }

    fn unjudged(&self, reason: impl Into<String>) -> Unjudged {
        Unjudged { name: self.label(), reason: reason.into(), source: self.source() }
    }
}

/// All that was found of Gatekeeper, not compiled yet.
#[derive(Default)]
pub(crate) struct Library<'f> {
    templates: Vec<Document<'f>>,
    constraints: Vec<Document<'f>>,
    settings: Settings,
}

/// What a library became.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) units: Vec<Unit>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) unjudged: Vec<Unjudged>,
    pub(crate) settings: Settings,
}

/// Returns the directories that hold a test suite: the objects below are its examples.
pub(crate) fn suites(files: &[File]) -> BTreeSet<&Path> {
    let suites = files.iter().filter(|file| file.text.contains("test.gatekeeper.sh/"));
    suites.filter_map(|file| Path::new(&*file.shown).parent()).collect()
}

impl<'f> Library<'f> {
    /// Takes in a file if there is something of Gatekeeper in it; returns whether that was so.
    pub(crate) fn add(&mut self, file: &'f File, example: bool, problems: &mut Vec<Problem>) -> bool {
        if !file.text.contains("gatekeeper.sh/") {
            return false;
        }
        let documents = match Node::read(file) {
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
                ("config.gatekeeper.sh", "Config") => self.settings.config(&document.node),
                ("syncset.gatekeeper.sh", "SyncSet") => self.settings.sync_set(&document.node),
                ("test.gatekeeper.sh", _) => {}
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

    /// Compiles all templates that Constraints use, and reads these.
    pub(crate) fn load(self, limits: &Limits, point: EnforcementPoint, problems: &mut Vec<Problem>) -> Loaded {
        let mut loaded = Loaded { settings: self.settings, ..Loaded::default() };
        let mut constraints: BTreeMap<String, Vec<Document<'f>>> = BTreeMap::new();
        for document in distinct(self.constraints, problems) {
            constraints.entry(document.kind().to_owned()).or_default().push(document);
        }
        for document in distinct(self.templates, problems) {
            let kind = document.node.at(&["spec", "crd", "spec", "names", "kind"]).text().unwrap_or_default();
            let constraints = constraints.remove(kind).unwrap_or_default();
            match template::read(&document, limits, problems) {
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

/// Leaves out what is there twice in the same words; in other words is a problem.
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
                    warning(problem).help("the first is judged by; name the other differently to judge by both")
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

impl Loaded {
    fn template(
        &mut self,
        document: &Document<'_>,
        template: &Template,
        constraints: Vec<Document<'_>>,
        (limits, point): (&Limits, EnforcementPoint),
        problems: &mut Vec<Problem>,
    ) {
        if template.modules.is_empty() {
            let reason = "it is written in CEL only, and kaudit judges by Rego";
            let message = format!("{} is not judged: {reason}", document.label());
            problems.push(warning(document.whole(message)));
            self.unjudged.extend([document].into_iter().chain(&constraints).map(|one| one.unjudged(reason)));
            return;
        }
        let before = problems.len();
        let modules: Vec<&File> = template.modules.iter().collect();
        let mut found = Vec::new();
        let unit = load::unit(modules, &Data::default(), limits, Missing::default(), &mut found, Purpose::Template);
        problems.extend(found.into_iter().map(|problem| template.mend(document.file, problem)));
        let own = unit.as_ref().and_then(|(policies, _)| policies.first());
        if let Some((policies, _)) = &unit
            && policies.is_empty()
        {
            let message = format!("{}: its Rego has no rule {ENTRY}", document.label());
            let help = "Gatekeeper asks for violation[{\"msg\": msg, \"details\": {}}] { … }";
            problems.push(document.whole(message).help(help));
        }
        let of_rule = own.map(|policy| Metadata::clone(&policy.rules[0].metadata)).unwrap_or_default();
        if template.prefers_cel {
            let message =
                format!("{} holds CEL too, which Gatekeeper would take; its Rego is judged", document.label());
            problems.push(warning(document.whole(message)));
        }
        if constraints.is_empty() && !problems[before..].iter().any(Problem::is_refusal) {
            let reason = "no Constraint uses it";
            problems.push(warning(document.whole(format!("{} judges nothing: {reason}", document.label()))));
            self.unjudged.push(document.unjudged(reason));
        }
        if own.is_none() {
            problems.extend(constraints.iter().map(|constraint| constraint.left_out(document)));
        }
        let judging = self.constraints(constraints, template, &of_rule, point, problems);
        if let Some((policies, unit)) = unit
            && let Some(own) = policies.first()
            && !judging.is_empty()
        {
            self.unit(own, unit, document, template, judging);
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
                Some(Read::Judges(read)) => judging.push(*read),
                Some(Read::Silent(reason)) => {
                    let message = format!("{} is not judged: {reason}", constraint.label());
                    problems.push(warning(constraint.whole(message)));
                    self.unjudged.push(constraint.unjudged(reason));
                }
                None => {}
            }
        }
        judging
    }

    /// Joins a compiled template with its Constraints.
    fn unit(
        &mut self,
        own: &Policy,
        mut unit: Unit,
        document: &Document<'_>,
        template: &Template,
        mut constraints: Vec<Constraint>,
    ) {
        let place = |source: &mut Source| {
            // Modules whose lines are not those of the file have a name of their own.
            if source.file != document.file.shown {
                *source = Source { line: template.line, ..document.source() };
            }
        };
        for definition in
            unit.groups.iter_mut().flat_map(|group| &mut group.entries).flat_map(|entry| &mut entry.definitions)
        {
            place(&mut definition.source);
        }
        let mut source = own.rules[0].source.clone();
        place(&mut source);
        for constraint in &mut constraints {
            let own_source = std::mem::replace(&mut constraint.rule.source, source.clone());
            let namespace = own.depends.namespace || constraint.matching.needs_namespace();
            self.policies.push(Policy {
                name: Arc::clone(&constraint.policy),
                dialect: Dialect::Gatekeeper,
                source: own_source.file,
                line: own_source.line,
                metadata: Metadata::clone(&constraint.rule.metadata),
                versions: own.versions.clone(),
                depends: Dependencies { namespace, ..own.depends },
                matches: own.matches.clone().and(constraint.matching.kind_names()),
                reads: own.reads.with(&constraint.matching.reads()),
                scans_inventory: own.scans_inventory,
                rules: vec![constraint.rule.clone()],
            });
        }
        unit.constraints = constraints;
        unit.blocks.clone_from(&template.blocks);
        unit.depends = own.depends;
        self.units.push(unit);
    }
}

/// Which Constraints can match which kinds, so that objects of other kinds cost nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// By name of the kind: unit and Constraint.
    by_kind: HashMap<String, Vec<(usize, usize)>>,
    /// Those that are not bound to kinds.
    any: Vec<(usize, usize)>,
}

impl Index {
    pub(crate) fn new(units: &[Unit]) -> Self {
        let mut index = Self::default();
        for (unit, constraints) in units.iter().map(|unit| &unit.constraints).enumerate() {
            for (number, constraint) in constraints.iter().enumerate() {
                match constraint.matching.kind_names() {
                    Some(names) => names.into_iter().collect::<BTreeSet<_>>().into_iter().for_each(|name| {
                        index.by_kind.entry(name.to_owned()).or_default().push((unit, number));
                    }),
                    None => index.any.push((unit, number)),
                }
            }
        }
        index
    }

    /// Returns the unit and number of each Constraint that may match objects of a kind, in order.
    pub(crate) fn candidates(&self, units: &[Unit], kind: &Kind) -> Vec<(usize, usize)> {
        let bound = self.by_kind.get(&kind.kind).into_iter().flatten();
        let allows = |(unit, number): &&(usize, usize)| {
            units[*unit].constraints[*number].matching.allows_kind(&kind.group, &kind.kind)
        };
        let mut found: Vec<_> = bound.chain(&self.any).filter(allows).copied().collect();
        found.sort_unstable();
        found
    }
}
