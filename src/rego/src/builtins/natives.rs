//! regorus' own builtins, called unchanged. Those that may produce large results are checked before the call.

use std::sync::LazyLock;

use regorus::{
    Value,
    unstable::{BUILTINS, Expr, Ref, Source, Span},
};

use super::{
    budget,
    call::{BuiltinFault, BuiltinResult, failed, items, refused},
};
use crate::error::PolicyError;

/// A builtin, its arity, and the check before the call. A builtin that produces at most a few times the size of its
/// arguments needs no check: its result is measured after the call.
type Measured = (&'static str, u8, fn(&[Value]) -> Result<(), BuiltinFault>);

const TABLE: &[Measured] = &[
    ("array.concat", 2, unchecked),
    ("array.reverse", 1, unchecked),
    ("array.slice", 3, unchecked),
    ("base64.encode", 1, unchecked),
    ("base64url.encode", 1, unchecked),
    ("base64url.encode_no_pad", 1, unchecked),
    ("concat", 2, check_concat),
    ("graph.reachable", 2, unchecked),
    ("graph.reachable_paths", 2, check_paths),
    ("hex.decode", 1, unchecked),
    ("hex.encode", 1, unchecked),
    ("intersection", 1, unchecked),
    ("json.patch", 2, |arguments| check_whole("json.patch", arguments)),
    ("object.filter", 2, unchecked),
    ("object.keys", 1, unchecked),
    ("object.remove", 2, unchecked),
    ("object.union", 2, |arguments| check_whole("object.union", arguments)),
    ("split", 2, check_split),
    ("strings.reverse", 1, unchecked),
    ("trim", 2, unchecked),
    ("trim_left", 2, unchecked),
    ("trim_prefix", 2, unchecked),
    ("trim_right", 2, unchecked),
    ("trim_suffix", 2, unchecked),
    ("union", 1, unchecked),
];

/// regorus' function for a builtin.
type NativeFunction = fn(&Span, &[Ref<Expr>], &[Value], bool) -> anyhow::Result<Value>;

/// One of regorus' builtins, with the check before the call.
#[derive(Clone, Copy)]
pub(super) struct Native {
    before: fn(&[Value]) -> Result<(), BuiltinFault>,
    function: NativeFunction,
}

impl Native {
    pub(super) fn call(self, arguments: &[Value]) -> BuiltinResult {
        (self.before)(arguments)?;
        run(self.function, arguments)
    }
}

/// Returns regorus' builtin of a name, with its check.
pub(super) fn find(name: &str) -> Option<Native> {
    let (function, _) = BUILTINS.get(name)?;
    let before =
        TABLE.binary_search_by_key(&name, |(name, ..)| *name).map_or(unchecked as fn(&[Value]) -> _, |at| TABLE[at].2);
    Some(Native { before, function: *function })
}

/// Calls regorus' builtin of a name.
pub(super) fn native(name: &str, arguments: &[Value]) -> BuiltinResult {
    match BUILTINS.get(name) {
        Some((function, _)) => run(*function, arguments),
        None => refused(format!("{name} is not available")),
    }
}

/// Calls a function of regorus. Many of its builtins return undefined where OPA's end in an error; none of these is
/// ever undefined in OPA.
fn run(function: NativeFunction, arguments: &[Value]) -> BuiltinResult {
    // Builtins need locations of the call and its arguments for their messages.
    static SPANS: LazyLock<Option<(Span, Vec<Ref<Expr>>)>> = LazyLock::new(|| {
        let source = Source::from_contents("builtin".to_owned(), "builtin".to_owned()).ok()?;
        let span = Span { source, line: 1, col: 1, start: 0, end: 0 };
        let expr = |_| Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
        let argument_exprs = (0..8).map(expr).collect();
        Some((span, argument_exprs))
    });
    let Some((span, argument_exprs)) = SPANS.as_ref() else { return refused("builtins are not available") };
    let argument_exprs = argument_exprs.get(..arguments.len()).unwrap_or_default();
    match function(span, argument_exprs, arguments, true) {
        Ok(Value::Undefined) => failed("no result for these arguments"),
        Ok(value) => Ok(value),
        Err(error) => {
            let limit = error.downcast_ref::<regorus::LimitError>().is_some();
            let why = PolicyError::new(&error).reason;
            Err(if limit { BuiltinFault::Refused(why) } else { BuiltinFault::Failed(why) })
        }
    }
}

fn unchecked(_: &[Value]) -> Result<(), BuiltinFault> {
    Ok(())
}

/// Returns the length of a string; zero for other types, which regorus refuses.
fn length(value: &Value) -> usize {
    if let Value::String(text) = value { text.len() } else { 0 }
}

fn check_concat(arguments: &[Value]) -> Result<(), BuiltinFault> {
    let items = items(&arguments[1]).unwrap_or_default();
    let between = length(&arguments[0]);
    budget::check_text("concat", items.into_iter().map(|item| length(item) + between).sum())
}

fn check_split(arguments: &[Value]) -> Result<(), BuiltinFault> {
    let (Value::String(text), Value::String(separator)) = (&arguments[0], &arguments[1]) else { return Ok(()) };
    budget::check_elements("split", text.matches(&**separator).count())
}

fn check_whole(name: &str, arguments: &[Value]) -> Result<(), BuiltinFault> {
    arguments.iter().try_for_each(|argument| budget::check_whole(name, argument))
}

/// Counts the nodes of all paths before they are found, as there may be exponentially many paths.
fn check_paths(arguments: &[Value]) -> Result<(), BuiltinFault> {
    let Value::Object(graph) = &arguments[0] else { return Ok(()) };
    let mut open: Vec<(usize, &Value)> =
        items(&arguments[1]).unwrap_or_default().into_iter().map(|node| (0, node)).collect();
    let mut path: Vec<&Value> = Vec::new();
    let mut nodes = 0;
    while let Some((depth, node)) = open.pop() {
        path.truncate(depth);
        if path.contains(&node) {
            continue;
        }
        path.push(node);
        nodes += path.len();
        budget::check_elements("graph.reachable_paths", nodes)?;
        let next = graph.get(node).and_then(items).unwrap_or_default();
        open.extend(next.into_iter().map(|node| (depth + 1, node)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use regorus::unstable::BUILTINS;

    use super::{super::known, *};

    #[test]
    fn the_table_is_sorted_and_lists_builtins_of_regorus() {
        assert!(TABLE.is_sorted_by_key(|(name, ..)| *name));
        for &(name, arity, _) in TABLE {
            assert!(BUILTINS.get(name).is_some_and(|(_, known)| *known == arity), "{name}");
            assert!(known::all().all(|(ours, ..)| *ours != name), "{name} is ours");
        }
    }

    #[test]
    fn paths_are_counted_before_they_are_built() {
        let layered = |layers: usize| {
            let next = |n: usize| Value::from(vec![Value::from(2 * n + 2), Value::from(2 * n + 3)]);
            let nodes = (0..layers).flat_map(|n| [(Value::from(2 * n), next(n)), (Value::from(2 * n + 1), next(n))]);
            [Value::from(nodes.collect::<std::collections::BTreeMap<_, _>>()), Value::from(vec![Value::from(0)])]
        };
        assert_eq!(check_paths(&layered(8)), Ok(()));
        assert!(matches!(check_paths(&layered(60)), Err(BuiltinFault::Refused(_))));
        let circle = Value::from_json_str(r#"{"a": ["b"], "b": ["a", "c"], "c": []}"#).unwrap();
        assert_eq!(check_paths(&[circle, Value::from(vec![Value::from("a")])]), Ok(()));
    }
}
