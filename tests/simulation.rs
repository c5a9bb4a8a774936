//! Runs of the simulation: seeds that failed once, further seeds, and a check that equal seeds give equal runs.

#![expect(clippy::print_stdout, clippy::panic, reason = "a test without a harness")]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use kaudit_simulation::{plan, seeds};
use kaudit_test_support::settings::setting;

/// Seeds that failed once, with the failure.
const FAILED_ONCE: &[(u64, &str)] = &[
    (86, "an excused violation was reported because the first discovery lacked the kind of exceptions"),
    (219, "an excused violation was reported while its policy was being replaced"),
    (1540, "a rule decided without the objects of an excluded kind, because one discovery lacked its group"),
    (2050, "a restart changed what the status says about two exceptions for one policy"),
];
/// Number of further seeds.
const OTHERS: u64 = 300;
/// Time limit for the further seeds.
const LONGEST: Duration = Duration::from_secs(80);
/// Number of seeds that run twice, to compare their requests.
const REPEATED: u64 = 5;

fn main() -> ExitCode {
    let first: u64 = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    println!("simulation: {} seeds that failed once, and up to {OTHERS} from {first}", FAILED_ONCE.len());
    let begun = Instant::now();
    let chosen = FAILED_ONCE.iter().map(|(seed, _)| *seed).chain(first..first.saturating_add(OTHERS));
    let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (mut runs, mut failures) = (0, 0);
    let done = seeds::all(chosen, at_once, |outcome| {
        runs += 1;
        if let Some(failure) = outcome.report.failure {
            failures += 1;
            println!("seed {}: {failure}", outcome.seed);
            println!("again: cargo run --release --example simulate -- --first-seed {}", outcome.seed);
        }
        runs >= FAILED_ONCE.len() && begun.elapsed() > LONGEST
    });
    if let Err(error) = done {
        panic!("{error}");
    }
    for seed in first..first.saturating_add(REPEATED) {
        let steps = plan::steps(seed);
        match (seeds::one(seed, &steps), seeds::one(seed, &steps)) {
            (Ok(one), Ok(other)) if one == other && !one.trace.is_empty() => {}
            (one, other) => {
                failures += 1;
                println!("seed {seed} gives different runs: {}", difference(one, other));
            }
        }
    }
    println!("simulation: {runs} runs, {failures} failures");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the first difference between the requests of two runs.
fn difference(
    one: std::io::Result<kaudit_simulation::run::Report>,
    other: std::io::Result<kaudit_simulation::run::Report>,
) -> String {
    let (one, other) = match (one, other) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) => return error.to_string(),
    };
    let mut lines = one.trace.lines().zip(other.trace.lines());
    lines.find(|(one, other)| one != other).map_or_else(
        || format!("{:?} and {:?}", one.failure, other.failure),
        |(one, other)| format!("{one} and {other}"),
    )
}
