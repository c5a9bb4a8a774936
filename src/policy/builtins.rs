//! Builtins: which exist, which are refused, and which are wrapped because they panic or hang on some arguments.

use anyhow::{Result, bail};
use regorus::{
    Engine, Value,
    unstable::{BUILTINS, Expr, Ref, Source, Span},
};

use super::value;

/// The largest array that one builtin call may make.
const LARGEST_ARRAY: u64 = 1_000_000;

/// The longest text that is read as a number, and the largest exponent in it. Beyond it regorus computes the digits one
/// by one; Go's numbers end far below.
const LONGEST_NUMBER: usize = 400;
const LARGEST_EXPONENT: u32 = 400;

/// The largest width in a format.
const WIDEST: u32 = 10_000;

/// Builtins that regorus answers without doing what they say.
const STUBS: &[(&str, &str)] = &[
    ("http.send", "policies cannot reach the network; put what they need into a data file"),
    ("opa.runtime", "there is no OPA around a policy here; put what it needs into a data file"),
];

/// How many arguments a builtin takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    Any,
    Exactly(u8),
}

/// Returns what a builtin of this name takes, if there is one that can be called.
pub(crate) fn find(name: &str) -> Option<Arity> {
    if name == "print" {
        return Some(Arity::Any);
    }
    if STUBS.iter().any(|(stub, _)| *stub == name) {
        return None;
    }
    BUILTINS.get(name).map(|(_, arity)| Arity::Exactly(*arity))
}

/// Returns why OPA's builtin of this name is not here, if OPA has one.
pub(crate) fn unsupported(name: &str) -> Option<String> {
    if let Some((_, why)) = STUBS.iter().find(|(stub, _)| *stub == name) {
        return Some((*why).to_owned());
    }
    let network = ["net.lookup_ip_addr", "providers.aws."];
    if network.iter().any(|prefix| name.starts_with(prefix)) {
        return Some("policies cannot reach the network; put what they need into a data file".to_owned());
    }
    let missing = |known: &&str| if known.ends_with(['.', '_']) { name.starts_with(*known) } else { name == *known };
    NOT_HERE.iter().any(missing).then(|| "OPA has it, kaudit does not; write the rule without it".to_owned())
}

/// Returns the builtin whose name is nearest to a misspelt one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let names = BUILTINS.keys().filter(|known| find(known).is_some() && !known.starts_with("__"));
    let (distance, nearest) = names.map(|known| (strsim::levenshtein(name, known), *known)).min()?;
    (distance <= 3 && distance * 2 < name.len()).then_some(nearest)
}

/// Adds what takes the place of dangerous builtins; an extension comes before the builtin of its name.
pub(crate) fn guard(engine: &mut Engine, _strict: bool) -> Result<()> {
    for name in ["units.parse", "units.parse_bytes", "to_number"] {
        wrap(engine, name, 1, |arguments| {
            if as_text(&arguments[0]).is_some_and(too_large) { Ok(Some(Value::Undefined)) } else { Ok(None) }
        })?;
    }
    // They read a key that stands for numbers of any size; see `value`.
    wrap(engine, "json.unmarshal", 1, |arguments| {
        Ok(as_text(&arguments[0]).map(|text| value::from_json(text.as_bytes()).unwrap_or(Value::Undefined)))
    })?;
    wrap(engine, "json.is_valid", 1, |arguments| {
        Ok(as_text(&arguments[0]).map(|text| Value::from(value::from_json(text.as_bytes()).is_ok())))
    })?;
    wrap(engine, "yaml.unmarshal", 1, |arguments| {
        Ok(as_text(&arguments[0]).map(|text| value::from_yaml(text).unwrap_or(Value::Undefined)))
    })?;
    wrap(engine, "yaml.is_valid", 1, |arguments| {
        Ok(as_text(&arguments[0]).map(|text| Value::from(value::from_yaml(text).is_ok())))
    })?;
    wrap(engine, "sprintf", 2, |arguments| match as_text(&arguments[0]) {
        Some(format) if too_wide(format) => bail!("sprintf: a width of more than {WIDEST} characters"),
        _ => Ok(None),
    })?;
    // The empty pattern: regorus cuts arrays into windows of no length, which panics.
    wrap(engine, "object.subset", 2, |arguments| match (&arguments[0], &arguments[1]) {
        (Value::Array(_), Value::Array(part)) if part.iter().next().is_none() => Ok(Some(Value::from(true))),
        _ => Ok(None),
    })?;
    wrap(engine, "strings.count", 2, |arguments| match (as_text(&arguments[0]), as_text(&arguments[1])) {
        (Some(text), Some("")) => Ok(Some(Value::from(text.chars().count() + 1))),
        _ => Ok(None),
    })?;
    wrap(engine, "numbers.range", 2, |arguments| range_size(&arguments[0], &arguments[1], 1))?;
    wrap(engine, "numbers.range_step", 3, |arguments| {
        let step = arguments[2].as_f64().unwrap_or(1.0);
        // regorus divides by it.
        if step < 1.0 {
            Ok(Some(Value::Undefined))
        } else {
            range_size(&arguments[0], &arguments[1], arguments[2].as_u64().unwrap_or(1))
        }
    })?;
    wrap(engine, "net.cidr_expand", 1, |arguments| match as_text(&arguments[0]).and_then(host_bits) {
        Some(bits) if bits > 16 => bail!("net.cidr_expand: more than 65536 addresses"),
        _ => Ok(None),
    })?;
    wrap(engine, "bits.lsh", 2, |arguments| match arguments[1].as_u64() {
        Ok(shift) if shift > 4096 => bail!("bits.lsh: a shift of {shift} bits"),
        _ => Ok(None),
    })
}

/// Puts `check` before a builtin: `Some` is its answer, `None` leaves the answer to the builtin.
fn wrap(
    engine: &mut Engine,
    name: &'static str,
    arity: u8,
    check: impl Fn(&[Value]) -> Result<Option<Value>> + Clone + Send + Sync + 'static,
) -> Result<()> {
    let Some((builtin, _)) = BUILTINS.get(name).copied() else { return Ok(()) };
    // Builtins want the place of the call for their messages, which non-strict evaluation throws away.
    let source = Source::from_contents(name.to_owned(), name.to_owned())?;
    let span = Span { source, line: 1, col: 1, start: 0, end: 0 };
    let place = |_| Ref::new(Expr::Null { span: span.clone(), value: Value::Null, eidx: 0 });
    let places: Vec<Ref<Expr>> = (0..arity).map(place).collect();
    engine.add_extension(
        name.to_owned(),
        arity,
        Box::new(move |arguments: Vec<Value>| match check(&arguments)? {
            Some(answer) => Ok(answer),
            // A builtin's own error is undefined, as in OPA.
            None => Ok(builtin(&span, &places, &arguments, false).unwrap_or(Value::Undefined)),
        }),
    )
}

fn as_text(value: &Value) -> Option<&str> {
    value.as_string().ok().map(AsRef::as_ref)
}

/// Whether reading a text as a number would take unreasonably long.
fn too_large(text: &str) -> bool {
    let exponent = text.find(['e', 'E']).map(|at| text[at + 1..].trim_start_matches(['+', '-']));
    let digits = exponent.map(|text| text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    let exponent = digits.filter(|digits| !digits.is_empty());
    text.len() > LONGEST_NUMBER || exponent.is_some_and(|digits| digits.parse().unwrap_or(u32::MAX) > LARGEST_EXPONENT)
}

/// Whether a format pads something to an unreasonable width.
fn too_wide(format: &str) -> bool {
    let widths = format.split('%').skip(1).map(|verb| {
        let flags = verb.trim_start_matches(['+', '-', '#', ' ', '0']);
        flags.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default()
    });
    widths.filter(|width| !width.is_empty()).any(|width| width.parse::<u32>().map_or(true, |width| width > WIDEST))
}

fn range_size(from: &Value, to: &Value, step: u64) -> Result<Option<Value>> {
    let (Ok(from), Ok(to)) = (from.as_f64(), to.as_f64()) else { return Ok(None) };
    #[allow(clippy::cast_precision_loss, reason = "only the order of magnitude matters")]
    if (to - from).abs() / step as f64 >= LARGEST_ARRAY as f64 {
        bail!("numbers.range: more than {LARGEST_ARRAY} numbers");
    }
    Ok(None)
}

/// Returns how many bits of a network's addresses are free.
fn host_bits(network: &str) -> Option<u32> {
    let (address, prefix) = network.split_once('/')?;
    let width: u32 = if address.contains(':') { 128 } else { 32 };
    Some(width.saturating_sub(prefix.trim().parse().ok()?))
}

/// Builtins of OPA that this evaluator does not have, by name or by what their names begin with.
const NOT_HERE: &[&str] = &[
    "all",
    "and",
    "any",
    "array.flatten",
    "assign",
    "cast_",
    "crypto.",
    "div",
    "eq",
    "equal",
    "graphql.",
    "gt",
    "gte",
    "internal.",
    "io.jwt.",
    "json.match_schema",
    "json.patch",
    "json.verify_schema",
    "lt",
    "lte",
    "minus",
    "mul",
    "neq",
    "net.cidr_",
    "or",
    "plus",
    "re_match",
    "regex.",
    "rego.",
    "rem",
    "set_diff",
    "strings.render_template",
    "strings.split_n",
    "uri.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_would_not_return_are_told_apart() {
        assert!(too_large("1e100000000"));
        assert!(too_large("1E+99999999999Gi"));
        assert!(too_large(&"9".repeat(401)));
        for fine in ["12", "1.5Gi", "1e3", "100E", "2Ei", "5e", "-1e-3", "E"] {
            assert!(!too_large(fine), "{fine}");
        }
    }

    #[test]
    fn misspelt_builtins_have_a_neighbour() {
        assert_eq!(nearest("startwith"), Some("startswith"));
        assert_eq!(nearest("regexp.match"), Some("regex.match"));
        assert_eq!(nearest("frobnicate"), None);
    }

    #[test]
    fn what_is_not_here_is_told_apart_from_what_is_nowhere() {
        assert!(find("http.send").is_none() && unsupported("http.send").is_some_and(|why| why.contains("network")));
        assert!(find("io.jwt.decode").is_none() && unsupported("io.jwt.decode").is_some());
        assert!(find("nope").is_none() && unsupported("nope").is_none());
        assert_eq!(find("sprintf"), Some(Arity::Exactly(2)));
    }
}
