//! Makes kaudit a plugin of `kubectl`. For `kubectl kaudit`, `kubectl` runs the binary, or a link to it, with the name
//! `kubectl-kaudit`; to complete words on the command line, it runs one with another name.

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::Path,
};

use clap::{Arg, Command};

/// The name under which `kubectl` runs a plugin.
const PLUGIN: &str = "kubectl-kaudit";
/// The name under which `kubectl` runs a plugin to get completions.
const COMPLETER: &str = "kubectl_complete-kaudit";
/// Directives of Cobra in the last line of completions: complete file names too, or do not.
const FILES: &str = ":0";
const NO_FILES: &str = ":4";

fn is_called(argv: &[OsString], name: &str) -> bool {
    argv.first().and_then(|program| Path::new(program).file_stem()) == Some(OsStr::new(name))
}

/// Returns the command with the name that the user typed: help and errors show it.
pub(super) fn named(command: Command, argv: &[OsString]) -> Command {
    if is_called(argv, PLUGIN) { command.bin_name("kubectl kaudit") } else { command }
}

/// Returns the completions of the last argument, in Cobra's format; `None` if `kubectl` does not request completions.
///
/// Each candidate is a line, with its description after a tab. The last line is Cobra's directive.
pub fn completions(argv: &[OsString]) -> Option<String> {
    let words: Vec<_> = argv.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    is_called(argv, COMPLETER).then(|| complete(&super::command(), &words))
}

fn complete(command: &Command, words: &[&str]) -> String {
    let (last, before) = words.split_last().unwrap_or((&"", &[]));
    let subcommand = before.iter().find_map(|word| command.find_subcommand(word));
    let candidates = match (subcommand, last.split_once('=')) {
        (None, _) if last.starts_with('-') => options(command),
        (None, _) => {
            command.get_subcommands().map(|sub| (sub.get_name().to_owned(), first_line(sub.get_about()))).collect()
        }
        (Some(own), Some((name, _))) => values(own, name, &format!("{name}=")),
        (Some(own), None) if last.starts_with('-') => options(own),
        (Some(own), None) => before.last().map_or_else(Vec::new, |name| values(own, name, "")),
    };
    let mut answer = String::new();
    for (word, about) in candidates.into_iter().filter(|(word, _)| word.starts_with(last)) {
        let _ = writeln!(answer, "{word}\t{about}");
    }
    let directive = if answer.is_empty() { FILES } else { NO_FILES };
    answer + directive + "\n"
}

fn first_line(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

fn options(command: &Command) -> Vec<(String, String)> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), first_line(arg.get_help())))).collect()
}

/// Returns the possible values of the option of this name, each after `prefix`; empty if it accepts any value.
fn values(command: &Command, name: &str, prefix: &str) -> Vec<(String, String)> {
    let is_named = |arg: &&Arg| match (name.strip_prefix("--"), name.strip_prefix('-')) {
        (Some(long), _) => arg.get_long() == Some(long),
        (None, Some(short)) => short.chars().eq(arg.get_short()),
        (None, None) => false,
    };
    let taking = command.get_arguments().find(is_named).filter(|arg| arg.get_action().takes_values());
    let values = taking.map(Arg::get_possible_values).unwrap_or_default();
    values.iter().map(|value| (format!("{prefix}{}", value.get_name()), first_line(value.get_help()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn words(line: &[&str]) -> Vec<String> {
        let answer = completions(&argv(&[&["/usr/local/bin/kubectl_complete-kaudit"], line].concat())).unwrap();
        answer.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        assert_eq!(words(&["ch"]), ["check", NO_FILES]);
        assert_eq!(words(&["check", "--fail"]), ["--fail-on", NO_FILES]);
        assert_eq!(
            words(&["check", "--fail-on", ""]),
            ["critical", "high", "medium", "low", "info", "fail", "warn", "none", NO_FILES]
        );
        assert_eq!(words(&["check", "--fail-on=w"]), ["--fail-on=warn", NO_FILES]);
        assert_eq!(words(&["policies", "-o", "j"]), ["json", NO_FILES]);
        assert!(words(&[""]).contains(&"init".to_owned()));
        for files in [&["check", "-f", ""][..], &["check", "-f", "mani"], &["check", "--once", ""], &["init", "x"]] {
            assert_eq!(words(files), [FILES], "{files:?}");
        }
        assert_eq!(words(&["check", "--update-f"]), [FILES], "hidden options are not completed");
    }

    #[test]
    fn the_name_of_the_program_selects_completion_and_plugin() {
        for program in ["kaudit", "/usr/bin/kubectl-kaudit", "kubectl_complete-other"] {
            assert_eq!(completions(&argv(&[program, "ch"])), None);
        }
        assert_eq!(completions(&[]), None);
        let usage = |program: &str| named(super::super::command(), &argv(&[program])).get_bin_name().map(str::to_owned);
        assert_eq!(usage("/home/u/.krew/bin/kubectl-kaudit").as_deref(), Some("kubectl kaudit"));
        assert_eq!(usage("kubectl-kaudit.exe").as_deref(), Some("kubectl kaudit"));
        assert_eq!(usage("/usr/bin/kaudit"), None);
    }
}
