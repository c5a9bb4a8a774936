//! The rules to evaluate for each kind, and their read sets.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    documents::Reads,
    elements,
    inventory::InventoryReads,
    lookups::{LookupState, UnreadLookups},
    matches::Matches,
    possible::Possible,
    rules::UnitRules,
    tree::ReadTree,
    walk::{KindIs, RuleSummary, Walker},
};
use crate::{
    judge::{
        dialect::{Dialect, InputForm},
        metadata::LookupNeed,
        rule::{Entrypoint, ResultShape},
    },
    rego::analysis::references::Path,
};

/// The number of kinds that the rules of a unit may mention before they are no longer distinguished.
const KINDS: usize = 64;

/// The query for objects of one kind.
#[derive(Debug, Clone)]
pub(crate) struct KindQuery {
    /// The rules that can have a result, and the exceptions that can matter, by their index in the group.
    pub(crate) rules: Vec<usize>,
    /// The read set of each of them; mostly the same for several kinds.
    pub(crate) reads: Vec<Arc<Reads>>,
    /// The unavailable lookups of each of them; empty until these are known.
    unread: Vec<UnreadLookups>,
}

impl KindQuery {
    /// Returns the read set of a rule that is part of the query.
    fn of_rule(&self, rule: usize) -> Option<Arc<Reads>> {
        self.rules.binary_search(&rule).ok().map(|index| Arc::clone(&self.reads[index]))
    }

    /// Returns why a rule cannot be evaluated for an object in a namespace, or a cluster-scoped one (`None`); `None` if
    /// it can.
    pub(crate) fn unread(&self, rule: usize, namespace: Option<&str>) -> Option<String> {
        let index = self.rules.binary_search(&rule).ok()?;
        self.unread.get(index)?.reason(namespace)
    }

    /// Creates a query from the walks of the rules that apply to the kind.
    fn new<'w>(walked: impl Iterator<Item = Option<&'w WalkedRule>>) -> Self {
        let included = walked.enumerate().filter_map(|(index, walked)| Some((index, walked?)));
        let included = included.filter(|(_, walked)| walked.may_have_results);
        let (rules, reads) = included.map(|(index, walked)| (index, Arc::clone(&walked.reads))).unzip();
        Self { rules, reads, unread: Vec::new() }
    }

    /// Replaces each read set by that of the last other query with the rule, if they are equal, to save memory.
    fn deduplicate(&mut self, others: &[Self]) {
        for (rule, reads) in self.rules.iter().zip(&mut self.reads) {
            let same = others.iter().rev().find_map(|other| other.of_rule(*rule));
            if let Some(same) = same.filter(|same| !Arc::ptr_eq(same, reads) && same == reads) {
                *reads = same;
            }
        }
    }
}

/// The queries for all kinds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queries {
    /// The first one is for kinds that no rule mentions.
    all: Vec<KindQuery>,
    /// The index in `all`, by name of the kind.
    named: BTreeMap<Arc<str>, usize>,
    /// Whether, in Kubescape's dialect, a rule may relate elements of the input to each other.
    pub(crate) relates: bool,
}

impl Queries {
    /// Creates the queries of the entrypoints, followed by the exceptions, which are given by their paths.
    pub(crate) fn find(
        rules: &UnitRules<'_>,
        dialect: Dialect,
        entrypoints: &[Entrypoint],
        exceptions: &[&Path],
    ) -> Self {
        let mut walker = Walker::new(rules, dialect);
        let mut found = Self {
            relates: dialect.input == InputForm::Array
                && entrypoints.iter().any(|entrypoint| elements::relates(rules, &entrypoint.path)),
            ..Self::default()
        };
        if found.relates {
            // The elements may be of any kinds.
            walker.set_kind(KindIs::Unknown);
        }
        let shapes = entrypoints.iter().map(|entrypoint| (&entrypoint.path, Some(entrypoint.shape)));
        let shapes: Vec<_> = shapes.chain(exceptions.iter().map(|path| (*path, None))).collect();
        // Rules are walked once for kinds that no policy mentions, and again for those that they compare the kind with.
        let other = walk_each(&mut walker, WalkedKind::Other, &shapes, entrypoints, &[]);
        let other: Vec<Option<WalkedRule>> = other.into_iter().map(|one| one.map(Cow::into_owned)).collect();
        found.all.push(KindQuery::new(other.iter().map(Option::as_ref)));
        let compared = other.iter().flatten().flat_map(|walked| &walked.compared);
        let known = entrypoints.iter().flat_map(|rule| rule.kinds.known());
        let named: BTreeSet<Arc<str>> = compared.chain(known).cloned().collect();
        let kinds: Vec<WalkedKind<'_>> = if named.len() > KINDS {
            found.all.clear();
            vec![WalkedKind::Any]
        } else {
            named.iter().map(WalkedKind::Named).collect()
        };
        for kind in kinds {
            walker.set_kind(kind.assumed());
            let each = walk_each(&mut walker, kind, &shapes, entrypoints, &other);
            let mut query = KindQuery::new(each.iter().map(Option::as_deref));
            query.deduplicate(&found.all);
            if let WalkedKind::Named(kind) = kind {
                found.named.insert(Arc::clone(kind), found.all.len());
            }
            found.all.push(query);
        }
        found
    }

    /// Marks everything as read, for all kinds, and the elements of the input as related.
    pub(crate) fn read_all(&mut self) {
        self.relates = true;
        self.named.clear();
        self.all.truncate(1);
        if let Some(query) = self.all.first_mut() {
            query.rules = vec![0];
            let mut reads = Reads::default();
            reads.insert(&["input".into()], true);
            query.reads = vec![Arc::new(reads)];
        }
    }

    /// Finds the unavailable lookups of rules, except for those that only need them optionally; `more` returns additional
    /// lookups of a rule with a given read set.
    pub(crate) fn find_unread(
        &mut self,
        lookups: &LookupState,
        needs: &[LookupNeed],
        more: impl Fn(&Reads) -> Option<InventoryReads>,
    ) {
        for query in &mut self.all {
            let unread = |(rule, reads): (&usize, &Arc<Reads>)| {
                if needs.get(*rule) == Some(&LookupNeed::Optional) {
                    return UnreadLookups::default();
                }
                let mut looked_up = reads.inventory();
                if let Some(more) = more(reads) {
                    looked_up.merge(&more);
                }
                lookups.unread(&looked_up)
            };
            query.unread = query.rules.iter().zip(&query.reads).map(unread).collect();
        }
    }

    /// Marks a rule as one without lookups, overriding the analysis.
    pub(crate) fn forget_lookups(&mut self, rule: usize) {
        for query in &mut self.all {
            if let Ok(index) = query.rules.binary_search(&rule)
                && query.reads[index].look_up()
            {
                Arc::make_mut(&mut query.reads[index]).forget_lookups();
            }
        }
    }

    /// Returns the query for a kind.
    pub(crate) fn of(&self, kind: &str) -> Option<&KindQuery> {
        self.all.get(self.named.get(kind).copied().unwrap_or(0))
    }

    /// Returns the lookups for all kinds.
    pub(crate) fn inventory(&self) -> InventoryReads {
        let mut all = InventoryReads::default();
        for reads in self.all.iter().flat_map(|query| &query.reads) {
            all.merge(&reads.inventory());
        }
        all
    }

    /// Returns the read set of the objects' Namespaces, for all kinds.
    pub(crate) fn namespace(&self, dialect: Dialect) -> ReadTree {
        let mut all = ReadTree::default();
        for reads in self.all.iter().flat_map(|query| &query.reads) {
            all.merge(&reads.namespace(dialect));
        }
        all
    }

    /// Returns the names of the kinds that the rules distinguish.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<str>> {
        self.named.keys()
    }

    /// Returns the kinds that a rule can have results for.
    pub(crate) fn matches(&self, index: usize) -> Matches {
        let includes = |query: &KindQuery| query.rules.contains(&index);
        if self.all.first().is_none_or(includes) {
            return Matches::All;
        }
        let named = self.named.iter().filter(|(_, query)| includes(&self.all[**query]));
        Matches::Kinds(named.map(|(kind, _)| Arc::clone(kind)).collect())
    }

    /// Returns the read set of a rule for objects of any kind.
    pub(crate) fn reads(&self, index: usize) -> Reads {
        let of_rule = |query: &KindQuery| query.of_rule(index);
        let mut distinct: Vec<Arc<Reads>> = self.all.iter().filter_map(of_rule).collect();
        distinct.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let mut all = Reads::default();
        for reads in &distinct {
            all.merge(reads);
        }
        all
    }
}

/// A kind to walk rules for, as far as it matters to whether they apply.
#[derive(Clone, Copy)]
enum WalkedKind<'k> {
    Named(&'k Arc<str>),
    /// A kind that no rule mentions.
    Other,
    Any,
}

impl WalkedKind<'_> {
    fn concerns(self, rule: &Entrypoint) -> bool {
        match self {
            Self::Named(kind) => rule.kinds.contain(kind),
            Self::Other => rule.kinds.are_open(),
            Self::Any => true,
        }
    }

    /// Returns the assumption about the kind.
    fn assumed(self) -> KindIs {
        match self {
            Self::Named(kind) => KindIs::Named(Arc::clone(kind)),
            Self::Other => KindIs::Other,
            Self::Any => KindIs::Unknown,
        }
    }
}

/// The result of walking one rule.
#[derive(Clone)]
struct WalkedRule {
    may_have_results: bool,
    reads: Arc<Reads>,
    /// The kinds that it compares the object's kind with.
    compared: BTreeSet<Arc<str>>,
}

impl WalkedRule {
    /// Walks a rule for the walker's kind; a rule without a shape is an exception.
    fn walk(walker: &mut Walker<'_>, (path, shape): (&Path, Option<ResultShape>)) -> Self {
        let RuleSummary { value, reads, may_fail, compared, .. } = walker.entrypoint(path, shape.is_some());
        let may_have_results = if walker.dialect.any_value_is_result { may_have_any } else { may_have_results };
        Self { may_have_results: may_fail || may_have_results(&value, shape), reads: Arc::new(reads), compared }
    }

    /// Whether the walk for kinds that no policy mentions is also valid for this kind.
    fn holds_for(&self, kind: WalkedKind<'_>) -> bool {
        matches!(kind, WalkedKind::Named(kind) if !self.compared.contains(kind))
    }
}

/// Walks the rules that apply to a kind, except for those whose walk for `other` kinds is also valid for it. Rules
/// without a shape are exceptions, which follow the entrypoints.
fn walk_each<'o>(
    walker: &mut Walker<'_>,
    kind: WalkedKind<'_>,
    shapes: &[(&Path, Option<ResultShape>)],
    entrypoints: &[Entrypoint],
    other: &'o [Option<WalkedRule>],
) -> Vec<Option<Cow<'o, WalkedRule>>> {
    let mut walk = |(index, shape): (usize, &(&Path, Option<ResultShape>))| {
        if entrypoints.get(index).is_some_and(|rule| !kind.concerns(rule)) {
            return None;
        }
        let known = other.get(index).and_then(Option::as_ref).filter(|known| known.holds_for(kind));
        Some(known.map_or_else(|| Cow::Owned(WalkedRule::walk(walker, *shape)), Cow::Borrowed))
    };
    shapes.iter().enumerate().map(&mut walk).collect()
}

/// Whether a value can contain a result in dialects in which every value except an empty set is one.
fn may_have_any(value: &Possible, _: Option<ResultShape>) -> bool {
    let is_empty = value.only_members().is_some_and(Possible::is_nothing);
    !value.is_nothing() && !is_empty
}

/// Whether a value can contain a result, as `findings` reads values; an exception (without a shape) has none if it is
/// undefined.
fn may_have_results(value: &Possible, shape: Option<ResultShape>) -> bool {
    let empty = |part: &Option<Box<Possible>>| part.as_ref().is_none_or(|part| part.is_nothing());
    let no_fields =
        value.fields.as_ref().is_none_or(|fields| fields.is_empty() && shape != Some(ResultShape::Complete));
    let silent = value.is_false() || (!value.other && value.scalars.is_empty() && empty(&value.items) && no_fields);
    !(silent && empty(&value.members) && value.places.is_empty() && value.names.is_empty())
}
