//! The sizes and seeds of tests, from the environment.

use std::{env, str::FromStr};

/// Returns the number in an environment variable, if it is set.
pub fn setting<N: FromStr>(name: &str) -> Option<N> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is not a number: {value}")))
}

/// Returns the seed of a random test, from `KAUDIT_TEST_SEED` or new, and prints it so that the run can be repeated.
pub fn seed() -> u64 {
    let seed = setting("KAUDIT_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("KAUDIT_TEST_SEED={seed} repeats this run");
    seed
}
