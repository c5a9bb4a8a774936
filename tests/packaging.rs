//! Consistency of the shipped files: the Dockerfile, the release scripts, the chart, its CRD, and the binary.
//!
//! Only reads files; nothing is built.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::CommandFactory;
use kaudit::{
    audit::result::Summary,
    cli::Cli,
    model::{
        coverage::{Coverage, State},
        verdict::Severity,
    },
    rego::analysis::yaml,
};
use serde_json::Value;

const DOCKERFILE: &str = include_str!("../Dockerfile");
const CARGO_TOML: &str = include_str!("../Cargo.toml");
const WORKLOAD: &str = include_str!("../charts/kaudit/templates/workload.yaml");
const VALUES: &str = include_str!("../charts/kaudit/values.yaml");

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

fn yaml(text: &str) -> Value {
    yaml::from_str(text).unwrap()
}

/// Returns the words after the only instruction with a name in the Dockerfile.
fn instruction(name: &str) -> Vec<&'static str> {
    let lines = DOCKERFILE.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let found: Vec<_> = lines.collect();
    let [one] = found[..] else { panic!("{name}: {found:?}") };
    one.split_whitespace().collect()
}

/// Returns the files at or below a path of the repository, as paths in it.
fn files(path: &str) -> Vec<String> {
    let full = root().join(path);
    if full.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(&full).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.iter().flat_map(|name| files(&format!("{path}/{name}"))).collect()
}

/// What the image contains is tested by `tests/cluster/image.rs`, if it has been built.
#[test]
fn the_image_has_the_user_of_the_chart_and_the_builtin_library() {
    assert_eq!(instruction("FROM"), ["scratch"]);
    assert_eq!(instruction("ENTRYPOINT"), ["[\"/kaudit\"]"]);
    assert_eq!(instruction("CMD"), ["[\"check\"]"]);
    let [user] = instruction("USER")[..] else { panic!() };
    let (user, group) = user.split_once(':').unwrap();
    let [user, group] = [user, group].map(|id| id.parse::<u64>().unwrap());
    assert!(user > 0 && group > 0);
    let context = &yaml(VALUES)["podSecurityContext"];
    assert_eq!((&context["runAsUser"], &context["runAsGroup"]), (&user.into(), &group.into()));
    // The chart names it, and without `--policies` the binary uses it in an empty directory.
    assert!(WORKLOAD.contains("- --policies=builtin{{"));
    assert!(arguments().find("policies").get_default_values().is_empty());
}

#[test]
fn releases_are_the_optimized_build() {
    assert!(include_str!("../.ci/release/binary").contains("profile=${PROFILE:-dist}\n"));
    let (_, dist) = CARGO_TOML.split_once("[profile.dist]\n").unwrap();
    let dist: Vec<_> = dist.split("\n\n").next().unwrap().lines().collect();
    assert!(dist.contains(&"lto = \"fat\"") && dist.contains(&"codegen-units = 1"), "{dist:?}");
}

#[test]
fn there_is_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(yaml(include_str!("../charts/kaudit/Chart.yaml"))["appVersion"], version);
    assert_eq!(yaml(include_str!("../charts/kaudit-fleet/Chart.yaml"))["appVersion"], version);
    assert_eq!(yaml(include_str!("../action.yml"))["inputs"]["version"]["default"], version);
    let own = format!("version = \"{version}\"");
    assert!(include_str!("../src/rego/Cargo.toml").lines().any(|line| line == own));
    assert!(CARGO_TOML.contains(&format!("kaudit-rego = {{ path = \"src/rego\", {own} }}")));
    let cel = include_str!("../src/cel/Cargo.toml");
    assert!(cel.lines().any(|line| line == own));
    assert!(cel.contains(&format!("kaudit-rego = {{ path = \"../rego\", {own} }}")));
}

/// The options of `kaudit check`.
struct Arguments(clap::Command);

fn arguments() -> Arguments {
    Arguments(Cli::command().find_subcommand("check").unwrap().clone())
}

impl Arguments {
    fn find(&self, long: &str) -> &clap::Arg {
        let found = self.0.get_arguments().find(|argument| argument.get_long() == Some(long));
        found.unwrap_or_else(|| panic!("there is no --{long}"))
    }

    fn has_environment(&self, name: &str) -> bool {
        self.0.get_arguments().any(|argument| argument.get_env().is_some_and(|env| env == name))
    }
}

/// Returns the words after a mark in a text, consisting of certain characters.
fn words<'t>(text: &'t str, mark: &'t str, letter: fn(char) -> bool) -> impl Iterator<Item = &'t str> {
    text.split(mark).skip(1).map(move |rest| &rest[..rest.find(|other| !letter(other)).unwrap_or(rest.len())])
}

#[test]
fn the_chart_uses_options_that_exist() {
    let arguments = arguments();
    let options = |text: &'static str| {
        let found = words(text, "--", |letter| letter.is_ascii_lowercase() || letter == '-');
        found.filter(|option| option.starts_with(|letter: char| letter.is_ascii_lowercase())).collect::<BTreeSet<_>>()
    };
    let used = options(WORKLOAD);
    assert!(used.is_superset(&["listen", "namespace", "policies", "record"].into()), "{used:?}");
    for option in used.iter().chain(&options(VALUES)) {
        arguments.find(option);
    }
    for file in files("charts").into_iter().chain(["Dockerfile".to_owned()]) {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        for name in words(&text, "KAUDIT_", |letter| letter.is_ascii_uppercase() || letter == '_') {
            assert!(arguments.has_environment(&format!("KAUDIT_{name}")), "{file}: KAUDIT_{name}");
        }
    }
    let record = arguments.find("record").get_possible_values();
    for word in yaml(VALUES)["record"].as_array().unwrap() {
        assert!(record.iter().any(|value| value.get_name() == word), "{word}");
    }
    let audit = arguments.find("audit-name").get_default_values();
    assert_eq!(audit, [yaml(VALUES)["auditName"].as_str().unwrap()]);
}

/// Returns the only version of the CRD.
fn audits() -> Value {
    let crd = yaml(include_str!("../charts/kaudit/crds/audits.kaudit.dev.yaml"));
    let [version] = crd["spec"]["versions"].as_array().unwrap().as_slice() else { panic!("{crd}") };
    assert_eq!(version["name"], kaudit::cluster::identity::OWN_VERSION);
    version.clone()
}

/// Returns the schema at a path of the status, with `[]` for the items of a list.
fn properties(path: &str) -> Value {
    let mut schema = audits()["schema"]["openAPIV3Schema"]["properties"]["status"].clone();
    for step in path.split('/').filter(|step| !step.is_empty()) {
        schema = if step == "[]" { schema["items"].clone() } else { schema["properties"][step].clone() };
    }
    schema["properties"].clone()
}

#[test]
fn kubectl_shows_the_columns() {
    let columns = audits()["additionalPrinterColumns"].clone();
    let columns = columns.as_array().unwrap();
    let shown = |wide: bool| {
        let columns = columns.iter().filter(|column| wide || column["priority"].as_u64().unwrap_or_default() == 0);
        columns.map(|column| column["name"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(shown(false), ["Complete", "Policies", "Critical", "High", "Fail", "Warn", "Excused", "Age"]);
    let wide = ["Synced", "Kinds", "Objects", "Medium", "Low", "Error"];
    assert_eq!(shown(true), [&shown(false)[..7], &wide[..], &["Age"]].concat());
    // A column with an invalid path stays empty.
    for column in columns {
        let path = column["jsonPath"].as_str().unwrap();
        if let Some(count) = path.strip_prefix(".status.summary.") {
            let (parent, count) = count.split_once('.').unwrap_or(("", count));
            assert_eq!(properties(&format!("summary/{parent}"))[count]["type"], column["type"], "{column}");
        }
    }
}

#[test]
fn the_status_fits_the_schema() {
    // New states must be added here.
    let states = [State::Synced, State::Excluded, State::Syncing, State::TimedOut, State::Failed, State::Forbidden];
    for state in states {
        match state {
            State::Synced | State::Excluded | State::Syncing | State::TimedOut | State::Failed | State::Forbidden => {}
        }
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    let known = properties("coverage/[]")["state"]["enum"].clone();
    let known: BTreeSet<_> = known.as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(known, states.iter().map(|state| state.as_str()).collect());

    let coverage = Coverage {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        resource: "pods".to_owned(),
        state: State::Synced,
        objects: 1,
        inactive: 0,
        message: String::new(),
    };
    for (path, written) in [
        ("coverage/[]", serde_json::to_value(coverage).unwrap()),
        ("summary", serde_json::to_value(Summary::default()).unwrap()),
    ] {
        for key in written.as_object().unwrap().keys() {
            // The server drops unknown fields.
            assert!(properties(path).get(key).is_some(), "{path}/{key}");
        }
    }
}

#[test]
fn the_conditions_are_the_documented_ones() {
    let described = properties("")["conditions"]["description"].clone();
    let (words, described) =
        ("The conditions ", described.as_str().unwrap().trim_end_matches('.').replace(" and ", ", "));
    let conditions = ["Synced", "PoliciesLoaded", "Complete", "Recording", "ExceptionsValid", "MemoryPressure"];
    assert_eq!(described.strip_prefix(words).unwrap().split(", ").collect::<Vec<_>>(), conditions);
    let recorder = include_str!("../src/record/status/conditions.rs");
    for condition in conditions {
        assert!(recorder.contains(&format!("\"{condition}\"")), "{condition}");
    }
}

const CHART_README: &str = include_str!("../charts/kaudit/README.md");

fn schema() -> Value {
    serde_json::from_str(include_str!("../charts/kaudit/values.schema.json")).unwrap()
}

#[test]
fn the_schema_lists_the_parts_of_the_library() {
    let packages = files("policies").into_iter().filter_map(|file| {
        let path = file.strip_prefix("policies/")?.strip_suffix(".rego")?;
        (!path.starts_with("lib/") && !path.ends_with("_test")).then(|| path.replace('/', "."))
    });
    // A part is a package, or a common prefix of packages.
    let parts = packages.flat_map(|package| {
        let ends = package.match_indices('.').map(|(dot, _)| dot).chain([package.len()]).collect::<Vec<_>>();
        ends.into_iter().map(|end| package[..end].to_owned()).collect::<Vec<_>>()
    });
    let parts: BTreeSet<String> = parts.collect();
    let listed = schema()["properties"]["policies"]["properties"]["parts"]["items"]["enum"].clone();
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
    assert_eq!(listed, Vec::from_iter(&parts));
}

#[test]
fn the_schema_lists_the_severities() {
    let listed = schema()["definitions"]["severity"]["enum"].clone();
    let severities: Vec<_> = Severity::ALL.iter().map(|severity| Value::from(severity.word())).collect();
    assert_eq!(listed.as_array().unwrap(), &severities);
}

/// Returns the paths of all values that are not mappings, or empty mappings.
fn paths_of_values(prefix: &str, value: &Value) -> Vec<String> {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        None => vec![prefix.to_owned()],
        Some(fields) => {
            let dot = if prefix.is_empty() { "" } else { "." };
            fields.iter().flat_map(|(name, value)| paths_of_values(&format!("{prefix}{dot}{name}"), value)).collect()
        }
    }
}

#[test]
fn each_value_is_in_the_schema_and_in_the_table_of_the_readme() {
    let (_, table) = CHART_README.split_once("| value | default | |\n|---|---|---|\n").unwrap();
    let names = table.lines().take_while(|line| line.starts_with('|')).flat_map(|row| {
        let first = row.trim_start_matches('|').split('|').next().unwrap();
        first.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect::<Vec<_>>()
    });
    let documented: BTreeSet<String> = names.collect();
    let schema = schema();
    for path in paths_of_values("", &yaml(VALUES)) {
        let parents = path.match_indices('.').map(|(dot, _)| &path[..dot]).chain([path.as_str()]);
        assert!(parents.into_iter().any(|path| documented.contains(path)), "README has no row for {path}");
        let mut known = &schema;
        for step in path.split('.') {
            // A schema without properties allows any.
            let Some(properties) = known.get("properties") else { break };
            known = properties.get(step).unwrap_or_else(|| panic!("the schema has no {path}"));
        }
    }
    for name in &documented {
        let pointer = format!("/{}", name.replace('.', "/"));
        assert!(yaml(VALUES).pointer(&pointer).is_some(), "README has a row for {name}, which is no value");
    }
}

#[test]
fn each_alert_has_a_runbook() {
    let alerts: Vec<_> = include_str!("../charts/kaudit/templates/prometheusrule.yaml")
        .lines()
        .filter_map(|line| line.strip_prefix("- alert: "))
        .collect();
    let runbooks = include_str!("../docs/operate/runbooks.md");
    let sections: Vec<_> = runbooks.lines().filter_map(|line| line.strip_prefix("## Kaudit")).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    for alert in &alerts {
        assert!(sections.contains(&alert.trim_start_matches("Kaudit")), "{alert}");
    }
    assert_eq!(sections.len(), alerts.len(), "{sections:?}");
}

/// Returns all Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn shipped_code_contains_no_unsafe() {
    assert!(CARGO_TOML.contains("\n[lints]\nworkspace = true\n"));
    let (_, lints) = CARGO_TOML.split_once("[workspace.lints.rust]\n").unwrap();
    assert!(lints.split("\n[").next().unwrap().lines().any(|line| line == "unsafe_code = \"forbid\""));
    // A forbidden lint cannot be allowed again, but a separate target without lints could contain unsafe code.
    let sources = sources(&root().join("src"));
    assert!(sources.len() > 50);
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("unsafe {") && !text.contains("unsafe_code"), "{}", path.display());
    }
}
