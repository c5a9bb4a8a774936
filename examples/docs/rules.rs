//! A page for each rule of the library, and an overview.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use kaudit::{
    audit::result::About,
    judge::{
        load_options::LoadOptions, parameters::Parameter, policy::Policy, profile::Profile, reads::Matches, rule::Rule,
        rule_example, set::PolicySet, sources::FileSource,
    },
};
use serde_json::{Value as Json, json};

use super::{
    Documents,
    cases::{RuleExample, TestedLibrary},
    markdown::{Page, capitalised, code, codes, escape, table},
};

/// The folder of the library.
const LIBRARY: &str = "policies";
/// The file with the examples for the binary, below the documents.
const MANIFESTS: &str = "../policies/examples/manifests.yaml";

/// A rule with its package and its id.
#[derive(Clone, Copy)]
struct LibraryRule<'l> {
    policy: &'l Policy,
    rule: &'l Rule,
    id: &'l str,
}

/// Returns the pages of all rules, and their overview.
pub(crate) fn documents(root: &Path) -> Result<Documents> {
    let options = LoadOptions { profile: Profile::Strict, ..LoadOptions::default() };
    let library = PolicySet::load_with(&[FileSource::builtin()], &options)?;
    let tested = TestedLibrary::load(&root.join(LIBRARY), &library)?;
    let mut documents = Documents::new();
    let mut manifests = BTreeMap::new();
    let mut overview = Page::new("Rules of the library");
    overview.add(
        "The rules inside kaudit, by part. Without policies of your own, `kaudit check` uses those that are not off by default; \
         `-p builtin:PART` selects a part, and `-p builtin:practices` those that are off.",
    );
    for policy in &library.policies {
        let mut rules = policy.rules.iter().map(|rule| LibraryRule::new(policy, rule)).collect::<Result<Vec<_>>>()?;
        rules.sort_by_key(|rule| rule.id);
        overview.add(&format!("## {}", part(policy)));
        overview.add(&escape(policy.metadata.description.as_deref().unwrap_or_default()));
        let off = if policy.name.starts_with("practices.") { ", off by default" } else { "" };
        overview.add(&format!("Part: `builtin:{}`{off}", policy.name));
        overview.add(&table(["id", "title", "severity", "why"], rules.iter().map(LibraryRule::row)));
        for rule in rules {
            let example = tested.example(&policy.name, &rule.rule.name)?;
            manifests.insert(rule.id, example.manifests()?);
            documents.insert(Path::new("rules").join(format!("{}.md", rule.id)), rule.page(&example)?);
        }
    }
    documents.insert(PathBuf::from("rules/README.md"), overview.finish());
    let manifests = serde_saphyr::to_string(&manifests).context("writing the examples as YAML")?;
    documents
        .insert(PathBuf::from(MANIFESTS), format!("# Made by cargo run --example docs; do not edit.\n{manifests}"));
    Ok(documents)
}

/// Returns the title of a package.
fn part(policy: &Policy) -> String {
    escape(policy.metadata.info.title.as_deref().unwrap_or(&policy.name))
}

impl<'l> LibraryRule<'l> {
    fn new(policy: &'l Policy, rule: &'l Rule) -> Result<Self> {
        let id = rule.metadata.info.id.as_deref();
        Ok(Self { policy, rule, id: id.with_context(|| format!("{} has no id in its METADATA", rule.name))? })
    }

    fn title(&self) -> String {
        escape(self.rule.metadata.info.title.as_deref().unwrap_or(&self.rule.name))
    }

    fn description(&self) -> &str {
        self.rule.metadata.description.as_deref().unwrap_or_default()
    }

    fn severity(&self) -> &'static str {
        self.rule.metadata.severity.map_or("", |severity| severity.word())
    }

    /// Returns the row of the overview.
    fn row(&self) -> [String; 4] {
        let id = self.id;
        [
            format!("[{id}]({id}.md)"),
            self.title(),
            self.severity().to_owned(),
            escape(first_sentence(self.description())),
        ]
    }

    fn page(&self, example: &RuleExample) -> Result<String> {
        let Self { policy, rule, id } = self;
        let mut page = Page::new(&format!("{id}: {}", self.title()));
        page.add(&escape(self.description()));
        page.add(&table(["property", "value"], self.properties().map(|(name, value)| [name.to_owned(), value])));

        page.add("## Violation");
        page.code("yaml", &yaml(&example.violating)?);
        let [with_violating, with_correct] = &example.beside;
        let together = |page: &mut Page, objects: &[Json]| -> Result<()> {
            page.add("together with");
            page.code("yaml", &documents_of(objects)?);
            Ok(())
        };
        if !with_violating.is_empty() {
            together(&mut page, with_violating)?;
        }
        if example.parameters.is_object() {
            page.add("and, in `kaudit.yaml`, the parameters");
            page.code("yaml", &yaml(&json!({"rules": {*id: example.parameters}}))?);
        }
        let message = example.result["msg"].as_str().unwrap_or_default();
        let severity = example.result["severity"].as_str();
        let severity = severity.map(|severity| format!(", with the severity {severity} for this manifest alone"));
        page.add(&format!("kaudit reports{}:", severity.unwrap_or_default()));
        page.add(&format!("> {}", escape(message)));

        page.add("## How to fix it");
        let action = message.split_once(": ").map_or(message, |(_, action)| action);
        page.add(&format!("{}. {}", capitalised(&escape(action)), automatic(&example.result["details"])));
        page.code("yaml", &yaml(&example.correct)?);
        if with_correct != with_violating && !with_correct.is_empty() {
            together(&mut page, with_correct)?;
        }

        let parameters = Parameter::all(&rule.metadata);
        if !parameters.is_empty() {
            page.add("## Parameters");
            page.add("Set them in [`rules`](../policies/choose-rules.md#parameters), below the id of the rule.");
            page.add(&table(["name", "type", "default", "meaning"], parameters.iter().map(parameter_row)));
        }

        page.add("## Explain, switch off or excuse it");
        page.add(&format!("The rule's full name is `{}/{}`.", policy.name, rule.name));
        page.code("sh", &format!("kaudit explain {id}\nkaudit check --skip-rule {id}"));
        page.add("In the `spec` of a `PolicyException`:");
        page.code("yaml", &format!("policies:\n- name: {}\n  rules: [{}]", policy.name, rule.name));

        page.add("## References");
        page.add(&self.references());
        Ok(page.finish())
    }

    fn properties(&self) -> [(&'static str, String); 6] {
        let Self { policy, rule, .. } = self;
        let kinds = match &policy.matches {
            Matches::All => "all".to_owned(),
            Matches::Kinds(kinds) => codes(kinds.iter().map(|kind| &**kind)),
        };
        let controls = About::from(&*rule.metadata).served_controls();
        let is_excusable = rule.excusable.allows(rule.metadata.severity);
        [
            ("Severity", self.severity().to_owned()),
            ("Frameworks", Some(controls).filter(|controls| !controls.is_empty()).unwrap_or_else(|| "none".to_owned())),
            ("Result", code(rule.outcome.word())),
            ("Part of the library", format!("{} (`builtin:{}`)", part(policy), policy.name)),
            ("Kinds that this part checks", kinds),
            (
                "Excusable by a namespace",
                if is_excusable { "yes" } else { "only if the operator allows it" }.to_owned(),
            ),
        ]
    }

    /// Returns the links of the rule and of its package, and its source.
    fn references(&self) -> String {
        let links = [&self.rule.metadata, &self.policy.metadata].into_iter().flat_map(|of| &of.related_resources);
        let mut urls: Vec<&str> = Vec::new();
        for link in links {
            if !urls.contains(&&*link.reference) {
                urls.push(&link.reference);
            }
        }
        let file = self.rule.source.file.strip_prefix("builtin/").unwrap_or(&self.rule.source.file);
        let source = format!("- [Source of the rule](../../{LIBRARY}/{file})");
        urls.into_iter().map(|url| format!("- <{url}>")).chain([source]).collect::<Vec<_>>().join("\n")
    }
}

fn parameter_row(Parameter { name, value_type, default, description }: &Parameter) -> [String; 4] {
    let default = default.as_ref().map_or_else(String::new, |default| code(&default.to_string()));
    [code(name), code(value_type), default, escape(description)]
}

/// Returns how `--fix` changes the violating manifest; empty if it does not.
fn automatic(details: &Json) -> String {
    let field = details["field"].as_str().map(code).unwrap_or_default();
    if details.get("patch").is_some() {
        return format!("`kaudit check -f FILE --fix` changes {field}.");
    }
    match details.get("fix") {
        None => String::new(),
        Some(Json::Null) => format!("`kaudit check -f FILE --fix` removes {field}."),
        Some(value) => format!("`kaudit check -f FILE --fix` sets {field} to {}.", code(&value.to_string())),
    }
}

impl RuleExample {
    /// Returns its manifests, each with those beside it.
    fn manifests(&self) -> Result<rule_example::RuleExample> {
        let [beside_violating, beside_correct] = &self.beside;
        let all = |first: &Json, beside: &[Json]| documents_of([first].into_iter().chain(beside));
        Ok(rule_example::RuleExample {
            violating: all(&self.violating, beside_violating)?,
            correct: all(&self.correct, beside_correct)?,
        })
    }
}

fn documents_of<'m>(manifests: impl IntoIterator<Item = &'m Json>) -> Result<String> {
    Ok(manifests.into_iter().map(yaml).collect::<Result<Vec<_>>>()?.join("---\n"))
}

fn yaml(manifest: &Json) -> Result<String> {
    serde_saphyr::to_string(manifest).context("writing a manifest as YAML")
}

/// Returns the text up to the first full stop before a space or the end.
fn first_sentence(text: &str) -> &str {
    let mut ends = text.match_indices('.').map(|(at, _)| at + 1);
    let end = ends.find(|end| text[*end..].chars().next().is_none_or(char::is_whitespace));
    &text[..end.unwrap_or(text.len())]
}
