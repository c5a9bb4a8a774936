//! How many bytes are kept of each namespace, and how many may be.
//!
//! A tenant who may create objects in one namespace decides how many they are, how large, and how many results they have.
//! Without a bound, one namespace could fill the memory of the container, and the kernel would end kaudit for all of them. With
//! one, objects without room are named in the coverage or have an error as their result, and all others are evaluated.

use std::{collections::HashMap, sync::Arc};

/// The part of the memory of the process that one namespace may take, in percent: 40,000 results in the 512 MiB that the chart
/// gives, or 100,000 usual objects.
const NAMESPACE_PERCENT: u64 = 25;
/// The part that all together may take. The rest is for policies, evaluations and recorders.
const ALL_PERCENT: u64 = 65;

/// The bytes that something keeps, by namespace.
#[derive(Debug, Default)]
pub(crate) struct MemoryUsage {
    namespaces: HashMap<Arc<str>, usize>,
    all: usize,
}

impl MemoryUsage {
    /// Counts bytes that are kept.
    pub(crate) fn add(&mut self, namespace: Option<&Arc<str>>, bytes: usize) {
        self.all += bytes;
        if let Some(namespace) = namespace.filter(|_| bytes > 0) {
            *self.namespaces.entry(Arc::clone(namespace)).or_default() += bytes;
        }
    }

    /// Subtracts bytes that are no longer kept.
    pub(crate) fn remove(&mut self, namespace: Option<&Arc<str>>, bytes: usize) {
        self.all = self.all.saturating_sub(bytes);
        let Some(namespace) = namespace else { return };
        if let Some(used) = self.namespaces.get_mut(namespace) {
            *used = used.saturating_sub(bytes);
            if *used == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Resets all counts to 0.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns all bytes that are kept.
    pub(crate) fn all(&self) -> usize {
        self.all
    }

    /// Returns those of a namespace.
    fn of(&self, namespace: &str) -> usize {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }
}

/// How many bytes may be kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryBounds {
    namespace: usize,
    all: usize,
}

impl MemoryBounds {
    /// Returns the bounds for a process with this much memory, in bytes; `None` sets no bounds.
    pub(crate) fn of_process(memory: Option<u64>) -> Self {
        let part =
            |percent| memory.map_or(usize::MAX, |bytes| usize::try_from(bytes / 100 * percent).unwrap_or(usize::MAX));
        Self { namespace: part(NAMESPACE_PERCENT), all: part(ALL_PERCENT) }
    }

    /// Whether there is room for `new` bytes in place of `old` ones, given all that is in `use`. What does not grow always has
    /// room.
    ///
    /// # Errors
    /// What is full.
    pub(crate) fn check(
        self,
        usage: [&MemoryUsage; 2],
        namespace: Option<&Arc<str>>,
        (old, new): (usize, usize),
    ) -> Result<(), String> {
        let is_full = |used: usize, most: usize| new > old && used.saturating_sub(old).saturating_add(new) > most;
        let of_namespace = namespace.map_or(0, |namespace| usage.iter().map(|usage| usage.of(namespace)).sum());
        let of_all = usage.iter().map(|usage| usage.all()).sum();
        let (whose, used, most) = if namespace.is_some() && is_full(of_namespace, self.namespace) {
            ("the namespace uses", of_namespace, self.namespace)
        } else if is_full(of_all, self.all) {
            ("all objects and results use", of_all, self.all)
        } else {
            return Ok(());
        };
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        Err(format!("{whose} {} of the {} MiB of memory that it may", mib(used), mib(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_its_part_and_all_have_theirs() {
        let bounds = MemoryBounds::of_process(Some(400 << 20));
        let (mut objects, mut results) = (MemoryUsage::default(), MemoryUsage::default());
        let [a, b, c]: [Arc<str>; 3] = ["a", "b", "c"].map(Into::into);
        let mib = |number: usize| number << 20;
        objects.add(Some(&a), mib(70));
        results.add(Some(&a), mib(20));
        assert_eq!(bounds.check([&objects, &results], Some(&a), (0, mib(10))), Ok(()));
        assert_eq!(
            bounds.check([&objects, &results], Some(&a), (0, mib(10) + 1)),
            Err("the namespace uses 90 of the 100 MiB of memory that it may".to_owned()),
        );
        assert_eq!(bounds.check([&objects, &results], Some(&a), (mib(70), mib(80))), Ok(()), "in place of another");
        results.add(Some(&b), mib(100));
        objects.add(None, mib(60));
        assert_eq!(
            bounds.check([&objects, &results], Some(&c), (0, mib(11))),
            Err("all objects and results use 250 of the 260 MiB of memory that it may".to_owned()),
        );
        assert_eq!(bounds.check([&objects, &results], Some(&b), (mib(50), mib(50))), Ok(()), "it does not grow");
        results.remove(Some(&b), mib(100));
        assert_eq!(bounds.check([&objects, &results], Some(&c), (0, mib(11))), Ok(()));
        assert!(!results.namespaces.contains_key(&b), "nothing is kept of a namespace without objects");
    }

    #[test]
    fn without_a_limit_there_are_no_bounds() {
        let none = MemoryUsage::default();
        assert_eq!(MemoryBounds::of_process(None).check([&none, &none], Some(&"a".into()), (0, usize::MAX)), Ok(()));
    }
}
