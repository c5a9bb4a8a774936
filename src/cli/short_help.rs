//! The help of `kaudit check -h`, which fits on one screen. `--help` shows everything.

use clap::{Arg, Command};

/// The options that most users need: the id, the name of the value, and one line of help.
const OPTIONS: [(&str, Option<&str>, &str); 17] = [
    ("filename", Some("PATH"), "Check these files, directories or https URLs; - is standard input"),
    ("once", None, "Check the cluster of the kubeconfig once, instead of watching it"),
    ("namespace", Some("NS"), "Check only this namespace; repeatable"),
    ("exclude_namespace", Some("GLOB"), "Skip these namespaces, such as 'kube-*'; repeatable"),
    ("exclude", Some("KIND"), "Skip this kind, such as secrets or *.example.com; repeatable"),
    ("policies", Some("PATH"), "Use these policies: a directory, a bundle or builtin; repeatable"),
    ("skip_rule", Some("RULE"), "Skip this rule, id or glob, such as IMG-01 or 'images/*'; repeatable"),
    ("output", Some("FORMAT"), "Write text, json, csv, sarif, junit, github, gitlab, markdown, html, …; FORMAT=FILE"),
    ("summary", None, "Show only tables by severity, namespace and rule"),
    ("fail_on", Some("LEVEL"), "Exit with 1 at this level: critical, high, medium, low, info, fail, warn or none"),
    ("min_severity", Some("LEVEL"), "Report only results of this severity and worse"),
    ("exceptions", Some("FILE"), "Apply the PolicyExceptions in this file"),
    ("baseline", Some("FILE"), "Excuse the violations that this file lists"),
    ("context", Some("NAME"), "Use this context of the kubeconfig"),
    ("record", Some("WHAT"), "Write events, reports, status or none of them into the cluster"),
    ("config", Some("FILE"), "Read settings from this YAML file [default: kaudit.yaml, if it exists]"),
    ("verbose", None, "Show titles and links of rules, and more messages"),
];

const AFTER: &str = "\
Examples:
  kaudit check manifests                              Check files
  helm template chart | kaudit check -f -             Check rendered manifests
  kaudit check --once -n shop --fail-on high          Check a namespace in a pipeline
  kaudit check                                        Watch the cluster

Exit codes: 0 clean, 1 violations, 2 nothing was checked, 3 incomplete
All options: kaudit check --help";

/// Makes the help of `check` show only the options that most users need.
pub(super) fn shorten(command: Command) -> Command {
    command.mut_subcommand("check", |check| {
        check.mut_args(shorten_option).after_help(AFTER).override_usage("kaudit check [OPTIONS] [PATH]...")
    })
}

fn shorten_option(arg: Arg) -> Arg {
    let known = OPTIONS.iter().find(|(id, ..)| arg.get_id() == id);
    let Some((_, value, help)) = known else { return arg.hide(true) };
    let arg = arg.help(*help).help_heading(None);
    match value {
        Some(value) => arg.value_name(value).hide_default_value(true).hide_possible_values(true),
        None => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_help_fits_on_a_screen_and_names_options_that_exist() {
        let mut command = shorten(crate::cli::command()).term_width(100);
        let check = command.find_subcommand("check").unwrap();
        for (id, ..) in OPTIONS {
            assert!(check.get_arguments().any(|arg| arg.get_id() == id), "{id}");
        }
        command.build();
        let help = command.find_subcommand_mut("check").unwrap().render_help().to_string();
        assert!(help.lines().count() <= 40, "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}
