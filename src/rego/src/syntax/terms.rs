//! Expressions, by OPA's grammar.

use std::sync::Arc;

use super::{
    lexer::{SyntaxError, TemplateSegment, TokenKind},
    parser::{ParseResult, Parser},
    tree::{Comprehension, ComprehensionKind, Expr, ExprKind, Key, Piece, StatementNode, SyntaxBody, TextSpan},
};

/// Operators from the weakest to the strongest; all are left-associative.
const OPERATORS: &[&[&str]] = &[&["==", "!=", "<", "<=", ">", ">="], &["|"], &["&"], &["+", "-"], &["*", "/", "%"]];

/// The longest chain of operators; its tree is traversed recursively.
const LONGEST: usize = 1_000;

impl Parser {
    /// Parses an expression, including `key, value in xs`.
    pub(super) fn expression(&mut self) -> ParseResult<Expr> {
        self.deeper(|parser| parser.membership(true, None))
    }

    /// Parses an expression that ends at a comma.
    fn item(&mut self) -> ParseResult<Expr> {
        self.item_from(None)
    }

    /// Parses an expression whose first term is already parsed.
    fn item_from(&mut self, first: Option<Expr>) -> ParseResult<Expr> {
        self.deeper(|parser| parser.membership(false, first))
    }

    fn membership(&mut self, pair: bool, first: Option<Expr>) -> ParseResult<Expr> {
        let start = first.as_ref().map_or_else(|| self.start(), |first| first.span.start);
        let first = self.operation(0, first)?;
        let at = first.at;
        let (mut key, mut value) = (None, first);
        if pair && self.is(",") {
            let saved = self.save();
            self.advance();
            match self.operation(0, None) {
                Ok(second) if self.is_later_keyword("in") => {
                    key = Some(Box::new(value));
                    value = second;
                }
                _ => self.restore(saved),
            }
        }
        for _ in 0..LONGEST {
            if !self.is_later_keyword("in") {
                break;
            }
            self.advance();
            let collection = Box::new(self.operation(0, None)?);
            let whole = Expr::new(at, ExprKind::In { key: key.take(), value: Box::new(value), collection });
            value = Expr { span: self.span_from(start), ..whole };
        }
        Ok(value)
    }

    fn operation(&mut self, level: usize, first: Option<Expr>) -> ParseResult<Expr> {
        let Some(operators) = OPERATORS.get(level) else { return first.map_or_else(|| self.term(), Ok) };
        let start = first.as_ref().map_or_else(|| self.start(), |first| first.span.start);
        let mut left = self.operation(level + 1, first)?;
        for _ in 0..LONGEST {
            let Some(operator) = operators.iter().find(|operator| self.token().is(operator)) else {
                return Ok(left);
            };
            self.advance();
            let right = self.operation(level + 1, None)?;
            let whole = Expr::new(left.at, ExprKind::Binary(operator, Box::new(left), Box::new(right)));
            left = Expr { span: self.span_from(start), ..whole };
        }
        Err(self.error("too many operations in a row"))
    }

    pub(super) fn term(&mut self) -> ParseResult<Expr> {
        let start = self.start();
        let mut term = self.deeper(Self::negated_or_keyed)?;
        self.set_span(&mut term, start);
        Ok(term)
    }

    /// Sets the span from an offset; an expression in parentheses has one already.
    fn set_span(&self, expr: &mut Expr, start: u32) {
        if expr.span == TextSpan::default() {
            expr.span = self.span_from(start);
        }
    }

    fn negated_or_keyed(&mut self) -> ParseResult<Expr> {
        let (at, start) = (self.place(), self.start());
        if self.token().is("-") {
            self.advance();
            if (self.token().kind == TokenKind::Number || self.token().is("."))
                && let ExprKind::Scalar(text) = self.head()?.kind
            {
                return Ok(Expr::scalar(at, &format!("-{text}")));
            }
            if self.token().kind != TokenKind::Name {
                return Err(self.expected("a name or a number"));
            }
            let inner = self.term()?;
            return Ok(Expr::new(at, ExprKind::Minus(Box::new(inner))));
        }
        let head = self.head()?;
        self.keys(head, start)
    }

    fn scalar(&mut self) -> ExprKind {
        let kind = ExprKind::Scalar(Arc::clone(&self.token().text));
        self.advance();
        kind
    }

    fn head(&mut self) -> ParseResult<Expr> {
        let at = self.place();
        let token = self.token();
        let kind = match &token.kind {
            TokenKind::Number | TokenKind::Text => self.scalar(),
            TokenKind::Name if ["true", "false", "null"].into_iter().any(|word| self.is(word)) => self.scalar(),
            TokenKind::Name => {
                let name = self.variable()?;
                if &*name == "set" && self.token().adjacent && self.is("(") {
                    self.advance();
                    if self.take_if(")") {
                        return Ok(Expr::new(at, ExprKind::Set(Vec::new())));
                    }
                    let call = ExprKind::Call(Box::new(Expr::name(at, &name)), self.list(")")?);
                    return Ok(Expr::new(at, call));
                }
                ExprKind::Name(name)
            }
            TokenKind::Template(_) => self.template()?,
            TokenKind::Symbol if token.is(".") => {
                self.advance();
                if self.token().kind != TokenKind::Number || !self.token().adjacent {
                    return Err(self.expected("an expression"));
                }
                let kind = ExprKind::Scalar(format!("0.{}", self.token().text).into());
                self.advance();
                kind
            }
            TokenKind::Symbol if token.is("(") => {
                self.advance();
                let mut inner = self.expression()?;
                self.expect(")")?;
                // The precedence of operators is in the tree already.
                if matches!(
                    inner.kind,
                    ExprKind::Scalar(_) | ExprKind::Name(_) | ExprKind::Ref(..) | ExprKind::Call(..)
                ) {
                    inner.at = at;
                }
                return Ok(inner);
            }
            TokenKind::Symbol if token.is("[") => {
                self.advance();
                self.array()?
            }
            TokenKind::Symbol if token.is("{") => {
                self.advance();
                self.set_or_object()?
            }
            _ => return Err(self.expected("an expression")),
        };
        Ok(Expr::new(at, kind))
    }

    /// Parses what is attached to a term without a space: keys, calls, and keys of their results.
    fn keys(&mut self, head: Expr, start: u32) -> ParseResult<Expr> {
        let at = head.at;
        let mut term = head;
        self.set_span(&mut term, start);
        let mut keys: Vec<Key> = Vec::new();
        while self.token().adjacent {
            if self.take_if(".") {
                if self.token().kind != TokenKind::Name || !self.token().adjacent {
                    return Err(self.expected("a name"));
                }
                keys.push(Key::Dot(Arc::clone(&self.token().text)));
                self.advance();
            } else if self.take_if("[") {
                keys.push(Key::Index(self.expression()?));
                self.expect("]")?;
            } else if self.is("(") && (matches!(term.kind, ExprKind::Name(_)) || !keys.is_empty()) {
                self.advance();
                let function = with_keys(term, std::mem::take(&mut keys));
                term = Expr::new(at, ExprKind::Call(Box::new(function), self.list(")")?));
                self.set_span(&mut term, start);
            } else {
                break;
            }
        }
        Ok(with_keys(term, keys))
    }

    /// Parses expressions up to a closing bracket, with an optional trailing comma.
    pub(super) fn list(&mut self, close: &str) -> ParseResult<Vec<Expr>> {
        self.list_from(close, Vec::new())
    }

    fn list_from(&mut self, close: &str, mut items: Vec<Expr>) -> ParseResult<Vec<Expr>> {
        while !self.take_if(close) {
            items.push(self.item()?);
            if !self.take_if(",") && !self.is(close) {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
        Ok(items)
    }

    /// Parses what follows `[`. A comprehension takes precedence over a union: `[a | b]` is a comprehension.
    fn array(&mut self) -> ParseResult<ExprKind> {
        if self.take_if("]") {
            return Ok(ExprKind::Array(Vec::new()));
        }
        let may_be_comprehension = !self.take_if(",");
        let first = self.term()?;
        if may_be_comprehension && let Some(body) = self.comprehension_body("]")? {
            return Ok(comprehension(ComprehensionKind::Array, None, first, body));
        }
        let first = self.item_from(Some(first))?;
        Ok(ExprKind::Array(self.rest_of_list("]", first)?))
    }

    fn rest_of_list(&mut self, close: &str, first: Expr) -> ParseResult<Vec<Expr>> {
        if self.take_if(",") {
            return self.list_from(close, vec![first]);
        }
        if !self.take_if(close) {
            return Err(self.expected(&format!("`,` or `{close}`")));
        }
        Ok(vec![first])
    }

    /// Parses `| body` and the closing bracket, if the next token is `|`.
    fn comprehension_body(&mut self, close: &str) -> ParseResult<Option<SyntaxBody>> {
        let saved = self.save();
        if !self.take_if("|") {
            return Ok(None);
        }
        match self.deeper(|parser| parser.body(close)) {
            Ok(body) => Ok(Some(body)),
            // Only a comma shows that it is a union.
            Err(why) if !self.is(",") => Err(why),
            Err(why) => {
                self.count_retry().ok_or(why)?;
                self.restore(saved);
                Ok(None)
            }
        }
    }

    fn set_or_object(&mut self) -> ParseResult<ExprKind> {
        if self.take_if("}") {
            return Ok(ExprKind::Object(Vec::new()));
        }
        let may_be_comprehension = !self.take_if(",");
        let first = self.term()?;
        if may_be_comprehension && let Some(body) = self.comprehension_body("}")? {
            return Ok(comprehension(ComprehensionKind::Set, None, first, body));
        }
        let first = self.item_from(Some(first))?;
        if !self.take_if(":") {
            return Ok(ExprKind::Set(self.rest_of_list("}", first)?));
        }
        let value = self.term()?;
        if may_be_comprehension && let Some(body) = self.comprehension_body("}")? {
            return Ok(comprehension(ComprehensionKind::Object, Some(first), value, body));
        }
        let mut fields = vec![(first, self.item_from(Some(value))?)];
        while self.take_if(",") && !self.is("}") {
            let key = self.item()?;
            self.expect(":")?;
            fields.push((key, self.item()?));
        }
        if !self.take_if("}") {
            return Err(self.expected("`,` or `}`"));
        }
        Ok(ExprKind::Object(fields))
    }

    fn template(&mut self) -> ParseResult<ExprKind> {
        let TokenKind::Template(parts) = self.token().kind.clone() else { return Err(self.expected("a string")) };
        self.advance();
        let mut pieces = Vec::new();
        for part in parts {
            match part {
                TemplateSegment::Text(text) => pieces.push(Piece::Text(text)),
                TemplateSegment::Tokens(tokens) => {
                    let mut inner = self.inner(tokens)?;
                    let statement = inner.statement()?;
                    if !inner.at_end() {
                        return Err(inner.expected("`}`"));
                    }
                    let assigns = |expr: &Expr| matches!(expr.kind, ExprKind::Binary(":=" | "=", ..));
                    match &statement.kind {
                        StatementNode::Expr(Expr { kind: ExprKind::Scalar(text), .. }) if statement.with.is_empty() => {
                            pieces.push(Piece::Text(Arc::clone(text)));
                        }
                        StatementNode::Expr(expr) if !assigns(expr) => {
                            pieces.push(Piece::Statement(Box::new(statement)));
                        }
                        _ => return Err(SyntaxError::new(statement.at, "expected a value in the template string")),
                    }
                }
            }
        }
        Ok(ExprKind::Template(pieces))
    }
}

fn comprehension(form: ComprehensionKind, key: Option<Expr>, term: Expr, body: SyntaxBody) -> ExprKind {
    ExprKind::Comprehension(Box::new(Comprehension { form, key, term, body }))
}

fn with_keys(head: Expr, keys: Vec<Key>) -> Expr {
    if keys.is_empty() { head } else { Expr::new(head.at, ExprKind::Ref(Box::new(head), keys)) }
}
