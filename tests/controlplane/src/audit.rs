//! The audit log of the API server.
//!
//! The server writes a line before it responds, so an answered request is always in the log.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::Deserialize;

use crate::plane::ControlPlane;

/// The audit policy: every finished request of all users but the API server itself, without bodies.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [
    {"level": "None", "users": ["system:apiserver"]},
    {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
    {"level": "Metadata"}
  ]
}
"#;

/// A request that the API server has answered, or a watch that it has started to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The id of the request, the same in all records of it.
    pub audit_id: String,
    /// `ResponseStarted` for a watch in progress, else `ResponseComplete`, or `Panic`.
    pub stage: String,
    /// The RBAC verb: get, list, watch, create, patch and so on.
    pub verb: String,
    /// The path and query.
    pub request_uri: String,
    /// The user.
    pub user: String,
    /// The user agent of the client.
    pub user_agent: String,
    /// The resource, as in a URL; empty for non-resource requests.
    pub resource: String,
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The subresource, for example `status`; empty for the whole object.
    pub subresource: String,
    /// The namespace; empty for all and for cluster-scoped objects.
    pub namespace: String,
    /// The object's name; empty for lists.
    pub name: String,
    /// The HTTP status, or 0 if there was none.
    pub code: u16,
    /// When the request arrived.
    pub received: Timestamp,
    /// When it was answered; for a watch, when the response started.
    pub answered: Timestamp,
}

/// A position in the audit log to continue from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditPosition(u64);

impl ControlPlane {
    /// Returns all requests so far, each once, in the order of their first records.
    ///
    /// # Errors
    ///
    /// If the cluster is an existing one, or the log cannot be read.
    pub fn audit_log(&self) -> Result<Vec<AuditRecord>> {
        self.audit_log_since(AuditPosition::default())
    }

    /// Returns the requests recorded after `position`; an earlier watch is included when it ends.
    ///
    /// # Errors
    ///
    /// If the cluster is an existing one, or the log cannot be read.
    pub fn audit_log_since(&self, position: AuditPosition) -> Result<Vec<AuditRecord>> {
        let mut file = match File::open(&self.own()?.audit_log) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        file.seek(SeekFrom::Start(position.0))?;
        let mut log = Vec::new();
        file.read_to_end(&mut log)?;
        parse(&log)
    }

    /// Returns the current end of the audit log.
    ///
    /// # Errors
    ///
    /// If the cluster is an existing one, or the log cannot be read.
    pub fn audit_position(&self) -> Result<AuditPosition> {
        match std::fs::read(&self.own()?.audit_log) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(AuditPosition(0)),
            // After the last complete line: the rest of a partial one may follow.
            log => Ok(AuditPosition(whole_lines(&log?).len() as u64)),
        }
    }
}

fn whole_lines(log: &[u8]) -> &[u8] {
    &log[..log.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)]
}

fn parse(log: &[u8]) -> Result<Vec<AuditRecord>> {
    let mut records: Vec<AuditRecord> = Vec::new();
    let mut places = HashMap::new();
    for line in whole_lines(log).split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // A server killed during a write leaves a partial line, which the first line of the next one continues.
        let start = line.windows(START.len()).rposition(|part| part == START).unwrap_or_default();
        let event: AuditEvent = serde_json::from_slice(&line[start..])
            .with_context(|| format!("audit line {}", String::from_utf8_lossy(line)))?;
        let record = AuditRecord::from(event);
        if let Some(place) = places.get(&record.audit_id) {
            let AuditRecord { answered, .. } = records[*place];
            records[*place] = AuditRecord { answered, ..record };
        } else {
            places.insert(record.audit_id.clone(), records.len());
            records.push(record);
        }
    }
    Ok(records)
}

/// The start of each line.
const START: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/"#;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: EventUser,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct EventUser {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    api_group: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<AuditEvent> for AuditRecord {
    fn from(event: AuditEvent) -> Self {
        Self {
            audit_id: event.audit_id,
            stage: event.stage,
            verb: event.verb,
            request_uri: event.request_uri,
            user: event.user.username,
            user_agent: event.user_agent,
            resource: event.object_ref.resource,
            api_group: event.object_ref.api_group,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            code: event.response_status.code,
            received: event.request_received_timestamp,
            answered: event.stage_timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, stage: &str) -> String {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"{id}","stage":"{stage}","verb":"watch","requestURI":"/api/v1/pods","user":{{"username":"u"}},"requestReceivedTimestamp":"2026-11-23T05:37:55.100000Z","stageTimestamp":"2026-11-23T05:37:{}.000000Z"}}"#,
            if stage == "ResponseComplete" { "59" } else { "56" }
        )
    }

    #[test]
    fn a_watch_is_one_record_with_its_last_stage() {
        let stages = ["ResponseStarted", "ResponseComplete"];
        let log = stages.map(|stage| line("a", stage) + "\n").concat();
        let records = parse(log.as_bytes()).expect("valid lines");
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].stage, "ResponseComplete");
        assert_eq!(records[0].answered.to_string(), "2026-11-23T05:37:56Z");
    }

    #[test]
    fn a_partly_written_line_waits_for_its_rest() {
        let log = line("a", "ResponseComplete") + "\n" + &line("b", "ResponseComplete")[..70];
        let records = parse(log.as_bytes()).expect("one valid line");
        assert_eq!(records.len(), 1);
    }

    #[test]
    fn a_piece_left_by_a_killed_server_is_skipped() {
        let whole = line("b", "ResponseComplete");
        let log = whole[..70].to_owned() + &whole + "\n";
        assert_eq!(parse(log.as_bytes()).expect("one valid line").len(), 1);
    }
}
