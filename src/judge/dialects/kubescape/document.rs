//! The JSON documents of a library in Kubescape's layout: rule metadata, controls, frameworks, config inputs.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::judge::resource_match::ResourceMatch;
use crate::{
    model::verdict::Severity,
    rego::{File, Problem, analysis::data},
};

/// The fields of `rule.metadata.json` that kaudit uses.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RuleMetadata {
    pub(crate) name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) attributes: Map<String, Value>,
    #[serde(default)]
    pub(crate) rule_language: String,
    /// The kinds that it is evaluated on.
    #[serde(rename = "match", default, deserialize_with = "or_default")]
    pub(crate) matching: Vec<ResourceMatch>,
    /// Its inputs that are not objects of the cluster.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) dynamic_match: Vec<ResourceMatch>,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) remediation: String,
}

impl RuleMetadata {
    /// Returns an attribute that is a string; `None` for others.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)?.as_str()
    }
}

/// A control: a requirement that rules check, and its severity.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Control {
    #[serde(rename = "controlID")]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) remediation: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) attributes: Map<String, Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) rules_names: Vec<String>,
    #[serde(default)]
    pub(crate) base_score: f64,
    #[serde(default)]
    pub(crate) category: Option<Category>,
    #[serde(default)]
    pub(crate) references: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) scanning_scope: Option<ScanningScope>,
    /// Config inputs that this control sets for its rules, overriding the user's.
    #[serde(default)]
    pub(crate) fixed_input: Option<FixedInput>,
    /// The file that defines it.
    #[serde(skip)]
    pub(crate) file: Arc<str>,
}

/// Config inputs by name.
pub(crate) type FixedInput = BTreeMap<String, Value>;

/// The category of a control.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Category {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) sub_category: Option<Box<Self>>,
}

/// The scope of a control: `cluster`, `file`, or a cloud.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct ScanningScope {
    #[serde(default)]
    pub(crate) matches: Vec<String>,
}

impl Control {
    /// Returns its severity, which Kubescape derives from the score.
    pub(crate) fn severity(&self) -> Option<Severity> {
        match self.base_score {
            score if score >= 9.0 => Some(Severity::Critical),
            score if score >= 7.0 => Some(Severity::High),
            score if score >= 4.0 => Some(Severity::Medium),
            score if score >= 1.0 => Some(Severity::Low),
            _ => None,
        }
    }

    /// Whether it applies to any cluster, not only to those of one cloud.
    pub(crate) fn is_for_any_cluster(&self) -> bool {
        let scopes = self.scanning_scope.as_ref().map_or(&[][..], |scope| &scope.matches);
        scopes.is_empty() || scopes.iter().any(|scope| scope == "cluster" || scope == "file")
    }
}

/// A framework: a selection of controls, some of them with modified texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Framework {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) active_controls: Vec<ActiveControl>,
    /// In older libraries: names instead of ids.
    #[serde(default)]
    pub(crate) controls_names: Vec<String>,
}

/// A control of a framework.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ActiveControl {
    #[serde(rename = "controlID")]
    pub(crate) id: String,
    /// Fields that the framework overrides.
    #[serde(default)]
    pub(crate) patch: Map<String, Value>,
}

/// Treats `null` as the default.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A JSON file of a library.
pub(crate) enum LibraryDocument {
    Control(Box<Control>),
    Framework(Framework),
    /// `postureControlInputs` and `dataControlInputs`.
    Inputs(BTreeMap<String, Map<String, Value>>),
}

/// The documents of `data` that configure rules.
pub(crate) const INPUTS: [&str; 2] = ["postureControlInputs", "dataControlInputs"];

/// Reads a file if it is a control, a framework or config inputs.
///
/// # Errors
/// If the keys are those of one of them, but a field has a wrong type.
pub(crate) fn read(file: &File) -> Result<Option<LibraryDocument>, Problem> {
    // Avoids parsing most files.
    let known = ["controlID", "activeControls", "controlsNames", "ControlInputs"];
    if !known.iter().any(|word| file.text.contains(word)) {
        return Ok(None);
    }
    let Ok([document]) = <[Value; 1]>::try_from(data::documents(file).unwrap_or_default()) else { return Ok(None) };
    let has = |key: &str| document.get(key).is_some();
    let wrong = |why: serde_json::Error| Problem::refused(&file.shown, why.to_string());
    if has("controlID") && has("rulesNames") {
        let control = serde_json::from_value::<Control>(document).map_err(wrong)?;
        return Ok(Some(LibraryDocument::Control(Box::new(Control { file: file.shown.clone(), ..control }))));
    }
    if has("name") && (has("activeControls") || has("controlsNames")) {
        return serde_json::from_value(document)
            .map(|framework| Some(LibraryDocument::Framework(framework)))
            .map_err(wrong);
    }
    let settings = document.get("settings").unwrap_or(&document);
    let inputs: BTreeMap<_, _> =
        INPUTS.iter().filter_map(|key| Some(((*key).to_owned(), settings.get(*key)?.as_object()?.clone()))).collect();
    let is_inputs = !inputs.is_empty() && file.directories.is_empty() || has("settings") && !inputs.is_empty();
    Ok(is_inputs.then_some(LibraryDocument::Inputs(inputs)))
}
