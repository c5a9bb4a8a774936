//! Rules, bodies and statements, walked as the evaluator would, with [`Possible`] values (an abstract interpretation).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::unstable::{Expr, Literal, LiteralStmt, Query, Ref, Rule, RuleAssign, RuleBody, RuleHead, Span};

use super::regorus_nodes::{declared, patterns};
use super::{
    bindings::{is_multiple, sites},
    documents::Reads,
    exclusive::are_exclusive,
    frame::{Frame, Site},
    outcome::{Certainty, Definitions, certain, is_partial},
    possible::Possible,
    rules::Rules,
};
use crate::{
    judge::dialect::Dialect,
    rego::references::{Node, Path},
};

/// Expressions that are walked, over all kinds, before the rest counts as reading everything.
const STEPS: usize = 1_000_000;
/// Nesting of expressions, over rules and functions.
const DEPTH: usize = 120;
/// How often a body is walked until the values of its variables no longer grow.
const PASSES: usize = 8;
/// Lists of arguments that one function is walked with; further arguments count as read whole.
const CONTEXTS: usize = 100;
/// Values that one variable may stand for before it counts as read whole.
pub(super) const SIZE: usize = 200;

/// What is assumed of the object's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KindIs {
    /// A kind that no policy names.
    Other,
    Named(Arc<str>),
    /// Nothing is assumed.
    Unknown,
}

/// The result of a rule or function.
#[derive(Debug, Default)]
pub(super) struct RuleSummary {
    pub(super) value: Possible,
    pub(super) reads: Reads,
    /// Whether it may end in an error.
    pub(super) risk: bool,
    /// Whether it depends on the kind.
    pub(super) sensitive: bool,
    /// Where values may conflict while it is evaluated.
    conflicts: BTreeSet<Site>,
    /// Whether its own values may.
    conflict: bool,
}

/// Walks rules for one dialect and one kind.
pub(super) struct Walker<'a> {
    pub(super) rules: &'a Rules<'a>,
    pub(super) dialect: Dialect,
    pub(super) kind: KindIs,
    /// Texts that the kind was compared with.
    pub(super) named: BTreeSet<Arc<str>>,
    pub(super) frame: Frame,
    memo: BTreeMap<(Path, Option<Vec<Possible>>), Arc<RuleSummary>>,
    contexts: BTreeMap<Path, usize>,
    /// Whether at most one definition of a rule has a value.
    exclusive: BTreeMap<Path, bool>,
    stack: Vec<Path>,
    steps: usize,
    depth: usize,
}

impl<'a> Walker<'a> {
    pub(super) fn new(rules: &'a Rules<'a>, dialect: Dialect) -> Self {
        Self {
            rules,
            dialect,
            kind: KindIs::Other,
            named: BTreeSet::new(),
            frame: Frame::default(),
            memo: BTreeMap::new(),
            contexts: BTreeMap::new(),
            exclusive: BTreeMap::new(),
            stack: Vec::new(),
            steps: 0,
            depth: 0,
        }
    }

    /// Continues with another kind; what does not depend on it is kept.
    pub(super) fn set_kind(&mut self, kind: KindIs) {
        self.kind = kind;
        self.memo.retain(|_, summary| !summary.sensitive);
        self.contexts.clear();
    }

    /// Walks the rule at a path below `data`, and all rules below that path; whether its value is taken as `results`.
    pub(super) fn entrypoint(&mut self, path: &Path, results: bool) -> RuleSummary {
        self.frame = Frame { scopes: vec![BTreeMap::new()], ..Frame::default() };
        let value = self.data(path).0;
        let value = if results {
            self.results(&value);
            value.without_places()
        } else {
            self.whole(value)
        };
        let frame = std::mem::take(&mut self.frame);
        let Frame { reads, risk, sensitive, .. } = frame;
        RuleSummary { value, reads, risk, sensitive, ..RuleSummary::default() }
    }

    /// Counts everything as read, for what is not understood.
    pub(super) fn unsure(&mut self) -> Possible {
        self.frame.reads.unsure();
        self.frame.risk = true;
        Possible::other()
    }

    /// Counts an expression; `false` beyond [`STEPS`] or [`DEPTH`].
    pub(super) fn enter(&mut self) -> bool {
        self.steps += 1;
        self.depth += 1;
        self.steps < STEPS && self.depth < DEPTH
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    // Rules

    /// Returns the result of the rule (`None`) or function at a path, and counts its reads as those of the caller, which
    /// stands there.
    pub(super) fn call(&mut self, path: &[String], arguments: Option<Vec<Possible>>, site: Option<&Span>) -> Possible {
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
            // Recursion is refused at load, but the walk must end, too.
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
        // The memo keeps it, so no other one is at its address.
        if self.frame.merged.insert(Arc::as_ptr(&summary).addr()) {
            self.frame.reads.merge(&summary.reads);
            self.frame.conflicts.extend(&summary.conflicts);
        }
        self.frame.risk |= summary.risk;
        self.frame.sensitive |= summary.sensitive;
        if summary.conflict {
            self.conflict(site);
        }
        summary.value.clone()
    }

    /// Notes that values may conflict, and where; `None` for a rule that may be asked for at several places.
    pub(super) fn conflict(&mut self, site: Option<&Span>) {
        let module = self.frame.module;
        match site {
            Some(span) => drop(self.frame.conflicts.insert((module, span.line, span.col))),
            None => self.frame.conflicts.extend([(module, 0, 0), (module, 0, 1)]),
        }
    }

    fn summary(&mut self, path: &Path, arguments: Option<&[Possible]>) -> RuleSummary {
        let graph = self.rules.graph;
        let mut summary = RuleSummary::default();
        let mut found = Definitions::default();
        for node in graph.at(path).filter(|node| node.parameters.is_some() == arguments.is_some()) {
            let rule = self.rules.rule(node);
            let (package, aliases) = (&self.rules.packages[node.module], &self.rules.aliases[node.module]);
            let is_document = |name: &str| {
                matches!(name, "input" | "data")
                    || self.rules.names[package].contains(name)
                    || aliases.contains_key(name)
            };
            self.frame = Frame { module: node.module, sites: sites(rule, is_document), ..Frame::default() };
            self.definition(rule, arguments, &mut found);
            let frame = std::mem::take(&mut self.frame);
            summary.reads.merge(&frame.reads);
            summary.risk |= frame.risk;
            summary.sensitive |= frame.sensitive;
            summary.conflicts.extend(frame.conflicts);
        }
        let Definitions { mut value, complete, elements, several, sure } = found;
        let is_complete = |node: &&Node| !matches!(self.rules.rule(node), Rule::Default { .. });
        let nodes: Vec<&Node> = graph.at(path).filter(is_complete).collect();
        let rules = self.rules;
        let exclusive = complete.max(elements) < 2
            || *self.exclusive.entry(path.clone()).or_insert_with(|| are_exclusive(rules, &nodes));
        value.several &= several || !exclusive;
        // Several values of a rule are compared with each other: two different ones are an error.
        let conflict = complete > 0 && (several || !exclusive) && !(value.is_scalar() && value.scalars.len() < 2);
        value.sure |= sure;
        if conflict || value.size(SIZE) > SIZE {
            value.all_places().into_iter().for_each(|place| summary.reads.insert(place, true));
            value = value.without_places();
        }
        summary.value = if value.size(SIZE) > SIZE { Possible::other() } else { value };
        summary.risk |= conflict;
        summary.conflict = conflict;
        summary
    }

    fn definition(&mut self, rule: &'a Rule, arguments: Option<&[Possible]>, found: &mut Definitions) {
        match rule {
            Rule::Default { value, .. } => {
                self.frame.scopes.push(BTreeMap::new());
                let value = self.expr(value);
                found.value.join(value);
                found.sure = true;
            }
            Rule::Spec { head, bodies, .. } if bodies.is_empty() => {
                let one = self.body(head, None, arguments, found);
                found.add(head, one);
            }
            Rule::Spec { head, bodies, .. } => {
                let mut rest = bodies.as_slice();
                while let Some((first, others)) = rest.split_first() {
                    // `else` is evaluated only if the bodies before it failed.
                    let length = others.iter().take_while(|body| body.is_else).count();
                    let mut chain = (Certainty::No, Possible::default());
                    for body in [first].into_iter().chain(&others[..length]) {
                        let (outcome, value) = self.body(head, Some(body), arguments, found);
                        chain.1.join(value);
                        chain.0 = chain.0.max(outcome);
                        if outcome == Certainty::Yes {
                            break;
                        }
                    }
                    found.add(head, chain);
                    rest = &others[length..];
                }
            }
        }
    }

    /// Walks one body and the value that it gives its rule.
    fn body(
        &mut self,
        head: &'a RuleHead,
        body: Option<&'a RuleBody>,
        arguments: Option<&[Possible]>,
        found: &mut Definitions,
    ) -> (Certainty, Possible) {
        self.frame.scopes = vec![BTreeMap::new()];
        self.frame.stale = None;
        self.frame.unbound = false;
        let mut outcome = Certainty::Yes;
        let (parameters, assign): (&[Ref<Expr>], Option<&RuleAssign>) = match head {
            RuleHead::Func { args, assign, .. } => (args, assign.as_ref()),
            RuleHead::Compr { assign, .. } => (&[], assign.as_ref()),
            RuleHead::Set { .. } => (&[], None),
        };
        let mut names = BTreeSet::new();
        patterns(parameters, &mut names);
        self.declare(names);
        for (parameter, argument) in parameters.iter().zip(arguments.unwrap_or_default()) {
            outcome = outcome.min(self.destructure(parameter, argument.clone()));
        }
        let assign = match body {
            Some(body) if body.is_else || body.assign.is_some() => body.assign.as_ref(),
            _ => assign,
        };
        let term = |walker: &mut Self| walker.head(head, assign);
        let is_set = matches!(head, RuleHead::Set { key: Some(_), .. });
        self.frame.adds =
            (is_set && !self.rules.strict).then_some(self.frame.scopes.len() + usize::from(body.is_some()));
        let (ended, value) = match body {
            _ if outcome == Certainty::No => (Certainty::No, Possible::default()),
            Some(body) => self.query(&body.query, term),
            None => (Certainty::Yes, term(self)),
        };
        // Which of two errors comes first depends on which element does.
        let apart = std::mem::take(&mut self.frame.apart);
        if self.frame.conflicts.len() > 1 {
            for place in &apart {
                self.see(place, true);
            }
        }
        if self.frame.unbound && ended != Certainty::No {
            self.unsure();
        }
        let key = if let RuleHead::Set { key, .. } = head { key.as_ref() } else { None };
        let terms: Vec<&Expr> = key.into_iter().chain(assign.map(|assign| &assign.value)).map(AsRef::as_ref).collect();
        found.several |=
            ended != Certainty::No && is_multiple(body.map(|body| body.query.as_ref()), parameters, &terms);
        let outcome = outcome.min(ended);
        // If the value is undefined, so is the rule.
        if value.is_nothing() {
            (Certainty::No, value)
        } else {
            (outcome.min(if value.sure { Certainty::Yes } else { Certainty::Maybe }), value)
        }
    }

    /// Returns what one body contributes to its rule: a value, a set of one element, an object of one field.
    fn head(&mut self, head: &'a RuleHead, assign: Option<&'a RuleAssign>) -> Possible {
        match head {
            RuleHead::Set { refr, key: Some(key), .. } => {
                let element = self.expr(key);
                if is_partial(refr) {
                    self.keys(refr);
                    return self.partial(element, |element| Possible::set(element, true));
                }
                if element.is_nothing() {
                    return Possible::default();
                }
                let element = if self.is_response() { self.response(element) } else { element };
                // That its elements are compared with each other, [`Walker::compared`] counts for who looks at the set, and
                // [`Walker::results`] if they are results.
                Possible::set(element, true)
            }
            RuleHead::Compr { refr, .. } | RuleHead::Set { refr, key: None, .. } if is_partial(refr) => {
                self.keys(refr);
                let value = assign.map_or_else(|| Possible::scalar(true.into()), |assign| self.expr(&assign.value));
                self.partial(value, |value| value)
            }
            _ => assign.map_or_else(|| Possible::scalar(true.into()), |assign| self.expr(&assign.value)),
        }
    }

    /// Returns an object with values at keys that are not known; `item` makes each of what the head gives.
    fn partial(&mut self, given: Possible, item: impl FnOnce(Possible) -> Possible) -> Possible {
        if given.is_nothing() {
            return Possible::default();
        }
        let items = Some(Box::new(item(self.whole(given))));
        Possible { fields: Some(BTreeMap::new()), items, other: true, ..Possible::default() }
    }

    /// Whether what is walked is a result in Kubescape's dialect.
    fn is_response(&self) -> bool {
        self.dialect == Dialect::Kubescape && self.stack.len() == 1
    }

    /// Reads the computed keys of a head.
    fn keys(&mut self, mut refr: &'a Expr) {
        while let Expr::RefDot { refr: inner, .. } | Expr::RefBrack { refr: inner, .. } = refr {
            if let Expr::RefBrack { index, .. } = refr {
                let key = self.expr(index);
                self.whole(key);
            }
            refr = inner;
        }
    }

    // Bodies

    /// Walks a body, then the term for each of its solutions.
    pub(super) fn query(
        &mut self,
        query: &'a Query,
        term: impl FnOnce(&mut Self) -> Possible,
    ) -> (Certainty, Possible) {
        let mut names = BTreeSet::new();
        declared(query, &mut names);
        self.frame.scopes.push(BTreeMap::new());
        self.declare(names);
        let base = self.frame.scopes.len() - 1;
        let outer_stale = self.frame.stale.take();
        let outer_risk = std::mem::take(&mut self.frame.risk);
        let outer_unbound = self.frame.unbound;
        let mut lowest: Option<usize> = None;
        let mut outcome = Certainty::Maybe;
        for pass in 1..=PASSES {
            self.frame.unbound = outer_unbound;
            outcome = self.statements(query);
            let Some(stale) = self.frame.stale.take() else { break };
            lowest = Some(lowest.map_or(stale, |lowest| lowest.min(stale)));
            if outcome == Certainty::No && !self.frame.risk {
                break;
            }
            if pass == PASSES {
                self.unsure();
            }
        }
        let value = if outcome == Certainty::No {
            self.frame.unbound = outer_unbound;
            Possible::default()
        } else {
            term(self)
        };
        self.frame.scopes.pop();
        self.frame.risk |= outer_risk;
        self.frame.stale = [outer_stale, lowest.filter(|lowest| *lowest < base)].into_iter().flatten().min();
        (outcome, value)
    }

    /// Ends at the first statement that fails for sure, if none before it can be an error: those after it do not matter then.
    fn statements(&mut self, query: &'a Query) -> Certainty {
        let mut outcome = Certainty::Yes;
        for statement in &query.stmts {
            outcome = outcome.min(self.statement(statement));
            if outcome == Certainty::No && !self.frame.risk {
                return Certainty::No;
            }
        }
        outcome
    }

    fn statement(&mut self, statement: &'a LiteralStmt) -> Certainty {
        if !statement.with_mods.is_empty() {
            return self.with(statement);
        }
        match &statement.literal {
            Literal::SomeVars { vars, .. } => {
                self.declare(vars.iter().map(|var| var.text().to_owned()).collect());
                Certainty::Yes
            }
            Literal::SomeIn { key, value, collection, .. } => {
                let collection = self.collection_of(collection);
                let (keys, values) = self.elements(&collection);
                if values.is_nothing() {
                    return Certainty::No;
                }
                let key = key.as_ref().map_or(Certainty::Yes, |key| self.destructure(key, keys));
                key.min(self.destructure(value, values)).min(Certainty::Maybe)
            }
            Literal::Expr { expr, .. } => {
                let value = self.expr(expr);
                self.present(&value);
                certain(&value)
            }
            Literal::NotExpr { expr, .. } => {
                let adds = self.frame.adds.take();
                let value = self.expr(expr);
                self.frame.adds = adds;
                self.present(&value);
                match certain(&value) {
                    Certainty::Yes => Certainty::No,
                    Certainty::No if value.sure && !value.is_nothing() => Certainty::Yes,
                    // Evaluators differ in whether `not` of something undefined holds.
                    _ => Certainty::Maybe,
                }
            }
            Literal::Every { key, value, domain, query, .. } => {
                let domain = self.expr(domain);
                let (keys, values) = self.elements(&domain);
                let scope = self.frame.scopes.len();
                self.frame.scopes.push(BTreeMap::new());
                let names = key.iter().chain([value]).map(|name| name.text().to_owned());
                self.declare(names.collect());
                if let Some(key) = key {
                    self.bind_in(scope, key.text(), keys);
                }
                self.bind_in(scope, value.text(), values);
                self.query(query, |_| Possible::default());
                self.frame.scopes.pop();
                Certainty::Maybe
            }
        }
    }

    /// A statement with replaced documents (`with`), of which nothing is known.
    fn with(&mut self, statement: &'a LiteralStmt) -> Certainty {
        self.unsure();
        match &statement.literal {
            Literal::SomeIn { key, value, .. } => {
                for pattern in key.iter().chain([value]) {
                    self.destructure(pattern, Possible::other());
                }
            }
            Literal::SomeVars { vars, .. } => {
                self.declare(vars.iter().map(|var| var.text().to_owned()).collect());
            }
            Literal::Expr { expr, .. } => self.bind_unknown(expr),
            Literal::NotExpr { .. } | Literal::Every { .. } => {}
        }
        Certainty::Maybe
    }
}
