//! Audits in files, as `kaudit check -o json` writes them.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{
    audit::result::{AuditResult, KIND},
    cli::diff::DiffSide,
    cluster::identity::API_VERSION,
    judge::sources::PolicySource,
};

/// What a document says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
}

/// Reads an audit; `None` if the side is something else: policies.
///
/// # Errors
/// When the file is an audit and cannot be read as one.
pub(super) fn read(side: &DiffSide) -> anyhow::Result<Option<AuditResult>> {
    let DiffSide::Source(PolicySource::Path(path)) = side else { return Ok(None) };
    if path.extension().is_none_or(|extension| extension != "json") || !path.is_file() {
        return Ok(None);
    }
    let shown = || format!("reading the audit {}", path.display());
    let text = fs::read(path).with_context(shown)?;
    let Some(head) = head(&text, path)? else { return Ok(None) };
    anyhow::ensure!(
        head.api_version == API_VERSION,
        "{} is an audit of {}, and this kaudit reads those of {API_VERSION}",
        path.display(),
        head.api_version
    );
    let mut audit: AuditResult = serde_json::from_slice(&text).with_context(shown)?;
    // Whoever wrote it may have changed it.
    audit.sort();
    Ok(Some(audit))
}

/// Returns the head of an audit; `None` if the document says that it is something else.
///
/// # Errors
/// When it says nothing: neither policies nor an audit are such a file.
fn head(text: &[u8], path: &Path) -> anyhow::Result<Option<Head>> {
    match serde_json::from_slice::<Head>(text) {
        Ok(head) => Ok((head.kind == KIND).then_some(head)),
        Err(why) if why.is_data() => Ok(None),
        Err(why) => Err(why).with_context(|| format!("reading {}", path.display())),
    }
}
