//! METADATA annotations: the comment blocks above packages and rules that describe them.
//!
//! The syntax tree has no comments, so they are read from the text and matched by line with the definition below them.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    frameworks::{self, FrameworkControls},
    rule_example::RuleExample,
};
use crate::{
    model::{
        spelling::nearest,
        verdict::{RuleInfo, Severity},
    },
    rego::{
        File, Problem,
        analysis::{
            missing::package_line,
            syntax::Module,
            yaml::{self, YamlDialect, YamlError},
        },
    },
};

/// The METADATA of one policy or rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `title`, `custom.id` and `custom.category`.
    pub info: Arc<RuleInfo>,
    /// `description`.
    pub description: Option<Arc<str>>,
    /// `custom.severity`.
    pub severity: Option<Severity>,
    /// `related_resources`.
    pub related_resources: Vec<RelatedResource>,
    /// `entrypoint`; for display only, since kaudit finds entrypoints by rule name.
    pub entrypoint: bool,
    /// `custom` with all its keys, also those above.
    pub custom: Map<String, Value>,
}

/// What a rule needs of its lookups: `custom.lookups`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LookupNeed {
    /// They have to be read: without the key.
    #[default]
    Read,
    /// They only refine results: the rule is evaluated without those that cannot be read.
    Optional,
    /// The rule reports what does not exist, so that every object that exists has to be known.
    Complete,
}

impl LookupNeed {
    /// The values of `custom.lookups`.
    const WORDS: [(&str, Self); 2] = [("optional", Self::Optional), ("complete", Self::Complete)];

    /// Returns the value of `custom.lookups`, if it has one.
    pub fn word(self) -> Option<&'static str> {
        Self::WORDS.iter().find(|(_, need)| *need == self).map(|(word, _)| *word)
    }

    /// Reads the key of `custom`; an unknown value is an error, which is the help for its author.
    fn of(custom: &Map<String, Value>) -> Result<Self, String> {
        let Some(value) = custom.get("lookups").filter(|value| !value.is_null()) else { return Ok(Self::default()) };
        let word = value.as_str().unwrap_or_default();
        if let Some((_, need)) = Self::WORDS.iter().find(|(known, _)| *known == word) {
            return Ok(*need);
        }
        let near = nearest(word, Self::WORDS.map(|(known, _)| known));
        Err(near.map_or_else(|| "use optional or complete".to_owned(), |near| format!("did you mean {near}?")))
    }
}

/// An entry of `related_resources`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelatedResource {
    /// `ref`, a URL.
    #[serde(rename = "url")]
    pub reference: Arc<str>,
    /// `description`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Arc<str>>,
}

impl Metadata {
    /// Returns the metadata of a rule of which only the id is known.
    pub(crate) fn of_id(id: Option<Arc<str>>) -> Self {
        Self { info: Arc::new(RuleInfo { id, ..RuleInfo::default() }), ..Self::default() }
    }

    /// Returns the ids of the rule: its own, and the other ids of Trivy's checks.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        let text = |key: &str| self.custom.get(key).and_then(Value::as_str);
        let aliases = self.custom.get("aliases").and_then(Value::as_array).into_iter().flatten();
        let others = [text("long_id"), text("avd_id")].into_iter().flatten();
        self.info.id.as_deref().into_iter().chain(others).chain(aliases.filter_map(Value::as_str))
    }

    /// Returns what the rule needs of its lookups.
    pub(crate) fn lookups(&self) -> LookupNeed {
        // Files with an unknown value are refused.
        LookupNeed::of(&self.custom).unwrap_or_default()
    }

    /// Returns the controls of frameworks that it serves, by `custom.frameworks`.
    pub(crate) fn frameworks(&self) -> FrameworkControls {
        frameworks::controls_in(self.custom.get("frameworks"))
    }

    /// Returns the manifests of `custom.example`, if it has both.
    pub(crate) fn example(&self) -> Option<RuleExample> {
        serde_json::from_value(self.custom.get("example")?.clone()).ok()
    }

    /// Returns the metadata with missing values filled in from a wider scope.
    pub(crate) fn or(&self, wider: &Self) -> Self {
        let mut custom = wider.custom.clone();
        custom.extend(self.custom.clone());
        Self {
            info: self.info.or(&wider.info),
            description: self.description.clone().or_else(|| wider.description.clone()),
            severity: self.severity.or(wider.severity),
            related_resources: if self.related_resources.is_empty() {
                wider.related_resources.clone()
            } else {
                self.related_resources.clone()
            },
            entrypoint: self.entrypoint,
            custom,
        }
    }
}

/// The scope of an annotation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AnnotationScope {
    /// One definition, by its index in the module.
    Rule(usize),
    /// All definitions of one name in the package.
    Document(String),
    Package,
    /// The package and those below it.
    Subpackages,
}

/// Reads the annotations of one module. Mistakes in them are warnings, since evaluation does not depend on them; an
/// unknown value of `custom.lookups`, which decides about evaluation, is a refusal.
pub(crate) fn read(file: &File, module: &Module, problems: &mut Vec<Problem>) -> Vec<(AnnotationScope, Metadata)> {
    let mut annotations = Vec::new();
    for block in blocks(&file.text, &module.inside_texts) {
        let value = match block.value() {
            Ok(Value::Object(value)) => value,
            Ok(_) => {
                problems.push(Problem::warning(&file.shown, "METADATA must be a YAML mapping").at(
                    &file.text,
                    block.first,
                    1,
                ));
                continue;
            }
            Err(error) => {
                let message = format!("METADATA is not valid YAML: {}", error.why);
                problems.push(Problem::warning(&file.shown, message).at(&file.text, block.first + error.at.line, 1));
                continue;
            }
        };
        let scope = match scope(&value, module, block.last) {
            Ok(scope) => scope,
            Err((message, help)) => {
                let problem = Problem::warning(&file.shown, message).help(help);
                problems.push(problem.at(&file.text, block.first, 1));
                continue;
            }
        };
        let (metadata, unknown) = of_annotation(&value);
        if let Some(word) = unknown {
            let problem = Problem::warning(&file.shown, format!("unknown severity {word:?}"));
            problems.push(problem.at(&file.text, block.first, 1).help("use critical, high, medium, low or info"));
        }
        if let Err(help) = LookupNeed::of(&metadata.custom) {
            let message = format!("unknown value of custom.lookups: {}", metadata.custom["lookups"]);
            problems.push(Problem::refused(&file.shown, message).at(&file.text, block.first, 1).help(help));
        }
        if let Some((message, help)) = metadata.custom.get("frameworks").and_then(frameworks::mistake_in) {
            problems.push(Problem::warning(&file.shown, message).at(&file.text, block.first, 1).help(help));
        }
        annotations.push((scope, metadata));
    }
    annotations
}

/// Returns the annotations of the package that a text declares, if it has valid ones.
pub(crate) fn of_package(text: &str) -> Option<Metadata> {
    let (package, _) = package_line(text)?;
    let is_above = |block: &CommentBlock| usize::try_from(block.last).is_ok_and(|last| last <= package);
    // Only comments precede a package.
    let blocks = blocks(text, &BTreeSet::new()).into_iter().filter(is_above);
    let mut values = blocks.filter_map(|block| block.value().ok()?.as_object().cloned());
    let scope = |value: &Map<String, Value>| value.get("scope").and_then(Value::as_str).map(str::to_owned);
    let value = values.find(|value| scope(value).is_none_or(|scope| scope == "package"))?;
    Some(of_annotation(&value).0)
}

/// A comment block that begins with `# METADATA`.
struct CommentBlock {
    /// The line of the word METADATA.
    first: u32,
    /// The block's last line.
    last: u32,
    yaml: String,
}

impl CommentBlock {
    fn value(&self) -> Result<Value, YamlError> {
        yaml::single(&self.yaml, YamlDialect::Opa).map(|node| node.json())
    }
}

fn blocks(text: &str, inside_strings: &BTreeSet<u32>) -> Vec<CommentBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<CommentBlock> = None;
    for (line_number, line) in (1..).zip(text.lines()) {
        // Only at the beginning of a line, as in OPA: annotations inside a body do not apply to anything.
        let comment = line.strip_prefix('#').filter(|_| !inside_strings.contains(&line_number));
        match (comment, &mut open) {
            (Some(comment), _) if comment.trim() == "METADATA" => {
                blocks.extend(open.replace(CommentBlock {
                    first: line_number,
                    last: line_number,
                    yaml: String::new(),
                }));
            }
            (Some(comment), Some(block)) => {
                block.last = line_number;
                block.yaml.push_str(comment);
                block.yaml.push('\n');
            }
            (Some(_), None) => {}
            (None, _) => blocks.extend(open.take()),
        }
    }
    blocks.extend(open);
    blocks
}

/// Returns the scope of an annotation that ends on line `last`, or an error message and how to fix it.
fn scope(value: &Map<String, Value>, module: &Module, last: u32) -> Result<AnnotationScope, (String, &'static str)> {
    let scope = value.get("scope").and_then(Value::as_str);
    let package = match scope {
        Some("subpackages") => return Ok(AnnotationScope::Subpackages),
        Some("package") => true,
        Some("rule" | "document") => false,
        Some(other) => {
            return Err((format!("unknown scope {other:?}"), "use rule, document, package or subpackages"));
        }
        None => module.at.line > last,
    };
    if package {
        return Ok(AnnotationScope::Package);
    }
    let mut rules = module.rule_starts().enumerate();
    let nothing = || ("METADATA applies to nothing: no rule follows it".to_owned(), "put it above its rule");
    let (index, (_, name)) = rules.find(|(_, (line, _))| *line > last).ok_or_else(nothing)?;
    let entrypoint = value.get("entrypoint").and_then(Value::as_bool) == Some(true);
    if scope == Some("document") || (scope.is_none() && entrypoint) {
        Ok(AnnotationScope::Document(name.to_owned()))
    } else {
        Ok(AnnotationScope::Rule(index))
    }
}

/// Reads the keys of an annotation; also returns the severity if it is unknown.
pub(crate) fn of_annotation(value: &Map<String, Value>) -> (Metadata, Option<Arc<str>>) {
    let text = |value: Option<&Value>| match value? {
        Value::String(text) => Some(Arc::<str>::from(text.trim())),
        other => Some(other.to_string().into()),
    };
    let custom = value.get("custom").and_then(Value::as_object).cloned().unwrap_or_default();
    let word = text(custom.get("severity").or_else(|| custom.get("Severity")));
    let severity = word.as_deref().and_then(Severity::from_word);
    let related = value.get("related_resources").and_then(Value::as_array).into_iter().flatten();
    let metadata = Metadata {
        info: Arc::new(RuleInfo {
            title: text(value.get("title")),
            id: text(custom.get("id")),
            category: text(custom.get("category")),
        }),
        description: text(value.get("description")),
        severity,
        related_resources: related
            .filter_map(|item| match item {
                Value::String(reference) => {
                    Some(RelatedResource { reference: reference.as_str().into(), description: None })
                }
                item => Some(RelatedResource {
                    reference: text(item.get("ref"))?,
                    description: text(item.get("description")),
                }),
            })
            .collect(),
        entrypoint: value.get("entrypoint").and_then(Value::as_bool).unwrap_or(false),
        custom,
    };
    // `unknown` is Trivy's value for no severity.
    (metadata, word.filter(|word| severity.is_none() && !word.eq_ignore_ascii_case("unknown")))
}
