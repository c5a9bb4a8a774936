//! Resolved definitions as [`Node`]s: the references of each.

use super::{
    term::{
        DATA, Function, INPUT, ResolvedBody, ResolvedCall, ResolvedEvery, ResolvedResult, ResolvedRule,
        ResolvedStatement, ResolvedStatementKind, ResolvedTerm, ResolvedValue, TemplatePart, WithTargetValue,
    },
    tree::RuleTree,
};
use crate::{
    constant::Constant,
    references::{self, DefinitionForm, Node, Path},
    syntax::{Module, Position},
};

/// Returns the nodes of rules, which have the order of the modules.
pub(super) fn nodes(modules: &[&Module], rules: &[ResolvedRule]) -> Vec<Node> {
    let tree = &RuleTree::new(rules);
    let packages: Vec<usize> = modules.iter().map(|module| module.package_path().len()).collect();
    let written = modules.iter().flat_map(|module| module.rules.iter().enumerate());
    let all = rules.iter().zip(written).map(|(rule, (index, written))| {
        let path = rule.text_path();
        let is_scalar = |term: &ResolvedTerm| matches!(term.value, ResolvedValue::Constant(_));
        let gives_collections = if rule.is_function() || rule.default {
            !rule.chain().all(|branch| is_scalar(result(branch)))
        } else {
            true
        };
        let mut reader = NodeReader {
            tree,
            rules,
            node: Node {
                module: rule.module,
                rule: index,
                is_whole: path.len() == rule.path.len(),
                path,
                package: packages[rule.module],
                form: match &rule.result {
                    _ if rule.default => DefinitionForm::Default,
                    ResolvedResult::Element(_) => DefinitionForm::Element,
                    ResolvedResult::Value(_) => DefinitionForm::Value,
                },
                parameters: rule.is_function().then(|| rule.arity()),
                line: rule.at.line,
                column: rule.at.column,
                last_line: written.last_line,
                // The heads of all definitions except functions may build a collection.
                collections: usize::from(!rule.is_function()),
                gives_collections,
                ..Node::default()
            },
        };
        rule.chain().for_each(|branch| reader.branch(branch));
        reader.node.stack = super::depth::rule(rule);
        reader.node
    });
    all.collect()
}

fn result(rule: &ResolvedRule) -> &ResolvedTerm {
    let (ResolvedResult::Value(result) | ResolvedResult::Element(result)) = &rule.result;
    result
}

struct NodeReader<'a> {
    tree: &'a RuleTree,
    /// The rules of the tree.
    rules: &'a [ResolvedRule],
    node: Node,
}

impl NodeReader<'_> {
    fn branch(&mut self, branch: &ResolvedRule) {
        branch.path.iter().chain(branch.parameters.iter().flatten()).for_each(|term| self.term(term));
        self.value(result(branch));
        self.body(&branch.body);
    }

    fn body(&mut self, body: &ResolvedBody) {
        for statement in body {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &ResolvedStatement) {
        match &statement.kind {
            ResolvedStatementKind::Term(term) => self.term(term),
            ResolvedStatementKind::Call(call) => self.call(call, statement.at),
            ResolvedStatementKind::Unify(left, right) => {
                self.value(left);
                self.value(right);
            }
            ResolvedStatementKind::Every(every) => {
                let ResolvedEvery { domain, body, .. } = &**every;
                self.term(domain);
                self.body(body);
            }
            ResolvedStatementKind::Not(body) => self.body(body),
        }
        for with in &statement.with {
            // The target is written, not read.
            if let WithTargetValue::Ref(items) = &with.target.value {
                if items.first().and_then(ResolvedTerm::as_variable) == Some(DATA) {
                    self.node.replaces.insert(ResolvedTerm::texts(&items[1..]));
                    self.node.targets.extend(self.tree.referenced(&items[1..], self.rules));
                }
                items.iter().skip(1).for_each(|key| self.term(key));
            }
            self.term(&with.value);
        }
    }

    /// Visits a term whose value is then available under another name.
    fn value(&mut self, term: &ResolvedTerm) {
        let is_input = |term: &ResolvedTerm| term.as_variable() == Some(INPUT);
        self.node.whole_input |= match &term.value {
            ResolvedValue::Ref(items) => items.len() == 1 && items.iter().all(is_input),
            _ => is_input(term),
        };
        self.term(term);
    }

    fn term(&mut self, term: &ResolvedTerm) {
        match &term.value {
            ResolvedValue::Variable(variable) => self.path(*variable, &[]),
            ResolvedValue::Ref(items) => {
                let Some((first, keys)) = items.split_first() else { return };
                for key in keys {
                    self.term(key);
                }
                match first.as_variable() {
                    Some(variable) => self.path(variable, keys),
                    None => self.term(first),
                }
            }
            ResolvedValue::Array(items) | ResolvedValue::Set(items) => {
                self.node.collections += 1;
                for item in items {
                    self.value(item);
                }
            }
            ResolvedValue::Object(fields) => {
                self.node.collections += 1;
                for (key, value) in fields {
                    self.term(key);
                    self.value(value);
                }
            }
            ResolvedValue::Comprehension(comprehension) => {
                self.node.collections += 1;
                comprehension.key.iter().chain([&comprehension.term]).for_each(|term| self.value(term));
                self.body(&comprehension.body);
            }
            ResolvedValue::Call(call) => self.call(call, term.at),
            ResolvedValue::Template(parts) => {
                // An array of strings and sets.
                self.node.collections += 1 + parts.len();
                for part in parts {
                    if let TemplatePart::Statement(statement) = part {
                        self.statement(statement);
                    }
                }
            }
            ResolvedValue::Constant(_) | ResolvedValue::Builtin(_) => {}
        }
    }

    fn path(&mut self, document: super::term::Variable, keys: &[ResolvedTerm]) {
        if document == INPUT {
            self.node.inputs.insert(ResolvedTerm::texts(keys));
        } else if document == DATA {
            self.node.uses.insert(ResolvedTerm::texts(keys));
            self.node.targets.extend(self.tree.referenced(keys, self.rules));
        }
    }

    fn call(&mut self, call: &ResolvedCall, at: Position) {
        let (name, rule) = match &call.function {
            Function::Rule(path) => {
                self.node.targets.extend(self.tree.at(path).into_iter().flat_map(|node| &node.rules));
                let path: Path = path.iter().map_while(Constant::as_text).map(ToString::to_string).collect();
                self.node.uses.insert(path.clone());
                (format!("data.{}", path.join(".")), Some(path))
            }
            Function::Builtin(name) | Function::Unknown(name) => (name.to_string(), None),
        };
        for argument in &call.arguments {
            // The use of the whole input in a function of the policy is not tracked; its use in a builtin is harmless.
            if rule.is_some() { self.value(argument) } else { self.term(argument) }
        }
        if let ("object.get", [object, key, ..]) = (name.as_str(), call.arguments.as_slice()) {
            self.object_get(object, key);
        }
        self.node.calls.push(references::Call { name, rule, line: at.line, column: at.column });
    }

    /// Adds the path read by `object.get(input, "request", …)`, which is `input.request`.
    fn object_get(&mut self, object: &ResolvedTerm, key: &ResolvedTerm) {
        let keys = match &key.value {
            ResolvedValue::Array(items) => items.as_slice(),
            _ => std::slice::from_ref(key),
        };
        if ResolvedTerm::texts(keys).is_empty() {
            return;
        }
        match &object.value {
            ResolvedValue::Variable(variable) => self.path(*variable, keys),
            ResolvedValue::Ref(items) => {
                let Some((first, own)) = items.split_first() else { return };
                if let Some(document) = first.as_variable().filter(|_| ResolvedTerm::texts(own).len() == own.len()) {
                    let all: Vec<ResolvedTerm> = own.iter().chain(keys).cloned().collect();
                    self.path(document, &all);
                }
            }
            _ => {}
        }
    }
}
