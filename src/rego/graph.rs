//! The references between rules: recursion, depth, and what can be reached from where.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::references::Node;

/// Rules by path, and which paths each path refers to.
pub(crate) struct Graph<'a> {
    nodes: &'a [Node],
    /// Rule definitions by path.
    paths: BTreeMap<&'a [String], Vec<usize>>,
    /// For each path, the paths that its rules refer to.
    edges: BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
}

/// What chains of references need at most, each with the rule that it begins with.
#[derive(Debug, Default)]
pub(crate) struct Depth<'a> {
    /// Bytes of stack.
    pub(crate) stack: (usize, &'a [String]),
    /// Levels of collections in collections.
    pub(crate) levels: (usize, &'a [String]),
}

impl<'a> Graph<'a> {
    pub(crate) fn new(nodes: &'a [Node]) -> Self {
        let mut paths: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            paths.entry(&node.path).or_default().push(index);
        }
        let mut graph = Self { nodes, paths, edges: BTreeMap::new() };
        for node in nodes {
            let targets: Vec<&[String]> = node.uses.iter().flat_map(|path| graph.covered(path)).collect();
            graph.edges.entry(&node.path).or_default().extend(targets);
        }
        graph
    }

    /// Returns the rules that a reference can mean: those at the path, those below it, and those that it looks into.
    pub(crate) fn covered(&self, path: &[String]) -> Vec<&'a [String]> {
        let above = (1..path.len()).filter_map(|length| Some(*self.paths.get_key_value(&path[..length])?.0));
        let from: (Bound<&[String]>, Bound<&[String]>) = (Bound::Included(path), Bound::Unbounded);
        let below = self.paths.range::<[String], _>(from).map(|(key, _)| *key).take_while(|key| key.starts_with(path));
        above.chain(below).collect()
    }

    /// Returns the definitions of the rules at a path.
    pub(crate) fn at(&self, path: &[String]) -> impl Iterator<Item = &'a Node> {
        self.paths.get(path).into_iter().flatten().map(|index| &self.nodes[*index])
    }

    /// Returns every rule that can be needed for the rules at these paths, themselves included.
    pub(crate) fn reachable<'p>(&self, from: impl IntoIterator<Item = &'p [String]>) -> BTreeSet<&'a [String]> {
        let mut reached: BTreeSet<&'a [String]> = BTreeSet::new();
        let mut next: Vec<&'a [String]> = from.into_iter().flat_map(|path| self.covered(path)).collect();
        while let Some(path) = next.pop() {
            if reached.insert(path) {
                next.extend(self.edges.get(path).into_iter().flatten());
            }
        }
        reached
    }

    /// Returns what chains of references need at most, and every cycle found.
    ///
    /// Each cycle is its paths in order, beginning with the smallest. Rules of a cycle count for no chain.
    pub(crate) fn depth(&self) -> (Depth<'a>, Vec<Vec<&'a [String]>>) {
        let mut cycles: Vec<Vec<&[String]>> = Vec::new();
        loop {
            let without: BTreeSet<&[String]> = cycles.iter().flatten().copied().collect();
            match self.chain(&without) {
                Ok(depth) => return (depth, cycles),
                Err(cycle) => cycles.push(cycle),
            }
        }
    }

    /// Goes from the rules that refer to nothing upwards; what cannot be reached that way refers in a cycle.
    fn chain(&self, without: &BTreeSet<&[String]>) -> Result<Depth<'a>, Vec<&'a [String]>> {
        let mut open: BTreeMap<&'a [String], usize> = BTreeMap::new();
        let mut users: BTreeMap<&'a [String], Vec<&'a [String]>> = BTreeMap::new();
        for (path, targets) in self.edges.iter().filter(|(path, _)| !without.contains(*path)) {
            let targets = targets.iter().filter(|target| !without.contains(*target));
            open.insert(path, targets.clone().count());
            targets.for_each(|target| users.entry(target).or_default().push(path));
        }
        let mut heights: BTreeMap<&[String], (usize, usize, usize)> = BTreeMap::new();
        let mut ready: Vec<&'a [String]> =
            open.iter().filter(|(_, count)| **count == 0).map(|(path, _)| *path).collect();
        let mut deepest = Depth::default();
        while let Some(path) = ready.pop() {
            open.remove(path);
            let below = self.edges[path].iter().filter_map(|target| heights.get(target));
            let stack = below.map(|(stack, ..)| *stack).max().unwrap_or(0)
                + self.at(path).map(|node| node.stack).max().unwrap_or(0);
            let (grows, levels) = self.levels(path, &heights);
            heights.insert(path, (stack, grows, levels));
            deepest.stack = deepest.stack.max((stack, path));
            deepest.levels = deepest.levels.max((levels, path));
            for user in users.get(path).into_iter().flatten() {
                if let Some(count) = open.get_mut(user) {
                    *count -= 1;
                    if *count == 0 {
                        ready.push(user);
                    }
                }
            }
        }
        if open.is_empty() { Ok(deepest) } else { Err(self.cycle(&open)) }
    }

    /// Returns by how many levels the value of a rule is nested deeper than its arguments, and any value on the way to it.
    fn levels(&self, path: &[String], heights: &BTreeMap<&[String], (usize, usize, usize)>) -> (usize, usize) {
        let (mut grows, mut levels) = (0, 0);
        for node in self.at(path) {
            let called = || node.calls.iter().filter_map(|call| heights.get(call.rule.as_deref()?));
            // The value of a function is nested in that of its caller, once for each call.
            let own = called().fold(node.collections, |sum, (_, grows, _)| sum.saturating_add(*grows));
            // Its deepest value may also be one that a function makes of the rest and keeps.
            let kept = called().map(|(_, grows, levels)| own.saturating_sub(*grows).saturating_add(*levels));
            grows = if node.gives_collections { own.max(grows) } else { grows };
            levels = kept.fold(own, usize::max).max(levels);
        }
        let is_value = |target: &&&[String]| self.at(target).all(|node| node.parameters.is_none());
        let values = self.edges.get(path).into_iter().flatten().filter(is_value);
        let below = values.filter_map(|target| heights.get(target)).map(|(.., levels)| *levels).max().unwrap_or(0);
        let gives = self.at(path).any(|node| node.gives_collections);
        (if gives { grows.saturating_add(below) } else { 0 }, levels.saturating_add(below))
    }

    /// Finds a cycle among rules each of which refers to another of them.
    fn cycle(&self, open: &BTreeMap<&'a [String], usize>) -> Vec<&'a [String]> {
        let mut walked: Vec<&'a [String]> = Vec::new();
        let mut at = open.keys().next().copied();
        while let Some(path) = at {
            if let Some(begin) = walked.iter().position(|before| *before == path) {
                let mut cycle = walked.split_off(begin);
                let smallest = (0..cycle.len()).min_by_key(|index| cycle[*index]).unwrap_or(0);
                cycle.rotate_left(smallest);
                return cycle;
            }
            walked.push(path);
            at = self.edges[path].iter().find(|target| open.contains_key(*target)).copied();
        }
        walked
    }
}
