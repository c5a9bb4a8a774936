//! The objects of the simulated cluster, their owners, and the order in which they are listed.
//!
//! Each object has a slot, a number from 0. The slots of a kind, and those of a namespace within a kind, are
//! consecutive and in the order of etcd's keys, which is that of namespace and name: a list is a range of slots.
//! Nothing here changes: a Pod that replaces another one gets its slot, and a name at the same place of the order.

use std::ops::Range;

use anyhow::{Result, ensure};
use kaudit_test_support::objects::{DOMAINS, Dice, ROLES};

/// The kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Namespace,
    Node,
    ServiceAccount,
    Service,
    ConfigMap,
    Secret,
    Deployment,
    ReplicaSet,
    Pod,
}

impl Kind {
    /// All kinds, in the order of their slots.
    pub(crate) const ALL: [Self; 9] = [
        Self::Namespace,
        Self::Node,
        Self::ServiceAccount,
        Self::Service,
        Self::ConfigMap,
        Self::Secret,
        Self::Deployment,
        Self::ReplicaSet,
        Self::Pod,
    ];

    /// Returns its index among the kinds of an app's objects; `None` for kinds outside of namespaces.
    fn of_app(self) -> Option<usize> {
        (self as usize).checked_sub(OUTSIDE)
    }
}

/// The number of kinds outside of namespaces.
const OUTSIDE: usize = 2;
const OF_APP: usize = Kind::ALL.len() - OUTSIDE;
/// Names of namespaces that exist in every cluster.
const WELL_KNOWN: [&str; 3] = ["default", "kaudit", "kube-system"];
const ENVIRONMENTS: [&str; 4] = ["dev", "prod", "stage", "test"];
/// Objects for each node: 30 Pods and the objects that belong to them.
const PER_NODE: u32 = 60;
/// The log-normal distribution of replicas: the median, the standard deviation of the logarithm (the 90th percentile is
/// 18), and the maximum.
const REPLICAS: (f64, f64, f64) = (3.0, 1.398, 500.0);
/// The characters of generated names, as in apimachinery, in ascending order.
const LETTERS: &[u8; 27] = b"2456789bcdfghjklmnpqrstvwxz";
/// The number of names of five such letters.
const NAMES: u64 = 27 * 27 * 27 * 27 * 27;

/// A Deployment and the objects that belong to it.
#[derive(Debug)]
pub(crate) struct App {
    /// The name, which is never a prefix of another app's name, so that derived names have the same order.
    pub(crate) name: Box<str>,
    namespace: u32,
    /// The index among all apps.
    index: usize,
    /// The hash from which values that its objects share are computed.
    pub(crate) hash: u64,
    /// The number of objects of each kind in all apps before it.
    before: [u32; OF_APP],
}

/// The layout of all objects.
#[derive(Debug)]
pub(crate) struct World {
    seed: u64,
    namespaces: Vec<Box<str>>,
    apps: Vec<App>,
    /// The first slot of each kind, and the number of slots.
    first: [u32; Kind::ALL.len() + 1],
}

/// The place of an object in the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) kind: Kind,
    /// The namespace; empty if the object is not in one.
    pub(crate) namespace: &'a str,
    pub(crate) app: Option<&'a App>,
    /// The index among the objects of its kind in its app, or in the cluster.
    pub(crate) ordinal: u32,
    /// The number of these objects.
    pub(crate) count: u32,
}

impl World {
    /// Lays out a cluster with this total number of objects.
    pub(crate) fn new(objects: u32, namespaces: u32, seed: u64) -> Result<Self> {
        let nodes = (objects / PER_NODE).max(1);
        let outside = namespaces.saturating_add(nodes);
        ensure!(namespaces as usize > WELL_KNOWN.len(), "there must be more than {} namespaces", WELL_KNOWN.len());
        ensure!(objects > outside, "{objects} objects are too few for {namespaces} namespaces and {nodes} nodes");
        let mut dice = Dice(seed);
        let namespaces = namespace_names(&mut dice, namespaces);
        let mut apps = apps(&mut dice, objects - outside, namespaces.len());
        apps.sort_by(|a, b| (a.namespace, &a.name).cmp(&(b.namespace, &b.name)));
        let mut before = [0; OF_APP];
        for (index, app) in apps.iter_mut().enumerate() {
            app.index = index;
            // Until here, it contained the numbers of the app's own objects.
            let counts = std::mem::replace(&mut app.before, before);
            before = std::array::from_fn(|kind| before[kind] + counts[kind]);
        }
        let mut first = [0; Kind::ALL.len() + 1];
        for kind in Kind::ALL {
            let count = match kind {
                Kind::Namespace => namespaces.len() as u32,
                Kind::Node => nodes,
                _ => kind.of_app().map_or(0, |kind| before[kind]),
            };
            first[kind as usize + 1] = first[kind as usize] + count;
        }
        Ok(Self { seed, namespaces, apps, first })
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> u32 {
        self.first[Kind::ALL.len()]
    }

    /// Returns the slots of a kind, of one namespace or all; none if there is no such namespace.
    pub(crate) fn slots(&self, kind: Kind, namespace: Option<&str>) -> Range<u32> {
        let all = self.first[kind as usize]..self.first[kind as usize + 1];
        let (Some(name), Some(column)) = (namespace, kind.of_app()) else { return all };
        let Ok(namespace) = self.namespaces.binary_search_by(|known| (**known).cmp(name)) else {
            return all.start..all.start;
        };
        let begin = |namespace: usize| {
            let app = self.apps.partition_point(|app| (app.namespace as usize) < namespace);
            self.apps.get(app).map_or(all.end, |app| all.start + app.before[column])
        };
        begin(namespace)..begin(namespace + 1)
    }

    /// Returns the place of the object with this slot.
    pub(crate) fn place(&self, slot: u32) -> Place<'_> {
        let kind = Kind::ALL[self.first.partition_point(|first| *first <= slot) - 1];
        let (all, ordinal) = (self.slots(kind, None), slot - self.first[kind as usize]);
        let Some(column) = kind.of_app() else {
            return Place { kind, namespace: "", app: None, ordinal, count: all.end - all.start };
        };
        let index = self.apps.partition_point(|app| app.before[column] <= ordinal) - 1;
        let app = &self.apps[index];
        Place {
            kind,
            namespace: &self.namespaces[app.namespace as usize],
            app: Some(app),
            ordinal: ordinal - app.before[column],
            count: self.slots_of(app, kind).len() as u32,
        }
    }

    /// Returns the current `ReplicaSet` of an app: its slot, and the hash in its name and those of its Pods.
    pub(crate) fn current_set(&self, app: &App) -> (u32, u64) {
        let sets = self.slots_of(app, Kind::ReplicaSet);
        let count = sets.end - sets.start;
        let current = (app.hash % u64::from(count.max(1))) as u32;
        let slot = sets.start + current;
        (slot, in_order(current, count, self.hash(slot, slot + 1)))
    }

    /// Returns the number of Pods of an app.
    pub(crate) fn pods(&self, app: &App) -> u32 {
        self.slots_of(app, Kind::Pod).len() as u32
    }

    /// Returns the slots of an app's objects of a kind.
    fn slots_of(&self, app: &App, kind: Kind) -> Range<u32> {
        let all = self.slots(kind, None);
        let column = kind as usize - OUTSIDE;
        let end = self.apps.get(app.index + 1).map_or(all.end, |next| all.start + next.before[column]);
        all.start + app.before[column]..end
    }

    /// Returns the slot of an app's Deployment.
    pub(crate) fn deployment(&self, app: &App) -> u32 {
        self.slots_of(app, Kind::Deployment).start
    }

    /// Returns the hash from which the contents of an object that was created at a version are computed.
    pub(crate) fn hash(&self, slot: u32, born: u32) -> u64 {
        mix(self.seed ^ u64::from(slot) << 32 ^ u64::from(born))
    }

    /// Appends the name of the object that is at a place.
    pub(crate) fn write_name(&self, place: Place<'_>, hash: u64, out: &mut Vec<u8>) {
        let Some(app) = place.app else {
            match place.kind {
                Kind::Node => write_node(place.ordinal, out),
                _ => out.extend_from_slice(self.namespaces[place.ordinal as usize].as_bytes()),
            }
            return;
        };
        out.extend_from_slice(app.name.as_bytes());
        match place.kind {
            Kind::ConfigMap => out.extend_from_slice(b"-config"),
            Kind::Secret => out.extend_from_slice(b"-credentials"),
            Kind::ReplicaSet => {
                out.push(b'-');
                write_template_hash(in_order(place.ordinal, place.count, hash), out);
            }
            Kind::Pod => {
                out.push(b'-');
                write_template_hash(self.current_set(app).1, out);
                out.push(b'-');
                write_letters(in_order(place.ordinal, place.count, hash), out);
            }
            _ => {}
        }
    }
}

/// Returns sorted names, none of which is a prefix of another, so that they have the same order with `/` after them.
fn namespace_names(dice: &mut Dice, count: u32) -> Vec<Box<str>> {
    let made = (0..count as usize - WELL_KNOWN.len())
        .map(|number| format!("{}-{}-{number:04}", dice.one_of(&DOMAINS), dice.one_of(&ENVIRONMENTS)).into());
    let mut names: Vec<Box<str>> = WELL_KNOWN.into_iter().map(Box::from).chain(made).collect();
    names.sort();
    names
}

/// Creates apps with this total number of objects; `before` contains the number of each app's own objects by kind.
fn apps(dice: &mut Dice, objects: u32, namespaces: usize) -> Vec<App> {
    // The nth largest namespace has 1/n of the objects of the largest; the order is random.
    let mut ranks: Vec<usize> = (1..=namespaces).collect();
    for last in (1..namespaces).rev() {
        ranks.swap(last, dice.number(last as u32 + 1));
    }
    let mut total = 0.0;
    let shares: Vec<f64> = ranks
        .into_iter()
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    let (mut apps, mut left) = (Vec::new(), objects);
    while left > 0 {
        let service = u32::from(dice.chance(60));
        let sets = 1 + dice.number(3) as u32;
        let mut counts = [1, service, 1, 1, 1, sets, replicas(dice)];
        for count in &mut counts {
            *count = left.min(*count);
            left -= *count;
        }
        let drawn = uniform(dice) * total;
        apps.push(App {
            name: format!("{}-{}-{:05}", dice.one_of(&DOMAINS), dice.one_of(&ROLES), apps.len()).into(),
            namespace: shares.partition_point(|share| *share < drawn).min(namespaces - 1) as u32,
            index: 0,
            hash: dice.roll(),
            before: counts,
        });
    }
    apps
}

fn replicas(dice: &mut Dice) -> u32 {
    let (median, deviation, most) = REPLICAS;
    // The sum of twelve uniform numbers approximates a normal distribution.
    let normal = (0..12).map(|_| uniform(dice)).sum::<f64>() - 6.0;
    (median * (deviation * normal).exp()).round().clamp(1.0, most) as u32
}

/// Returns a random number from 0 to 1.
fn uniform(dice: &mut Dice) -> f64 {
    (dice.roll() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns a hash of a number.
pub(crate) fn mix(number: u64) -> u64 {
    Dice(number).roll()
}

/// Returns a number for a name of five letters. Objects with a smaller ordinal have smaller numbers, regardless of
/// hashes.
fn in_order(ordinal: u32, count: u32, hash: u64) -> u64 {
    let room = NAMES / u64::from(count.max(1));
    u64::from(ordinal) * room + hash % room
}

fn write_letters(mut number: u64, out: &mut Vec<u8>) {
    let mut letters = [0; 5];
    for letter in letters.iter_mut().rev() {
        *letter = LETTERS[(number % 27) as usize];
        number /= 27;
    }
    out.extend_from_slice(&letters);
}

/// Appends a number as a `pod-template-hash`.
pub(crate) fn write_template_hash(number: u64, out: &mut Vec<u8>) {
    write_letters(number, out);
    write_letters(mix(number) % NAMES, out);
}

/// Appends a hash as five letters.
pub(crate) fn write_suffix(hash: u64, out: &mut Vec<u8>) {
    write_letters(hash % NAMES, out);
}

/// Appends the name of a node.
pub(crate) fn write_node(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("node-{number:05}.example.com").as_bytes());
}
