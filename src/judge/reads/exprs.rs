//! Expressions and references: what they may be, and what they read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use regorus::{
    Value,
    unstable::{AssignOp, BoolOp, Expr, Ref, Span},
};

use super::regorus_nodes::children;
use super::{
    bindings::is_key,
    frame::Name,
    inventory::OWN_NAMESPACE,
    outcome::{Certainty, certain},
    possible::{Place, Possible, Scalar},
    tree::Segment,
    variables::Look,
    walk::{KindIs, Walker},
};
use crate::judge::{dependencies::INVENTORIES, dialect::Dialect};

/// Keys of a place; deeper ones count as read whole.
const LONGEST: usize = 24;

/// One step of a reference.
enum Step<'a> {
    Field(&'a str),
    Index(&'a Expr),
}

impl<'a> Walker<'a> {
    pub(super) fn expr(&mut self, expr: &'a Expr) -> Possible {
        let value = if self.enter() { self.any_expr(expr) } else { self.unsure() };
        self.leave();
        value
    }

    fn any_expr(&mut self, expr: &'a Expr) -> Possible {
        match expr {
            Expr::String { value, .. }
            | Expr::RawString { value, .. }
            | Expr::Number { value, .. }
            | Expr::Bool { value, .. }
            | Expr::Null { value, .. } => Possible::scalar(value.clone()),
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => self.reference(expr, false),
            Expr::Array { items, .. } => self.collection(items).map_or_else(Possible::default, |items| {
                let sure = items.sure;
                Possible::array(items, sure)
            }),
            Expr::Set { items, .. } => match self.collection(items) {
                None => Possible::default(),
                Some(items) => {
                    let sure = items.sure;
                    Possible::set(self.member(items), sure)
                }
            },
            Expr::Object { fields, .. } => self.object(fields.iter().map(|(_, key, value)| (key, value))),
            Expr::ArrayCompr { term, query, .. } => {
                let counts = std::mem::replace(&mut self.frame.counts, true);
                let (_, items) = self.query(query, |walker| walker.expr(term));
                self.frame.counts = counts;
                Possible::array(items, true)
            }
            Expr::SetCompr { term, query, .. } => {
                let (_, members) = self.query(query, |walker| {
                    let member = walker.expr(term);
                    walker.member(member)
                });
                Possible::set(members, true)
            }
            Expr::ObjectCompr { key, value, query, .. } => self.object_comprehension(key, value, query),
            Expr::Call { fcn, params, .. } => self.function(fcn, params),
            Expr::UnaryExpr { expr, .. } => self.operation(&[expr]),
            Expr::BinExpr { lhs, rhs, .. } | Expr::ArithExpr { lhs, rhs, .. } => self.operation(&[lhs, rhs]),
            Expr::BoolExpr { op, lhs, rhs, .. } => match op {
                BoolOp::Eq | BoolOp::Ne => {
                    let (left, right) = (self.expr(lhs), self.expr(rhs));
                    self.compare(left, right, *op == BoolOp::Ne)
                }
                _ => self.operation(&[lhs, rhs]),
            },
            Expr::AssignExpr { op, lhs, rhs, .. } => self.assign(op, lhs, rhs),
            Expr::Membership { key, value, collection, .. } => self.membership(key.as_ref(), value, collection),
        }
    }

    /// An operator that reads its operands whole.
    fn operation(&mut self, operands: &[&'a Ref<Expr>]) -> Possible {
        let mut nothing = false;
        for operand in operands {
            let value = self.expr(operand);
            nothing |= value.is_nothing();
            self.whole(value);
        }
        // Operands of a wrong type are an error in strict evaluation.
        self.frame.risk |= !nothing;
        if nothing { Possible::default() } else { Possible::other() }
    }

    /// Returns what the elements of a literal may be, `sure` if all of them are there and are scalars; `None` if one of
    /// them is undefined for sure, so that there is no collection.
    fn collection(&mut self, items: &'a [Ref<Expr>]) -> Option<Possible> {
        let mut all = Possible::default();
        let mut sure = true;
        for item in items {
            let value = self.expr(item);
            if value.is_nothing() {
                return None;
            }
            sure &= value.only().is_some() && value.sure;
            all.join(value);
        }
        all.sure = sure;
        Some(all)
    }

    fn object(&mut self, entries: impl Iterator<Item = (&'a Ref<Expr>, &'a Ref<Expr>)>) -> Possible {
        let mut fields: BTreeMap<Arc<str>, Possible> = BTreeMap::new();
        let mut items: Option<Box<Possible>> = None;
        let mut sure = true;
        for (key, value) in entries {
            let (key, value) = (self.expr(key), self.expr(value));
            if key.is_nothing() || value.is_nothing() {
                return Possible::default();
            }
            sure &= key.sure && value.sure;
            if let Some(name) = key.only().and_then(Scalar::as_text) {
                fields.entry(Arc::clone(name)).or_default().join(value);
            } else {
                self.whole(key);
                items.get_or_insert_default().join(value);
            }
        }
        Possible { fields: Some(fields), items, sure, ..Possible::default() }
    }

    fn object_comprehension(
        &mut self,
        key: &'a Expr,
        value: &'a Expr,
        query: &'a regorus::unstable::Query,
    ) -> Possible {
        let (outcome, values) = self.query(query, |walker| {
            let (key, value) = (walker.expr(key), walker.expr(value));
            walker.whole(key);
            walker.whole(value)
        });
        // Two values for one key are an error.
        let conflict =
            outcome != Certainty::No && !(values.is_scalar() && values.scalars.len() < 2) && !is_key(query, key, value);
        self.frame.risk |= conflict;
        if conflict {
            self.conflict(Some(key.span()));
        }
        let items = (!values.is_nothing()).then(|| Box::new(values));
        Possible { fields: Some(BTreeMap::new()), items, sure: true, ..Possible::default() }
    }

    /// `==` and `!=`. Compared with a scalar, only scalars matter; comparing with null only asks whether there is a value.
    pub(super) fn compare(&mut self, left: Possible, right: Possible, negated: bool) -> Possible {
        if left.is_nothing() || right.is_nothing() {
            return Possible::default();
        }
        let sure = left.sure && right.sure;
        if !(left.is_scalar() && right.is_scalar()) {
            let null = |value: &Possible| value.only() == Some(&Scalar::Value(Value::Null));
            if null(&left) || null(&right) {
                self.present(&left);
                self.present(&right);
            } else {
                self.whole(left);
                self.whole(right);
            }
            return Possible::truth(&BTreeSet::from([true, false]), sure);
        }
        let equal = !self.common(&left.scalars, &right.scalars).is_empty();
        let different = !(equal && left.scalars.len() == 1 && right.scalars.len() == 1);
        let truths = [(equal, true), (different, false)].into_iter().filter(|(may, _)| *may);
        Possible::truth(&truths.map(|(_, truth)| truth != negated).collect(), sure)
    }

    /// Returns the scalars that are in both, and notes what the kind is compared with.
    pub(super) fn common(&mut self, left: &BTreeSet<Scalar>, right: &BTreeSet<Scalar>) -> BTreeSet<Scalar> {
        for (one, other) in [(left, right), (right, left)] {
            if one.contains(&Scalar::OtherKind) {
                self.named.extend(other.iter().filter_map(Scalar::as_text).cloned());
            }
        }
        left.intersection(right).cloned().collect()
    }

    fn assign(&mut self, op: &AssignOp, left: &'a Ref<Expr>, right: &'a Ref<Expr>) -> Possible {
        let outcome = if *op == AssignOp::ColEq {
            let value = self.expr(right);
            if value.is_nothing() { Certainty::No } else { self.destructure(left, value) }
        } else {
            self.unify(left, right)
        };
        match outcome {
            Certainty::No => Possible::default(),
            Certainty::Maybe => Possible::truth(&BTreeSet::from([true]), false),
            Certainty::Yes => Possible::truth(&BTreeSet::from([true]), true),
        }
    }

    fn unify(&mut self, left: &'a Expr, right: &'a Expr) -> Certainty {
        match (self.is_pattern(left), self.is_pattern(right)) {
            (false, false) => {
                let (left, right) = (self.expr(left), self.expr(right));
                certain(&self.compare(left, right, false))
            }
            (true, false) => self.matched(left, right),
            (false, true) => self.matched(right, left),
            (true, true) => {
                // Each side is at most what the other is, except variables without a value.
                let left_ended = self.matched(left, right);
                left_ended.min(self.matched(right, left))
            }
        }
    }

    fn matched(&mut self, pattern: &'a Expr, expr: &'a Expr) -> Certainty {
        if let Expr::Var { span, .. } = expr
            && self.is_unbound(span.text())
        {
            return Certainty::Maybe;
        }
        let value = match expr {
            // Its own variables may be what is bound here.
            Expr::Array { .. } | Expr::Object { .. } if self.is_pattern(expr) => {
                self.bind_unknown(expr);
                self.expr(expr)
            }
            _ => self.expr(expr),
        };
        if value.is_nothing() { Certainty::No } else { self.destructure(pattern, value).min(Certainty::Maybe) }
    }

    /// Whether an expression can bind variables.
    fn is_pattern(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Var { span, .. } => !matches!(self.name(span.text()), Name::Document(_)),
            Expr::Array { items, .. } => items.iter().any(|item| self.is_pattern(item)),
            Expr::Object { fields, .. } => fields.iter().any(|(_, _, value)| self.is_pattern(value)),
            _ => false,
        }
    }

    /// Binds a pattern to what a value may be.
    pub(super) fn destructure(&mut self, pattern: &'a Expr, value: Possible) -> Certainty {
        if !self.enter() {
            self.unsure();
        }
        let outcome = match pattern {
            Expr::Var { span, .. } if span.text() == "_" => Certainty::Yes,
            Expr::Var { span, .. } if !matches!(self.name(span.text()), Name::Document(_)) => {
                let sure = value.sure;
                self.bind(span.text(), value);
                if sure { Certainty::Yes } else { Certainty::Maybe }
            }
            Expr::Array { items, .. } => {
                let (_, element) = self.elements(&value);
                for item in items {
                    self.destructure(item, element.clone());
                }
                Certainty::Maybe
            }
            Expr::Object { fields, .. } => {
                // The set of fields is compared, too.
                self.elements(&value);
                for (_, key, part) in fields {
                    let key = self.expr(key);
                    let found = self.step(&value, key);
                    self.present(&found);
                    self.destructure(part, found);
                }
                Certainty::Maybe
            }
            other => {
                let other = self.expr(other);
                certain(&self.compare(other, value, false))
            }
        };
        self.leave();
        outcome
    }

    /// Binds the variables of an expression that have no value yet to an unknown one.
    pub(super) fn bind_unknown(&mut self, expr: &'a Expr) {
        if let Expr::Var { span, .. } = expr
            && span.text() != "_"
            && self.is_unbound(span.text())
        {
            self.bind_used(span.text(), Possible::other());
        }
        // The name of a function is no variable.
        let function = usize::from(matches!(expr, Expr::Call { .. }));
        for child in children(expr).into_iter().skip(function) {
            self.bind_unknown(child);
        }
    }

    fn membership(&mut self, key: Option<&'a Ref<Expr>>, value: &'a Expr, collection: &'a Expr) -> Possible {
        let mut nothing = false;
        if let Some(key) = key {
            let key = self.expr(key);
            nothing |= key.is_nothing();
            self.whole(key);
        }
        let (value, collection) = (self.expr(value), self.expr(collection));
        let (_, elements) = self.elements(&collection);
        if nothing || value.is_nothing() || collection.is_nothing() {
            return Possible::default();
        }
        let sure = value.sure && collection.sure;
        let either = BTreeSet::from([true, false]);
        let listed = collection.scalars.is_empty() && elements.is_scalar();
        if !(listed && value.is_scalar() && key.is_none()) {
            self.whole(value);
            self.whole(elements);
            return Possible::truth(&either, sure);
        }
        let common = self.common(&value.scalars, &elements.scalars);
        // All elements of a literal exist, those of other collections may.
        let part = |part: &Option<Box<Possible>>| part.as_ref().is_some_and(|part| part.sure);
        let all_there = part(&collection.members) || part(&collection.items);
        if common.is_empty() {
            Possible::truth(&BTreeSet::from([false]), sure)
        } else if value.scalars.len() == 1 && all_there {
            Possible::truth(&BTreeSet::from([true]), sure)
        } else {
            Possible::truth(&either, sure)
        }
    }

    // References

    /// Returns what may be in a collection that is gone through next.
    pub(super) fn collection_of(&mut self, expr: &'a Expr) -> Possible {
        if !matches!(expr, Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. }) {
            return self.expr(expr);
        }
        let value = if self.enter() { self.reference(expr, true) } else { self.unsure() };
        self.leave();
        value
    }

    /// `through` if its value is a collection that is gone through next.
    fn reference(&mut self, expr: &'a Expr, through: bool) -> Possible {
        let mut steps = Vec::new();
        let mut base = expr;
        loop {
            base = match base {
                Expr::RefDot { refr, field, .. } => {
                    steps.push(Step::Field(field.0.text()));
                    refr
                }
                Expr::RefBrack { refr, index, .. } => {
                    steps.push(match index.as_ref() {
                        Expr::String { value: Value::String(text), .. }
                        | Expr::RawString { value: Value::String(text), .. } => Step::Field(text),
                        _ => Step::Index(index),
                    });
                    refr
                }
                _ => break,
            };
        }
        steps.reverse();
        let (mut value, used) = self.base(base, &steps, through);
        for step in &steps[used..] {
            value = match step {
                Step::Field(name) => self.step(&value, Possible::scalar(Value::from(*name))),
                Step::Index(index) => self.index(&value, index),
            };
        }
        self.present(&value);
        value
    }

    /// Returns what a reference begins with, and how many of its steps lead there.
    fn base(&mut self, base: &'a Expr, steps: &[Step<'a>], through: bool) -> (Possible, usize) {
        let Expr::Var { span, .. } = base else { return (self.expr(base), 0) };
        let name = span.text();
        let mut path = match self.name(name) {
            Name::Local(scope) => {
                let value = self.variable(scope, name);
                return (value.unwrap_or_else(|| self.unbound(name)), 0);
            }
            Name::Implicit if name == "_" => return (Possible::other(), 0),
            Name::Implicit => return (self.unbound(name), 0),
            Name::Document(path) => path,
        };
        let own = path.len();
        if path[0] == "input" {
            let place = path.iter().map(|key| Segment::from(key.as_str())).collect();
            return (self.at(place), 0);
        }
        path.extend(steps.iter().map_while(|step| match step {
            Step::Field(name) => Some((*name).to_owned()),
            Step::Index(_) => None,
        }));
        let (mut value, used) = self.data(&path[1..]);
        let next = steps.get((used + 1).wrapping_sub(own));
        value = self.looked_at(value, self.look(next, through && next.is_none() && used + 1 >= own));
        // An import may name more than the rule.
        if used + 1 >= own {
            return (value, used + 1 - own);
        }
        let value = path[used + 1..own]
            .iter()
            .fold(value, |value, key| self.step(&value, Possible::scalar(Value::from(key.as_str()))));
        (value, 0)
    }

    /// Returns how the value of a rule is looked at by the next step of a reference.
    fn look(&self, next: Option<&Step<'a>>, through: bool) -> Look {
        let adds = self.frame.adds == Some(self.frame.scopes.len());
        match next {
            Some(Step::Index(Expr::Object { .. })) if !self.frame.counts => Look::ByPattern,
            Some(Step::Index(Expr::Var { span, .. }))
                if adds && (span.text() == "_" || self.is_unbound(span.text())) =>
            {
                Look::OneByOne
            }
            None if adds && through => Look::OneByOne,
            _ => Look::AsWhole,
        }
    }

    /// Returns what is below `data` at a path of fields or at the longest known start of it, and the length of that.
    pub(super) fn data(&mut self, path: &[String]) -> (Possible, usize) {
        let place: Place = ["data"].into_iter().chain(path.iter().map(String::as_str)).map(Segment::from).collect();
        let inventory = path.first().is_none_or(|first| INVENTORIES.contains(&first.as_str()));
        let graph = self.rules.graph;
        let is_rule = |path: &[String]| graph.at(path).any(|node| node.parameters.is_none());
        let mut rules: Vec<&[String]> = graph.covered(path).into_iter().filter(|path| is_rule(path)).collect();
        rules.dedup();
        if let [only] = rules.as_slice()
            && only.len() <= path.len()
        {
            return (self.call(only, None, None), only.len());
        }
        if rules.is_empty() && inventory && !path.is_empty() {
            return (self.at(place), path.len());
        }
        // Several rules below one name, or all of `data`.
        for rule in rules {
            let value = self.call(rule, None, None);
            self.whole(value);
        }
        if inventory {
            self.frame.reads.insert(&place, true);
        }
        (Possible::other(), path.len())
    }

    /// Returns what may be at a place of a document.
    fn at(&mut self, place: Place) -> Possible {
        if self.kind != KindIs::Unknown
            && let Some(sure) = self.names_kind(&place)
        {
            self.frame.reads.insert(&place, true);
            self.frame.sensitive = true;
            let kind = match &self.kind {
                KindIs::Named(kind) => Scalar::text(kind),
                KindIs::Other | KindIs::Unknown => Scalar::OtherKind,
            };
            return Possible { scalars: BTreeSet::from([kind]), sure, ..Possible::default() };
        }
        if place.len() > LONGEST {
            self.frame.reads.insert(&place, true);
            return Possible::other();
        }
        if self.names_object(&place) {
            return Possible::name(place);
        }
        Possible::place(place)
    }

    /// Whether a value is the object's namespace and nothing else.
    fn is_own_namespace(&self, value: &Possible) -> bool {
        let nothing_else = Possible { names: BTreeSet::new(), sure: value.sure, ..value.clone() }.is_nothing();
        let is_namespace =
            |place: &Place| place.last() == Some(&Segment::from("namespace")) && self.names_object(place);
        nothing_else && !value.names.is_empty() && value.names.iter().all(is_namespace)
    }

    /// Whether a place holds the object's name or its namespace.
    pub(super) fn names_object(&self, place: &[Segment]) -> bool {
        let [Segment::Field(input), above @ .., Segment::Field(last)] = place else { return false };
        let is = |names: &[&str]| is(above, names);
        &**input == "input"
            && matches!(&**last, "name" | "namespace")
            && match self.dialect {
                Dialect::Conftest | Dialect::Trivy => is(&["metadata"]),
                Dialect::Admission => is(&["request"]) || is(&["request", "object", "metadata"]),
                Dialect::Gatekeeper => is(&["review"]) || is(&["review", "object", "metadata"]),
                // Its verdicts are not shared, so nobody asks.
                Dialect::Kubescape => false,
            }
    }

    /// Whether a place holds the name of the kind, and whether it always does.
    fn names_kind(&self, place: &[Segment]) -> Option<bool> {
        let is = |names: &[&str]| is(place, names);
        let root = match self.dialect {
            Dialect::Conftest | Dialect::Trivy => return is(&["input", "kind"]).then_some(true),
            Dialect::Kubescape => {
                let [input, Segment::Any, kind] = place else { return None };
                return (*input == Segment::from("input") && *kind == Segment::from("kind")).then_some(true);
            }
            Dialect::Admission => "request",
            Dialect::Gatekeeper => "review",
        };
        if is(&["input", root, "kind", "kind"]) {
            Some(true)
        } else {
            // A deletion is reviewed without an object.
            is(&["input", root, "object", "kind"]).then_some(false)
        }
    }

    fn index(&mut self, value: &Possible, index: &'a Expr) -> Possible {
        if let Expr::Var { span, .. } = index {
            let name = span.text();
            if name == "_" || self.is_unbound(name) {
                let (keys, values) = self.iterate(value);
                if name != "_" {
                    self.bind_used(name, keys);
                }
                return values;
            }
        }
        if let (Expr::Object { fields, .. }, Some(members)) = (index, value.only_members())
            && let Some(names) = constant_keys(fields)
            && let Some(values) = members.only_fields()
        {
            return if self.pattern(&names, values) { members.clone() } else { Possible::default() };
        }
        if matches!(index, Expr::Array { .. } | Expr::Object { .. }) {
            // What its variables are bound to is not followed.
            if let Some(members) = &value.members {
                self.whole((**members).clone());
            }
            self.bind_unknown(index);
        }
        let key = self.expr(index);
        self.step(value, key)
    }

    /// Matches the fields of a pattern with those that an element of a set may have; whether one may match.
    fn pattern(&mut self, pattern: &[(&str, &'a Expr)], fields: &BTreeMap<Arc<str>, Possible>) -> bool {
        let mut may_match = true;
        for (name, part) in pattern {
            let Some(field) = fields.get(*name) else { return false };
            match part {
                Expr::Var { span, .. } if span.text() == "_" => {}
                Expr::Var { span, .. } if self.is_unbound(span.text()) => self.bind_used(span.text(), field.clone()),
                part => {
                    self.bind_unknown(part);
                    let part = self.expr(part);
                    let equal = self.compare(part, field.clone(), false);
                    may_match &= certain(&equal) != Certainty::No;
                }
            }
        }
        may_match
    }

    /// Returns what a value may have at a key.
    pub(super) fn step(&mut self, value: &Possible, key: Possible) -> Possible {
        let mut found = Possible::default();
        if key.is_nothing() {
            return found;
        }
        let known = key.is_scalar();
        let own_namespace = self.is_own_namespace(&key);
        let key = self.whole(key);
        let names: Vec<&Arc<str>> = key.scalars.iter().filter_map(Scalar::as_text).collect();
        let all_names = known && names.len() == key.scalars.len();
        // Of all fields only the kind is known to exist.
        let mut sure = value.places.len() == 1 && names.len() == 1 && all_names;
        for place in &value.places {
            let keys: Vec<Segment> = if own_namespace && holds_namespaces(place) {
                vec![Segment::from(OWN_NAMESPACE)]
            } else if all_names {
                names.iter().map(|name| Segment::Field(Arc::clone(name))).collect()
            } else {
                vec![Segment::Any]
            };
            for key in keys {
                let part = self.at(place.iter().cloned().chain([key]).collect());
                sure &= part.sure;
                found.join(part);
            }
        }
        if let Some(fields) = &value.fields {
            let listed: BTreeSet<Scalar> = fields.keys().map(|name| Scalar::text(name)).collect();
            let hit = if known { self.common(&key.scalars, &listed) } else { listed };
            for name in hit.iter().filter_map(Scalar::as_text) {
                found.join(fields[name].clone());
            }
        }
        if let Some(items) = &value.items {
            found.join((**items).clone());
        }
        if let Some(members) = &value.members {
            if known && members.is_scalar() {
                let scalars = self.common(&key.scalars, &members.scalars);
                found.join(Possible { scalars, ..Possible::default() });
            } else {
                // It is looked up by its value.
                found.join(self.whole((**members).clone()));
            }
        }
        // A text has no fields, but evaluators differ in what follows.
        value.names.iter().for_each(|place| self.frame.reads.insert(place, true));
        found.other |= value.other || !value.names.is_empty();
        found.sure = sure && value.fields.is_none() && value.items.is_none() && value.members.is_none() && !value.other;
        found
    }
}

/// Returns the fields of a pattern, if all of its keys are written as texts.
fn constant_keys<'a>(fields: &'a [(Span, Ref<Expr>, Ref<Expr>)]) -> Option<Vec<(&'a str, &'a Expr)>> {
    let constant = |(_, key, value): &'a (Span, Ref<Expr>, Ref<Expr>)| match key.as_ref() {
        Expr::String { value: Value::String(name), .. } | Expr::RawString { value: Value::String(name), .. } => {
            Some((&**name, value.as_ref()))
        }
        _ => None,
    };
    fields.iter().map(constant).collect()
}

/// Whether a place is made of these keys.
fn is(place: &[Segment], keys: &[&str]) -> bool {
    place.len() == keys.len() && place.iter().zip(keys).all(|(key, name)| *key == Segment::from(*name))
}

/// Whether a place holds looked-up objects by namespace.
fn holds_namespaces(place: &[Segment]) -> bool {
    let [Segment::Field(data), Segment::Field(document), below] = place else { return false };
    &**data == "data"
        && (&**document == "kubernetes" || &**document == "inventory" && *below == Segment::from("namespace"))
}
