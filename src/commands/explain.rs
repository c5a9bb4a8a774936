//! `kaudit explain`: how a rule comes to its result for one object.
//!
//! In: a rule and an object, or the id of a result. Out: the rule's source with the values that it had, the results, and the
//! field to change if that is certain. The object is evaluated as in `kaudit check`; then the rule is traced, as
//! `kaudit test` traces a failing test.

mod described;
mod explanation;
mod expressions;
mod objects;
mod text;
mod trace;

use std::{collections::HashMap, sync::Arc};

use anyhow::Context as _;
use jiff::Timestamp;
use kube::Client;
use tokio::task::{block_in_place, spawn_blocking};

use self::{
    explanation::Explained,
    objects::{LoadedObjects, Wanted},
};
use crate::{
    audit::{
        fingerprint::Fingerprint,
        ledger::Id,
        recorded::RecordedObject,
        result::{About, Entry},
    },
    cli::explain::{ExplainArgs, ExplainFormat},
    cluster::identity::API_VERSION,
    judge::{
        evaluate::{Job, evaluate, generated_job},
        files,
        load_options::LoadOptions,
        policy::Policy,
        rule::Rule,
        set::PolicySet,
    },
    model::{
        object::{MOST_OWNERS, Object, ObjectRef},
        spelling::nearest,
    },
    output::{RenderOptions, print},
    record::reports,
    rego::File,
    run::{policies, sources::PolicySources},
    source::{received::Secrets, selection::KindPattern},
};

/// The rule or result to explain.
enum ExplainTarget {
    /// A rule, without an object.
    OnlyRule(String),
    /// A result.
    Result(ResultId),
    /// A rule for an object.
    Rule { kind: KindPattern, namespace: Option<String>, name: String, rule: String },
}

/// The id of a result.
#[derive(Debug, Clone, Copy)]
enum ResultId {
    /// As in results and baselines.
    Result(Fingerprint),
    /// As in Events, reports and notifications.
    Violation(Id),
}

/// Runs `kaudit explain`; returns the exit code.
///
/// # Errors
/// If the object, rule or result does not exist, with the nearest name; or if nothing can be read.
pub async fn run(options: ExplainArgs) -> anyhow::Result<u8> {
    let target = ExplainTarget::parse(&options.what)?;
    let ExplainArgs { policies, reading, cluster, .. } = &options;
    let sources = PolicySources::chosen(&policies.sources, reading, cluster, None, crate::output::note).await?.now();
    let expands_pods = reading.expand.applies(!options.manifests.filename.is_empty());
    let load_options = LoadOptions { expands_pods, ..options.policies.evaluation.load_options(reading) };
    let policies = Arc::new(policies::load(&sources, &load_options).await??);
    let (jobs, rule, client) = match target {
        ExplainTarget::OnlyRule(wanted) => {
            let rule = find_rule(&policies, &wanted).with_context(|| {
                format!("{wanted:?} is not a result id (16 hexadecimal digits in results, 32 in Events and reports)")
            })?;
            let rendering = RenderOptions::for_stdout(options.log.color);
            print(|out| described::render(rule, options.output, &rendering, out))?;
            return Ok(0);
        }
        ExplainTarget::Rule { kind, namespace, name, rule } => {
            let (policy, rule) = find_rule(&policies, &rule)?;
            let wanted = Wanted { kind: &kind, namespace: namespace.as_deref(), name: &name };
            let objects = LoadedObjects::of_one(&options, &policies, policy, &wanted).await?;
            (objects.jobs(&objects.find(&wanted)?), (Arc::clone(&policy.name), Arc::clone(&rule.name)), objects.client)
        }
        ExplainTarget::Result(id) => {
            let objects = LoadedObjects::all(&options, &policies).await?;
            let (object, entry) = block_in_place(|| find_result(&objects, id))?;
            (objects.jobs(&objects.copies(object)), (entry.policy, entry.rule), objects.client)
        }
    };
    if let [(first, _), _, ..] = &jobs[..] {
        let (kind, number) = (&first.object.key.kind.kind, jobs.len());
        crate::output::note(&format!(
            "the manifests have {number} objects {kind} {}: each is explained",
            first.object.key.path()
        ));
    }
    let read = spawn_blocking(move || files::read(&sources, &load_options.limits).0);
    let texts: Arc<[File]> = read.await.context("reading the policies")?.into();
    let mut all = Vec::new();
    for (job, owner) in jobs {
        let created = job.object.body.created();
        let given = (Arc::clone(&texts), options.manifests.secrets);
        let mut explained = explain(job, owner, rule.clone(), given).await?;
        explained.since = match &client {
            Some(client) if !explained.results.is_empty() => since(client, &explained, created).await,
            _ => None,
        };
        all.push(explained);
    }
    print(|out| match options.output {
        ExplainFormat::Text => text::render(&all, &RenderOptions::for_stdout(options.log.color), out),
        ExplainFormat::Json => explanation::write_json(&all, out),
    })?;
    Ok(0)
}

/// Returns when the earliest of the results was first seen, according to reports in the cluster, but not before the
/// object was `created`.
async fn since(client: &Client, explained: &Explained, created: Option<Timestamp>) -> Option<Timestamp> {
    let rule = (&explained.policy, &explained.rule);
    let results = reports::reported(client, &explained.resource).await;
    let mut reported = RecordedObject { object: explained.resource.clone(), results };
    reported.correct_times(created);
    let same = reported.results.iter().filter(|known| (&known.finding.rule.policy, &known.finding.rule.name) == rule);
    same.map(|known| known.since).min()
}

impl ExplainTarget {
    fn parse(what: &[String]) -> anyhow::Result<Self> {
        match what {
            [word] => {
                let known = Fingerprint::parse(word).map(ResultId::Result);
                let known = known.or_else(|| Id::parse(word).map(ResultId::Violation));
                Ok(known.map_or_else(|| Self::OnlyRule(word.clone()), Self::Result))
            }
            [kind, name, rule] => {
                let (namespace, name) =
                    name.split_once('/').map_or((None, name.as_str()), |(own, name)| (Some(own), name));
                Ok(Self::Rule {
                    kind: kind.parse().map_err(anyhow::Error::msg)?,
                    namespace: namespace.filter(|own| !own.is_empty()).map(str::to_owned),
                    name: name.to_owned(),
                    rule: rule.clone(),
                })
            }
            _ => anyhow::bail!(
                "name a rule, a result by its id, or KIND NAME RULE, such as Deployment shop/web deny_latest"
            ),
        }
    }
}

/// Finds a rule by `policy/rule`, or by its own name if only one policy has such a rule.
fn find_rule<'p>(policies: &'p PolicySet, wanted: &str) -> anyhow::Result<(&'p Policy, &'p Rule)> {
    let full = |policy: &Policy, rule: &Rule| format!("{}/{}", policy.name, rule.name);
    let all = || policies.policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
    let is_meant = |(policy, rule): &(&Policy, &Rule)| {
        if wanted.contains('/') {
            full(policy, rule) == wanted
        } else {
            &*rule.name == wanted || rule.metadata.ids().any(|id| id.eq_ignore_ascii_case(wanted))
        }
    };
    let found: Vec<_> = all().filter(is_meant).collect();
    match &found[..] {
        [only] => Ok(*only),
        [] => {
            let names: Vec<String> = all().map(|(policy, rule)| full(policy, rule)).collect();
            let last = |name: &&String| name.rsplit('/').next() == wanted.rsplit('/').next();
            let near = names.iter().find(last).map(String::as_str).or_else(|| {
                let short = names.iter().find(|name| {
                    let own = name.rsplit('/').next().unwrap_or_default();
                    nearest(wanted.rsplit('/').next().unwrap_or_default(), [own]).is_some()
                });
                nearest(wanted, names.iter().map(String::as_str)).or(short.map(String::as_str))
            });
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            anyhow::bail!("no rule {wanted} is in force{near}\n  help: kaudit policies lists all rules")
        }
        several => {
            let names: Vec<String> = several.iter().map(|(policy, rule)| full(policy, rule)).collect();
            anyhow::bail!("{wanted} is a rule of several policies: name {}", names.join(" or "))
        }
    }
}

/// Finds a result among those of all objects, and its object.
fn find_result(objects: &LoadedObjects, id: ResultId) -> anyhow::Result<(&Object, Entry)> {
    let by_uid = objects.by_uid();
    for object in &objects.all {
        let owner = topmost_owner(object, &by_uid);
        let Object { key, uid, location, .. } = object;
        let resource = Arc::new(ObjectRef::new(key, uid));
        for finding in evaluate(&objects.job(object)).results {
            let entry = Entry::new(&finding, &resource, location.as_ref(), owner.as_ref());
            let is_it = match id {
                ResultId::Result(id) => entry.id == id,
                ResultId::Violation(id) => Id::new(&resource, &finding) == id,
            };
            if is_it {
                return Ok((object, entry));
            }
        }
    }
    let unread = objects.unread.first().map_or(String::new(), |why| format!("; not everything could be read: {why}"));
    anyhow::bail!(
        "none of {} objects has a result with this id by these policies{unread}\n  help: a resolved violation has no \
         result any more; use the policies and manifests of that audit",
        objects.all.len()
    )
}

impl LoadedObjects {
    /// Returns the evaluation job of each of these objects, with its topmost owner.
    fn jobs(&self, objects: &[&Object]) -> Vec<(Job, Option<Arc<ObjectRef>>)> {
        let by_uid = self.by_uid();
        objects.iter().map(|object| (self.job(object), topmost_owner(object, &by_uid))).collect()
    }
}

/// Returns the topmost controller of an object, as far as its owners were read.
fn topmost_owner<'o>(object: &'o Object, by_uid: &HashMap<&str, &'o Object>) -> Option<Arc<ObjectRef>> {
    let owner = |object: &&'o Object| by_uid.get(&*object.controller.as_ref()?.uid).copied();
    let owners = std::iter::successors(owner(&object), owner);
    owners.take(MOST_OWNERS).last().map(|owner| Arc::new(ObjectRef::new(&owner.key, &owner.uid)))
}

/// Evaluates an object that has this topmost owner.
fn entries(job: &Job, owner: Option<&Arc<ObjectRef>>) -> Vec<Entry> {
    let Object { key, uid, location, .. } = &job.object;
    let resource = Arc::new(ObjectRef::new(key, uid));
    evaluate(job).results.iter().map(|finding| Entry::new(finding, &resource, location.as_ref(), owner)).collect()
}

/// Explains a rule for an object, on a blocking thread.
async fn explain(
    job: Job,
    owner: Option<Arc<ObjectRef>>,
    rule: (Arc<str>, Arc<str>),
    (texts, secrets): (Arc<[File]>, Secrets),
) -> anyhow::Result<Explained> {
    let explaining = spawn_blocking(move || explained(&job, owner.as_ref(), rule, &texts, secrets));
    explaining.await.context("explaining failed, which is a bug")?
}

fn explained(
    job: &Job,
    owner: Option<&Arc<ObjectRef>>,
    (policy, rule): (Arc<str>, Arc<str>),
    texts: &[File],
    secrets: Secrets,
) -> anyhow::Result<Explained> {
    let found = job.policies.policies.iter().filter(|known| known.name == policy);
    let found = found.into_iter().find_map(|known| known.rules.iter().find(|one| one.name == rule));
    let about = found.map(|found| About::from(&*found.metadata)).unwrap_or_default();
    let results = entries(job, owner).into_iter().filter(|entry| entry.policy == policy && entry.rule == rule);
    let results = results.collect();
    let Object { key, uid, location, .. } = &job.object;
    let generated = generated_job(job, &policy);
    let mut explained = Explained {
        api_version: API_VERSION,
        kind: "Explanation",
        resource: ObjectRef::new(key, uid),
        generated: generated.as_ref().map(|(Job { object, .. }, _)| ObjectRef::new(&object.key, &object.uid)),
        location: location.clone(),
        policy,
        rule,
        about,
        results,
        since: None,
        not_asked: None,
        not_reported: None,
        field: None,
        definitions: Vec::new(),
    };
    let traced = generated.as_ref().map_or(job, |(generated, _)| generated);
    explained.trace(traced, texts, secrets).map_err(anyhow::Error::msg)?;
    if let (Some((_, path)), Some(field)) = (&generated, &explained.field)
        && !field.starts_with(path)
    {
        explained.field = Some(format!("{path}.{field}"));
    }
    Ok(explained)
}
