//! Finds the entrypoint rules by name, joins them over files, and adds their annotations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::Value;

use super::{
    dependencies::Dependencies,
    dialect::{Annotations, Dialect},
    dialects::{self, KnownPackages, conftest},
    excusable::Excusability,
    metadata::{AnnotationScope, Metadata},
    policy::Policy,
    reads::{Matches, Projection, Queries, Reads, UnitRules},
    rule::{Entrypoint, PackageException, ResultShape, Rule, RuleDefinition, RuleDescriptors, RuleText},
    rule_kinds::RuleKinds,
    rule_settings::SourceSelection,
    unit::Group,
};
use crate::{
    model::{
        rule_numbers::RuleNumber,
        verdict::{Outcome, Source},
    },
    rego::{
        File, SourceLocation, Version,
        analysis::{
            excerpt,
            graph::Graph,
            references::{DefinitionForm, Node, Path},
            syntax::{Module, Position},
        },
    },
};

/// The purpose for which modules are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompilePurpose<'r> {
    /// All `.rego` files together; entrypoints are found by name, unless they are switched off.
    Directory(SourceSelection<'r>),
    /// As a directory, with tests included and runnable.
    Test,
    /// Modules with a single entrypoint, defined by their dialect.
    Single(Dialect),
}

/// The parsed modules with everything read from them; each list is indexed by module.
pub(crate) struct ParsedModules<'a> {
    pub(crate) files: &'a [&'a File],
    /// The lines of each file.
    pub(crate) lines: &'a [Vec<&'a str>],
    pub(crate) modules: &'a [&'a Module],
    pub(crate) annotations: &'a [Annotations],
    /// The modules of each package.
    pub(crate) packages: &'a BTreeMap<Path, Vec<usize>>,
    pub(crate) nodes: &'a [Node],
    pub(crate) graph: &'a Graph<'a>,
    /// The packages whose dialect is determined by more than the input that they read.
    pub(crate) known: &'a KnownPackages,
    pub(crate) purpose: CompilePurpose<'a>,
    /// The names of files of other sources, whose rules are not entrypoints.
    pub(crate) imported: &'a BTreeSet<Arc<str>>,
}

/// Whether a package can have entrypoints; libraries and tests cannot.
pub(crate) fn can_have_entrypoints(package: &Path) -> bool {
    !package.iter().any(|part| part == "lib") && !package.last().is_some_and(|name| name.ends_with("_test"))
}

/// Returns the rule that is evaluated together with an entrypoint: the exceptions of its package.
pub(crate) fn companion(package: &Path, rule: &str) -> Option<&'static str> {
    (can_have_entrypoints(package) && conftest::outcome(rule).is_some()).then_some("exception")
}

impl<'a> ParsedModules<'a> {
    /// Returns the paths of all entrypoints, by package.
    pub(crate) fn entrypoints(&self) -> BTreeMap<Path, BTreeSet<Path>> {
        let mut entrypoints: BTreeMap<Path, BTreeSet<Path>> = BTreeMap::new();
        let single = self.single();
        for node in self.nodes {
            let package = node.package().to_vec();
            let Some(name) = node.name() else { continue };
            if self.imported.contains(&self.files[node.module].shown) {
                continue;
            }
            let wanted = match self.purpose {
                CompilePurpose::Directory(_) | CompilePurpose::Test => {
                    can_have_entrypoints(&package) && self.is_entrypoint(&package, name)
                }
                CompilePurpose::Single(_) => {
                    single.as_ref().is_some_and(|single| package == single[..1] && *name == single[1])
                }
            };
            if wanted && node.parameters.is_none() {
                let path = node.path[..=package.len()].to_vec();
                entrypoints.entry(package).or_default().insert(path);
            }
        }
        entrypoints
    }

    /// Whether rules with this name are entrypoints in a package.
    fn is_entrypoint(&self, package: &Path, name: &str) -> bool {
        match self.known.get(package) {
            Some((dialect, kinds)) => kinds.is_some() && (dialect.outcome)(name).is_some(),
            None => conftest::outcome(name).is_some(),
        }
    }

    /// Returns package and name of the entrypoint of a dialect with a single one: the rule with the dialect's name, or
    /// the only set, if the dialect accepts any rule whose value looks like results.
    fn single(&self) -> Option<[String; 2]> {
        let CompilePurpose::Single(dialect) = self.purpose else { return None };
        let single = dialect.single.as_ref()?;
        let is_set = |node: &&Node| {
            let own = node.package() == [single.package] && node.parameters.is_none();
            own && shape(&[node]) == ResultShape::Set
        };
        let sets = self.nodes.iter().filter(is_set);
        let names: BTreeSet<&str> = sets.filter_map(|node| node.path.get(1)).map(String::as_str).collect();
        let name = match names.first() {
            _ if !single.or_only_set || names.contains(single.name) => single.name,
            Some(only) if names.len() == 1 => only,
            _ => return None,
        };
        Some([single.package, name].map(str::to_owned))
    }

    /// Returns the policies, and the groups of rules that are evaluated together.
    pub(crate) fn policies(&self) -> (Vec<Policy>, Vec<Group>) {
        let mut policies = Vec::new();
        let mut groups: BTreeMap<Dialect, Group> = BTreeMap::new();
        for (package, paths) in self.entrypoints() {
            let known = self.known.get(&package);
            let dialect = match (self.purpose, known) {
                (CompilePurpose::Single(dialect), _) => dialect,
                (_, Some((dialect, _))) => *dialect,
                _ => dialects::find(&package, self.nodes, self.graph, &paths),
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
            let exception = exception.filter(|_| dialect.has_exceptions).map(|exception| {
                group.exceptions.push(exception);
                group.exceptions.len() - 1
            });
            let kinds = known.and_then(|(_, kinds)| kinds.clone()).unwrap_or_else(RuleKinds::all);
            let depends = Dependencies::of(self.graph, &paths);
            let entrypoint = |path| {
                let entrypoint = self.entrypoint(dialect, &package, path, (&policy_name, exception))?;
                Some(Entrypoint { transition: depends.transition, kinds: kinds.clone(), ..entrypoint })
            };
            let entrypoints = paths.iter().filter_map(entrypoint);
            let entrypoints: Vec<Entrypoint> = entrypoints.filter(|entrypoint| self.is_enabled(entrypoint)).collect();
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
    fn is_enabled(&self, Entrypoint { policy, rule, .. }: &Entrypoint) -> bool {
        match self.purpose {
            CompilePurpose::Directory(selection) => selection.takes(policy, &rule.name, &rule.metadata),
            _ => true,
        }
    }

    fn versions(&self, path: &Path) -> BTreeSet<Version> {
        let modules = self.packages.get(path).into_iter().flatten().map(|index| &self.modules[*index]);
        modules.map(|module| if module.is_v1() { Version::V1 } else { Version::V0 }).collect()
    }

    fn exception(&self, package: &Path, policy: &Arc<str>) -> Option<PackageException> {
        let path: Path = package.iter().cloned().chain(["exception".to_owned()]).collect();
        let node = self.graph.at(&path).find(|node| node.parameters.is_none())?;
        Some(PackageException { policy: Arc::clone(policy), source: self.source(node), path })
    }

    fn entrypoint(
        &self,
        dialect: Dialect,
        package: &Path,
        path: &Path,
        (policy, exception): (&Arc<str>, Option<usize>),
    ) -> Option<Entrypoint> {
        let name = path.last()?;
        let below = self.graph.covered(path).into_iter().filter(|below| below.starts_with(path));
        let mut nodes: Vec<&Node> =
            below.flat_map(|path| self.graph.at(path)).filter(|node| node.parameters.is_none()).collect();
        nodes.sort_by_key(|node| (node.module, node.rule));
        let enclosing = self.enclosing(package, name);
        let definition = |node: &&&Node| node.form != DefinitionForm::Default;
        let definitions: Vec<RuleDefinition> = nodes
            .iter()
            .filter(definition)
            .map(|node| RuleDefinition {
                at: location(node),
                source: self.source(node),
                metadata: Arc::new(self.metadata(&[node], &enclosing)),
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
            // The rule of a template, and a rule that Kubescape evaluates, may have any name.
            outcome: (dialect.outcome)(name).or(conftest::outcome(name)).unwrap_or(Outcome::Fail),
            metadata: Arc::new(self.metadata(&nodes, &enclosing)),
            source: self.source(first),
            texts: nodes.iter().map(text).collect(),
            excusable: Excusability::default(),
        };
        let described = definitions.iter().map(RuleDefinition::described);
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
            kinds: RuleKinds::all(),
        })
    }

    fn source(&self, node: &Node) -> Source {
        Source { file: Arc::clone(&self.files[node.module].shown), line: node.line }
    }

    /// Merges the annotations of definitions with those of the enclosing scopes, from the nearest to the widest.
    fn metadata(&self, nodes: &[&Node], enclosing: &RuleScopes) -> Metadata {
        let own = nodes.iter().find_map(|node| {
            let mine = |(scope, _): &&(AnnotationScope, Metadata)| *scope == AnnotationScope::Rule(node.rule);
            self.annotations[node.module].iter().find(mine).map(|(_, metadata)| metadata)
        });
        let metadata = [own, enclosing.document].into_iter().flatten();
        let metadata = metadata.fold(Metadata::default(), |metadata, wider| Metadata {
            entrypoint: metadata.entrypoint || wider.entrypoint,
            ..metadata.or(wider)
        });
        metadata.or(&enclosing.package)
    }

    /// Returns the annotations that enclose the definitions of a rule.
    fn enclosing(&self, package: &Path, name: &str) -> RuleScopes<'a> {
        let of_name =
            |scope: &AnnotationScope| matches!(scope, AnnotationScope::Document(document) if document == name);
        let document = self.in_package(package).find(|(scope, _)| of_name(scope));
        RuleScopes { document: document.map(|(_, metadata)| metadata), package: self.package_metadata(package) }
    }

    fn package_metadata(&self, package: &Path) -> Metadata {
        let own = self.in_package(package).filter(|(scope, _)| *scope == AnnotationScope::Package);
        let above = (1..=package.len()).rev().flat_map(|length| {
            self.in_package(&package[..length]).filter(|(scope, _)| *scope == AnnotationScope::Subpackages)
        });
        own.chain(above).fold(Metadata::default(), |metadata, (_, wider)| metadata.or(wider))
    }

    fn in_package(&self, path: &[String]) -> impl Iterator<Item = &'a (AnnotationScope, Metadata)> {
        self.packages.get(path).into_iter().flatten().flat_map(|index| &self.annotations[*index])
    }
}

/// The annotations that enclose the definitions of a rule.
struct RuleScopes<'a> {
    /// Annotations of all definitions with its name.
    document: Option<&'a Metadata>,
    /// Annotations of its package and of the packages above.
    package: Metadata,
}

/// Returns the type of value that the definitions of a rule produce together.
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

/// Returns the position of a definition in its unit.
fn location(node: &Node) -> SourceLocation {
    SourceLocation { module: node.module, at: Position { line: node.line, column: node.column } }
}

/// Finds which rules to evaluate for which kind, and the read set of each policy.
pub(crate) fn find_reads(rules: &UnitRules<'_>, policies: &mut [Policy], groups: &mut [Group]) {
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
        // All rules of a policy have one dialect.
        for index in entrypoints.get(&policy.name).into_iter().flatten().copied() {
            let Some(entrypoint) = group.entrypoints.get(index) else { continue };
            if !policy.depends.inventory {
                // The analysis treats constructs that it does not understand as reading everything.
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
    fn libraries_and_tests_have_no_entrypoints() {
        let can_have_entrypoints =
            |package: &str| can_have_entrypoints(&package.split('.').map(str::to_owned).collect());
        assert!(can_have_entrypoints("main") && can_have_entrypoints("library.a") && can_have_entrypoints("a_test.b"));
        assert!(
            !can_have_entrypoints("lib")
                && !can_have_entrypoints("lib.a")
                && !can_have_entrypoints("a.lib.b")
                && !can_have_entrypoints("main_test")
        );
    }
}
