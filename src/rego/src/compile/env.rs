//! The types inferred at a point of a module: those of the rules, and of the variables of the enclosing bodies.

use std::{collections::BTreeMap, sync::Arc};

use super::term::{DATA, INPUT, ResolvedTerm, ResolvedValue, Variable};
use crate::{
    constant::Constant,
    types::{self, InferredType, Type},
};

/// Types by their paths.
#[derive(Debug, Clone, Default)]
pub(super) struct TypeTree {
    pub(super) value: InferredType,
    pub(super) children: BTreeMap<Constant, Self>,
}

impl TypeTree {
    /// Sets the type at a path, replacing any other.
    pub(super) fn put(&mut self, path: &[Constant], ty: InferredType) {
        self.node(path).value = ty;
    }

    fn node(&mut self, path: &[Constant]) -> &mut Self {
        path.iter().fold(self, |node, key| node.children.entry(key.clone()).or_default())
    }

    /// Adds a type to the one at a path, and to the objects that contain the path.
    pub(super) fn insert(&mut self, path: &[Constant], ty: Type) {
        let mut node = self;
        for (index, key) in path.iter().enumerate() {
            node = node.children.entry(key.clone()).or_default();
            let below = &path[index + 1..];
            if let Some(Type::Object(object)) = &node.value
                && !below.is_empty()
            {
                node.value = Some(with_entry(object, below, Some(ty.clone())));
            }
        }
        let is_object = matches!(ty, Type::Object(_));
        node.value = merged(node.value.take(), Some(ty));
        if is_object {
            let mut leaves = Vec::new();
            node.children.iter().for_each(|(key, child)| child.leaves(vec![key.clone()], &mut leaves));
            for (path, leaf) in leaves {
                if let Some(Type::Object(object)) = &node.value {
                    node.value = Some(with_entry(object, &path, leaf));
                }
            }
        }
    }

    fn leaves(&self, path: Vec<Constant>, found: &mut Vec<(Vec<Constant>, InferredType)>) {
        if self.value.is_some() {
            found.push((path, self.value.clone()));
            return;
        }
        for (key, child) in &self.children {
            let mut below = path.clone();
            below.push(key.clone());
            child.leaves(below, found);
        }
    }

    /// Returns the type of the whole document; it may have entries from data in addition to rules.
    pub(super) fn extent(&self) -> InferredType {
        if self.value.is_some() {
            return self.value.clone();
        }
        let scalar = |key: &Constant| !matches!(key, Constant::Null | Constant::Array(_) | Constant::Object(_));
        let fields =
            self.children.iter().filter(|(key, _)| scalar(key)).map(|(key, child)| (key.clone(), child.extent()));
        Some(Type::object(fields.collect(), Some((Some(Type::String), Some(Type::any())))))
    }
}

/// Returns the type of an object with an additional entry at a path.
fn with_entry(object: &types::ObjectType, path: &[Constant], ty: InferredType) -> Type {
    let Some((first, below)) = path.split_first() else { return Type::Object(object.clone().into()) };
    let ty = if below.is_empty() { ty } else { Some(with_entry(&types::ObjectType::default(), below, ty)) };
    let key = Some(Type::of(first));
    let rest = match &object.rest {
        Some((keys, values)) => (types::or(keys.clone(), key), types::or(values.clone(), ty)),
        None => (key, ty),
    };
    Type::object(object.fields.clone(), Some(rest))
}

/// Returns the type of a document that has definitions of two types.
fn merged(a: InferredType, b: InferredType) -> InferredType {
    let (Some(left), Some(right)) = (&a, &b) else { return a.or(b) };
    match (left, right) {
        (Type::Object(left), Type::Object(right)) if left.fields.is_empty() && right.fields.is_empty() => {
            match (&left.rest, &right.rest) {
                (None, _) => b,
                (_, None) => a,
                (Some((keys, values)), Some((other_keys, other_values))) => {
                    let keys = types::or(keys.clone(), other_keys.clone());
                    let values = merged(values.clone(), other_values.clone());
                    Some(Type::object(Vec::new(), Some((keys, values))))
                }
            }
        }
        (Type::Set(left), Type::Set(right)) => Some(Type::set(types::or((**left).clone(), (**right).clone()))),
        (Type::Any(_), Type::Object(_)) => merged(b, a),
        (Type::Object(object), Type::Any(ty)) if object.fields.is_empty() && object.rest.is_some() => {
            let mut ty = ty.to_vec();
            let entries =
                |one: &&mut Type| matches!(one, Type::Object(one) if one.fields.is_empty() && one.rest.is_some());
            match ty.iter_mut().find(entries) {
                Some(one) => {
                    if let (Type::Object(known), Some((keys, values))) = (&*one, &object.rest)
                        && let Some((known_keys, known_values)) = &known.rest
                    {
                        let keys = types::or(known_keys.clone(), keys.clone());
                        let values = types::or(known_values.clone(), values.clone());
                        *one = Type::object(Vec::new(), Some((keys, values)));
                    }
                    ty.sort();
                    Some(Type::Any(ty.into()))
                }
                None => types::or(a, b),
            }
        }
        _ => types::or(a, b),
    }
}

/// The types inferred in one body, or replaced by one `with`.
#[derive(Default)]
struct TypeFrame {
    variables: BTreeMap<Variable, InferredType>,
    /// The types of `input` and `data` that `with` sets; variables then belong to the frame below.
    replaced: Option<Arc<Replaced>>,
    /// Increases with each change.
    version: u64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Replaced {
    pub(super) input: Option<Arc<TypeTree>>,
    pub(super) data: Option<Arc<TypeTree>>,
}

/// The head of a reference.
enum ReferenceHead<'a> {
    Tree(&'a Arc<TypeTree>),
    Variable(Type),
}

pub(super) struct Env {
    rules: Arc<TypeTree>,
    frames: Vec<TypeFrame>,
    version: u64,
}

impl Env {
    pub(super) fn new() -> Self {
        Self { rules: Arc::default(), frames: Vec::new(), version: 0 }
    }

    /// Returns the types of the rules, to be extended.
    pub(super) fn rules(&mut self) -> &mut TypeTree {
        Arc::make_mut(&mut self.rules)
    }

    pub(super) fn enter(&mut self, replaced: Option<Arc<Replaced>>) {
        self.version += 1;
        self.frames.push(TypeFrame { replaced, version: self.version, ..TypeFrame::default() });
    }

    pub(super) fn leave(&mut self) {
        self.frames.pop();
    }

    /// Returns a version that differs whenever the inferred types differ.
    pub(super) fn state(&self) -> u64 {
        self.frames.iter().map(|frame| frame.version).max().unwrap_or_default()
    }

    pub(super) fn variable(&self, variable: Variable) -> InferredType {
        self.frames.iter().rev().find_map(|frame| frame.variables.get(&variable)).cloned().flatten()
    }

    pub(super) fn learn(&mut self, variable: Variable, ty: InferredType) {
        self.version += 1;
        let version = self.version;
        if let Some(frame) = self.frames.iter_mut().rev().find(|frame| frame.replaced.is_none()) {
            frame.variables.insert(variable, ty);
            frame.version = version;
        }
    }

    /// Returns the head of a reference, searched in the frames below `depth`, and the depth of its frame.
    fn find(&self, head: Option<Variable>, depth: usize) -> Option<(ReferenceHead<'_>, usize)> {
        let head = head?;
        for (index, frame) in self.frames.iter().enumerate().take(depth).rev() {
            if let Some(Some(ty)) = frame.variables.get(&head) {
                return Some((ReferenceHead::Variable(ty.clone()), index));
            }
            let replaced = frame.replaced.as_ref().and_then(|replaced| match head {
                DATA => replaced.data.as_ref(),
                INPUT => replaced.input.as_ref(),
                _ => None,
            });
            if let Some(tree) = replaced {
                return Some((ReferenceHead::Tree(tree), index));
            }
        }
        (head == DATA && !self.rules.children.is_empty()).then_some((ReferenceHead::Tree(&self.rules), 0))
    }

    /// Returns the type of a reference.
    pub(super) fn reference(&self, items: &[ResolvedTerm]) -> InferredType {
        let head = items.first().and_then(ResolvedTerm::as_variable);
        let mut depth = self.frames.len();
        while let Some((found, at)) = self.find(head, depth) {
            match found {
                ReferenceHead::Variable(ty) => return select(Some(ty), &items[1..]),
                ReferenceHead::Tree(tree) => match in_tree(tree, &items[1..]) {
                    Ok(known) => return known,
                    Err(Elsewhere) if Arc::ptr_eq(tree, &self.rules) => break,
                    Err(Elsewhere) => depth = at,
                },
            }
        }
        (head == Some(DATA) || head == Some(INPUT)).then(Type::any)
    }

    /// Returns the trees that may contain a document, and finally the type of a variable, from the innermost frame
    /// outwards.
    pub(super) fn documents(&self, head: Option<Variable>) -> (Vec<Arc<TypeTree>>, InferredType) {
        let mut trees = Vec::new();
        let mut depth = self.frames.len();
        while let Some((found, at)) = self.find(head, depth) {
            match found {
                ReferenceHead::Variable(ty) => return (trees, Some(ty)),
                ReferenceHead::Tree(tree) => {
                    trees.push(Arc::clone(tree));
                    if Arc::ptr_eq(tree, &self.rules) {
                        break;
                    }
                    depth = at;
                }
            }
        }
        (trees, None)
    }
}

/// The error of a reference that leads out of a tree.
struct Elsewhere;

fn in_tree(mut node: &TypeTree, mut keys: &[ResolvedTerm]) -> Result<InferredType, Elsewhere> {
    while let Some((key, rest)) = keys.split_first() {
        let constant = key.constant();
        let child = constant.as_ref().and_then(|key| node.children.get(key));
        if node.value.is_some() {
            let Some(child) = child else { return Ok(select(node.value.clone(), keys)) };
            (node, keys) = (child, rest);
            continue;
        }
        if constant.is_none() {
            return Ok(select(node.extent(), keys));
        }
        (node, keys) = (child.ok_or(Elsewhere)?, rest);
    }
    Ok(node.extent())
}

/// Returns the type below a value.
fn select(ty: InferredType, keys: &[ResolvedTerm]) -> InferredType {
    keys.iter().fold(ty, |ty, key| match (&key.value, key.constant()) {
        (ResolvedValue::Constant(_), Some(key)) => types::select(&ty, &key),
        _ => types::values(&ty),
    })
}
