//! Random rules and functions.

use super::{
    KnownRule, LITERALS, ModuleGenerator,
    module::{RandomDefinition, RandomElse, RandomHead},
};

/// METADATA of definitions, and other comments. All of it is valid: kaudit-rego does not parse it.
const COMMENTS: [&str; 5] = [
    "# METADATA\n# title: Names\n",
    "# METADATA\n# title: \"ä: #\"\n# description: |\n#   two\n#   lines\n# custom:\n#   level: 1\n#   list: [a, 2.5]\n",
    "# METADATA\n# scope: rule\n# authors:\n# - A B <a@example.com>\n# related_resources:\n# - https://example.com\n",
    "# METADATA\n# schemas: []\n# organizations: [x]\n",
    "# a comment about METADATA\n",
];

/// The path and value of a head, and whether the value is an element of a set.
struct HeadParts {
    rule: String,
    is_element: bool,
    value: String,
}

impl HeadParts {
    fn element(rule: String, value: String) -> Self {
        Self { rule, is_element: true, value }
    }

    fn value(rule: String, value: String) -> Self {
        Self { rule, is_element: false, value }
    }
}

impl ModuleGenerator {
    /// Adds the definitions of one rule or function; returns the rules that may be referred to.
    pub(super) fn rule(&mut self, name: &str, definitions: &mut Vec<RandomDefinition>) -> Vec<KnownRule> {
        let count = self.random.usize(1..=3);
        match self.random.u8(..12) {
            0 | 1 => return self.functions(name, count, definitions),
            2..=4 => {
                self.repeat(name, count, definitions, |random| HeadParts::element(name.to_owned(), random.term(2)));
            }
            5 | 6 => self.repeat(name, count, definitions, |random| {
                HeadParts::value(format!("{name}[{}]", random.key()), random.term(2))
            }),
            7 => self.deep(name, count, definitions),
            8 => {
                self.fields(name, count, definitions);
                return vec![KnownRule::rule(name), KnownRule::rule(&format!("{name}.a"))];
            }
            _ => self.values(name, count, definitions),
        }
        vec![KnownRule::rule(name)]
    }

    fn repeat(
        &mut self,
        name: &str,
        count: usize,
        definitions: &mut Vec<RandomDefinition>,
        head: impl Fn(&mut Self) -> HeadParts,
    ) {
        let path = vec![name.to_owned()];
        for _ in 0..count {
            let definition = self.definition(Some(&path), &head);
            definitions.push(definition);
        }
    }

    fn functions(&mut self, name: &str, count: usize, definitions: &mut Vec<RandomDefinition>) -> Vec<KnownRule> {
        let arity = self.random.usize(1..=2);
        for _ in 0..count {
            let definition = self.function(name, arity);
            definitions.push(definition);
        }
        if self.rarely(4) {
            let rule = format!("{name}({})", vec!["_"; arity].join(", "));
            let head = RandomHead::Default { rule, value: self.one(&LITERALS).to_owned() };
            definitions.push(plain(None, head));
        }
        vec![KnownRule { arity, ..KnownRule::rule(name) }]
    }

    /// Adds definitions with several keys.
    fn deep(&mut self, name: &str, count: usize, definitions: &mut Vec<RandomDefinition>) {
        // `opa` also adds elements to a set that is a value, and then to all sets that are shared with it.
        let is_element = self.bool();
        self.repeat(name, count, definitions, |random| {
            let key = random.key();
            let deeper = if random.rarely(2) { format!("[{}]", random.key()) } else { ".y".to_owned() };
            HeadParts { rule: format!("{name}[{key}]{deeper}"), is_element, value: random.term(1) }
        });
    }

    /// Adds rules below one path.
    fn fields(&mut self, name: &str, count: usize, definitions: &mut Vec<RandomDefinition>) {
        let is_mixed = self.rarely(3);
        for key in ["a", "b", "web"].iter().take(count) {
            let own = vec![name.to_owned(), (*key).to_owned()];
            let mut definition =
                self.definition(Some(&own), |random| HeadParts::value(format!("{name}.{key}"), random.term(2)));
            if is_mixed {
                // Which of these branches `opa` evaluates depends on its index.
                definition.others.clear();
            }
            definitions.push(definition);
        }
        if is_mixed {
            let mut definition = self.definition(Some(&vec![name.to_owned()]), |random| {
                HeadParts::value(format!("{name}[{}]", random.key()), random.term(1))
            });
            definition.path = None;
            definitions.push(definition);
        }
        let value = format!("{{k | {name}[k]}}");
        definitions.push(plain(None, RandomHead::Value { rule: format!("{name}_keys"), operator: ":=", value }));
    }

    /// Adds definitions of one value, most of which agree.
    fn values(&mut self, name: &str, count: usize, definitions: &mut Vec<RandomDefinition>) {
        let constant = self.one(&LITERALS).to_owned();
        self.repeat(name, count, definitions, |random| {
            let value = if random.rarely(3) { random.term(2) } else { constant.clone() };
            HeadParts::value(name.to_owned(), value)
        });
        if self.rarely(3) {
            let value = match self.random.u8(..4) {
                0 if self.syntax.has_keywords() => "[x | some x in [1, 2]]".to_owned(),
                0 | 1 => "{\"a\": [1]}".to_owned(),
                _ => self.one(&LITERALS).to_owned(),
            };
            let head = RandomHead::Default { rule: name.to_owned(), value };
            definitions.push(plain(Some(vec![name.to_owned()]), head));
        }
    }

    fn function(&mut self, name: &str, arity: usize) -> RandomDefinition {
        self.variables.clear();
        let parameters: Vec<String> = (0..arity).map(|_| self.parameter()).collect();
        let mut body = Vec::new();
        let statements = self.random.usize(..3);
        self.statements(statements, 2, &mut body);
        let head = RandomHead::Value {
            rule: format!("{name}({})", parameters.join(", ")),
            operator: self.assignment(),
            value: self.term(1),
        };
        RandomDefinition { body, ..plain(None, head) }
    }

    fn parameter(&mut self) -> String {
        match self.random.u8(..8) {
            0 => self.one(&LITERALS).to_owned(),
            1 => {
                let (left, right) = (self.variable(), self.variable());
                format!("[{left}, {right}]")
            }
            2 => format!("{{\"name\": {}}}", self.variable()),
            3 => "_".to_owned(),
            _ => self.variable(),
        }
    }

    /// Returns the operator between a head and its value.
    fn assignment(&mut self) -> &'static str {
        if self.rarely(4) { "=" } else { ":=" }
    }

    /// Returns a definition of a rule. Its body is generated first, so that its head can use the body's variables.
    fn definition(
        &mut self,
        path: Option<&Vec<String>>,
        head: impl FnOnce(&mut Self) -> HeadParts,
    ) -> RandomDefinition {
        self.variables.clear();
        let mut body = Vec::new();
        let statements = self.random.usize(1..5);
        self.statements(statements, 2, &mut body);
        let HeadParts { rule, is_element, value } = head(self);
        let others = if is_element || rule.contains('[') { Vec::new() } else { self.others() };
        let comment = if self.rarely(10) { self.one(&COMMENTS).to_owned() } else { String::new() };
        let head = if is_element {
            RandomHead::Element { rule, element: value }
        } else {
            RandomHead::Value { rule, operator: self.assignment(), value }
        };
        RandomDefinition { comment, body, others, ..plain(path.cloned(), head) }
    }

    /// Returns none, one or two `else` branches.
    fn others(&mut self) -> Vec<RandomElse> {
        let count = if self.rarely(4) { self.random.usize(1..3) } else { 0 };
        let other = |random: &mut Self| {
            random.variables.clear();
            let mut body = Vec::new();
            random.statements(1, 1, &mut body);
            RandomElse { value: random.term(1), body }
        };
        (0..count).map(|_| other(self)).collect()
    }
}

/// Returns a definition without a condition.
fn plain(path: Option<Vec<String>>, head: RandomHead) -> RandomDefinition {
    RandomDefinition { path, comment: String::new(), head, body: Vec::new(), others: Vec::new() }
}
