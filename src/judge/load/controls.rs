//! Turns the rules of libraries in Kubescape's layout into units and policies: a unit for each rule, as all rules share
//! one package, and a policy for each control that uses it.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    judge::{
        compile::compile,
        dialects::kubescape::{
            self, CAUTILS, ControlLibrary, RuleFiles,
            arrays::Aggregator,
            controls::{missing_controls, missing_rules, table, unjudged_rule},
            document::{Control, FixedInput, RuleMetadata},
            needs::{needs_builtin, why_unjudged},
            rule::{ControlRule, ENTRY, KubescapeRule, PACKAGE, RuleInput},
            sees_whole_cluster,
        },
        entrypoints::CompilePurpose,
        frameworks::FrameworkTable,
        metadata::{Metadata, RelatedResource},
        policy::Policy,
        reads::Matches,
        rule::{Rule, RuleDescriptors},
        unit::{Unit, UnitForm},
        unjudged::Unjudged,
    },
    model::{rule_numbers::RuleNumber, verdict::RuleInfo},
    rego::{File, Form, Limits, Problem, analysis::missing::Missing},
};

/// Compiled libraries.
#[derive(Default)]
pub(crate) struct LoadedControls {
    pub(crate) units: Vec<Unit>,
    pub(crate) policies: Vec<Policy>,
    /// Rules that need something kaudit does not provide.
    pub(crate) unjudged: Vec<Unjudged>,
    /// Rules that no chosen control uses.
    pub(crate) left_out: Vec<Unjudged>,
    /// The chosen frameworks, or all if none is chosen.
    pub(crate) frameworks: Vec<FrameworkTable>,
}

/// Compiles the rules of these frameworks, or all if there is none.
pub(crate) fn load(
    library: &ControlLibrary<'_>,
    frameworks: &[String],
    limits: &Limits,
    problems: &mut Vec<Problem>,
) -> LoadedControls {
    let mut loaded = LoadedControls::default();
    let controls = library.chosen(frameworks);
    library.unknown_rules(problems);
    let chosen = frameworks.iter().filter_map(|name| library.framework(name));
    loaded.unjudged.extend(chosen.flat_map(|framework| missing_controls(framework, &library.controls)));
    loaded.unjudged.extend(missing_rules(&controls, &library.rule_names()));
    for rule in &library.rules {
        let own: Vec<&Control> =
            controls.iter().filter(|control| control.rules_names.contains(&rule.metadata.name)).collect();
        if own.is_empty() && !frameworks.is_empty() {
            continue;
        }
        match (why_unjudged(&rule.metadata, rule.module.is_some()), rule.module) {
            (None, Some(module)) if library.controls.is_empty() || !own.is_empty() => {
                compile_rule(library, rule, module, &own, limits, problems, &mut loaded);
            }
            (None, _) => loaded.left_out.push(unjudged_rule(rule.named(), &[], library.why_unnamed(rule))),
            (Some(why), _) => loaded.unjudged.push(unjudged_rule(rule.named(), &own, why)),
        }
    }
    loaded.unjudged.sort();
    loaded.left_out.sort();
    let own = library.frameworks.iter().filter(|(framework, _)| {
        let is_own = |name: &String| library.framework(name).is_some_and(|(own, _)| own.name == framework.name);
        frameworks.is_empty() || frameworks.iter().any(is_own)
    });
    loaded.frameworks = own.map(|(framework, _)| table(framework, &library.controls, &loaded.unjudged)).collect();
    loaded
}

/// Compiles a rule once for all its controls, and once more for each control with its own config inputs.
fn compile_rule(
    library: &ControlLibrary<'_>,
    rule: &RuleFiles<'_>,
    module: &File,
    controls: &[&Control],
    limits: &Limits,
    problems: &mut Vec<Problem>,
    loaded: &mut LoadedControls,
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
        let compiled = compile(
            files,
            &library.data(fixed),
            limits,
            Missing::default(),
            &mut found,
            CompilePurpose::Single(kubescape::DIALECT),
        );
        if let Some(why) = needs_builtin(&found) {
            loaded.unjudged.push(unjudged_rule(rule.named(), controls, why));
            return;
        }
        problems.extend(found);
        match compiled {
            Some((policies, unit)) if !policies.is_empty() => loaded.bind(&policies[0], unit, rule, &group),
            Some(_) => {
                let message = format!("there is no rule {ENTRY} in package {PACKAGE}");
                let help = "Kubescape requires deny contains result if { … }";
                problems.push(Problem::refused(&module.shown, message).help(help));
            }
            None => {}
        }
    }
}

impl LoadedControls {
    /// Joins a compiled rule with its controls: creates a unit, and a policy for each control.
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
                dialect: kubescape::DIALECT,
                metadata: Metadata::clone(&rule.metadata),
                depends,
                matches: matches.clone(),
                reads: unit.element_reads(),
                rules: vec![rule.clone()],
                ..own.clone()
            });
            let definitions = unit.groups.first().and_then(|group| group.entrypoints.first());
            let definitions = definitions.map_or(&[][..], |entrypoint| &entrypoint.definitions);
            // The library has no METADATA; the rule's title depends on the control.
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

/// Returns a control's metadata for one of its rules.
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
