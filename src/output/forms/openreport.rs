//! The reports that the long run would write, as one list for `kubectl apply -f -`.

use std::io;

use crate::{audit::result::AuditResult, output::safe::write_json_pretty, record::reports};

/// Writes a `List`, whose items have fail, warn and error.
pub(crate) fn render(result: &AuditResult, out: &mut dyn io::Write) -> io::Result<()> {
    let items = reports::of_results(&result.results);
    write_json_pretty(&mut *out, &serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
    out.write_all(b"\n")
}
