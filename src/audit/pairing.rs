//! Pairs violations of one id on two sides, those that are most alike first.
//!
//! Results of one rule about one object that differ only in a number have one [`Fingerprint`]. They are the same violation if
//! that number is the same as well, and each pairs with at most one of the other side: first those with equal messages, files
//! and names.

use std::collections::{HashMap, VecDeque};

use super::fingerprint::Fingerprint;

/// What distinguishes violations of one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Distinction<'e> {
    /// Its evidence with the numbers; `None` if that is not known, and then any value is the same.
    pub(crate) value: Option<Fingerprint>,
    pub(crate) message: &'e str,
    /// File of the manifest; empty if there is none.
    pub(crate) file: &'e str,
    /// Name of the object, where several have one owner.
    pub(crate) name: &'e str,
}

/// Whether violations of one id with different values are the same violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherValues {
    /// They are, because other policies may report other numbers for the same objects.
    Same,
    /// They are not.
    New,
}

/// Whether message, file and name have to be equal, pass by pass.
const PASSES: [[bool; 3]; 5] =
    [[true, true, true], [true, true, false], [true, false, false], [false, true, false], [false, false, false]];

/// Returns pairs of positions; those of each side that are left over are in none.
pub(crate) fn pairs(old: &[Distinction<'_>], new: &[Distinction<'_>], others: OtherValues) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut old_left, mut new_left): (Vec<usize>, Vec<usize>) = ((0..old.len()).collect(), (0..new.len()).collect());
    for (values, pass) in [true, false].into_iter().flat_map(|values| PASSES.map(|pass| (values, pass))) {
        if old_left.is_empty() || new_left.is_empty() {
            break;
        }
        let key = |one| key(one, values, pass);
        let may_pair = |one: &Distinction<'_>| values || one.value.is_none() || others == OtherValues::Same;
        let mut open: HashMap<PairingKey<'_>, VecDeque<usize>> = HashMap::new();
        for position in new_left.drain(..) {
            open.entry(key(&new[position])).or_default().push_back(position);
        }
        old_left.retain(|position| {
            let one = &old[*position];
            let same = open.get_mut(&key(one)).filter(|_| may_pair(one)).and_then(VecDeque::pop_front);
            pairs.extend(same.map(|same| (*position, same)));
            same.is_none()
        });
        new_left = open.into_values().flatten().collect();
        new_left.sort_unstable();
    }
    pairs.sort_unstable();
    pairs
}

type PairingKey<'e> = (Option<Fingerprint>, [&'e str; 3]);

fn key<'e>(one: &Distinction<'e>, value: bool, [message, file, name]: [bool; 3]) -> PairingKey<'e> {
    let texts = [(message, one.message), (file, one.file), (name, one.name)];
    (one.value.filter(|_| value), texts.map(|(counts, text)| if counts { text } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alike_are_paired_first() {
        let of = |message: &'static str, file: &'static str| Distinction { value: None, message, file, name: "" };
        let pairs = |old: &[_], new: &[_]| pairs(old, new, OtherValues::New);
        let old = [of("port 80", "a"), of("port 443", "a")];
        assert_eq!(pairs(&old, &[of("port 22", "a"), of("port 80", "a"), of("port 443", "b")]), [(0, 1), (1, 2)]);
        assert_eq!(pairs(&old, &[of("port 22", "b"), of("port 8080", "a")]), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&old, &[of("port 443", "c")]), [(1, 0)]);
        assert_eq!(pairs(&[], &old), []);
    }

    #[test]
    fn another_value_is_the_same_only_if_policies_changed() {
        let of = |value: &str, message: &'static str, file: &'static str| {
            let value = Fingerprint::parse(&format!("{value:0>16}"));
            Distinction { value, message, file, name: "" }
        };
        let old = [of("80", "port 80", "a"), of("81", "port 81", "a")];
        let new = [of("22", "port 22", "a"), of("81", "port 81", "b"), of("23", "port 23", "a")];
        assert_eq!(pairs(&old, &new, OtherValues::New), [(1, 1)]);
        assert_eq!(pairs(&old, &new, OtherValues::Same), [(0, 0), (1, 1)]);
    }
}
