//! Runs of the simulation: seeds that failed once, further seeds, and a check that equal seeds give equal runs.

#![expect(clippy::print_stdout, clippy::panic, reason = "a test without a harness")]

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use kaudit_simulation::{
    run::Report,
    seeds::{self, SeedOutcome},
};
use kaudit_test_support::settings::setting;

/// Seeds that failed once, with the failure.
const FAILED_ONCE: &[(u64, &str)] = &[
    (86, "an excused violation was reported because the first discovery lacked the kind of exceptions"),
    (219, "an excused violation was reported while its policy was being replaced"),
    (1540, "a rule decided without the objects of an excluded kind, because one discovery lacked its group"),
    (2050, "a restart changed what the status says about two exceptions for one policy"),
    (2365, "a violation was resolved at a restart at which Namespaces could not be read, because its rule reads them"),
    (3171, "the same for a rule that selects Namespaces"),
    (3355, "a late write of a former leader stayed in the bucket, because the bus failed when the next one began"),
];
/// Number of further seeds.
const OTHERS: u64 = 300;
/// Time limit for the further seeds.
const LONGEST: Duration = Duration::from_secs(70);
/// Number of the further seeds that run twice, to compare their requests.
const REPEATED: u64 = 50;

fn main() -> ExitCode {
    let first: u64 = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    println!("simulation: {} seeds that failed once, and up to {OTHERS} from {first}", FAILED_ONCE.len());
    let begun = Instant::now();
    let repeated = first..first.saturating_add(REPEATED);
    let chosen = FAILED_ONCE.iter().map(|(seed, _)| *seed).chain(first..first.saturating_add(OTHERS));
    let (mut runs, mut failures, mut reports) = (0, 0, BTreeMap::new());
    run_all(chosen, |SeedOutcome { seed, report }| {
        runs += 1;
        if let Some(failure) = &report.failure {
            failures += 1;
            println!("seed {seed}: {failure}");
            println!("again: cargo run --release --example simulate -- --first-seed {seed}");
        }
        if repeated.contains(&seed) {
            reports.insert(seed, report);
        }
        runs >= FAILED_ONCE.len() && begun.elapsed() > LONGEST
    });
    run_all(repeated, |SeedOutcome { seed, report }| {
        let before = reports.remove(&seed);
        if let Some(before) = before.filter(|before| *before != report || report.trace.is_empty()) {
            failures += 1;
            println!("seed {seed} gives different runs: {}", difference(&before, &report));
        }
        reports.is_empty()
    });
    println!("simulation: {runs} runs, {failures} failures");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs these seeds, until `done` returns true.
fn run_all(chosen: impl Iterator<Item = u64>, done: impl FnMut(SeedOutcome) -> bool) {
    let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if let Err(error) = seeds::all(chosen, at_once, done) {
        panic!("{error}");
    }
}

/// Returns the first difference between the requests of two runs.
fn difference(one: &Report, other: &Report) -> String {
    let mut lines = one.trace.lines().zip(other.trace.lines());
    lines.find(|(one, other)| one != other).map_or_else(
        || format!("{:?} and {:?}", one.failure, other.failure),
        |(one, other)| format!("{one} and {other}"),
    )
}
