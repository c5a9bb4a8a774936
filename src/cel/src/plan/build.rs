//! Plans expressions.

use std::{collections::BTreeSet, sync::Arc};

use super::{Attribute, Base, Call, Node, Qualifier, QualifierKey, Slot};
use crate::{
    ast::{self, Expr, ExprKind, Select},
    check::{Checked, Reference},
    cost,
    declarations::{Function, Overload},
    environment::Root,
    library,
    value::{Key, Value, exact_int, exact_uint},
};

/// Functions that are evaluated at once if their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"];

/// Functions that check the types of their arguments themselves.
const UNGUARDED: [&str; 4] = ["contains", "endsWith", "startsWith", "flatten"];

/// A plan, and the number of its slots.
pub(crate) struct Planned {
    pub(crate) node: Node,
    pub(crate) slots: usize,
}

/// Plans an expression.
///
/// # Errors
/// If a constant is invalid.
pub(crate) fn plan(expr: &Expr, checked: &Checked) -> Result<Planned, String> {
    let mut planner = Planner { checked, scopes: Vec::new(), slots: 0, takes: false };
    let node = planner.node(expr)?;
    Ok(Planned { node, slots: planner.slots })
}

pub(super) struct Planner<'c> {
    checked: &'c Checked,
    /// Variables of comprehensions with their slots, the innermost last.
    pub(super) scopes: Vec<(Arc<str>, Slot)>,
    slots: usize,
    /// Whether a reference to the accumulator is the last one.
    pub(super) takes: bool,
}

impl Planner<'_> {
    pub(super) fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    pub(super) fn node(&mut self, expr: &Expr) -> Result<Node, String> {
        match &expr.kind {
            ExprKind::Literal(value) => Ok(Node::Constant(value.clone())),
            ExprKind::Ident(name) => self.name(expr, name),
            ExprKind::Select(select) => self.select(expr, select),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(elements) => self.list(elements),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct(name) => Err(format!("unknown type: {name}")),
            ExprKind::Fold(fold) => self.fold(fold),
        }
    }

    fn name(&self, expr: &Expr, name: &str) -> Result<Node, String> {
        let base = match &self.checked.references[expr.id] {
            // The API server declares these types, but has no values for them.
            Reference::TypeName(name) if name.starts_with("kubernetes.") => {
                return Err(format!("reference to undefined type: {name}"));
            }
            Reference::TypeName(name) => return Ok(Node::Constant(Value::Type(Arc::clone(name)))),
            Reference::Variable(name) => Root::named(name).map(Base::Root),
            _ => {
                let slot = self.scopes.iter().rev().find(|(known, _)| &**known == name).map(|(_, slot)| *slot);
                let take = self.takes && name == crate::parse::ACCUMULATOR;
                slot.map(|slot| Base::Local { slot, take })
            }
        };
        Ok(match base {
            Some(base) => Node::Attribute(Attribute { base, qualifiers: Vec::new() }),
            None => Node::Constant(Value::Null),
        })
    }

    fn select(&mut self, expr: &Expr, select: &Select) -> Result<Node, String> {
        if !matches!(self.checked.references[expr.id], Reference::Nothing) {
            return self.name(expr, &select.field);
        }
        let operand = self.node(&select.operand)?;
        let key = QualifierKey::Field(Arc::clone(&select.field));
        let attribute = qualified(operand, Qualifier { key, optional: false, test: select.test });
        Ok(if select.test { Node::Test(attribute) } else { Node::Attribute(attribute) })
    }

    fn list(&mut self, elements: &[ast::Element]) -> Result<Node, String> {
        let planned: Result<Vec<_>, String> =
            elements.iter().map(|element| Ok((self.node(&element.value)?, element.optional))).collect();
        let planned = planned?;
        let constants: Option<Vec<_>> =
            planned.iter().map(|(node, optional)| constant(node).filter(|_| !optional).cloned()).collect();
        Ok(constants.map_or(Node::List(planned), |values| Node::Constant(Value::from(values))))
    }

    fn map(&mut self, entries: &[ast::Entry]) -> Result<Node, String> {
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
                library::maps::from_entries(entries).map(Node::Constant).map_err(|error| error.to_string())
            }
            None => Ok(Node::Map(planned)),
        }
    }

    fn call(&mut self, expr: &Expr, call: &ast::Call) -> Result<Node, String> {
        if &*call.function == "_?._" {
            return self.index(&call.arguments, true);
        }
        let Reference::Function { function, overloads } = &self.checked.references[expr.id] else {
            return Err(format!("no such overload: {}", call.function));
        };
        match function.name {
            "_&&_" => return Ok(Node::And(self.nodes(call.arguments.iter())?)),
            "_||_" => return Ok(Node::Or(self.nodes(call.arguments.iter())?)),
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
            return Ok(Node::Equality { negated: function.name == "_!=_", sides: Box::new(sides) });
        }
        let overload = if let [only] = &overloads[..] { Some(*only) } else { None };
        planned_call(function, overload, arguments)
    }

    fn nodes<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) -> Result<Vec<Node>, String> {
        exprs.map(|expr| self.node(expr)).collect()
    }

    fn conditional(&mut self, arguments: &[Expr]) -> Result<Node, String> {
        let [condition, yes, no] = arguments else { return Err("no such overload: _?_:_".to_owned()) };
        let condition = self.node(condition)?;
        let (yes, no) = (branch(self.node(yes)?), branch(self.node(no)?));
        let base = Base::Conditional(Arc::new((condition, yes, no)));
        Ok(Node::Attribute(Attribute { base, qualifiers: Vec::new() }))
    }

    fn index(&mut self, arguments: &[Expr], optional: bool) -> Result<Node, String> {
        let [operand, index] = arguments else { return Err("no such overload: _[_]".to_owned()) };
        let operand = self.node(operand)?;
        let key = match self.node(index)? {
            Node::Constant(Value::String(text)) => QualifierKey::Field((*text).into()),
            Node::Constant(value @ (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bool(_))) => {
                QualifierKey::Constant(value)
            }
            Node::Constant(value) => return Err(format!("invalid qualifier type: {}", library::go_type(&value))),
            Node::Attribute(attribute) | Node::Test(attribute) => QualifierKey::Attribute(Arc::new(attribute)),
            node => QualifierKey::Node(Arc::new(node)),
        };
        Ok(Node::Attribute(qualified(operand, Qualifier { key, optional, test: false })))
    }
}

fn constant(node: &Node) -> Option<&Value<'static>> {
    match node {
        Node::Constant(value) => Some(value),
        _ => None,
    }
}

/// Adds a qualifier; a conditional passes it on to both branches.
fn qualified(operand: Node, qualifier: Qualifier) -> Attribute {
    let mut attribute = match operand {
        Node::Attribute(attribute) | Node::Test(attribute) => attribute,
        other => Attribute { base: Base::Node(Arc::new(other)), qualifiers: Vec::new() },
    };
    attribute.add(qualifier);
    attribute
}

/// Returns a branch of a condition: the cost of a variable itself is not counted there.
fn branch(node: Node) -> Attribute {
    match node {
        Node::Attribute(attribute) | Node::Test(attribute) => attribute,
        other => Attribute { base: Base::Node(Arc::new(other)), qualifiers: Vec::new() },
    }
}

fn planned_call(
    function: &'static Function,
    overload: Option<&'static Overload>,
    mut arguments: Vec<Node>,
) -> Result<Node, String> {
    let id = overload.map_or("", |overload| overload.id);
    if id == "in_list"
        && let Some(set) = arguments.get(1).and_then(constant).and_then(member_set)
    {
        return Ok(match (set.is_empty(), arguments.swap_remove(0)) {
            (true, _) => Node::Constant(Value::Bool(false)),
            (false, element) => Node::Member { element: Box::new(element), set },
        });
    }
    if matches!(function.name, "or" | "orValue") && arguments.len() == 2 {
        let unwrap = function.name == "orValue";
        return match (arguments.pop(), arguments.pop()) {
            (Some(right), Some(left)) => Ok(Node::OrElse { unwrap, sides: Box::new((left, right)) }),
            _ => Err(format!("no such overload: {}", function.name)),
        };
    }
    let regex = match (function.name, arguments.get(1).and_then(constant)) {
        ("matches" | "find" | "findAll", Some(Value::String(pattern))) => Some(library::regex::compile(pattern)?),
        _ => None,
    };
    let dispatches = overload.is_none() && function.shared.is_none() && function.overloads.len() > 1;
    let stops_early = arguments.len() > 2 || dispatches || id == "string_format" || regex.is_some();
    let cost = cost::rule(function.name, overload.map(|overload| overload.id));
    let is_limited = library::limits::apply_to(function.name);
    let is_unguarded = UNGUARDED.contains(&function.name);
    let call = Call { function, overload, arguments, stops_early, cost, regex, is_limited, is_unguarded };
    if let [Node::Constant(argument)] = &call.arguments[..]
        && CONVERSIONS.contains(&function.name)
    {
        let value = crate::machine::dispatch(&call, std::slice::from_ref(argument));
        return value.map(Node::Constant).map_err(|error| error.to_string());
    }
    Ok(Node::Call(Box::new(call)))
}

/// Returns the keys that equal an element of a constant list; `None` if an element cannot be a key.
#[expect(clippy::cast_precision_loss, reason = "as the API server does")]
fn member_set(list: &Value<'static>) -> Option<BTreeSet<Key<'static>>> {
    let Value::List(list) = list else { return None };
    let mut set = BTreeSet::new();
    for element in list.iter() {
        let key = Key::new(&element)?;
        match key {
            Key::Int(value) => {
                set.insert(Key::Double(value as f64));
                set.extend(u64::try_from(value).ok().map(Key::Uint));
            }
            Key::Uint(value) => {
                set.insert(Key::Double(value as f64));
                set.extend(i64::try_from(value).ok().map(Key::Int));
            }
            Key::Double(value) => {
                set.extend(exact_int(value).map(Key::Int));
                set.extend(exact_uint(value).map(Key::Uint));
            }
            Key::Null | Key::Other(_) => return None,
            Key::Bool(_) | Key::String(_) => {}
        }
        set.insert(key);
    }
    Some(set)
}
