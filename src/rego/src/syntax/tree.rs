//! The syntax tree of a module with positions; names are not resolved.

mod walk;

use std::{collections::BTreeSet, sync::Arc};

use crate::constant::Constant;
pub(crate) use crate::limits::Version;
pub use crate::position::Position;

/// A name in the source.
pub(crate) type Name = Arc<str>;

/// A byte range in a module, after a byte-order mark; empty for generated parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextSpan {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl TextSpan {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let bytes = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { start: bytes(start), end: bytes(end) }
    }

    /// Returns this range of a text.
    pub(crate) fn of(self, text: &str) -> &str {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// A parsed module; names are not resolved.
#[derive(Debug, Clone)]
pub struct Module {
    pub(crate) version: Version,
    /// The position of `package`.
    pub at: Position,
    pub(crate) package: Expr,
    pub(crate) imports: Vec<Import>,
    pub(crate) rules: Vec<SyntaxRule>,
    /// Whether lookups in values that are always empty are accepted, as OPA did up to 1.16, and not refused as
    /// mistakes.
    pub may_look_up_nothing: bool,
    /// Whether `print` is evaluated instead of only checked.
    pub keeps_prints: bool,
    /// Lines that continue a string from an earlier line.
    pub inside_texts: BTreeSet<u32>,
}

impl Module {
    /// Whether the rules of version 1 apply, by its version or because it imports `rego.v1`.
    pub fn is_v1(&self) -> bool {
        self.version == Version::V1 || self.imports("rego.v1")
    }

    /// Returns the imported paths below `data` with their positions.
    pub fn data_imports(&self) -> Vec<(Vec<String>, Position)> {
        let of_data = |import: &Import| {
            let path = import.path.path()?;
            let (first, below) = path.split_first()?;
            let names = below.iter().map(ToString::to_string).collect();
            (&**first == "data" && !below.is_empty()).then_some((names, import.at))
        };
        self.imports.iter().filter_map(of_data).collect()
    }

    /// Returns all imported paths with their positions.
    pub fn imported_paths(&self) -> impl Iterator<Item = (String, Position)> {
        self.imports.iter().map(|import| (import.path.path().unwrap_or_default().join("."), import.at))
    }

    /// Returns the names in the path of its package.
    pub fn package_path(&self) -> Vec<String> {
        let (head, keys): (_, &[Key]) = match &self.package.kind {
            ExprKind::Ref(head, keys) => (&**head, keys),
            _ => (&self.package, &[]),
        };
        head.as_name().map(ToString::to_string).into_iter().chain(keys.iter().filter_map(Key::text)).collect()
    }

    /// Returns the line and the first name of each rule.
    pub fn rule_starts(&self) -> impl Iterator<Item = (u32, &str)> {
        self.rules.iter().map(|rule| (rule.at.line, rule.first_name().map_or("", |name| &**name)))
    }

    /// Returns the module with only those definitions whose positions are kept.
    #[must_use]
    pub fn with_rules(&self, is_kept: impl Fn(Position) -> bool) -> Self {
        let rules = self.rules.iter().filter(|rule| is_kept(rule.at)).cloned().collect();
        let (package, imports, inside_texts) = (self.package.clone(), self.imports.clone(), self.inside_texts.clone());
        Self { package, imports, rules, inside_texts, ..*self }
    }

    /// Whether it imports this path.
    pub(crate) fn imports(&self, path: &str) -> bool {
        self.imports.iter().any(|import| import.path.path().is_some_and(|words| words.join(".") == path))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Import {
    pub(crate) at: Position,
    pub(crate) path: Expr,
    pub(crate) alias: Option<Name>,
}

impl Import {
    /// Returns the name that it declares; `None` for imports that enable keywords.
    pub(crate) fn name(&self) -> Option<Name> {
        let path = self.path.path()?;
        let document = matches!(&**path.first()?, "data" | "input");
        self.alias.clone().or_else(|| path.last().cloned()).filter(|_| document)
    }
}

/// One definition. Several bodies after one head are several definitions.
#[derive(Debug, Clone)]
pub(crate) struct SyntaxRule {
    pub(crate) at: Position,
    pub(crate) default: bool,
    /// The name with its keys.
    pub(crate) name: Expr,
    pub(crate) parameters: Option<Vec<Expr>>,
    pub(crate) contains: Option<Expr>,
    pub(crate) first: Branch,
    pub(crate) others: Vec<Branch>,
    /// The line on which it ends.
    pub(crate) last_line: u32,
}

/// A value with the body that is its condition: of the rule itself, or of an `else`.
#[derive(Debug, Clone)]
pub(crate) struct Branch {
    pub(crate) at: Position,
    pub(crate) value: Option<(&'static str, Expr)>,
    /// Whether the body follows `if`.
    pub(crate) conditional: bool,
    pub(crate) body: Option<SyntaxBody>,
}

pub(crate) type SyntaxBody = Vec<Statement>;

#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) at: Position,
    /// The line on which it ends.
    pub(crate) last_line: u32,
    pub(crate) kind: StatementNode,
    pub(crate) with: Vec<With>,
}

impl Statement {
    pub(crate) fn plain(expr: Expr) -> Self {
        Self { at: expr.at, last_line: expr.at.line, kind: StatementNode::Expr(expr), with: Vec::new() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct With {
    pub(crate) target: Expr,
    pub(crate) value: Expr,
}

#[derive(Debug, Clone)]
pub(crate) enum StatementNode {
    Expr(Expr),
    Not(Expr),
    /// `some x, y`.
    Some(Vec<(Position, Name)>),
    SomeIn {
        key: Option<Expr>,
        value: Expr,
        collection: Expr,
    },
    Every {
        key: Option<Name>,
        value: Name,
        collection: Expr,
        body: SyntaxBody,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) at: Position,
    pub(crate) span: TextSpan,
    pub(crate) kind: ExprKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    /// A number, a string, `true`, `false`, `null`: as written.
    Scalar(Arc<str>),
    Name(Name),
    /// A term followed by keys.
    Ref(Box<Expr>, Vec<Key>),
    Call(Box<Expr>, Vec<Expr>),
    Array(Vec<Expr>),
    Set(Vec<Expr>),
    Object(Vec<(Expr, Expr)>),
    Comprehension(Box<Comprehension>),
    /// Includes `=` and `:=`, which occur only as statements.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    In {
        key: Option<Box<Expr>>,
        value: Box<Expr>,
        collection: Box<Expr>,
    },
    Minus(Box<Expr>),
    Template(Vec<Piece>),
}

#[derive(Debug, Clone)]
pub(crate) enum Key {
    Dot(Name),
    Index(Expr),
}

#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) form: ComprehensionKind,
    /// The key of an object comprehension.
    pub(crate) key: Option<Expr>,
    pub(crate) term: Expr,
    pub(crate) body: SyntaxBody,
}

/// The kind of collection that a comprehension builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComprehensionKind {
    /// An array.
    Array,
    /// A set.
    Set,
    /// An object.
    Object,
}

/// A part of a template string.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// A scalar.
    Text(Arc<str>),
    Statement(Box<Statement>),
}

/// Returns the name of a head and its keys, if all are constant.
pub(crate) fn path(head: &Expr, keys: &[Key]) -> Option<Vec<Name>> {
    let mut path = vec![Arc::clone(head.as_name()?)];
    for key in keys {
        path.push(key.constant()?);
    }
    Some(path)
}

impl Expr {
    pub(crate) fn new(at: Position, kind: ExprKind) -> Self {
        Self { at, span: TextSpan::default(), kind }
    }

    pub(crate) fn name(at: Position, name: &Name) -> Self {
        Self::new(at, ExprKind::Name(Arc::clone(name)))
    }

    pub(crate) fn scalar(at: Position, text: &str) -> Self {
        Self::new(at, ExprKind::Scalar(text.into()))
    }

    /// Returns `left operator right`.
    pub(crate) fn binary(operator: &'static str, left: Self, right: Self) -> Self {
        Self::new(left.at, ExprKind::Binary(operator, Box::new(left), Box::new(right)))
    }

    /// Returns the name, if the expression is just a name.
    pub(crate) fn as_name(&self) -> Option<&Name> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Whether it calls a function of this name.
    pub(crate) fn is_call(&self, name: &str) -> bool {
        let ExprKind::Call(function, _) = &self.kind else { return false };
        function.path().is_some_and(|path| path.join(".") == name)
    }

    /// Returns the name and constant keys of a reference, for example `data`, `a`, `b`.
    pub(crate) fn path(&self) -> Option<Vec<Name>> {
        match &self.kind {
            ExprKind::Name(name) => Some(vec![Arc::clone(name)]),
            ExprKind::Ref(head, keys) => path(head, keys),
            _ => None,
        }
    }

    /// Returns the parts of this expression that have a value of their own in the same scope, like
    /// [`parts`](Self::parts), but without those of template strings.
    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            ExprKind::Scalar(_) | ExprKind::Name(_) | ExprKind::Comprehension(_) | ExprKind::Template(_) => Vec::new(),
            ExprKind::Ref(head, keys) => std::iter::once(&**head).chain(keys.iter().filter_map(Key::index)).collect(),
            ExprKind::Call(_, items) | ExprKind::Array(items) | ExprKind::Set(items) => items.iter().collect(),
            ExprKind::Object(fields) => fields.iter().flat_map(|(key, value)| [key, value]).collect(),
            ExprKind::Binary(_, left, right) => vec![left, right],
            ExprKind::In { key, value, collection } => {
                key.as_deref().into_iter().chain([&**value, &**collection]).collect()
            }
            ExprKind::Minus(inner) => vec![inner],
        }
    }
}

impl Key {
    /// Returns the key, if it is a constant string.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Dot(name) => Some(name.to_string()),
            Self::Index(Expr { kind: ExprKind::Scalar(text), .. }) => match Constant::scalar(text)? {
                Constant::String(text) => Some(text.to_string()),
                _ => None,
            },
            Self::Index(_) => None,
        }
    }

    /// Returns the expression in brackets, if the key is one.
    pub(crate) fn index(&self) -> Option<&Expr> {
        match self {
            Self::Index(index) => Some(index),
            Self::Dot(_) => None,
        }
    }

    /// Whether it may have several values.
    pub(crate) fn is_variable(&self) -> bool {
        matches!(self, Self::Index(index) if !matches!(index.kind, ExprKind::Scalar(_)))
    }

    /// Returns the key, if it is a constant string without escapes.
    pub(crate) fn constant(&self) -> Option<Name> {
        match self {
            Self::Dot(name) => Some(Arc::clone(name)),
            Self::Index(Expr { kind: ExprKind::Scalar(text), .. }) => {
                let text = text.strip_prefix('"')?.strip_suffix('"')?;
                (!text.contains('\\')).then(|| text.into())
            }
            Self::Index(_) => None,
        }
    }
}

impl SyntaxRule {
    /// Returns the first name of its head.
    pub(crate) fn first_name(&self) -> Option<&Name> {
        match &self.name.kind {
            ExprKind::Ref(head, _) => head.as_name(),
            _ => self.name.as_name(),
        }
    }

    pub(crate) fn branches(&mut self) -> impl Iterator<Item = &mut Branch> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}
