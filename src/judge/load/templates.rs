//! Turns Gatekeeper objects into units and policies: a unit for each template that has Constraints, so that libraries
//! of templates cannot conflict, and a policy for each Constraint.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use regorus::Value;

use crate::{
    judge::{
        compile::compile,
        dependencies::Dependencies,
        dialects::gatekeeper::{
            self, Config, EnforcementPoint, TemplateLibrary,
            constraint::{self, BoundTemplate, Constraint, ReadConstraint},
            expansion_template, expressions,
            template::{self, ENTRY, Template},
        },
        entrypoints::CompilePurpose,
        expansion::Expansion,
        load_options::LoadOptions,
        metadata::Metadata,
        policy::Policy,
        policy_document::{PolicyDocument, warning},
        reads::{Matches, Projection},
        rule::{RuleDefinition, RuleDescriptors},
        unit::{Unit, UnitForm},
        unjudged::Unjudged,
    },
    model::verdict::Source,
    rego::{
        Evaluator, File, Limits, Problem,
        analysis::{data::Data, missing::Missing, program::Program},
    },
};

/// Why Constraints for generated objects have no results without an `ExpansionTemplate`.
const GENERATED_ONLY: &str = "source: Generated matches only objects of an ExpansionTemplate, and there is none";

/// Compiled templates and Constraints.
#[derive(Default)]
pub(crate) struct LoadedTemplates {
    pub(crate) units: Vec<Unit>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) unjudged: Vec<Unjudged>,
    pub(crate) config: Config,
    pub(crate) expansions: Vec<Expansion>,
}

/// Compiles the templates and joins them with their Constraints.
pub(crate) fn load(
    library: TemplateLibrary<'_>,
    options: &LoadOptions,
    point: EnforcementPoint,
    problems: &mut Vec<Problem>,
) -> LoadedTemplates {
    let expansions = expansion_template::read(&library.expansions, problems);
    let mut loaded = LoadedTemplates { config: library.config, expansions, ..LoadedTemplates::default() };
    let mut constraints: BTreeMap<String, Vec<PolicyDocument<'_>>> = BTreeMap::new();
    for document in distinct(library.constraints, problems) {
        constraints.entry(document.kind().to_owned()).or_default().push(document);
    }
    for document in distinct(library.templates, problems) {
        let kind = document.node.at(&["spec", "crd", "spec", "names", "kind"]).text().unwrap_or_default();
        let constraints = constraints.remove(kind).unwrap_or_default();
        match template::read(&document, options.gatekeeper_engine, problems) {
            Ok(template) if template.is_cel => {
                loaded.cel_template(&document, template, constraints, (&options.limits, point), problems);
            }
            Ok(template) => {
                loaded.template(&document, &template, constraints, (&options.limits, point), problems);
            }
            Err(problem) => {
                problems.push(problem);
                problems.extend(constraints.iter().map(|constraint| constraint.left_out(&document)));
            }
        }
    }
    for document in constraints.into_values().flatten() {
        let message = format!("{}: there is no ConstraintTemplate for this kind", document.label());
        let help = "add the template to the policy paths";
        problems.push(document.whole(message).help(help));
    }
    loaded.policies.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.rules[0].name.cmp(&b.rules[0].name)));
    loaded.unjudged.sort();
    loaded
}

/// Removes exact duplicates; two different definitions of one object are a problem.
fn distinct<'f>(documents: Vec<PolicyDocument<'f>>, problems: &mut Vec<Problem>) -> Vec<PolicyDocument<'f>> {
    let mut first: HashMap<(String, String), usize> = HashMap::new();
    let mut kept: Vec<PolicyDocument<'f>> = Vec::new();
    for document in documents {
        let key = (document.kind().to_owned(), document.name().to_lowercase());
        match first.get(&key).map(|index| &kept[*index]) {
            Some(other) if other.node == document.node => {}
            Some(other) => {
                let Source { file, line } = other.source();
                let message = format!("{} is also defined at {file}:{line}, with different content", document.label());
                let problem = document.whole(message);
                // Each test of a suite has its own Constraint, often with the same name.
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

impl LoadedTemplates {
    /// Compiles one template and binds its Constraints to it.
    fn template(
        &mut self,
        document: &PolicyDocument<'_>,
        template: &Template,
        constraints: Vec<PolicyDocument<'_>>,
        (limits, point): (&Limits, EnforcementPoint),
        problems: &mut Vec<Problem>,
    ) {
        let before = problems.len();
        let modules: Vec<&File> = template.modules.iter().collect();
        let mut found = Vec::new();
        let compiled = compile(
            modules,
            &Data::default(),
            limits,
            Missing::default(),
            &mut found,
            CompilePurpose::Single(gatekeeper::DIALECT),
        );
        problems.extend(found.into_iter().map(|problem| template.in_file(document.file, problem)));
        let own = compiled.as_ref().and_then(|(policies, _)| policies.first());
        if let Some((policies, _)) = &compiled
            && policies.is_empty()
        {
            let message = format!("{}: its Rego has no rule {ENTRY}", document.label());
            let help = "Gatekeeper requires violation[{\"msg\": msg, \"details\": {}}] { … }";
            problems.push(document.whole(message).help(help));
        }
        let of_rule = own.map(|policy| Metadata::clone(&policy.rules[0].metadata)).unwrap_or_default();
        if constraints.is_empty() && !problems[before..].iter().any(Problem::is_refusal) {
            self.report_unused(document, problems);
        }
        if own.is_none() {
            problems.extend(constraints.iter().map(|constraint| constraint.left_out(document)));
        }
        let active = self.constraints(constraints, template, &of_rule, point, problems);
        if let Some((policies, unit)) = compiled
            && let Some(own) = policies.first()
            && !active.is_empty()
        {
            self.bind(own, unit, document, template, active);
        }
    }

    /// Compiles one template whose code is CEL, and binds its Constraints to it.
    fn cel_template(
        &mut self,
        document: &PolicyDocument<'_>,
        template: Template,
        constraints: Vec<PolicyDocument<'_>>,
        (limits, point): (&Limits, EnforcementPoint),
        problems: &mut Vec<Problem>,
    ) {
        let Some(policy) = expressions::compile(document, &template.kind, problems) else {
            problems.extend(constraints.iter().map(|constraint| constraint.left_out(document)));
            return;
        };
        if constraints.is_empty() {
            return self.report_unused(document, problems);
        }
        let template = Template { expressions: Some(Arc::new(policy)), ..template };
        let active = self.constraints(constraints, &template, &Metadata::default(), point, problems);
        if !active.is_empty() {
            self.bind_expressions(active, limits);
        }
    }

    fn report_unused(&mut self, document: &PolicyDocument<'_>, problems: &mut Vec<Problem>) {
        let reason = "no Constraint uses it";
        problems.push(warning(document.whole(format!("{} has no effect: {reason}", document.label()))));
        self.unjudged.push(document.unjudged(reason));
    }

    /// Reads the Constraints of a template; returns those that are evaluated.
    fn constraints(
        &mut self,
        constraints: Vec<PolicyDocument<'_>>,
        template: &Template,
        of_rule: &Metadata,
        point: EnforcementPoint,
        problems: &mut Vec<Problem>,
    ) -> Vec<Constraint> {
        let mut active = Vec::new();
        for mut constraint in constraints {
            match constraint::read(&mut constraint, template, of_rule, point, problems) {
                Some(ReadConstraint::Judges(read))
                    if self.expansions.is_empty() && read.matching.is_generated_only() =>
                {
                    self.report_silent(&constraint, GENERATED_ONLY, problems);
                }
                Some(ReadConstraint::Judges(read)) => active.push(*read),
                Some(ReadConstraint::Silent(reason)) => self.report_silent(&constraint, reason, problems),
                None => {}
            }
        }
        active
    }

    fn report_silent(&mut self, constraint: &PolicyDocument<'_>, reason: &str, problems: &mut Vec<Problem>) {
        let message = format!("{} is not evaluated: {reason}", constraint.label());
        problems.push(warning(constraint.whole(message)));
        self.unjudged.push(constraint.unjudged(reason));
    }

    /// Joins a compiled template with its Constraints: creates a unit, and a policy for each Constraint.
    fn bind(
        &mut self,
        own: &Policy,
        mut unit: Unit,
        document: &PolicyDocument<'_>,
        template: &Template,
        mut constraints: Vec<Constraint>,
    ) {
        let place = |source: &mut Source| {
            // Modules whose lines are not lines of the file have a different file name.
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
            let definitions = definitions.map(RuleDefinition::described);
            constraint.descriptors = RuleDescriptors::new(names, nearer, of_rule, definitions);
            self.policies.push(Policy {
                versions: own.versions.clone(),
                matches: own.matches.clone().and(constraint.matching.kind_names()),
                scans_inventory: own.scans_inventory,
                ..policy(constraint, own_source, own.depends, &own.reads)
            });
        }
        unit.form =
            UnitForm::Template(BoundTemplate { constraints, blocks: template.blocks.clone(), depends: own.depends });
        self.units.push(unit);
    }

    /// Creates the unit of a template whose code is CEL, and a policy for each Constraint.
    fn bind_expressions(&mut self, mut constraints: Vec<Constraint>, limits: &Limits) {
        let mut depends = Dependencies::default();
        for constraint in &mut constraints {
            let Some(bound) = constraint.expressions.as_ref().map(|expressions| &expressions.bound) else { continue };
            let own_source = std::mem::replace(&mut constraint.rule.source, bound.rule.source.clone());
            constraint.rule.texts.clone_from(&bound.rule.texts);
            depends = bound.dependencies();
            let reads = Projection::new(bound.object_reads.clone());
            self.policies.push(policy(constraint, own_source, depends, &reads));
        }
        let evaluator = Evaluator::new(Program::default(), Value::new_object(), limits);
        let mut unit = Unit::new(Vec::new(), Vec::new(), evaluator, &[]);
        unit.form = UnitForm::Template(BoundTemplate { constraints, blocks: Vec::new(), depends });
        self.units.push(unit);
    }
}

/// Returns the policy of a Constraint, whose template depends on and reads this.
fn policy(constraint: &Constraint, source: Source, depends: Dependencies, reads: &Projection) -> Policy {
    let namespace = depends.namespace || constraint.matching.needs_namespace();
    let (metadata, rules) = (Metadata::clone(&constraint.rule.metadata), vec![constraint.rule.clone()]);
    Policy {
        depends: Dependencies { namespace, ..depends },
        matches: Matches::All.and(constraint.matching.kind_names()),
        reads: reads.with(&constraint.matching.reads()),
        ..Policy::of_object(&constraint.policy, gatekeeper::DIALECT, source, metadata, rules)
    }
}
