//! Advice for users who type commands and options of similar tools.

use clap::{
    Command,
    builder::{StyledStr, Styles},
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::model::spelling::nearest;

/// Commands of other tools, and the advice for users of each.
const COMMANDS: [(&str, &str); 12] = [
    ("audit", CHECK),
    ("apply", CHECK),
    ("eval", CHECK),
    ("inspect", "to list the policies: kaudit policies"),
    ("k8s", CHECK),
    ("lint", CHECK),
    ("list", "to list the policies: kaudit policies"),
    ("run", CHECK),
    ("scan", CHECK),
    ("validate", CHECK),
    ("verify", "to run the tests of policies: kaudit test"),
    ("watch", "to watch a cluster: kaudit check"),
];
const CHECK: &str = "to check files: kaudit check -f FILE; to check a cluster once: kaudit check --once";

/// Options of other tools, and their equivalents in kaudit.
const OPTIONS: &[(&str, &str)] = &[
    ("--data", "data files go beside the policies, as .json or .yaml: --policies DIR"),
    ("--debug", "for more messages: --verbose, or --log-level debug"),
    ("--dry-run", "without --record, only a watch in a Pod writes into the cluster; to prevent it: --record none"),
    ("--exclude-kind", "--exclude KIND"),
    ("--exclude-namespaces", "--exclude-namespace GLOB"),
    ("--exclude-policy", "--skip-rule POLICY"),
    ("--exclude-rule", "--skip-rule RULE"),
    ("--exit-code", "--fail-on SEVERITY, or none to always exit with 0"),
    ("--file", "--filename FILE"),
    ("--format", "--output FORMAT"),
    ("--ignore", "--skip-rule RULE, --exclude KIND or --exclude-namespace GLOB"),
    ("--ignore-file", "--exceptions FILE, or --baseline FILE"),
    ("--include-namespaces", "--namespace NS"),
    ("--input", "--filename FILE"),
    ("--insecure-skip-tls-verify", "put the cluster's certificate authority into the kubeconfig"),
    ("--json", "--output json"),
    ("--kustomize", "kubectl kustomize DIR | kaudit check -f -"),
    ("--no-fail", "--fail-on none"),
    ("--output-format", "--output FORMAT"),
    ("--policy", "--policies PATH"),
    ("--recursive", "directories are always read recursively: leave it out"),
    ("--rule", "--skip-rule RULE leaves a rule out; to check with some only: --policies builtin:PART"),
    ("--select", "to check with some rules only: --policies builtin:PART"),
    ("--severity", "--min-severity SEVERITY selects what is reported, --fail-on SEVERITY the exit code"),
    ("--severity-threshold", "--fail-on SEVERITY"),
    ("--show-passes", "passes are counted, not listed; -o junit has a case for each rule"),
    ("--token", "credentials are those of the kubeconfig: --kubeconfig FILE, --context NAME"),
    ("--trace", "kaudit explain shows how a rule comes to its result"),
    ("--watch", "a cluster is watched unless --once is given: leave it out"),
    ("-R", "directories are always read recursively: leave it out"),
    ("-i", "-f FILE"),
    ("-k", "kubectl kustomize DIR | kaudit check -f -"),
    ("-n", "write the namespace before the name: Deployment shop/api"),
    ("-p", "give the paths of policies without an option"),
    ("-w", "a cluster is watched unless --once is given: leave it out"),
];

/// Suggestions by clap that are less similar than this are dropped.
const SIMILAR: f64 = 0.84;

/// Replaces clap's suggestion by advice for commands and options of other tools, and removes a suggestion that is not
/// similar or names a hidden option.
pub(super) fn advise(mut error: clap::Error, command: &Command) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => advise_command(&mut error, command),
        ErrorKind::UnknownArgument => advise_option(&mut error, command),
        _ => {}
    }
    error
}

fn advise_command(error: &mut clap::Error, command: &Command) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let word = word.clone();
    if let Some((_, advice)) = COMMANDS.iter().find(|(name, _)| *name == word) {
        error.remove(ContextKind::SuggestedSubcommand);
        tip(error, advice);
    } else if error.get(ContextKind::SuggestedSubcommand).is_some() {
        let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        if let Some(near) = nearest(&word, names) {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near.to_owned()]));
        }
    }
}

fn advise_option(error: &mut clap::Error, command: &Command) {
    let Some(ContextValue::String(written)) = error.get(ContextKind::InvalidArg) else { return };
    let word = written.split('=').next().unwrap_or_default().to_owned();
    if let Some((_, advice)) = OPTIONS.iter().find(|(name, _)| *name == word) {
        error.remove(ContextKind::SuggestedArg);
        return tip(error, advice);
    }
    // Drop clap's advice to pass the option as a value: that is never what the user wants.
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(near)) = error.get(ContextKind::SuggestedArg) else { return };
    let near = near.split([' ', '=']).next().unwrap_or_default().to_owned();
    let mut arguments = command.get_subcommands().flat_map(Command::get_arguments);
    let is_hidden = arguments.any(|argument| {
        argument.is_hide_set() && argument.get_long().is_some_and(|long| near.strip_prefix("--") == Some(long))
    });
    if is_hidden || strsim::jaro_winkler(&near, &word) < SIMILAR {
        error.remove(ContextKind::SuggestedArg);
    }
}

/// Shows advice instead of other suggestions.
fn tip(error: &mut clap::Error, advice: &str) {
    let styles = Styles::styled();
    let valid = styles.get_valid();
    let text = StyledStr::from(format!("{valid}{advice}{valid:#}"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![text]));
}

/// Returns a warning for each environment variable that begins with `KAUDIT_` and is not a setting.
pub(super) fn unknown_variables(command: &Command, names: impl Iterator<Item = String>) -> Vec<String> {
    let known: Vec<String> = command
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .filter_map(|argument| argument.get_env()?.to_str().map(str::to_owned))
        .collect();
    let mut unknown: Vec<String> = names
        .filter(|name| name.starts_with("KAUDIT_") && !known.contains(name) && !is_of_kubernetes(name))
        .map(|name| {
            let near = nearest(&name, known.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("the environment variable {name} is not a setting of kaudit{near}")
        })
        .collect();
    unknown.sort();
    unknown
}

/// Whether Kubernetes sets this variable in Pods, for a Service whose name begins with kaudit, or kaudit's tests set it.
fn is_of_kubernetes(name: &str) -> bool {
    let of_service = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"].iter().any(|part| name.contains(part));
    of_service || name.ends_with("_PORT") || name.starts_with("KAUDIT_TEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(arguments: &[&str]) -> String {
        let command = crate::cli::command();
        let words = ["kaudit"].iter().chain(arguments);
        let error = command.clone().try_get_matches_from(words).unwrap_err();
        advise(error, &command).render().to_string()
    }

    #[test]
    fn habits_of_other_tools_get_the_right_option() {
        for (written, expected) in [
            ("--format", "tip: --output FORMAT"),
            ("--severity=high", "tip: --min-severity SEVERITY"),
            ("--exit-code", "tip: --fail-on"),
            ("-k", "tip: kubectl kustomize DIR"),
            ("--namespaces", "tip: a similar argument exists: '--namespace'"),
        ] {
            let message = message(&["check", written, "x"]);
            assert!(message.contains(expected), "{message}");
        }
        for written in ["--zzz", "--update-filtr"] {
            let message = message(&["check", written]);
            assert!(!message.contains("similar"), "{message}");
        }
    }

    #[test]
    fn commands_of_other_tools_get_the_right_command() {
        assert!(message(&["scan"]).contains("kaudit check --once"));
        assert!(message(&["verify"]).contains("kaudit test"));
        let polices = message(&["polices"]);
        assert!(polices.contains("'policies'") && !polices.contains("completions"), "{polices}");
    }

    #[test]
    fn advice_names_only_options_that_exist() {
        let command = crate::cli::command();
        let check = command.find_subcommand("check").unwrap();
        let longs: Vec<&str> = check.get_arguments().filter_map(clap::Arg::get_long).collect();
        for (written, advice) in OPTIONS {
            let named = advice.split([' ', ',', ':', ';']).filter_map(|word| word.strip_prefix("--"));
            for long in named {
                assert!(longs.contains(&long), "{written}: {advice}");
            }
            let is_known = longs.iter().any(|long| written.strip_prefix("--") == Some(*long));
            assert!(!is_known, "{written} exists");
        }
    }

    #[test]
    fn unknown_variables_are_reported_except_those_of_kubernetes() {
        let names = [
            "KAUDIT_FAILON",
            "KAUDIT_FAIL_ON",
            "KAUDIT_SERVICE_HOST",
            "KAUDIT_SERVICE_PORT_HTTP",
            "KAUDIT_PORT",
            "KAUDIT_PORT_8080_TCP_ADDR",
            "KAUDIT_PAGE_SERVICE_HOST",
            "PATH",
        ];
        let lines = unknown_variables(&crate::cli::command(), names.iter().map(ToString::to_string));
        assert_eq!(
            lines,
            ["the environment variable KAUDIT_FAILON is not a setting of kaudit; did you mean KAUDIT_FAIL_ON?"]
        );
    }
}
