//! Terms and types as messages show them.

use super::term::{DATA, Function, INPUT, ResolvedTerm, ResolvedValue, Variables, push};
use crate::types::{InferredType, Type};

/// The longest type that is shown completely, in bytes.
const LONGEST: usize = 80;

pub(super) fn known(ty: &InferredType) -> String {
    ty.as_ref().map_or_else(|| "unknown".to_owned(), short)
}

pub(super) fn short(ty: &Type) -> String {
    let text = ty.to_string();
    if text.chars().count() <= LONGEST {
        text
    } else {
        format!("{}…", text.chars().take(LONGEST).collect::<String>())
    }
}

/// Returns the name of a function as the user writes it.
pub(super) fn function(function: &Function) -> String {
    let name = function.to_string();
    match name.as_str() {
        "internal.member_2" | "internal.member_3" => "in".to_owned(),
        _ => name,
    }
}

pub(super) fn reference(items: &[ResolvedTerm], variables: &Variables) -> String {
    let mut text = items.first().map(|head| term(head, variables)).unwrap_or_default();
    for key in items.iter().skip(1) {
        match &key.value {
            ResolvedValue::Constant(constant) => push(&mut text, constant),
            _ => text.extend(["[", &term(key, variables), "]"]),
        }
    }
    text
}

pub(super) fn term(term: &ResolvedTerm, variables: &Variables) -> String {
    match &term.value {
        ResolvedValue::Constant(constant) => constant.to_string(),
        ResolvedValue::Variable(DATA) => "data".to_owned(),
        ResolvedValue::Variable(INPUT) => "input".to_owned(),
        ResolvedValue::Variable(variable) => {
            variables.name(*variable).map_or_else(|| "…".to_owned(), ToString::to_string)
        }
        ResolvedValue::Ref(items) => reference(items, variables),
        ResolvedValue::Builtin(name) => name.to_string(),
        ResolvedValue::Array(_)
        | ResolvedValue::Set(_)
        | ResolvedValue::Object(_)
        | ResolvedValue::Comprehension(_)
        | ResolvedValue::Call(_)
        | ResolvedValue::Template(_) => "…".to_owned(),
    }
}
