//! Walks rules, bodies and statements in the order of evaluation with [`Possible`] values (abstract interpretation). As
//! in the planner, unbound variables are bound, and everything else is compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    documents::Reads,
    exclusive::are_exclusive,
    frame::{Site, WalkFrame},
    outcome::{Certainty, Definitions, Solutions, certain},
    possible::Possible,
    rules::UnitRules,
};
use crate::{
    judge::dialect::{Dialect, InputForm},
    rego::analysis::{
        references::Path,
        resolved::{ResolvedEvery, ResolvedResult, ResolvedRule, ResolvedStatement, ResolvedStatementKind},
        visit,
    },
};

/// The number of terms and patterns to walk, over all kinds, before the rest counts as reading everything.
const STEPS: usize = 1_000_000;
/// The maximum nesting of terms and bodies, across rules and functions.
const DEPTH: usize = 120;
/// The number of argument lists that one function is walked with; arguments of further calls count as read completely.
const CONTEXTS: usize = 100;
/// The maximum size of a variable's possible values; larger ones count as read completely.
pub(super) const SIZE: usize = 200;

/// The assumption about the object's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KindIs {
    /// A kind that no policy mentions.
    Other,
    Named(Arc<str>),
    /// No assumption.
    Unknown,
}

/// The result of a rule or function.
#[derive(Debug, Default)]
pub(super) struct RuleSummary {
    pub(super) value: Possible,
    pub(super) reads: Reads,
    /// Whether it may fail with an error.
    pub(super) may_fail: bool,
    /// Whether it depends on the kind.
    pub(super) depends_on_kind: bool,
    /// Strings that the kind was compared with, for kinds that no policy mentions: it depends on nothing else of the
    /// kind.
    pub(super) compared: BTreeSet<Arc<str>>,
    /// Positions where values may conflict during its evaluation.
    conflicts: BTreeSet<Site>,
    /// Whether its own values may conflict.
    conflict: bool,
}

/// Walks rules for one dialect and one kind.
pub(super) struct Walker<'a> {
    pub(super) rules: &'a UnitRules<'a>,
    pub(super) dialect: Dialect,
    pub(super) kind: KindIs,
    pub(super) frame: WalkFrame<'a>,
    memo: BTreeMap<(Path, Option<Vec<Possible>>), Arc<RuleSummary>>,
    contexts: BTreeMap<Path, usize>,
    /// Whether at most one definition of a rule has a value.
    exclusive: BTreeMap<Path, bool>,
    stack: Vec<Path>,
    steps: usize,
    depth: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn new(rules: &'a UnitRules<'a>, dialect: Dialect) -> Self {
        Self {
            rules,
            dialect,
            kind: KindIs::Other,
            frame: WalkFrame::default(),
            memo: BTreeMap::new(),
            contexts: BTreeMap::new(),
            exclusive: BTreeMap::new(),
            stack: Vec::new(),
            steps: 0,
            depth: 0,
        }
    }

    /// Continues with another kind; summaries that do not depend on the kind are kept.
    pub(super) fn set_kind(&mut self, kind: KindIs) {
        self.kind = kind;
        self.memo.retain(|_, summary| !summary.depends_on_kind);
        self.contexts.clear();
    }

    /// Walks the rule at a path below `data`, and all rules below that path; `results` is whether its value is used as
    /// results.
    pub(super) fn entrypoint(&mut self, path: &Path, results: bool) -> RuleSummary {
        self.frame = WalkFrame::default();
        let value = self.data(path).0;
        let value = if results {
            self.results(&value);
            value.without_places()
        } else {
            self.whole(value)
        };
        let WalkFrame { reads, may_fail, depends_on_kind, compared, .. } = std::mem::take(&mut self.frame);
        RuleSummary { value, reads, may_fail, depends_on_kind, compared, ..RuleSummary::default() }
    }

    /// Marks everything as read, for constructs that the analysis does not understand.
    pub(super) fn unsure(&mut self) -> Possible {
        self.frame.reads.unsure();
        self.frame.may_fail = true;
        Possible::other()
    }

    /// Counts a term or pattern; `false` beyond [`STEPS`] or [`DEPTH`].
    pub(super) fn enter(&mut self) -> bool {
        self.steps += 1;
        self.depth += 1;
        self.steps < STEPS && self.depth < DEPTH
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    // Rules

    /// Returns the value of the rule (without arguments) or function at a path, and adds its reads to those of the
    /// caller. `site` is the call of a function.
    pub(super) fn call(&mut self, path: &[String], arguments: Option<Vec<Possible>>, site: Option<Site>) -> Possible {
        let mut key = (path.to_vec(), arguments);
        if let Some(arguments) = &mut key.1
            && !self.memo.contains_key(&(path.to_vec(), Some(arguments.clone())))
        {
            let contexts = self.contexts.entry(path.to_vec()).or_default();
            *contexts += 1;
            if *contexts > CONTEXTS {
                for argument in arguments.iter_mut() {
                    drop(self.whole(std::mem::take(argument)));
                    *argument = Possible::other();
                }
            }
        }
        let summary = match self.memo.get(&key) {
            Some(summary) => Arc::clone(summary),
            // Recursion is refused at load, but the walk must terminate as well.
            None if self.stack.contains(&key.0) => return self.unsure(),
            None => {
                self.stack.push(key.0.clone());
                let caller = std::mem::take(&mut self.frame);
                let summary = Arc::new(self.summary(&key.0, key.1.as_deref()));
                self.frame = caller;
                self.stack.pop();
                self.memo.insert(key, Arc::clone(&summary));
                summary
            }
        };
        // The memo keeps the summary alive, so no other one has the same address.
        if self.frame.merged.insert(Arc::as_ptr(&summary).addr()) {
            self.frame.reads.merge(&summary.reads);
            self.frame.conflicts.extend(&summary.conflicts);
            self.frame.compared.extend(summary.compared.iter().cloned());
        }
        self.frame.may_fail |= summary.may_fail;
        self.frame.depends_on_kind |= summary.depends_on_kind;
        if summary.conflict {
            // A rule may have references at several positions.
            let sites = site.map_or([0, 1], |site| [site, site]);
            self.frame.conflicts.extend(sites);
        }
        summary.value.clone()
    }

    fn summary(&mut self, path: &Path, arguments: Option<&[Possible]>) -> RuleSummary {
        let all = self.rules;
        let definitions = all.at(path).iter().filter(|rule| rule.is_function() == arguments.is_some());
        let mut summary = RuleSummary::default();
        let mut found = Definitions::default();
        for rule in definitions {
            self.frame = WalkFrame::default();
            self.definition(rule, path.len(), arguments, &mut found);
            let frame = std::mem::take(&mut self.frame);
            summary.reads.merge(&frame.reads);
            summary.may_fail |= frame.may_fail;
            summary.depends_on_kind |= frame.depends_on_kind;
            summary.compared.extend(frame.compared);
            summary.conflicts.extend(frame.conflicts);
        }
        let Definitions { mut value, complete, elements, several, sure } = found;
        let exclusive = complete.max(elements) < 2
            || *self.exclusive.entry(path.clone()).or_insert_with(|| are_exclusive(all, all.at(path)));
        value.several &= several || !exclusive;
        // Several values of a rule are compared with each other: two different ones are an error.
        let conflict = complete > 0 && (several || !exclusive) && !(value.is_scalar() && value.scalars.len() < 2);
        value.sure |= sure;
        if conflict || value.size(SIZE) > SIZE {
            value.all_places().into_iter().for_each(|place| summary.reads.insert(place, true));
            value = value.without_places();
        }
        summary.value = if value.size(SIZE) > SIZE { Possible::other() } else { value };
        summary.may_fail |= conflict;
        summary.conflict = conflict;
        summary
    }

    /// Walks a definition of the rule whose path has `length` keys.
    fn definition(
        &mut self,
        rule: &'a ResolvedRule,
        length: usize,
        arguments: Option<&[Possible]>,
        found: &mut Definitions,
    ) {
        let (mut outcome, mut value) = (Certainty::No, Possible::default());
        for branch in rule.chain() {
            let solutions = self.branch(branch, length, arguments);
            found.several |= solutions.are_several();
            value.join(solutions.value);
            outcome = outcome.max(solutions.outcome);
            // `else` is evaluated only if the branches before it failed.
            if outcome == Certainty::Yes {
                break;
            }
        }
        if rule.default {
            found.value.join(value);
            found.sure = true;
        } else {
            found.add(rule, length, (outcome, value));
        }
    }

    /// Walks one branch of a definition; returns its contribution to the rule.
    fn branch(&mut self, rule: &'a ResolvedRule, length: usize, arguments: Option<&[Possible]>) -> Solutions {
        let mut matched = Certainty::Yes;
        for (parameter, argument) in rule.parameters.iter().flatten().zip(arguments.unwrap_or_default()) {
            matched = matched.min(self.bind(parameter, argument.clone()));
        }
        let mut solutions = Solutions::default();
        if matched != Certainty::No {
            self.frame.loops.clear();
            self.frame.adds = matches!(rule.result, ResolvedResult::Element(_)) && !self.rules.strict;
            solutions = self.solve(&rule.body, |walker| walker.head(rule, length));
            self.frame.adds = false;
        }
        self.frame.truncate(0);
        // The first of two errors depends on the order of the elements.
        let apart = std::mem::take(&mut self.frame.apart);
        if self.frame.conflicts.len() > 1 {
            for place in &apart {
                self.see(place, true);
            }
        }
        // If the value is undefined, so is the branch.
        let Solutions { outcome, value, .. } = &mut solutions;
        *outcome =
            if value.is_nothing() { Certainty::No } else { matched.min(*outcome).min(Certainty::of(value.sure)) };
        solutions
    }

    /// Returns the contribution of one definition to its rule: a value, a set of one element, or an object of one
    /// field.
    fn head(&mut self, rule: &'a ResolvedRule, length: usize) -> Possible {
        let (ResolvedResult::Value(term) | ResolvedResult::Element(term)) = &rule.result;
        let is_element = matches!(rule.result, ResolvedResult::Element(_));
        let given = self.term(term);
        let keys = &rule.path[length..];
        for key in keys {
            let key = self.term(key);
            self.whole(key);
        }
        if given.is_nothing() {
            return given;
        }
        if !keys.is_empty() {
            // An object with values at unknown keys.
            let item = self.whole(given);
            let item = if is_element { Possible::set(item, true) } else { item };
            let items = Some(Box::new(item));
            return Possible { fields: Some(BTreeMap::new()), items, other: true, ..Possible::default() };
        }
        if !is_element {
            return given;
        }
        let element = if self.is_response() { self.response(given) } else { given };
        // The comparison of its elements with each other is accounted for by [`Walker::as_used`] for readers of the
        // set, and by [`Walker::results`] for results.
        Possible::set(element, true)
    }

    /// Whether the current rule produces results in Kubescape's dialect.
    fn is_response(&self) -> bool {
        self.dialect.input == InputForm::Array && self.stack.len() == 1
    }

    // Bodies

    /// Walks a body nested in another one, then the term for each of its solutions.
    pub(super) fn inner(
        &mut self,
        body: &'a [ResolvedStatement],
        term: impl FnOnce(&mut Self) -> Possible,
    ) -> Solutions {
        let adds = std::mem::take(&mut self.frame.adds);
        let loops = std::mem::take(&mut self.frame.loops);
        let solutions = self.solve(body, term);
        self.frame.adds = adds;
        self.frame.loops = loops;
        solutions
    }

    /// Walks a body, then the term for each of its solutions.
    fn solve(&mut self, body: &'a [ResolvedStatement], term: impl FnOnce(&mut Self) -> Possible) -> Solutions {
        let count = self.frame.count();
        let may_fail = std::mem::take(&mut self.frame.may_fail);
        if !self.enter() {
            self.unsure();
        }
        let outcome = self.statements(body);
        let value = if outcome == Certainty::No { Possible::default() } else { term(self) };
        self.leave();
        self.frame.may_fail |= may_fail;
        self.frame.truncate(count);
        Solutions { outcome, value, loops: std::mem::take(&mut self.frame.loops) }
    }

    /// Walks statements. Stops at the first one that certainly fails, if no earlier statement can be an error: later
    /// statements do not matter then. Otherwise they do, as comparisons of the input with constants are evaluated
    /// first.
    fn statements(&mut self, body: &'a [ResolvedStatement]) -> Certainty {
        let mut outcome = Certainty::Yes;
        for statement in body.iter().filter(|statement| !statement.erased) {
            outcome = outcome.min(self.statement(statement));
            if outcome == Certainty::No && !self.frame.may_fail {
                return Certainty::No;
            }
        }
        outcome
    }

    fn statement(&mut self, statement: &'a ResolvedStatement) -> Certainty {
        if !statement.with.is_empty() {
            return self.with(statement);
        }
        if !statement.negated {
            return self.plain(statement);
        }
        let (count, adds) = (self.frame.count(), std::mem::take(&mut self.frame.adds));
        let loops = std::mem::take(&mut self.frame.loops);
        let outcome = self.plain(statement);
        self.frame.adds = adds;
        self.frame.loops = loops;
        self.frame.truncate(count);
        outcome.negated()
    }

    /// Walks a statement without its `not`.
    fn plain(&mut self, statement: &'a ResolvedStatement) -> Certainty {
        match &statement.kind {
            ResolvedStatementKind::Term(term) => {
                let value = self.term(term);
                certain(&value)
            }
            ResolvedStatementKind::Unify(left, right) => self.unify(left, right),
            ResolvedStatementKind::Call(call) => self.called(call),
            ResolvedStatementKind::Every(every) => self.every(every),
            ResolvedStatementKind::Not(body) => self.inner(body, |_| Possible::default()).outcome.negated(),
        }
    }

    fn every(&mut self, every: &'a ResolvedEvery) -> Certainty {
        let domain = self.term(&every.domain);
        let (keys, values) = self.elements(&domain);
        let count = self.frame.count();
        if let Some(key) = every.key {
            self.frame.set(key, keys);
        }
        self.frame.set(every.value, values);
        self.inner(&every.body, |_| Possible::default());
        self.frame.truncate(count);
        Certainty::Maybe
    }

    /// Walks a statement with replaced documents (`with`), of which nothing is known.
    fn with(&mut self, statement: &'a ResolvedStatement) -> Certainty {
        self.unsure();
        if !statement.negated {
            self.frame.loops.push(None);
            for variable in visit::own_variables(statement) {
                if !variable.is_document() && self.frame.value(variable).is_none() {
                    self.frame.set(variable, Possible::other());
                }
            }
        }
        Certainty::Maybe
    }
}
