//! The JSON of objects: a template for each kind and shape, with gaps that are filled for each object.

use anyhow::Result;

use super::{
    history::Stamps,
    shapes,
    template::{Gap, Template},
    world::{Kind, Place, World, mix, write_node, write_suffix, write_template_hash},
};

/// The most shapes of each kind.
const SHAPES: u64 = 256;
/// The number of objects for each shape in a small cluster.
const PER_SHAPE: u64 = 100;

/// The templates of all objects, and their positions in the cluster.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) world: World,
    /// The templates by kind and shape.
    templates: Vec<Vec<Template>>,
}

impl Objects {
    pub(crate) fn new(world: World) -> Result<Self> {
        let shapes = SHAPES.min(1 + u64::from(world.len()) / PER_SHAPE);
        let of = |kind| (0..shapes).map(|shape| Template::parse(&shapes::shape(kind, shape).to_string())).collect();
        let templates = Kind::ALL.into_iter().map(of).collect::<Result<_>>()?;
        Ok(Self { world, templates })
    }

    /// Appends an object as an item of a list, without kind and `apiVersion`. `version` is its `resourceVersion`.
    pub(crate) fn write(&self, slot: u32, stamps: Stamps, version: u32, out: &mut Vec<u8>) {
        let place = self.world.place(slot);
        let hash = self.world.hash(slot, stamps.born);
        let subject = Subject { world: &self.world, slot, place, stamps, version, hash };
        let templates = &self.templates[place.kind as usize];
        let shape = place.app.map_or(hash, |app| app.hash >> 32) % templates.len() as u64;
        templates[shape as usize].write(out, |gap, out| subject.fill(gap, out));
    }

    /// Appends an object with its kind and `apiVersion`, which are in `types`.
    pub(crate) fn write_whole(&self, slot: u32, stamps: Stamps, version: u32, types: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(types.as_bytes());
        let begin = out.len();
        self.write(slot, stamps, version, out);
        // `types` already begins the object.
        out[begin] = b',';
    }

    /// Returns the name of an object.
    pub(crate) fn name(&self, slot: u32, stamps: Stamps) -> Vec<u8> {
        let mut name = Vec::new();
        self.world.write_name(self.world.place(slot), self.world.hash(slot, stamps.born), &mut name);
        name
    }
}

/// An object, to fill the gaps of its template.
struct Subject<'a> {
    world: &'a World,
    slot: u32,
    place: Place<'a>,
    stamps: Stamps,
    version: u32,
    /// A hash of the slot and the version of its creation.
    hash: u64,
}

impl Subject<'_> {
    fn fill(&self, gap: Gap, out: &mut Vec<u8>) {
        match gap {
            Gap::Name => self.world.write_name(self.place, self.hash, out),
            Gap::Namespace => out.extend_from_slice(self.place.namespace.as_bytes()),
            Gap::Uid => write_uid(self.hash, out),
            Gap::Version => write_number(self.version, out),
            Gap::Generation => write_number(1 + self.stamps.spec, out),
            Gap::Created => self.write_time(self.stamps.born, out),
            Gap::SpecTime => self.write_time(self.stamps.spec.max(self.stamps.born), out),
            Gap::StatusTime => self.write_time(self.stamps.status.max(self.stamps.born), out),
            Gap::App => out.extend_from_slice(self.place.app.map_or("", |app| &app.name).as_bytes()),
            Gap::OwnerName | Gap::OwnerUid | Gap::TemplateHash => self.fill_owner(gap, out),
            Gap::Tag => self.write_tag(out),
            Gap::Tier => {
                let tier = mix(self.hash ^ u64::from(self.stamps.spec)) % 4;
                out.extend_from_slice(["bronze", "silver", "gold", "platinum"][tier as usize].as_bytes());
            }
            Gap::Node => write_node(self.node(), out),
            Gap::PodIp => write_ip(10, self.hash, out),
            Gap::HostIp => write_ip(172, mix(self.node().into()), out),
            Gap::Replicas => write_number(self.replicas(), out),
            Gap::Suffix => write_suffix(mix(self.hash), out),
            Gap::Shared(which, digits) => write_hex(self.shared(which), digits, out),
            Gap::Own(which, digits) => write_hex(mix(self.hash ^ u64::from(which)), digits, out),
            Gap::Port(which) => write_number(1_000 + (self.shared(which) % 9_000) as u32, out),
        }
    }

    /// Fills a gap about the owner: the `ReplicaSet` of a Pod, or the Deployment of a `ReplicaSet`.
    fn fill_owner(&self, gap: Gap, out: &mut Vec<u8>) {
        let Some(app) = self.place.app else { return };
        let (set, template_hash) = self.world.current_set(app);
        let owner = if self.place.kind == Kind::Pod { set } else { self.world.deployment(app) };
        // Owners are never replaced.
        let hash = self.world.hash(owner, owner + 1);
        match gap {
            Gap::OwnerName => self.world.write_name(self.world.place(owner), hash, out),
            Gap::OwnerUid => write_uid(hash, out),
            _ if self.place.kind == Kind::Pod => write_template_hash(template_hash, out),
            _ => {
                // The name ends with it.
                let mut name = Vec::new();
                self.world.write_name(self.place, self.hash, &mut name);
                out.extend_from_slice(&name[app.name.len() + 1..]);
            }
        }
    }

    fn shared(&self, which: u8) -> u64 {
        let common = self.place.app.map_or(self.hash, |app| app.hash);
        mix(common ^ u64::from(which) << 56)
    }

    /// Returns the number of its node.
    fn node(&self) -> u32 {
        let nodes = self.world.slots(Kind::Node, None);
        (mix(self.hash ^ 1) % u64::from(nodes.end - nodes.start)) as u32
    }

    /// Returns the number of replicas; 0 for a `ReplicaSet` of an earlier revision.
    fn replicas(&self) -> u32 {
        self.place.app.map_or(0, |app| {
            let current = self.place.kind != Kind::ReplicaSet || self.slot == self.world.current_set(app).0;
            if current { self.world.pods(app) } else { 0 }
        })
    }

    /// Appends the tag of an image, which is `latest` in one of fifty cases.
    fn write_tag(&self, out: &mut Vec<u8>) {
        let hash = match self.stamps.spec {
            0 => self.shared(0),
            spec => mix(self.hash ^ u64::from(spec)),
        };
        if hash.is_multiple_of(50) {
            return out.extend_from_slice(b"latest");
        }
        for (place, below) in [(8, 5), (16, 30), (24, 10)] {
            write_number(((hash >> place) % below) as u32, out);
            out.push(b'.');
        }
        out.pop();
    }

    /// Appends the time of a version. The first objects were created at random times from January to September; since
    /// October, there were a thousand versions each second.
    fn write_time(&self, version: u32, out: &mut Vec<u8>) {
        let first = self.world.len();
        let (month, seconds) = match version.checked_sub(first + 1) {
            None => (1 + mix(version.into()) % 9, mix(u64::from(version) << 32) % (28 * 86_400)),
            Some(later) => (10, u64::from(later / 1_000) % (28 * 86_400)),
        };
        out.extend_from_slice(b"2026-");
        let parts = [month, 1 + seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60];
        for (part, then) in parts.into_iter().zip(*b"-T::Z") {
            out.extend_from_slice(&[b'0' + (part / 10) as u8, b'0' + (part % 10) as u8, then]);
        }
    }
}

/// Appends a number.
pub(crate) fn write_number(mut number: u32, out: &mut Vec<u8>) {
    let (mut digits, mut begin) = ([0; 10], 10);
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[begin..]);
        }
    }
}

fn write_hex(mut hash: u64, digits: u8, out: &mut Vec<u8>) {
    for digit in 0..digits {
        if digit > 0 && digit % 16 == 0 {
            hash = mix(hash);
        }
        out.push(b"0123456789abcdef"[(hash >> (4 * (digit % 16)) & 15) as usize]);
    }
}

fn write_uid(hash: u64, out: &mut Vec<u8>) {
    for (part, digits) in (2..).zip([8, 4, 4, 4, 12]) {
        write_hex(mix(hash ^ part << 48), digits, out);
        out.push(b'-');
    }
    out.pop();
}

fn write_ip(first: u32, hash: u64, out: &mut Vec<u8>) {
    write_number(first, out);
    for place in [8, 16, 24] {
        out.push(b'.');
        write_number((hash >> place & 255) as u32, out);
    }
}
