//! Judging: a pure function of an object and the policies.

use std::sync::Arc;

use crate::{object::Object, policy::PolicySet, verdict::Verdict};

/// What is judged.
#[derive(Debug, Clone)]
pub struct Job {
    /// The object as it is now.
    pub object: Object,
    /// The object as it was before the change, where a policy asks for it.
    pub previous: Option<Object>,
    /// The policies to judge by.
    pub policies: Arc<PolicySet>,
}

/// Judges one object.
pub fn evaluate(job: &Job) -> Verdict {
    Verdict {
        key: job.object.key.clone(),
        uid: job.object.uid.clone(),
        results: Vec::new(),
        passed: 0,
        policies: job.policies.digest,
        took: std::time::Duration::ZERO,
    }
}
