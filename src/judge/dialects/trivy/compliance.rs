//! Trivy's compliance specifications: frameworks whose controls name checks by their ids.
//!
//! Input: YAML or JSON files with `spec.controls`, as in `specs/compliance` of Trivy's checks. Output: a table of each
//! framework, named by `spec.id`.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    judge::frameworks::{FrameworkTable, TableControl, id_of_control},
    rego::{File, Form, analysis::data},
};

#[derive(Deserialize)]
struct Specification {
    spec: SpecificationFields,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecificationFields {
    id: String,
    title: String,
    #[serde(default)]
    related_resources: Vec<String>,
    controls: Vec<SpecifiedControl>,
}

#[derive(Deserialize)]
struct SpecifiedControl {
    id: Value,
    name: String,
    #[serde(default)]
    checks: Option<Vec<CheckId>>,
}

#[derive(Deserialize)]
struct CheckId {
    id: String,
}

/// Returns the framework that a file specifies; `None` for other files.
pub(crate) fn framework(file: &File) -> Option<FrameworkTable> {
    // Avoids parsing most files.
    if file.form == Form::Rego || !["spec", "controls", "checks"].iter().all(|word| file.text.contains(word)) {
        return None;
    }
    let [document] = <[_; 1]>::try_from(data::documents(file).ok()?).ok()?;
    let Specification { spec } = serde_json::from_value(document).ok()?;
    let SpecificationFields { id, title, related_resources, controls } = spec;
    let controls = controls.into_iter().filter_map(|SpecifiedControl { id, name, checks }| {
        let checks: Vec<String> = checks.into_iter().flatten().map(|check| check.id).collect();
        let unchecked = checks.is_empty().then(|| "the specification names no check for it".to_owned());
        Some(TableControl { id: id_of_control(&id)?, title: name, unchecked, checks, ..TableControl::default() })
    });
    let link = related_resources.into_iter().next();
    Some(FrameworkTable { name: id, title, version: None, link, aliases: Vec::new(), controls: controls.collect() })
}
