//! Determines which rules are shareable, for each kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::judge::{
    dialect::{Dialect, InputForm},
    dialects::gatekeeper::Config,
    reads::{Projection, ReadTree, Reads, Segment, SharingFields},
    unit::{Group, Unit},
    unit_selection::UnitSelection,
};

/// Scalar fields that differ between replicas.
const SCALARS: [&[&str]; 6] = [
    &["metadata", "name"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["spec", "nodeName"],
];
/// Fields with parts that differ between replicas.
const PARTS: [&[&str]; 2] = [&["metadata", "managedFields"], &["status"]];
/// The names of token volumes, which differ from Pod to Pod: rules may read them, but not inspect them.
const OF_PODS: [&[&str]; 4] = [
    &["spec", "volumes", "*", "name"],
    &["spec", "containers", "*", "volumeMounts", "*", "name"],
    &["spec", "initContainers", "*", "volumeMounts", "*", "name"],
    &["spec", "ephemeralContainers", "*", "volumeMounts", "*", "name"],
];

/// The required number of shareable rules for each other rule: an evaluation in two parts costs more than one.
const SHAREABLE: usize = 2;

/// The plan for sharing results between objects of one kind.
#[derive(Debug)]
pub(crate) struct SharingPlan {
    /// The fields that the shareable rules read, which determine the sharing key.
    pub(crate) fields: SharingFields,
    /// The fields that all rules read, with the names.
    pub(crate) parts: Projection,
    /// Whether there are rules that are not shareable.
    pub(crate) has_rest: bool,
    /// Rules that do not apply to the kind count as shareable.
    units: Vec<UnitSelection>,
}

impl SharingPlan {
    /// Returns the shareable rules of a unit, by its index.
    pub(crate) fn unit(&self, unit: usize) -> &UnitSelection {
        &self.units[unit]
    }
}

/// The plans by kind.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    named: BTreeMap<Arc<str>, Option<SharingPlan>>,
    other: Option<SharingPlan>,
}

impl Plans {
    /// Creates the plans for each kind that the policies mention; `names_tokens` is whether the policies may refer to
    /// token volumes.
    pub(crate) fn new<'k>(
        units: &[Unit],
        config: &Config,
        kinds: impl Iterator<Item = &'k Arc<str>>,
        names_tokens: bool,
    ) -> Self {
        let plan = |kind: &str| plan(units, config, kind, kind == "Pod" && !names_tokens);
        let kinds: BTreeSet<Arc<str>> = kinds.cloned().chain(["Pod", "Namespace"].map(Arc::from)).collect();
        let named = kinds.into_iter().map(|kind| (Arc::clone(&kind), plan(&kind))).collect();
        // No kind has an empty name.
        Self { named, other: plan("") }
    }

    /// Returns the plan for objects of a kind.
    pub(crate) fn of(&self, kind: &str) -> Option<&SharingPlan> {
        self.named.get(kind).unwrap_or(&self.other).as_ref()
    }
}

/// Creates the plan for objects of a kind; `None` if sharing is not worthwhile.
fn plan(units: &[Unit], config: &Config, kind: &str, token: bool) -> Option<SharingPlan> {
    let mut planner =
        SharingPlanner { kind, token, fields: ReadTree::default(), parts: ReadTree::default(), counts: [0; 2] };
    let units: Vec<UnitSelection> = units
        .iter()
        .map(|unit| {
            if unit.evaluates_every_object() {
                let applies = unit.is_about(kind);
                let groups = unit.groups.iter();
                let groups = groups.map(|group| if applies { planner.group(group) } else { vec![true; group.len()] });
                let groups = groups.collect();
                UnitSelection { groups, ..UnitSelection::default() }
            } else {
                UnitSelection { constraints: planner.constraints(unit, config), ..UnitSelection::default() }
            }
        })
        .collect();
    let SharingPlanner { fields, parts, counts: [shareable, others], .. } = planner;
    let pays = shareable > 0 && shareable >= SHAREABLE * others;
    pays.then(|| SharingPlan {
        fields: SharingFields::new(fields, token),
        parts: Projection::new(parts),
        has_rest: others > 0,
        units,
    })
}

/// Collects the read sets for objects of a kind.
struct SharingPlanner<'k> {
    kind: &'k str,
    /// Whether the name of the token volume is replaced by a placeholder.
    token: bool,
    fields: ReadTree,
    parts: ReadTree,
    /// The number of applicable rules: shareable ones and others.
    counts: [usize; 2],
}

impl SharingPlanner<'_> {
    /// Returns which rules of a group are shareable.
    fn group(&mut self, group: &Group) -> Vec<bool> {
        let mut shareable = vec![true; group.len()];
        let Some(query) = group.queries.of(self.kind) else { return shareable };
        for (rule, reads) in query.rules.iter().zip(&query.reads) {
            shareable[*rule] = self.is_shareable(reads, group.dialect);
        }
        for (rule, entrypoint) in group.entrypoints.iter().enumerate() {
            if let Some((exception, _)) = entrypoint.exception {
                shareable[rule] &= shareable[group.entrypoints.len() + exception];
            }
        }
        let others = shareable.iter().any(|shareable| !shareable);
        for (rule, reads) in query.rules.iter().zip(&query.reads) {
            self.counts[usize::from(!shareable[*rule])] += 1;
            if shareable[*rule] {
                self.share(reads, group.dialect);
            }
            // Exceptions are evaluated together with all rules that they may apply to.
            if !shareable[*rule] || others && *rule >= group.entrypoints.len() {
                self.leave(reads, group.dialect);
            }
        }
        shareable
    }

    /// Returns which Constraints of a template are shareable.
    fn constraints(&mut self, unit: &Unit, config: &Config) -> Vec<bool> {
        let Some(group) = unit.groups.first() else { return self.expressions(unit, config) };
        let query = group.queries.of(self.kind);
        let reads = query.into_iter().flat_map(|query| query.rules.iter().zip(query.reads.iter().map(AsRef::as_ref)));
        let reads: Vec<(&usize, &Reads)> = reads.collect();
        let all = reads.iter().all(|(_, reads)| self.is_shareable(reads, group.dialect));
        let constraints = unit.constraints().iter().map(|constraint| {
            let matching = &constraint.matching;
            if matching.kind_names().is_some_and(|names| !names.contains(&self.kind)) {
                return true;
            }
            let mut paths = matching.reads();
            // A Namespace counts as being in itself; for other kinds, these paths do not include the name.
            if !matching.reads_name() && self.kind != "Namespace" {
                paths.retain(|path| *path != ["metadata", "name"]);
            }
            if !config.is_empty() {
                paths.push(["metadata", if self.kind == "Namespace" { "name" } else { "namespace" }]);
            }
            let shareable = all && !matching.needs_namespace() && !paths.contains(&["metadata", "name"]);
            for (_, reads) in &reads {
                if shareable { self.share(reads, group.dialect) } else { self.leave(reads, group.dialect) }
            }
            let fields = shareable.then_some(&mut self.fields);
            for tree in fields.into_iter().chain([&mut self.parts]) {
                for path in &paths {
                    tree.insert(&path.map(Segment::from), true);
                }
            }
            self.counts[usize::from(!shareable)] += 1;
            shareable
        });
        constraints.collect()
    }

    /// Returns which Constraints of a template whose code is CEL are shareable: none that may apply to the kind.
    fn expressions(&mut self, unit: &Unit, config: &Config) -> Vec<bool> {
        let constraints = unit.constraints().iter().map(|constraint| {
            let applies = constraint.matching.kind_names().is_none_or(|names| names.contains(&self.kind));
            if applies {
                self.counts[1] += 1;
                // Only matching reads these parts; expressions read the object itself.
                let mut paths = constraint.matching.reads();
                if !config.is_empty() {
                    paths.push(["metadata", if self.kind == "Namespace" { "name" } else { "namespace" }]);
                }
                for path in &paths {
                    self.parts.insert(&path.map(Segment::from), true);
                }
            }
            !applies
        });
        constraints.collect()
    }

    fn share(&mut self, reads: &Reads, dialect: Dialect) {
        self.fields.merge(&reads.unprinted(dialect));
        self.parts.merge(&reads.object(dialect));
    }

    fn leave(&mut self, reads: &Reads, dialect: Dialect) {
        self.parts.merge(&reads.object(dialect));
    }

    /// Whether a rule probably reads the same values in all replicas of the kind, and depends only on the object.
    /// Transitions are not shared, and without one the operation is constant.
    fn is_shareable(&self, reads: &Reads, dialect: Dialect) -> bool {
        // Values of elements that are printed are not traced back to their object.
        if dialect.input == InputForm::Array {
            return false;
        }
        let (object, inspected) = (reads.unprinted(dialect), reads.inspected(dialect));
        let place = |path: &&[&str]| -> Vec<Segment> {
            path.iter().map(|key| if *key == "*" { Segment::Any } else { Segment::from(*key) }).collect()
        };
        let named = if self.token { &inspected } else { &object };
        let differs = SCALARS.iter().any(|path| object.covers_scalar(&place(path)))
            || PARTS.iter().any(|path| object.covers(&place(path)))
            || self.kind == "Pod" && OF_PODS.iter().any(|path| named.covers_scalar(&place(path)));
        !differs && reads.dependencies(dialect).is_object_alone()
    }
}
