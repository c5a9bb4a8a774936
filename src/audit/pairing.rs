//! Pairs violations of one id on two sides, those that are most alike first.
//!
//! Results of one rule about one object that differ only in a number have one [`Fingerprint`](super::fingerprint::Fingerprint),
//! so their number counts: each pairs with one of the other side at most. Which one is told by what they do not differ in.

use std::collections::{HashMap, VecDeque};

/// What tells violations of one id apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Distinction<'e> {
    pub(crate) message: &'e str,
    /// File of the manifest; empty if there is none.
    pub(crate) file: &'e str,
    /// Name of the object, where several have one owner.
    pub(crate) name: &'e str,
}

/// Whether message, file and name have to be equal, pass by pass.
const PASSES: [[bool; 3]; 5] =
    [[true, true, true], [true, true, false], [true, false, false], [false, true, false], [false, false, false]];

/// Returns pairs of positions; those of each side that are left over are in none.
pub(crate) fn pairs(old: &[Distinction<'_>], new: &[Distinction<'_>]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut old_left, mut new_left): (Vec<usize>, Vec<usize>) = ((0..old.len()).collect(), (0..new.len()).collect());
    for pass in PASSES {
        if old_left.is_empty() || new_left.is_empty() {
            break;
        }
        let mut open: HashMap<[&str; 3], VecDeque<usize>> = HashMap::new();
        for position in new_left.drain(..) {
            open.entry(key(&new[position], pass)).or_default().push_back(position);
        }
        old_left.retain(|position| match open.get_mut(&key(&old[*position], pass)).and_then(VecDeque::pop_front) {
            Some(same) => {
                pairs.push((*position, same));
                false
            }
            None => true,
        });
        new_left = open.into_values().flatten().collect();
        new_left.sort_unstable();
    }
    pairs.sort_unstable();
    pairs
}

fn key<'e>(one: &Distinction<'e>, [message, file, name]: [bool; 3]) -> [&'e str; 3] {
    [(message, one.message), (file, one.file), (name, one.name)].map(|(counts, text)| if counts { text } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_alike_are_paired_first() {
        let of = |message: &'static str, file: &'static str| Distinction { message, file, name: "" };
        let old = [of("port 80", "a"), of("port 443", "a")];
        assert_eq!(pairs(&old, &[of("port 22", "a"), of("port 80", "a"), of("port 443", "b")]), [(0, 1), (1, 2)]);
        assert_eq!(pairs(&old, &[of("port 22", "b"), of("port 8080", "a")]), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&old, &[of("port 443", "c")]), [(1, 0)]);
        assert_eq!(pairs(&[], &old), []);
    }
}
