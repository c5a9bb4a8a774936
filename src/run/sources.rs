//! The policies that a command uses: the named ones or the default, also from clusters and registries.

use std::{fs, path::Path, sync::Arc, time::Duration};

use super::connect::reach;
use crate::{
    bundle::{
        follower::{self, FollowedBundle},
        settings::BundleSettings,
    },
    cli::{cluster::ClusterArgs, policies::ReadingArgs},
    judge::sources::{FileSource, PolicySource},
    source::policies::{self, FollowedPolicies},
};

/// The default directory, if it exists.
const DIRECTORY: &str = "policies";
/// The note that it is used: a change to the checked tree may have added it.
const FOUND: &str =
    "checking with ./policies instead of the built-in library; for both: --policies builtin --policies policies";
/// The note that the builtin library is used instead.
const BUILTIN: &str = "checking with the builtin library, as there is no ./policies: choose with --policies \
                       (a path, builtin, builtin:PART), or run kaudit init";

/// Returns the named policies, or the default: `./policies`, or else the builtin library. `say` receives a note for the
/// user about which default is used.
fn chosen(named: &[PolicySource], say: impl FnOnce(&str)) -> Vec<PolicySource> {
    if !named.is_empty() {
        return named.to_vec();
    }
    // A dangling link is an error to report, not a reason to check with other policies.
    if fs::symlink_metadata(DIRECTORY).is_ok() {
        say(FOUND);
        return vec![PolicySource::Path(Path::new(DIRECTORY).to_owned())];
    }
    say(BUILTIN);
    vec![PolicySource::builtin()]
}

/// Sources of policies. Those in clusters and bundles are followed until this is dropped.
pub(crate) struct PolicySources(Vec<FollowedSource>);

enum FollowedSource {
    Local(FileSource),
    Cluster(FollowedPolicies),
    Bundle(FollowedBundle),
}

impl PolicySources {
    /// Reads and follows the named policies, or the default.
    ///
    /// # Errors
    /// As [`Self::follow`].
    pub(crate) async fn chosen(
        named: &[PolicySource],
        reading: &ReadingArgs,
        cluster: &ClusterArgs,
        poll: Option<Duration>,
        say: impl FnOnce(&str),
    ) -> anyhow::Result<Self> {
        let bundles = BundleSettings { poll, ..reading.settings()? };
        Self::follow(chosen(named, say), cluster, &bundles).await
    }

    /// Reads policies in clusters and bundles, and follows them.
    ///
    /// # Errors
    /// If a source cannot be read completely. The message says what to do.
    pub(crate) async fn follow(
        sources: Vec<PolicySource>,
        cluster: &ClusterArgs,
        bundles: &BundleSettings,
    ) -> anyhow::Result<Self> {
        let mut followed = Vec::new();
        for source in sources {
            followed.push(match source {
                PolicySource::Path(path) => FollowedSource::Local(FileSource::Path(path)),
                PolicySource::Builtin(part) => FollowedSource::Local(FileSource::Builtin(part)),
                PolicySource::Cluster(source) => {
                    let (clients, served) = reach(cluster).await?;
                    FollowedSource::Cluster(policies::follow(&source, &clients, served).await?)
                }
                PolicySource::Bundle(reference) => FollowedSource::Bundle(follower::follow(&reference, bundles).await?),
            });
        }
        Ok(Self(followed))
    }

    /// Returns the current version of all sources.
    pub(crate) fn now(&self) -> Vec<FileSource> {
        let sources = self.0.iter().map(|source| match source {
            FollowedSource::Local(source) => vec![source.clone()],
            FollowedSource::Bundle(followed) => vec![FileSource::Bundle(Arc::clone(&followed.bundle.borrow()))],
            FollowedSource::Cluster(followed) => {
                followed.trees.borrow().iter().cloned().map(FileSource::Tree).collect()
            }
        });
        sources.flatten().collect()
    }
}
