//! What to do about a write that failed: the one place that classifies the API server's errors for all recorders.

/// What to do about a write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteFailure {
    /// It may work later.
    Later,
    /// It will not, which is not a failure: the namespace or object is being deleted, or the record exists already.
    Normal(&'static str),
    /// It will not until someone fixes the cause.
    Refused(&'static str),
}

impl WriteFailure {
    /// Classifies an error; the text in the result is the reason for metrics.
    pub(super) fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Later };
        let terminating = || {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
        };
        match status.code {
            409 if status.reason == "AlreadyExists" => Self::Normal("already_exists"),
            403 if terminating() => Self::Normal("namespace_terminating"),
            404 => Self::Normal("not_found"),
            403 => Self::Refused("forbidden"),
            400 | 422 => Self::Refused("invalid"),
            // Also 401: a rotated token is read again within a minute.
            _ => Self::Later,
        }
    }
}
