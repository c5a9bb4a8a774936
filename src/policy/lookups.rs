//! Which other objects rules can look up: below `data.inventory`, as Gatekeeper lays it out, and below `data.kubernetes`,
//! as kube-mgmt does.
//!
//! A value in the inventory costs some 30 KB, so only kinds that a policy can name are held. What a reference does not say
//! is taken for everything.

use std::collections::BTreeSet;

use super::{
    graph::Graph,
    references::{Node, Pattern},
};
use crate::object::Kind;

/// The documents below `data` that hold other objects.
pub(crate) const DOCUMENTS: [&str; 2] = ["inventory", "kubernetes"];

/// In which of the documents objects of a kind are to be found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layouts {
    /// `data.inventory.namespace[namespace][group/version][kind][name]`, or `.cluster[group/version][kind][name]`.
    pub inventory: bool,
    /// `data.kubernetes[plural][namespace][name]`, or `[plural][name]`.
    pub kubernetes: bool,
}

impl Layouts {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.inventory || self.kubernetes
    }
}

/// References to other objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lookups(BTreeSet<Pattern>);

impl Lookups {
    /// Reads what the rules at these paths, and all that they use, can look up.
    pub(crate) fn of<'p>(graph: &Graph<'_>, entries: impl IntoIterator<Item = &'p [String]>) -> Self {
        let reached = graph.reachable(entries);
        let nodes = reached.into_iter().flat_map(|path| graph.at(path));
        let patterns = nodes.flat_map(|node| &node.patterns).filter(|pattern| is_lookup(pattern, graph));
        Self(patterns.cloned().collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns in which documents objects of a kind can be looked up.
    pub(crate) fn layouts(&self, kind: &Kind) -> Layouts {
        let any = |reaches: fn(&[Option<String>], &Kind) -> bool| self.0.iter().any(|pattern| reaches(pattern, kind));
        Layouts { inventory: any(in_inventory), kubernetes: any(in_kubernetes) }
    }
}

/// Rules may live there too: `package kubernetes.admission`. A reference to one of them looks nothing up.
fn is_lookup(pattern: &Pattern, graph: &Graph<'_>) -> bool {
    let constant: Vec<String> = pattern.iter().map_while(Clone::clone).collect();
    let is_rule = (1..=constant.len()).any(|length| graph.at(&constant[..length]).next().is_some());
    DOCUMENTS.iter().any(|document| fits(pattern, 0, document)) && !is_rule
}

/// The keys right below the documents that rules take: `admission` of `package kubernetes.admission`.
pub(crate) fn taken(nodes: &[Node]) -> BTreeSet<(String, String)> {
    let in_document = |node: &&Node| node.path.first().is_some_and(|first| DOCUMENTS.contains(&first.as_str()));
    let key = |node: &Node| Some((node.path.first()?.clone(), node.path.get(1)?.clone()));
    nodes.iter().filter(in_document).filter_map(key).collect()
}

fn in_inventory(pattern: &[Option<String>], kind: &Kind) -> bool {
    // A manifest does not say whether its kind lives in namespaces, so both places count for every kind.
    let at = |scope: &str, at: usize| {
        fits(pattern, 1, scope) && fits(pattern, at, &kind.api_version()) && fits(pattern, at + 1, &kind.kind)
    };
    fits(pattern, 0, DOCUMENTS[0]) && (at("cluster", 2) || at("namespace", 3))
}

fn in_kubernetes(pattern: &[Option<String>], kind: &Kind) -> bool {
    fits(pattern, 0, DOCUMENTS[1]) && fits(pattern, 1, &kind.plural)
}

/// Whether a pattern can mean `key` at this place: it says so, does not say, or ends before.
fn fits(pattern: &[Option<String>], at: usize, key: &str) -> bool {
    pattern.get(at).is_none_or(|known| known.as_ref().is_none_or(|known| known == key))
}

#[cfg(test)]
mod tests {
    use regorus::Engine;

    use super::*;
    use crate::policy::references;

    fn lookups(modules: &[&str]) -> Lookups {
        let mut engine = Engine::new();
        for (index, module) in modules.iter().enumerate() {
            engine.add_policy(format!("{index}.rego"), (*module).to_owned()).unwrap();
        }
        let nodes = references::read(engine.get_modules());
        let graph = Graph::new(&nodes);
        let entry = ["main".to_owned(), "deny".to_owned()];
        Lookups::of(&graph, [&entry[..]])
    }

    /// What can be looked up of Ingresses and of Pods.
    fn of_both(body: &str) -> [Layouts; 2] {
        let lookups =
            lookups(&[&format!("package main\nimport data.inventory as all\ndeny contains 1 if {{ {body} }}")]);
        let ingress = Kind::sample("networking.k8s.io", "ingresses", "Ingress");
        [&ingress, &Kind::sample("", "pods", "Pod")].map(|kind| lookups.layouts(kind))
    }

    const NO: Layouts = Layouts { inventory: false, kubernetes: false };
    const GATEKEEPER: Layouts = Layouts { inventory: true, kubernetes: false };
    const KUBE_MGMT: Layouts = Layouts { inventory: false, kubernetes: true };

    #[test]
    fn constant_kinds_are_told_behind_variables() {
        assert_eq!(of_both(r#"data.inventory.namespace[ns][version]["Ingress"][name].spec"#), [GATEKEEPER, NO]);
        assert_eq!(of_both("all.namespace[_][_].Ingress[_]"), [GATEKEEPER, NO]);
        assert_eq!(of_both(r#"data.inventory.namespace[_]["v1"][_][_]"#), [NO, GATEKEEPER]);
        assert_eq!(of_both(r#"data.inventory.cluster["v1"].Namespace[_]"#), [NO, NO]);
        assert_eq!(of_both("data.kubernetes.pods[_][_]"), [NO, KUBE_MGMT]);
        assert_eq!(of_both("input.kind"), [NO, NO]);
    }

    #[test]
    fn what_is_not_told_is_everything() {
        assert_eq!(of_both("x := data.inventory; x"), [GATEKEEPER, GATEKEEPER]);
        assert_eq!(of_both("walk(data.kubernetes, [_, x])"), [KUBE_MGMT, KUBE_MGMT]);
        assert_eq!(of_both("data.inventory.namespace[_][_][input.kind][_]"), [GATEKEEPER, GATEKEEPER]);
        let both = Layouts { inventory: true, kubernetes: true };
        assert_eq!(of_both("data[x]"), [both, both]);
    }

    #[test]
    fn rules_of_a_package_of_that_name_are_no_objects() {
        let library = "package kubernetes.admission\nallowed contains 1";
        let main = "package main\ndeny contains 1 if data.kubernetes.admission.allowed[1]";
        assert!(lookups(&[main, library]).is_empty());
        assert!(!lookups(&[main]).is_empty());
        let unused = "package main\ndeny contains 1\nother := data.inventory";
        assert!(lookups(&[unused]).is_empty());
    }
}
