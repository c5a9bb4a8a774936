//! Selection of objects by their labels, as with `kubectl get -l`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use kube::core::{Expression, Selector, SelectorExt as _};

/// A label selector in kubectl's syntax: `app=web`, `app!=web`, `app in (web, api)`, `app notin (web)`, `app`, `!app`,
/// or several of them separated by commas, which must all match.
///
/// The syntax is that of `labels.Parse` in apimachinery, without `>` and `<`, which kubectl does not document either.
#[derive(Debug, Clone)]
pub struct LabelRequirements(Selector);

impl LabelRequirements {
    /// Whether an object with these labels matches.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.matches(labels)
    }
}

impl fmt::Display for LabelRequirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LabelRequirements {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = parts(text).map(|part| {
            expression(part.trim()).ok_or_else(|| {
                format!("{part:?} is not a label selector: write app=web, app!=web, 'app in (web, api)', app or '!app'")
            })
        });
        parts.collect::<Result<_, _>>().map(Self)
    }
}

/// Splits a text at the commas that are not in parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn expression(text: &str) -> Option<Expression> {
    if let Some(name) = text.strip_prefix('!') {
        return Some(Expression::DoesNotExist(key(name)?));
    }
    if let Some((name, values)) = text.split_once('(') {
        let (name, word) = name.trim().rsplit_once(char::is_whitespace)?;
        let (name, values) = (key(name)?, values.strip_suffix(')')?.split(',').map(value).collect::<Option<_>>()?);
        return match word {
            "in" => Some(Expression::In(name, values)),
            "notin" => Some(Expression::NotIn(name, values)),
            _ => None,
        };
    }
    let Some((name, wanted)) = text.split_once('=') else { return Some(Expression::Exists(key(text)?)) };
    match name.strip_suffix('!') {
        Some(name) => Some(Expression::NotEqual(key(name)?, value(wanted)?)),
        None => Some(Expression::Equal(key(name)?, value(wanted.strip_prefix('=').unwrap_or(wanted))?)),
    }
}

/// Parses the key of a label: a name, optionally after a domain and a slash.
fn key(text: &str) -> Option<String> {
    let name = text.trim();
    let is_key = !name.is_empty() && name.matches('/').count() < 2 && name.replace('/', "").chars().all(is_plain);
    is_key.then(|| name.to_owned())
}

/// Parses the value of a label, which may be empty.
fn value(text: &str) -> Option<String> {
    let value = text.trim();
    value.chars().all(is_plain).then(|| value.to_owned())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_selected_as_by_kubectl() {
        let labels: BTreeMap<String, String> =
            [("app", "web"), ("example.com/team", "shop"), ("empty", "")].map(|(k, v)| (k.into(), v.into())).into();
        for (selector, chosen) in [
            ("app=web", true),
            ("app==web", true),
            ("app = web", true),
            ("app=api", false),
            ("app!=web", false),
            ("app!=api", true),
            ("tier!=back", true),
            ("app in (api, web)", true),
            ("app in (api)", false),
            ("app notin (api,db)", true),
            ("tier notin (back)", true),
            ("app", true),
            ("!app", false),
            ("!tier", true),
            ("empty=", true),
            ("example.com/team=shop,app in (web,api),!tier", true),
            ("example.com/team=shop,app in (db),!tier", false),
        ] {
            assert_eq!(selector.parse::<LabelRequirements>().unwrap().matches(&labels), chosen, "{selector}");
        }
    }

    #[test]
    fn invalid_selectors_are_refused() {
        for text in
            ["", "app=web,", "a b", "app in web", "app in (web", "app of (web)", "=web", "a/b/c", "app=a=b", "app>1"]
        {
            assert!(
                text.parse::<LabelRequirements>().unwrap_err().contains("is not a label selector: write app=web"),
                "{text}"
            );
        }
    }
}
