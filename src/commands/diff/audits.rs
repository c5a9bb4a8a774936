//! Audits in files, as `kaudit check` writes them with `-o json` or `-o ndjson`.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::{
    audit::result::{AuditResult, KIND},
    cli::diff::DiffSide,
    cluster::identity::API_VERSION,
    judge::sources::PolicySource,
    run::document::UnpackedFile,
};

/// Reads an audit; `None` if the side is policies.
///
/// # Errors
/// If the file cannot be read, or is neither a valid audit nor policies.
pub(super) fn read(side: &DiffSide) -> anyhow::Result<Option<AuditResult>> {
    let DiffSide::Source(PolicySource::Path(path)) = side else { return Ok(None) };
    // Anything but a directory may be a pipe from the shell, which can be read only once.
    let is_policies =
        path.extension().is_some_and(|extension| ["rego", "yaml", "yml"].iter().any(|own| extension == *own));
    if is_policies || path.is_dir() {
        return Ok(None);
    }
    let shown = || format!("reading {}", path.display());
    let document = UnpackedFile::read(path).with_context(shown)?;
    let Some(value) = parse(&document, path)? else { return Ok(None) };
    let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    anyhow::ensure!(
        version == API_VERSION,
        "{} is an audit of {version}, and this kaudit reads those of {API_VERSION}",
        path.display()
    );
    let mut audit: AuditResult =
        serde_json::from_value(value.into()).with_context(|| format!("reading the audit {}", path.display()))?;
    // The file may have been edited.
    audit.sort();
    Ok(Some(audit))
}

/// Returns the fields of an audit; `None` if the document is something else.
///
/// # Errors
/// If it is neither an audit nor policies, or an audit that is cut off.
fn parse(document: &UnpackedFile, path: &Path) -> anyhow::Result<Option<Map<String, Value>>> {
    let content = &document.content;
    match serde_json::from_slice::<Value>(content) {
        Ok(Value::Object(fields)) => {
            let is_audit = fields.get("kind").is_some_and(|kind| kind == KIND);
            anyhow::ensure!(
                !is_audit || fields.contains_key("results") || is_last_line(&fields),
                "{} is an audit without results",
                path.display()
            );
            return if is_audit { Ok(Some(with_results(fields, Vec::new()))) } else { Ok(None) };
        }
        Ok(_) => return Ok(None),
        Err(_) => {}
    }
    let lines = serde_json::Deserializer::from_slice(content).into_iter::<Value>().collect::<Result<Vec<_>, _>>();
    match lines {
        Ok(mut lines) if lines.len() > 1 => match lines.pop() {
            Some(Value::Object(last)) if last.get("kind").is_some_and(|kind| kind == KIND) => {
                Ok(Some(with_results(last, lines)))
            }
            _ if is_result(&lines[0]) => anyhow::bail!(
                "{} has results but no last line with the kind {KIND}: it is cut off, or the output of a watch",
                path.display()
            ),
            _ => Ok(None),
        },
        Err(why) if content.trim_ascii_start().starts_with(b"{") => {
            Err(why).with_context(|| format!("reading {}", path.display()))
        }
        _ => anyhow::bail!("{} is neither an audit (kaudit check -o json) nor policies", path.display()),
    }
}

/// Whether it is the last line of `ndjson`, which by itself is an audit without results.
fn is_last_line(fields: &Map<String, Value>) -> bool {
    fields.contains_key("summary") && fields.contains_key("policies")
}

fn is_result(line: &Value) -> bool {
    line.get("policy").is_some() && line.get("resource").is_some()
}

fn with_results(mut fields: Map<String, Value>, results: Vec<Value>) -> Map<String, Value> {
    fields.entry("results").or_insert(Value::Array(results));
    fields
}
