//! Reads the CRDs among the policy files.

use std::{collections::BTreeMap, sync::Arc};

use kaudit_cel::CelSchema;

use super::{
    DIALECT,
    defaults::SchemaDefaults,
    document::CrdLibrary,
    rules::{RuleCompiler, RuleNode},
};
use crate::{
    judge::{
        metadata::Metadata,
        policy::Policy,
        policy_annotations,
        policy_document::{PolicyDocument, distinct},
        reads::{Matches, Projection, ReadTree},
        rule::Rule,
        unjudged::Unjudged,
    },
    rego::{Problem, analysis::yaml::YamlNode},
};

/// A kind of custom resources, with the rules of its CRD.
#[derive(Debug)]
pub(crate) struct CustomKind {
    /// The name of the CRD, which is that of the policy.
    pub(crate) name: Arc<str>,
    pub(crate) group: String,
    pub(crate) kind: Arc<str>,
    pub(crate) plural: String,
    /// The served versions, by name.
    pub(super) versions: BTreeMap<String, ServedVersion>,
    /// The rules of all versions, sorted by name.
    pub(crate) rules: Vec<Rule>,
    /// The fields of objects that rules read, in any version.
    pub(crate) reads: ReadTree,
}

/// A version in which objects are served.
#[derive(Debug)]
pub(super) struct ServedVersion {
    pub(super) defaults: Option<SchemaDefaults>,
    /// `None` if its schema has no rules.
    pub(super) root: Option<RuleNode>,
}

/// The compiled rules of CRDs.
#[derive(Default)]
pub(crate) struct LoadedCustomKinds {
    pub(crate) kinds: Vec<CustomKind>,
    /// One for each kind, in the same order.
    pub(crate) policies: Vec<Policy>,
    pub(crate) left_out: Vec<Unjudged>,
}

/// Compiles the rules of CRDs. Those for which `takes` returns `false` are not used; it gets the policy, the name of the rule
/// and its metadata.
pub(crate) fn load(
    library: CrdLibrary<'_>,
    takes: impl Fn(&Arc<str>, &Arc<str>, &Metadata) -> bool,
    problems: &mut Vec<Problem>,
) -> LoadedCustomKinds {
    let mut loaded = LoadedCustomKinds { left_out: library.left_out, ..LoadedCustomKinds::default() };
    for document in distinct(library.documents, problems) {
        loaded.crd(&document, &takes, problems);
    }
    loaded.left_out.sort();
    loaded
}

impl LoadedCustomKinds {
    fn crd(
        &mut self,
        document: &PolicyDocument<'_>,
        takes: &impl Fn(&Arc<str>, &Arc<str>, &Metadata) -> bool,
        problems: &mut Vec<Problem>,
    ) {
        let before = problems.len();
        let metadata = policy_annotations::read(document, problems);
        let policy: Arc<str> = document.name().into();
        let mut compiler = RuleCompiler {
            document,
            policy: Arc::clone(&policy),
            metadata: metadata.clone(),
            problems,
            rules: BTreeMap::new(),
            left_out: BTreeMap::new(),
        };
        let mut versions: BTreeMap<String, ServedVersion> = BTreeMap::new();
        for node in document.node.at(&["spec", "versions"]).items() {
            if let Some(name) = node.get("name").text().filter(|_| node.get("served").is_true()) {
                versions.insert(name.to_owned(), version(&mut compiler, node.at(&["schema", "openAPIV3Schema"])));
            }
        }
        let RuleCompiler { rules, left_out, .. } = compiler;
        if problems[before..].iter().any(Problem::is_refusal) {
            return;
        }
        self.left_out.extend(left_out.into_values());
        let rules: Vec<Rule> = rules.into_values().filter(|rule| takes(&policy, &rule.name, &rule.metadata)).collect();
        if rules.is_empty() {
            return;
        }
        let is_taken = |rule: &Rule| rules.iter().any(|taken| taken.number == rule.number);
        let mut reads = ReadTree::default();
        for root in versions.values_mut().filter_map(|version| version.root.as_mut()) {
            root.retain(&is_taken);
            root.add_reads(&mut reads, &mut Vec::new());
        }
        let text = |path: &[&str]| document.node.at(path).text().unwrap_or_default();
        let kind: Arc<str> = text(&["spec", "names", "kind"]).into();
        self.policies.push(Policy {
            matches: Matches::Kinds([Arc::clone(&kind)].into()),
            reads: Projection::new(reads.clone()),
            ..Policy::of_object(&policy, DIALECT, document.source(), metadata, rules.clone())
        });
        let (group, plural) = (text(&["spec", "group"]).to_owned(), text(&["spec", "names", "plural"]).to_owned());
        self.kinds.push(CustomKind { name: policy, group, kind, plural, versions, rules, reads });
    }
}

fn version(compiler: &mut RuleCompiler<'_, '_>, node: &YamlNode) -> ServedVersion {
    let json = node.json();
    let root = compiler.version(node, &CelSchema::new(&json, true));
    ServedVersion { defaults: SchemaDefaults::read(&json), root }
}
