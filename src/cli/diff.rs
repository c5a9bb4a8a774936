//! The options of `kaudit diff`.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
};

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser},
};

use super::{
    cluster::ClusterArgs,
    exceptions::ExceptionFileArgs,
    logging::LogArgs,
    policies::{EvaluationArgs, ReadingArgs},
    scope::{GroupingArgs, ScopeArgs, SourceArgs, SyncArgs},
    values,
};
use crate::{
    judge::{load_options::LoadOptions, sources::PolicySource},
    output::{FailOn, Target},
};

pub(super) const AFTER_HELP: &str = "\
OLD AND NEW:
  policies/, main.rego        Policies, as kaudit check takes them
  builtin, builtin:rbac       The library inside kaudit, or a part of it
  oci://…, https://…          A bundle
  git:main, git:v1:policies   Policies in a commit, as git names them; the path
                              is that of the other side, else policies
  before.json                 An audit that kaudit check wrote with -o json

WHAT IS COMPARED:
  The results of both policies for the same objects, which are read once; or
  two audits. A violation is the same if its policy, rule, object and evidence
  are (the id in -o json). Results that one side could not have found are not
  compared, but listed.

EXIT CODES:
  0  No new violation at or above --fail-on
  1  A new violation, or one that counts now and did not before
  2  Usage, configuration, policy or connection error: nothing was compared
  3  Incomplete: no new violation, but not everything could be compared

EXAMPLES:
  Violations that the policies of this branch find in manifests and main's do not
    kaudit diff git:main policies -f manifests
  The same for the cluster, as a comment on the pull request
    kaudit diff git:main policies --once -o text -o markdown=comment.md
  Changes between two audits
    kaudit diff monday.json today.json --fail-on warn";

/// Options of `kaudit diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Compare from these policies, or from this audit (see OLD AND NEW)
    #[arg(value_name = "OLD", value_parser = side())]
    pub old: DiffSide,

    /// Compare to these policies, or to this audit
    #[arg(value_name = "NEW", value_parser = side())]
    pub new: DiffSide,

    /// The source of the objects.
    #[command(flatten)]
    pub source: SourceArgs,

    /// The selection of objects.
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// Loading and evaluation of policies.
    #[command(flatten)]
    pub evaluation: EvaluationArgs,

    /// Selection of rules, and access to bundles.
    #[command(flatten)]
    pub reading: ReadingArgs,

    /// Exceptions and baselines.
    #[command(flatten)]
    pub exceptions: ExceptionFileArgs,

    /// Write the report as text, json or markdown to standard output or to a file; repeatable [default: text]
    #[arg(
        short,
        long,
        env = "KAUDIT_DIFF_OUTPUT",
        value_name = "FORMAT[=FILE]",
        value_delimiter = ',',
        value_parser = values::diff_target,
        help_heading = "Output"
    )]
    pub output: Vec<Target>,

    /// Grouping of results.
    #[command(flatten)]
    pub grouping: GroupingArgs,

    /// Exit with 1 if a violation of this result or a worse one is new
    #[arg(
        long,
        env = "KAUDIT_FAIL_ON",
        value_enum,
        ignore_case = true,
        value_name = "RESULT",
        default_value_t = FailOn::Fail,
        help_heading = "Output"
    )]
    pub fail_on: FailOn,

    /// Access to the cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Limits of the initial sync.
    #[command(flatten)]
    pub sync: SyncArgs,

    /// Read settings from this YAML file
    #[arg(long, env = "KAUDIT_CONFIG", value_name = "FILE", help_heading = "Running")]
    pub config: Option<PathBuf>,

    /// Log level and format.
    #[command(flatten)]
    pub log: LogArgs,
}

impl DiffArgs {
    /// Returns how the policies are loaded.
    pub fn load_options(&self) -> LoadOptions {
        let options = self.evaluation.load_options(&self.reading);
        let expands_pods = self.reading.expand.applies(self.source.has_manifests());
        let rules = options.rules.for_incomplete_objects(self.source.has_only_some_objects());
        LoadOptions { rules, expands_pods, ..options }
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffSide {
    /// Policies, or an audit in a file.
    Source(PolicySource),
    /// Policies in a commit.
    Commit {
        /// A revision in git's syntax.
        revision: String,
        /// A path in git's syntax, as after a revision; `None` for the path of the other side.
        path: Option<String>,
    },
}

fn side() -> impl TypedValueParser<Value = DiffSide> {
    OsStringValueParser::new().map(DiffSide::from)
}

/// Parses a side as written on the command line: `git:REVISION[:PATH]`, or as for `--policies`.
impl From<OsString> for DiffSide {
    fn from(text: OsString) -> Self {
        let commit = |text: &OsStr| {
            let rest = text.to_str()?.strip_prefix("git:")?;
            let (revision, path) = rest.split_once(':').map_or((rest, None), |(revision, path)| (revision, Some(path)));
            let path = path.filter(|path| !path.is_empty()).map(str::to_owned);
            Some(Self::Commit { revision: revision.to_owned(), path })
        };
        commit(&text).unwrap_or_else(|| Self::Source(text.into()))
    }
}

/// Writes a side as on the command line.
impl fmt::Display for DiffSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) => source.fmt(f),
            Self::Commit { revision, path: None } => write!(f, "git:{revision}"),
            Self::Commit { revision, path: Some(path) } => write!(f, "git:{revision}:{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_written_in_git_syntax() {
        let commit = |revision: &str, path: Option<&str>| DiffSide::Commit {
            revision: revision.to_owned(),
            path: path.map(str::to_owned),
        };
        for (text, want) in [
            ("git:main", commit("main", None)),
            ("git:main:", commit("main", None)),
            ("git:HEAD~1:a/b.rego", commit("HEAD~1", Some("a/b.rego"))),
            ("./git:main", DiffSide::Source(PolicySource::Path("./git:main".into()))),
            ("builtin:rbac", DiffSide::Source(PolicySource::Builtin("rbac".to_owned()))),
        ] {
            assert_eq!(DiffSide::from(OsString::from(text)), want);
        }
    }
}
