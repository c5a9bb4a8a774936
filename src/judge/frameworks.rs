//! Frameworks of controls, such as the CIS Benchmark: the tables of the library, and the selectors of `--framework`.
//!
//! A rule names the controls that it serves in METADATA `custom.frameworks`. A framework needs no table for that: without
//! one, its controls are those that rules name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::builtin;
use crate::{
    model::spelling::nearest,
    rego::{
        Problem,
        analysis::yaml::{self, YamlDialect},
    },
};

/// The tables of the library.
const TABLES: [&str; 3] = ["frameworks/cis-1.12.yaml", "frameworks/nsa-1.2.yaml", "frameworks/pss.yaml"];
const UNKNOWN: &str = "no framework has this name";

/// The ids of controls, by framework.
pub type FrameworkControls = BTreeMap<Arc<str>, Vec<Arc<str>>>;

/// The controls of a framework: as in `policies/frameworks`, or of a library that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkTable {
    /// The key of the table in its file.
    #[serde(skip)]
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its version, if it has versions.
    pub version: Option<String>,
    /// A page about it.
    pub link: Option<String>,
    /// Other names for it.
    pub(crate) aliases: Vec<String>,
    /// In the order of the framework.
    pub controls: Vec<TableControl>,
}

/// A control of a framework.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableControl {
    /// Its id, unique in the framework.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The part that rules do not cover.
    pub partial: Option<String>,
    /// Why rules cannot decide it.
    pub unchecked: Option<String>,
    /// Controls that are selected with it, as a level includes another one.
    #[serde(default)]
    pub(crate) includes: Vec<String>,
    /// The ids of the rules that serve it, besides those that name it in their METADATA.
    #[serde(default)]
    pub(crate) checks: Vec<String>,
}

impl FrameworkTable {
    /// Finds a table by its name or one of its other names.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        tables().iter().find(|table| table.names().any(|own| own.eq_ignore_ascii_case(name)))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        [self.name.as_str()].into_iter().chain(self.aliases.iter().map(String::as_str))
    }

    fn control(&self, id: &str) -> Option<&TableControl> {
        self.controls.iter().find(|control| control.id.eq_ignore_ascii_case(id))
    }

    /// Finds a table by its name or one of its other names, first among those of libraries.
    pub(crate) fn find<'t>(of_libraries: &'t [Self], name: &str) -> Option<&'t Self> {
        of_libraries.iter().find(|table| table.names().any(|own| own.eq_ignore_ascii_case(name))).or(Self::named(name))
    }

    /// Returns its name, and those of its levels.
    fn selectors(&self) -> Vec<String> {
        let has_levels = self.controls.iter().any(|control| !control.includes.is_empty());
        let levels = self.controls.iter().filter(|_| has_levels);
        let levels = levels.map(|control| format!("{}:{}", self.name, control.id));
        [self.name.clone()].into_iter().chain(levels).collect()
    }
}

fn tables() -> &'static [FrameworkTable] {
    static TABLES_BY_NAME: LazyLock<Vec<FrameworkTable>> = LazyLock::new(|| {
        let table = |path: &&str| -> Option<Vec<FrameworkTable>> {
            let named =
                yaml::single(builtin::file(path)?, YamlDialect::Settings).and_then(|root| root.deserialize()).ok()?;
            let named: BTreeMap<String, FrameworkTable> = named;
            Some(named.into_iter().map(|(name, table)| FrameworkTable { name, ..table }).collect())
        };
        TABLES.iter().filter_map(table).flatten().collect()
    });
    &TABLES_BY_NAME
}

/// Whether both names are of the same framework.
pub(crate) fn is_same(name: &str, other: &str) -> bool {
    let table = |name: &str| FrameworkTable::named(name).map(|table| &table.name);
    name.eq_ignore_ascii_case(other) || table(name).is_some() && table(name) == table(other)
}

/// Returns the id of a control, which may be a number in YAML.
pub(crate) fn id_of_control(id: &Value) -> Option<String> {
    match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Returns the controls in the value of METADATA `custom.frameworks`: a list for each framework.
pub(crate) fn controls_in(value: Option<&Value>) -> FrameworkControls {
    let text = |id: &Value| id_of_control(id).map(Arc::from);
    let frameworks = value.and_then(Value::as_object).into_iter().flatten();
    frameworks
        .map(|(name, ids)| (name.as_str().into(), ids.as_array().into_iter().flatten().filter_map(text).collect()))
        .collect()
}

/// Returns what is wrong with the value of METADATA `custom.frameworks`, and how to fix it.
pub(crate) fn mistake_in(value: &Value) -> Option<(String, String)> {
    let help = "write {NAME: [CONTROL]}, for example {cis-1.12: [\"5.1.1\"]}".to_owned();
    let Some(frameworks) = value.as_object().filter(|names| names.values().all(Value::is_array)) else {
        return Some(("custom.frameworks must be a mapping from frameworks to lists of controls".to_owned(), help));
    };
    if let Some(name) = frameworks.keys().find(|name| name.trim().is_empty() || name.contains(':')) {
        let help = "use a name without \":\", which separates a framework from a control in --framework".to_owned();
        let message = format!("custom.frameworks has the name {name:?}, which --framework cannot select");
        return Some((message, help));
    }
    frameworks.keys().filter_map(|name| FrameworkTable::named(name)).find_map(|table| {
        let controls = controls_in(Some(value));
        let own = controls.iter().filter(|(name, _)| is_same(name, &table.name)).flat_map(|(_, ids)| ids);
        let unknown = own.into_iter().find(|id| table.control(id).is_none())?;
        let near = nearest(unknown, table.controls.iter().map(|control| control.id.as_str()));
        let help = near.map_or(help.clone(), |near| format!("did you mean {near}?"));
        Some((format!("the framework {} has no control {unknown}", table.name), help))
    })
}

/// A framework, or single controls of it, as given to `--framework`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameworkSelector {
    /// As given, for example `cis` or `pss:baseline`.
    written: Arc<str>,
    /// The name of the framework.
    pub framework: Arc<str>,
    /// The selected controls; `None` selects all.
    controls: Option<BTreeSet<Arc<str>>>,
}

impl FrameworkSelector {
    /// Parses `FRAMEWORK` or `FRAMEWORK:CONTROL`; `FRAMEWORK-CONTROL` if there is a table with such a control.
    pub(crate) fn new(written: &str) -> Self {
        let whole = |name: &str| Self { written: written.into(), framework: name.into(), controls: None };
        if let Some(table) = FrameworkTable::named(written) {
            return whole(&table.name);
        }
        let names = tables().iter().flat_map(|table| table.names().map(move |name| (table, name)));
        let of_table = names.filter_map(|(table, name)| {
            let own = written.get(..name.len()).filter(|own| own.eq_ignore_ascii_case(name))?;
            table.control(written[own.len()..].strip_prefix([':', '-'])?).map(|control| (table, control))
        });
        if let Some((table, control)) = of_table.last() {
            let ids = [&control.id].into_iter().chain(&control.includes).map(|id| id.as_str().into());
            return Self { controls: Some(ids.collect()), ..whole(&table.name) };
        }
        match written.split_once(':') {
            Some((name, control)) if FrameworkTable::named(name).is_none() => {
                Self { controls: Some([control.into()].into()), ..whole(name) }
            }
            _ => whole(written),
        }
    }

    /// Whether it selects a control.
    pub(crate) fn selects(&self, framework: &str, control: &str) -> bool {
        is_same(framework, &self.framework)
            && self.controls.as_ref().is_none_or(|own| own.iter().any(|id| id.eq_ignore_ascii_case(control)))
    }

    /// Whether it selects a rule that serves these controls.
    pub(crate) fn takes(&self, controls: &FrameworkControls) -> bool {
        controls.iter().any(|(framework, ids)| ids.iter().any(|id| self.selects(framework, id)))
    }

    /// Returns the library's table of the framework.
    pub fn table(&self) -> Option<&'static FrameworkTable> {
        tables().iter().find(|table| *table.name == *self.framework)
    }

    /// Returns the problem that no source has this framework; `known` are the names that sources have.
    pub(crate) fn unknown(&self, known: BTreeSet<String>) -> Problem {
        let known: BTreeSet<String> = tables().iter().flat_map(FrameworkTable::selectors).chain(known).collect();
        let list = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let aliases = tables().iter().flat_map(FrameworkTable::names);
        let help = match nearest(&self.written, known.iter().map(String::as_str).chain(aliases)) {
            Some(near) => format!("did you mean {near}? Known frameworks: {list}"),
            None => format!("known frameworks: {list}"),
        };
        Problem::refused(&option(&self.written), UNKNOWN).help(help)
    }
}

/// Returns the option that chooses a framework, as written on the command line.
pub(crate) fn option(name: &str) -> Arc<str> {
    format!("--framework {name}").into()
}

/// Whether the problem is that of an unknown framework.
pub(crate) fn is_unknown(problem: &Problem) -> bool {
    problem.message == UNKNOWN
}

/// How rules cover a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ControlCoverage {
    /// As far as objects show it.
    Full,
    /// Some of it.
    Partial,
    /// No rule in force checks it.
    None,
}

impl TableControl {
    /// Returns how a control is covered, and what is missing, if rules in force serve it or not.
    pub fn coverage(&self, is_served: bool) -> (ControlCoverage, Option<&str>) {
        match (&self.partial, &self.unchecked) {
            (Some(missing), _) if is_served => (ControlCoverage::Partial, Some(missing)),
            _ if is_served => (ControlCoverage::Full, None),
            (_, Some(why)) => (ControlCoverage::None, Some(why)),
            _ => (ControlCoverage::None, Some("no rule in force checks it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::judge::set::PolicySet;

    #[test]
    fn each_control_is_covered_by_the_library_or_says_why_not() {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let library = PolicySet::load(&[library]).unwrap();
        assert!(library.problems.is_empty(), "{:?}", library.problems);
        let mut served = BTreeSet::new();
        for rule in library.policies.iter().flat_map(|policy| &policy.rules) {
            for (framework, controls) in rule.metadata.frameworks() {
                let table = tables().iter().find(|table| *table.name == *framework);
                let table = table.unwrap_or_else(|| panic!("{}: there is no framework {framework}", rule.name));
                for id in controls {
                    assert!(table.control(&id).is_some(), "{}: {framework} has no control {id}", rule.name);
                    served.insert(format!("{framework} {id}"));
                }
            }
        }
        assert_eq!(tables().len(), TABLES.len());
        let mut missing = BTreeSet::new();
        for table in tables() {
            assert_eq!(
                table.controls.iter().map(|control| &control.id).collect::<BTreeSet<_>>().len(),
                table.controls.len()
            );
            for TableControl { id, partial, unchecked, .. } in &table.controls {
                let name = format!("{} {id}", table.name);
                if served.contains(&name) {
                    assert!(unchecked.is_none() || partial.is_some(), "{name} is covered: say which part is not");
                } else if unchecked.is_none() {
                    missing.insert(name);
                }
            }
        }
        assert_eq!(missing, BTreeSet::new());
        assert_eq!(FrameworkTable::named("cis").unwrap().controls.len(), 35);
    }

    #[test]
    fn names_select_frameworks_and_their_controls() {
        let of = |framework: &str, control: &str| FrameworkControls::from([(framework.into(), vec![control.into()])]);
        for (written, framework, control, takes) in [
            ("cis", "cis-1.12", "5.1.1", true),
            ("CIS-v1.12.0", "cis-1.12", "5.1.1", true),
            ("cis-1.12", "cis", "5.1.1", true),
            ("cis:5.1.1", "cis-1.12", "5.1.1", true),
            ("cis-1.12-5.1.1", "cis-1.12", "5.1.1", true),
            ("cis:5.1.1", "cis-1.12", "5.1.10", false),
            ("cis", "nsa-1.2", "rbac", false),
            ("pss", "pss", "restricted", true),
            ("pss:baseline", "pss", "baseline", true),
            ("pss-baseline", "pss", "restricted", false),
            ("pss:restricted", "pss", "baseline", true),
            ("acme", "Acme", "A.1", true),
            ("acme:a.1", "acme", "A.1", true),
            ("acme:A.2", "acme", "A.1", false),
            ("acm", "acme", "A.1", false),
        ] {
            assert_eq!(FrameworkSelector::new(written).takes(&of(framework, control)), takes, "{written} {control}");
        }
        // A framework without controls in METADATA has no rule.
        assert!(!FrameworkSelector::new("default").takes(&FrameworkControls::from([("default".into(), vec![])])));
    }

    #[test]
    fn controls_are_read_and_mistakes_are_named() {
        let value = json!({"cis-1.12": ["5.1.1"], "acme": [1, "b", null]});
        let want = [("acme", vec!["1", "b"]), ("cis-1.12", vec!["5.1.1"])];
        let want = want.map(|(name, ids)| (Arc::from(name), ids.into_iter().map(Arc::from).collect()));
        assert_eq!(controls_in(Some(&value)), FrameworkControls::from(want));
        assert_eq!(mistake_in(&value), None);
        for (value, message, help) in [
            (json!(["cis"]), "must be a mapping", "{NAME: [CONTROL]}"),
            (json!({"cis": "5.1.1"}), "must be a mapping", "{NAME: [CONTROL]}"),
            (json!({"": ["A.1"]}), "the name \"\", which --framework cannot select", "use a name without \":\""),
            (json!({"acme:2": ["A.1"]}), "the name \"acme:2\"", "separates a framework from a control"),
            (json!({"pss": ["basline"]}), "the framework pss has no control basline", "did you mean baseline?"),
            (json!({"cis": ["5.1.99"]}), "the framework cis-1.12 has no control 5.1.99", "did you mean 5.1."),
        ] {
            let (found, fix) = mistake_in(&value).unwrap();
            assert!(found.contains(message) && fix.contains(help), "{found} {fix}");
        }
    }
}
