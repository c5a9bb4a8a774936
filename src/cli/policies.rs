//! The options for policies, and those of `kaudit policies`.

use std::time::Duration;

use clap::{Args, ColorChoice, ValueEnum, builder::BoolishValueParser};

use super::{
    bundles::{BundleArgs, RegistryArgs},
    cluster::ClusterArgs,
    values,
};
use crate::{
    bundle::settings::BundleSettings,
    judge::{
        dialects::gatekeeper::GatekeeperEngine, excusable::ExcusablePattern, expansion::ExpandPods,
        load_options::LoadOptions, profile::Profile, rule_pattern::RulePattern, rule_settings::RuleSettings,
        sources::PolicySource,
    },
    model::verdict::Severity,
    rego::Limits,
};

/// The options of Gatekeeper templates.
#[derive(Debug, Clone, Args)]
pub struct GatekeeperArgs {
    /// Evaluate this code of Gatekeeper templates that have both CEL and Rego; cel is what Gatekeeper uses
    #[arg(
        long,
        env = "KAUDIT_GATEKEEPER_ENGINE",
        value_enum,
        ignore_case = true,
        value_name = "rego|cel",
        hide_possible_values = true,
        default_value_t
    )]
    pub gatekeeper_engine: GatekeeperEngine,
}

/// The sources of the policies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct PolicyArgs {
    /// Load policies from this file or directory; from kaudit's own library: builtin, or a part such as builtin:rbac; from
    /// the cluster: cluster:gatekeeper, cluster:admission-policies, cluster:kyverno, cluster:crd-rules,
    /// cluster:configmaps[=NAMESPACE][,LABEL=VALUE]; or from a bundle: oci://REGISTRY/REPOSITORY[:TAG|@DIGEST],
    /// https://HOST/bundle.tar.gz, bundle.tar.gz; repeatable [default: ./policies if it exists, else builtin]
    #[arg(
        short = 'p',
        long = "policies",
        id = "policies",
        value_name = "PATH|builtin[:PART]|cluster:WHAT|BUNDLE",
        env = "KAUDIT_POLICIES",
        value_parser = values::policy_source()
    )]
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    pub sources: Vec<PolicySource>,

    /// Loading and evaluation of policies.
    #[command(flatten)]
    pub evaluation: EvaluationArgs,
}

/// Selection of rules from the sources of policies, and access to bundles.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct ReadingArgs {
    /// Use only the rules of this framework: cis, nsa, pss, pss:baseline, another that METADATA custom.frameworks names, or a
    /// framework of a library in Kubescape's layout; :CONTROL selects a single control; repeatable
    #[arg(long, env = "KAUDIT_FRAMEWORK", value_name = "NAME", value_delimiter = ',')]
    pub framework: Vec<String>,

    /// Switch off this rule: POLICY/RULE, or the name of a policy or rule, or an id such as IMG-01; a glob for several;
    /// repeatable
    #[arg(long, env = "KAUDIT_SKIP_RULE", value_name = "RULE|ID|GLOB", value_delimiter = ',', value_parser = values::rule_pattern)]
    pub skip_rule: Vec<RulePattern>,

    /// Use these rules of the library inside kaudit; other policies are not affected
    #[arg(long, env = "KAUDIT_PROFILE", value_enum, ignore_case = true, value_name = "PROFILE", default_value_t)]
    pub profile: Profile,

    /// The options of Gatekeeper templates.
    #[command(flatten)]
    pub gatekeeper: GatekeeperArgs,

    /// Evaluate the Pods that Deployments and other workloads would create, where policies cover Pods and no workload, and
    /// report their results at the workload: auto does so for manifests, off for no workload. ExpansionTemplates
    /// among the policies are always used
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(
        long,
        env = "KAUDIT_EXPAND",
        value_enum,
        ignore_case = true,
        value_name = "auto|on|off",
        hide_possible_values = true,
        default_value_t
    )]
    pub expand: ExpandPods,

    /// Settings of rules, in YAML: {IMG-01: off, 'images/*': {severity: low, namespaces: [shop-*]}}; values of a rule's
    /// parameters, which kaudit policies lists, are keys beside these; in the --config file a mapping
    #[arg(long, env = "KAUDIT_RULES", value_name = "SETTINGS", value_parser = values::rule_settings)]
    pub rules: Option<RuleSettings>,

    /// Report only violations of this severity or a worse one, in all outputs; those without a severity are reported, too
    #[arg(long, env = "KAUDIT_MIN_SEVERITY", value_enum, ignore_case = true, value_name = "SEVERITY")]
    pub min_severity: Option<Severity>,

    /// Let namespaces excuse violations of these rules with PolicyExceptions: POLICY/RULE, a policy, a rule, an id, a glob, or
    /// severity:SEVERITY for rules of that severity and less severe ones; none for no rule; repeatable. METADATA
    /// custom.excusable takes precedence [default: severity:medium, in the builtin library only]
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(long, env = "KAUDIT_EXCUSABLE", value_name = "PATTERN", value_delimiter = ',', value_parser = values::excusable_pattern)]
    pub excusable: Vec<ExcusablePattern>,

    /// Verification and caching of bundles.
    #[command(flatten)]
    pub bundles: BundleArgs,

    /// Access to registries and servers of bundles.
    #[command(flatten)]
    pub registry: RegistryArgs,
}

impl ReadingArgs {
    /// Returns how policies are loaded, with the default limits; refused files are an error.
    pub fn load_options(&self) -> LoadOptions {
        let mut rules = self.rules.clone().unwrap_or_default().from_severity(self.min_severity);
        rules.extend(RuleSettings::skipping(self.skip_rule.iter().cloned()).with_excusable(self.excusable.clone()));
        LoadOptions {
            frameworks: self.framework.clone(),
            rules,
            profile: self.profile,
            gatekeeper_engine: self.gatekeeper.gatekeeper_engine,
            expands_pods: self.expand.applies(false),
            ..LoadOptions::default()
        }
    }

    /// Returns the settings for reading bundles.
    ///
    /// # Errors
    /// As [`BundleArgs::settings`].
    pub fn settings(&self) -> anyhow::Result<BundleSettings> {
        self.bundles.settings(&self.registry)
    }
}

/// Loading and evaluation of policies.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policies")]
pub struct EvaluationArgs {
    /// Check with the remaining policies if files are refused, as a watch always does; the result is then incomplete
    #[arg(long, env = "KAUDIT_ALLOW_REFUSED", value_parser = BoolishValueParser::new())]
    pub allow_refused: bool,

    /// Report a failing builtin as an error, instead of treating it as undefined
    #[arg(long, env = "KAUDIT_STRICT", value_parser = BoolishValueParser::new())]
    pub strict: bool,

    /// Stop the evaluation of an object after this much CPU time
    #[arg(
        long,
        env = "KAUDIT_EVALUATION_TIMEOUT",
        value_name = "DURATION",
        default_value = "1s",
        value_parser = values::duration
    )]
    pub evaluation_timeout: Duration,

    /// Evaluate replicas and other objects with equal content only once; off is for diagnosis
    #[arg(
        long,
        env = "KAUDIT_SHARE_VERDICTS",
        value_enum,
        value_name = "on|off",
        hide_possible_values = true,
        default_value_t = ShareVerdicts::On
    )]
    pub share_verdicts: ShareVerdicts,
}

/// Whether verdicts are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShareVerdicts {
    /// Between objects with equal content
    On,
    /// Each object is checked
    Off,
}

impl EvaluationArgs {
    /// Returns how policies are loaded for an evaluation.
    pub fn load_options(&self, reading: &ReadingArgs) -> LoadOptions {
        LoadOptions { limits: self.limits(), allow_refused: self.allow_refused, ..reading.load_options() }
    }

    fn limits(&self) -> Limits {
        let (default, evaluation) = (Limits::default(), self.evaluation_timeout);
        Limits {
            evaluation,
            input: default.input.max(evaluation * 5),
            share_verdicts: self.share_verdicts == ShareVerdicts::On,
            strict: self.strict,
            ..default
        }
    }
}

pub(super) const AFTER_HELP: &str = "\
EXIT CODES:
  0  Everything was loaded
  2  A file was refused, or there is no policy; standard error says why

EXAMPLES:
  The policies that kaudit check would use
    kaudit policies
  The library inside kaudit, and one part of it
    kaudit policies builtin
    kaudit policies builtin:pod_security.baseline
  The controls of the CIS Benchmark, and the rules that cover them
    kaudit policies builtin --framework cis
  The names of all rules and their locations
    kaudit policies policies more -o json | jq '.policies[].rules[]'";

/// Options of `kaudit policies`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct PoliciesArgs {
    /// The files and directories to load, builtin[:PART], cluster:WHAT, or a bundle as for kaudit check [default: ./policies if it exists, else builtin]
    #[arg(id = "policies", value_name = "PATH", env = "KAUDIT_POLICIES", value_parser = values::policy_source())]
    pub sources: Vec<PolicySource>,

    /// Write a table for people or a document for programs
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ListFormat::Text)]
    pub output: ListFormat,

    /// Colour the text output; auto depends on the terminal and NO_COLOR
    #[arg(long, value_enum, value_name = "WHEN", env = "KAUDIT_COLOR", default_value_t = ColorChoice::Auto)]
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    pub color: ColorChoice,

    /// Access to the cluster, for policies in it.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Selection of rules, and access to bundles.
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people
    Text,
    /// One JSON document
    Json,
}
