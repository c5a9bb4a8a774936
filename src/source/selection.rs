//! The selection: which of the served kinds are audited, and in which namespaces.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use super::discovery::Served;
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
    /// Whether the pattern names `kind`.
    pub fn matches(&self, kind: &Kind) -> bool {
        let group = self.group.as_ref().is_none_or(|group| group.eq_ignore_ascii_case(&kind.group));
        let named = self.name.as_ref().is_none_or(|name| names(kind).any(|own| own.eq_ignore_ascii_case(name)));
        group && named
    }
}

impl KindPattern {
    /// Whether it is `*`, which names no single kind.
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
    /// The only namespaces; empty is the whole cluster.
    pub namespaces: BTreeSet<String>,
    /// Namespaces whose objects are only looked up, as those of `--exclude-namespace`.
    pub excluded_namespaces: Vec<Glob>,
    /// Others are only looked up.
    pub labels: Option<LabelRequirements>,
    /// Whether kinds that no rule names need not be read if they may not be: a team checks its namespaces once, with its rights.
    pub named_only: bool,
    /// Kinds that need not be read if they may not be.
    pub allow_missing: Vec<KindPattern>,
    /// Audited in any case, except kaudit's own output.
    pub include: Vec<KindPattern>,
    /// Not audited, unless included.
    pub exclude: Vec<KindPattern>,
    /// The part of the objects that this process judges.
    pub shard: Shard,
    /// The policies in force: kinds that they look up by name are read, also if they are left out by default.
    pub policies: Vec<Arc<PolicySet>>,
    /// Only kinds that the policies can say anything about or look up are audited, unless included.
    pub concerned_only: bool,
    /// Whether the objects are those of files, of which nothing is left out by default.
    pub of_files: bool,
}

/// What becomes of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindRole {
    /// They are read and evaluated.
    Evaluated,
    /// They are only read, as policies look them up.
    LookedUp,
    /// They are not read.
    Excluded(Exclusion),
}

/// Why a kind is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion {
    /// kaudit writes it.
    OwnOutput,
    /// It is in no namespace, and only namespaces are read.
    ClusterScoped,
    /// It is in no namespace, and another shard reads it.
    OtherShard,
    /// By `--exclude`.
    Asked,
    /// By default.
    Default,
    /// No policy is about it.
    Unconcerned,
}

impl Exclusion {
    /// Returns why a rule cannot look up the kind, as it stands behind "looks up KINDS, which".
    pub fn unread(self) -> &'static str {
        match self {
            Self::OwnOutput => "are not read: kaudit's own output",
            Self::ClusterScoped => NOT_WITH_NAMESPACE,
            Self::OtherShard => "are read by shard 0",
            Self::Asked => "are not read: --exclude",
            Self::Default => "are not read by default",
            Self::Unconcerned => "are not read, as --kinds is judged",
        }
    }
}

/// Why a rule cannot look up what is in no namespace, or in others than those that are read.
pub const NOT_WITH_NAMESPACE: &str = "are not read with --namespace";

/// Not evaluated by default: written many times a minute by controllers, derived from other objects, or made by auditors.
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
            Exclusion::Asked => "--exclude".to_owned(),
            Exclusion::Default => Self::left_out(kind),
            Exclusion::Unconcerned => "no policy is about it, and --kinds is judged".to_owned(),
        })
    }

    /// Returns why a kind is not evaluated by default.
    pub fn left_out(kind: &Kind) -> String {
        format!("by default (--include {kind} brings it back)")
    }

    /// Returns what becomes of the objects of a kind.
    pub fn role(&self, kind: &Kind) -> KindRole {
        self.role_for(kind, &self.policies.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    /// The same with other policies in force.
    pub fn role_for(&self, kind: &Kind, policies: &[&PolicySet]) -> KindRole {
        let excluded = if kind.group == OWN_GROUP && !is_exception(kind) {
            Exclusion::OwnOutput
        } else if !self.namespaces.is_empty() && !kind.namespaced {
            Exclusion::ClusterScoped
        } else if !kind.namespaced && !self.shard.reads(kind, None) {
            Exclusion::OtherShard
        } else if is_exception(kind) {
            return KindRole::Evaluated;
        } else if let Some(chosen) = self.chooses(kind) {
            if chosen {
                return KindRole::Evaluated;
            }
            Exclusion::Asked
        } else if self.of_files {
            return KindRole::Evaluated;
        } else if is_noise(kind) {
            if policies.iter().any(|policies| policies.inventory_reads().names(kind)) {
                return KindRole::LookedUp;
            }
            Exclusion::Default
        } else if self.concerned_only && !policies.iter().any(|policies| policies.concern(kind)) {
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

    /// Whether an audit is incomplete if a kind may not be read. kaudit's own kinds are not needed, nor those of `--allow-missing`.
    /// Of some namespaces that are checked once, only the kinds are that a rule names.
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

    /// Whether an object is in a namespace that is left out, or is one itself.
    pub fn excludes_namespace_of(&self, key: &ObjectKey) -> bool {
        key.own_namespace().is_some_and(|own| self.excludes_namespace(own))
    }

    /// Whether kinds of `group` may be audited, for a group whose kinds are not known for now.
    pub fn may_audit_group(&self, group: &str) -> bool {
        let names = |pattern: &KindPattern| {
            pattern.group.as_ref().map_or(pattern.name.is_none(), |own| own.eq_ignore_ascii_case(group))
        };
        self.include.iter().any(names) || !self.exclude.iter().any(|pattern| pattern.name.is_none() && names(pattern))
    }

    /// Returns what the user said of `kind`: audited, not audited, or nothing. `include` wins over `exclude`.
    pub fn chooses(&self, kind: &Kind) -> Option<bool> {
        let named = |patterns: &[KindPattern]| patterns.iter().any(|pattern| pattern.matches(kind));
        if named(&self.include) { Some(true) } else { named(&self.exclude).then_some(false) }
    }

    /// Checks that every pattern names a kind that is served.
    ///
    /// # Errors
    /// Names the pattern and the nearest name there is.
    pub fn check(&self, served: &Served) -> Result<(), String> {
        for pattern in self.include.iter().chain(&self.exclude) {
            let known = served.kinds.iter().any(|kind| pattern.matches(kind));
            // The group's server may be down, and its kinds unknown for now.
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
