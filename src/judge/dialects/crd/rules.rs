//! Compiles the rules of one version of a CRD, with the places in the schema where they are.

use std::{collections::BTreeMap, sync::Arc};

use kaudit_cel::{
    CelReads, CelType, Environment, Root,
    schema::{CelSchema, SchemaStep},
};

use super::{
    document::RULES,
    field_path::FieldPath,
    message::FieldReason,
    names::{RuleNames, SchemaPlace},
    reads,
};
use crate::{
    judge::{
        dialects::cel::expression::{self, Expression},
        metadata::Metadata,
        policy_document::PolicyDocument,
        reads::{ReadTree, Segment},
        rule::{Rule, RuleText},
        unjudged::Unjudged,
    },
    model::{
        rule_numbers::RuleNumber,
        verdict::{Outcome, RuleDescriptor, RuleInfo},
    },
    rego::{
        Problem,
        analysis::yaml::{YamlContent, YamlNode},
    },
};

/// Why rules about changes are not evaluated.
const TRANSITION: &str = "it compares an object with its previous state (oldSelf), and an existing object has none";
/// The longest expression that is the title of its rule, in characters.
const TITLE: usize = 80;

/// A part of a schema with rules, or with parts that have some.
#[derive(Debug)]
pub(super) struct RuleNode {
    pub(super) schema: Arc<CelSchema>,
    /// `type` of the schema, which messages show.
    pub(super) type_name: String,
    pub(super) rules: Vec<ValidationRule>,
    /// Those of `allOf`, which are about the same value.
    pub(super) all_of: Vec<Self>,
    pub(super) properties: BTreeMap<String, Self>,
    /// Of the elements of a list.
    pub(super) items: Option<Box<Self>>,
    /// Of the values of a map.
    pub(super) values: Option<Box<Self>>,
}

/// An entry of `x-kubernetes-validations`.
#[derive(Debug)]
pub(super) struct ValidationRule {
    pub(super) rule: Rule,
    /// The common part of its results.
    pub(super) descriptor: Arc<RuleDescriptor>,
    pub(super) environment: Environment,
    pub(super) expression: Expression,
    pub(super) message: Option<Arc<str>>,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: FieldReason,
    /// The field that the rule is about, from the value.
    pub(super) field_path: Option<FieldPath>,
}

impl RuleNode {
    /// Calls a function for each rule.
    pub(super) fn each_rule<'n>(&'n self, visit: &mut impl FnMut(&'n Self, &'n ValidationRule)) {
        self.rules.iter().for_each(|rule| visit(self, rule));
        self.parts().for_each(|part| part.each_rule(visit));
    }

    /// Removes the rules for which a function returns `false`.
    pub(super) fn retain(&mut self, keep: &impl Fn(&Rule) -> bool) {
        self.rules.retain(|rule| keep(&rule.rule));
        let parts = self.all_of.iter_mut().chain(self.properties.values_mut());
        let boxed = self.items.iter_mut().chain(&mut self.values).map(AsMut::as_mut);
        parts.chain(boxed).for_each(|part| part.retain(keep));
    }

    fn parts(&self) -> impl Iterator<Item = &Self> {
        let boxed = self.items.iter().chain(&self.values).map(AsRef::as_ref);
        self.all_of.iter().chain(self.properties.values()).chain(boxed)
    }

    /// Adds the fields of objects that rules read; `place` is that of the value.
    pub(super) fn add_reads(&self, tree: &mut ReadTree, place: &mut Vec<Segment>) {
        for rule in &self.rules {
            // The value of a scalar is part of messages.
            tree.insert(place, false);
            let messages = rule.message_expression.iter().map(|message| message.program.reads());
            let own: [&CelReads; 1] = [rule.expression.program.reads()];
            own.into_iter().chain(messages).for_each(|own| reads::add(tree, own, &self.schema, place));
        }
        self.all_of.iter().for_each(|part| part.add_reads(tree, place));
        let properties = self.properties.iter().map(|(name, part)| (Segment::from(name.as_str()), part));
        let elements = self.items.iter().chain(&self.values).map(|part| (Segment::Any, &**part));
        for (step, part) in properties.chain(elements) {
            place.push(step);
            part.add_reads(tree, place);
            place.pop();
        }
    }
}

impl ValidationRule {
    /// Returns how errors name the rule.
    pub(super) fn shown(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.expression.text).trim()
    }
}

/// Compiles the rules of a CRD.
pub(super) struct RuleCompiler<'d, 'f> {
    pub(super) document: &'d PolicyDocument<'f>,
    pub(super) policy: Arc<str>,
    /// That of the CRD.
    pub(super) metadata: Metadata,
    pub(super) problems: &'d mut Vec<Problem>,
    /// The rules of all versions, by name.
    pub(super) rules: BTreeMap<Arc<str>, Rule>,
    /// Those that do not apply to existing objects, by name.
    pub(super) left_out: BTreeMap<Arc<str>, Unjudged>,
}

impl RuleCompiler<'_, '_> {
    /// Compiles the rules of the schema of one version; `None` if it has none.
    pub(super) fn version(&mut self, node: &YamlNode, schema: &Arc<CelSchema>) -> Option<RuleNode> {
        // As in the API server, rules in `allOf` do not count for this.
        has_rules(node).then(|| self.node(node, schema, &SchemaPlace::default(), &mut RuleNames::default()))?
    }

    /// Compiles the rules of a part of a schema; those in `allOf` are about a value of the schema around it.
    fn node(
        &mut self,
        node: &YamlNode,
        schema: &Arc<CelSchema>,
        place: &SchemaPlace,
        names: &mut RuleNames,
    ) -> Option<RuleNode> {
        let rules = node.get(RULES).items().iter();
        let rules = rules.filter_map(|given| self.rule(given, schema, place, names)).collect();
        let all_of = node.get("allOf").items().iter();
        let all_of = all_of.filter_map(|part| self.node(part, schema, place, names)).collect();
        let mut properties = BTreeMap::new();
        for field in node.get("properties").fields() {
            // Parts that expressions cannot read have no rules.
            let part = schema.part(SchemaStep::Property(&field.key)).filter(|part| part.cel_type().is_some());
            let place = place.property(&field.key);
            let compiled = part.and_then(|part| self.node(&field.value, part, &place, names));
            properties.extend(compiled.map(|compiled| (field.key.clone(), compiled)));
        }
        let mut elements = |name: &str, step: SchemaStep<'_>| {
            let part = node.get(name);
            let is_schema = matches!(part.content, YamlContent::Map(_));
            let compiled = schema.part(step).filter(|_| is_schema);
            compiled.and_then(|schema| self.node(part, schema, &place.elements(), names)).map(Box::new)
        };
        let (items, values) =
            (elements("items", SchemaStep::Items), elements("additionalProperties", SchemaStep::Values));
        let type_name = node.get("type").text().unwrap_or_default().to_owned();
        let compiled = RuleNode { schema: Arc::clone(schema), type_name, rules, all_of, properties, items, values };
        let is_empty = compiled.rules.is_empty() && compiled.parts().next().is_none();
        (!is_empty).then_some(compiled)
    }

    /// Compiles a rule; `None` if it is refused, or does not apply to existing objects.
    fn rule(
        &mut self,
        given: &YamlNode,
        schema: &Arc<CelSchema>,
        place: &SchemaPlace,
        names: &mut RuleNames,
    ) -> Option<ValidationRule> {
        let text = |field: &str| given.get(field).text().filter(|text| !text.is_empty());
        let node = given.get("rule");
        let source = text("rule").filter(|text| !text.trim().is_empty())?;
        let name = names.name(place, source);
        let is_old_optional = given.get("optionalOldSelf").is_true();
        let Some(environment) = Environment::validation(schema, is_old_optional) else {
            let message = format!("{}: a rule needs a schema with a type", self.document.label());
            self.problems.push(self.document.problem(node, message));
            return None;
        };
        let at = (self.document, node);
        let expression = expression::compile(at, &environment, source, &[CelType::Bool], self.problems)?;
        let message_expression = text("messageExpression").and_then(|text| {
            let at = (self.document, given.get("messageExpression"));
            expression::compile(at, &environment, text, &[CelType::String], self.problems)
        });
        if expression.program.names(Root::OldSelf) && !is_old_optional {
            let unjudged = Unjudged {
                name: format!("{}/{name}", self.policy),
                reason: TRANSITION.to_owned(),
                source: expression.source.clone(),
                controls: Vec::new(),
            };
            self.left_out.entry(name).or_insert(unjudged);
            return None;
        }
        let message: Option<Arc<str>> = text("message").map(Arc::from);
        let rule = self.described(&name, &expression, message.as_ref());
        let info = Arc::clone(&rule.metadata.info);
        let descriptor = RuleDescriptor { policy: Arc::clone(&self.policy), name, info, source: rule.source.clone() };
        Some(ValidationRule {
            rule,
            descriptor: Arc::new(descriptor),
            environment,
            expression,
            message,
            message_expression,
            reason: text("reason").map(FieldReason::named).unwrap_or_default(),
            field_path: text("fieldPath").and_then(|path| FieldPath::parse(path, schema)),
        })
    }

    /// Describes a rule, and records it for the policy.
    fn described(&mut self, name: &Arc<str>, expression: &Expression, message: Option<&Arc<str>>) -> Rule {
        let text = RuleText { source: expression.source.clone(), text: Arc::clone(&expression.text) };
        let is_short = expression.text.chars().count() <= TITLE && !expression.text.trim().contains('\n');
        let own = || is_short.then(|| expression.text.trim().into());
        let title = message.cloned().or_else(|| self.metadata.info.title.clone()).or_else(own);
        // An id is that of one rule.
        let info = RuleInfo { title, id: None, category: self.metadata.info.category.clone() };
        let rule = Rule {
            number: RuleNumber::of(&self.policy, name),
            name: Arc::clone(name),
            outcome: Outcome::Fail,
            metadata: Arc::new(Metadata { info: Arc::new(info), ..self.metadata.clone() }),
            source: expression.source.clone(),
            texts: vec![text.clone()],
            excusable: crate::judge::excusable::Excusability::default(),
        };
        match self.rules.get_mut(name) {
            Some(known) => known.texts.push(text),
            None => drop(self.rules.insert(Arc::clone(name), rule.clone())),
        }
        rule
    }
}

/// Whether a schema has rules outside of `allOf`.
fn has_rules(node: &YamlNode) -> bool {
    // A missing part has no parts.
    if node.is_null() {
        return false;
    }
    !node.get(RULES).items().is_empty()
        || node.get("properties").fields().iter().any(|field| has_rules(&field.value))
        || ["items", "additionalProperties"].into_iter().any(|part| has_rules(node.get(part)))
}
