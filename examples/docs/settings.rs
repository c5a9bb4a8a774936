//! The reference of the settings file: every option that it may set.

use clap::{Arg, ArgAction, Command};
use kaudit::cli::{self, config};

use super::{
    commands::{default, headings, meaning, value_name},
    markdown::{Page, code, codes, escape, table},
};

/// The settings that `kaudit init` writes.
const EXAMPLE: &str = include_str!("../../src/commands/init/kaudit.yaml");

/// A key of the settings file: an option, and the commands that have it.
struct SettingRow<'c> {
    key: &'c str,
    arg: &'c Arg,
    commands: Vec<&'c str>,
    is_reserved: bool,
}

/// Returns the key by which the settings file sets an option; `None` also for commands that read no such file.
pub(crate) fn key<'a>(command: &Command, arg: &'a Arg) -> Option<&'a str> {
    arg.get_long().filter(|long| config::reads_file(command) && config::option_of(command, long).is_some())
}

/// Returns the reference of all keys.
pub(crate) fn reference() -> String {
    let root = cli::command();
    let rows = rows(&root);
    let mut page = Page::new("Settings file");
    page.add(
        "`kaudit.yaml`, in YAML, is read from the working directory or from beside the only path of policies; \
         `--config FILE` names another file. Each key is the name of an option without its dashes. A command ignores the \
         keys of others; an unknown key is an error.",
    );
    page.add(
        "A file that kaudit finds by itself may come from a change under review. Keys marked *with --config* are therefore \
         accepted only in a file that `--config` or `KAUDIT_CONFIG` names, and so is an `output` with a file.",
    );
    page.code("yaml", EXAMPLE);
    for heading in headings(rows.iter().map(|row| row.arg)) {
        page.add(&format!("## {}", heading.unwrap_or("Others")));
        let own = rows.iter().filter(|row| row.arg.get_help_heading() == heading);
        let cells = own.map(|SettingRow { key, arg, commands, is_reserved }| {
            let reserved = if *is_reserved { ", *with --config*" } else { "" };
            let commands = codes(commands.iter().copied());
            [format!("{}{reserved}", code(key)), value(arg), default(arg), commands, meaning(arg)]
        });
        page.add(&table(["key", "value", "default", "commands", "meaning"], cells));
    }
    page.finish()
}

/// Returns the keys of the commands that read the file. The first command that has a key describes it.
fn rows(root: &Command) -> Vec<SettingRow<'_>> {
    let mut rows: Vec<SettingRow<'_>> = Vec::new();
    for command in root.get_subcommands() {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let Some(key) = key(command, arg) else { continue };
            if let Some(row) = rows.iter_mut().find(|row| row.key == key) {
                row.commands.push(command.get_name());
            } else {
                let is_reserved = config::is_reserved(Some(command), arg);
                rows.push(SettingRow { key, arg, commands: vec![command.get_name()], is_reserved });
            }
        }
    }
    rows
}

/// Returns the kind of value that a key takes.
fn value(arg: &Arg) -> String {
    match arg.get_action() {
        ArgAction::SetTrue => "true or false".to_owned(),
        ArgAction::Append => format!("list of {}", escape(&value_name(arg))),
        _ => escape(&value_name(arg)),
    }
}
