//! Merges the command line, the environment and `kaudit.yaml` into a valid [`Subcommand`].
//!
//! Each option is defined once, in [`crate::cli`]. The settings of the file that are neither on the command line nor in
//! the environment become arguments, and all arguments are parsed again. So a value has the same meaning and the same
//! validation wherever it is set.

mod file;
mod origins;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgGroup, ArgMatches, Args as _, FromArgMatches as _, Id, error::ErrorKind};

pub use self::file::{is_reserved, option_of, reads_file};
use self::{
    file::ConfigFile,
    origins::{ValueOrigin, ValueOrigins, file_error},
};
use crate::{
    cli::{
        self, Cli, Subcommand,
        check::{CheckArgs, CheckMode, Initial, ServingArgs, TimingArgs, WritingArgs},
        cluster::{ClusterArgs, ContextsArgs, PageArgs, RecordTarget, RecordingArgs, UiAuth},
        diff::DiffArgs,
        explain::ExplainArgs,
        hints,
        nats::{MirrorArgs, NatsArgs},
        plugin,
        scope::{PartArgs, SourceArgs, SyncArgs},
        short_help, values,
    },
    judge::sources::PolicySource,
    output::{Format, Target, note},
};

/// Parses the arguments, which begin with the name of the program, the environment and the settings file.
///
/// # Errors
///
/// If anything is invalid, and for `--help` and `--version`; `clap::Error::print` and `exit_code` handle each.
pub fn load(argv: impl IntoIterator<Item = OsString>) -> Result<Subcommand, clap::Error> {
    let mut argv: Vec<OsString> = argv.into_iter().collect();
    let mut command = cli::command();
    if argv.iter().any(|argument| argument == "-h") {
        command = short_help::shorten(command);
    }
    let mut command = plugin::named(command, &argv);
    let matches = match command.try_get_matches_from_mut(&argv) {
        Ok(matches) => matches,
        Err(error) => return Err(hints::advise(error, &command)),
    };
    let origins = ValueOrigins::new(&matches);
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for line in hints::unknown_variables(&command, variables) {
        note(&line);
    }

    let mut from_file = Vec::new();
    if let Some((name, path, is_found)) = config_path(&command, &matches) {
        let mut file = ConfigFile::read(&path).map_err(|message| file_error(ErrorKind::Io, &message))?;
        file.is_found = is_found;
        let arguments = file
            .arguments(&command, name, &origins)
            .map_err(|message| file_error(ErrorKind::ValueValidation, &message))?;
        // After the subcommand, which is always first: the top level has no options with values.
        argv.splice(2..2, arguments.iter().map(|(_, argument)| argument.into()));
        from_file = arguments.into_iter().map(|(id, _)| id).collect();
        let matches = command.try_get_matches_from_mut(&argv).map_err(|error| file.blame(&error))?;
        return finish(&command, &matches, &origins.with_file(from_file));
    }
    finish(&command, &matches, &origins.with_file(from_file))
}

/// Converts the parsed arguments, and rejects incompatible options.
fn finish(command: &clap::Command, matches: &ArgMatches, origins: &ValueOrigins) -> Result<Subcommand, clap::Error> {
    let mut parsed = Cli::from_arg_matches(matches)?.subcommand;
    let shown = |path: &PathBuf| path.to_string_lossy().into_owned();
    let split_policies = |sources: &mut _| split_environment("policies", sources, PolicySource::to_string, origins);
    match &mut parsed {
        Subcommand::Policies(list) => split_policies(&mut list.sources),
        Subcommand::Test(test) => split_policies(&mut test.sources),
        Subcommand::Rbac(rbac) => {
            split_policies(&mut rbac.policies);
            validate_record(&rbac.recording).map_err(|message| conflict(command, "rbac", message))?;
        }
        Subcommand::Check(check) => {
            split_policies(&mut check.policies.sources);
            split_environment("filename", &mut check.source.manifests.filename, shown, origins);
            check.source.manifests.filename.append(&mut check.paths);
            split_environment("exceptions", &mut check.exceptions.given.files, shown, origins);
            validate_check(check, matches, origins).map_err(|message| conflict(command, "check", message))?;
        }
        Subcommand::Explain(explain) => {
            split_policies(&mut explain.policies.sources);
            split_environment("filename", &mut explain.manifests.filename, shown, origins);
            validate_explain(explain, matches, origins).map_err(|message| conflict(command, "explain", message))?;
        }
        Subcommand::Diff(diff) => {
            split_environment("filename", &mut diff.source.manifests.filename, shown, origins);
            split_environment("exceptions", &mut diff.exceptions.files, shown, origins);
            validate_diff(diff, matches, origins).map_err(|message| conflict(command, "diff", message))?;
        }
        Subcommand::Fleet(fleet) => {
            let is_loopback = on_loopback(fleet.listen_ui.as_deref(), "");
            is_loopback.map_err(|message| conflict(command, "fleet", message))?;
        }
        Subcommand::Init(_) | Subcommand::Push(_) | Subcommand::Version | Subcommand::Completions { .. } => {}
    }
    Ok(parsed)
}

/// Returns the error for incompatible options of a subcommand.
fn conflict(command: &clap::Command, subcommand: &str, message: String) -> clap::Error {
    let mut command = command.clone();
    command.build();
    match command.find_subcommand_mut(subcommand) {
        Some(own) => own.error(ErrorKind::ArgumentConflict, message),
        None => command.error(ErrorKind::ArgumentConflict, message),
    }
}

/// Returns the name of the subcommand, its settings file, and whether the file was [found](CONFIG) rather than given by
/// `--config`; `None` if there is no file, or if the subcommand reads none because it has no `--config`.
fn config_path<'m>(command: &clap::Command, matches: &'m ArgMatches) -> Option<(&'m str, PathBuf, bool)> {
    let (name, matches) = matches.subcommand()?;
    // In a release build, clap does not distinguish an unknown option from one that is not given.
    command.find_subcommand(name).filter(|own| reads_file(own))?;
    if let Some(path) = matches.try_get_one::<PathBuf>("config").ok()? {
        return Some((name, path.clone(), false));
    }
    let mut policies = matches.try_get_many::<PolicySource>("policies").ok().flatten().into_iter().flatten();
    let beside = match (policies.next(), policies.next()) {
        (Some(PolicySource::Path(only)), None) => only.parent().map(|folder| folder.join(CONFIG)),
        _ => None,
    };
    let found = [Some(PathBuf::from(CONFIG)), beside].into_iter().flatten().find(|path| path.is_file())?;
    note(&format!("reading settings from {}; use --config for another file", found.display()));
    Some((name, found, true))
}

/// Splits a list of paths at commas if it comes from the environment. On the command line and in the file each path is
/// a separate value and may contain commas.
fn split_environment<T: From<OsString>>(
    id: &str,
    list: &mut Vec<T>,
    shown: impl Fn(&T) -> String,
    origins: &ValueOrigins,
) {
    if origins.of(id) == ValueOrigin::Environment {
        let joined: Vec<String> = list.iter().map(shown).collect();
        let parts = joined.iter().flat_map(|paths| paths.split(',')).filter(|path| !path.is_empty());
        *list = parts.map(|path| OsString::from(path).into()).collect();
    }
}

/// Rejects incompatible options, and sets those that depend on the mode.
///
/// A setting that does not fit the mode is an error only if its origin has at least the precedence of the origin of the
/// mode. So a file or an environment for watching also works with a `check -f` on the command line.
fn validate_check(check: &mut CheckArgs, matches: &ArgMatches, origins: &ValueOrigins) -> Result<(), String> {
    let mode = check.mode();
    let outranks_mode = |id: &str| origins.of(id) >= origins.of("once");
    if mode == CheckMode::Files {
        validate_manifests(&mut check.scope.part, matches, origins, check.with_cluster)?;
        check.recording.record.clear();
        check.timing.initial = Initial::Judge;
    }
    if mode == CheckMode::Once && check.timing.initial == Initial::Skip {
        if outranks_mode("initial") {
            return Err("--initial skip makes no sense with --once: nothing would be checked".into());
        }
        check.timing.initial = Initial::Judge;
    }
    if mode == CheckMode::Once && std::mem::take(&mut check.recording.leader_elect) && outranks_mode("leader_elect") {
        return Err("--leader-elect makes no sense with --once: a single run needs no leader".into());
    }
    if mode == CheckMode::Watch
        && let Some(option) = check.exceptions.that_needs_all_results()
    {
        return Err(format!("{option} needs --once or --filename: it needs a complete result, and a watch has none"));
    }
    if mode == CheckMode::Once && !std::mem::take(&mut check.mirror.fleet).is_empty() && outranks_mode("fleet") {
        return Err(
            "--fleet makes no sense with --once: the results of a cluster are mirrored as long as kaudit runs".into()
        );
    }
    if mode == CheckMode::Once && check.serving.listen_ui.is_some() && outranks_mode("listen_ui") {
        return Err(
            "--listen-ui makes no sense with --once, which ends after one result; to write a page: -o html=FILE".into(),
        );
    }
    if mode != CheckMode::Files && std::mem::take(&mut check.with_cluster) && outranks_mode("with_cluster") {
        return Err("--with-cluster needs --filename: it adds objects of the cluster to manifests".into());
    }
    validate_completeness(&mut check.source, origins)?;
    if mode != CheckMode::Files && (check.fixing.fix || check.fixing.diff) {
        let option = if check.fixing.fix { "--fix" } else { "--diff" };
        return Err(format!("{option} needs --filename: only manifests can be changed"));
    }
    if check.scope.selector.is_some() {
        validate_selector(check, mode)?;
    }
    validate_page(check)?;
    validate_record(&check.recording)?;
    validate_output(check, mode)?;
    standard_input_once(&[&check.source.manifests.filename[..], &check.exceptions.given.files].concat())
}

/// Rejects `--files-are-complete` without files; see [`validate_check`].
fn validate_completeness(source: &mut SourceArgs, origins: &ValueOrigins) -> Result<(), String> {
    let is_given = source.manifests.filename.is_empty() && std::mem::take(&mut source.files_are_complete);
    if is_given && origins.of("files_are_complete") >= origins.of("once") {
        return Err("--files-are-complete needs --filename: in a cluster, all objects are known".into());
    }
    Ok(())
}

/// Rejects `--selector` where it would report the violations of all other objects as resolved.
fn validate_selector(check: &CheckArgs, mode: CheckMode) -> Result<(), String> {
    if mode == CheckMode::Watch {
        return Err("--selector needs --once or --filename: a watch tracks all objects".into());
    }
    let is_recorded = [RecordTarget::Events, RecordTarget::Reports, RecordTarget::Status];
    if mode == CheckMode::Once && is_recorded.into_iter().any(|target| check.records(target, false)) {
        return Err("--selector makes no sense with --record: the violations of all other objects would be reported as resolved".into());
    }
    Ok(())
}

/// Rejects a page without authentication on an address other than loopback, since it shows names and messages.
fn validate_page(check: &CheckArgs) -> Result<(), String> {
    match check.page.ui_auth {
        UiAuth::None => on_loopback(check.serving.listen_ui.as_deref(), ", or require a token: --ui-auth token"),
        UiAuth::Token => Ok(()),
    }
}

/// Rejects an address of a page that is not on loopback; `or` names another way.
fn on_loopback(address: Option<&str>, or: &str) -> Result<(), String> {
    match address.filter(|address| !values::is_on_loopback(address)) {
        Some(address) => Err(format!(
            "--listen-ui {address} would show the page to everyone who can connect\nListen on loopback (127.0.0.1:PORT, \
             [::1]:PORT or localhost:PORT){or}"
        )),
        None => Ok(()),
    }
}

/// Rejects incompatible options of `kaudit diff`; see [`validate_check`].
fn validate_diff(diff: &mut DiffArgs, matches: &ArgMatches, origins: &ValueOrigins) -> Result<(), String> {
    if !diff.source.manifests.filename.is_empty() {
        validate_manifests(&mut diff.scope.part, matches, origins, false)?;
    }
    validate_completeness(&mut diff.source, origins)?;
    default_to_text(&mut diff.output)?;
    if diff.exceptions.files.iter().any(|file| file.as_os_str() == "-") {
        return Err("--exceptions - cannot be read for both sides of a comparison: name a file".into());
    }
    standard_input_once(&diff.source.manifests.filename)
}

/// Rejects incompatible options of `kaudit explain`; see [`validate_check`].
fn validate_explain(explain: &ExplainArgs, matches: &ArgMatches, origins: &ValueOrigins) -> Result<(), String> {
    if !explain.manifests.filename.is_empty() {
        without_cluster(matches, origins, false)?;
    }
    standard_input_once(&explain.manifests.filename)
}

/// Rejects options that need a cluster, and resets the shard and the filter of kinds.
fn validate_manifests(
    part: &mut PartArgs,
    matches: &ArgMatches,
    origins: &ValueOrigins,
    with_cluster: bool,
) -> Result<(), String> {
    without_cluster(matches, origins, with_cluster)?;
    *part = PartArgs::WHOLE;
    Ok(())
}

/// Rejects options that need a cluster; `with_cluster` allows those about how objects are read from it.
fn without_cluster(matches: &ArgMatches, origins: &ValueOrigins, with_cluster: bool) -> Result<(), String> {
    match cluster_option(matches, origins, with_cluster) {
        Some(long) => Err(format!("--{long} makes no sense with --filename: manifests are checked without a cluster")),
        None => Ok(()),
    }
}

fn standard_input_once(filename: &[PathBuf]) -> Result<(), String> {
    if filename.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err("- is given twice: standard input can be read only once".into());
    }
    Ok(())
}

/// Returns an option that needs a cluster and whose origin has at least the precedence of `--filename`'s. Which options
/// need a cluster follows from their group.
fn cluster_option(matches: &ArgMatches, origins: &ValueOrigins, with_cluster: bool) -> Option<String> {
    let reading = [ClusterArgs::group_id(), SyncArgs::group_id()];
    let others = [
        ContextsArgs::group_id(),
        PartArgs::group_id(),
        RecordingArgs::group_id(),
        WritingArgs::group_id(),
        TimingArgs::group_id(),
        ServingArgs::group_id(),
        PageArgs::group_id(),
        MirrorArgs::group_id(),
        NatsArgs::group_id(),
    ];
    let groups = others.iter().chain(reading.iter().filter(|_| !with_cluster));
    let groups: Vec<_> = groups.flatten().collect();
    let (name, matches) = matches.subcommand()?;
    let command = cli::command();
    let check = command.find_subcommand(name)?;
    let options = check.get_groups().filter(|group| groups.contains(&group.get_id()));
    let given = |id: &&Id| {
        let (id, origin) = (id.as_str(), origins.of(id.as_str()));
        origin != ValueOrigin::Default && origin >= origins.of("filename") && !is_off(id, matches)
    };
    let id = options.flat_map(ArgGroup::get_args).find(given)?;
    check.get_arguments().find(|arg| arg.get_id() == id)?.get_long().map(str::to_owned)
}

/// Whether an option is off: a flag that is false, or `--record none`.
fn is_off(id: &str, matches: &ArgMatches) -> bool {
    let flag = matches.try_get_one::<bool>(id).ok().flatten();
    let record = matches.try_get_many::<RecordTarget>(id).ok().flatten();
    flag == Some(&false) || record.is_some_and(|mut record| record.all(|target| *target == RecordTarget::None))
}

fn validate_record(RecordingArgs { record, .. }: &RecordingArgs) -> Result<(), String> {
    if record.contains(&RecordTarget::None) && record.iter().any(|what| *what != RecordTarget::None) {
        return Err("--record none can't be combined with other values".into());
    }
    Ok(())
}

fn validate_output(check: &mut CheckArgs, mode: CheckMode) -> Result<(), String> {
    let baseline_on_stdout = check.exceptions.write_baseline.as_deref().is_some_and(|path| path.as_os_str() == "-");
    if baseline_on_stdout && let Some(target) = check.output.iter().find(|target| target.file.is_none()) {
        let name = target.format.name();
        return Err(format!("--write-baseline - and --output {name} both go to standard output; write one to a file"));
    }
    if !baseline_on_stdout || !check.output.is_empty() {
        default_to_text(&mut check.output)?;
    }
    reject_overwriting(check)?;
    for target in &check.output {
        if mode == CheckMode::Watch && !target.format.streams() {
            let name = target.format.name();
            return Err(format!(
                "--output {name} is one document, so it needs --once or --filename; ndjson has a line for each change"
            ));
        }
    }
    Ok(())
}

/// Rejects an output that would overwrite a checked file.
fn reject_overwriting(check: &CheckArgs) -> Result<(), String> {
    let given = &check.exceptions;
    let written = given.write_baseline.iter().chain(&given.write_exceptions);
    let outputs = check.output.iter().filter_map(|target| target.file.as_ref()).chain(written);
    let same = |one: &Path, other: &Path| {
        one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(one, other)| one == other)
    };
    for output in outputs {
        if check.source.manifests.filename.iter().any(|input| same(input, output)) {
            return Err(format!("{} is an input: write the result to another file", output.display()));
        }
    }
    Ok(())
}

/// Adds text on standard output if there is no output, and rejects two formats for one destination.
fn default_to_text(output: &mut Vec<Target>) -> Result<(), String> {
    if output.is_empty() {
        output.push(Target { format: Format::Text, file: None });
    }
    for (position, target) in output.iter().enumerate() {
        if let Some(other) = output[..position].iter().find(|other| other.file == target.file) {
            let place = target.file.as_ref().map_or("standard output".into(), |file| file.display().to_string());
            let (first, second) = (other.format.name(), target.format.name());
            return Err(format!("--output {first} and {second} both go to {place}; write one to another file"));
        }
    }
    Ok(())
}

/// The settings file that is read without `--config`: in the working directory, or beside the only path of policies.
const CONFIG: &str = "kaudit.yaml";

#[cfg(test)]
mod tests;
