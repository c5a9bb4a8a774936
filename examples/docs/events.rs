//! The reference of Events: their reasons and annotations, from the constants.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{
    markdown::{Page, code, table},
    source,
};

/// Returns the reference of Events.
pub(crate) fn reference(root: &Path) -> Result<String> {
    let mut page = Page::new("Events");
    page.add(
        "kaudit writes Events of `events.k8s.io/v1` with the action `Audit` and the reporting controller `kaudit`, as far \
         as `--record` and `--events` allow. An Event about a cluster-scoped object is in the namespace `default`.",
    );
    for (heading, path) in
        [("Reasons", "src/record/event_reasons.rs"), ("Annotations", "src/record/events/annotations.rs")]
    {
        let file = source::read(root, path)?;
        let constants = source::constants(&file);
        ensure!(!constants.is_empty(), "{path} has no constants");
        page.add(&format!("## {heading}"));
        page.add(&source::doc(&file.attrs));
        let name = heading.trim_end_matches('s').to_lowercase();
        page.add(&table(
            [&name, "meaning"],
            constants.iter().map(|constant| [code(&constant.value), constant.doc.clone()]),
        ));
    }
    Ok(page.finish())
}
