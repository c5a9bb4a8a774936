//! The selection: which of the served kinds are audited, and in which namespaces.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use super::{discovery::Served, placement::Placement};
use crate::{
    cluster::identity::{OWN_GROUP, is_exception},
    judge::set::PolicySet,
    model::{
        glob::Glob,
        label_requirements::LabelRequirements,
        object::{Kind, ObjectKey},
        shard::Shard,
    },
};

/// One KIND of `--include` and `--exclude`: a plural, singular, kind or short name, each with or without a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindPattern {
    /// Lower case; `None` is `*`.
    name: Option<String>,
    /// Lower case, empty for the core group; `None` is any.
    group: Option<String>,
    written: String,
}

impl KindPattern {
    /// Whether the pattern matches `kind`.
    pub fn matches(&self, kind: &Kind) -> bool {
        let group = self.group.as_ref().is_none_or(|group| group.eq_ignore_ascii_case(&kind.group));
        let named = self.name.as_ref().is_none_or(|name| names(kind).any(|own| own.eq_ignore_ascii_case(name)));
        group && named
    }
}

impl KindPattern {
    /// Whether it is `*`, which names no specific kind.
    fn is_everything(&self) -> bool {
        self.name.is_none() && self.group.is_none()
    }
}

impl FromStr for KindPattern {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let text = written.trim().to_ascii_lowercase();
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (text.as_str(), None),
        };
        let word =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
        if (name != "*" && !word(name)) || group.is_some_and(|group| !word(group)) {
            return Err("expected a kind such as deployments, Deployment, deploy, deployments.apps, *.apps or *".into());
        }
        Ok(Self {
            name: (name != "*").then(|| name.to_owned()),
            group: group.map(|group| if group == "core" { String::new() } else { group.to_owned() }),
            written: written.trim().to_owned(),
        })
    }
}

/// Shows the pattern as the user wrote it.
impl fmt::Display for KindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn names(kind: &Kind) -> impl Iterator<Item = &String> {
    [&kind.plural, &kind.singular, &kind.kind].into_iter().chain(&kind.short_names).filter(|name| !name.is_empty())
}

/// Which of the served kinds are audited, and in which namespaces.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The only namespaces; the whole cluster if empty.
    pub namespaces: BTreeSet<String>,
    /// Namespaces whose objects only serve lookups, from `--exclude-namespace`.
    pub excluded_namespaces: Vec<Glob>,
    /// Labels of the objects to audit; all others only serve lookups. Applied by the pipeline, not by the informer.
    pub labels: Option<LabelRequirements>,
    /// Whether kinds that no rule names may be forbidden: a team checks its namespaces once, with its own rights.
    pub named_only: bool,
    /// Kinds that may be forbidden.
    pub allow_missing: Vec<KindPattern>,
    /// Audited in any case, except kaudit's own output.
    pub include: Vec<KindPattern>,
    /// Not audited, unless included.
    pub exclude: Vec<KindPattern>,
    /// The part of the objects that this process evaluates.
    pub shard: Shard,
    /// The policies in force: kinds that they look up by name are read, even if they are left out by default.
    pub policies: Vec<Arc<PolicySet>>,
    /// Which kinds are read, depending on the policies.
    pub uses: KindUse,
    /// Whether the objects come from files, of which nothing is left out by default.
    pub of_files: bool,
    /// The namespace of files' objects that name none; without it, they have none.
    pub placement: Option<Arc<Placement>>,
}

/// The use that policies have for the kinds that are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KindUse {
    /// All kinds are read.
    #[default]
    Any,
    /// They evaluate or look up the kind; others are read only if included.
    Judged,
    /// They look up the kind.
    LookedUp,
}

/// How the objects of a kind are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindRole {
    /// Read and evaluated.
    Evaluated,
    /// Only read for lookups of policies.
    LookedUp,
    /// Not read.
    Excluded(Exclusion),
}

/// Why a kind is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion {
    /// kaudit writes it.
    OwnOutput,
    /// It is cluster-scoped, and only namespaces are read.
    ClusterScoped,
    /// It is cluster-scoped, and another shard reads it.
    OtherShard,
    /// By `--exclude`.
    Requested,
    /// By default.
    Default,
    /// No policy applies to it.
    Unconcerned,
}

impl Exclusion {
    /// Returns why a rule cannot look up the kind; follows "looks up KINDS, which" in messages.
    pub fn unread(self) -> &'static str {
        match self {
            Self::OwnOutput => "are not read: kaudit's own output",
            Self::ClusterScoped => NOT_WITH_NAMESPACE,
            Self::OtherShard => "are read by shard 0",
            Self::Requested => "are not read: --exclude",
            Self::Default => "are not read by default",
            Self::Unconcerned => "are not read with --kinds=judged",
        }
    }
}

/// Why a rule cannot look up cluster-scoped objects, or those of namespaces that are not read.
pub const NOT_WITH_NAMESPACE: &str = "are not read with --namespace";

/// Kinds that are not evaluated by default: written many times a minute by controllers, derived from other objects, or
/// written by auditors.
const NOISE: [(&str, &str); 7] = [
    ("", "endpoints"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("openreports.io", "*"),
    ("wgpolicyk8s.io", "*"),
];

/// Whether a kind is left out by default.
fn is_noise(kind: &Kind) -> bool {
    let is = |(group, plural): &(&str, &str)| *group == kind.group && (*plural == kind.plural || *plural == "*");
    NOISE.iter().any(is)
}

impl Selection {
    /// Returns why `kind` is not audited, or `None` if it is.
    pub fn excludes(&self, kind: &Kind) -> Option<String> {
        let KindRole::Excluded(exclusion) = self.role(kind) else { return None };
        Some(match exclusion {
            Exclusion::OwnOutput => "kaudit's own output".to_owned(),
            Exclusion::ClusterScoped => "cluster-scoped, not read with --namespace".to_owned(),
            Exclusion::OtherShard => "cluster-scoped, read by shard 0".to_owned(),
            Exclusion::Requested => "--exclude".to_owned(),
            Exclusion::Default => Self::left_out(kind),
            Exclusion::Unconcerned => "no policy applies to it (--kinds=judged)".to_owned(),
        })
    }

    /// Returns why a kind is not evaluated by default.
    pub fn left_out(kind: &Kind) -> String {
        format!("by default (add it with --include {kind})")
    }

    /// Returns how the objects of a kind are used.
    pub fn role(&self, kind: &Kind) -> KindRole {
        self.role_for(kind, &self.policies.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    /// Like [`Self::role`], with other policies in force.
    pub fn role_for(&self, kind: &Kind, policies: &[&PolicySet]) -> KindRole {
        let excluded = if kind.group == OWN_GROUP && !is_exception(kind) {
            Exclusion::OwnOutput
        } else if !self.namespaces.is_empty() && !kind.namespaced {
            Exclusion::ClusterScoped
        } else if !kind.namespaced && !self.shard.reads(kind, None) {
            Exclusion::OtherShard
        } else if self.uses == KindUse::LookedUp && !policies.iter().any(|policies| policies.look_up(kind)) {
            Exclusion::Unconcerned
        } else if is_exception(kind) {
            return KindRole::Evaluated;
        } else if let Some(chosen) = self.chooses(kind) {
            if chosen {
                return KindRole::Evaluated;
            }
            Exclusion::Requested
        } else if self.of_files {
            return KindRole::Evaluated;
        } else if is_noise(kind) {
            if policies.iter().any(|policies| policies.inventory_reads().names(kind)) {
                return KindRole::LookedUp;
            }
            Exclusion::Default
        } else if self.uses == KindUse::Judged && !policies.iter().any(|policies| policies.concern(kind)) {
            Exclusion::Unconcerned
        } else {
            return KindRole::Evaluated;
        };
        KindRole::Excluded(excluded)
    }

    /// Whether objects of a kind are evaluated if they are read.
    pub fn evaluates(&self, kind: &Kind) -> bool {
        self.of_files || !is_noise(kind) || self.chooses(kind) == Some(true)
    }

    /// Whether an audit is incomplete if a kind is forbidden. kaudit's own kinds are not needed, nor those of
    /// `--allow-missing`. With `named_only`, only kinds that a rule names are needed.
    pub fn needs(&self, kind: &Kind) -> bool {
        let is_named = || {
            self.policies.iter().any(|set| {
                let mut policies = set.policies.iter();
                policies.any(|policy| policy.matches.names(&kind.kind)) || set.inventory_reads().names(kind)
            })
        };
        !is_exception(kind)
            && !self.allow_missing.iter().any(|pattern| pattern.matches(kind))
            && (!self.named_only || is_named())
    }

    /// Whether a namespace is left out.
    pub fn excludes_namespace(&self, namespace: &str) -> bool {
        self.excluded_namespaces.iter().any(|glob| glob.matches(namespace))
    }

    /// Whether an object is in an excluded namespace, or is such a namespace itself.
    pub fn excludes_namespace_of(&self, key: &ObjectKey) -> bool {
        key.own_namespace().is_some_and(|own| self.excludes_namespace(own))
    }

    /// Whether kinds of `group` may be audited, for a group whose kinds are currently unknown.
    pub fn may_audit_group(&self, group: &str) -> bool {
        // A group with an unknown kind is needed only by policies that name it, or objects without their group.
        let looks_up = |policies: &Arc<PolicySet>| {
            let reads = policies.inventory_reads();
            reads.names_group(group) || reads.plurals().next().is_some()
        };
        if self.uses == KindUse::LookedUp && !self.policies.iter().any(looks_up) {
            return false;
        }
        let names = |pattern: &KindPattern| {
            pattern.group.as_ref().map_or(pattern.name.is_none(), |own| own.eq_ignore_ascii_case(group))
        };
        self.include.iter().any(names) || !self.exclude.iter().any(|pattern| pattern.name.is_none() && names(pattern))
    }

    /// Returns whether the user included (`true`) or excluded (`false`) `kind`; `None` if neither. `include` wins over
    /// `exclude`.
    pub fn chooses(&self, kind: &Kind) -> Option<bool> {
        let named = |patterns: &[KindPattern]| patterns.iter().any(|pattern| pattern.matches(kind));
        if named(&self.include) { Some(true) } else { named(&self.exclude).then_some(false) }
    }

    /// Checks that every pattern matches a served kind.
    ///
    /// # Errors
    /// Names the pattern and the nearest served name.
    pub fn check(&self, served: &Served) -> Result<(), String> {
        for pattern in self.include.iter().chain(&self.exclude) {
            let known = served.kinds.iter().any(|kind| pattern.matches(kind));
            // The group's server may be down, and its kinds currently unknown.
            let unknown = served.stale.iter().any(|stale| pattern.group.as_ref() == Some(&stale.group));
            if !known && !unknown && !pattern.is_everything() {
                let named = |kind: &Arc<Kind>| {
                    let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
                    names(kind).flat_map(|name| [format!("{name}{group}"), name.clone()]).collect::<Vec<_>>()
                };
                let likeness =
                    |name: &String| strsim::jaro_winkler(&name.to_lowercase(), &pattern.written.to_lowercase());
                let nearest = served
                    .kinds
                    .iter()
                    .flat_map(named)
                    .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
                    .unwrap_or_default();
                return Err(format!("the cluster serves no kind {pattern}; the nearest name is {nearest}"));
            }
        }
        Ok(())
    }
}
