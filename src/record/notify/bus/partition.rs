//! The partition of a key, as Kafka's own producer chooses it, so that records of other producers with the same key are
//! in the same partition.

/// The seed of the hash in Kafka's producer.
const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// Returns the index of a key's partition among this many.
pub(super) fn partition(key: &[u8], partitions: usize) -> usize {
    // The sign bit is dropped rather than negated.
    let hash = (murmur2(key) & 0x7fff_ffff) as usize;
    hash.checked_rem(partitions).unwrap_or_default()
}

/// `MurmurHash2` of 32 bits.
fn murmur2(key: &[u8]) -> u32 {
    let mut hash = SEED ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_kafkas_producer() {
        // The examples of Kafka's own test of its hash.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!((partition(b"21", 1), partition(b"21", 0)), (0, 0));
    }
}
