//! Objects nested deeper than the JSON parser's limit: an API server accepts thousands of levels.

/// The deepest nesting level that is parsed.
pub(crate) const DEEPEST: usize = 127;

/// Reads JSON, or, if that fails, the same JSON without the values nested deeper than [`DEEPEST`] levels; returns
/// whether any were removed.
///
/// # Errors
/// Returns the error of `read` if the JSON has no such values, or also fails without them.
pub(crate) fn shallow<T, E>(json: &[u8], read: impl Fn(&[u8]) -> Result<T, E>) -> Result<(T, bool), E> {
    match read(json) {
        Ok(value) => Ok((value, false)),
        Err(error) => match cut(json) {
            Some(shallow) => Ok((read(&shallow)?, true)),
            None => Err(error),
        },
    }
}

/// Returns the message about an object with values that were removed.
pub(crate) fn too_deep() -> String {
    format!("the object is nested deeper than {DEEPEST} levels: values below that were evaluated as null")
}

/// Returns the JSON with `null` in place of each value nested deeper than [`DEEPEST`] levels; `None` if there is none.
fn cut(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut depth, mut from, mut in_string, mut is_escaped) = (0_usize, 0, false, false);
    for (at, byte) in json.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth == DEEPEST + 1 {
                    out.extend_from_slice(&json[from..at]);
                    out.extend_from_slice(b"null");
                }
            }
            b'}' | b']' => {
                if depth == DEEPEST + 1 {
                    from = at + 1;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    (!out.is_empty()).then(|| {
        out.extend_from_slice(&json[from..]);
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize, inner: &str) -> String {
        format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn values_below_the_deepest_level_become_null() {
        let read = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json);
        let (value, is_cut) = shallow(nested(DEEPEST, "1").as_bytes(), read).unwrap();
        assert_eq!((value.to_string(), is_cut), (nested(DEEPEST, "1"), false));
        let deep = format!(r#"{{"a":"]}}\"[","b":{},"c":[{}],"d":1}}"#, nested(3_000, "{}"), nested(126, r#""]""#));
        let want = format!(r#"{{"a":"]}}\"[","b":{},"c":[{}],"d":1}}"#, nested(126, "null"), nested(125, "null"));
        let (value, is_cut) = shallow(deep.as_bytes(), read).unwrap();
        assert_eq!((value.to_string(), is_cut), (want, true));
        for broken in ["[1", &"[".repeat(200), &format!("{}]]", nested(200, "1"))] {
            assert!(shallow(broken.as_bytes(), read).is_err(), "{broken}");
        }
    }
}
