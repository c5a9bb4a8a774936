//! The job about an object that the object of another job would create.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{admission_policies::read_json, job::Job};
use crate::model::{
    body::Body,
    object::{Object, ObjectKey},
};

/// Returns the job about the object that the job's object would create, and the path of the part from which it is
/// generated, if a policy covers that object and not the job's own.
pub(crate) fn generated_job(job: &Job, policy: &str) -> Option<(Job, String)> {
    let set = &*job.policies;
    let kind = &job.object.key.kind;
    let is_about = |kind: &str| set.policies.iter().any(|one| *one.name == *policy && one.matches.matches(kind));
    if is_about(&kind.kind) {
        return None;
    }
    let (object, _) = read_json(&job.object).ok()?;
    let expansion = set.expansions.of(kind).find(|expansion| is_about(&expansion.kind))?;
    let (key, generated) = expansion.generate(&job.object.key, &object)?;
    Some((of_generated(job, key, &generated), expansion.path.join(".")))
}

/// Returns the job about an object that the job's object would create.
pub(super) fn of_generated(job: &Job, key: ObjectKey, generated: &Json) -> Job {
    let object = Object {
        key,
        uid: Arc::default(),
        resource_version: "".into(),
        body: Body::plain(generated.to_string().as_bytes()),
        projected: None,
        ..job.object.clone()
    };
    Job { object, previous: None, ..job.clone() }
}
