//! Gatekeeper: `ConstraintTemplate`s and Constraints among the policies become units that are evaluated like
//! Gatekeeper's audit.
//!
//! Input: the YAML and JSON files with objects of `gatekeeper.sh`. Output: a unit for each template that has
//! Constraints, so that libraries of templates cannot conflict, and a policy for each Constraint. What Gatekeeper would
//! refuse is refused here, with its location in the file.

mod config;
pub(crate) mod constraint;
mod engine;
pub(crate) mod expansion_template;
pub(crate) mod expressions;
pub(crate) mod matching;
pub(crate) mod results;
pub(crate) mod schema;
pub(crate) mod template;

use std::{collections::BTreeSet, path::Path};

pub use self::engine::GatekeeperEngine;
use self::template::ENTRY;
pub(crate) use self::{config::Config, constraint::EnforcementPoint};
use super::conftest;
use crate::{
    judge::{
        dialect::{Dialect, DialectDescription, InputForm, SingleRule},
        policy_document::{self, PolicyDocument, warning},
    },
    rego::{File, Problem},
};

/// Rules are evaluated for Constraints; `input.review` is the admission review.
pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    has_constraints: true,
    // Code that also uses the input as a whole was written for both kinds of input; `parameters` is also a field of
    // StorageClass, next to `kind`.
    is_read_as: |input| input.contains("review") && !input.whole || input.are_only("parameters"),
    single: Some(SingleRule { package: template::PACKAGE, name: ENTRY, or_only_set: false }),
    check: template::check,
    ..DialectDescription::new("gatekeeper", InputForm::Review("review"), conftest::findings)
});

/// The Gatekeeper objects among the policies, before compilation.
#[derive(Default)]
pub(crate) struct TemplateLibrary<'f> {
    pub(crate) templates: Vec<PolicyDocument<'f>>,
    pub(crate) constraints: Vec<PolicyDocument<'f>>,
    pub(crate) expansions: Vec<PolicyDocument<'f>>,
    pub(crate) config: Config,
    /// Whether a `Config` in the added files is ignored.
    pub(crate) ignores_config: bool,
}

/// Returns the directories that contain a test suite: the objects below them are its examples.
pub(crate) fn suites(files: &[File]) -> BTreeSet<&Path> {
    let suites = files.iter().filter(|file| file.text.contains("test.gatekeeper.sh/"));
    suites.filter_map(|file| Path::new(&*file.shown).parent()).collect()
}

impl<'f> TemplateLibrary<'f> {
    /// Adds the documents of a file if one of them is a Gatekeeper object; returns whether that was the case.
    pub(crate) fn add(&mut self, file: &'f File, example: bool, problems: &mut Vec<Problem>) -> bool {
        if !file.text.contains("gatekeeper.sh/") {
            return false;
        }
        let is_own = |document: &PolicyDocument<'_>| document.type_of().0.ends_with(".gatekeeper.sh");
        let Some(documents) = policy_document::of_dialect(file, example, is_own, problems) else { return false };
        for document in documents {
            match document.type_of() {
                ("templates.gatekeeper.sh", "ConstraintTemplate") => self.templates.push(document),
                ("constraints.gatekeeper.sh", _) => self.constraints.push(document),
                ("expansion.gatekeeper.sh", "ExpansionTemplate") => self.expansions.push(document),
                ("config.gatekeeper.sh", "Config") if !self.ignores_config => self.config.add(&document.node),
                ("config.gatekeeper.sh", "Config") => {
                    let message =
                        format!("{}: it would exempt namespaces from Constraints of other sources", document.label());
                    let help = "put it in a local path or use cluster:gatekeeper: a Config is read only from these";
                    problems.push(warning(document.whole(message)).help(help));
                }
                // The inventory contains everything that policies look up, so there is nothing to select.
                ("syncset.gatekeeper.sh", "SyncSet") | ("test.gatekeeper.sh", _) => {}
                (group, _) if group.ends_with(".gatekeeper.sh") => {
                    let message =
                        format!("{}: this kind of Gatekeeper object is not supported; it is ignored", document.label());
                    problems.push(warning(document.whole(message)));
                }
                _ if example => {}
                _ => {
                    let message =
                        format!("{}: a Kubernetes object is neither policy nor data; it is not used", document.label());
                    let problem = warning(document.whole(message));
                    problems.push(problem.help("move it out of the policy paths"));
                }
            }
        }
        true
    }

    pub(crate) fn has_templates(&self) -> bool {
        !self.templates.is_empty()
    }
}
