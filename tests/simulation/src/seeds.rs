//! Runs many seeds, and shortens a failing run.

use std::{fs, io};

use serde_json::{Value, json};

use crate::{
    plan::{self, RunStep},
    process::{self, Child, Ended},
    run::{self, Report},
};

/// Limit of a run's processor time in seconds: far more than any needs.
const SECONDS: u32 = 60;

/// The outcome of a seed.
#[derive(Debug)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// Its report.
    pub report: Report,
}

/// Starts a run in a process of its own.
///
/// # Errors
///
/// If no process can be created.
pub fn start(seed: u64, steps: &[RunStep]) -> io::Result<Child<u64>> {
    let folder = tempfile::tempdir()?;
    let path = folder.keep();
    process::start(seed, SECONDS, || {
        let report = match std::env::set_current_dir(&path) {
            Ok(()) => run::run(seed, steps),
            Err(error) => Report { failure: Some(error.to_string()), ..Report::default() },
        };
        // Runs that are killed cannot clean up.
        let _removed = fs::remove_dir_all(&path);
        json!([report.steps, report.failure, report.trace]).to_string().into_bytes()
    })
}

/// Waits for one of the processes.
///
/// # Errors
///
/// If waiting fails.
pub fn next(children: &mut Vec<Child<u64>>) -> io::Result<SeedOutcome> {
    let (seed, ended) = process::wait(children)?;
    let report = match ended {
        Ended::Answered(answer) => {
            let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
            Report {
                steps: answer[0].as_u64().and_then(|steps| usize::try_from(steps).ok()).unwrap_or_default(),
                failure: answer[1].as_str().map(str::to_owned),
                trace: answer[2].as_str().unwrap_or_default().to_owned(),
            }
        }
        Ended::Died(code) => no_report(format!("the process died with {code}")),
        Ended::TimedOut => no_report("the process hangs".to_owned()),
    };
    Ok(SeedOutcome { seed, report })
}

/// Returns the report of a run without an answer: any of its steps may have been the last.
fn no_report(failure: String) -> Report {
    Report { steps: usize::MAX, failure: Some(failure), ..Report::default() }
}

/// Runs one seed.
///
/// # Errors
///
/// As [`start`] and [`next`].
pub fn one(seed: u64, steps: &[RunStep]) -> io::Result<Report> {
    Ok(next(&mut vec![start(seed, steps)?])?.report)
}

/// Runs these seeds, some of them in parallel, until `done` returns true.
///
/// # Errors
///
/// As [`start`] and [`next`].
pub fn all(
    mut seeds: impl Iterator<Item = u64>,
    at_once: usize,
    mut done: impl FnMut(SeedOutcome) -> bool,
) -> io::Result<()> {
    let mut children = Vec::new();
    let mut is_done = false;
    loop {
        while !is_done
            && children.len() < at_once
            && let Some(seed) = seeds.next()
        {
            children.push(start(seed, &plan::steps(seed))?);
        }
        if children.is_empty() {
            return Ok(());
        }
        is_done |= done(next(&mut children)?);
    }
}

/// Returns the class of a failure, without the details.
fn class<'r>(report: &'r Report, steps: &[RunStep]) -> Option<&'r str> {
    let failure = report.failure.as_deref()?;
    let last = report.steps.checked_sub(1).and_then(|last| steps.get(last));
    let place = last.map(|last| format!("step {}, {last:?}: ", report.steps));
    let failure = place.and_then(|place| failure.strip_prefix(&*place)).unwrap_or(failure);
    Some(failure.split_once(['{', '[', '"']).map_or(failure, |(failure, _)| failure))
}

/// Returns fewer steps with the same failure, by leaving out ever smaller parts (Zeller's ddmin).
///
/// # Errors
///
/// As [`one`].
pub fn shorten(seed: u64, steps: &[RunStep], mut report: Report) -> io::Result<(Vec<RunStep>, Report)> {
    // Steps that were not executed are irrelevant.
    let mut steps = steps[..report.steps.clamp(1, steps.len())].to_vec();
    let what = class(&report, &steps).map(str::to_owned);
    let mut size = steps.len().div_ceil(2);
    loop {
        let mut begin = 0;
        let before = steps.len();
        while begin < steps.len() {
            let end = (begin + size).min(steps.len());
            let fewer: Vec<RunStep> = steps[..begin].iter().chain(&steps[end..]).cloned().collect();
            let outcome = one(seed, &fewer)?;
            if class(&outcome, &fewer) == what.as_deref() {
                steps.clone_from(&fewer);
                report = outcome;
            } else {
                begin = end;
            }
        }
        if size == 1 && steps.len() == before {
            return Ok((steps, report));
        }
        size = size.div_ceil(2).max(1);
    }
}
