//! Reads `kaudit.yaml`: its settings, with their lines for messages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, ArgGroup, Args as _,
    error::{ContextKind, ContextValue},
};

use super::origins::{ValueOrigin, ValueOrigins, file_error};
use crate::{
    cli::{
        bundles::{BundleArgs, RegistryArgs},
        check::{ServingArgs, WritingArgs},
        cluster::{ClusterArgs, ContextsArgs, PageArgs, RecordingArgs},
        nats::{MirrorArgs, NatsArgs},
    },
    model::spelling::nearest,
    rego::analysis::yaml::{self, YamlContent, YamlDialect, YamlField, YamlNode},
};

/// Further settings that only a file given by `--config` may have. Any other file may come with the files that are
/// checked, for example from a pull request.
const RESERVED: [&str; 4] = ["write_exceptions", "write_baseline", "prune_baseline", "with_cluster"];

/// The settings of a file, with their lines for messages.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// Whether it was found rather than given by `--config`.
    pub(super) is_found: bool,
    settings: Vec<YamlField>,
}

impl ConfigFile {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
        Self::parse(path, &text)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let root = yaml::single(text, YamlDialect::Settings).and_then(|root| match root.content {
            YamlContent::Map(settings) => Ok(settings),
            YamlContent::Null => Ok(Vec::new()),
            _ => Err(root.error("expected a mapping of settings, such as fail-on: warn")),
        });
        let settings = root.map_err(|error| format!("{}:{}: {}", path.display(), error.at.line, error.why))?;
        Ok(Self { path: path.to_owned(), is_found: false, settings })
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
            let reserved = is_reserved(command.find_subcommand(subcommand), arg) || writes_file(arg, &setting.value);
            if self.is_found && reserved {
                let why = "can only be set in a file given with --config";
                return Err(self.at(setting, why));
            }
            let values = values(arg, &setting.value).map_err(|message| self.at(setting, &message))?;
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

    fn unknown(&self, setting: &YamlField, command: &clap::Command) -> String {
        if !settable(&setting.key) {
            return self.at(setting, "can't be set in a file");
        }
        let known: Vec<&str> = command
            .get_subcommands()
            .flat_map(|sub| sub.get_arguments().filter_map(Arg::get_long))
            .filter(|long| settable(long))
            .collect();
        let hint = nearest(&setting.key, known).map_or(String::new(), |near| format!("; did you mean {near}?"));
        self.at(setting, &format!("unknown setting{hint}"))
    }

    fn at(&self, setting: &YamlField, message: &str) -> String {
        format!("{}:{}: {}: {message}", self.path.display(), setting.value.at.line, setting.key)
    }

    /// Returns an error about an argument from this file with the file and the line of the setting.
    pub(super) fn blame(&self, error: &clap::Error) -> clap::Error {
        let long = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(arg)) => arg.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default(),
            _ => "",
        };
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = text.split("\n\nFor more information").next().unwrap_or(text);
        let message = match self.settings.iter().find(|setting| setting.key == long) {
            Some(setting) => self.at(setting, text),
            None => format!("{}: {}: {text}", self.path.display(), if long.is_empty() { "settings" } else { long }),
        };
        file_error(error.kind(), &message)
    }
}

/// Whether an option selects clusters, opens ports, trusts keys or writes files, whatever its value: only a file given by
/// `--config` may have it.
pub fn is_reserved(command: Option<&clap::Command>, arg: &Arg) -> bool {
    let groups = [
        ClusterArgs::group_id(),
        ContextsArgs::group_id(),
        RecordingArgs::group_id(),
        WritingArgs::group_id(),
        ServingArgs::group_id(),
        PageArgs::group_id(),
        MirrorArgs::group_id(),
        NatsArgs::group_id(),
        BundleArgs::group_id(),
        RegistryArgs::group_id(),
    ];
    let own = command.into_iter().flat_map(clap::Command::get_groups);
    let is_of_group = |group: &&ArgGroup| {
        groups.contains(&Some(group.get_id().clone())) && group.get_args().any(|id| id == arg.get_id())
    };
    own.filter(is_of_group).count() > 0 || RESERVED.contains(&arg.get_id().as_str())
}

/// Whether a setting is an output to a file.
fn writes_file(arg: &Arg, value: &YamlNode) -> bool {
    arg.get_id() == "output" && value.json().to_string().contains('=')
}

/// Whether an option can be set in a file.
fn settable(long: &str) -> bool {
    !matches!(long, "config" | "diff" | "fix" | "help" | "version")
}

/// Whether a subcommand reads a settings file: it has `--config`.
pub fn reads_file(command: &clap::Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == "config")
}

/// Returns the option of a subcommand that a key sets; `None` if there is none, or it cannot be set in a file.
pub fn option_of<'a>(command: &'a clap::Command, key: &str) -> Option<&'a Arg> {
    // `output` in a file is that of `check`: other commands have other formats, and take theirs as an argument.
    let own = key != "output" || command.get_name() == "check";
    command.get_arguments().find(|arg| arg.get_long() == Some(key)).filter(|_| settable(key) && own)
}

/// Returns the values that an option takes from a setting; `None` is a flag that is on.
fn values(arg: &Arg, value: &YamlNode) -> Result<Vec<Option<String>>, String> {
    match (arg.get_action(), &value.content) {
        (ArgAction::SetTrue, YamlContent::Bool(true)) => Ok(vec![None]),
        (ArgAction::SetTrue, YamlContent::Bool(false)) => Ok(vec![]),
        (ArgAction::SetTrue, _) => Err(format!("expected true or false, found {}", value.found())),
        (ArgAction::Append, YamlContent::List(items)) => items.iter().map(|item| scalar(item).map(Some)).collect(),
        // The option parses the mapping from text.
        (_, YamlContent::Map(_)) if arg.get_id() == "rules" => Ok(vec![Some(value.json().to_string())]),
        (ArgAction::Append, _) => scalar(value).map(|one| vec![Some(one)]),
        (_, YamlContent::List(_)) => Err("expected one value, found a list".into()),
        _ => scalar(value).map(|one| vec![Some(one)]),
    }
}

fn scalar(value: &YamlNode) -> Result<String, String> {
    match &value.content {
        YamlContent::Text(text) => Ok(text.clone()),
        YamlContent::Number(number) => Ok(value.written.as_deref().map_or_else(|| number.to_string(), str::to_owned)),
        _ => Err(format!("expected a string or a number, found {}", value.found())),
    }
}
