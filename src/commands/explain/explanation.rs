//! What is explained: the one model that text and JSON are made from.

use std::{io, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    field,
    trace::{self, TracedBody},
};
use crate::{
    audit::result::{About, Entry},
    cluster::identity::API_VERSION,
    commands::test::{explain::Explainer, masking::SecretMask},
    judge::evaluate::{Asked, Job, asked},
    model::object::{Location, ObjectRef},
    output::safe::write_json_pretty,
    rego::{excerpt, file::File},
    source::received::Secrets,
};

/// How long may be asked about one definition. Somebody waits for nothing but that.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a rule comes to its result for an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explained {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) resource: ObjectRef,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) location: Option<Location>,
    pub(super) policy: Arc<str>,
    pub(super) rule: Arc<str>,
    pub(super) about: About,
    /// What the rule finds; nothing if the object passes.
    pub(super) results: Vec<Entry>,
    /// When what it finds was first seen, as reports in the cluster say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    /// Why the rule is not asked about the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_asked: Option<String>,
    /// The field to mend, as a path: what the only result names itself, or else the one that the conditions which hold look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    pub(super) definitions: Vec<TracedDefinition>,
}

/// Explanations of one rule for several objects of one name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExplanationList<'e> {
    api_version: &'static str,
    kind: &'static str,
    items: &'e [Explained],
}

/// Writes one explanation, or a list of several, as an indented document and a newline.
pub(super) fn write_json(all: &[Explained], out: &mut dyn io::Write) -> io::Result<()> {
    match all {
        [one] => write_json_pretty(&mut *out, one)?,
        items => {
            let list = ExplanationList { api_version: API_VERSION, kind: "ExplanationList", items };
            write_json_pretty(&mut *out, &list)?;
        }
    }
    out.write_all(b"\n")
}

/// One definition of the rule.
#[derive(Debug, Serialize)]
pub(super) struct TracedDefinition {
    pub(super) file: Arc<str>,
    /// Its first line, from 1.
    pub(super) line: u32,
    /// As it is written.
    pub(super) lines: Vec<String>,
    pub(super) bodies: Vec<TracedBody>,
}

impl Explained {
    /// Adds how each definition comes out; `texts` are the files of the policies. Unless policies see the values of Secrets,
    /// strings that may be secrets are hidden.
    ///
    /// # Errors
    /// When the object cannot be read.
    pub(super) fn trace(&mut self, job: &Job, texts: &[File], secrets: Secrets) -> Result<(), String> {
        let question = match asked(job, &self.policy, &self.rule)? {
            Some(Asked::With(question)) => question,
            Some(Asked::No(why)) => {
                self.not_asked = Some(why);
                return Ok(());
            }
            None => return Ok(()),
        };
        let engine = question.engine();
        let mask = (secrets == Secrets::Redact).then(|| SecretMask::of(&question.input));
        let mut fields = Vec::new();
        for definition in question.definitions {
            let path = definition.module.package.refr.span().source.get_path().clone();
            let text = texts.iter().find(|file| *file.shown == *path).map_or("", |file| &file.text);
            let explainer = Explainer::of(&engine, &definition.module, (&path, text), PATIENCE).masked(mask.as_ref());
            let queries = trace::queries(&definition.rule);
            let bodies: Vec<_> = queries.iter().map(|query| trace::body(&explainer, query)).collect();
            let held = queries.iter().zip(&bodies).filter(|(_, body)| body.holds.is_some_and(|ways| ways > 0));
            // Where there are several ways, each may lead to another field.
            let field =
                |body: &TracedBody, query| (body.holds == Some(1)).then(|| field::mended(&explainer, query, &question));
            fields.extend(held.map(|(query, body)| field(body, query).flatten()));
            let (line, lines) = excerpt::lines(&definition.rule, &text.lines().collect::<Vec<_>>());
            self.definitions.push(TracedDefinition { file: path.as_str().into(), line, lines, bodies });
        }
        // Where several hold, each may be about another field.
        if let [only] = &self.results[..] {
            let followed = if let [Some(field)] = &fields[..] { Some(field.as_str()) } else { None };
            self.field = only.field().or(followed).map(str::to_owned);
        }
        Ok(())
    }

    /// Returns the field to mend for a result.
    pub(super) fn field_of<'e>(&'e self, entry: &'e Entry) -> Option<&'e str> {
        entry.field().or(self.field.as_deref())
    }
}
