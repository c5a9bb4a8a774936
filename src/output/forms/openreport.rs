//! The reports that a watch writes into the cluster, as one list for `kubectl apply -f -`. A namespace without results
//! has a report as well, which replaces an earlier one.

use std::io;

use crate::{
    audit::result::AuditResult,
    output::{format::RenderOptions, safe::write_json_pretty},
    record::reports,
};

/// Writes a `List` of reports with the results that are fail, warn or error.
pub(crate) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let items = reports::of_results(&result.results, result.namespaces.keys(), options.report_name.as_deref());
    write_json_pretty(&mut *out, &serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
    out.write_all(b"\n")
}
