//! Many runs, and the shortest one that fails.

use std::{fs, io};

use serde_json::{Value, json};

use crate::{
    plan::{self, RunStep},
    process::{self, Child, Ended},
    run::{self, Report},
};

/// How many seconds of processor time a run may take: far more than any does.
const SECONDS: u32 = 60;

/// What a run of a seed was.
#[derive(Debug)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// How it went.
    pub report: Report,
}

/// Starts a run in a process of its own.
///
/// # Errors
///
/// When there can be no further process.
pub fn start(seed: u64, steps: &[RunStep]) -> io::Result<Child<u64>> {
    let folder = tempfile::tempdir()?;
    let path = folder.keep();
    process::start(seed, SECONDS, || {
        let report = match std::env::set_current_dir(&path) {
            Ok(()) => run::run(seed, steps),
            Err(error) => Report { failure: Some(error.to_string()), ..Report::default() },
        };
        // Not every run can be asked to clean up.
        let _removed = fs::remove_dir_all(&path);
        json!([report.steps, report.failure, report.trace]).to_string().into_bytes()
    })
}

/// Waits for one of them.
///
/// # Errors
///
/// When the system refuses to wait.
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

/// The report of a run that gave none: any of its steps may have been the last.
fn no_report(failure: String) -> Report {
    Report { steps: usize::MAX, failure: Some(failure), ..Report::default() }
}

/// Makes one run.
///
/// # Errors
///
/// As [`start`] and [`next`].
pub fn one(seed: u64, steps: &[RunStep]) -> io::Result<Report> {
    Ok(next(&mut vec![start(seed, steps)?])?.report)
}

/// Makes the runs of these seeds, some of them at a time, until `done` says that it is enough.
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

/// Returns what a failure of these steps is about, without the details.
fn class<'r>(report: &'r Report, steps: &[RunStep]) -> Option<&'r str> {
    let failure = report.failure.as_deref()?;
    let last = report.steps.checked_sub(1).and_then(|last| steps.get(last));
    let place = last.map(|last| format!("step {}, {last:?}: ", report.steps));
    let failure = place.and_then(|place| failure.strip_prefix(&*place)).unwrap_or(failure);
    Some(failure.split_once(['{', '[', '"']).map_or(failure, |(failure, _)| failure))
}

/// Returns fewer steps that fail as well, by leaving out ever smaller parts (Zeller's ddmin).
///
/// # Errors
///
/// As [`one`].
pub fn shorten(seed: u64, steps: &[RunStep], mut report: Report) -> io::Result<(Vec<RunStep>, Report)> {
    // What was not done has no part in it.
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
