//! Which of OPA's builtins are supported, and why the others are not.

use regorus::unstable::BUILTINS;

use super::{
    call::Builtin, cidr, collections, digests, encoding, format, globs, numbers, operators, regexes, replacer, results,
    text, times, units, uri, yaml_writer,
};

/// All builtins implemented here.
const TABLES: &[&[Builtin]] = &[
    cidr::TABLE,
    collections::TABLE,
    digests::TABLE,
    encoding::TABLE,
    format::TABLE,
    globs::TABLE,
    numbers::TABLE,
    operators::TABLE,
    regexes::TABLE,
    replacer::TABLE,
    results::TABLE,
    text::TABLE,
    times::TABLE,
    units::TABLE,
    uri::TABLE,
    yaml_writer::TABLE,
];

/// Builtins that regorus only pretends to implement, and those that need access that a policy must not have, each with
/// a hint. A name that ends in a dot is a prefix.
const REFUSED: &[(&str, &str)] = &[
    ("http.send", NETWORK),
    ("net.lookup_ip_addr", NETWORK),
    ("providers.aws.", NETWORK),
    ("opa.runtime", "policies do not run inside an OPA server; put the values that the policy needs into a data file"),
    ("rego.", "policies cannot read policies; write the rule without it"),
    ("io.jwt.", "tokens can be decoded with io.jwt.decode, but not signed or verified"),
    ("crypto.x509.", "certificates cannot be parsed; write the rule without it"),
    ("crypto.parse_private_keys", "keys cannot be parsed; write the rule without it"),
    ("graphql.", "GraphQL cannot be parsed; write the rule without it"),
    ("json.match_schema", "JSON schemas are not supported; write the requirements as a rule"),
    ("json.verify_schema", "JSON schemas are not supported; write the requirements as a rule"),
    ("strings.render_template", "Go templates are not supported; use sprintf"),
    ("regex.globs_match", "use glob.match instead"),
    ("assign", OPERATOR),
    ("internal.", "it is internal to OPA; write the rule without it"),
    ("cidr.", TRIVY),
    ("sh.", TRIVY),
    ("squealer.", TRIVY),
    ("rand.intn", "results must not be random; write the rule without it"),
];

const NETWORK: &str = "policies cannot access the network; put the values that they need into a data file";
const TRIVY: &str = "Trivy provides it only for checks of other types than Kubernetes; write the rule without it";
const OPERATOR: &str = "it cannot be called by name; use the operator";

/// Returns all builtins implemented here.
pub(super) fn all() -> impl Iterator<Item = &'static Builtin> {
    TABLES.iter().copied().flatten()
}

/// Whether a builtin of this name is supported.
pub(crate) fn exists(name: &str) -> bool {
    name == "print"
        || all().any(|(known, ..)| *known == name)
        || unsupported(name).is_none() && BUILTINS.contains_key(name)
}

/// Returns why the builtin of this name is not supported, if OPA has one.
pub(crate) fn unsupported(name: &str) -> Option<String> {
    if all().any(|(known, ..)| *known == name) {
        return None;
    }
    let refused = |known: &str| if known.ends_with('.') { name.starts_with(known) } else { name == known };
    REFUSED.iter().find(|(known, _)| refused(known)).map(|(_, why)| (*why).to_owned())
}

/// Returns the builtin whose name is nearest to a misspelled one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let names = BUILTINS.keys().copied().chain(all().map(|(known, ..)| *known));
    let names = names.filter(|known| exists(known) && !known.starts_with("__") && !known.starts_with("internal."));
    let (distance, nearest) = names.map(|known| (strsim::levenshtein(name, known), known)).min()?;
    (distance <= 3 && distance * 2 < name.len()).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_builtins_get_a_suggestion() {
        assert_eq!(nearest("startwith"), Some("startswith"));
        assert_eq!(nearest("regexp.match"), Some("regex.match"));
        assert_eq!(nearest("net.cidr_merges"), Some("net.cidr_merge"));
        assert_eq!(nearest("frobnicate"), None);
    }

    #[test]
    fn unsupported_builtins_are_distinguished_from_unknown_ones() {
        assert!(!exists("http.send") && unsupported("http.send").is_some_and(|why| why.contains("network")));
        assert!(exists("io.jwt.decode") && unsupported("io.jwt.decode").is_none());
        assert!(!exists("io.jwt.verify_hs256") && unsupported("io.jwt.verify_hs256").is_some());
        assert!(!exists("nope") && unsupported("nope").is_none());
        assert!(exists("sprintf"));
    }

    #[test]
    fn builtins_are_unique() {
        let mut names: Vec<&str> = all().map(|(name, ..)| *name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
