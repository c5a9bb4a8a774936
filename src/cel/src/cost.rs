//! What calls cost: the rules of the API server's environment, then those of CEL itself.

use crate::{library::named, value::CelValue};

/// The cost of one variable, selection or simple call.
pub(crate) const UNIT: u64 = 1;
/// The cost of building a list.
pub(crate) const LIST: u64 = 10;
/// The cost of building a map.
pub(crate) const MAP: u64 = 30;
/// The limit of one expression.
pub const PER_EXPRESSION: u64 = 1_000_000;
/// The limit of all expressions of a policy for one object.
pub const PER_POLICY: u64 = 10_000_000;

/// How the cost of a call is computed from its arguments and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallCost {
    /// The same for all arguments.
    Fixed(u64),
    /// The size of the first argument, in tenths, times a factor.
    Traversal(u64),
    /// The size of the first argument with everything in it.
    Deep,
    /// The size of the result, in tenths, twice.
    Result,
    /// A regular expression: the sizes of text and pattern.
    Pattern,
    /// A named format.
    Validation,
    /// A network that contains another, or an address, which may have to be parsed.
    Contains { network: bool, parsed: bool },
    /// Equality: the smaller size, in tenths.
    Smaller,
    /// The sizes of both arguments, in tenths.
    Both,
    /// The product of the sizes of both arguments, in tenths.
    Search,
    /// The number of elements of the second argument.
    Membership,
    /// The product of the numbers of elements, times a factor.
    Sets(u64),
    /// A new list as long as the result.
    NewList,
    /// A flattened list.
    Flatten,
    /// Each element of an argument compared with each.
    SelfCompare(usize),
}

/// Returns the rule for a function and its overload, if only one is possible.
pub(crate) fn rule(function: &str, overload: Option<&str>) -> CallCost {
    let id = overload.unwrap_or_default();
    if let Some(cost) = list_rule(id) {
        return cost;
    }
    match function {
        "check" => CallCost::Fixed(350_000),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => CallCost::Deep,
        "ip" if id == "cidr_ip" => CallCost::Fixed(UNIT),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "ip" | "quantity"
        | "isQuantity" | "semver" | "isSemver" => CallCost::Traversal(1),
        "replace" | "split" | "ip.isCanonical" => CallCost::Traversal(2),
        "join" => CallCost::Result,
        "find" | "findAll" => CallCost::Pattern,
        "containsIP" => CallCost::Contains { network: false, parsed: id == "cidr_contains_ip_string" },
        "containsCIDR" => CallCost::Contains { network: true, parsed: id == "cidr_contains_cidr_string" },
        "validate" => CallCost::Validation,
        _ => language_rule(id),
    }
}

fn list_rule(overload: &str) -> Option<CallCost> {
    Some(match overload {
        "list_slice" | "lists_range" | "list_reverse" => CallCost::NewList,
        "list_flatten" | "list_flatten_int" => CallCost::Flatten,
        "list_distinct" => CallCost::SelfCompare(0),
        "list_sets_contains_list" | "list_sets_intersects_list" => CallCost::Sets(1),
        "list_sets_equivalent_list" => CallCost::Sets(2),
        id if id.starts_with("list_") && id.ends_with("_sort") => CallCost::SelfCompare(0),
        id if id.ends_with("_sortByAssociatedKeys") => CallCost::SelfCompare(1),
        _ => return None,
    })
}

fn language_rule(overload: &str) -> CallCost {
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
        | "string_format" => CallCost::Traversal(1),
        "in_list" => CallCost::Membership,
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => CallCost::Smaller,
        "add_string" | "add_bytes" => CallCost::Both,
        "matches_string" => CallCost::Pattern,
        "contains_string" => CallCost::Search,
        _ => CallCost::Fixed(UNIT),
    }
}

/// Returns a tenth, rounded up.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// Returns a quarter, rounded up: what an expression in a pattern is estimated to need.
fn quarter(size: u64) -> u64 {
    size.div_ceil(4)
}

/// Returns the cost of a call. An argument that is an error is given as null, which has its size.
pub(crate) fn call(cost: CallCost, arguments: &[CelValue<'_>], result: Option<&CelValue<'_>>) -> u64 {
    let size = |index: usize| arguments.get(index).map_or(1, CelValue::cost_size);
    match cost {
        CallCost::Fixed(cost) => cost,
        CallCost::Traversal(factor) => tenth(size(0).saturating_mul(factor)),
        CallCost::Deep => arguments.first().map_or(0, deep),
        CallCost::Result => tenth(result.map_or(1, CelValue::cost_size).saturating_mul(2)),
        CallCost::Pattern => tenth(size(0) + 1).saturating_mul(quarter(size(1))),
        CallCost::Validation => match arguments.first() {
            Some(CelValue::Format(format)) => tenth(size(1) + 1).saturating_mul(quarter(named::pattern_size(*format))),
            _ => UNIT,
        },
        CallCost::Contains { network, parsed } => {
            let masked = if network { tenth(size(0)) + 1 } else { 0 };
            tenth(2 * size(0)) + masked + if parsed { tenth(size(1)) } else { 0 }
        }
        CallCost::Smaller => tenth(size(0).min(size(1))),
        CallCost::Both => tenth(size(0) + size(1)),
        CallCost::Search => tenth(size(0)).saturating_mul(tenth(size(1))),
        CallCost::Membership => size(1),
        CallCost::Sets(factor) => UNIT + size(0).saturating_mul(size(1)).saturating_mul(factor),
        CallCost::NewList => result.map_or(1, CelValue::cost_size) + UNIT + LIST,
        CallCost::Flatten => {
            // A negative depth makes the cost smaller, as in the API server.
            let depth = match arguments.get(1) {
                Some(CelValue::Int(depth)) => *depth,
                _ => 1,
            };
            size(0).wrapping_mul(depth.cast_unsigned()).wrapping_add(UNIT + LIST)
        }
        CallCost::SelfCompare(index) => self_compare(arguments.get(index)),
    }
}

fn self_compare(list: Option<&CelValue<'_>>) -> u64 {
    let Some(CelValue::List(list)) = list else { return UNIT + LIST };
    let pairs = (list.len() as u64).saturating_mul(list.len() as u64);
    let cost = match list.get(0) {
        // A factor of 2.1, rounded down.
        Some(CelValue::String(_) | CelValue::Bytes(_)) => pairs.saturating_mul(21) / 10,
        _ => pairs.saturating_mul(2),
    };
    cost + UNIT + LIST
}

/// Returns the cost of reading everything in a value: a tenth of the bytes of texts, and 1 for each other scalar.
fn deep(value: &CelValue<'_>) -> u64 {
    match value {
        CelValue::String(text) => text.len() as u64 / 10,
        CelValue::Bytes(bytes) => bytes.len() as u64 / 10,
        CelValue::List(list) => list.iter().map(|element| deep(&element)).sum(),
        CelValue::Map(map) => map.entries().iter().map(|(key, value)| deep(key) + deep(value)).sum(),
        _ => 1,
    }
}
