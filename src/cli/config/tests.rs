use std::{fs, time::Duration};

use clap::ValueEnum as _;

use super::*;
use crate::{
    output::{FailOn, Place},
    source::{received::Secrets, selection::KindPattern},
};

fn run(arguments: &[&str]) -> Result<Box<CheckArgs>, String> {
    let argv = ["kaudit", "check"].iter().chain(arguments).map(OsString::from);
    match load(argv) {
        Ok(Subcommand::Check(check)) => Ok(check),
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            assert_eq!(error.exit_code(), 2);
            Err(error.render().to_string())
        }
    }
}

/// Runs with a file; its path in messages becomes `kaudit.yaml`.
fn run_with(yaml: &str, arguments: &[&str]) -> Result<Box<CheckArgs>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kaudit.yaml");
    fs::write(&path, yaml).unwrap();
    let path = path.to_str().unwrap();
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--config", path]).collect();
    run(&arguments).map_err(|message| message.replace(path, "kaudit.yaml"))
}

/// Returns each case with its output below.
fn table<'a, T: AsRef<[&'a str]>>(cases: &[T], output: impl Fn(&T) -> String) -> String {
    let line = |case: &T| format!("## {}\n{}\n", case.as_ref().join(" ").trim_end(), output(case).trim_end());
    cases.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn first_line(result: Result<Box<CheckArgs>, String>) -> String {
    result.unwrap_err().lines().next().unwrap().to_owned()
}

#[test]
fn defaults_depend_on_the_mode() {
    let watch = run(&[]).unwrap();
    assert_eq!(watch.mode(), CheckMode::Watch);
    for target in [RecordTarget::Events, RecordTarget::Reports, RecordTarget::Status] {
        assert!(watch.records(target, true) && !watch.records(target, false), "{target:?}");
        assert!(run(&["--record", "events,reports,status"]).unwrap().records(target, false), "{target:?}");
    }
    assert_eq!(watch.policies.sources, []);
    assert_eq!(watch.output, [Target { format: Format::Text, file: None }]);
    assert_eq!(watch.sync.sync_timeout, Duration::from_mins(1));

    for arguments in [&["--once"][..], &["-f", "a.yaml"], &["--once", "-f", "a.yaml"]] {
        assert!(!run(arguments).unwrap().records(RecordTarget::Events, true), "{arguments:?}");
    }
    assert_eq!(run(&["--once", "-f", "-"]).unwrap().mode(), CheckMode::Files);
    let once = run(&["--once", "--record", "events"]).unwrap();
    assert!(once.records(RecordTarget::Events, false) && !once.records(RecordTarget::Status, true));
    assert!(!run(&["--record", "none"]).unwrap().records(RecordTarget::Status, true));
}

#[test]
fn a_watch_accepts_only_formats_with_a_line_for_each_change() {
    for format in Format::value_variants() {
        let (name, watch) = (format.name(), run(&["-o", format.name()]));
        if format.streams() {
            assert_eq!(watch.unwrap().output[0].format, *format);
        } else {
            let why = format!("--output {name} is one document, so it needs --once or --filename");
            assert!(first_line(watch).contains(&why), "{name}");
        }
        assert_eq!(run(&["--once", "-o", name]).unwrap().output[0].format, *format);
    }
    assert_eq!(run(&["--once", "--for", "comment"]).unwrap().place, Place::Comment);
}

#[test]
fn kinds_that_cannot_be_read_are_named_once() {
    for (arguments, ends_with_text) in [
        (&[][..], false),
        (&["--once"], true),
        (&["-f", "a.yaml"], true),
        (&["--once", "-o", "json"], false),
        (&["--once", "-o", "text=a"], false),
        (&["--once", "-o", "text", "-o", "json=a"], true),
    ] {
        assert_eq!(run(arguments).unwrap().ends_with_text(), ends_with_text, "{arguments:?}");
    }
}

#[test]
fn lists_repeat_and_split() {
    let check = run(&["-n", "a,b", "-n", "c", "--include", "deploy,*.apps", "-p", "a,b", "-f", "x,y"]).unwrap();
    assert_eq!(check.scope.namespace, ["a", "b", "c"]);
    assert_eq!(check.scope.include.iter().map(KindPattern::to_string).collect::<Vec<_>>(), ["deploy", "*.apps"]);
    assert_eq!(check.policies.sources, [PolicySource::from("a,b")]);
    assert_eq!(check.source.manifests.filename, [PathBuf::from("x,y")]);
}

#[test]
fn incompatible_options_are_rejected() {
    let cases = [
        &["-f", "a.yaml", "--context", "prod"][..],
        &["-f", "a.yaml", "--listen", ":8080"],
        &["-f", "a.yaml", "--listen-ui", "127.0.0.1:8082"],
        &["--listen-ui", ":8082"],
        &["-f", "a.yaml", "--ui-auth", "token"],
        &["-f", "a.yaml", "--initial", "judge"],
        &["-f", "a.yaml", "--sync-timeout", "1m"],
        &["-f", "a.yaml", "--rejudge-every", "1m"],
        &["-f", "a.yaml", "--record", "events"],
        &["-f", "-", "-f", "-"],
        &["--once", "--initial", "skip"],
        &["--once", "--leader-elect"],
        &["-f", "a.yaml", "--shard", "0/2"],
        &["--shard", "2/2"],
        &["--lease-duration", "1s"],
        &["--record", "none,events"],
        &["--once", "-o", "text", "-o", "json"],
        &["--once", "-o", "text=a", "-o", "json=a"],
        &["-o", "json"],
        &["-o", "json=a.json"],
    ];
    insta::assert_snapshot!(table(&cases, |arguments| first_line(run(arguments))));
    run(&["-f", "a.yaml", "--record", "none"]).unwrap();
    run(&["--once", "-o", "text", "-o", "json=a.json", "-o", "ndjson=b"]).unwrap();
}

#[test]
fn the_command_line_overrides_the_file() {
    let yaml = "fail-on: warn\nonce: true\nnamespace: [a, b]\nevents-per-second: 7\nsecrets: full\n";
    let check = run_with(yaml, &["--secrets", "redact", "-n", "c"]).unwrap();
    assert_eq!(check.fail_on, FailOn::Warn);
    assert!(check.source.once);
    assert_eq!(check.scope.namespace, ["c"]);
    assert_eq!(check.writing.events_per_second, 7);
    assert_eq!(check.source.manifests.secrets, Secrets::Redact);
}

#[test]
fn a_file_accepts_scalars_lists_and_flags() {
    let check = run_with("policies:\n  - a,b\n  - c\ninclude: deploy,sts\nonce: false\nas: 7\n", &[]).unwrap();
    assert_eq!(check.policies.sources, [PolicySource::from("a,b"), PolicySource::from("c")]);
    assert_eq!(check.scope.include.len(), 2);
    assert!(!check.source.once);
    assert_eq!(check.cluster.user.as_deref(), Some("7"));
    for empty in ["", "# nothing\n", "{}\n", "namespace: []\n"] {
        run_with(empty, &[]).unwrap();
    }
}

#[test]
fn a_file_for_watching_also_works_with_manifests() {
    let yaml = "record: [events]\nlisten: :8080\ncontext: prod\ninitial: skip\nsync-timeout: 2m\n";
    let check = run_with(yaml, &["-f", "a.yaml"]).unwrap();
    assert!(!check.records(RecordTarget::Events, true));
    assert_eq!(check.timing.initial, Initial::Judge);
    assert_eq!(run_with(yaml, &["--once"]).unwrap().timing.initial, Initial::Judge);
    let message = first_line(run_with(&format!("{yaml}filename: a.yaml\n"), &[]));
    assert!(message.contains("makes no sense with --filename"), "{message}");
}

#[test]
fn errors_in_a_file_say_where() {
    let cases = [
        "once: true\nfailOn: warn\n",
        "inclde: [pods]\n",
        "frobnicate: 1\n",
        "config: other.yaml\n",
        "fail-on: maybe\n",
        "once: yes please\n",
        "fail-on: [fail, warn]\n",
        "namespace:\n",
        "namespace: [a, {b: c}]\n",
        "color: true\n",
        "once: true\n\nsync-timeout: 60\n",
        "output: [jsn]\n",
        "- once\n",
        "once: true\nonce: false\n",
        "once: [\n",
    ];
    let cases = cases.map(|yaml| [yaml]);
    insta::assert_snapshot!(table(&cases, |[yaml]| run_with(yaml, &[]).unwrap_err()));
    let message = first_line(run(&["--config", "nowhere/kaudit.yaml"]));
    assert!(message.starts_with("error: reading nowhere/kaudit.yaml: "), "{message}");
}

#[test]
fn a_command_without_the_option_reads_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let beside = folder.path().join("kaudit.yaml");
    fs::write(&beside, "").unwrap();
    let command = cli::command();
    let policies = folder.path().join("policies");
    let argv = ["kaudit", "check", "-p", policies.to_str().unwrap()];
    let matches = command.clone().try_get_matches_from(argv).unwrap();
    assert_eq!(config_path(&command, &matches), Some(("check", beside, true)));
    // These matches have the option, as those of every command seem to in a release build.
    let without = command.mut_subcommand("check", |check| check.mut_arg("config", |config| config.id("other")));
    assert_eq!(config_path(&without, &matches), None);

    let command = cli::command();
    let names: Vec<&str> =
        command.get_subcommands().filter(|own| reads_file(own)).map(clap::Command::get_name).collect();
    assert_eq!(names, ["check", "diff", "explain", "rbac"]);
}

#[test]
fn every_option_has_an_environment_variable_and_a_heading() {
    let command = cli::command();
    let options = |command: &clap::Command| {
        let (name, arguments) = (command.get_name().to_owned(), command.get_arguments().cloned());
        arguments.filter_map(move |arg| Some((name.clone(), arg.get_long()?.to_owned(), arg))).collect::<Vec<_>>()
    };
    for (subcommand, long, arg) in command.get_subcommands().flat_map(options) {
        let variable = match long.as_str() {
            "help" | "version" => continue,
            // The other commands have other formats than `check`.
            "output" if subcommand != "check" => continue,
            "log-level" => "KAUDIT_LOG".to_owned(),
            long => format!("KAUDIT_{}", long.replace('-', "_").to_uppercase()),
        };
        let env = arg.get_env().and_then(|env| env.to_str());
        // Options that these commands do not share have variables of their own, even if the name is the same.
        let alone = ["init", "test"].contains(&subcommand.as_str());
        let own = variable.replacen("KAUDIT_", &format!("KAUDIT_{}_", subcommand.to_uppercase()), 1);
        assert!(env == Some(&variable) || (alone && env == Some(&own)), "{subcommand} --{long}: {env:?}");
        // These commands have too few options to need headings.
        assert!(alone || arg.get_help_heading().is_some(), "{long}");
        let help = arg.get_help().unwrap().to_string();
        assert!(help.starts_with(char::is_uppercase) && !help.ends_with('.'), "{long}: {help}");
    }
    cli::command().debug_assert();
}

#[test]
fn help_is_complete() {
    let mut command = cli::command().term_width(100);
    insta::assert_snapshot!("help", command.render_help());
    command.build();
    insta::assert_snapshot!("help_check", command.find_subcommand_mut("check").unwrap().render_help());
}

#[test]
fn usage_errors_are_helpful() {
    let cases = [&["--fail-on", "maybe"][..], &["-o", "jsn"], &["--includ", "pods"], &["--sync-timeout", "60"]];
    insta::assert_snapshot!(table(&cases, |arguments| run(arguments).unwrap_err()));
}

#[test]
fn completions_contain_the_options() {
    for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
        let mut script = Vec::new();
        cli::completions(shell, &mut script).unwrap();
        assert!(String::from_utf8(script).unwrap().contains("fail-on"), "{shell}");
    }
}

#[test]
fn the_page_of_a_fleet_is_on_loopback() {
    let fleet = |address: &str| {
        let argv = ["kaudit", "fleet", "--nats", "nats://127.0.0.1:4222", "--listen-ui", address].map(OsString::from);
        load(argv).map_err(|error| error.render().to_string())
    };
    assert!(fleet("127.0.0.1:8083").is_ok() && fleet("localhost:8083").is_ok());
    let refused = fleet("0.0.0.0:8083").unwrap_err();
    assert!(
        refused.contains("would show the page to everyone who can connect") && !refused.contains("--ui-auth"),
        "{refused}"
    );
}
