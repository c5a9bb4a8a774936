//! Which policies a command uses where none are named, and those that have to be read from elsewhere first.

use std::{fs, path::Path, sync::Arc, time::Duration};

use super::connect::reach;
use crate::{
    bundle::{
        follower::{self, FollowedBundle},
        settings::BundleSettings,
    },
    cli::{cluster::ClusterArgs, policies::ReadingArgs},
    judge::sources::PolicySource,
    source::policies::{self, FollowedPolicies},
};

/// The directory that is used if it exists.
const DIRECTORY: &str = "policies";
/// The note on its use: a change to the tree that is checked may have added it.
const FOUND: &str =
    "checking with ./policies instead of the built-in library; for both: --policies builtin --policies policies";
/// What is used otherwise, and how to choose.
const BUILTIN: &str = "checking with the builtin library, as there is no ./policies: choose with --policies \
                       (a path, builtin, builtin:PART), or run kaudit init";

/// Returns the policies that are named, or the default ones: `./policies`, or else the builtin library. `say` gets a line
/// for the user about which default was taken.
fn chosen(named: &[PolicySource], say: impl FnOnce(&str)) -> Vec<PolicySource> {
    if !named.is_empty() {
        return named.to_vec();
    }
    // A link that leads nowhere is a mistake to tell, and no reason to judge by something else.
    if fs::symlink_metadata(DIRECTORY).is_ok() {
        say(FOUND);
        return vec![PolicySource::Path(Path::new(DIRECTORY).to_owned())];
    }
    say(BUILTIN);
    vec![PolicySource::builtin()]
}

/// Sources of policies; those that have to be read from elsewhere are followed until this is dropped.
pub(super) struct Sources(Vec<Source>);

enum Source {
    Local(PolicySource),
    Cluster(FollowedPolicies),
    Bundle(FollowedBundle),
}

impl Sources {
    /// Reads what is named, or what stands in for it, and follows it.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub(super) async fn chosen(
        named: &[PolicySource],
        reading: &ReadingArgs,
        cluster: &ClusterArgs,
        poll: Option<Duration>,
        say: impl FnOnce(&str),
    ) -> anyhow::Result<Self> {
        let bundles = BundleSettings { poll, ..reading.settings()? };
        Self::follow(reading.chosen(chosen(named, say)), cluster, &bundles).await
    }

    /// Reads what has to be read from elsewhere, and follows it.
    ///
    /// # Errors
    /// When a source cannot be read as a whole; says what to do.
    pub(super) async fn follow(
        sources: Vec<PolicySource>,
        cluster: &ClusterArgs,
        bundles: &BundleSettings,
    ) -> anyhow::Result<Self> {
        let mut followed = Vec::new();
        for source in sources {
            followed.push(match source {
                PolicySource::Cluster(source) => {
                    let (clients, served) = reach(cluster).await?;
                    Source::Cluster(policies::follow(&source, &clients, served).await?)
                }
                PolicySource::Bundle(reference) => Source::Bundle(follower::follow(&reference, bundles).await?),
                source => Source::Local(source),
            });
        }
        Ok(Self(followed))
    }

    /// Returns them as they are now.
    pub(super) fn now(&self) -> Vec<PolicySource> {
        let sources = self.0.iter().map(|source| match source {
            Source::Local(source) => vec![source.clone()],
            Source::Bundle(followed) => vec![PolicySource::Unpacked(Arc::clone(&followed.bundle.borrow()))],
            Source::Cluster(followed) => followed.trees.borrow().iter().cloned().map(PolicySource::Tree).collect(),
        });
        sources.flatten().collect()
    }
}
