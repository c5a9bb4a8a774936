//! The description of a rule, without an object.

use std::io;

use serde::Serialize;

use super::text::{self, BOLD, DIM, PLAIN, StyledLine};
use crate::{
    cli::explain::ExplainFormat,
    cluster::identity::API_VERSION,
    judge::{policy::Policy, rule::Rule},
    model::verdict::Source,
    output::{ListedPolicy, ListedRule, RenderOptions, safe::write_json_pretty},
};

/// A rule, as `kaudit explain RULE -o json` writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DescribedRule {
    api_version: &'static str,
    kind: &'static str,
    /// Its policy, without other rules.
    policy: ListedPolicy,
    /// Its source.
    definitions: Vec<WrittenDefinition>,
}

/// A definition of a rule.
#[derive(Serialize)]
struct WrittenDefinition {
    #[serde(flatten)]
    source: Source,
    text: String,
}

/// Writes the metadata of a rule, its kinds and its source.
pub(super) fn render(
    (policy, rule): (&Policy, &Rule),
    format: ExplainFormat,
    options: &RenderOptions,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let definitions = rule.texts.iter();
    let definitions =
        definitions.map(|one| WrittenDefinition { source: one.source.clone(), text: one.text.to_string() });
    let described = DescribedRule {
        api_version: API_VERSION,
        kind: "RuleDescription",
        policy: ListedPolicy { rules: vec![ListedRule::from(rule)], ..ListedPolicy::from(policy) },
        definitions: definitions.collect(),
    };
    if format == ExplainFormat::Json {
        write_json_pretty(&mut *out, &described)?;
        return out.write_all(b"\n");
    }
    text::write(described.lines(), options, out)
}

impl DescribedRule {
    fn lines(&self) -> Vec<StyledLine> {
        let Self { policy, definitions, .. } = self;
        let mut lines = Vec::new();
        for rule in &policy.rules {
            lines.extend(text::about(&policy.name, &rule.name, &rule.about));
            lines.push((PLAIN, String::new()));
            let excuse =
                if rule.excusable { "yes, by a PolicyException of its namespace" } else { "by the operators only" };
            let facts = [
                ("result", rule.result.word().to_owned()),
                ("kinds", if policy.kinds == ["*"] { "all".to_owned() } else { policy.kinds.join(", ") }),
                ("depends on", policy.depends_on.join(", ")),
                ("excuse", excuse.to_owned()),
            ];
            let parameters = rule.parameters.iter().map(|parameter| ("parameter", parameter.described()));
            let facts = facts.into_iter().chain(parameters).filter(|(_, fact)| !fact.is_empty());
            lines.extend(facts.map(|(name, fact)| (PLAIN, format!("{name:<10}  {fact}"))));
        }
        for WrittenDefinition { source, text } in definitions {
            lines.push((PLAIN, String::new()));
            lines.push((BOLD, format!("{}:{}", source.file, source.line)));
            lines.extend(text.lines().map(|line| (DIM, format!("  {line}"))));
        }
        lines
    }
}
