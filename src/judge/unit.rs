//! A unit: modules that are evaluated together, and their entrypoint rules.

use std::{collections::BTreeSet, fmt, ops::BitOr, sync::Arc};

use regorus::{Value, value::Object};

use super::{
    dependencies::{Dependencies, INVENTORIES},
    dialect::Dialect,
    dialects::{
        gatekeeper::constraint::{BoundTemplate, Constraint},
        kubescape::{
            arrays::RuleArrays,
            rule::{KubescapeRule, RuleInput},
        },
    },
    inventory::Inventory,
    metadata::LookupNeed,
    reads::{InventoryReads, Projection, Queries, ReadTree, Reads},
    rule::{Entrypoint, PackageException},
};
use crate::rego::{
    Answer, Evaluator, Failure, File, RuleId,
    analysis::references::{Node, Path},
    value,
};

/// All rules of a unit with the same form of input. They are evaluated together: otherwise, rules that share helpers
/// would compute them repeatedly.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) dialect: Dialect,
    pub(crate) entrypoints: Vec<Entrypoint>,
    pub(crate) exceptions: Vec<PackageException>,
    /// The rules to evaluate for each kind.
    pub(crate) queries: Queries,
    /// The rule of the unit's program for each entrypoint and exception.
    pub(crate) compiled: Vec<RuleId>,
}

impl Group {
    /// Returns the number of entrypoints and exceptions.
    pub(crate) fn len(&self) -> usize {
        self.entrypoints.len() + self.exceptions.len()
    }

    /// Returns the paths of all entrypoints and exceptions.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let exceptions = self.exceptions.iter().map(|exception| &exception.path);
        self.entrypoints.iter().map(|entrypoint| &entrypoint.path).chain(exceptions).collect()
    }
}

/// The kind of a unit, which determines the objects that its rules are evaluated on, and the form of their input.
#[derive(Debug, Clone)]
pub(crate) enum UnitForm {
    /// Plain modules: the rules are evaluated on every object.
    Modules,
    /// A Gatekeeper template: its Constraints select the objects.
    Template(BoundTemplate),
    /// A rule in Kubescape's layout: `match` of its metadata selects the objects. The arrays are its input instead of
    /// single objects.
    Kubescape { rule: Arc<KubescapeRule>, arrays: Option<Arc<RuleArrays>> },
}

/// Modules that are evaluated together.
#[derive(Clone)]
pub(crate) struct Unit {
    /// The source files of the modules.
    pub(crate) files: Arc<[File]>,
    pub(crate) evaluator: Evaluator,
    pub(crate) groups: Vec<Group>,
    /// The kind of the unit.
    pub(crate) form: UnitForm,
    /// Whether its rules have lookups.
    looks_up: bool,
    /// The keys directly below the inventory's documents that rules define.
    defined: BTreeSet<(String, String)>,
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit").field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl Unit {
    /// Creates a unit of modules, which define the rules at these nodes; their program contains all rules of the
    /// groups.
    pub(crate) fn new(files: Vec<File>, mut groups: Vec<Group>, evaluator: Evaluator, nodes: &[Node]) -> Self {
        for group in &mut groups {
            let paths = group.paths();
            let compiled: Vec<_> = paths.iter().filter_map(|path| evaluator.rule(path)).collect();
            debug_assert_eq!(compiled.len(), paths.len(), "rules are found by their position");
            group.compiled = compiled;
        }
        let looks_up = groups.iter().any(|group| !group.queries.inventory().is_empty());
        let defined = defined(nodes);
        Self { files: files.into(), evaluator, groups, form: UnitForm::Modules, looks_up, defined }
    }

    /// Returns the lookups of a rule with this read set in its array of objects; `None` if its input is not an array.
    pub(crate) fn array_reads(&self, dialect: Dialect, reads: &Reads) -> Option<InventoryReads> {
        let rule = self.related()?;
        let whole_cluster = rule.input == RuleInput::Cluster;
        Some(InventoryReads::of_array(rule.matching.clone(), reads.object(dialect), whole_cluster))
    }

    /// Returns the unit with the objects of an inventory for lookups. Rules and data files take precedence over
    /// objects.
    pub(crate) fn with_inventory(&self, inventory: &Inventory) -> Self {
        let mut unit = self.with_objects(inventory);
        for group in &mut unit.groups {
            let dialect = group.dialect;
            let needs: Vec<LookupNeed> = group.entrypoints.iter().map(|one| one.rule.metadata.lookups()).collect();
            group.queries.find_unread(inventory.lookups(), &needs, |reads| self.array_reads(dialect, reads));
        }
        unit
    }

    fn with_objects(&self, inventory: &Inventory) -> Self {
        if !self.looks_up {
            return self.clone();
        }
        let own = self.evaluator.data();
        let mut data = Vec::new();
        for name in INVENTORIES {
            let mut document = inventory.document(name).clone();
            let before = &own[name];
            if !matches!(before, Value::Object(_) | Value::Undefined) {
                continue;
            }
            let Value::Object(objects) = &mut document else { continue };
            let objects = regorus::Rc::make_mut(objects);
            for (_, key) in self.defined.iter().filter(|(first, _)| first == name) {
                objects.remove(&Value::from(key.as_str()));
            }
            let given = value::object(before).into_iter().flat_map(Object::iter);
            objects.extend(given.map(|(key, given)| (key.clone(), given.clone())));
            data.push((Value::from(name), document));
        }
        Self { evaluator: self.evaluator.with_data(data), ..self.clone() }
    }

    /// Evaluates some rules of a group together; the indexes of exceptions follow those of entrypoints. The other rules
    /// have no value.
    pub(crate) fn rules(&self, group: &Group, wanted: &[usize], input: &Value) -> Result<Vec<Answer>, Failure> {
        let mut answers: Vec<Answer> = vec![Answer::from(Value::Undefined); group.len()];
        let own = self.evaluator.run(input, wanted.iter().map(|index| group.compiled[*index]))?;
        for (index, answer) in wanted.iter().zip(own) {
            answers[*index] = answer;
        }
        Ok(answers)
    }

    /// Evaluates one rule of a group.
    pub(crate) fn rule(&self, group: &Group, index: usize, input: &Value) -> Result<Answer, Failure> {
        self.rules(group, &[index], input).map(|mut answers| answers.swap_remove(index))
    }

    /// Whether its rules are evaluated on every object, rather than on those that Constraints match.
    pub(crate) fn evaluates_every_object(&self) -> bool {
        self.template().is_none() && !self.groups.is_empty()
    }

    /// Whether its rule relates objects of its array to each other. With `vectors`, each element consists of several
    /// objects, so the rule relates them and reads them completely.
    pub(crate) fn relates(&mut self, vectors: bool) -> bool {
        if vectors {
            self.groups.iter_mut().for_each(|group| group.queries.read_all());
        }
        self.groups.iter().any(|group| group.queries.relates)
    }

    /// Returns the read set of its rules in Kubescape's dialect.
    pub(crate) fn element_reads(&self) -> Projection {
        let mut read = ReadTree::default();
        for group in &self.groups {
            (0..group.entrypoints.len()).for_each(|rule| read.merge(&group.queries.reads(rule).object(group.dialect)));
        }
        Projection::new(read)
    }

    /// Whether it may apply to objects of a kind with this name.
    pub(crate) fn is_about(&self, kind: &str) -> bool {
        self.kubescape().is_none_or(|rule| rule.may_match(kind))
    }

    /// Returns the Constraints of its template; empty if it is not a template.
    pub(crate) fn constraints(&self) -> &[Constraint] {
        self.template().map_or(&[], |template| &template.constraints)
    }

    /// Returns the Gatekeeper template that it was compiled from.
    pub(crate) fn template(&self) -> Option<&BoundTemplate> {
        if let UnitForm::Template(template) = &self.form { Some(template) } else { None }
    }

    /// Returns the rule in Kubescape's layout that it was compiled from.
    pub(crate) fn kubescape(&self) -> Option<&KubescapeRule> {
        if let UnitForm::Kubescape { rule, .. } = &self.form { Some(rule) } else { None }
    }

    /// Returns the rule in Kubescape's layout that it was compiled from, if it relates objects to each other.
    pub(crate) fn related(&self) -> Option<&KubescapeRule> {
        self.kubescape().filter(|rule| rule.input != RuleInput::One)
    }

    /// Returns the arrays that are its rule's input; `None` before there is an inventory.
    pub(crate) fn arrays(&self) -> Option<&Arc<RuleArrays>> {
        if let UnitForm::Kubescape { arrays, .. } = &self.form { arrays.as_ref() } else { None }
    }

    /// Returns the dependencies of its rules' verdicts on objects of a kind, besides the object.
    pub(crate) fn dependencies(&self, kind: &str) -> Dependencies {
        if let Some(template) = self.template().filter(|template| template.expressions().is_some()) {
            return template.depends;
        }
        let of_group = |group: &Group| {
            let reads = group.queries.of(kind).into_iter().flat_map(|query| &query.reads);
            reads.map(|reads| reads.dependencies(group.dialect)).fold(Dependencies::default(), BitOr::bitor)
        };
        self.groups.iter().map(of_group).fold(Dependencies::default(), BitOr::bitor)
    }
}

/// Returns the keys directly below the inventory's documents that rules define: `admission` of `package
/// kubernetes.admission`.
fn defined(nodes: &[Node]) -> BTreeSet<(String, String)> {
    let in_document = |node: &&Node| node.path.first().is_some_and(|first| INVENTORIES.contains(&first.as_str()));
    let key = |node: &Node| Some((node.path.first()?.clone(), node.path.get(1)?.clone()));
    nodes.iter().filter(in_document).filter_map(key).collect()
}
