//! What is written into the cluster: Events, reports and the `Audit` status.
//!
//! Recorders take deltas and overviews from the pipeline, at their own pace and within bounds: a slow or refusing API
//! server costs records, which are counted, never judging.

pub mod events;
pub mod recorders;
pub mod reports;
pub mod status;
pub mod term;

/// What recorders have to say about themselves; empty while all is well. Shown as the condition `Recording`.
pub type Health = tokio::sync::watch::Sender<String>;

/// What recorders say of themselves in the condition `Recording`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// What is wrong; empty while all is well.
    pub trouble: String,
    /// What is to be known all the same.
    pub note: String,
}

/// What to do about a write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// It may work later.
    Later,
    /// It will not, and that is in order: the namespace or object is going away, or the record is there already.
    Normal(&'static str),
    /// It will not until somebody changes something.
    Refused(&'static str),
}

fn failure(error: &kube::Error) -> Failure {
    let kube::Error::Api(status) = error else { return Failure::Later };
    let terminating = || {
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    };
    match status.code {
        409 if status.reason == "AlreadyExists" => Failure::Normal("already_exists"),
        403 if terminating() => Failure::Normal("namespace_terminating"),
        404 => Failure::Normal("not_found"),
        403 => Failure::Refused("forbidden"),
        400 | 422 => Failure::Refused("invalid"),
        // Also 401: a token that was rotated is read anew within a minute.
        _ => Failure::Later,
    }
}
