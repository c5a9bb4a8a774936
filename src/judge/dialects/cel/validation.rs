//! Validates admission policies and their bindings as the API server does when they are created. It refuses one that would
//! never match an object or would mean something else than it seems to, such as operations in lower case.
//!
//! Fields that do not exist are warnings: the API server of a later version may have more.

use std::collections::BTreeSet;

use super::document::PolicyDocument;
use crate::{
    judge::policy_document::warning,
    model::spelling::nearest,
    rego::{Problem, analysis::yaml::YamlNode},
};

/// The fields of an object in a policy, each with those of the objects in it.
struct Fields(&'static [(&'static str, &'static Self)]);

const ANY: Fields = Fields(&[]);
const RULES: Fields = Fields(&[
    ("apiGroups", &ANY),
    ("apiVersions", &ANY),
    ("operations", &ANY),
    ("resources", &ANY),
    ("resourceNames", &ANY),
    ("scope", &ANY),
]);
const SELECTOR: Fields = Fields(&[("matchLabels", &ANY), ("matchExpressions", &REQUIREMENT)]);
const REQUIREMENT: Fields = Fields(&[("key", &ANY), ("operator", &ANY), ("values", &ANY)]);
const MATCHING: Fields = Fields(&[
    ("resourceRules", &RULES),
    ("excludeResourceRules", &RULES),
    ("matchPolicy", &ANY),
    ("namespaceSelector", &SELECTOR),
    ("objectSelector", &SELECTOR),
]);
const POLICY: Fields = Fields(&[
    ("paramKind", &Fields(&[("apiVersion", &ANY), ("kind", &ANY)])),
    ("matchConstraints", &MATCHING),
    ("matchConditions", &NAMED),
    ("variables", &NAMED),
    ("validations", &Fields(&[("expression", &ANY), ("message", &ANY), ("messageExpression", &ANY), ("reason", &ANY)])),
    ("auditAnnotations", &Fields(&[("key", &ANY), ("valueExpression", &ANY)])),
    ("failurePolicy", &ANY),
]);
const NAMED: Fields = Fields(&[("name", &ANY), ("expression", &ANY)]);
const BINDING: Fields = Fields(&[
    ("policyName", &ANY),
    (
        "paramRef",
        &Fields(&[("name", &ANY), ("namespace", &ANY), ("selector", &SELECTOR), ("parameterNotFoundAction", &ANY)]),
    ),
    ("matchResources", &MATCHING),
    ("validationActions", &ANY),
]);

const OPERATIONS: [&str; 5] = ["*", "CREATE", "UPDATE", "DELETE", "CONNECT"];
const REASONS: [&str; 4] = ["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"];
/// The words that are no names of variables, by the specification of CEL.
const RESERVED: [&str; 22] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
    "__result__",
];

/// Validates a policy; what is wrong is added to `problems`.
pub(super) fn policy(document: &PolicyDocument<'_>, problems: &mut Vec<Problem>) {
    let spec = document.node.get("spec");
    let mut validation = ObjectValidation { document, problems };
    validation.fields(spec, "spec", &POLICY);
    let rules = spec.at(&["matchConstraints", "resourceRules"]);
    if rules.items().is_empty() {
        validation.refuse(rules, "spec.matchConstraints.resourceRules is required");
    }
    validation.rules(spec.get("matchConstraints"));
    let kind = spec.get("paramKind");
    for field in ["apiVersion", "kind"] {
        if !kind.is_null() && kind.get(field).text().is_none_or(str::is_empty) {
            validation.refuse(kind, &format!("paramKind.{field} is required"));
        }
    }
    validation.names(spec, "matchConditions", "name", true);
    validation.names(spec, "auditAnnotations", "key", true);
    // A variable may replace one before it.
    validation.names(spec, "variables", "name", false);
    for name in spec.get("variables").items().iter().map(|variable| variable.get("name")) {
        if name.text().is_some_and(|text| !text.is_empty() && !is_identifier(text)) {
            validation.refuse(name, "the name of a variable must be an identifier of CEL, such as max_replicas");
        }
    }
    for entry in spec.get("validations").items() {
        let (reason, message) = (entry.get("reason"), entry.get("message"));
        if let Some(unknown) = reason.text().filter(|text| !text.is_empty() && !REASONS.contains(text)) {
            validation.refuse(reason, &format!("unknown reason {unknown:?}: use {}", REASONS.join(", ")));
        }
        if message.text().is_some_and(|text| text.trim().contains('\n')) {
            validation.refuse(message, "message must be a single line");
        }
    }
}

/// Validates a binding; what is wrong is added to `problems`.
pub(super) fn binding(document: &PolicyDocument<'_>, problems: &mut Vec<Problem>) {
    let spec = document.node.get("spec");
    let mut validation = ObjectValidation { document, problems };
    validation.fields(spec, "spec", &BINDING);
    validation.rules(spec.get("matchResources"));
    let actions = spec.get("validationActions");
    let has = |wanted: &str| actions.texts().any(|action| action == wanted);
    if has("Deny") && has("Warn") {
        validation.refuse(actions, "validationActions must not contain both Deny and Warn: a denial shows the message");
    }
}

struct ObjectValidation<'d, 'f> {
    document: &'d PolicyDocument<'f>,
    problems: &'d mut Vec<Problem>,
}

impl ObjectValidation<'_, '_> {
    fn refuse(&mut self, node: &YamlNode, why: &str) {
        let node = if node.is_null() { &self.document.node } else { node };
        self.problems.push(self.document.problem(node, format!("{}: {why}", self.document.label())));
    }

    /// Warns of fields that do not exist.
    fn fields(&mut self, node: &YamlNode, path: &str, known: &Fields) {
        if known.0.is_empty() {
            return;
        }
        for item in node.items() {
            self.fields(item, path, known);
        }
        for field in node.fields() {
            let path = format!("{path}.{}", field.key);
            if let Some((_, below)) = known.0.iter().find(|(name, _)| *name == field.key) {
                self.fields(&field.value, &path, below);
                continue;
            }
            let message = format!("{}: {path} does not exist and has no effect", self.document.label());
            let near = nearest(&field.key, known.0.iter().map(|(name, _)| *name));
            let help = near.map_or("remove it".to_owned(), |near| format!("did you mean {near}?"));
            let problem = self.document.problem_at(field.at, message);
            self.problems.push(warning(problem).help(&help));
        }
    }

    /// Validates the rules for resources.
    fn rules(&mut self, matching: &YamlNode) {
        for list in ["resourceRules", "excludeResourceRules"] {
            for rule in matching.get(list).items() {
                for field in ["apiGroups", "apiVersions", "operations", "resources"] {
                    if rule.get(field).items().is_empty() {
                        self.refuse(rule, &format!("{list}: {field} is required"));
                    }
                }
                for field in ["apiGroups", "apiVersions", "operations"] {
                    let values = rule.get(field);
                    if values.items().len() > 1 && values.texts().any(|value| value == "*") {
                        self.refuse(values, &format!("{list}: {field}: * includes all others: remove them"));
                    }
                }
                for version in rule.get("apiVersions").items() {
                    if version.text() == Some("") {
                        self.refuse(version, &format!("{list}: a version must not be empty"));
                    }
                }
                for operation in rule.get("operations").items() {
                    if let Some(unknown) = operation.text().filter(|text| !OPERATIONS.contains(text)) {
                        let known = OPERATIONS.join(", ");
                        self.refuse(operation, &format!("{list}: unknown operation {unknown:?}: use {known}"));
                    }
                }
            }
        }
    }

    /// Validates that the entries of a list have names, and different ones if they must.
    fn names(&mut self, spec: &YamlNode, list: &str, field: &str, are_unique: bool) {
        let mut known = BTreeSet::new();
        for entry in spec.get(list).items() {
            let name = entry.get(field).text().unwrap_or_default();
            if name.is_empty() {
                self.refuse(entry, &format!("{list}: {field} is required"));
            } else if !known.insert(name) && are_unique {
                self.refuse(entry, &format!("{list}: there are two with the {field} {name}"));
            }
        }
    }
}

/// Whether a text is a name in CEL.
fn is_identifier(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|next| next.is_ascii_alphanumeric() || next == '_')
        && !RESERVED.contains(&text)
}

#[cfg(test)]
mod tests {
    use kaudit_test_support::files::folder;

    use crate::judge::set::PolicySet;

    const RULE: &str = "{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}";

    /// Returns the problems of a policy with these fields, and of a binding with others: `LINE MESSAGE`.
    fn problems(rule: &str, policy: &str, binding: &str) -> Vec<String> {
        let text = format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: p}}\nspec:\n  \
             matchConstraints: {{resourceRules: [{rule}]}}\n  validations: [{{expression: 'true'}}]\n  {policy}\n---\n\
             apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: b}}\n\
             spec:\n  policyName: p\n  {binding}\n"
        );
        let folder = folder(&[("policies/p.yaml", &text)]);
        let loaded = PolicySet::load(&[folder.path().to_owned()]);
        let problems = loaded.map_or_else(|error| error.problems, |set| set.problems);
        problems.iter().map(|problem| format!("{} {}", problem.line, problem.message)).collect()
    }

    fn of_policy(policy: &str) -> Vec<String> {
        problems(RULE, policy, "validationActions: [Deny]")
    }

    #[test]
    fn fields_that_do_not_exist_are_warnings() {
        for (policy, want) in [
            ("failurPolicy: Ignore", "spec.failurPolicy"),
            ("matchConditions: [{name: a, expresion: 'true', expression: 'true'}]", "spec.matchConditions.expresion"),
        ] {
            let want = format!("7 ValidatingAdmissionPolicy p: {want} does not exist and has no effect");
            assert_eq!(of_policy(policy), [want]);
        }
        let of_rule = problems(&RULE.replace('}', ", resource: [a]}"), "", "validationActions: [Deny]");
        let want = "5 ValidatingAdmissionPolicy p: spec.matchConstraints.resourceRules.resource does not exist and has no effect";
        assert_eq!(of_rule, [want]);
        assert_eq!(of_policy("failurePolicy: Fail"), [""; 0]);
    }

    #[test]
    fn policies_that_the_api_server_refuses_are_refused() {
        let rule = |rule: &str| problems(rule, "", "validationActions: [Deny]");
        for (from, to, want) in [
            ("CREATE", "create", "resourceRules: unknown operation \"create\": use *, CREATE, UPDATE, DELETE, CONNECT"),
            ("[CREATE]", "[]", "resourceRules: operations is required"),
            ("[pods]", "[]", "resourceRules: resources is required"),
            ("['']", "[]", "resourceRules: apiGroups is required"),
            ("[v1]", "['']", "resourceRules: a version must not be empty"),
            ("[CREATE]", "['*', CREATE]", "resourceRules: operations: * includes all others: remove them"),
        ] {
            assert_eq!(rule(&RULE.replace(from, to))[0], format!("5 ValidatingAdmissionPolicy p: {want}"));
        }
        assert!(rule("")[0].ends_with("spec.matchConstraints.resourceRules is required"));
        for (policy, want) in [
            ("variables: [{name: a-b, expression: '1'}]", "the name of a variable must be an identifier of CEL"),
            ("variables: [{name: in, expression: '1'}]", "the name of a variable must be an identifier of CEL"),
            ("variables: [{expression: '1'}]", "variables: name is required"),
            ("matchConditions: [{name: a, expression: 'true'}, {name: a, expression: 'true'}]", "there are two with"),
            ("auditAnnotations: [{key: '', valueExpression: \"'a'\"}]", "auditAnnotations: key is required"),
            ("paramKind: {kind: ConfigMap}", "paramKind.apiVersion is required"),
        ] {
            let found = of_policy(policy);
            assert!(found[0].contains(want), "{policy}: {found:?}");
        }
        let found = problems(RULE, "", "validationActions: [Deny, Warn]");
        assert!(found[0].contains("must not contain both Deny and Warn"), "{found:?}");
    }
}
