//! The names of rules: the place in the schema, and a digest of the expression, such as `spec.ports[].name-1f3a9c`.
//!
//! A name does not change when other rules are added, and a rule has the same name in all versions of the CRD.

use std::{collections::BTreeMap, sync::Arc};

use kaudit_cel::schema::escape;

use crate::model::digest::Digest;

/// The number of hexadecimal digits of the digest.
const DIGITS: usize = 6;
/// The name of the place of the whole object.
const WHOLE: &str = "self";

/// A place in a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SchemaPlace(String);

impl SchemaPlace {
    /// Returns the place of a property, whose name is escaped as in expressions.
    pub(super) fn property(&self, name: &str) -> Self {
        let name = escape(name).unwrap_or_else(|| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        Self(if self.0.is_empty() { name } else { format!("{}.{name}", self.0) })
    }

    /// Returns the place of the elements of a list, or of the values of a map.
    pub(super) fn elements(&self) -> Self {
        Self(format!("{}[]", self.0))
    }

    fn text(&self) -> &str {
        if self.0.is_empty() { WHOLE } else { &self.0 }
    }
}

/// The names that rules of one version have so far.
#[derive(Default)]
pub(super) struct RuleNames(BTreeMap<String, usize>);

impl RuleNames {
    /// Returns the name of a rule. Of rules with the same expression at one place, those after the first have a number.
    pub(super) fn name(&mut self, place: &SchemaPlace, expression: &str) -> Arc<str> {
        let digest = Digest::of(expression.trim()).to_string();
        let name = format!("{}-{}", place.text(), &digest[..DIGITS]);
        let count = self.0.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name.into() } else { format!("{name}-{count}").into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_place_and_are_unique() {
        let mut names = RuleNames::default();
        let place = SchemaPlace::default().property("spec").property("a-b/c").elements().property("é");
        assert_eq!(&*names.name(&place, "self > 1"), "spec.a__dash__b__slash__c[]._-28d403");
        assert_eq!(&*names.name(&place, " self > 1\n"), "spec.a__dash__b__slash__c[]._-28d403-2");
        assert!(names.name(&SchemaPlace::default(), "true").starts_with("self-"));
    }
}
