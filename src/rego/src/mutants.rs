//! Mutants: copies of a module with one change in a rule that is not a test. If every test passes with a mutant, no test
//! depends on the changed expression.
//!
//! A definition or a statement below a comment `# mutants: equivalent, because …` has no mutants.

use std::ops::RangeInclusive;

use super::{
    position::Position,
    syntax::{Branch, Expr, ExprKind, Key, Module, Statement, StatementNode, SyntaxBody, SyntaxRule, TextSpan},
    test_rules,
};

/// The comment above expressions that make no difference.
const MARK: &str = "# mutants: equivalent, because ";
/// The most characters of an expression that are shown.
const SHOWN: usize = 100;

/// A change of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// Where the changed expression is.
    pub at: Position,
    /// The changed expression on one line, shortened if it is long.
    pub expression: String,
    /// The change, such as `removed`.
    pub change: String,
    /// The lines of the statement or the definition that is changed: a test that evaluates none of them cannot notice.
    pub lines: RangeInclusive<u32>,
    /// Index among the changes of its module.
    index: usize,
}

impl Mutant {
    /// Returns all mutants of a module by their positions; `text` is the text that it was read from.
    pub fn all(module: &Module, text: &str) -> Vec<Self> {
        let mut mutator = Mutator::new(text, None);
        mutator.module(&mut module.clone());
        mutator.found.sort_by_key(|mutant| (mutant.at, mutant.index));
        mutator.found
    }

    /// Returns the module with this change.
    #[must_use]
    pub fn apply(&self, module: &Module) -> Module {
        let mut module = module.clone();
        Mutator::new("", Some(self.index)).module(&mut module);
        module
    }
}

/// Walks through a module, always in the same order, and lists all changes or makes one of them.
struct Mutator<'t> {
    text: &'t str,
    /// Index of the change to make.
    wanted: Option<usize>,
    /// The number of changes so far.
    count: usize,
    found: Vec<Mutant>,
    /// The first line of the definition.
    definition: u32,
    /// The lines of the innermost statement or value.
    lines: RangeInclusive<u32>,
    /// Whether literals are changed.
    literals: bool,
}

impl<'t> Mutator<'t> {
    fn new(text: &'t str, wanted: Option<usize>) -> Self {
        Self { text, wanted, count: 0, found: Vec::new(), definition: 0, lines: 0..=0, literals: true }
    }

    /// Lists a change; returns whether it is the one to make.
    fn makes(&mut self, at: Position, expression: &str, change: String) -> bool {
        let index = self.count;
        self.count += 1;
        let marked = [at.line, *self.lines.start(), self.definition].iter().any(|line| self.is_marked(*line));
        if self.wanted.is_none() && !marked {
            let (expression, lines) = (shortened(expression), self.lines.clone());
            self.found.push(Mutant { at, expression, change, lines, index });
        }
        self.wanted == Some(index)
    }

    /// Whether the comment above a line says that the expressions on it make no difference.
    fn is_marked(&self, line: u32) -> bool {
        let before = self.text.lines().take(line.saturating_sub(1) as usize).collect::<Vec<_>>();
        let comments = before.iter().rev().map(|line| line.trim_start()).take_while(|line| line.starts_with('#'));
        comments.into_iter().any(|comment| comment.starts_with(MARK))
    }

    fn module(&mut self, module: &mut Module) {
        let names: Vec<Option<Vec<_>>> = module.rules.iter().map(|rule| rule.name.path()).collect();
        let mut removed = None;
        for (index, rule) in module.rules.iter_mut().enumerate().filter(|(_, rule)| !test_rules::is_test(rule)) {
            self.definition = rule.at.line;
            self.rule(rule);
            let is_one_of_several = names.iter().filter(|name| **name == names[index]).count() > 1;
            self.lines = rule.at.line..=rule.last_line;
            let name = names[index].as_deref().unwrap_or_default().join(".");
            if is_one_of_several && self.makes(rule.at, &name, "definition removed".to_owned()) {
                removed = Some(index);
            }
        }
        if let Some(index) = removed {
            module.rules.remove(index);
        }
    }

    fn rule(&mut self, rule: &mut SyntaxRule) {
        self.lines = rule.at.line..=rule.last_line;
        rule.parameters.iter_mut().flatten().for_each(|parameter| self.expr(parameter));
        rule.contains.iter_mut().for_each(|element| self.value(element, false));
        let is_constant = rule.parameters.is_none() && rule.first.body.is_none();
        self.branch(&mut rule.first, is_constant);
        let mut removed = None;
        for (index, branch) in rule.others.iter_mut().enumerate() {
            self.branch(branch, false);
            self.lines = branch.at.line..=rule.last_line;
            if self.makes(branch.at, "else", "removed".to_owned()) {
                removed = Some(index);
            }
        }
        if let Some(index) = removed {
            rule.others.remove(index);
        }
    }

    fn branch(&mut self, branch: &mut Branch, is_constant: bool) {
        if let Some((_, value)) = &mut branch.value {
            self.value(value, is_constant);
        }
        branch.body.iter_mut().for_each(|body| self.body(body));
    }

    /// Changes the value of a rule. The literals in the collections of a constant are data.
    fn value(&mut self, value: &mut Expr, is_constant: bool) {
        self.lines = value.at.line..=value.at.line;
        let is_collection = matches!(value.kind, ExprKind::Array(_) | ExprKind::Set(_) | ExprKind::Object(_));
        self.literals = !(is_constant && is_collection);
        self.expr(value);
        self.literals = true;
    }

    fn body(&mut self, body: &mut SyntaxBody) {
        let outer = (self.lines.clone(), self.literals);
        self.literals = true;
        let mut changed = None;
        for index in 0..body.len() {
            let statement = &mut body[index];
            self.lines = statement.at.line..=statement.last_line;
            self.inside(statement);
            self.lines = statement.at.line..=statement.last_line;
            let followed = index + 1 < body.len();
            for change in BodyChange::of(&body[index], followed) {
                let (at, shown) = (body[index].at, self.shown(&body[index]));
                if self.makes(at, &shown, change.name().to_owned()) {
                    changed = Some((index, change));
                }
            }
        }
        if let Some((index, change)) = changed {
            change.make(body, index);
        }
        (self.lines, self.literals) = outer;
    }

    fn inside(&mut self, statement: &mut Statement) {
        match &mut statement.kind {
            StatementNode::Expr(expr) | StatementNode::Not(expr) => self.expr(expr),
            StatementNode::Some(_) => {}
            StatementNode::SomeIn { value, collection, .. } => {
                self.expr(value);
                self.expr(collection);
            }
            StatementNode::Every { collection, body, .. } => {
                self.expr(collection);
                self.body(body);
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        let (at, span) = (expr.at, expr.span);
        match &mut expr.kind {
            ExprKind::Scalar(text) => {
                let changed = changed_literal(text);
                if self.literals && self.makes(at, text, format!("{changed} instead")) {
                    *text = changed.into();
                }
            }
            ExprKind::Binary(operator, left, right) => {
                self.expr(left);
                self.expr(right);
                if let Some(other) = other_operator(operator)
                    && self.makes(at, span.of(self.text), format!("{other} instead of {operator}"))
                {
                    *operator = other;
                }
            }
            ExprKind::Array(items) | ExprKind::Set(items) => self.members(items, span),
            ExprKind::Comprehension(comprehension) => {
                comprehension.key.iter_mut().chain([&mut comprehension.term]).for_each(|term| self.expr(term));
                self.body(&mut comprehension.body);
            }
            ExprKind::Ref(head, keys) => {
                self.expr(head);
                for key in keys {
                    if let Key::Index(index) = key {
                        self.expr(index);
                    }
                }
            }
            ExprKind::Name(_) => {}
            _ => expr.parts(&mut |part| self.expr(part)),
        }
    }

    /// Removes members one at a time, which changes a literal among them as well.
    fn members(&mut self, items: &mut Vec<Expr>, whole: TextSpan) {
        let mut removed = None;
        for (index, item) in items.iter_mut().enumerate() {
            if !matches!(item.kind, ExprKind::Scalar(_)) {
                self.expr(item);
            }
            let shown = format!("{} in {}", item.span.of(self.text), whole.of(self.text));
            if self.makes(item.at, &shown, "removed".to_owned()) {
                removed = Some(index);
            }
        }
        if let Some(index) = removed {
            items.remove(index);
        }
    }

    /// Returns the text of a statement.
    fn shown(&self, statement: &Statement) -> String {
        let text = |span: TextSpan| span.of(self.text);
        let between =
            |first: &Expr, last: &Expr| text(TextSpan { start: first.span.start, end: last.span.end }).to_owned();
        match &statement.kind {
            StatementNode::Expr(expr) => text(expr.span).to_owned(),
            StatementNode::Not(expr) => format!("not {}", text(expr.span)),
            StatementNode::Some(_) => "some".to_owned(),
            StatementNode::SomeIn { key, value, collection } => {
                format!("some {}", between(key.as_ref().unwrap_or(value), collection))
            }
            StatementNode::Every { key, value, collection, .. } => {
                let names: Vec<&str> = key.iter().chain([value]).map(|name| &**name).collect();
                format!("every {} in {}", names.join(", "), text(collection.span))
            }
        }
    }
}

/// A change of a statement in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyChange {
    Remove,
    Negate,
    SomeForEvery,
    EveryForSome,
}

impl BodyChange {
    /// Returns the changes of a statement that others may follow.
    fn of(statement: &Statement, followed: bool) -> Vec<Self> {
        match &statement.kind {
            // Without a declaration or an assignment, a variable has no value.
            StatementNode::Some(_) | StatementNode::Expr(Expr { kind: ExprKind::Binary(":=", ..), .. }) => Vec::new(),
            // The other operator is a change of its own.
            StatementNode::Expr(Expr { kind: ExprKind::Binary("=" | "==" | "!=", ..), .. }) => vec![Self::Remove],
            StatementNode::Expr(_) | StatementNode::Not(_) => vec![Self::Remove, Self::Negate],
            StatementNode::SomeIn { key, value, .. } => {
                let has_names = key.iter().chain([value]).all(|name| name.as_name().is_some());
                if followed && has_names { vec![Self::Remove, Self::EveryForSome] } else { vec![Self::Remove] }
            }
            StatementNode::Every { .. } => vec![Self::Remove, Self::SomeForEvery],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Remove => "removed",
            Self::Negate => "negated",
            Self::SomeForEvery => "some instead of every",
            Self::EveryForSome => "every instead of some",
        }
    }

    fn make(self, body: &mut SyntaxBody, index: usize) {
        let at = body[index].at;
        let statement = std::mem::replace(&mut body[index], Statement::plain(Expr::scalar(at, "true")));
        match (self, statement.kind) {
            (Self::Negate, StatementNode::Expr(expr)) => body[index].kind = StatementNode::Not(expr),
            (Self::Negate, StatementNode::Not(expr)) => body[index].kind = StatementNode::Expr(expr),
            (Self::SomeForEvery, StatementNode::Every { key, value, collection, body: inner }) => {
                let key = key.map(|name| Expr::name(at, &name));
                let value = Expr::name(at, &value);
                body[index].kind = StatementNode::SomeIn { key, value, collection };
                let after = body.split_off(index + 1);
                body.extend(inner.into_iter().chain(after));
            }
            (Self::EveryForSome, StatementNode::SomeIn { key, value, collection }) => {
                let name = |expr: &Expr| expr.as_name().cloned();
                let inner = body.split_off(index + 1);
                if let Some(value) = name(&value) {
                    let key = key.as_ref().and_then(name);
                    body[index].kind = StatementNode::Every { key, value, collection, body: inner };
                }
            }
            _ => {}
        }
        body[index].with = statement.with;
    }
}

/// Returns another literal of the same type; for `null`, a value that is not null.
fn changed_literal(text: &str) -> String {
    match text {
        "true" | "null" => "false".to_owned(),
        "false" => "true".to_owned(),
        _ => match (text.chars().last(), text.parse::<i64>()) {
            (Some(quote @ ('"' | '`')), _) => format!("{}~{quote}", &text[..text.len() - 1]),
            (_, Ok(number)) => number.saturating_add(1).to_string(),
            _ => format!("1{text}"),
        },
    }
}

fn other_operator(operator: &str) -> Option<&'static str> {
    Some(match operator {
        "==" => "!=",
        "!=" => "==",
        "<" => "<=",
        "<=" => "<",
        ">" => ">=",
        ">=" => ">",
        _ => return None,
    })
}

/// Returns a text on one line, without what does not fit.
fn shortened(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    /// Returns position, expression and change of each mutant.
    fn mutants(text: &str) -> Vec<String> {
        let module = syntax::read(text, None).unwrap();
        let shown = |mutant: &Mutant| {
            format!("{}:{} {}: {}", mutant.at.line, mutant.at.column, mutant.expression, mutant.change)
        };
        Mutant::all(&module, text).iter().map(shown).collect()
    }

    #[test]
    fn every_expression_of_a_body_has_mutants() {
        let text = r#"package p

deny contains msg if {
	input.kind == "Pod"
	some container in input.containers
	not container.name in {"a", "b"}
	count(container.ports) > 1
	every port in container.ports { port.public }
	msg := sprintf("%s", [container.name])
}
"#;
        assert_eq!(
            mutants(text),
            [
                r#"4:2 input.kind == "Pod": != instead of =="#,
                r#"4:2 input.kind == "Pod": removed"#,
                r#"4:16 "Pod": "Pod~" instead"#,
                "5:2 some container in input.containers: removed",
                "5:2 some container in input.containers: every instead of some",
                r#"6:2 not container.name in {"a", "b"}: removed"#,
                r#"6:2 not container.name in {"a", "b"}: negated"#,
                r#"6:25 "a" in {"a", "b"}: removed"#,
                r#"6:30 "b" in {"a", "b"}: removed"#,
                "7:2 count(container.ports) > 1: >= instead of >",
                "7:2 count(container.ports) > 1: removed",
                "7:2 count(container.ports) > 1: negated",
                "7:27 1: 2 instead",
                "8:2 every port in container.ports: removed",
                "8:2 every port in container.ports: some instead of every",
                "8:34 port.public: removed",
                "8:34 port.public: negated",
                r#"9:17 "%s": "%s~" instead"#,
                "9:24 container.name in [container.name]: removed",
            ]
        );
    }

    #[test]
    fn definitions_branches_and_members_are_removed() {
        let text = "package p\n\na := \"x\" if input.a\nelse := \"y\"\n\nb contains 1\n\nb contains 2\n\nc := {\"k\": [3, 4]}\n";
        assert_eq!(
            mutants(text),
            [
                r#"3:6 "x": "x~" instead"#,
                "3:13 input.a: removed",
                "3:13 input.a: negated",
                "4:1 else: removed",
                r#"4:9 "y": "y~" instead"#,
                "6:1 b: definition removed",
                "6:12 1: 2 instead",
                "8:1 b: definition removed",
                "8:12 2: 3 instead",
                "10:13 3 in [3, 4]: removed",
                "10:16 4 in [3, 4]: removed",
            ]
        );
    }

    #[test]
    fn tests_and_marked_expressions_have_no_mutants() {
        let text = "package p\n\ntest_a if input.a\n\nb if {\n\t# mutants: equivalent, because it only saves time\n\t# in the end.\n\tinput.a == 1\n\tinput.b\n}\n";
        assert_eq!(mutants(text), ["9:2 input.b: removed", "9:2 input.b: negated"]);
        let text = "package p\n\n# mutants: equivalent, because these are data.\na := [1, 2]\n\n# Another comment.\nb := [3]\n";
        assert_eq!(mutants(text), ["7:7 3 in [3]: removed"]);
    }

    #[test]
    fn a_mutant_is_the_module_with_its_change() {
        let text = "package p\n\na if {\n\tsome x in input.xs\n\tx > 1\n}\n\na if every x in input.ys { x.y == 1 }\n";
        let module = syntax::read(text, None).unwrap();
        let rules = |module: &Module| format!("{:?}", module.rules);
        let mut seen = vec![rules(&module)];
        for mutant in Mutant::all(&module, text) {
            seen.push(rules(&mutant.apply(&module)));
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((count, seen.len()), (14, 14), "each differs from the module and from all others");
    }
}
