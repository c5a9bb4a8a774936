//! Exceptions in simulated clusters: a namespace is excused from a policy.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::server::At;

/// The directory of exceptions in files.
pub const EXCEPTION_FILES: &str = "exceptions";
/// API version and kind of exceptions.
pub const EXCEPTIONS: (&str, &str) = ("kaudit.dev/v1alpha1", "PolicyException");

/// An exception.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Excuse {
    /// The policy's name.
    pub policy: String,
    /// The namespace's number.
    pub namespace: u8,
    /// Whether it is a file of the operators, instead of an object of the team.
    pub by_file: bool,
    /// The end, in seconds since the epoch.
    pub expires: Option<i64>,
}

impl Excuse {
    /// Returns the policy and the namespace.
    pub fn key(&self) -> (String, String) {
        (self.policy.clone(), format!("ns{}", self.namespace))
    }

    /// Returns its end, if it has one.
    pub fn end(&self) -> Option<Timestamp> {
        self.expires.and_then(|seconds| Timestamp::from_second(seconds).ok())
    }

    /// Returns the path of its file.
    pub fn file(&self) -> String {
        format!("{EXCEPTION_FILES}/{}-{}.yaml", self.policy, self.namespace)
    }

    /// Returns it as an object, which is also the content of the file.
    pub fn exception(&self) -> Value {
        let (policy, namespace) = self.key();
        let end = self.end().map_or_else(|| "2099-12-31".to_owned(), |end| end.to_string());
        json!({"apiVersion": EXCEPTIONS.0, "kind": EXCEPTIONS.1,
            "metadata": {"name": self.name(), "namespace": namespace},
            "spec": {"policies": [{"name": policy}], "reason": "agreed", "expiresAt": end}})
    }

    /// Calls `f` with the location of the object.
    pub fn with_at<T>(&self, f: impl FnOnce(At<'_>) -> T) -> T {
        f((EXCEPTIONS.0, EXCEPTIONS.1, &self.key().1, &self.name()))
    }

    fn name(&self) -> String {
        format!("from-{}", self.policy.to_lowercase().replace('_', "-"))
    }
}
