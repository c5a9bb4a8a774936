//! Tokens to a syntax tree, by OPA's grammar: modules, rules and statements. [`super::terms`] parses expressions.

use std::sync::Arc;

use super::{
    lexer::{RegoToken, SyntaxError, TokenKind, tokens},
    shape,
    tree::{
        Branch, Comprehension, ComprehensionKind, Expr, ExprKind, Import, Key, Module, Name, Position, Statement,
        StatementNode, SyntaxBody, SyntaxRule, TextSpan, Version, With,
    },
};

/// The deepest nesting of expressions; the shape check before has a lower limit.
const DEEPEST: u32 = 100;

/// Names that are not variables in any version.
const KEYWORDS: &[&str] =
    &["as", "default", "else", "false", "import", "null", "package", "some", "true", "not", "with"];
const LATER_KEYWORDS: &[&str] = &["contains", "every", "if", "in"];

pub(super) type ParseResult<T> = Result<T, SyntaxError>;

/// Parses a module in the given version.
pub(super) fn module(text: &str, version: Version) -> ParseResult<Module> {
    let tokens = tokens(text)?;
    shape::check(&tokens)?;
    let is_text = |token: &&RegoToken| matches!(token.kind, TokenKind::Text | TokenKind::Template(_));
    let inside_texts = tokens.iter().filter(is_text).flat_map(|token| token.at.line + 1..=token.last_line).collect();
    let mut parser = Parser::new(tokens, version);
    let at = parser.place();
    parser.expect("package")?;
    let package = parser.term()?;
    let (imports, rules) = (Vec::new(), Vec::new());
    let (may_look_up_nothing, keeps_prints) = (false, false);
    let mut module = Module { version, at, package, imports, rules, may_look_up_nothing, keeps_prints, inside_texts };
    while !parser.at_end() {
        if parser.take_if("import") {
            let import = parser.import()?;
            module.imports.push(import);
        } else {
            parser.rule(&mut module.rules)?;
        }
    }
    Ok(module)
}

/// Returns the byte range of the package path.
pub(super) fn package_path(text: &str) -> Option<std::ops::Range<usize>> {
    let tokens = tokens(text).ok()?;
    shape::check(&tokens).ok()?;
    let mut parser = Parser::new(tokens, Version::V1);
    parser.expect("package").ok()?;
    let TextSpan { start, end } = parser.term().ok()?.span;
    // Spans start after a byte-order mark.
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    Some(start as usize + mark..end as usize + mark)
}

pub(super) struct Parser {
    tokens: Vec<RegoToken>,
    next: usize,
    depth: u32,
    /// The number of failed attempts to parse a body.
    retries: u32,
    version: Version,
    /// The enabled keywords.
    keywords: Vec<&'static str>,
    /// Whether `not` may have a body, enabled by `import future.keywords.not`.
    not_bodies: bool,
}

impl Parser {
    fn new(tokens: Vec<RegoToken>, version: Version) -> Self {
        let keywords = if version == Version::V1 { LATER_KEYWORDS.to_vec() } else { Vec::new() };
        Self { tokens, next: 0, depth: 0, retries: 0, version, keywords, not_bodies: false }
    }

    /// Returns a parser of other tokens with the same keywords, for an expression inside a string.
    pub(super) fn inner(&self, tokens: Vec<RegoToken>) -> ParseResult<Self> {
        if self.depth > DEEPEST {
            return Err(self.error("expressions are nested too deeply"));
        }
        let keywords = self.keywords.clone();
        Ok(Self {
            tokens,
            next: 0,
            depth: self.depth + 8,
            retries: self.retries,
            version: self.version,
            keywords,
            not_bodies: self.not_bodies,
        })
    }

    pub(super) fn token(&self) -> &RegoToken {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn token_after(&self) -> &RegoToken {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)]
    }

    pub(super) fn place(&self) -> Position {
        self.token().at
    }

    /// Returns the byte offset of the next token.
    pub(super) fn start(&self) -> u32 {
        self.token().span.start
    }

    /// Returns the byte range parsed since an offset.
    pub(super) fn span_from(&self, start: u32) -> TextSpan {
        let last = self.next.checked_sub(1).and_then(|index| self.tokens.get(index));
        TextSpan { start, end: last.map_or(start, |token| token.span.end) }
    }

    /// Returns the line on which the last token ends.
    fn last_line(&self) -> u32 {
        self.next.checked_sub(1).and_then(|index| self.tokens.get(index)).map_or(1, |token| token.last_line)
    }

    pub(super) fn at_end(&self) -> bool {
        self.token().kind == TokenKind::End
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    pub(super) fn save(&self) -> usize {
        self.next
    }

    pub(super) fn restore(&mut self, saved: usize) {
        self.next = saved;
    }

    /// Counts a failed attempt; `None` after too many, as each may double the work.
    pub(super) fn count_retry(&mut self) -> Option<()> {
        self.retries += 1;
        (self.retries < 1_000).then_some(())
    }

    /// Whether the next token is this symbol or word; a word followed by keys is not a keyword.
    pub(super) fn is(&self, text: &str) -> bool {
        let token = self.token();
        match token.kind {
            TokenKind::Symbol => &*token.text == text,
            TokenKind::Name => {
                let after = self.token_after();
                &*token.text == text && !(after.adjacent && (after.is(".") || after.is("[")))
            }
            _ => false,
        }
    }

    pub(super) fn take_if(&mut self, text: &str) -> bool {
        let is = self.is(text);
        if is {
            self.advance();
        }
        is
    }

    pub(super) fn is_keyword(&self, text: &str) -> bool {
        KEYWORDS.contains(&text) || self.keywords.contains(&text)
    }

    /// Whether the next token is this keyword, which an import enables.
    pub(super) fn is_later_keyword(&self, text: &str) -> bool {
        self.keywords.contains(&text) && self.is(text)
    }

    pub(super) fn expect(&mut self, text: &str) -> ParseResult<()> {
        if self.take_if(text) { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    pub(super) fn error(&self, why: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.place(), why)
    }

    /// Returns an error with the expected syntax.
    pub(super) fn expected(&self, syntax: &str) -> SyntaxError {
        let found = match &self.token().kind {
            TokenKind::End if self.token().text.is_empty() => "the end of the file".to_owned(),
            TokenKind::Text | TokenKind::Template(_) => "a string".to_owned(),
            TokenKind::Name if self.is_keyword(&self.token().text) => format!("the keyword `{}`", self.token().text),
            _ => format!("`{}`", self.token().text),
        };
        self.error(format!("expected {syntax}, found {found}"))
    }

    /// Parses one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error("expressions are nested too deeply"));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Parses a name that is not a keyword.
    pub(super) fn variable(&mut self) -> ParseResult<Name> {
        let token = self.token();
        if token.kind != TokenKind::Name || (self.is_keyword(&token.text) && &*token.text != "contains") {
            return Err(self.expected("a name"));
        }
        let name = Arc::clone(&token.text);
        self.advance();
        Ok(name)
    }

    fn import(&mut self) -> ParseResult<Import> {
        let at = self.tokens[self.next - 1].at;
        let path = self.term()?;
        let alias = if self.take_if("as") { Some(self.variable()?) } else { None };
        let words = path.path().unwrap_or_default();
        match words.iter().map(|word| &**word).collect::<Vec<_>>().as_slice() {
            ["rego", "v1"] => {
                self.keywords = LATER_KEYWORDS.to_vec();
                self.version = Version::V1;
            }
            ["future", "keywords"] => {
                self.keywords = LATER_KEYWORDS.to_vec();
                self.not_bodies = true;
            }
            ["future", "keywords", "not"] => self.not_bodies = true,
            ["future", "keywords", "every"] => self.keywords.extend(["every", "in"]),
            ["rego", "v2"] | ["future", "keywords", "and" | "or"] => {
                let help = "remove the import; in Rego v1, write rules and functions with several bodies instead";
                return Err(SyntaxError::refused(at, format!("import {} is not supported", words.join(".")), help));
            }
            ["future", "keywords", word] => {
                self.keywords.extend(LATER_KEYWORDS.iter().filter(|known| *known == word));
            }
            _ => {}
        }
        Ok(Import { at, path, alias })
    }

    /// Parses a rule with all its bodies.
    fn rule(&mut self, rules: &mut Vec<SyntaxRule>) -> ParseResult<()> {
        let at = self.place();
        let default = self.take_if("default");
        self.keyword_root()?;
        if self.token().kind != TokenKind::Name {
            return Err(self.expected("a rule"));
        }
        let (name, parameters) = self.head_name()?;
        let contains = if !default && self.is_later_keyword("contains") {
            self.advance();
            Some(self.expression()?)
        } else {
            None
        };
        let place = self.place();
        let value = if contains.is_none() { self.assigned()? } else { None };
        let mut first = Branch { at: place, value, conditional: false, body: None };
        if default {
            let last_line = self.last_line();
            rules.push(SyntaxRule { at, default, name, parameters, contains, first, others: Vec::new(), last_line });
            return Ok(());
        }
        self.branch_body(&mut first)?;
        if first.body.is_none() && first.value.is_none() && contains.is_none() {
            // Without a body, a call is a function that returns true, and a name with one key is an element of a set.
            let set = self.version == Version::V0 && matches!(&name.kind, ExprKind::Ref(_, keys) if keys.len() == 1);
            if parameters.is_none() && !set {
                return Err(SyntaxError::new(at, "a rule needs a value or a body"));
            }
        }
        let mut others = Vec::new();
        while first.body.is_some() && self.is("else") {
            let at = self.place();
            self.advance();
            let mut branch = Branch { at, value: self.assigned()?, conditional: false, body: None };
            self.branch_body(&mut branch)?;
            let last = branch.body.is_none();
            if last && branch.value.is_none() {
                return Err(self.error("expected a value or a body after `else`"));
            }
            others.push(branch);
            if last {
                break;
            }
        }
        let chained = others.is_empty() && first.body.is_some();
        let last_line = self.last_line();
        rules.push(SyntaxRule { at, default, name, parameters, contains, first, others, last_line });
        while chained && self.is("{") {
            let Some(before) = rules.last() else { break };
            let mut next = before.clone();
            next.at = self.place();
            next.first.body = Some(self.braced()?);
            next.last_line = self.last_line();
            rules.push(next);
        }
        Ok(())
    }

    /// Refuses a rule called `if.x`, which OPA allows.
    fn keyword_root(&self) -> ParseResult<()> {
        let token = self.token();
        let root = token.kind == TokenKind::Name && self.is_keyword(&token.text) && !self.is(&token.text);
        if root && &*token.text != "contains" {
            let why = format!("rule names that begin with the keyword `{}` are not supported", token.text);
            return Err(SyntaxError::refused(token.at, why, "give the rule another name"));
        }
        Ok(())
    }

    /// Parses a rule's name with its keys and parameters. Spaces are allowed before the first key or parenthesis.
    fn head_name(&mut self) -> ParseResult<(Expr, Option<Vec<Expr>>)> {
        let at = self.place();
        let mut name = Expr::name(at, &self.variable()?);
        let mut keys = Vec::new();
        loop {
            let joined = self.token().adjacent || (keys.is_empty() && !self.after_line_break());
            if joined && self.take_if(".") {
                if self.token().kind != TokenKind::Name {
                    return Err(self.expected("a name"));
                }
                keys.push(Key::Dot(Arc::clone(&self.token().text)));
                self.advance();
            } else if joined && self.take_if("[") {
                keys.push(Key::Index(self.expression()?));
                self.expect("]")?;
            } else {
                break;
            }
        }
        if !keys.is_empty() {
            name = Expr::new(at, ExprKind::Ref(Box::new(name), keys));
        }
        let parameters = if self.take_if("(") { Some(self.list(")")?) } else { None };
        Ok((name, parameters))
    }

    fn assigned(&mut self) -> ParseResult<Option<(&'static str, Expr)>> {
        let operator = if self.is(":=") { ":=" } else { "=" };
        if !self.take_if(operator) {
            return Ok(None);
        }
        Ok(Some((operator, self.expression()?)))
    }

    /// Parses `if …`, `if { … }` or, in version 0, `{ … }`.
    fn branch_body(&mut self, branch: &mut Branch) -> ParseResult<()> {
        if self.is_later_keyword("if") {
            self.advance();
            branch.conditional = true;
            branch.body = Some(self.conditions()?);
        } else if self.is("{") {
            if self.version == Version::V1 {
                return Err(self.error("`if` keyword is required before rule body"));
            }
            branch.body = Some(self.braced()?);
        }
        Ok(())
    }

    /// Parses what follows `if`: one statement, which may begin with a brace, or statements in braces.
    fn conditions(&mut self) -> ParseResult<SyntaxBody> {
        if !self.is("{") {
            return Ok(vec![self.statement()?]);
        }
        let saved = self.save();
        let alone = self.statement();
        // A set here is always a body.
        if let Ok(statement) = alone
            && !matches!(&statement.kind, StatementNode::Expr(Expr { kind: ExprKind::Set(_), .. }))
        {
            return Ok(vec![statement]);
        }
        self.restore(saved);
        self.braced()
    }

    pub(super) fn braced(&mut self) -> ParseResult<SyntaxBody> {
        self.expect("{")?;
        self.deeper(|parser| parser.body("}"))
    }

    /// Parses statements up to a closing bracket.
    pub(super) fn body(&mut self, close: &str) -> ParseResult<SyntaxBody> {
        let mut body = Vec::new();
        loop {
            if self.at_end() {
                return Err(self.expected(&format!("`{close}`")));
            }
            body.push(self.statement()?);
            if self.take_if(";") {
                if self.take_if(close) {
                    return Ok(body);
                }
            } else if self.take_if(close) {
                return Ok(body);
            } else if !self.after_line_break() {
                return Err(self.expected(&format!("`;`, a new line or `{close}`")));
            }
        }
    }

    fn after_line_break(&self) -> bool {
        let before = self.next.checked_sub(1).and_then(|index| self.tokens.get(index));
        before.is_some_and(|before| before.last_line < self.place().line)
    }

    pub(super) fn statement(&mut self) -> ParseResult<Statement> {
        let at = self.place();
        let kind = if self.is("some") {
            self.advance();
            self.some()?
        } else if self.is_later_keyword("every") {
            self.advance();
            self.every()?
        } else if self.take_if("not") {
            if self.not_bodies && self.is("{") { self.negated_body()? } else { StatementNode::Not(self.assignment()?) }
        } else {
            StatementNode::Expr(self.assignment()?)
        };
        let mut with = Vec::new();
        while self.take_if("with") {
            let target = self.term()?;
            self.expect("as")?;
            with.push(With { target, value: self.expression()? });
        }
        Ok(Statement { at, last_line: self.last_line(), kind, with })
    }

    /// Parses `not { body }`, which is true if the body never holds.
    fn negated_body(&mut self) -> ParseResult<StatementNode> {
        let at = self.place();
        let body = self.braced()?;
        Ok(StatementNode::Expr(never(at, body)))
    }

    fn some(&mut self) -> ParseResult<StatementNode> {
        let saved = self.save();
        if let Ok(Expr { kind: ExprKind::In { key, value, collection }, .. }) = self.expression() {
            return Ok(StatementNode::SomeIn { key: key.map(|key| *key), value: *value, collection: *collection });
        }
        self.restore(saved);
        let mut names = Vec::new();
        loop {
            let at = self.place();
            names.push((at, self.variable()?));
            if !self.take_if(",") {
                return Ok(StatementNode::Some(names));
            }
        }
    }

    fn every(&mut self) -> ParseResult<StatementNode> {
        let at = self.place();
        let ExprKind::In { key, value, collection } = self.expression()?.kind else {
            return Err(SyntaxError::new(at, "expected `every x in xs { … }`"));
        };
        let name =
            |expr: &Expr| expr.as_name().cloned().ok_or_else(|| SyntaxError::new(expr.at, "expected a variable"));
        let key = key.as_deref().map(name).transpose()?;
        let value = name(&value)?;
        Ok(StatementNode::Every { key, value, collection: *collection, body: self.braced()? })
    }

    fn assignment(&mut self) -> ParseResult<Expr> {
        let start = self.start();
        let left = self.expression()?;
        for operator in [":=", "="] {
            if self.take_if(operator) {
                let right = self.expression()?;
                let both = Expr::new(left.at, ExprKind::Binary(operator, Box::new(left), Box::new(right)));
                return Ok(Expr { span: self.span_from(start), ..both });
            }
        }
        Ok(left)
    }
}

/// Returns `[true | body] == []`.
fn never(at: Position, body: SyntaxBody) -> Expr {
    let term = Expr::scalar(at, "true");
    let all = Comprehension { form: ComprehensionKind::Array, key: None, term, body };
    let all = Expr::new(at, ExprKind::Comprehension(Box::new(all)));
    Expr::binary("==", all, Expr::new(at, ExprKind::Array(Vec::new())))
}
