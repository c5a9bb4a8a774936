//! The types that OPA's compiler infers for values, and relations between them.
//!
//! A part of a type may be unknown, which is `None`: the type of a variable for which nothing is inferred yet. This
//! differs from [`Type::any`], the type of all values.

use std::{cmp::Ordering, fmt, sync::Arc};

use super::constant::Constant;

/// A type with more parts than this becomes `any`: parts are shared, and a few lines can create more of them than can
/// be processed.
const LARGEST: usize = 20_000;

/// An inferred type; `None` if it is unknown.
pub(crate) type InferredType = Option<Type>;

/// A set of values that an expression may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Type {
    Null,
    Boolean,
    Number,
    String,
    Array(Arc<ArrayType>),
    Object(Arc<ObjectType>),
    /// A set; always empty if the type of its elements is `None`.
    Set(Arc<InferredType>),
    /// One of these types, in their order; any type if the list is empty.
    Any(Arc<[Self]>),
    Function(Arc<FunctionType>),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ArrayType {
    /// The types of the first items.
    pub(crate) items: Vec<InferredType>,
    /// The type of all other items.
    pub(crate) rest: InferredType,
    size: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ObjectType {
    /// Fields with constant keys, in the order of the keys.
    pub(crate) fields: Vec<(Constant, InferredType)>,
    /// The types of keys and values of all other fields.
    pub(crate) rest: Option<(InferredType, InferredType)>,
    size: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FunctionType {
    pub(crate) parameters: Vec<InferredType>,
    /// The type of all arguments after the parameters.
    pub(crate) variadic: InferredType,
    /// The type of the result; `None` if the function has none.
    pub(crate) result: InferredType,
}

/// Arrays with a rest come last, as in OPA.
impl Ord for ArrayType {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rest.cmp(&other.rest).then_with(|| self.items.cmp(&other.items))
    }
}

impl PartialOrd for ArrayType {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectType {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rest.cmp(&other.rest).then_with(|| self.fields.cmp(&other.fields))
    }
}

impl PartialOrd for ObjectType {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ArrayType {
    pub(crate) fn at(&self, index: usize) -> InferredType {
        self.items.get(index).cloned().unwrap_or_else(|| self.rest.clone())
    }
}

impl ObjectType {
    /// Returns an object type; of two fields with one key, the last one counts.
    pub(crate) fn new(fields: Vec<(Constant, InferredType)>, rest: Option<(InferredType, InferredType)>) -> Self {
        let mut object = Self { fields: Vec::with_capacity(fields.len()), rest, size: 0 };
        for (key, value) in fields {
            match object.fields.binary_search_by(|(known, _)| known.cmp(&key)) {
                Ok(at) => object.fields[at].1 = value,
                Err(at) => object.fields.insert(at, (key, value)),
            }
        }
        let rest = object.rest.iter().map(|(keys, values)| size(keys).saturating_add(size(values)));
        let parts = object.fields.iter().map(|(_, value)| size(value)).chain(rest);
        object.size = parts.fold(1, usize::saturating_add);
        object
    }

    pub(crate) fn at(&self, key: &Constant) -> InferredType {
        if let Ok(at) = self.fields.binary_search_by(|(known, _)| known.cmp(key)) {
            return self.fields[at].1.clone();
        }
        let (keys, value) = self.rest.as_ref()?;
        if keys.as_ref().is_some_and(|keys| keys.contains(&Type::of(key))) { value.clone() } else { None }
    }

    fn rest_value(&self) -> Option<&Type> {
        self.rest.as_ref().and_then(|(_, value)| value.as_ref())
    }
}

impl Type {
    pub(crate) fn any() -> Self {
        Self::Any(Arc::new([]))
    }

    pub(crate) fn array(items: Vec<InferredType>, rest: InferredType) -> Self {
        let size = items.iter().chain([&rest]).map(size).fold(1, usize::saturating_add);
        if size > LARGEST { Self::any() } else { Self::Array(Arc::new(ArrayType { items, rest, size })) }
    }

    pub(crate) fn object(fields: Vec<(Constant, InferredType)>, rest: Option<(InferredType, InferredType)>) -> Self {
        let object = ObjectType::new(fields, rest);
        if object.size > LARGEST { Self::any() } else { Self::Object(Arc::new(object)) }
    }

    pub(crate) fn set(ty: InferredType) -> Self {
        if size(&ty) > LARGEST { Self::any() } else { Self::Set(Arc::new(ty)) }
    }

    /// Returns the type of a constant.
    pub(crate) fn of(constant: &Constant) -> Self {
        match constant {
            Constant::Null => Self::Null,
            Constant::Boolean(_) => Self::Boolean,
            Constant::Number(_) => Self::Number,
            Constant::String(_) => Self::String,
            Constant::Array(items) => Self::array(items.iter().map(|item| Some(Self::of(item))).collect(), None),
            Constant::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (key.clone(), Some(Self::of(value)))).collect();
                Self::object(fields, None)
            }
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Null | Self::Boolean | Self::Number | Self::String => 1,
            Self::Array(array) => array.size,
            Self::Object(object) => object.size,
            Self::Set(ty) => size(ty).saturating_add(1),
            Self::Any(ty) => ty.iter().map(Self::size).fold(1, usize::saturating_add),
            Self::Function(function) => {
                function.parameters.iter().chain([&function.result]).map(size).fold(1, usize::saturating_add)
            }
        }
    }

    /// Whether it is a collection that never has elements.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Array(array) => array.items.is_empty() && array.rest.is_none(),
            Self::Object(object) => object.fields.is_empty() && object.rest.is_none(),
            Self::Set(ty) => ty.is_none(),
            _ => false,
        }
    }

    /// Whether all values of the other type have this one, as far as it follows from unions.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        match self {
            Self::Any(_) if matches!(other, Self::Function(_)) => false,
            Self::Any(ty) => ty.is_empty() || ty.binary_search(other).is_ok(),
            _ => self == other,
        }
    }

    /// Adds types to a union.
    fn union(ty: &[Self], other: &Self) -> Self {
        let others = if let Self::Any(others) = other { others } else { std::slice::from_ref(other) };
        if ty.is_empty() || (others.is_empty()) {
            return Self::any();
        }
        let mut all: Vec<Self> = ty.iter().chain(others).cloned().collect();
        all.sort();
        all.dedup();
        let size = all.iter().map(Self::size).fold(1, usize::saturating_add);
        if size > LARGEST { Self::any() } else { Self::Any(all.into()) }
    }
}

fn size(ty: &InferredType) -> usize {
    ty.as_ref().map_or(1, Type::size)
}

/// Returns the type of values that have one type or the other.
pub(crate) fn or(a: InferredType, b: InferredType) -> InferredType {
    let (Some(a), Some(b)) = (&a, &b) else { return a.or(b) };
    Some(match (a, b) {
        (Type::Function(a), Type::Function(b)) => Type::Function(Arc::new(either(a, b)?)),
        (Type::Function(_), _) | (_, Type::Function(_)) => return None,
        (Type::Any(ty), other) | (other, Type::Any(ty)) => Type::union(ty, other),
        _ if a == b => a.clone(),
        _ => {
            let mut both = [a.clone(), b.clone()];
            both.sort();
            Type::Any(both.into())
        }
    })
}

/// Returns the type of a function with definitions of two types.
fn either(a: &FunctionType, b: &FunctionType) -> Option<FunctionType> {
    if a.parameters.len() != b.parameters.len() || a.variadic.is_some() != b.variadic.is_some() {
        return None;
    }
    let parameters = a.parameters.iter().zip(&b.parameters).map(|(a, b)| or(a.clone(), b.clone())).collect();
    Some(FunctionType {
        parameters,
        variadic: or(a.variadic.clone(), b.variadic.clone()),
        result: or(a.result.clone(), b.result.clone()),
    })
}

/// Returns the type of the keys of a collection; `None` if there are none.
pub(crate) fn keys(ty: &InferredType) -> InferredType {
    match ty.as_ref()? {
        Type::Array(_) => Some(Type::Number),
        Type::Object(object) => {
            let fields = object.fields.iter().fold(None, |keys, (key, _)| or(keys, Some(Type::of(key))));
            or(fields, object.rest.as_ref().and_then(|(keys, _)| keys.clone()))
        }
        Type::Set(ty) => (**ty).clone(),
        Type::Any(ty) if ty.is_empty() => Some(Type::any()),
        Type::Any(ty) => ty.iter().fold(None, |all, one| or(keys(&Some(one.clone())), all)),
        _ => None,
    }
}

/// Returns the type of the values of a collection; `None` if there are none.
pub(crate) fn values(ty: &InferredType) -> InferredType {
    match ty.as_ref()? {
        Type::Array(array) => array.items.iter().chain([&array.rest]).fold(None, |all, item| or(all, item.clone())),
        Type::Object(object) => {
            let fields = object.fields.iter().fold(None, |all, (_, value)| or(all, value.clone()));
            or(fields, object.rest_value().cloned())
        }
        Type::Set(ty) => (**ty).clone(),
        Type::Any(ty) if ty.is_empty() => Some(Type::any()),
        Type::Any(ty) => ty.iter().fold(None, |all, one| or(values(&Some(one.clone())), all)),
        _ => None,
    }
}

/// Returns the type at a constant key; `None` if there cannot be a value.
pub(crate) fn select(ty: &InferredType, key: &Constant) -> InferredType {
    match ty.as_ref()? {
        Type::Array(array) => match key {
            Constant::Number(number) => array.at(number.index()?),
            _ => None,
        },
        Type::Object(object) => object.at(key),
        Type::Set(ty) => {
            let key = Type::of(key);
            match &**ty {
                Some(ty) if *ty == key => Some(key),
                Some(Type::Any(ty)) if ty.is_empty() || ty.binary_search(&key).is_ok() => Some(key),
                _ => None,
            }
        }
        Type::Any(ty) if ty.is_empty() => Some(Type::any()),
        Type::Any(ty) => ty.iter().fold(None, |all, one| or(select(&Some(one.clone()), key), all)),
        _ => None,
    }
}

/// Whether a type or a part of it is unknown.
pub(crate) fn is_unknown(ty: &InferredType) -> bool {
    let Some(ty) = ty else { return true };
    match ty {
        Type::Array(array) => array.items.iter().any(is_unknown) || array.rest.is_some() && is_unknown(&array.rest),
        Type::Object(object) => {
            object.fields.iter().any(|(_, value)| is_unknown(value))
                || object.rest.as_ref().is_some_and(|(keys, values)| is_unknown(keys) || is_unknown(values))
        }
        Type::Set(ty) => is_unknown(ty),
        Type::Function(function) => function.parameters.iter().any(is_unknown) || is_unknown(&function.result),
        _ => false,
    }
}

/// Whether a value may have both types.
pub(crate) fn unifies(a: &InferredType, b: &InferredType) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    match (a, b) {
        (Type::Any(ty), other) | (other, Type::Any(ty)) if one_unifies(ty, other) => true,
        (Type::Any(_), Type::Any(ty)) => one_unifies(ty, a),
        (Type::Any(_), _) | (_, Type::Any(_)) => false,
        (Type::Array(a), Type::Array(b)) => {
            let items = |a: &ArrayType, b: &ArrayType| {
                a.items.iter().enumerate().all(|(index, item)| unifies(item, &b.at(index)))
            };
            items(a, b) && items(b, a) && (a.rest.is_none() || b.rest.is_none() || unifies(&a.rest, &b.rest))
        }
        (Type::Object(a), Type::Object(b)) => {
            let rests = (a.rest_value(), b.rest_value());
            let both = rests.0.zip(rests.1);
            fields_unify(a, b)
                && fields_unify(b, a)
                && both.is_none_or(|(a, b)| unifies(&Some(a.clone()), &Some(b.clone())))
        }
        (Type::Set(a), Type::Set(b)) => a.is_none() || b.is_none() || unifies(a, b),
        (Type::Function(a), Type::Function(b)) => {
            a.parameters.len() == b.parameters.len()
                && a.parameters.iter().zip(&b.parameters).all(|(a, b)| unifies(a, b))
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

fn one_unifies(ty: &[Type], other: &Type) -> bool {
    if matches!(other, Type::Function(_)) {
        return false;
    }
    ty.is_empty() || ty.iter().any(|one| unifies(&Some(one.clone()), &Some(other.clone())))
}

fn fields_unify(a: &ObjectType, b: &ObjectType) -> bool {
    a.fields.iter().all(|(key, value)| match b.at(key) {
        None => a.rest_value().is_some() || b.rest_value().is_some(),
        known => unifies(value, &known),
    })
}

/// Formats a type as OPA does: `array<number>[string]`, `object<a: null>[string: any]`, `any<number, string>`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean => f.write_str("boolean"),
            Self::Number => f.write_str("number"),
            Self::String => f.write_str("string"),
            Self::Array(array) => {
                f.write_str("array")?;
                list(f, &array.items.iter().map(shown).collect::<Vec<_>>())?;
                if array.rest.is_some() { write!(f, "[{}]", shown(&array.rest)) } else { Ok(()) }
            }
            Self::Object(object) => {
                f.write_str("object")?;
                let field = |(key, value): &(Constant, InferredType)| format!("{}: {}", key.plain(), shown(value));
                list(f, &object.fields.iter().map(field).collect::<Vec<_>>())?;
                match &object.rest {
                    Some((keys, values)) => write!(f, "[{}: {}]", shown(keys), shown(values)),
                    None => Ok(()),
                }
            }
            Self::Set(ty) if ty.is_none() => f.write_str("set"),
            Self::Set(ty) => write!(f, "set[{}]", shown(ty)),
            Self::Any(ty) => {
                f.write_str("any")?;
                list(f, &ty.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            Self::Function(function) => {
                let variadic = function.variadic.iter().map(|ty| format!("{ty}..."));
                let parameters: Vec<String> = function.parameters.iter().map(shown).chain(variadic).collect();
                write!(f, "({}) => {}", parameters.join(", "), shown(&function.result))
            }
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[String]) -> fmt::Result {
    if items.is_empty() { Ok(()) } else { write!(f, "<{}>", items.join(", ")) }
}

/// Returns the text of a type, or `???` if it is unknown.
pub(crate) fn shown(ty: &InferredType) -> String {
    ty.as_ref().map_or_else(|| "???".to_owned(), ToString::to_string)
}
