//! Tracks whether the objects that rules look up have been read. A rule whose lookups have not been read has a result
//! `error` that says which and why; while a kind is still being read, the rule waits.
//!
//! Input: per kind, where its objects have been read, and the lookups of rules. Output: for a rule, why its lookups are
//! not available. No other code decides about this, whatever the reason for missing objects is.

use std::{collections::BTreeMap, sync::Arc};

use super::inventory::{InventoryReads, LookupReach};
use crate::model::{object::Kind, shard::Shard};

/// Whether objects have been read, so that they can be looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadState {
    /// All of them.
    Read,
    /// They are being read, or soon will be.
    Awaited,
    /// They are not read, for this reason, such as "cannot be read: forbidden".
    Unread(Arc<str>),
}

/// Where objects of a kind have been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindLookup {
    /// The kind.
    pub kind: Arc<Kind>,
    /// The state in single namespaces, if the kind is read only there.
    pub namespaces: BTreeMap<Arc<str>, ReadState>,
    /// The state in all other namespaces, and for cluster-scoped objects.
    pub elsewhere: ReadState,
    /// Whether rules that iterate over all kinds see it. Kinds that are excluded by default are visible only by name.
    pub ranged: bool,
}

/// A group whose kinds are unknown because its server does not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownGroup {
    /// Its name.
    pub group: String,
    /// Why, such as "cannot be read: connection refused".
    pub why: Arc<str>,
}

/// The state of the objects that rules can look up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookupState {
    /// All kinds that are looked up and served: others have no objects.
    pub kinds: Vec<Arc<KindLookup>>,
    /// Groups that may serve further kinds.
    pub unknown: Vec<UnknownGroup>,
    /// Whether only one discovery has completed: the next one may find further kinds.
    pub provisional: bool,
    /// The shard whose namespaces are read.
    pub shard: Shard,
    /// Whether objects may have no namespace although their kind has: manifests without a cluster.
    pub lacks_namespaces: bool,
}

/// A lookup of objects that may not have been read.
#[derive(Debug, Clone)]
enum Unread {
    Kind(Arc<KindLookup>, LookupReach, Shard),
    Group(Arc<str>),
}

/// The lookups of one rule that are not available.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnreadLookups(Vec<Unread>);

impl UnreadLookups {
    /// Returns why a rule cannot be evaluated for an object in namespace `own`, or a cluster-scoped one (`None`);
    /// `None` if it can.
    pub(crate) fn reason(&self, own: Option<&str>) -> Option<String> {
        self.0.iter().find_map(|unread| match unread {
            Unread::Group(why) => Some(why.to_string()),
            Unread::Kind(lookup, reach, shard) => match lookup.at(reach, own, *shard) {
                ReadState::Unread(why) => {
                    Some(format!("looks up {}{}, which {why}", lookup.kind, place(lookup, reach)))
                }
                ReadState::Read | ReadState::Awaited => None,
            },
        })
    }
}

/// Returns where objects are looked up, for the text of a reason.
fn place(lookup: &KindLookup, reach: &LookupReach) -> String {
    match reach {
        LookupReach::Named(name) => format!(" in namespace {name}"),
        LookupReach::All if lookup.kind.namespaced => " in all namespaces".to_owned(),
        LookupReach::All | LookupReach::Own => String::new(),
    }
}

impl KindLookup {
    /// Returns the state of the objects that a rule looks up for an object in namespace `own`, or a cluster-scoped one.
    fn at(&self, reach: &LookupReach, own: Option<&str>, shard: Shard) -> ReadState {
        let of_shard = |owned: bool| {
            let others = || ReadState::Unread("are read by other shards".into());
            if owned || self.elsewhere != ReadState::Read { self.elsewhere.clone() } else { others() }
        };
        match (reach, own) {
            _ if !self.kind.namespaced => self.elsewhere.clone(),
            (LookupReach::Own, None) => ReadState::Read,
            (LookupReach::Own, Some(name)) => self.namespaces.get(name).unwrap_or(&self.elsewhere).clone(),
            (LookupReach::Named(name), _) => {
                self.namespaces.get(name).cloned().unwrap_or_else(|| of_shard(shard.owns(Some(name))))
            }
            (LookupReach::All, _) => of_shard(shard.is_whole()),
        }
    }

    /// Whether objects are being read in any namespace.
    fn is_awaited(&self) -> bool {
        self.namespaces.values().chain([&self.elsewhere]).any(|state| *state == ReadState::Awaited)
    }
}

impl LookupState {
    /// Returns the lookups of a rule that are not available.
    pub(crate) fn unread(&self, reads: &InventoryReads) -> UnreadLookups {
        if reads.is_empty() {
            return UnreadLookups::default();
        }
        let unknown = self.unknown.iter().filter(|unknown| self.may_be_looked_up(&unknown.group, reads));
        let groups = unknown.map(|UnknownGroup { group, why }| {
            Unread::Group(format!("may look up objects of {group}, which {why}").into())
        });
        let kinds = self.lookups(reads).flat_map(|(lookup, places)| {
            let unread = |place: &LookupReach| {
                let everywhere =
                    lookup.namespaces.values().chain([&lookup.elsewhere]).all(|state| *state == ReadState::Read);
                !everywhere || !self.shard.is_whole() && *place != LookupReach::Own
            };
            let places: Vec<_> = places.into_iter().filter(unread).collect();
            places.into_iter().map(|place| Unread::Kind(Arc::clone(lookup), place, self.shard))
        });
        UnreadLookups(groups.chain(kinds).collect())
    }

    /// Whether the other state has the same kinds read. Rules that wait for the next discovery are not evaluated, so
    /// its completion alone changes no result.
    pub(crate) fn has_read_the_same(&self, other: &Self) -> bool {
        let Self { kinds, unknown, provisional: _, shard, lacks_namespaces } = self;
        (kinds, unknown, shard, *lacks_namespaces)
            == (&other.kinds, &other.unknown, &other.shard, other.lacks_namespaces)
    }

    /// Whether any kind is still being read.
    pub(crate) fn awaits_any(&self) -> bool {
        self.provisional || self.kinds.iter().any(|lookup| lookup.is_awaited())
    }

    /// Whether kinds that are looked up are still being read, or may be found by the next discovery.
    pub(crate) fn awaits(&self, reads: &InventoryReads) -> bool {
        let known = || self.kinds.iter().map(|lookup| &*lookup.kind).collect::<Vec<_>>();
        self.provisional && reads.names_others(&known())
            || self.lookups(reads).any(|(lookup, places)| lookup.is_awaited() && !places.is_empty())
    }

    /// Returns the kinds that are looked up, and where.
    fn lookups(&self, reads: &InventoryReads) -> impl Iterator<Item = (&Arc<KindLookup>, Vec<LookupReach>)> {
        self.kinds.iter().filter_map(|lookup| {
            let reach = reads.reach(&lookup.kind);
            (reach.named || lookup.ranged).then(|| (lookup, reach.places.into_iter().collect()))
        })
    }

    /// Whether a kind of a group may be among those that are looked up by name.
    fn may_be_looked_up(&self, group: &str, reads: &InventoryReads) -> bool {
        let is_served = |plural: &str| self.kinds.iter().any(|lookup| lookup.kind.plural == plural);
        reads.names_group(group) || reads.plurals().any(|plural| !is_served(plural))
    }
}
