//! What each rule of regorus' syntax tree refers to, and what its parts are.

use std::collections::{BTreeMap, BTreeSet};

use regorus::{
    Value,
    unstable::{AssignOp, Expr, Literal, Module, Query, Ref, Rule, RuleAssign, RuleHead, Span},
};

use crate::rego::references::{Call, Node, Path};

/// Returns the package of a module, without `data`.
pub(crate) fn package(module: &Module) -> Path {
    constant_path(&module.package.refr).0
}

/// Splits a reference into its constant beginning and the rest: `a.b["c"][x].d` is `a b c` and not whole.
pub(crate) fn constant_path(mut expr: &Expr) -> (Path, bool) {
    let mut keys = Vec::new();
    loop {
        match expr {
            Expr::Var { span, .. } => {
                keys.push(Some(span.text().to_owned()));
                break;
            }
            Expr::RefDot { refr, field, .. } => {
                keys.push(Some(field.0.text().to_owned()));
                expr = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                keys.push(constant_key(index));
                expr = refr;
            }
            _ => {
                keys.push(None);
                break;
            }
        }
    }
    let whole = keys.iter().all(Option::is_some);
    (keys.into_iter().rev().map_while(|key| key).collect(), whole)
}

/// Returns the first name of a reference. The span of a whole one begins at its last part.
fn begin(mut expr: &Expr) -> &Span {
    while let Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } = expr {
        expr = refr;
    }
    expr.span()
}

fn constant_key(expr: &Expr) -> Option<String> {
    match expr {
        Expr::String { value: Value::String(text), .. } | Expr::RawString { value: Value::String(text), .. } => {
            Some(text.to_string())
        }
        _ => None,
    }
}

/// Returns what a rule's head names, whether it is a partial set, and its parameters if it is a function.
pub(crate) fn head(rule: &Rule) -> (&Ref<Expr>, bool, Option<usize>) {
    match rule {
        Rule::Spec { head: RuleHead::Compr { refr, .. }, .. } => (refr, false, None),
        Rule::Spec { head: RuleHead::Set { refr, key, .. }, .. } => (refr, key.is_some(), None),
        Rule::Spec { head: RuleHead::Func { refr, args, .. }, .. } => (refr, false, Some(args.len())),
        Rule::Default { refr, args, .. } => (refr, false, (!args.is_empty()).then_some(args.len())),
    }
}

/// Returns the keys that a rule's head names inside its package, and whether they are all constant.
pub(crate) fn head_path(rule: &Rule) -> (Path, bool) {
    constant_path(head(rule).0)
}

/// Reads all rules of all modules. The `missing` rules of refused files are known by name, too.
pub(crate) fn read<'a>(modules: &[Ref<Module>], missing: impl Iterator<Item = &'a Path>) -> Vec<Node> {
    let mut names: BTreeMap<Path, BTreeSet<String>> = BTreeMap::new();
    for module in modules {
        let names = names.entry(package(module)).or_default();
        names.extend(module.policy.iter().filter_map(|rule| head_path(rule).0.into_iter().next()));
    }
    for path in missing {
        for (length, name) in path.iter().enumerate() {
            if let Some(names) = names.get_mut(&path[..length]) {
                names.insert(name.clone());
            }
        }
    }
    let mut nodes = Vec::new();
    for (index, module) in modules.iter().enumerate() {
        let package = package(module);
        let aliases = aliases(module);
        let rules = &names[&package];
        for (number, rule) in module.policy.iter().enumerate() {
            let mut path = package.clone();
            path.extend(head_path(rule).0);
            let span = rule.span();
            let node = Node {
                module: index,
                rule: number,
                path,
                parameters: head(rule).2,
                line: span.line,
                column: span.col,
                package: package.len(),
                ..Node::default()
            };
            let mut reader = RegorusReader { package: &package, rules, aliases: &aliases, scopes: Vec::new(), node };
            reader.rule(rule);
            nodes.push(reader.node);
        }
    }
    nodes
}

/// Returns the paths that a module imports, by their aliases.
pub(crate) fn aliases(module: &Module) -> BTreeMap<String, Path> {
    let mut aliases = BTreeMap::new();
    for import in &module.imports {
        let (path, _) = constant_path(&import.refr);
        if !matches!(path.first().map(String::as_str), Some("data" | "input")) {
            continue;
        }
        let alias = import.r#as.as_ref().map(|span| span.text().to_owned()).or_else(|| path.last().cloned());
        aliases.extend(alias.map(|alias| (alias, path)));
    }
    aliases
}

/// What the first name of a reference means.
enum Root {
    /// `data` or `input` and the keys behind it.
    Document(Path),
    /// A variable.
    Local,
    /// Nothing that is known here; a builtin if it is called.
    Unknown,
}

/// Walks one rule.
struct RegorusReader<'a> {
    package: &'a Path,
    rules: &'a BTreeSet<String>,
    aliases: &'a BTreeMap<String, Path>,
    scopes: Vec<BTreeSet<String>>,
    node: Node,
}

impl RegorusReader<'_> {
    fn rule(&mut self, rule: &Rule) {
        match rule {
            Rule::Default { value, .. } => self.expr(value),
            Rule::Spec { head, bodies, .. } => {
                let mut outer = BTreeSet::new();
                if let RuleHead::Func { args, .. } = head {
                    patterns(args, &mut outer);
                }
                // The head's key and value see the variables of the body.
                for body in bodies {
                    declared(&body.query, &mut outer);
                }
                self.scopes.push(outer);
                match head {
                    RuleHead::Compr { refr, assign, .. } => {
                        self.indices(refr);
                        self.assigned(assign.as_ref());
                    }
                    RuleHead::Set { refr, key, .. } => {
                        self.indices(refr);
                        if let Some(key) = key {
                            self.value(key);
                        }
                    }
                    RuleHead::Func { args, assign, .. } => {
                        self.exprs(args);
                        self.assigned(assign.as_ref());
                    }
                }
                for body in bodies {
                    self.assigned(body.assign.as_ref());
                    self.query(&body.query);
                }
                self.scopes.pop();
            }
        }
    }

    fn assigned(&mut self, assign: Option<&RuleAssign>) {
        if let Some(assign) = assign {
            self.value(&assign.value);
        }
    }

    fn query(&mut self, query: &Query) {
        let mut scope = BTreeSet::new();
        declared(query, &mut scope);
        self.scopes.push(scope);
        for statement in &query.stmts {
            match &statement.literal {
                Literal::SomeVars { .. } => {}
                Literal::SomeIn { key, value, collection, .. } => {
                    self.exprs(key.iter().chain([value, collection]));
                }
                Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.expr(expr),
                Literal::Every { key, value, domain, query, .. } => {
                    self.expr(domain);
                    let names = key.iter().chain([value]).map(|span| span.text().to_owned());
                    self.scopes.push(names.collect());
                    self.query(query);
                    self.scopes.pop();
                }
            }
            // What `with` replaces is written, not read.
            for with in &statement.with_mods {
                self.indices(&with.refr);
                self.expr(&with.r#as);
            }
        }
        self.scopes.pop();
    }

    /// Reads an expression whose value is kept under another name.
    fn value(&mut self, expr: &Expr) {
        if let Expr::Var { span, .. } = expr
            && let Root::Document(path) = self.root(span.text())
            && path.len() == 1
            && path[0] == "input"
        {
            self.node.whole_input = true;
        }
        self.expr(expr);
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Ref<Expr>>) {
        for expr in exprs {
            self.expr(expr);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => self.reference(expr),
            Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().for_each(|item| self.value(item)),
            Expr::Object { fields, .. } => fields.iter().for_each(|(_, key, value)| {
                self.expr(key);
                self.value(value);
            }),
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.comprehension(&[term], query);
            }
            Expr::ObjectCompr { key, value, query, .. } => self.comprehension(&[key, value], query),
            Expr::Call { fcn, params, .. } => self.call(fcn, params),
            Expr::UnaryExpr { expr, .. } => self.expr(expr),
            Expr::BinExpr { lhs, rhs, .. } | Expr::BoolExpr { lhs, rhs, .. } | Expr::ArithExpr { lhs, rhs, .. } => {
                self.expr(lhs);
                self.expr(rhs);
            }
            Expr::AssignExpr { lhs, rhs, .. } => {
                self.value(lhs);
                self.value(rhs);
            }
            Expr::Membership { key, value, collection, .. } => {
                self.exprs(key.iter().chain([value, collection]));
            }
        }
    }

    fn comprehension(&mut self, terms: &[&Expr], query: &Query) {
        let mut scope = BTreeSet::new();
        declared(query, &mut scope);
        self.scopes.push(scope);
        for term in terms {
            self.value(term);
        }
        self.query(query);
        self.scopes.pop();
    }

    /// Reads what is in the brackets of a reference.
    fn indices(&mut self, mut expr: &Expr) {
        loop {
            match expr {
                Expr::RefDot { refr, .. } => expr = refr,
                Expr::RefBrack { refr, index, .. } => {
                    self.expr(index);
                    expr = refr;
                }
                Expr::Var { .. } => return,
                other => return self.expr(other),
            }
        }
    }

    fn reference(&mut self, expr: &Expr) {
        self.indices(expr);
        self.use_path(&constant_path(expr).0);
    }

    fn use_path(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else { return };
        if let Root::Document(mut path) = self.root(first) {
            path.extend_from_slice(rest);
            let below = path.split_off(1);
            if path[0] == "input" {
                self.node.inputs.insert(below);
            } else {
                self.node.uses.insert(below);
            }
        }
    }

    fn root(&self, name: &str) -> Root {
        if self.scopes.iter().any(|scope| scope.contains(name)) {
            Root::Local
        } else if matches!(name, "input" | "data") {
            Root::Document(vec![name.to_owned()])
        } else if self.rules.contains(name) {
            let package = self.package.iter().map(String::as_str);
            Root::Document(["data"].into_iter().chain(package).chain([name]).map(str::to_owned).collect())
        } else if let Some(path) = self.aliases.get(name) {
            Root::Document(path.clone())
        } else {
            Root::Unknown
        }
    }

    fn call(&mut self, function: &Expr, arguments: &[Ref<Expr>]) {
        let span = begin(function);
        let (name, _) = constant_path(function);
        let root = name.first().map(|first| self.root(first));
        let mut rule = None;
        if let (Some(Root::Document(mut path)), Some((_, rest))) = (root, name.split_first()) {
            path.extend_from_slice(rest);
            let below = path.split_off(1);
            if path[0] == "data" {
                self.node.uses.insert(below.clone());
                rule = Some(below);
            }
        }
        for argument in arguments {
            // What a function of the policy does with the whole input is not seen; what a builtin does is harmless.
            if rule.is_some() { self.value(argument) } else { self.expr(argument) }
        }
        let name = name.join(".");
        if let ("object.get", [object, key, ..]) = (name.as_str(), arguments) {
            self.object_get(object, key);
        }
        self.node.calls.push(Call { name, rule, line: span.line, column: span.col });
    }

    /// `object.get(input, "request", …)` reads `input.request`.
    fn object_get(&mut self, object: &Expr, key: &Expr) {
        let (mut path, whole) = constant_path(object);
        let keys = match key {
            Expr::Array { items, .. } => items.iter().map_while(|item| constant_key(item)).collect(),
            other => constant_key(other).into_iter().collect::<Vec<_>>(),
        };
        if whole && !keys.is_empty() {
            path.extend(keys);
            self.use_path(&path);
        }
    }
}

/// Collects the variables that a query declares itself; what is only unified stays with rules and imports.
pub(crate) fn declared(query: &Query, names: &mut BTreeSet<String>) {
    for statement in &query.stmts {
        match &statement.literal {
            Literal::SomeVars { vars, .. } => names.extend(vars.iter().map(|span| span.text().to_owned())),
            Literal::SomeIn { key, value, .. } => {
                patterns(key.iter().chain([value]), names);
            }
            Literal::Expr { expr, .. } => {
                if let Expr::AssignExpr { op: AssignOp::ColEq, lhs, .. } = expr.as_ref() {
                    pattern(lhs, names);
                }
            }
            Literal::NotExpr { .. } | Literal::Every { .. } => {}
        }
    }
}

pub(crate) fn patterns<'e>(exprs: impl IntoIterator<Item = &'e Ref<Expr>>, names: &mut BTreeSet<String>) {
    for expr in exprs {
        pattern(expr, names);
    }
}

/// Collects the variables of a pattern: `[a, {"k": b}]`.
fn pattern(expr: &Expr, names: &mut BTreeSet<String>) {
    match expr {
        Expr::Var { span, .. } if !matches!(span.text(), "_" | "input" | "data") => {
            names.insert(span.text().to_owned());
        }
        Expr::Array { items, .. } => items.iter().for_each(|item| pattern(item, names)),
        Expr::Object { fields, .. } => fields.iter().for_each(|(_, _, value)| pattern(value, names)),
        _ => {}
    }
}

/// Returns the expressions right inside another one, comprehensions left out.
pub(crate) fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().map(AsRef::as_ref).collect(),
        Expr::Object { fields, .. } => {
            fields.iter().flat_map(|(_, key, value)| [key.as_ref(), value.as_ref()]).collect()
        }
        Expr::Call { fcn, params, .. } => [fcn].into_iter().chain(params).map(AsRef::as_ref).collect(),
        Expr::UnaryExpr { expr, .. } => vec![expr],
        Expr::RefDot { refr, .. } => vec![refr],
        Expr::RefBrack { refr, index, .. } => vec![refr, index],
        Expr::BinExpr { lhs, rhs, .. }
        | Expr::BoolExpr { lhs, rhs, .. }
        | Expr::ArithExpr { lhs, rhs, .. }
        | Expr::AssignExpr { lhs, rhs, .. } => vec![lhs, rhs],
        Expr::Membership { key, value, collection, .. } => {
            key.iter().chain([value, collection]).map(AsRef::as_ref).collect()
        }
        _ => Vec::new(),
    }
}
