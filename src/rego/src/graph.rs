//! The graph of references between rules: recursion, depth, and reachability.

use std::{
    collections::{BTreeMap, BTreeSet, btree_set},
    ops::Bound,
};

use super::references::Node;

/// Rules by path, with the references between the paths.
pub struct Graph<'a> {
    nodes: &'a [Node],
    /// Rule definitions by path.
    paths: BTreeMap<&'a [String], Vec<usize>>,
    /// For each path, the paths that its rules refer to.
    edges: BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
}

/// Upper bounds for a rule and the chains of references from it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RuleDepth {
    /// Bytes of stack.
    pub stack: usize,
    /// Nesting levels of its value and of any intermediate value.
    pub levels: usize,
    /// The nesting levels of its value in addition to those of its arguments.
    grows: usize,
}

/// The rules of a graph that are in no cycle, with their depths.
pub(crate) type RuleDepths<'a> = BTreeMap<&'a [String], RuleDepth>;

/// A rule that is being visited, with its targets that are not visited yet.
struct VisitedRule<'a, 'g> {
    path: &'a [String],
    targets: btree_set::Iter<'g, &'a [String]>,
}

impl<'a> Graph<'a> {
    /// Builds the graph of the references between definitions.
    pub fn new(nodes: &'a [Node]) -> Self {
        let mut paths: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            paths.entry(&node.path).or_default().push(index);
        }
        let mut graph = Self { nodes, paths, edges: BTreeMap::new() };
        for node in nodes {
            let targets = node.targets.iter().filter_map(|index| Some(nodes.get(*index)?.path.as_slice()));
            graph.edges.entry(&node.path).or_default().extend(targets);
        }
        graph
    }

    /// Returns the rules that a reference may refer to: those at the path, those below it, and those whose value it
    /// reads into.
    pub fn covered(&self, path: &[String]) -> Vec<&'a [String]> {
        let above = (1..path.len()).filter_map(|length| Some(*self.paths.get_key_value(&path[..length])?.0));
        let from: (Bound<&[String]>, Bound<&[String]>) = (Bound::Included(path), Bound::Unbounded);
        let below = self.paths.range::<[String], _>(from).map(|(key, _)| *key).take_while(|key| key.starts_with(path));
        above.chain(below).collect()
    }

    /// Returns the definitions of the rules at a path.
    pub fn at(&self, path: &[String]) -> impl Iterator<Item = &'a Node> {
        self.paths.get(path).into_iter().flatten().map(|index| &self.nodes[*index])
    }

    /// Returns all rules that may be needed for the rules at these paths, including those themselves.
    pub fn reachable<'p>(&self, from: impl IntoIterator<Item = &'p [String]>) -> BTreeSet<&'a [String]> {
        let mut reached: BTreeSet<&'a [String]> = BTreeSet::new();
        let mut next: Vec<&'a [String]> = from.into_iter().flat_map(|path| self.covered(path)).collect();
        while let Some(path) = next.pop() {
            if reached.insert(path) {
                next.extend(self.edges.get(path).into_iter().flatten());
            }
        }
        reached
    }

    /// Returns the depths of all rules that are in no cycle, and a set of disjoint cycles; without their rules the
    /// graph has no cycle.
    ///
    /// Each cycle lists its paths in order, starting with the smallest. Rules in a cycle count in no chain.
    pub(crate) fn depths(&self) -> (RuleDepths<'a>, Vec<Vec<&'a [String]>>) {
        let (mut depths, mut cycles) = (RuleDepths::new(), Vec::new());
        // The rules on the path to the current one with their positions on it; `None` if visited completely.
        let mut places: BTreeMap<&'a [String], Option<usize>> = BTreeMap::new();
        let mut visiting: Vec<VisitedRule<'a, '_>> = Vec::new();
        for (begin, targets) in &self.edges {
            if places.contains_key(begin) {
                continue;
            }
            places.insert(begin, Some(0));
            visiting.push(VisitedRule { path: begin, targets: targets.iter() });
            while let Some(last) = visiting.last_mut() {
                match last.targets.next().map(|target| (*target, places.get(target))) {
                    Some((_, Some(None))) => {}
                    Some((_, Some(Some(place)))) => {
                        let cycle: Vec<_> = visiting.drain(*place..).map(|visited| visited.path).collect();
                        places.extend(cycle.iter().map(|path| (*path, None)));
                        cycles.push(rotated(cycle));
                    }
                    Some((target, None)) => {
                        places.insert(target, Some(visiting.len()));
                        visiting.push(VisitedRule { path: target, targets: self.edges[target].iter() });
                    }
                    None => {
                        let path = last.path;
                        depths.insert(path, self.rule_depth(path, &depths));
                        places.insert(path, None);
                        visiting.pop();
                    }
                }
            }
        }
        (depths, cycles)
    }

    /// Returns the depth of a rule from those of the rules that it refers to.
    fn rule_depth(&self, path: &[String], depths: &RuleDepths<'a>) -> RuleDepth {
        let below = self.edges[path].iter().filter_map(|target| depths.get(target));
        let stack =
            below.map(|depth| depth.stack).max().unwrap_or(0) + self.at(path).map(|node| node.stack).max().unwrap_or(0);
        let (grows, levels) = self.levels(path, depths);
        RuleDepth { stack, levels, grows }
    }

    /// Returns the nesting levels of a rule's value in addition to those of its arguments, and of any intermediate
    /// value.
    fn levels(&self, path: &[String], depths: &RuleDepths<'a>) -> (usize, usize) {
        let (mut grows, mut levels) = (0, 0);
        for node in self.at(path) {
            let called = || node.calls.iter().filter_map(|call| depths.get(call.rule.as_deref()?));
            // The value of a function is nested in that of its caller, once per call.
            let own = called().fold(node.collections, |sum, depth| sum.saturating_add(depth.grows));
            // Its deepest value may also be inside a called function, around the levels of the other calls.
            let kept = called().map(|depth| own.saturating_sub(depth.grows).saturating_add(depth.levels));
            grows = if node.gives_collections { own.max(grows) } else { grows };
            levels = kept.fold(own, usize::max).max(levels);
        }
        let is_value = |target: &&&[String]| self.at(target).all(|node| node.parameters.is_none());
        let values = self.edges.get(path).into_iter().flatten().filter(is_value);
        let below = values.filter_map(|target| depths.get(target)).map(|depth| depth.levels).max().unwrap_or(0);
        let gives = self.at(path).any(|node| node.gives_collections);
        (if gives { grows.saturating_add(below) } else { 0 }, levels.saturating_add(below))
    }
}

/// Rotates a cycle to start with its smallest path.
fn rotated(mut cycle: Vec<&[String]>) -> Vec<&[String]> {
    let smallest = (0..cycle.len()).min_by_key(|index| cycle[*index]).unwrap_or(0);
    cycle.rotate_left(smallest);
    cycle
}
