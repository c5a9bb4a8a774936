//! The fields of a `ValidatingPolicy` that a `ValidatingAdmissionPolicy` does not have.

use serde::Deserialize;

/// What a policy says about its evaluation.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KyvernoSpec {
    evaluation: Option<EvaluationSpec>,
    autogen: Option<AutogenSpec>,
    validation_actions: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EvaluationSpec {
    mode: Option<String>,
    background: Option<BackgroundScan>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct BackgroundScan {
    enabled: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AutogenSpec {
    pod_controllers: Option<PodControllers>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodControllers {
    controllers: Option<Vec<String>>,
}

impl KyvernoSpec {
    /// Whether its objects are not those of Kubernetes.
    pub(super) fn is_of_json(&self) -> bool {
        self.evaluation.as_ref().and_then(|evaluation| evaluation.mode.as_deref()) == Some("JSON")
    }

    /// Whether it is evaluated on requests only.
    pub(super) fn ignores_existing(&self) -> bool {
        let background = self.evaluation.as_ref().and_then(|evaluation| evaluation.background.as_ref());
        background.and_then(|switch| switch.enabled) == Some(false)
    }

    /// Returns the actions; without any, Kyverno denies.
    pub(super) fn actions(&self) -> Vec<String> {
        let given = self.validation_actions.clone().filter(|actions| !actions.is_empty());
        given.unwrap_or_else(|| vec!["Deny".to_owned()])
    }

    /// Returns the resources of the workloads to which a policy for Pods is extended; `None` for all of them.
    pub(super) fn controllers(&self) -> Option<&[String]> {
        self.autogen.as_ref()?.pod_controllers.as_ref()?.controllers.as_deref()
    }
}
