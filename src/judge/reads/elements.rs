//! Decides whether rules relate elements of their input array to each other, or read one element at a time.
//!
//! The results of a rule that reads one element at a time are the union of its results for each element alone: the
//! array can be split, and a change of one object affects only its own results. This is the case for a set whose
//! definitions each iterate over the input once, so that every element adds its own results: not below `not` or
//! `every`, not in a comprehension that is read as a whole, and not by position. A list that is derived in this way, in
//! a comprehension or by a rule, is treated like the input. Everything else counts as relating, which is the safe
//! default.

use std::collections::BTreeMap;

use super::rules::UnitRules;
use crate::rego::analysis::{
    references::Path,
    resolved::{
        DATA, Function, INPUT, ResolvedComprehension, ResolvedResult, ResolvedRule, ResolvedStatement,
        ResolvedStatementKind, ResolvedTerm, ResolvedValue, Variable,
    },
    syntax::ComprehensionKind,
    visit,
};

/// The maximum length of a chain of rules that derive lists from the input.
const LONGEST: usize = 16;

/// The collection whose elements a definition iterates over.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ElementOrigin {
    Input,
    /// A rule that is a set, below `data`.
    Rule(Path),
    /// A variable with a comprehension as its value.
    List(Variable),
    /// Anything else that reads the input.
    Unclear,
}

/// Whether the rule at a path may relate two elements of the input; `false` only if it certainly reads one at a time.
pub(super) fn relates(rules: &UnitRules<'_>, path: &Path) -> bool {
    !are_single(rules, path, 0)
}

/// Whether each definition of a set iterates over the input once.
fn are_single(rules: &UnitRules<'_>, path: &Path, depth: usize) -> bool {
    let is_single = |rule: &&ResolvedRule| {
        let ResolvedResult::Element(element) = &rule.result else { return false };
        let definition = DefinitionAnalysis { rules, depth, used: used(rule, element) };
        rule.otherwise.is_none() && definition.is_single(&rule.body, element)
    };
    depth < LONGEST && rules.at(path).iter().all(is_single)
}

/// Counts the occurrences of each variable in a definition, including comprehensions.
fn used(rule: &ResolvedRule, element: &ResolvedTerm) -> BTreeMap<Variable, usize> {
    let mut used = BTreeMap::new();
    visit::terms_of_body(&rule.body, rule.path.iter().chain([element]), &mut |term| {
        if let ResolvedValue::Variable(variable) = term.value {
            *used.entry(variable).or_default() += 1;
        }
    });
    used
}

/// One definition of a rule.
struct DefinitionAnalysis<'r, 'a> {
    rules: &'r UnitRules<'a>,
    depth: usize,
    /// The number of occurrences of each variable.
    used: BTreeMap<Variable, usize>,
}

impl DefinitionAnalysis<'_, '_> {
    fn is_single(&self, body: &[ResolvedStatement], element: &ResolvedTerm) -> bool {
        match self.origins(body, element).as_slice() {
            [] => true,
            [origin] => {
                let body: Vec<&ResolvedStatement> = body.iter().collect();
                self.goes_through(origin, &body)
            }
            _ => false,
        }
    }

    /// Returns the terms that read the input.
    fn origins(&self, body: &[ResolvedStatement], element: &ResolvedTerm) -> Vec<ElementOrigin> {
        let mut origins = Vec::new();
        visit::terms_of_body(body, [element], &mut |term| match &term.value {
            ResolvedValue::Variable(INPUT) => origins.push(ElementOrigin::Input),
            ResolvedValue::Ref(items) if items.first().and_then(ResolvedTerm::as_variable) == Some(DATA) => {
                let path = ResolvedTerm::texts(&items[1..]);
                let rule = (1..=path.len()).find(|length| !self.rules.at(&path[..*length]).is_empty());
                if self.reads_input(&path) {
                    origins.push(
                        rule.map_or(ElementOrigin::Unclear, |length| ElementOrigin::Rule(path[..length].to_vec())),
                    );
                }
            }
            _ => {}
        });
        visit::statements(body, &mut |statement| {
            // `with` may replace the input.
            origins.extend(statement.with.iter().map(|_| ElementOrigin::Unclear));
            if let ResolvedStatementKind::Call(call) = &statement.kind
                && matches!(call.function, Function::Rule(_))
                && call.function.path().is_none_or(|path| self.reads_input(&path))
            {
                origins.push(ElementOrigin::Unclear);
            }
        });
        origins
    }

    /// Whether the value at a path below `data`, or anything that it uses, reads the input.
    fn reads_input(&self, path: &[String]) -> bool {
        let graph = self.rules.graph;
        let reached = graph.reachable(graph.covered(path));
        let mut nodes = reached.into_iter().flat_map(|path| graph.at(path));
        nodes.any(|node| node.whole_input || !node.inputs.is_empty())
    }

    /// Whether statements iterate over the elements of an origin, which occurs in them once, one at a time.
    fn goes_through(&self, origin: &ElementOrigin, body: &[&ResolvedStatement]) -> bool {
        if let ElementOrigin::Rule(path) = origin
            && !are_single(self.rules, path, self.depth + 1)
        {
            return false;
        }
        body.iter().enumerate().any(|(index, statement)| {
            let others = || body.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| *other);
            let is_plain = !statement.negated && statement.with.is_empty();
            let terms: &[&ResolvedTerm] = match &statement.kind {
                ResolvedStatementKind::Term(term) => &[term],
                ResolvedStatementKind::Unify(left, right) => &[left, right],
                ResolvedStatementKind::Call(call) => &call.arguments.iter().collect::<Vec<_>>(),
                ResolvedStatementKind::Every(_) | ResolvedStatementKind::Not(_) => &[],
            };
            is_plain
                && (terms.iter().any(|term| self.is_iterated(origin, term))
                    || self.is_listed(origin, terms, &others().collect::<Vec<_>>()))
        })
    }

    /// Whether a term contains the origin as `origin[_]`, where each element adds its own solutions: not in a
    /// comprehension, which is a single value.
    fn is_iterated(&self, origin: &ElementOrigin, term: &ResolvedTerm) -> bool {
        let mut found = false;
        visit::terms(term, &mut |term| {
            if let ResolvedValue::Ref(items) = &term.value
                && let [head, key, ..] = items.as_slice()
            {
                let head = head.as_variable();
                let is_unused = || key.as_variable().is_some_and(|key| self.count(key) == 1);
                found |= match origin {
                    ElementOrigin::Input => head == Some(INPUT) && is_unused(),
                    ElementOrigin::List(list) => head == Some(*list) && is_unused(),
                    // An element of a set is its own key.
                    ElementOrigin::Rule(path) => {
                        head == Some(DATA)
                            && items.len() > path.len() + 1
                            && ResolvedTerm::texts(&items[1..]).starts_with(path)
                    }
                    ElementOrigin::Unclear => false,
                };
            }
            !matches!(term.value, ResolvedValue::Comprehension(_))
        });
        found
    }

    /// Whether a statement is `list = [x | … origin[_] …]`, and the others iterate over the list one element at a time.
    fn is_listed(&self, origin: &ElementOrigin, terms: &[&ResolvedTerm], others: &[&ResolvedStatement]) -> bool {
        let [
            ResolvedTerm { value: ResolvedValue::Variable(list), .. },
            ResolvedTerm { value: ResolvedValue::Comprehension(comprehension), .. },
        ] = terms
        else {
            return false;
        };
        let ResolvedComprehension { form, body, .. } = &**comprehension;
        let inner: Vec<&ResolvedStatement> = body.iter().collect();
        // One occurrence where the list gets its value, and one where it is iterated over.
        *form != ComprehensionKind::Object
            && self.goes_through(origin, &inner)
            && match self.count(*list) {
                1 => true,
                2 => self.goes_through(&ElementOrigin::List(*list), others),
                _ => false,
            }
    }

    fn count(&self, variable: Variable) -> usize {
        self.used.get(&variable).copied().unwrap_or(0)
    }
}
