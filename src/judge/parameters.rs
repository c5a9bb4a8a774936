//! Parameters of rules: METADATA declares them in `custom.parameters`, the setting `rules` gives values, and the rule reads
//! them as `data.parameters[ID]`.
//!
//! Values go only to the source whose rule declares the parameter. So two sources with the same id do not get each other's.

use std::{collections::BTreeMap, fmt::Display};

use regorus::Value as RegoValue;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    dialects::gatekeeper::schema::{SchemaError, violations},
    metadata::Metadata,
    policy::Policy,
    rule::Rule,
    unit::Unit,
};
use crate::{
    model::spelling::nearest,
    rego::{File, FileText, Problem, analysis::data::Data, value},
};

/// The key below `data`.
pub(crate) const DOCUMENT: &str = "parameters";
/// The setting that problems of values are reported for.
const SETTING: &str = "rules";
/// The keys of a rule's settings that are not parameters.
const OTHER_SETTINGS: [&str; 3] = ["off", "severity", "namespaces"];
/// The types that a schema may name.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Values of parameters, by the id of their rule and by name.
pub(crate) type ParameterValues = BTreeMap<String, Map<String, Value>>;

/// A parameter of a rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// The key in the settings of the rule.
    pub name: String,
    /// The type of its value, as in a JSON schema.
    #[serde(rename = "type")]
    pub value_type: String,
    /// What it sets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The value without a setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

impl Parameter {
    /// Returns the parameters that METADATA declares, sorted by name.
    pub fn all(metadata: &Metadata) -> Vec<Self> {
        let text = |schema: &Value, key: &str| schema[key].as_str().unwrap_or_default().trim().to_owned();
        let parameter = |(name, schema): (&String, &Value)| Self {
            name: name.clone(),
            value_type: text(schema, "type"),
            description: text(schema, "description"),
            default: schema.get("default").cloned(),
        };
        declared(metadata).into_iter().flatten().map(parameter).collect()
    }

    /// Returns it as one line.
    pub fn described(&self) -> String {
        let Self { name, value_type, description, default } = self;
        let default = default.as_ref().map_or_else(String::new, |default| format!(", default {default}"));
        let description = if description.is_empty() { String::new() } else { format!(": {description}") };
        format!("{name} ({value_type}{default}){description}")
    }
}

/// Returns the schemas of a rule's parameters, by name; `None` for a rule without an id, which cannot have any.
fn declared(metadata: &Metadata) -> Option<&Map<String, Value>> {
    metadata.info.id.as_ref().and(metadata.custom.get(DOCUMENT))?.as_object()
}

/// Adds the given values that a rule declares and that match their schemas.
pub(super) fn add_valid(metadata: &Metadata, given: Map<String, Value>, all: &mut ParameterValues) {
    let (Some(declared), Some(id)) = (declared(metadata), &metadata.info.id) else { return };
    for (name, value) in given {
        if declared.get(&name).is_some_and(|schema| errors(schema, &name, &value).is_empty()) {
            all.entry(id.to_string()).or_default().insert(name, value);
        }
    }
}

/// Returns the problems of values that are given to the rules of a pattern.
pub(super) fn problems(pattern: &impl Display, rules: &[&Metadata], given: &Map<String, Value>) -> Vec<Problem> {
    let declared: Vec<&Map<String, Value>> = rules.iter().filter_map(|metadata| declared(metadata)).collect();
    let mut problems = Vec::new();
    for (name, value) in given {
        let schemas: Vec<&Value> = declared.iter().filter_map(|parameters| parameters.get(name)).collect();
        if schemas.is_empty() {
            let known = declared.iter().flat_map(|parameters| parameters.keys().map(String::as_str));
            let known: Vec<&str> = known.chain(OTHER_SETTINGS).collect();
            let near = nearest(name, known.iter().copied());
            let help = near.map_or_else(|| format!("use {}", known.join(", ")), |near| format!("did you mean {near}?"));
            problems.push(Problem::refused(&SETTING.into(), format!("{pattern} has no parameter {name}")).help(help));
        }
        for SchemaError { message, help, .. } in schemas.iter().flat_map(|schema| errors(schema, name, value)) {
            problems.push(Problem::refused(&SETTING.into(), format!("{pattern}: {message}")).help(help));
        }
    }
    problems
}

fn errors(schema: &Value, name: &str, value: &Value) -> Vec<SchemaError> {
    violations(&schema.clone().into(), &value.clone().into(), name)
}

/// Returns a warning for each mistake in the declarations of parameters.
pub(super) fn mistakes<'f>(policies: &[Policy], files: &(impl Iterator<Item = &'f File> + Clone)) -> Vec<Problem> {
    let mut problems = Vec::new();
    for rule in policies.iter().flat_map(|policy| &policy.rules) {
        let Some(parameters) = rule.metadata.custom.get(DOCUMENT) else { continue };
        let problem = |message: String, help: &str| warning(rule, files, message).help(help);
        let name = &rule.name;
        let help = "give each parameter a JSON schema: {registries: {type: array, items: {type: string}, default: []}}";
        match (parameters.as_object(), &rule.metadata.info.id) {
            (None, _) => problems.push(problem(format!("{name}: custom.parameters is not a mapping"), help)),
            (_, None) => {
                let message = format!("{name} has parameters, but no custom.id, so they cannot be set");
                problems.push(problem(message, "add custom.id to the METADATA of the rule"));
            }
            (Some(parameters), Some(_)) => {
                for parameter in parameters.keys().filter(|name| OTHER_SETTINGS.contains(&name.as_str())) {
                    let message =
                        format!("{name}: custom.parameters.{parameter} cannot be set: it is a setting of each rule");
                    problems.push(problem(message, "give the parameter another name"));
                }
                let wrong = parameters.iter().filter_map(|(parameter, schema)| Some((parameter, mistake(schema)?)));
                let wrong = wrong.map(|(parameter, why)| format!("{name}: custom.parameters.{parameter}{why}"));
                problems.extend(wrong.map(|message| problem(message, help)));
            }
        }
    }
    problems
}

/// Returns a warning for each rule of one source whose parameters are also set by settings of another rule, because both
/// have the same id. Rules of one package may share the parameters of their package.
pub(super) fn shared_ids<'f>(policies: &[Policy], files: &(impl Iterator<Item = &'f File> + Clone)) -> Vec<Problem> {
    let mut first: BTreeMap<&str, (&Policy, &Rule)> = BTreeMap::new();
    let mut problems = Vec::new();
    let rules = policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
    for (policy, rule) in rules {
        let (Some(own), Some(id)) = (declared(&rule.metadata), &rule.metadata.info.id) else { continue };
        let (other_policy, other) = first.entry(id).or_insert((policy, rule));
        if other_policy.name != policy.name || declared(&other.metadata) != Some(own) {
            let message = format!(
                "{}/{} has the id {id} of {}/{}, so a parameter of one is set for both",
                policy.name, rule.name, other_policy.name, other.name
            );
            problems.push(warning(rule, files, message).help("give each rule its own custom.id"));
        }
    }
    problems
}

/// Returns a warning about a rule.
fn warning<'f>(rule: &Rule, files: &(impl Iterator<Item = &'f File> + Clone), message: String) -> Problem {
    let unknown = FileText::default();
    let text = files.clone().find(|file| file.shown == rule.source.file).map_or(&unknown, |file| &file.text);
    Problem::warning(&rule.source.file, message).at(text, rule.source.line, 1)
}

/// Returns what is wrong with the schema of a parameter.
fn mistake(schema: &Value) -> Option<String> {
    let Some(fields) = schema.as_object() else { return Some(" is not a JSON schema".to_owned()) };
    if !fields.get("type").and_then(Value::as_str).is_some_and(|name| TYPES.contains(&name)) {
        return Some(format!(".type must be one of {}", TYPES.join(", ")));
    }
    let default = fields.get("default")?;
    errors(schema, ".default", default).into_iter().next().map(|error| error.message)
}

/// Adds the values to the `data` of a unit, in which those of data files have lower precedence.
///
/// # Errors
/// If a value cannot be represented in Rego.
pub(super) fn set(unit: &mut Unit, data: &Data, given: &ParameterValues) -> Result<(), Problem> {
    if given.is_empty() {
        return Ok(());
    }
    let mut document = data.document.get(DOCUMENT).and_then(Value::as_object).cloned().unwrap_or_default();
    for (id, values) in given {
        let mut own = document.get(id).and_then(Value::as_object).cloned().unwrap_or_default();
        own.extend(values.clone());
        document.insert(id.clone(), own.into());
    }
    let document = value::from_tree(document.into());
    let document = document.map_err(|error| Problem::refused(&SETTING.into(), error.to_string()))?;
    unit.evaluator = unit.evaluator.with_data([(RegoValue::from(DOCUMENT), document)]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{
        judge::{
            evaluate::{Job, evaluate},
            load_options::LoadOptions,
            profile::Profile,
            rule_settings::RuleSettings,
            set::PolicySet,
            sources::{FileSource, FileTree, TreeFile},
        },
        model::object::{Kind, Object, ObjectKey},
        rego::LoadError,
    };

    /// Returns a policy whose message shows the value of the parameter that METADATA declares.
    fn policy(package: &str, metadata: &str) -> String {
        format!(
            "package {package}\n\nimport rego.v1\n\n# METADATA\n# custom: {metadata}\ndeny contains msg if {{\n\
             \tinput.kind == \"Pod\"\n\tmsg := sprintf(\"{package} %v\", [least])\n}}\n\ndefault least := 2\n\n\
             least := data.parameters[\"REP-01\"].least\n"
        )
    }

    const METADATA: &str =
        "{id: REP-01, parameters: {least: {type: integer, minimum: 1, default: 2, description: Replicas.}}}";

    /// Returns a source of its own, with these files.
    fn source(name: &str, files: &[(&str, &str)]) -> FileSource {
        let file = |(path, text): &(&str, &str)| TreeFile {
            path: path.split('/').map(str::to_owned).collect(),
            content: Ok(text.as_bytes().to_vec()),
        };
        let files = files.iter().map(file).collect();
        FileSource::Tree(Arc::new(FileTree { name: format!("cluster:configmaps/{name}/{name}").into(), files }))
    }

    fn load(sources: &[FileSource], rules: &str) -> Result<PolicySet, LoadError> {
        let rules = RuleSettings::parse(rules).unwrap();
        PolicySet::load_with(sources, &LoadOptions { rules, ..LoadOptions::default() })
    }

    /// Returns the messages for a Pod.
    fn messages(sources: &[FileSource], rules: &str) -> Vec<String> {
        let kind = Kind::sample("", "pods", "Pod");
        let key = ObjectKey { kind, namespace: Some("a".into()), name: "b".into(), copy: 0 };
        let body = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"a"}}"#;
        let object = Object::sample(key, body.as_bytes());
        let policies = Arc::new(load(sources, rules).unwrap());
        let verdict = evaluate(&Job { object, previous: None, deleted: false, namespace: None, policies });
        let mut messages: Vec<String> = verdict.results.iter().map(|result| result.message.to_string()).collect();
        messages.sort();
        messages
    }

    #[test]
    fn a_rule_reads_the_value_of_the_settings_before_that_of_a_data_file_before_its_default() {
        let rule = policy("a", METADATA);
        let data = "REP-01: {least: 5, most: 6}\n";
        let plain = source("x", &[("a.rego", &*rule)]);
        let with_data = source("x", &[("a.rego", &*rule), ("parameters/data.yaml", data)]);
        for (source, rules, want) in [
            (&plain, "", "a 2"),
            (&plain, "{REP-01: {least: 7}}", "a 7"),
            (&plain, "{a: {least: 7}, a/deny: {least: 8}, '*': {least: 9}}", "a 8"),
            (&with_data, "", "a 5"),
            (&with_data, "{a/deny: {least: 7, severity: low}}", "a 7"),
        ] {
            assert_eq!(messages(std::slice::from_ref(source), rules), [want], "{rules}");
        }
    }

    #[test]
    fn a_source_gets_only_values_of_parameters_that_its_own_rules_declare() {
        let declared = source("x", &[("a.rego", &*policy("a", METADATA))]);
        let undeclared = source("y", &[("b.rego", &*policy("b", "{id: REP-01}"))]);
        let also = source("y", &[("b.rego", &*policy("b", METADATA))]);
        assert_eq!(messages(&[declared.clone(), undeclared], "{REP-01: {least: 7}}"), ["a 7", "b 2"]);
        assert_eq!(messages(&[declared.clone(), also.clone()], "{REP-01: {least: 7}}"), ["a 7", "b 7"]);
        assert_eq!(messages(&[declared, also], "{b/deny: {least: 7}}"), ["a 2", "b 7"]);
    }

    #[test]
    fn wrong_values_and_unknown_parameters_are_errors() {
        let sources = [source("x", &[("a.rego", &*policy("a", METADATA)), ("c.rego", &*policy("c", "{id: C-01}"))])];
        for (rules, message, help) in [
            ("{REP-01: {least: many}}", "REP-01: least must be an integer, not a string (\"many\")", ""),
            ("{REP-01: {least: 0}}", "REP-01: least is 0, but must be at least 1", ""),
            ("{REP-01: {leest: 3}}", "REP-01 has no parameter leest", "did you mean least?"),
            ("{REP-01: {sevrity: low}}", "REP-01 has no parameter sevrity", "did you mean severity?"),
            ("{C-01: {x: 3}}", "C-01 has no parameter x", "use off, severity, namespaces"),
        ] {
            let problems = load(&sources, rules).unwrap_err().problems;
            let found: Vec<_> = problems.iter().map(|one| (&*one.file, &*one.message, &*one.help)).collect();
            assert_eq!(found, [("rules", message, help)], "{rules}");
        }
        let unselected = RuleSettings::parse("{PRB-01: {sevrity: low}}").unwrap();
        let options = LoadOptions { rules: unselected, profile: Profile::Minimal, ..LoadOptions::default() };
        let error = PolicySet::load_with(&[FileSource::builtin()], &options).err().map(|error| error.to_string());
        let is_named = error.as_ref().is_some_and(|error| error.contains("PRB-01 has no parameter sevrity"));
        assert!(is_named, "the profile leaves the rule out: {error:?}");
        assert!(load(&sources, "{'*': {least: 3}}").is_ok(), "a pattern sets the rules that have the parameter");
        assert!(load(&sources, "{NONE-01: {least: 3}}").is_ok(), "a pattern without a rule has an error of its own");
    }

    #[test]
    fn rules_of_one_source_that_share_parameters_by_their_id_are_warnings() {
        let (one, two) = (policy("one", METADATA), policy("two", METADATA));
        let both = [source("x", &[("one.rego", &*one), ("two.rego", &*two)])];
        let problems = load(&both, "").unwrap().problems;
        let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let message = "two/deny has the id REP-01 of one/deny, so a parameter of one is set for both";
        assert!(found.len() == 1 && found[0].contains("two.rego:7") && found[0].contains(message), "{found:?}");
        let apart = [source("x", &[("one.rego", &*one)]), source("y", &[("two.rego", &*two)])];
        assert_eq!(load(&apart, "").unwrap().problems, []);
        let package = "# METADATA\n# custom: {id: P-1, parameters: {a: {type: integer}}}\npackage p\n\n\
                       deny_a contains \"a\"\n\ndeny_b contains \"b\"\n";
        assert_eq!(load(&[source("x", &[("p.rego", package)])], "").unwrap().problems, []);
    }

    #[test]
    fn wrong_declarations_are_warnings() {
        for (metadata, message) in [
            (METADATA, ""),
            ("{parameters: {least: {type: integer}}}", "deny has parameters, but no custom.id, so they cannot be set"),
            ("{id: A-1, parameters: [least]}", "deny: custom.parameters is not a mapping"),
            (
                "{id: A-1, parameters: {severity: {type: string}}}",
                "deny: custom.parameters.severity cannot be set: it is a setting of each rule",
            ),
            ("{id: A-1, parameters: {least: 3}}", "deny: custom.parameters.least is not a JSON schema"),
            (
                "{id: A-1, parameters: {least: {type: int}}}",
                "deny: custom.parameters.least.type must be one of array, boolean, integer, number, object, string",
            ),
            (
                "{id: A-1, parameters: {least: {type: integer, default: two}}}",
                "deny: custom.parameters.least.default must be an integer, not a string (\"two\")",
            ),
        ] {
            let set = load(&[source("x", &[("a.rego", &*policy("a", metadata))])], "").unwrap();
            let found: Vec<_> = set.problems.iter().map(|problem| &*problem.message).collect();
            assert_eq!(found.join("\n"), message);
        }
    }
}
