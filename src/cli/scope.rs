//! The options that select objects: manifests, or a part of a cluster.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum, builder::BoolishValueParser};

use super::values;
use crate::{
    audit::result::{AuditScope, ObjectSource},
    judge::set::PolicySet,
    model::{glob::Glob, label_requirements::LabelRequirements, shard::Shard},
    source::{
        received::Secrets,
        selection::{KindPattern, KindUse, Selection},
    },
};

/// The source of the objects.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct SourceArgs {
    /// Check everything once and exit, instead of watching
    #[arg(long, env = "KAUDIT_ONCE", value_parser = BoolishValueParser::new())]
    pub once: bool,

    /// The manifests to check.
    #[command(flatten)]
    pub manifests: ManifestArgs,

    /// Treat the manifests as everything that exists, so that rules about missing objects are checked
    #[arg(long, env = "KAUDIT_FILES_ARE_COMPLETE", value_parser = BoolishValueParser::new())]
    pub files_are_complete: bool,

    /// Skip inactive objects of a cluster (ReplicaSets of earlier revisions, finished Jobs and Pods), or check them too; manifests
    /// are always checked
    #[expect(clippy::doc_markdown, reason = "help is not Markdown")]
    #[arg(long, env = "KAUDIT_INACTIVE", value_enum, value_name = "HOW", default_value_t = Inactive::Skip)]
    pub inactive: Inactive,
}

impl SourceArgs {
    /// Whether the objects are manifests that need not be everything that exists.
    pub fn has_only_some_objects(&self) -> bool {
        self.has_manifests() && !self.files_are_complete
    }

    /// Whether the objects are manifests.
    pub fn has_manifests(&self) -> bool {
        !self.manifests.filename.is_empty()
    }
}

/// Whether inactive objects are checked: see [`source::inactive`](crate::source::inactive).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Inactive {
    /// Count them only
    Skip,
    /// Check them
    Judge,
}

/// Grouping of results in output for people.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub struct GroupingArgs {
    /// Count a violation that an owner shares with its dependents, for example a Deployment with its Pods, once at the owner, or list it
    /// for each object; json and ndjson always list all
    #[arg(long, env = "KAUDIT_GROUP_BY", value_enum, value_name = "WHAT", default_value_t = GroupBy::Owner)]
    pub group_by: GroupBy,
}

/// The unit that an entry in output for people covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupBy {
    /// The topmost owner that violates a rule, and its dependents
    Owner,
    /// One object
    Object,
}

/// Manifests to check instead of a cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct ManifestArgs {
    /// Check manifests instead of a cluster: files, directories (recursively), https URLs, or - for standard input
    ///
    /// Results of what `helm template` writes to standard input point to the template, if its chart is in or below the
    /// working directory.
    #[arg(short, long, value_name = "FILE|DIR|URL|-", env = "KAUDIT_FILENAME")]
    pub filename: Vec<PathBuf>,

    /// Redact the values of Secrets as soon as they are read, or keep them for the policies
    #[arg(long, env = "KAUDIT_SECRETS", value_enum, value_name = "HOW", default_value_t = Secrets::Redact)]
    pub secrets: Secrets,
}

/// Limits of the initial sync.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub struct SyncArgs {
    /// Check without a kind whose first list makes no progress for this long (500ms, 60s, 2m, 1h)
    #[arg(
        long,
        env = "KAUDIT_SYNC_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = values::duration
    )]
    pub sync_timeout: Duration,
}

/// The selection of objects.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct ScopeArgs {
    /// Check only objects in this namespace; repeatable [default: all namespaces]
    #[arg(
        short,
        long,
        value_name = "NS",
        env = "KAUDIT_NAMESPACE",
        value_delimiter = ',',
        value_parser = values::label
    )]
    pub namespace: Vec<String>,

    /// Check all namespaces and cluster-scoped objects, which is the default
    #[arg(short = 'A', long, env = "KAUDIT_ALL_NAMESPACES", value_parser = BoolishValueParser::new(), conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Do not check objects in namespaces that match this glob, such as 'kube-*'; repeatable
    ///
    /// Rules can still look up these objects. A Namespace object counts as inside its own namespace.
    #[arg(long, value_name = "GLOB", env = "KAUDIT_EXCLUDE_NAMESPACE", value_delimiter = ',', value_parser = values::namespace_glob)]
    pub exclude_namespace: Vec<Glob>,

    /// Check only objects with these labels, such as app=web,tier!=db or 'app in (web, api)'
    ///
    /// Rules can still look up other objects.
    #[arg(short = 'l', long, value_name = "LABELS", env = "KAUDIT_SELECTOR")]
    pub selector: Option<LabelRequirements>,

    /// Check these kinds even if they are excluded by default or by --exclude; repeatable
    #[arg(long, value_name = "KIND", env = "KAUDIT_INCLUDE", value_delimiter = ',')]
    pub include: Vec<KindPattern>,

    /// Do not check these kinds; repeatable
    #[arg(long, value_name = "KIND", env = "KAUDIT_EXCLUDE", value_delimiter = ',')]
    pub exclude: Vec<KindPattern>,

    /// Accept that these kinds cannot be read: they are reported, but the result counts as complete; repeatable
    #[arg(long, value_name = "KIND", env = "KAUDIT_ALLOW_MISSING", value_delimiter = ',')]
    pub allow_missing: Vec<KindPattern>,

    /// The shard and the kinds that are read.
    #[command(flatten)]
    pub part: PartArgs,
}

/// The shard and the kinds that are read.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct PartArgs {
    /// Check only the namespaces of shard I (from 0) of N; shard 0 also checks cluster-scoped objects. auto/N takes I from the end of HOSTNAME
    #[arg(long, value_name = "I/N", env = "KAUDIT_SHARD", value_parser = values::shard)]
    pub shard: Option<Shard>,

    /// Read all kinds, or only those that a policy checks or looks up
    #[arg(long, env = "KAUDIT_KINDS", value_enum, value_name = "WHICH", default_value_t = KindFilter::All)]
    pub kinds: KindFilter,
}

impl PartArgs {
    /// All shards and all kinds.
    pub(crate) const WHOLE: Self = Self { shard: None, kinds: KindFilter::All };
}

impl ScopeArgs {
    /// Returns the selection of objects to read; with `--kinds judged` and policies, only the kinds that these check or
    /// look up.
    pub fn selection<'p>(&self, policies: impl IntoIterator<Item = &'p Arc<PolicySet>>) -> Selection {
        let policies: Vec<_> = policies.into_iter().cloned().collect();
        Selection {
            namespaces: self.namespace.iter().cloned().collect(),
            excluded_namespaces: self.exclude_namespace.clone(),
            labels: self.selector.clone(),
            named_only: false,
            allow_missing: self.allow_missing.clone(),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            shard: self.shard(),
            uses: if self.part.kinds == KindFilter::Judged && !policies.is_empty() {
                KindUse::Judged
            } else {
                KindUse::Any
            },
            policies,
            of_files: false,
            placement: None,
        }
    }

    /// Returns the scope that an audit of these objects reports.
    pub fn audited(&self, source: &SourceArgs) -> AuditScope {
        let source = if source.manifests.filename.is_empty() { ObjectSource::Cluster } else { ObjectSource::Manifests };
        let selector = self.selector.as_ref().map(ToString::to_string);
        AuditScope { clusters: Vec::new(), source, namespaces: self.namespace.clone(), shard: self.shard(), selector }
    }

    /// Returns the shard that is checked.
    pub fn shard(&self) -> Shard {
        self.part.shard.unwrap_or_default()
    }
}

/// The kinds that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KindFilter {
    /// Also kinds that no policy checks, so that a policy can be added later
    All,
    /// Only kinds that a policy checks or looks up: others need neither rights nor memory
    Judged,
}
