//! The reference of the chart's values, from the comments in `values.yaml`, and the values that its schema allows.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use kaudit::rego::analysis::yaml;
use serde_json::Value as Json;

use super::markdown::{Page, code, codes, escape, table};

const VALUES: &str = "charts/kaudit/values.yaml";
const SCHEMA: &str = "charts/kaudit/values.schema.json";

/// A key of `values.yaml` with its comments.
#[derive(Debug, Default, PartialEq)]
struct ChartKey {
    /// The keys from the top level.
    path: Vec<String>,
    /// The comment above it.
    about: String,
    /// The commented lines below it.
    example: Vec<String>,
}

/// The chart's values: their keys in order, their defaults and their schema.
struct ChartValues {
    keys: Vec<ChartKey>,
    defaults: Json,
    schema: Json,
}

/// Returns the reference of all values.
pub(crate) fn reference(root: &Path) -> Result<String> {
    let [text, schema] = [VALUES, SCHEMA].map(|file| fs::read_to_string(root.join(file)).context(file));
    let text = text?;
    let defaults = yaml::from_str(&text).context(VALUES)?;
    let values = ChartValues { keys: keys(&text), defaults, schema: serde_json::from_str(&schema?)? };
    let mut page = Page::new("Chart values");
    page.add("The values of the chart `kaudit` and their defaults. An unknown value is an error.");
    let (sections, single): (Vec<&ChartKey>, Vec<&ChartKey>) =
        values.keys.iter().filter(|key| key.path.len() == 1).partition(|key| values.is_section(key));
    values.add(&mut page, &single);
    for section in sections {
        page.add(&format!("## {}", section.path.join(".")));
        page.add(&escape(&section.about));
        values.add(&mut page, &values.below(section));
    }
    Ok(page.finish())
}

impl ChartValues {
    /// Whether the keys of a mapping have comments of their own.
    fn is_section(&self, key: &ChartKey) -> bool {
        self.below(key).iter().any(|below| !below.about.is_empty())
    }

    fn below(&self, key: &ChartKey) -> Vec<&ChartKey> {
        self.keys
            .iter()
            .filter(|other| other.path.len() > key.path.len() && other.path.starts_with(&key.path))
            .collect()
    }

    /// Adds a table of keys, without those of mappings that are described as a whole, and their examples.
    fn add(&self, page: &mut Page, keys: &[&ChartKey]) {
        let is_in_whole = |key: &ChartKey| {
            let above = self.keys.iter().filter(|above| above.path.len() < key.path.len());
            above.filter(|above| key.path.starts_with(&above.path)).any(|above| !self.is_section(above))
        };
        let shown: Vec<&&ChartKey> = keys.iter().filter(|key| !is_in_whole(key)).collect();
        let rows = shown.iter().map(|key| {
            let default = if self.is_section(key) { String::new() } else { code(&self.default(key)) };
            let allowed = self.allowed(key);
            let allowed = if allowed.is_empty() { allowed } else { format!(" Values: {allowed}.") };
            [code(&key.path.join(".")), default, format!("{}{allowed}", escape(&key.about))]
        });
        page.add(&table(["value", "default", "meaning"], rows));
        for key in shown.iter().filter(|key| !key.example.is_empty()) {
            let path = key.path.iter().enumerate().map(|(depth, name)| format!("{}{name}:\n", "  ".repeat(depth)));
            page.code("yaml", &(path.collect::<String>() + &key.example.join("\n")));
        }
    }

    /// Returns a default in YAML's flow style; empty for null.
    fn default(&self, key: &ChartKey) -> String {
        let value = key.path.iter().try_fold(&self.defaults, |value, name| value.get(name)).unwrap_or(&Json::Null);
        match value {
            Json::Null => String::new(),
            Json::String(text) if !text.is_empty() => text.clone(),
            value => value.to_string(),
        }
    }

    /// Returns the only values that the schema allows, if it lists them.
    fn allowed(&self, key: &ChartKey) -> String {
        let schema = key.path.iter().try_fold(&self.schema, |schema, name| schema.get("properties")?.get(name));
        let values = schema.and_then(|schema| schema.get("enum")?.as_array()).into_iter().flatten();
        codes(values.filter_map(Json::as_str))
    }
}

/// Returns the keys of a values file, without those below a list or another value.
fn keys(text: &str) -> Vec<ChartKey> {
    let (mut keys, mut indents): (Vec<ChartKey>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut comment, mut has_value) = (Vec::new(), false);
    for line in text.lines() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let is_below = indents.last().is_some_and(|above| indent > *above);
        let is_in_value = is_below && has_value;
        let key = trimmed.split_once(':').filter(|(name, value)| {
            let is_key = value.is_empty() || value.starts_with(' ');
            is_key && !is_in_value && !name.starts_with('-')
        });
        match (trimmed.strip_prefix('#'), key, keys.last_mut()) {
            (Some(example), _, Some(last)) if is_in_value => {
                let example = example.strip_prefix(' ').unwrap_or(example);
                last.example.push(format!("{}{example}", " ".repeat(indent)).trim_end().to_owned());
            }
            (Some(text), ..) => comment.push(text.trim().to_owned()),
            (None, Some((name, value)), _) => {
                let depth = indents.iter().take_while(|above| **above < indent).count();
                indents.truncate(depth);
                indents.push(indent);
                let above = keys.last().map(|last| last.path[..depth].to_vec()).unwrap_or_default();
                let path = above.into_iter().chain([name.to_owned()]).collect();
                has_value = !value.is_empty();
                keys.push(ChartKey { path, about: std::mem::take(&mut comment).join(" "), example: Vec::new() });
            }
            // An item of a list.
            (None, None, _) if is_below => has_value = true,
            _ => comment.clear(),
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_comments_above_and_the_examples_below_them() {
        let text = [
            "# About a",
            "# in two lines.",
            "a: 1",
            "",
            "# Nothing follows.",
            "",
            "b:",
            "  # About c.",
            "  c: {}",
            "    # x: 1",
            "    # # why",
            "",
            "  d:",
            "    - e: 2",
            "      f: 3",
            r#"g: """#,
        ]
        .join("\n");
        let key = |path: &str, about: &str, example: &[&str]| ChartKey {
            path: path.split('.').map(str::to_owned).collect(),
            about: about.to_owned(),
            example: example.iter().map(|line| (*line).to_owned()).collect(),
        };
        let want = [
            key("a", "About a in two lines.", &[]),
            key("b", "", &[]),
            key("b.c", "About c.", &["    x: 1", "    # why"]),
            key("b.d", "", &[]),
            key("g", "", &[]),
        ];
        assert_eq!(keys(&text), want);
    }
}
