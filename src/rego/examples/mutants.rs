//! Mutation testing of policies: changes each expression of each rule, and lists the changes that no test notices.
//!
//! ```text
//! cargo run --release --example mutants -- policies
//! ```
//!
//! The arguments are directories of policies with their tests. The exit code is 1 if there are unnoticed changes, and 2
//! if the policies cannot be loaded or one of their tests fails.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a report")]

use std::{env, path::PathBuf, process::ExitCode};

use kaudit_test_support::mutation::{self, MutationReport};

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        eprintln!("usage: mutants DIRECTORY...");
        return ExitCode::from(2);
    }
    match mutation::test(&paths, None) {
        Ok(report) => {
            print(&report);
            ExitCode::from(u8::from(!report.unnoticed.is_empty()))
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn print(report: &MutationReport) {
    for unnoticed in &report.unnoticed {
        let (file, mutant) = (&unnoticed.file, &unnoticed.mutant);
        let note = if unnoticed.evaluated { "" } else { " (no test evaluates it)" };
        println!("{file}:{}:{}: {}: {}{note}", mutant.at.line, mutant.at.column, mutant.expression, mutant.change);
    }
    println!("\nMUTANTS  UNNOTICED  FILE");
    for (file, (all, unnoticed)) in &report.files {
        println!("{all:>7}  {unnoticed:>9}  {file}");
    }
    let all: usize = report.files.values().map(|(all, _)| all).sum();
    println!("{all:>7}  {:>9}  in all", report.unnoticed.len());
}
