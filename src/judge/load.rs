//! Loads policy sources into a [`PolicySet`] and collects every problem.

mod controls;
mod templates;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use super::{
    bundle::Bundle,
    compile::{UnitModules, compile},
    constraint_index::ConstraintIndex,
    data,
    dialects::{
        cel::{self, binding::BoundPolicy, document::AdmissionLibrary, set::AdmissionPolicies},
        crd::{self, document::CrdLibrary, load::CustomKind, set::CustomKinds},
        gatekeeper::{self, Config, EnforcementPoint, GatekeeperEngine},
        kubescape,
        kyverno::{self, document::KyvernoLibrary},
        trivy::{self, Sorted},
    },
    entrypoints::CompilePurpose,
    expansion::Expansion,
    expansions::Expansions,
    frameworks::{self, FrameworkTable},
    kinds::KindIndex,
    lint,
    load_options::LoadOptions,
    ownership::{self, OwnedFiles, PackageOwners, ParsedData, SourcePackages},
    parameters,
    policy::Policy,
    profile::Profile,
    reads::TOKEN_VOLUME,
    rule::Rule,
    rule_settings::RuleSelection,
    served_controls::name_controls,
    set::PolicySet,
    sharing::{Sharing, plan::Plans},
    sources::FileSource,
    unit::{Unit, UnitForm},
    unjudged::Unjudged,
};
use crate::{
    model::digest::Digest,
    rego::{File, FileText, Form, Limits, LoadError, Problem, analysis::missing::Missing},
};

impl PolicySet {
    /// Loads all policies of `sources`. Blocking.
    ///
    /// # Errors
    /// Returns every problem of every file if one of them is refused, or if there is no rule.
    pub fn load<S: Clone + Into<FileSource>>(sources: &[S]) -> Result<Self, LoadError> {
        Self::load_with(sources, &LoadOptions::default())
    }

    /// Loads policies of `sources`: all, or if refused files are allowed, the valid ones; [`Self::refused`] returns why
    /// others were refused.
    ///
    /// # Errors
    /// Returns every problem if one of the sources cannot be read, if no rule is left, or if a file is refused and that is
    /// not allowed.
    pub fn load_with<S: Clone + Into<FileSource>>(sources: &[S], options: &LoadOptions) -> Result<Self, LoadError> {
        let sources = owned(sources);
        let set = load(&sources, options, (EnforcementPoint::Audit, &PackageOwners::new()))?.with_valid_settings()?;
        if set.policies.is_empty() {
            let nothing = (!set.is_partial()).then(|| nothing_to_judge_by(&sources, options, &set));
            return Err(LoadError::new(set.problems.into_iter().chain(nothing).collect()));
        }
        if options.allow_refused { Ok(set) } else { set.whole() }
    }

    /// Loads the valid policies of `sources` for a run that reloads them when they change, so refused files are always
    /// allowed. Sources that are cluster objects may be empty at times: such a set is partial.
    ///
    /// # Errors
    /// See [`Self::load_with`], except that sources in a cluster may have no rule.
    pub fn load_followed<S: Clone + Into<FileSource>>(sources: &[S], options: &LoadOptions) -> Result<Self, LoadError> {
        Self::load_after(&owned(sources), options, &PackageOwners::new())?.with_valid_settings()
    }

    /// Like [`Self::load_followed`], but packages keep their previous owners, and values of parameters that the rules do
    /// not have any more are only reported.
    ///
    /// # Errors
    /// See [`Self::load_followed`].
    pub(super) fn load_after(
        sources: &[FileSource],
        options: &LoadOptions,
        before: &PackageOwners,
    ) -> Result<Self, LoadError> {
        let mut set = load(sources, options, (EnforcementPoint::Audit, before))?;
        set.problems.extend(set.rule_changes.invalid.iter().cloned());
        if !set.policies.is_empty() {
            return Ok(set);
        }
        if !sources.iter().any(|source| matches!(source, FileSource::Tree(_))) {
            let nothing = (!set.is_partial()).then(|| nothing_to_judge_by(sources, options, &set));
            return Err(LoadError::new(set.problems.into_iter().chain(nothing).collect()));
        }
        if !set.is_partial() {
            let nothing = nothing_to_judge_by(sources, options, &set);
            set.problems.push(nothing);
            set.problems.sort();
        }
        Ok(set)
    }

    /// Returns the set if all values of parameters in the settings are valid.
    ///
    /// # Errors
    /// Returns every problem of the values.
    fn with_valid_settings(self) -> Result<Self, LoadError> {
        match &*self.rule_changes.invalid {
            [] => Ok(self),
            invalid => Err(LoadError::new(invalid.to_vec())),
        }
    }

    /// Loads the files of a test of Gatekeeper: a template, a Constraint, and perhaps `ExpansionTemplate`s; with the
    /// enforcement point of `gator`.
    ///
    /// # Errors
    /// See [`Self::load`]; also if a Constraint does not match the schema of its template.
    pub fn from_gatekeeper<'p>(
        files: impl IntoIterator<Item = &'p Path>,
        options: &LoadOptions,
    ) -> Result<Self, LoadError> {
        let sources: Vec<FileSource> = files.into_iter().map(|path| path.to_owned().into()).collect();
        load(&sources, options, (EnforcementPoint::Gator, &PackageOwners::new()))?.whole()
    }
}

fn owned<S: Clone + Into<FileSource>>(sources: &[S]) -> Vec<FileSource> {
    sources.iter().cloned().map(Into::into).collect()
}

/// Loads everything valid, possibly nothing; the set's problems contain what was refused.
fn load(
    sources: &[FileSource],
    options: &LoadOptions,
    (point, before): (EnforcementPoint, &PackageOwners),
) -> Result<PolicySet, LoadError> {
    let (mut problems, limits) = (Vec::new(), &options.limits);
    let sources = &*options.profile.sources(sources);
    let mut owners = ownership::read(sources, limits, &mut problems);
    if owners.iter().any(|owner| owner.unreadable) {
        return Err(LoadError { problems });
    }
    let tests = owners.iter_mut().flat_map(|owner| owner.files.extract_if(.., |file| file.is_test()));
    let tests: Vec<File> = tests.collect();
    let digest = digest(owners.iter().flat_map(|owner| &owner.files), options);
    let sources_of_files: BTreeMap<Arc<str>, usize> = (owners.iter().enumerate())
        .flat_map(|(source, owner)| owner.files.iter().map(move |file| (Arc::clone(&file.shown), source)))
        .collect();
    problems.extend(tests.iter().filter_map(lint::test_file));
    let specifications = extract_specifications(&mut owners);
    let package_owners = ownership::refuse_packages(&mut owners, before, &mut problems);
    let missing = owners.iter_mut().map(|owner| std::mem::take(&mut owner.missing)).collect();
    let owners = SourcePackages::new(&owners);
    let selection =
        RuleSelection::new(options.rules.clone(), options.profile, &options.frameworks, specifications.clone());
    let compiled = compile_all(&owners, missing, (options, point, &selection), &mut problems);
    if problems.iter().any(frameworks::is_unknown) {
        return Err(LoadError::new(problems));
    }
    let CompiledSources { units, bound, custom, mut policies, unjudged, left_out, config, expansions, mut frameworks } =
        compiled;
    let custom = CustomKinds::new(custom);
    let rule_changes = selection.finish(&mut policies);
    let expansions = Expansions::new(expansions, options.expands_pods, (&policies, &units, &bound));
    let admission = AdmissionPolicies::new(bound);
    frameworks.extend(specifications);
    name_controls(&mut policies, &frameworks);
    let files = || owners.all.iter().flat_map(|owner| &owner.files);
    let bundles: Vec<&Arc<Bundle>> = sources.iter().filter_map(FileSource::bundle).collect();
    problems.extend(bundles.iter().filter_map(|bundle| bundle.problem.clone()));
    problems.extend(lint::without_kinds(&policies, &files()));
    problems.extend(parameters::mistakes(&policies, &files()));
    problems.sort();
    problems.dedup();
    let kinds = Arc::new(KindIndex::new(&units, &admission, &expansions, &custom));
    let names_tokens = files().any(|file| file.text.contains(TOKEN_VOLUME));
    let plans = limits.share_verdicts.then(|| Plans::new(&units, &config, kinds.names(), names_tokens));
    Ok(PolicySet {
        digest,
        profile: sources.iter().any(FileSource::is_builtin).then_some(options.profile),
        files: sources_of_files,
        package_owners,
        policies,
        rule_changes,
        problems,
        limits: *limits,
        unjudged,
        left_out,
        frameworks: frameworks.into(),
        bundles: bundles.into_iter().map(|bundle| bundle.edition.clone()).collect(),
        config,
        constraints: Arc::new(ConstraintIndex::new(&units)),
        units,
        admission,
        expansions,
        custom,
        kinds,
        sharing: Arc::new(Sharing::new(plans.unwrap_or_default())),
    })
}

/// Removes the compliance specifications of Trivy from the files, and returns their frameworks.
fn extract_specifications(owners: &mut [OwnedFiles]) -> Vec<FrameworkTable> {
    let mut found = Vec::new();
    for owner in owners {
        owner.files.retain(|file| {
            let framework = trivy::compliance::framework(file);
            let is_other = framework.is_none();
            found.extend(framework);
            is_other
        });
    }
    found
}

/// The compiled files of all dialects.
#[derive(Default)]
struct CompiledSources {
    units: Vec<Unit>,
    bound: Vec<BoundPolicy>,
    custom: Vec<CustomKind>,
    /// Sorted by name; the Constraints of one kind keep their order.
    policies: Vec<Policy>,
    unjudged: Vec<Unjudged>,
    left_out: Vec<Unjudged>,
    config: Config,
    /// Those of `ExpansionTemplate`s.
    expansions: Vec<Expansion>,
    /// Those of libraries in Kubescape's layout.
    frameworks: Vec<FrameworkTable>,
}

/// The policies that are Kubernetes objects, of all sources.
#[derive(Default)]
struct PolicyObjects<'f> {
    gatekeeper: gatekeeper::TemplateLibrary<'f>,
    admission: AdmissionLibrary<'f>,
    kyverno: KyvernoLibrary<'f>,
    crds: CrdLibrary<'f>,
}

impl<'f> PolicyObjects<'f> {
    /// Adds the documents of a file if one of them is a policy; returns whether that was the case.
    fn add(&mut self, file: &'f File, example: bool, problems: &mut Vec<Problem>) -> bool {
        // A file may have policies of several of the others.
        self.gatekeeper.add(file, example, problems)
            || self.admission.add(file, example, problems)
                | self.kyverno.add(file, example, problems)
                | self.crds.add(file, example, problems)
    }
}

/// The files of one source, by dialect.
struct SortedSource<'f> {
    modules: Vec<&'f File>,
    data: Vec<ParsedData<'f>>,
    kubescape: kubescape::ControlLibrary<'f>,
    missing: Missing,
    /// Data files that cannot be read.
    unparsed: Vec<&'f File>,
}

/// Compiles each source separately. Templates and Constraints of all sources are joined: each template is its own unit
/// anyway.
fn compile_all(
    owners: &SourcePackages<'_>,
    missing: Vec<Missing>,
    (options, point, selection): (&LoadOptions, EnforcementPoint, &RuleSelection),
    problems: &mut Vec<Problem>,
) -> CompiledSources {
    let limits = &options.limits;
    let mut objects = PolicyObjects::default();
    let mut compiled = CompiledSources::default();
    let shared = owners.shared_inputs();
    let sort =
        |(owner, missing)| sort_source(owner, &shared, missing, (&mut objects, &mut compiled), (limits, problems));
    let mut sorted: Vec<SortedSource<'_>> = owners.all.iter().zip(missing).map(sort).collect();
    refuse_data(owners, &mut sorted, problems);
    let mut parsed: Vec<Vec<ParsedData<'_>>> =
        sorted.iter_mut().map(|source| std::mem::take(&mut source.data)).collect();
    let unparsed: Vec<Vec<&File>> = sorted.iter_mut().map(|source| std::mem::take(&mut source.unparsed)).collect();
    let mut imported = BTreeSet::new();
    let mut frameworks = BTreeSet::new();
    for (number, source) in sorted.into_iter().enumerate() {
        let SortedSource { modules, kubescape, mut missing, .. } = source;
        for (_, files) in unparsed.iter().enumerate().filter(|(owner, _)| owners.depends_on_data(number, *owner)) {
            for file in files {
                missing.unparsed(file);
            }
        }
        let foreign = owners.imported(number, &modules);
        problems.extend(owners.unseen(number, &modules, &foreign));
        imported.extend(foreign.iter().map(|file| Arc::clone(&file.shown)));
        let all: Vec<&File> = modules.iter().chain(&foreign).copied().collect();
        let data = owners.data(number, &all, &mut parsed, problems);
        let modules = UnitModules { own: modules, imported: foreign };
        let mut found = Vec::new();
        let of_source = selection.of_source(owners.all[number].is_builtin());
        let plain = compile(modules, &data, limits, missing, &mut found, CompilePurpose::Directory(of_source));
        let (plain, found) =
            without_sources(plain, found, &owners.all[number].files, objects.gatekeeper.has_templates());
        problems.extend(found);
        let (mut policies, mut units) = plain.map_or_else(Default::default, |(policies, unit)| (policies, vec![unit]));
        for policy in &mut policies {
            policy.is_builtin = of_source.is_builtin;
        }
        problems.extend(parameters::shared_ids(&policies, &owners.all[number].files.iter()));
        let given = of_source.parameters(&policies);
        for unit in &mut units {
            problems.extend(parameters::set(unit, &data, &given).err());
        }
        frameworks.extend(kubescape.framework_names(&options.frameworks));
        let mut of_kubescape = controls::load(&kubescape, &options.frameworks, limits, problems);
        // Its controls are chosen by the library's own frameworks.
        let own = selection.of_source(false);
        let is_on = |policy: &_, rule: &Rule| own.is_on(policy, &rule.name, &rule.metadata);
        retain_bound(is_on, &mut of_kubescape.policies, &mut of_kubescape.units);
        compiled.add(policies, units);
        compiled.add_kubescape(of_kubescape, problems);
    }
    // A package that another source imports is used.
    problems.retain(|problem| !(lint::is_unused_package(problem) && imported.contains(&problem.file)));
    compiled.add_templates(templates::load(objects.gatekeeper, options, point, problems), selection);
    let of_kyverno = kyverno::load::load(objects.kyverno, problems);
    let evaluated = kyverno::load::evaluated(&of_kyverno);
    compiled.add_admission(of_kyverno, selection);
    compiled.add_admission(cel::load::load(objects.admission, &evaluated, problems), selection);
    compiled.add_custom(objects.crds, selection, problems);
    problems.extend(selection.unknown_frameworks(&frameworks));
    compiled.sort();
    compiled
}

/// Separates the dialects of one source that are recognised by their files.
fn sort_source<'f>(
    owner: &'f OwnedFiles,
    shared: &'f [File],
    mut missing: Missing,
    (objects, compiled): (&mut PolicyObjects<'f>, &mut CompiledSources),
    (limits, problems): (&Limits, &mut Vec<Problem>),
) -> SortedSource<'f> {
    let files = &owner.files;
    let suites = gatekeeper::suites(files);
    let kubescape = kubescape::ControlLibrary::read(files, if owner.is_local() { &[] } else { shared }, problems);
    let modules = files.iter().filter(|file| file.form == Form::Rego && !kubescape.has(file)).collect();
    let Sorted { kept: modules, unjudged, left_out, examples } = trivy::sort_out(modules, false);
    compiled.unjudged.extend(unjudged);
    compiled.left_out.extend(left_out);
    objects.gatekeeper.ignores_config = !owner.may_exempt();
    let (mut data, mut unparsed, mut replayed) = (Vec::new(), Vec::new(), 0);
    let others = files.iter().filter(|file| file.form != Form::Rego);
    for file in others.filter(|file| !examples.contain(file) && !kubescape.has(file)) {
        let example = Path::new(&*file.shown).ancestors().any(|folder| suites.contains(folder));
        let before = problems.len();
        if !objects.add(file, example, problems) {
            let value = data::read(file, example, problems)
                .filter(|value| owner.may_hold(file, value, &mut replayed, (limits, problems)));
            data.extend(value.map(|value| ParsedData { file, value }));
            if problems[before..].iter().any(Problem::is_refusal) {
                missing.unparsed(file);
                unparsed.push(file);
            }
        }
    }
    SortedSource { modules, data, kubescape, missing, unparsed }
}

/// Removes data that is located at packages of earlier sources.
fn refuse_data(owners: &SourcePackages<'_>, sorted: &mut [SortedSource<'_>], problems: &mut Vec<Problem>) {
    let data: Vec<&[ParsedData<'_>]> = sorted.iter().map(|source| &*source.data).collect();
    // In reverse order, so that the remaining indexes stay valid.
    for (number, index, problem) in owners.data_at_packages(&data).into_iter().rev() {
        if problem.is_refusal() {
            let refused = sorted[number].data.remove(index);
            sorted[number].missing.unparsed(refused.file);
        }
        problems.push(problem);
    }
}

impl CompiledSources {
    fn add(&mut self, policies: Vec<Policy>, units: Vec<Unit>) {
        self.policies.extend(policies);
        self.units.extend(units);
    }

    fn add_templates(&mut self, mut templates: templates::LoadedTemplates, selection: &RuleSelection) {
        let of_templates = selection.of_source(false);
        let is_on = |policy: &_, rule: &Rule| of_templates.takes(policy, &rule.name, &rule.metadata);
        retain_bound(is_on, &mut templates.policies, &mut templates.units);
        self.add(templates.policies, templates.units);
        self.unjudged.extend(templates.unjudged);
        self.config = templates.config;
        self.expansions = templates.expansions;
    }

    fn add_admission(&mut self, loaded: cel::load::LoadedPolicies, selection: &RuleSelection) {
        let of_policies = selection.of_source(false);
        for (policy, bound) in loaded.policies {
            if policy.rules.iter().all(|rule| of_policies.takes(&policy.name, &rule.name, &rule.metadata)) {
                self.policies.push(policy);
                self.bound.extend(bound);
            }
        }
        self.unjudged.extend(loaded.unjudged);
        self.left_out.extend(loaded.left_out);
    }

    fn add_custom(&mut self, crds: CrdLibrary<'_>, selection: &RuleSelection, problems: &mut Vec<Problem>) {
        let of_rules = selection.of_source(false);
        let loaded = crd::load::load(crds, |policy, rule, metadata| of_rules.takes(policy, rule, metadata), problems);
        self.policies.extend(loaded.policies);
        self.custom.extend(loaded.kinds);
        self.left_out.extend(loaded.left_out);
    }

    fn sort(&mut self) {
        self.policies.sort_by(|a, b| a.name.cmp(&b.name));
        self.unjudged.sort();
        // Libraries that share controls use the same names for them.
        self.unjudged.dedup();
        self.left_out.sort();
    }

    /// Adds the controls of a library, unless an earlier source has policies with these names.
    fn add_kubescape(&mut self, library: controls::LoadedControls, problems: &mut Vec<Problem>) {
        let known: BTreeSet<&Arc<str>> = self.policies.iter().map(|policy| &policy.name).collect();
        let conflict = library.policies.iter().find(|policy| known.contains(&policy.name));
        if let Some(policy) = conflict {
            let message = format!("{} is also a policy of an earlier source; this library is not used", policy.name);
            let help = "use only one of the two libraries, or give the controls other ids";
            problems.push(Problem::refused(&policy.source, message).help(help));
            return;
        }
        self.add(library.policies, library.units);
        self.unjudged.extend(library.unjudged);
        self.left_out.extend(library.left_out);
        self.frameworks.extend(library.frameworks);
    }
}

/// Removes the Constraints and controls that are switched off, and the units without any left.
fn retain_bound(is_on: impl Fn(&Arc<str>, &Rule) -> bool, policies: &mut Vec<Policy>, units: &mut Vec<Unit>) {
    policies.retain(|policy| policy.rules.iter().all(|rule| is_on(&policy.name, rule)));
    units.retain_mut(|unit| {
        match &mut unit.form {
            UnitForm::Modules => true,
            UnitForm::Template(template) => {
                template.constraints.retain(|constraint| is_on(&constraint.policy, &constraint.rule));
                !template.constraints.is_empty()
            }
            UnitForm::Kubescape { rule, .. } => {
                // The rule has no other reference yet.
                let Some(rule) = Arc::get_mut(rule) else { return true };
                rule.controls.retain(|control| is_on(&control.policy, &control.rule));
                !rule.controls.is_empty()
            }
        }
    });
}

/// Removes the packages that are the source of a template: they are evaluated only as part of one.
fn without_sources(
    plain: Option<(Vec<Policy>, Unit)>,
    mut problems: Vec<Problem>,
    files: &[File],
    templates: bool,
) -> (Option<(Vec<Policy>, Unit)>, Vec<Problem>) {
    let Some((mut policies, mut unit)) = plain else { return (None, problems) };
    let unknown = FileText::default();
    policies.retain(|policy| {
        let (true, Some(rule)) = (policy.dialect.has_constraints, policy.rules.first()) else { return true };
        let text = files.iter().find(|file| file.shown == rule.source.file).map_or(&unknown, |file| &file.text);
        let reads = format!("package {} reads input.review or input.parameters", policy.name);
        let problem = if templates {
            let message = format!("{reads}: it is the source of a template and is not evaluated by itself");
            Problem::warning(&rule.source.file, message)
        } else {
            let message = format!("{reads}, as a Gatekeeper template does");
            let help = "add its ConstraintTemplate and Constraints to the policy paths, or read the object as input \
                        (conftest) or input.request.object";
            Problem::refused(&rule.source.file, message).help(help)
        };
        problems.push(problem.at(text, rule.source.line, 1));
        false
    });
    unit.groups.retain(|group| !group.dialect.has_constraints);
    (Some((policies, unit)), problems)
}

/// Returns the problem of sources without an entrypoint rule.
fn nothing_to_judge_by(sources: &[FileSource], options: &LoadOptions, set: &PolicySet) -> Problem {
    let frameworks = options.frameworks.iter().map(|name| frameworks::option(name).to_string());
    let shown: Vec<String> = sources.iter().map(ToString::to_string).chain(frameworks).collect();
    let shown: Arc<str> = if shown.is_empty() { "no path".into() } else { shown.join(", ").into() };
    let modules = set.files.keys().filter(|file| Form::of(Path::new(&***file)) == Some(Form::Rego)).count();
    if !set.rule_changes.unselected.is_empty() {
        let message = format!("no rule is left: the profile {} contains none of them", options.profile.word());
        return Problem::refused(&shown, message).help("choose another with --profile");
    }
    let skipped = &set.rule_changes.skipped;
    let needs_cluster = skipped.iter().filter(|rule| rule.needs_cluster()).count();
    let switched_off = skipped.len() - needs_cluster;
    if needs_cluster > 0 {
        let rules = if needs_cluster == 1 { "rule reports" } else { "rules report" };
        let others = match switched_off {
            0 => String::new(),
            1 => "; 1 is switched off".to_owned(),
            more => format!("; {more} are switched off"),
        };
        let message = format!("no rule is left: {needs_cluster} {rules} what does not exist in the cluster{others}");
        let help =
            "read the cluster: --with-cluster; or if the manifests are everything that exists: --files-are-complete";
        return Problem::refused(&shown, message).help(help);
    }
    if switched_off > 0 {
        let message = format!("no rule is left: all {switched_off} are switched off");
        let help = match options.frameworks.as_slice() {
            [] => "see --skip-rule, and rules in the --config file",
            _ => "kaudit policies lists the rules of these policies, and -o json their frameworks",
        };
        return Problem::refused(&shown, message).help(help);
    }
    let message = format!("no rule deny, violation or warn in {modules} .rego files");
    let mut unjudged = set.unjudged.iter().chain(&set.left_out);
    if let Some(first) = unjudged.next() {
        let others = match unjudged.count() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let help = format!("not evaluated: {}, {}{others}", first.name, first.reason);
        let message = if modules == 0 { "no policy is evaluated".to_owned() } else { message };
        return Problem::refused(&shown, message).help(help);
    }
    let help = "add a rule named deny, violation or warn (or deny_x, violation_x, warn_x) in a package that is \
                neither a library (lib) nor a test (*_test)";
    Problem::refused(&shown, message).help(help)
}

/// Returns the digest of files and of the options that select rules.
fn digest<'f>(files: impl Iterator<Item = &'f File>, options: &LoadOptions) -> Digest {
    let mut names: Vec<(String, &str)> = files.map(|file| (file.relative(), &*file.text)).collect();
    names.extend(options.frameworks.iter().map(|name| (frameworks::option(name).to_string(), "")));
    names.extend((!options.rules.is_empty()).then(|| (options.rules.to_string(), "")));
    let profile = (options.profile != Profile::Default).then(|| (format!("profile: {}", options.profile.word()), ""));
    names.extend(profile);
    let engine = options.gatekeeper_engine;
    names.extend((engine != GatekeeperEngine::default()).then(|| (format!("engine: {}", engine.word()), "")));
    names.extend(options.expands_pods.then(|| ("expand: pods".to_owned(), "")));
    names.sort();
    Digest::of_parts(u64::to_le_bytes, names.iter().flat_map(|(name, text)| [name.as_str(), text]))
}
