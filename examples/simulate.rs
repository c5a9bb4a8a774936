//! Runs simulations: `simulate --first-seed 1 --seeds 1000 --seconds 60`.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use kaudit_simulation::{plan, seeds};

/// Run all of kaudit against a simulated API server, with random clusters, changes and faults; the same seed gives the
/// same run
#[derive(Debug, Parser)]
struct Arguments {
    /// First seed
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Number of seeds to run
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Seconds after which no further run is started
    #[arg(long, default_value_t = 3_600)]
    seconds: u64,
    /// Number of failures after which to stop
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Report failures without shortening them
    #[arg(long)]
    as_is: bool,
    /// Print the requests of each run
    #[arg(long)]
    trace: bool,
    /// Write kaudit's log to standard error, by a filter such as debug
    #[arg(long)]
    log: Option<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(filter) = &arguments.log {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    let begun = Instant::now();
    let at_once = std::thread::available_parallelism()?.get();
    let (mut runs, mut operations, mut failed) = (0, 0, Vec::new());
    let last = arguments.first_seed.saturating_add(arguments.seeds - 1);
    seeds::all(arguments.first_seed..=last, at_once, |outcome| {
        runs += 1;
        operations += if outcome.report.steps == usize::MAX { 0 } else { outcome.report.steps };
        if arguments.trace {
            print!("{}", outcome.report.trace);
        }
        if let Some(failure) = &outcome.report.failure {
            println!("seed {}: {failure}", outcome.seed);
            failed.push(outcome);
        }
        failed.len() >= arguments.failures || begun.elapsed() > Duration::from_secs(arguments.seconds)
    })?;
    let failures = failed.len();
    for outcome in failed {
        println!("\nTo repeat it: cargo run --release --example simulate -- --first-seed {}", outcome.seed);
        if !arguments.as_is {
            let (steps, report) = seeds::shorten(outcome.seed, &plan::steps(outcome.seed), outcome.report)?;
            println!("Shortened to {} steps: {}", steps.len(), report.failure.unwrap_or_default());
            for step in steps {
                println!("  {step:?}");
            }
        }
    }
    println!("seeds: {runs}, operations: {operations}, failures: {failures}");
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
