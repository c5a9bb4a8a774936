//! Plans expressions.

use std::{collections::BTreeSet, sync::Arc};

use super::{Attribute, Base, Call, PlanNode, Qualifier, QualifierKey, VariableSlot};
use crate::{
    ast::{self, CelExpr, CelExprKind, Select},
    check::{CheckedExpression, Reference},
    cost,
    declarations::{DeclaredFunction, FunctionOverload},
    environment::Root,
    library,
    value::{CelValue, MapKey, exact_int, exact_uint},
};

/// Functions that are evaluated at once if their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"];

/// Functions that check the types of their arguments themselves.
const UNGUARDED: [&str; 4] = ["contains", "endsWith", "startsWith", "flatten"];

/// A plan, and the number of its slots.
pub(crate) struct PlannedExpression {
    pub(crate) node: PlanNode,
    pub(crate) slots: usize,
}

/// Plans an expression.
///
/// # Errors
/// If a constant is invalid.
pub(crate) fn plan(expr: &CelExpr, checked: &CheckedExpression) -> Result<PlannedExpression, String> {
    let mut planner = Planner { checked, scopes: Vec::new(), slots: 0, takes: false };
    let node = planner.node(expr)?;
    Ok(PlannedExpression { node, slots: planner.slots })
}

pub(super) struct Planner<'c> {
    checked: &'c CheckedExpression,
    /// Variables of comprehensions with their slots, the innermost last.
    pub(super) scopes: Vec<(Arc<str>, VariableSlot)>,
    slots: usize,
    /// Whether a reference to the accumulator is the last one.
    pub(super) takes: bool,
}

impl Planner<'_> {
    pub(super) fn new_slot(&mut self) -> VariableSlot {
        self.slots += 1;
        self.slots - 1
    }

    pub(super) fn node(&mut self, expr: &CelExpr) -> Result<PlanNode, String> {
        match &expr.kind {
            CelExprKind::Literal(value) => Ok(PlanNode::Constant(value.clone())),
            CelExprKind::Ident(name) => self.name(expr, name),
            CelExprKind::Select(select) => self.select(expr, select),
            CelExprKind::Call(call) => self.call(expr, call),
            CelExprKind::List(elements) => self.list(elements),
            CelExprKind::Map(entries) => self.map(entries),
            CelExprKind::Struct(name) => Err(format!("unknown type: {name}")),
            CelExprKind::Fold(fold) => self.fold(fold),
        }
    }

    fn name(&self, expr: &CelExpr, name: &str) -> Result<PlanNode, String> {
        let base = match &self.checked.references[expr.id] {
            // The API server declares these types, but has no values for them.
            Reference::TypeName(name) if name.starts_with("kubernetes.") => {
                return Err(format!("reference to undefined type: {name}"));
            }
            Reference::TypeName(name) => return Ok(PlanNode::Constant(CelValue::Type(Arc::clone(name)))),
            Reference::Variable(name) => Root::named(name).map(Base::Root),
            _ => {
                let slot = self.scopes.iter().rev().find(|(known, _)| &**known == name).map(|(_, slot)| *slot);
                let take = self.takes && name == crate::parse::ACCUMULATOR;
                slot.map(|slot| Base::Local { slot, take })
            }
        };
        Ok(match base {
            Some(base) => PlanNode::Attribute(Attribute { base, qualifiers: Vec::new() }),
            None => PlanNode::Constant(CelValue::Null),
        })
    }

    fn select(&mut self, expr: &CelExpr, select: &Select) -> Result<PlanNode, String> {
        if !matches!(self.checked.references[expr.id], Reference::Nothing) {
            return self.name(expr, &select.field);
        }
        let operand = self.node(&select.operand)?;
        let key = QualifierKey::Field(Arc::clone(&select.field));
        let attribute = qualified(operand, Qualifier { key, optional: false, test: select.test });
        Ok(if select.test { PlanNode::Test(attribute) } else { PlanNode::Attribute(attribute) })
    }

    fn list(&mut self, elements: &[ast::ListElement]) -> Result<PlanNode, String> {
        let planned: Result<Vec<_>, String> =
            elements.iter().map(|element| Ok((self.node(&element.value)?, element.optional))).collect();
        let planned = planned?;
        let constants: Option<Vec<_>> =
            planned.iter().map(|(node, optional)| constant(node).filter(|_| !optional).cloned()).collect();
        Ok(constants.map_or(PlanNode::List(planned), |values| PlanNode::Constant(CelValue::from(values))))
    }

    fn map(&mut self, entries: &[ast::MapEntry]) -> Result<PlanNode, String> {
        let planned: Result<Vec<_>, String> = entries
            .iter()
            .map(|entry| Ok((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional)))
            .collect();
        let planned = planned?;
        let constants: Option<Vec<_>> = planned
            .iter()
            .map(|(key, value, optional)| {
                Some((constant(key)?.clone(), constant(value).filter(|_| !optional)?.clone()))
            })
            .collect();
        match constants {
            Some(entries) => {
                library::maps::from_entries(entries).map(PlanNode::Constant).map_err(|error| error.to_string())
            }
            None => Ok(PlanNode::Map(planned)),
        }
    }

    fn call(&mut self, expr: &CelExpr, call: &ast::CallExpr) -> Result<PlanNode, String> {
        if &*call.function == "_?._" {
            return self.index(&call.arguments, true);
        }
        let Reference::Function { function, overloads } = &self.checked.references[expr.id] else {
            return Err(format!("no such overload: {}", call.function));
        };
        match function.name {
            "_&&_" => return Ok(PlanNode::And(self.nodes(call.arguments.iter())?)),
            "_||_" => return Ok(PlanNode::Or(self.nodes(call.arguments.iter())?)),
            "_?_:_" => return self.conditional(&call.arguments),
            "_[_]" | "_[?_]" => return self.index(&call.arguments, function.name == "_[?_]"),
            _ => {}
        }
        // A target that is a namespace is no argument.
        let is_member = overloads.iter().any(|overload| overload.is_member);
        let target = call.target.iter().map(AsRef::as_ref).filter(|_| is_member);
        let mut arguments = self.nodes(target.chain(&call.arguments))?;
        if matches!(function.name, "_==_" | "_!=_") {
            let (right, left) = (arguments.pop(), arguments.pop());
            let sides = left.zip(right).ok_or_else(|| format!("no such overload: {}", function.name))?;
            return Ok(PlanNode::Equality { negated: function.name == "_!=_", sides: Box::new(sides) });
        }
        let overload = if let [only] = &overloads[..] { Some(*only) } else { None };
        planned_call(function, overload, arguments)
    }

    fn nodes<'e>(&mut self, exprs: impl Iterator<Item = &'e CelExpr>) -> Result<Vec<PlanNode>, String> {
        exprs.map(|expr| self.node(expr)).collect()
    }

    fn conditional(&mut self, arguments: &[CelExpr]) -> Result<PlanNode, String> {
        let [condition, yes, no] = arguments else { return Err("no such overload: _?_:_".to_owned()) };
        let condition = self.node(condition)?;
        let (yes, no) = (branch(self.node(yes)?), branch(self.node(no)?));
        let base = Base::Conditional(Arc::new((condition, yes, no)));
        Ok(PlanNode::Attribute(Attribute { base, qualifiers: Vec::new() }))
    }

    fn index(&mut self, arguments: &[CelExpr], optional: bool) -> Result<PlanNode, String> {
        let [operand, index] = arguments else { return Err("no such overload: _[_]".to_owned()) };
        let operand = self.node(operand)?;
        let key = match self.node(index)? {
            PlanNode::Constant(CelValue::String(text)) => QualifierKey::Field((*text).into()),
            PlanNode::Constant(
                value @ (CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_) | CelValue::Bool(_)),
            ) => QualifierKey::Constant(value),
            PlanNode::Constant(value) => return Err(format!("invalid qualifier type: {}", library::go_type(&value))),
            PlanNode::Attribute(attribute) | PlanNode::Test(attribute) => QualifierKey::Attribute(Arc::new(attribute)),
            node => QualifierKey::Node(Arc::new(node)),
        };
        Ok(PlanNode::Attribute(qualified(operand, Qualifier { key, optional, test: false })))
    }
}

fn constant(node: &PlanNode) -> Option<&CelValue<'static>> {
    match node {
        PlanNode::Constant(value) => Some(value),
        _ => None,
    }
}

/// Adds a qualifier; a conditional passes it on to both branches.
fn qualified(operand: PlanNode, qualifier: Qualifier) -> Attribute {
    let mut attribute = match operand {
        PlanNode::Attribute(attribute) | PlanNode::Test(attribute) => attribute,
        other => Attribute { base: Base::Node(Arc::new(other)), qualifiers: Vec::new() },
    };
    attribute.add(qualifier);
    attribute
}

/// Returns a branch of a condition: the cost of a variable itself is not counted there.
fn branch(node: PlanNode) -> Attribute {
    match node {
        PlanNode::Attribute(attribute) | PlanNode::Test(attribute) => attribute,
        other => Attribute { base: Base::Node(Arc::new(other)), qualifiers: Vec::new() },
    }
}

fn planned_call(
    function: &'static DeclaredFunction,
    overload: Option<&'static FunctionOverload>,
    mut arguments: Vec<PlanNode>,
) -> Result<PlanNode, String> {
    let id = overload.map_or("", |overload| overload.id);
    if id == "in_list"
        && let Some(set) = arguments.get(1).and_then(constant).and_then(member_set)
    {
        return Ok(match (set.is_empty(), arguments.swap_remove(0)) {
            (true, _) => PlanNode::Constant(CelValue::Bool(false)),
            (false, element) => PlanNode::Member { element: Box::new(element), set },
        });
    }
    if matches!(function.name, "or" | "orValue") && arguments.len() == 2 {
        let unwrap = function.name == "orValue";
        return match (arguments.pop(), arguments.pop()) {
            (Some(right), Some(left)) => Ok(PlanNode::OrElse { unwrap, sides: Box::new((left, right)) }),
            _ => Err(format!("no such overload: {}", function.name)),
        };
    }
    let regex = match (function.name, arguments.get(1).and_then(constant)) {
        ("matches" | "find" | "findAll", Some(CelValue::String(pattern))) => Some(library::regex::compile(pattern)?),
        _ => None,
    };
    let dispatches = overload.is_none() && function.shared.is_none() && function.overloads.len() > 1;
    let stops_early = arguments.len() > 2 || dispatches || id == "string_format" || regex.is_some();
    let cost = cost::rule(function.name, overload.map(|overload| overload.id));
    let is_limited = library::limits::apply_to(function.name);
    let is_unguarded = UNGUARDED.contains(&function.name);
    let call = Call { function, overload, arguments, stops_early, cost, regex, is_limited, is_unguarded };
    if let [PlanNode::Constant(argument)] = &call.arguments[..]
        && CONVERSIONS.contains(&function.name)
    {
        let value = crate::machine::dispatch(&call, std::slice::from_ref(argument));
        return value.map(PlanNode::Constant).map_err(|error| error.to_string());
    }
    Ok(PlanNode::Call(Box::new(call)))
}

/// Returns the keys that equal an element of a constant list; `None` if an element cannot be a key.
#[expect(clippy::cast_precision_loss, reason = "as the API server does")]
fn member_set(list: &CelValue<'static>) -> Option<BTreeSet<MapKey<'static>>> {
    let CelValue::List(list) = list else { return None };
    let mut set = BTreeSet::new();
    for element in list.iter() {
        let key = MapKey::new(&element)?;
        match key {
            MapKey::Int(value) => {
                set.insert(MapKey::Double(value as f64));
                set.extend(u64::try_from(value).ok().map(MapKey::Uint));
            }
            MapKey::Uint(value) => {
                set.insert(MapKey::Double(value as f64));
                set.extend(i64::try_from(value).ok().map(MapKey::Int));
            }
            MapKey::Double(value) => {
                set.extend(exact_int(value).map(MapKey::Int));
                set.extend(exact_uint(value).map(MapKey::Uint));
            }
            MapKey::Null | MapKey::Other(_) => return None,
            MapKey::Bool(_) | MapKey::String(_) => {}
        }
        set.insert(key);
    }
    Some(set)
}
