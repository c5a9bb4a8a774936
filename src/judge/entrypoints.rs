//! Which rules judge: found by name, joined over files, with what their annotations say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::Value;

use super::{
    dependencies::Dependencies,
    dialect::{self, Dialect},
    excusable::Excusability,
    gatekeeper::template,
    kubescape::rule::{ENTRY, PACKAGE},
    metadata::{AnnotationScope, Metadata},
    policy::Policy,
    reads::{Matches, Projection, Queries, Reads, Rules},
    rule::{Definition, Entrypoint, Exception, ResultShape, Rule, RuleDescriptors, RuleText},
    rule_settings::RuleSelection,
    trivy::{self, Kinds},
    unit::Group,
};
use crate::{
    model::{
        rule_numbers::RuleNumber,
        verdict::{Outcome, Source},
    },
    rego::{
        excerpt,
        file::File,
        graph::Graph,
        limits::Version,
        program::SourceLocation,
        references::{DefinitionForm, Node, Path},
        syntax::{Module, Position},
    },
};

/// What modules are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose<'r> {
    /// All `.rego` files together; rules judge by their names, if they are not switched off.
    Directory(&'r RuleSelection),
    /// The same with their tests, to run these.
    Test,
    /// One Gatekeeper template; the first module has the rule that judges.
    Template,
    /// One rule in Kubescape's layout, with what it shares with others.
    Kubescape,
}

/// The annotations of one module.
pub(crate) type Annotations = Vec<(AnnotationScope, Metadata)>;

/// Everything that was read of the modules, each list by the index of the module.
pub(crate) struct Reading<'a> {
    pub(crate) files: &'a [&'a File],
    /// The lines of each file.
    pub(crate) lines: &'a [Vec<&'a str>],
    pub(crate) modules: &'a [&'a Module],
    pub(crate) annotations: &'a [Annotations],
    /// The modules of each package.
    pub(crate) packages: &'a BTreeMap<Path, Vec<usize>>,
    pub(crate) nodes: &'a [Node],
    pub(crate) graph: &'a Graph<'a>,
    /// The packages that are checks of Trivy's, and which kinds they judge.
    pub(crate) trivy: &'a BTreeMap<Path, Option<Kinds>>,
    pub(crate) purpose: Purpose<'a>,
    /// The names of files of other sources, whose rules do not judge.
    pub(crate) imported: &'a BTreeSet<Arc<str>>,
}

/// Returns the outcome of a rule's results; `None` if no rule of this name judges.
pub(crate) fn outcome(name: &str) -> Option<Outcome> {
    let (outcome, rest) = [("deny", Outcome::Fail), ("violation", Outcome::Fail), ("warn", Outcome::Warn)]
        .into_iter()
        .find_map(|(word, outcome)| Some((outcome, name.strip_prefix(word)?)))?;
    let parts_are_words = |rest: &str| {
        rest.split('_').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    (rest.is_empty() || rest.strip_prefix('_').is_some_and(parts_are_words)).then_some(outcome)
}

/// Whether the rules of a package judge; those of libraries and tests do not.
pub(crate) fn judges(package: &Path) -> bool {
    !package.iter().any(|part| part == "lib") && !package.last().is_some_and(|name| name.ends_with("_test"))
}

/// Returns the rule that is evaluated together with a rule that judges: the exceptions of its package.
pub(crate) fn companion(package: &Path, rule: &str) -> Option<&'static str> {
    (judges(package) && outcome(rule).is_some()).then_some("exception")
}

impl Reading<'_> {
    /// Returns the paths of all rules that judge, by package.
    pub(crate) fn entrypoints(&self) -> BTreeMap<Path, BTreeSet<Path>> {
        let mut entrypoints: BTreeMap<Path, BTreeSet<Path>> = BTreeMap::new();
        let sets = (self.purpose == Purpose::Kubescape).then(|| self.only_set()).flatten();
        for node in self.nodes {
            let package = node.package().to_vec();
            let Some(name) = node.name() else { continue };
            if self.imported.contains(&self.files[node.module].shown) {
                continue;
            }
            let wanted = match self.purpose {
                Purpose::Directory(_) | Purpose::Test => judges(&package) && self.asks(&package, name),
                Purpose::Template => package == [template::PACKAGE] && name == template::ENTRY,
                Purpose::Kubescape => package == [PACKAGE] && Some(name) == sets.as_ref(),
            };
            if wanted && node.parameters.is_none() {
                let path = node.path[..=package.len()].to_vec();
                entrypoints.entry(package).or_default().insert(path);
            }
        }
        entrypoints
    }

    /// Whether rules of this name are asked for in a package.
    fn asks(&self, package: &Path, name: &str) -> bool {
        match self.trivy.get(package) {
            Some(kinds) => kinds.is_some() && trivy::is_enforced(name),
            None => outcome(name).is_some(),
        }
    }

    /// Returns the name of the rule in Kubescape's package that judges: `deny`, or the only set. Kubescape reads any rule there
    /// whose value looks like results.
    fn only_set(&self) -> Option<String> {
        let is_set = |node: &&Node| {
            let own = node.package() == [PACKAGE] && node.parameters.is_none();
            own && shape(&[node]) == ResultShape::Set
        };
        let sets = self.nodes.iter().filter(is_set).filter_map(|node| node.path.get(1));
        let names: BTreeSet<&String> = sets.collect();
        let only = names.first().filter(|_| names.len() == 1);
        names.iter().find(|name| **name == ENTRY).or(only).map(|name| (*name).clone())
    }

    /// Returns the policies, and the groups of rules that the evaluator is asked for.
    pub(crate) fn policies(&self) -> (Vec<Policy>, Vec<Group>) {
        let mut policies = Vec::new();
        let mut groups: BTreeMap<Dialect, Group> = BTreeMap::new();
        for (package, paths) in self.entrypoints() {
            let dialect = match self.purpose {
                Purpose::Directory(_) | Purpose::Test if self.trivy.contains_key(&package) => Dialect::Trivy,
                Purpose::Directory(_) | Purpose::Test => dialect::find(&package, self.nodes, self.graph, &paths),
                Purpose::Template => Dialect::Gatekeeper,
                Purpose::Kubescape => Dialect::Kubescape,
            };
            let group = Group {
                dialect,
                entrypoints: Vec::new(),
                exceptions: Vec::new(),
                queries: Queries::default(),
                compiled: Vec::new(),
            };
            let group = groups.entry(dialect).or_insert(group);
            let policy_name: Arc<str> = package.join(".").into();
            let exception = self.exception(&package, &policy_name);
            let exception = exception.filter(|_| dialect.has_exceptions()).map(|exception| {
                group.exceptions.push(exception);
                group.exceptions.len() - 1
            });
            let kinds = self.trivy.get(&package).cloned().flatten().unwrap_or_else(Kinds::all);
            let depends = Dependencies::of(self.graph, &paths);
            let entrypoint = |path| {
                let entrypoint = self.entrypoint(&package, path, &policy_name, exception)?;
                Some(Entrypoint { transition: depends.transition, kinds: kinds.clone(), ..entrypoint })
            };
            let entrypoints = paths.iter().filter_map(entrypoint);
            let entrypoints: Vec<Entrypoint> = entrypoints.filter(|entrypoint| self.is_on(entrypoint)).collect();
            let Some(first) = entrypoints.first() else { continue };
            policies.push(Policy {
                name: Arc::clone(&policy_name),
                dialect,
                versions: self.versions(&package),
                source: Arc::clone(&first.rule.source.file),
                line: first.rule.source.line,
                is_builtin: false,
                metadata: self.package_metadata(&package),
                depends,
                matches: Matches::default(),
                reads: Projection::default(),
                scans_inventory: false,
                rules: entrypoints.iter().map(|entrypoint| entrypoint.rule.clone()).collect(),
            });
            group.entrypoints.extend(entrypoints);
        }
        (policies, groups.into_values().collect())
    }

    /// Whether a rule is not switched off.
    fn is_on(&self, Entrypoint { policy, rule, .. }: &Entrypoint) -> bool {
        match self.purpose {
            Purpose::Directory(selection) => selection.takes(policy, &rule.name, &rule.metadata),
            _ => true,
        }
    }

    fn versions(&self, path: &Path) -> BTreeSet<Version> {
        let modules = self.packages.get(path).into_iter().flatten().map(|index| &self.modules[*index]);
        modules.map(|module| if module.is_v1() { Version::V1 } else { Version::V0 }).collect()
    }

    fn exception(&self, package: &Path, policy: &Arc<str>) -> Option<Exception> {
        let path: Path = package.iter().cloned().chain(["exception".to_owned()]).collect();
        let node = self.graph.at(&path).find(|node| node.parameters.is_none())?;
        Some(Exception { policy: Arc::clone(policy), source: self.source(node), path })
    }

    fn entrypoint(
        &self,
        package: &Path,
        path: &Path,
        policy: &Arc<str>,
        exception: Option<usize>,
    ) -> Option<Entrypoint> {
        let name = path.last()?;
        let below = self.graph.covered(path).into_iter().filter(|below| below.starts_with(path));
        let mut nodes: Vec<&Node> =
            below.flat_map(|path| self.graph.at(path)).filter(|node| node.parameters.is_none()).collect();
        nodes.sort_by_key(|node| (node.module, node.rule));
        let definition = |node: &&&Node| node.form != DefinitionForm::Default;
        let definitions: Vec<Definition> = nodes
            .iter()
            .filter(definition)
            .map(|node| Definition {
                at: location(node),
                source: self.source(node),
                metadata: Arc::new(self.metadata(package, name, &[node])),
            })
            .collect();
        let first = nodes.iter().find(|node| definition(node)).or(nodes.first())?;
        let text = |node: &&Node| {
            let lines = excerpt::between(node.line, node.last_line, &self.lines[node.module]);
            RuleText { source: self.source(node), text: lines.join("\n").into() }
        };
        let rule = Rule {
            number: RuleNumber::of(policy, &name.as_str().into()),
            name: name.as_str().into(),
            // Trivy and Kubescape ask for some that have no name of a rule here.
            outcome: outcome(name).unwrap_or(Outcome::Fail),
            metadata: Arc::new(self.metadata(package, name, &nodes)),
            source: self.source(first),
            texts: nodes.iter().map(text).collect(),
            excusable: Excusability::default(),
        };
        let described = definitions.iter().map(Definition::described);
        let of_rule = (&rule.source, &*rule.metadata);
        let descriptors = RuleDescriptors::new([policy, &rule.name], &Arc::default(), of_rule, described);
        let suffix = name.split_once('_').map_or("", |(_, suffix)| suffix);
        Some(Entrypoint {
            policy: Arc::clone(policy),
            rule,
            descriptors,
            shape: shape(&nodes),
            path: path.clone(),
            exception: exception.map(|index| (index, Value::from(suffix))),
            definitions,
            transition: false,
            kinds: Kinds::all(),
        })
    }

    fn source(&self, node: &Node) -> Source {
        Source { file: Arc::clone(&self.files[node.module].shown), line: node.line }
    }

    /// Joins the annotations of a rule, from the nearest to the widest scope.
    fn metadata(&self, package: &Path, name: &str, nodes: &[&Node]) -> Metadata {
        let own = nodes.iter().find_map(|node| {
            let mine = |(scope, _): &&(AnnotationScope, Metadata)| *scope == AnnotationScope::Rule(node.rule);
            self.annotations[node.module].iter().find(mine)
        });
        let of_name =
            |scope: &AnnotationScope| matches!(scope, AnnotationScope::Document(document) if document == name);
        let document = self.in_package(package).find(|(scope, _)| of_name(scope));
        let metadata = [own, document].into_iter().flatten();
        let metadata = metadata.fold(Metadata::default(), |metadata, (_, wider)| Metadata {
            entrypoint: metadata.entrypoint || wider.entrypoint,
            ..metadata.or(wider)
        });
        metadata.or(&self.package_metadata(package))
    }

    fn package_metadata(&self, package: &Path) -> Metadata {
        let own = self.in_package(package).filter(|(scope, _)| *scope == AnnotationScope::Package);
        let above = (1..=package.len()).rev().flat_map(|length| {
            self.in_package(&package[..length]).filter(|(scope, _)| *scope == AnnotationScope::Subpackages)
        });
        own.chain(above).fold(Metadata::default(), |metadata, (_, wider)| metadata.or(wider))
    }

    fn in_package(&self, path: &[String]) -> impl Iterator<Item = &(AnnotationScope, Metadata)> {
        self.packages.get(path).into_iter().flatten().flat_map(|index| &self.annotations[*index])
    }
}

/// Returns what the definitions of a rule make together.
fn shape(nodes: &[&Node]) -> ResultShape {
    let mut shape = ResultShape::Set;
    for node in nodes {
        if node.path.len() > node.package + 1 || !node.is_whole {
            return ResultShape::Object;
        }
        if node.form != DefinitionForm::Element {
            shape = ResultShape::Complete;
        }
    }
    shape
}

/// Returns where a definition is written, in its unit.
fn location(node: &Node) -> SourceLocation {
    SourceLocation { module: node.module, at: Position { line: node.line, column: node.column } }
}

/// Finds what to ask about which kind, and what each policy reads.
pub(crate) fn find_reads(rules: &Rules<'_>, policies: &mut [Policy], groups: &mut [Group]) {
    for group in groups.iter_mut() {
        let exceptions: Vec<&Path> = group.exceptions.iter().map(|exception| &exception.path).collect();
        group.queries = Queries::find(rules, group.dialect, &group.entrypoints, &exceptions);
    }
    let mut entrypoints: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
    for (index, entrypoint) in groups.iter().flat_map(|group| group.entrypoints.iter().enumerate()) {
        entrypoints.entry(Arc::clone(&entrypoint.policy)).or_default().push(index);
    }
    for policy in policies {
        let Some(group) = groups.iter_mut().find(|group| group.dialect == policy.dialect) else { continue };
        let mut reads = Reads::default();
        let mut matches = Matches::Kinds(BTreeSet::new());
        // A policy is of one dialect.
        for index in entrypoints.get(&policy.name).into_iter().flatten().copied() {
            let Some(entrypoint) = group.entrypoints.get(index) else { continue };
            if !policy.depends.inventory {
                // What the walk does not understand counts as reading everything.
                group.queries.forget_lookups(index);
            }
            reads.merge(&group.queries.reads(index));
            matches = matches.or(&group.queries.matches(index));
            if let Some((exception, _)) = entrypoint.exception {
                reads.merge(&group.queries.reads(group.entrypoints.len() + exception));
            }
        }
        policy.matches = matches;
        policy.scans_inventory = reads.scans_inventory();
        policy.depends = policy.depends & reads.dependencies(policy.dialect);
        policy.reads = Projection::new(reads.object(policy.dialect));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_judge_by_name() {
        for name in ["deny", "violation", "deny_a", "deny_a_B2", "violation_1"] {
            assert_eq!(outcome(name), Some(Outcome::Fail), "{name}");
        }
        assert_eq!(outcome("warn_x"), Some(Outcome::Warn));
        for name in ["denying", "deny_", "deny__x", "deny_x_", "warn-x", "not_deny", "warning", "DENY", ""] {
            assert_eq!(outcome(name), None, "{name}");
        }
    }

    #[test]
    fn libraries_and_tests_do_not_judge() {
        let judges = |package: &str| judges(&package.split('.').map(str::to_owned).collect());
        assert!(judges("main") && judges("library.a") && judges("a_test.b"));
        assert!(!judges("lib") && !judges("lib.a") && !judges("a.lib.b") && !judges("main_test"));
    }
}
