//! Reads `kaudit.yaml`: its settings, with their lines for messages.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, ArgGroup, Args as _,
    error::{ContextKind, ContextValue},
};
use serde_json::Value;

use super::origins::{ValueOrigin, ValueOrigins, file_error};
use crate::{
    cli::{
        bundles::{BundleArgs, RegistryArgs},
        check::{ServingArgs, WritingArgs},
        cluster::{ClusterArgs, ContextsArgs, RecordingArgs, UiAuthArgs},
    },
    model::spelling::nearest,
    rego::analysis::yaml,
};

/// Further settings that only a file given by `--config` may have. Any other file may come with the files that are
/// checked, for example from a pull request.
const RESERVED: [&str; 3] = ["write_exceptions", "write_baseline", "prune_baseline"];

/// The settings of a file, with their lines for messages.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// Whether it was found rather than given by `--config`.
    pub(super) is_found: bool,
    settings: Vec<Setting>,
}

/// One key of the file.
struct Setting {
    key: String,
    line: u64,
    value: Value,
}

impl ConfigFile {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let mapping: Option<SettingsMapping> = serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map_or(String::new(), |place| format!(":{}", place.line()));
            format!("{}{line}: {}", path.display(), plain_message(&error))
        })?;
        Ok(Self { path: path.to_owned(), is_found: false, settings: mapping.map_or(Vec::new(), |mapping| mapping.0) })
    }

    /// Returns the id and `--key=value` of every option of this subcommand that is neither on the command line nor in the
    /// environment. Keys of other subcommands are valid and skipped.
    pub(super) fn arguments(
        &self,
        command: &clap::Command,
        subcommand: &str,
        origins: &ValueOrigins,
    ) -> Result<Vec<(String, String)>, String> {
        let mut arguments = Vec::new();
        for setting in &self.settings {
            let own = command.find_subcommand(subcommand).and_then(|own| option_of(own, &setting.key));
            if own.is_none() && !command.get_subcommands().any(|other| option_of(other, &setting.key).is_some()) {
                return Err(self.unknown(setting, command));
            }
            let Some(arg) = own else { continue };
            if self.is_found && is_reserved(command.find_subcommand(subcommand), arg, &setting.value) {
                let why = "can only be set in a file given with --config";
                return Err(self.at(setting.line, &setting.key, why));
            }
            let values =
                values(arg, &setting.value).map_err(|message| self.at(setting.line, &setting.key, &message))?;
            let id = arg.get_id().to_string();
            if origins.of(&id) == ValueOrigin::Default {
                arguments.extend(values.into_iter().map(|value| match value {
                    Some(value) => (id.clone(), format!("--{}={value}", setting.key)),
                    None => (id.clone(), format!("--{}", setting.key)),
                }));
            }
        }
        Ok(arguments)
    }

    fn unknown(&self, setting: &Setting, command: &clap::Command) -> String {
        if !settable(&setting.key) {
            return self.at(setting.line, &setting.key, "can't be set in a file");
        }
        let known: Vec<&str> = command
            .get_subcommands()
            .flat_map(|sub| sub.get_arguments().filter_map(Arg::get_long))
            .filter(|long| settable(long))
            .collect();
        let hint = nearest(&setting.key, known).map_or(String::new(), |near| format!("; did you mean {near}?"));
        self.at(setting.line, &setting.key, &format!("unknown setting{hint}"))
    }

    fn at(&self, line: u64, key: &str, message: &str) -> String {
        // The parser returns line 0 if it is unknown.
        let line = if line == 0 { String::new() } else { format!(":{line}") };
        format!("{}{line}: {key}: {message}", self.path.display())
    }

    /// Returns an error about an argument from this file with the file and the line of the setting.
    pub(super) fn blame(&self, error: &clap::Error) -> clap::Error {
        let long = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(arg)) => arg.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default(),
            _ => "",
        };
        let line = self.settings.iter().find(|setting| setting.key == long).map_or(0, |setting| setting.line);
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = text.split("\n\nFor more information").next().unwrap_or(text);
        file_error(error.kind(), &self.at(line, if long.is_empty() { "settings" } else { long }, text))
    }
}

/// Returns the parser's message without its location, which the caller adds, and without advice for programmers.
fn plain_message(error: &serde_saphyr::Error) -> String {
    let line = yaml::reason(error);
    let line = line.split(", set DuplicateKeyPolicy").next().unwrap_or(&line);
    line.replace("expected mapping start", "expected a mapping of settings, such as fail-on: warn")
}

/// Whether a setting selects clusters, opens ports, trusts keys or writes files: only a file given by `--config` may have
/// it.
pub fn is_reserved(command: Option<&clap::Command>, arg: &Arg, value: &Value) -> bool {
    let groups = [
        ClusterArgs::group_id(),
        ContextsArgs::group_id(),
        RecordingArgs::group_id(),
        WritingArgs::group_id(),
        ServingArgs::group_id(),
        UiAuthArgs::group_id(),
        BundleArgs::group_id(),
        RegistryArgs::group_id(),
    ];
    let own = command.into_iter().flat_map(clap::Command::get_groups);
    let is_of_group = |group: &&ArgGroup| {
        groups.contains(&Some(group.get_id().clone())) && group.get_args().any(|id| id == arg.get_id())
    };
    own.filter(is_of_group).count() > 0
        || RESERVED.contains(&arg.get_id().as_str())
        || arg.get_id() == "output" && value.to_string().contains('=')
}

/// Whether an option can be set in a file.
fn settable(long: &str) -> bool {
    !matches!(long, "config" | "diff" | "fix" | "help" | "version")
}

/// Returns the option of a subcommand that a key sets; `None` if there is none, or it cannot be set in a file.
pub fn option_of<'a>(command: &'a clap::Command, key: &str) -> Option<&'a Arg> {
    // `output` in a file is that of `check`: other commands have other formats, and take theirs as an argument.
    let own = key != "output" || command.get_name() == "check";
    command.get_arguments().find(|arg| arg.get_long() == Some(key)).filter(|_| settable(key) && own)
}

/// Returns the values that an option takes from a setting; `None` is a flag that is on.
fn values(arg: &Arg, value: &Value) -> Result<Vec<Option<String>>, String> {
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Bool(true)) => Ok(vec![None]),
        (ArgAction::SetTrue, Value::Bool(false)) => Ok(vec![]),
        (ArgAction::SetTrue, other) => Err(format!("expected true or false, found {}", type_of(other))),
        (ArgAction::Append, Value::Array(items)) => items.iter().map(|item| scalar(item).map(Some)).collect(),
        (ArgAction::Append, one) => scalar(one).map(|one| vec![Some(one)]),
        // The option parses the mapping from text.
        (_, Value::Object(_)) if arg.get_id() == "rules" => Ok(vec![Some(value.to_string())]),
        (_, Value::Array(_)) => Err("expected one value, found a list".into()),
        (_, one) => scalar(one).map(|one| vec![Some(one)]),
    }
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!("expected a string or a number, found {}", type_of(other))),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// The settings of a file, in the order of the file.
struct SettingsMapping(Vec<Setting>);

impl<'de> serde::Deserialize<'de> for SettingsMapping {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = SettingsMapping;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a mapping of settings, such as fail-on: warn")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<SettingsMapping, A::Error> {
                let mut settings = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, serde_saphyr::Spanned<Value>>()? {
                    settings.push(Setting { key, line: value.referenced.line(), value: value.value });
                }
                Ok(SettingsMapping(settings))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}
