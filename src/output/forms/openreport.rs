//! The reports that the long run would write, as one list for `kubectl apply -f -`. A namespace without results has one as well:
//! it takes the place of an earlier report.

use std::io;

use crate::{
    audit::result::AuditResult,
    output::{format::RenderOptions, safe::write_json_pretty},
    record::reports,
};

/// Writes a `List`, whose items have fail, warn and error.
pub(crate) fn render(result: &AuditResult, options: &RenderOptions, out: &mut dyn io::Write) -> io::Result<()> {
    let items = reports::of_results(&result.results, result.namespaces.keys(), options.report_name.as_deref());
    write_json_pretty(&mut *out, &serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
    out.write_all(b"\n")
}
