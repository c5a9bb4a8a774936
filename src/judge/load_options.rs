//! The options of loading policies.

use super::{dialects::gatekeeper::GatekeeperEngine, profile::Profile, rule_settings::RuleSettings};
use crate::rego::Limits;

/// How policies are loaded from their sources.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The limits of loading and evaluation.
    pub limits: Limits,
    /// Whether refused files are left out; otherwise they are an error.
    pub allow_refused: bool,
    /// The frameworks whose rules are used, from all sources; if empty, all rules are used, except for controls in
    /// Kubescape's layout that are specific to one cloud.
    pub frameworks: Vec<String>,
    /// The user's rule settings, for rules of all sources.
    pub rules: RuleSettings,
    /// Which rules of the builtin library are used.
    pub profile: Profile,
    /// The code that is evaluated of Gatekeeper's templates with both Rego and CEL.
    pub gatekeeper_engine: GatekeeperEngine,
    /// Whether the Pods that workloads would create are evaluated, too, where policies cover Pods and no workload.
    pub expands_pods: bool,
}

impl LoadOptions {
    /// Returns options with which refused files are left out.
    pub fn allowing_refused() -> Self {
        Self { allow_refused: true, ..Self::default() }
    }
}

/// Options with these limits.
impl From<Limits> for LoadOptions {
    fn from(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::set::PolicySet;

    #[test]
    fn rule_settings_are_part_of_the_digest_and_limits_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let metadata = "# METADATA\n# custom: {id: M-1, parameters: {least: {type: integer}}}\n";
        let policy = format!("package main\n\n{metadata}deny contains \"x\"\n");
        std::fs::write(folder.path().join("main.rego"), policy).unwrap();
        let digest = |options: &LoadOptions| PolicySet::load_with(&[folder.path().to_owned()], options).unwrap().digest;
        let plain = digest(&LoadOptions::default());
        assert_eq!(digest(&LoadOptions::allowing_refused()), plain);
        assert_eq!(digest(&Limits { share_verdicts: false, ..Limits::default() }.into()), plain);
        let rules = RuleSettings::parse("{main: {severity: low}}").unwrap();
        assert_ne!(digest(&LoadOptions { rules, ..LoadOptions::default() }), plain);
        let parameters = |value: u8| RuleSettings::parse(&format!("{{main: {{least: {value}}}}}")).unwrap();
        let of = |value| digest(&LoadOptions { rules: parameters(value), ..LoadOptions::default() });
        assert_ne!(of(1), of(2), "parameters are settings");
        assert_ne!(digest(&LoadOptions { profile: Profile::Minimal, ..LoadOptions::default() }), plain);
        let gatekeeper_engine = GatekeeperEngine::Rego;
        assert_ne!(digest(&LoadOptions { gatekeeper_engine, ..LoadOptions::default() }), plain);
    }
}
