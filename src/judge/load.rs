//! From policy sources to a [`PolicySet`], with every problem on the way.

use std::{path::Path, sync::Arc};

use super::{
    bundle::Bundle,
    compile::compile,
    data,
    dialect::Dialect,
    entrypoints::Purpose,
    files,
    gatekeeper::{self, Config, ConstraintIndex, EnforcementPoint},
    kinds::KindIndex,
    kubescape, lint,
    policy::Policy,
    reads::TOKEN_VOLUME,
    set::PolicySet,
    sharing::{Sharing, plan::Plans},
    sources::PolicySource,
    trivy::{self, Sorted},
    unit::Unit,
    unjudged::Unjudged,
};
use crate::{
    model::digest::Digest,
    rego::{
        file::{File, Form},
        limits::Limits,
        missing::Missing,
        problem::{LoadError, Problem},
    },
};

impl PolicySet {
    /// Loads all policies of `sources`. Blocks.
    ///
    /// # Errors
    /// Returns every problem of every file if one of them is refused, or if there is no rule to judge by.
    pub fn load<S: Clone + Into<PolicySource>>(sources: &[S]) -> Result<Self, LoadError> {
        Self::load_with(sources, &Limits::default())
    }

    /// Loads all policies of `sources` with other limits.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with<S: Clone + Into<PolicySource>>(sources: &[S], limits: &Limits) -> Result<Self, LoadError> {
        Self::load_partly(sources, limits)?.whole()
    }

    /// Loads the policies of `sources` that are in order; [`Self::refused`] returns why others are not.
    ///
    /// # Errors
    /// Returns every problem if one of the sources cannot be read, or if no rule is left to judge by.
    pub fn load_partly<S: Clone + Into<PolicySource>>(sources: &[S], limits: &Limits) -> Result<Self, LoadError> {
        let sources = owned(sources);
        let set = load(&sources, limits, EnforcementPoint::Audit)?;
        if !set.policies.is_empty() {
            return Ok(set);
        }
        let nothing = (!set.is_partial()).then(|| nothing_to_judge_by(&sources, &set));
        Err(LoadError::new(set.problems.into_iter().chain(nothing).collect()))
    }

    /// Loads the policies of `sources` that are in order, for a run that goes on when others come. Where they are objects of a
    /// cluster there may be none yet, or none any more: such a set is partial.
    ///
    /// # Errors
    /// As [`Self::load_partly`], but for sources of a cluster without a rule.
    pub fn load_followed<S: Clone + Into<PolicySource>>(sources: &[S], limits: &Limits) -> Result<Self, LoadError> {
        let sources = owned(sources);
        if !sources.iter().any(|source| matches!(source, PolicySource::Tree(_))) {
            return Self::load_partly(&sources, limits);
        }
        let mut set = load(&sources, limits, EnforcementPoint::Audit)?;
        if set.policies.is_empty() && !set.is_partial() {
            let nothing = nothing_to_judge_by(&sources, &set);
            set.problems.push(nothing);
            set.problems.sort();
        }
        Ok(set)
    }

    /// Loads one template and one Constraint as Gatekeeper's tests do, which is to judge with the enforcement point of
    /// `gator`.
    ///
    /// # Errors
    /// As [`Self::load`]; a Constraint that does not fit the schema of its template is one of the reasons.
    pub fn from_gatekeeper(template: &Path, constraint: &Path, limits: &Limits) -> Result<Self, LoadError> {
        let sources = [template, constraint].map(|path| path.to_owned().into());
        load(&sources, limits, EnforcementPoint::Gator)?.whole()
    }
}

fn owned<S: Clone + Into<PolicySource>>(sources: &[S]) -> Vec<PolicySource> {
    sources.iter().cloned().map(Into::into).collect()
}

/// Loads what can be loaded, which may be nothing; the set's problems say what was refused.
fn load(sources: &[PolicySource], limits: &Limits, point: EnforcementPoint) -> Result<PolicySet, LoadError> {
    let (files, mut problems) = files::read(sources, limits);
    if problems.iter().any(|problem| sources.iter().any(|source| source.shown() == problem.file)) {
        return Err(LoadError { problems });
    }
    let (tests, files): (Vec<File>, Vec<File>) = files.into_iter().partition(File::is_test);
    let mut missing = Missing::default();
    for unread in &problems {
        missing.unread(&unread.file);
    }
    problems.extend(tests.iter().filter_map(lint::test_file));
    let compiled = compile_all(sources, &files, missing, (limits, point), &mut problems);
    let frameworks = || sources.iter().filter(|source| matches!(source, PolicySource::Framework(_)));
    if frameworks().map(PolicySource::shown).any(|shown| problems.iter().any(|problem| problem.file == shown)) {
        return Err(LoadError::new(problems));
    }
    let Compiled { units, policies, unjudged, left_out, config } = compiled;
    let bundles: Vec<&Bundle> = sources.iter().filter_map(PolicySource::bundle).collect();
    problems.extend(bundles.iter().filter_map(|bundle| bundle.problem.clone()));
    problems.extend(lint::without_kinds(&policies, &files));
    problems.sort();
    problems.dedup();
    let kinds = Arc::new(KindIndex::new(&units));
    let names_tokens = files.iter().any(|file| file.text.contains(TOKEN_VOLUME));
    let plans = limits.share_verdicts.then(|| Plans::new(&units, &config, kinds.names(), names_tokens));
    Ok(PolicySet {
        digest: digest(&files, frameworks().map(PolicySource::shown)),
        files: files.into_iter().map(|file| file.shown).collect(),
        policies,
        problems,
        limits: *limits,
        unjudged,
        left_out,
        bundles: bundles.into_iter().map(|bundle| bundle.edition.clone()).collect(),
        config,
        constraints: Arc::new(ConstraintIndex::new(&units)),
        units,
        kinds,
        sharing: Arc::new(Sharing::new(plans.unwrap_or_default())),
    })
}

/// What the files of all dialects become.
struct Compiled {
    units: Vec<Unit>,
    /// Sorted by name; the Constraints of one kind keep their order.
    policies: Vec<Policy>,
    unjudged: Vec<Unjudged>,
    left_out: Vec<Unjudged>,
    config: Config,
}

/// Tells the dialects apart that are recognised by their files, and compiles each.
fn compile_all(
    sources: &[PolicySource],
    files: &[File],
    mut missing: Missing,
    (limits, point): (&Limits, EnforcementPoint),
    problems: &mut Vec<Problem>,
) -> Compiled {
    let suites = gatekeeper::suites(files);
    let kubescape = kubescape::Library::read(files, problems);
    let modules = files.iter().filter(|file| file.form == Form::Rego && !kubescape.has(file)).collect();
    let Sorted { kept: modules, mut unjudged, mut left_out, examples } = trivy::sort_out(modules, false);
    let mut data = data::document();
    let mut gatekeeper = gatekeeper::Library::default();
    let others = files.iter().filter(|file| file.form != Form::Rego);
    for file in others.filter(|file| !examples.contain(file) && !kubescape.has(file)) {
        let example = Path::new(&*file.shown).ancestors().any(|folder| suites.contains(folder));
        let before = problems.len();
        if !gatekeeper.add(file, example, problems) {
            data::add(&mut data, file, example, problems);
            if problems[before..].iter().any(Problem::is_refusal) {
                missing.unparsed(file);
            }
        }
    }
    let mut found = Vec::new();
    let plain = compile(modules, &data, limits, missing, &mut found, Purpose::Directory);
    let (plain, found) = without_sources(plain, found, files, gatekeeper.has_templates());
    problems.extend(found);
    let of_gatekeeper = gatekeeper.load(limits, point, problems);
    let of_kubescape = kubescape.load(sources, limits, problems);
    let (mut policies, mut units) = plain.map_or_else(Default::default, |(policies, unit)| (policies, vec![unit]));
    policies.extend(of_gatekeeper.policies.into_iter().chain(of_kubescape.policies));
    policies.sort_by(|a, b| a.name.cmp(&b.name));
    units.extend(of_gatekeeper.units.into_iter().chain(of_kubescape.units));
    unjudged.extend(of_gatekeeper.unjudged.into_iter().chain(of_kubescape.unjudged));
    unjudged.sort();
    left_out.extend(of_kubescape.left_out);
    left_out.sort();
    Compiled { units, policies, unjudged, left_out, config: of_gatekeeper.config }
}

/// Removes the packages that are the source of a template: they only judge as a part of one.
fn without_sources(
    plain: Option<(Vec<Policy>, Unit)>,
    mut problems: Vec<Problem>,
    files: &[File],
    templates: bool,
) -> (Option<(Vec<Policy>, Unit)>, Vec<Problem>) {
    let Some((mut policies, mut unit)) = plain else { return (None, problems) };
    policies.retain(|policy| {
        let (Dialect::Gatekeeper, Some(rule)) = (policy.dialect, policy.rules.first()) else { return true };
        let text = files.iter().find(|file| file.shown == rule.source.file).map_or("", |file| &file.text);
        let reads = format!("package {} reads input.review or input.parameters", policy.name);
        let problem = if templates {
            let message = format!("{reads}: it is the source of a template and not judged by itself");
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
    unit.groups.retain(|group| group.dialect != Dialect::Gatekeeper);
    (Some((policies, unit)), problems)
}

/// Returns the problem of sources without a rule that judges.
fn nothing_to_judge_by(sources: &[PolicySource], set: &PolicySet) -> Problem {
    let shown: Vec<String> = sources.iter().map(ToString::to_string).collect();
    let shown: Arc<str> = if shown.is_empty() { "no path".into() } else { shown.join(", ").into() };
    let modules = set.files.iter().filter(|file| Form::of(Path::new(&***file)) == Some(Form::Rego)).count();
    let message = format!("no rule to judge by in {modules} .rego files");
    let mut unjudged = set.unjudged.iter().chain(&set.left_out);
    if let Some(first) = unjudged.next() {
        let others = match unjudged.count() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let help = format!("not judged: {}, {}{others}", first.name, first.reason);
        return Problem::refused(&shown, message).help(help);
    }
    let help = "looked for rules named deny, violation or warn (also deny_x, violation_x, warn_x) in every package that is \
                no library (lib) and no test (*_test)";
    Problem::refused(&shown, message).help(help)
}

fn digest(files: &[File], frameworks: impl Iterator<Item = Arc<str>>) -> Digest {
    let mut names: Vec<(String, &str)> = files.iter().map(|file| (file.relative(), file.text.as_str())).collect();
    names.extend(frameworks.map(|shown| (shown.to_string(), "")));
    names.sort();
    Digest::of_parts(u64::to_le_bytes, names.iter().flat_map(|(name, text)| [name.as_str(), text]))
}
