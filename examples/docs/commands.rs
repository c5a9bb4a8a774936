//! The reference of commands and exit codes, from clap's tree of commands.

use anyhow::{Result, ensure};
use clap::{Arg, ArgAction, Command};
use kaudit::cli;

use super::{
    markdown::{Page, capitalised, code, codes, escape, table},
    settings,
};

/// The heading of the exit codes in a command's help.
const EXIT_CODES: &str = "EXIT CODES";

/// Returns the reference of all commands with their options.
pub(crate) fn reference() -> String {
    let root = cli::command();
    let mut page = Page::new("Command line");
    page.add(
        "`kaudit COMMAND --help` shows the same. An option is set on the command line, by its environment variable, or, \
         where a key is named, in the [settings file](configuration.md). The command line takes precedence over the \
         environment, and the environment over the file.",
    );
    page.add(&table(["command", ""], root.get_subcommands().map(|command| [link(command), about(command)])));
    for command in root.get_subcommands() {
        add(&mut page, command);
    }
    page.finish()
}

fn link(command: &Command) -> String {
    let name = command.get_name();
    format!("[`kaudit {name}`](#kaudit-{name})")
}

fn about(command: &Command) -> String {
    command.get_about().map(|about| escape(&about.to_string())).unwrap_or_default()
}

fn add(page: &mut Page, command: &Command) {
    page.add(&format!("## kaudit {}", command.get_name()));
    page.add(&format!("{}.", about(command)));
    page.code("text", &usage(command));
    let arguments: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    for heading in headings(arguments.iter().copied()) {
        let own = arguments.iter().filter(|arg| arg.get_help_heading() == heading);
        if let Some(heading) = heading {
            page.add(&format!("### {heading}"));
        }
        let rows = own.map(|arg| {
            let origins = [arg.get_env().and_then(|name| name.to_str()), settings::key(command, arg)];
            [names(arg), default(arg), codes(origins.into_iter().flatten()), meaning(arg)]
        });
        page.add(&table(["option", "default", "variable, key", "meaning"], rows));
    }
    for (title, text) in sections(command) {
        if title != EXIT_CODES {
            page.add(&format!("### {}", capitalised(&title.to_lowercase())));
            page.code("text", &text);
        }
    }
}

/// Returns the headings of options, in the order of their first options.
pub(crate) fn headings<'a>(arguments: impl Iterator<Item = &'a Arg>) -> Vec<Option<&'a str>> {
    arguments.map(Arg::get_help_heading).fold(Vec::new(), |mut headings, heading| {
        headings.extend((!headings.contains(&heading)).then_some(heading));
        headings
    })
}

/// Returns the usage line: the command's name, `[OPTIONS]` and the positional arguments.
fn usage(command: &Command) -> String {
    let mut usage = command.clone().bin_name(format!("kaudit {}", command.get_name())).render_usage().to_string();
    if let Some(rest) = usage.strip_prefix("Usage: ") {
        usage = rest.to_owned();
    }
    usage
}

/// Returns an option's names and value as code.
pub(crate) fn names(arg: &Arg) -> String {
    let value = if takes_value(arg) { value_name(arg) } else { String::new() };
    let short = arg.get_short().map(|short| code(&format!("-{short}")));
    let long = match arg.get_long() {
        Some(long) if value.is_empty() => code(&format!("--{long}")),
        Some(long) => code(&format!("--{long} {value}")),
        None => code(&value),
    };
    short.into_iter().chain([long]).collect::<Vec<_>>().join(", ")
}

/// Returns the placeholder of an option's value.
pub(crate) fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    if names.is_empty() { arg.get_id().to_string().to_uppercase() } else { names.join(" ") }
}

/// Whether an option is more than a switch.
pub(crate) fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Returns an option's default as code.
pub(crate) fn default(arg: &Arg) -> String {
    if !takes_value(arg) || arg.is_hide_default_value_set() {
        return String::new();
    }
    codes(arg.get_default_values().iter().filter_map(|value| value.to_str()))
}

/// Returns an option's help with its possible values.
pub(crate) fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let paragraphs = help.split("\n\n").map(|text| escape(text.trim().trim_end_matches('.')));
    let mut sentences: Vec<String> = paragraphs.filter(|text| !text.is_empty()).collect();
    let values = arg.get_possible_values();
    if takes_value(arg) && !values.is_empty() {
        let shown = values.iter().filter(|value| !value.is_hide_set()).map(|value| {
            let help = value.get_help().map(|help| format!(" ({})", escape(&help.to_string()))).unwrap_or_default();
            format!("{}{help}", code(value.get_name()))
        });
        sentences.push(format!("Values: {}", shown.collect::<Vec<_>>().join(", ")));
    }
    sentences.join(". ")
}

/// Returns the exit codes of all commands.
pub(crate) fn exit_codes() -> Result<String> {
    let mut page = Page::new("Exit codes");
    page.add(
        "`kaudit check` and `kaudit diff` end with 1 rather than 3 if both apply. Every command ends with 2 if it is used \
         incorrectly.",
    );
    let root = cli::command();
    for command in root.get_subcommands() {
        let Some((_, text)) = sections(command).into_iter().find(|(title, _)| title == EXIT_CODES) else { continue };
        let rows = entries(&text);
        ensure!(rows.len() > 1, "kaudit {} has no exit codes in its help", command.get_name());
        page.add(&format!("## {}", link(command).replace("](", "](command-line.md")));
        page.add(&table(["code", "meaning"], rows.into_iter().map(|(number, text)| [code(&number), escape(&text)])));
    }
    Ok(page.finish())
}

/// Returns the sections of the text after a command's options: headings in capitals, and the indented lines below.
fn sections(command: &Command) -> Vec<(String, String)> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in after.lines() {
        match line.strip_suffix(':') {
            Some(title) if !line.starts_with(' ') => sections.push((title.to_owned(), String::new())),
            _ => {
                if sections.is_empty() {
                    sections.push(("NOTES".to_owned(), String::new()));
                }
                if let Some((_, text)) = sections.last_mut() {
                    text.push_str(line.strip_prefix("  ").unwrap_or(line));
                    text.push('\n');
                }
            }
        }
    }
    sections
}

/// Splits lines such as `1  Violations` into the number and the text, with the lines that continue it.
fn entries(text: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.split_once("  "), entries.last_mut()) {
            (Some((number, text)), _) if number.parse::<u8>().is_ok() => {
                entries.push((number.to_owned(), text.trim().to_owned()));
            }
            (_, Some((_, text))) => {
                text.push(' ');
                text.push_str(line.trim());
            }
            _ => {}
        }
    }
    entries
}
