//! Coverage: which lines of the policies the tests evaluated.
//!
//! The lines of rules that are not tests count: each line on which a statement, a key, a value or a default begins. A
//! line is covered when something on it was evaluated.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    judge::tested::Tested,
    rego::{SourceLocation, analysis::test_rules},
};

/// The places that were evaluated.
#[derive(Debug, Default)]
pub(super) struct Covered(BTreeSet<SourceLocation>);

impl Covered {
    pub(super) fn add(&mut self, mut places: BTreeSet<SourceLocation>) {
        self.0.append(&mut places);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.add(other.0);
    }
}

/// Which lines of all policies were covered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineCoverage {
    /// Files that have lines to cover, by path.
    pub files: BTreeMap<String, FileCoverage>,
    /// The number of lines that were evaluated.
    pub covered_lines: usize,
    /// The number of lines that were not.
    pub not_covered_lines: usize,
    /// Percentage of lines that were evaluated.
    pub coverage: f64,
}

/// Which lines of one file were covered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileCoverage {
    /// Numbers of the lines that were evaluated, in order.
    pub covered: Vec<u32>,
    /// Numbers of the lines that were not, in order.
    pub not_covered: Vec<u32>,
    /// Percentage of lines that were evaluated.
    pub coverage: f64,
}

impl LineCoverage {
    pub(super) fn new(tested: &Tested, covered: &Covered) -> Self {
        let mut coverage = Self { files: BTreeMap::new(), covered_lines: 0, not_covered_lines: 0, coverage: 0.0 };
        let evaluated: BTreeSet<(usize, u32)> = covered.0.iter().map(|place| (place.module, place.at.line)).collect();
        for (index, (file, module)) in tested.sources.iter().zip(&tested.modules).enumerate() {
            let lines = if file.is_test() { BTreeSet::new() } else { test_rules::lines(module) };
            if lines.is_empty() {
                continue;
            }
            let (covered, not_covered): (Vec<u32>, Vec<u32>) =
                lines.into_iter().partition(|line| evaluated.contains(&(index, *line)));
            coverage.covered_lines += covered.len();
            coverage.not_covered_lines += not_covered.len();
            let percent = percent(covered.len(), not_covered.len());
            coverage.files.insert(file.shown.to_string(), FileCoverage { covered, not_covered, coverage: percent });
        }
        coverage.coverage = percent(coverage.covered_lines, coverage.not_covered_lines);
        coverage
    }
}

/// Returns a percentage with one decimal; 100 where there are no lines.
fn percent(covered: usize, not_covered: usize) -> f64 {
    let (covered, all) = (covered as u64, (covered + not_covered) as u64);
    // Rounded down: 100 % must mean that no line is missing.
    let tenths = (covered * 1000).checked_div(all).unwrap_or(1000);
    f64::from(u32::try_from(tenths).unwrap_or(1000)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_down() {
        assert_eq!((percent(1, 2), percent(0, 3), percent(0, 0), percent(9_999, 1)), (33.3, 0.0, 100.0, 99.9));
    }
}
