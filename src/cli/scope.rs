//! Which objects of a cluster are judged.

use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::values;
use crate::{
    judge::set::PolicySet,
    model::shard::Shard,
    source::selection::{KindPattern, Selection},
};

/// Which objects to judge.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct ScopeArgs {
    /// Judge only objects in this namespace; repeatable [default: everything]
    #[arg(
        short,
        long,
        value_name = "NS",
        env = "KAUDIT_NAMESPACE",
        value_delimiter = ',',
        value_parser = values::label
    )]
    pub namespace: Vec<String>,

    /// Judge these kinds even if they are left out, by default or by --exclude; repeatable
    #[arg(long, value_name = "KIND", env = "KAUDIT_INCLUDE", value_delimiter = ',')]
    pub include: Vec<KindPattern>,

    /// Leave these kinds out; repeatable
    #[arg(long, value_name = "KIND", env = "KAUDIT_EXCLUDE", value_delimiter = ',')]
    pub exclude: Vec<KindPattern>,

    /// Which part of the rest is read.
    #[command(flatten)]
    pub part: PartArgs,
}

/// Which part of that is read at all.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Source")]
pub struct PartArgs {
    /// Judge only the namespaces of shard I (from 0) of N, and with 0 what is in no namespace; auto/N takes I from the end of HOSTNAME
    #[arg(long, value_name = "I/N", env = "KAUDIT_SHARD", value_parser = values::shard)]
    pub shard: Option<Shard>,

    /// Read all kinds, or only those that a policy is about or looks up
    #[arg(long, env = "KAUDIT_KINDS", value_enum, value_name = "WHICH", default_value_t = KindFilter::All)]
    pub kinds: KindFilter,
}

impl ScopeArgs {
    /// Returns what is read of a cluster; with `--kinds judged` and policies, only what these are about.
    pub fn selection(&self, policies: Option<&Arc<PolicySet>>) -> Selection {
        Selection {
            namespaces: self.namespace.iter().cloned().collect(),
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            shard: self.part.shard.unwrap_or_default(),
            judged_by: policies.filter(|_| self.part.kinds == KindFilter::Judged).cloned(),
        }
    }
}

/// Which kinds are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KindFilter {
    /// Also those that no policy is about: they are known when a policy is added
    All,
    /// Only those: the others need neither rights nor memory
    Judged,
}
